"""Results of other libraries: what is refused, and the order of equal scores."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from case_tables import table
from hypothesis import given
from hypothesis import strategies as st
from lexical_tools import corpus_of, message

from harness.systems.foreign.results import ForeignResults, run_of

TOPICS = ["T2", "T1"]


def ranked(results: ForeignResults, **how: object) -> dict[str, list[str]]:
    """Documents of each topic in trec_eval's order: float32 score descending, then id descending."""
    run = run_of("x", results, TOPICS, **how)  # type: ignore[arg-type]
    out: dict[str, list[str]] = {}
    for topic, docs in run.to_dict().items():
        out[topic] = sorted(docs, key=lambda doc: (np.float32(docs[doc]), doc), reverse=True)
        assert out[topic] == list(docs)  # the run's own order is the same
    return out


def test_order_of_topics_and_of_equal_scores() -> None:
    results = ForeignResults.of({"T1": [("a", 1), ("c", 2.0), ("b", 2.0)], "T2": [("z", -1.5)]})
    assert ranked(results) == {"T2": ["z"], "T1": ["c", "b", "a"]}
    assert ranked(results, ties="order") == {"T2": ["z"], "T1": ["c", "b", "a"]}
    results = ForeignResults(["T1"] * 3, ["a", "b", "c"], [2.0, 2.0, 2.0], place=[1, 0, 2])
    assert ranked(results) == {"T1": ["c", "b", "a"]}
    assert ranked(results, ties="order") == {"T1": ["b", "a", "c"]}
    assert run_of("x", results, TOPICS).score.tolist() == [2.0] * 3
    separated = run_of("x", results, TOPICS, ties="order").score
    assert separated.tolist() == pytest.approx([2.0] * 3, rel=1e-6)


def test_scores_that_differ_only_as_float64_keep_their_order() -> None:
    close = 16777216.0  # above it, float32 has steps of 2
    results = ForeignResults.of({"T1": [("a", close + 1), ("b", close), ("c", close - 0.25), ("d", 1.0)]})
    assert ranked(results) == {"T1": ["a", "b", "c", "d"]}


@given(st.lists(st.sampled_from([-1.0, 0.0, 1e-40, 0.1, 0.1 + 1e-15, 3.0]), min_size=1, max_size=12), st.randoms())
def test_any_scores_in_any_order(scores: list[float], rng: object) -> None:
    docs = [f"d{n:02}" for n in range(len(scores))]
    rng.shuffle(docs)  # type: ignore[attr-defined]
    results = ForeignResults(["T1"] * len(docs), docs, scores)
    by_id = sorted(zip(scores, docs, strict=True), reverse=True)
    assert ranked(results)["T1"] == [doc for _, doc in by_id]
    by_place = sorted(range(len(docs)), key=lambda n: -scores[n])
    assert ranked(results, ties="order")["T1"] == [docs[n] for n in by_place]


@pytest.mark.parametrize(("rows", "how", "expected"), table("systems/results"))
def test_refused(rows: str, how: str, expected: str) -> None:
    columns = list(zip(*json.loads(rows), strict=True)) or [(), (), ()]
    assert message(lambda: run_of("x", ForeignResults(*columns), TOPICS, **json.loads(how))) == f"system x: {expected}"


@pytest.mark.parametrize("place", [None, float("nan"), "first"])
def test_places_that_are_no_numbers(place: object) -> None:
    results = ForeignResults(["T1"] * 2, ["a", "b"], [2.0, 2.0], place=[0, place])
    said = f"system x: topic 'T1': place of document 'b' is {place!r}, expected a finite number"
    assert message(lambda: run_of("x", results, TOPICS, ties="order")) == said
    assert run_of("x", results, TOPICS).doc.tolist() == [b"b", b"a"]


def test_unknown_documents(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, {"a": "text", "b": "text"})
    assert run_of("x", ForeignResults.of({"T1": [("b", 1.0)]}), TOPICS, corpus=corpus).to_dict() == {"T1": {"b": 1.0}}
    results = ForeignResults.of({"T1": [("a", 3.0), ("y", 2.0), ("z", 1.0)]})
    said = message(lambda: run_of("x", results, TOPICS, corpus=corpus))
    assert said == "system x: topic 'T1': document 'y' (and 1 others) is not in corpus c"


def test_places_that_contradict_scores() -> None:
    results = ForeignResults(["T1"] * 2, ["a", "b"], [2.0, 1.0], place=[1, 0])
    assert list(run_of("x", results, TOPICS).to_dict()["T1"]) == ["a", "b"]
    said = message(lambda: run_of("x", results, TOPICS, ties="order"))
    assert said == "system x: topic 'T1': document 'a' has a higher score than 'b', but a lower place; set ties=id"
