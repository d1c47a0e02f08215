"""Collections and corpora of ir_datasets, on a dataset that the test registers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from corpora_tools import message

import harness as h

ir_datasets = pytest.importorskip("ir_datasets", reason="pip install 'mathir-harness[ir-datasets]'")
NAME = "irds:harness-test/small"


class Doc(NamedTuple):
    doc_id: str
    title: str
    text: str

    def default_text(self) -> str:
        return f"{self.title} {self.text}"


class Query(NamedTuple):
    query_id: str
    text: str

    def default_text(self) -> str:
        return self.text


class Qrel(NamedTuple):
    query_id: str
    doc_id: str
    relevance: int
    iteration: str = "0"


class Small:
    """What a dataset of ir_datasets can do, as far as the harness asks for it."""

    docs = (
        Doc("d1", "Sums", "of integers"),
        Doc("d2", "Primes", "and sums"),
        Doc("d3", "Groups", "of order p"),
    )
    queries = (
        Query("1", "sums of integers"),
        Query("2", "groups of order p"),
    )
    qrels = (
        Qrel("1", "d1", 2),
        Qrel("1", "d3", -2),
        Qrel("2", "d3", 1),
    )

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        kind, _, what = name.partition("_") if name.startswith("has_") else reversed_partition(name)
        held = getattr(type(self), what if kind == "has" else kind, None)
        if held is None and kind != "has":
            raise AttributeError(name)
        return {"has": lambda: held is not None, "iter": lambda: iter(held or ()), "count": lambda: len(held or ())}[
            kind if kind == "has" else what
        ]


def reversed_partition(name: str) -> tuple[str, str, str]:
    kind, _, what = name.rpartition("_")
    return kind, "_", what


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[Small]:
    registered = Small()
    monkeypatch.setitem(ir_datasets.registry._registered, "harness-test/small", registered)
    yield registered


def test_topics_judgments_and_documents_are_those_of_ir_datasets() -> None:
    collection, corpus = h.load_collection(NAME), h.load_corpus(NAME)
    assert [(topic.id, topic.title) for topic in collection.topics()] == [tuple(query) for query in Small.queries]
    assert collection.qrels().to_dict() == {"1": {"d1": 2, "d3": -2}, "2": {"d3": 1}}
    assert collection.qrels().judged().to_dict() == {"1": {"d1": 2}, "2": {"d3": 1}}
    assert [(doc.id, doc.body) for doc in corpus] == [(doc.doc_id, doc.default_text()) for doc in Small.docs]


def test_a_run_is_made_and_scored_on_them(tmp_path: Path) -> None:
    task = h.task(NAME, NAME, measures=["RR"])
    run = h.produce(h.load_system("bm25"), task, runs=tmp_path)
    assert h.evaluate(task, run).scores[0].mean("RR") == 1.0
    assert [path.name for path in tmp_path.glob("irds-harness-test-small/*.run")] == ["bm25.run"]


def test_another_content_of_the_same_name_is_another_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    before = h.load_corpus(NAME).digest()
    monkeypatch.setattr(Small, "docs", (*Small.docs[:2], Doc("d3", "Groups", "of order q")))
    assert h.load_corpus(NAME).digest() != before


def test_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    assert message(lambda: h.load_collection("irds:no/such")) == (
        "irds:no/such: ir_datasets has no such id; its catalogue: https://ir-datasets.com"
    )
    monkeypatch.setattr(Small, "docs", None)
    assert message(lambda: h.load_corpus(NAME)) == (
        f"{NAME}: this dataset of ir_datasets has no docs; name one that has"
    )
    monkeypatch.setattr(Small, "queries", (1 / each for each in [0]))
    assert message(lambda: h.load_collection(NAME)) == f"{NAME}: ir_datasets: ZeroDivisionError: division by zero"
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    assert message(lambda: h.load_corpus(NAME)).endswith("install it with: pip install 'mathir-harness[ir-datasets]'")
