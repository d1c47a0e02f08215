"""Runs on an edition whose judgments are private: participants make the runs that organisers would, without scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from refusals import refuses

from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.data.trec import Run
from harness.experiments.produce import make
from harness.experiments.task import task, task_without_judgments
from harness.scoring.protocol import load_protocol
from harness.systems.base import Request
from harness.systems.build import load_system

Conf = Callable[[str, str, str], Path]


@pytest.mark.parametrize(("collection", "corpus"), [("mini-task1", "mini-answers"), ("mini-task2", "mini-formulas")])
def test_the_run_is_that_made_with_the_judgments(tmp_path: Path, collection: str, corpus: str) -> None:
    without = task_without_judgments(load_collection(collection), load_corpus(corpus))
    whole = task(collection, corpus)
    assert (without.keys, without.topics) == (whole.keys, whole.topics)
    made = make(load_system("overlap"), without, runs=tmp_path / "a")
    other = make(load_system("overlap"), whole, runs=tmp_path / "b")
    assert (made.key, made.path.read_bytes()) == (other.key, other.path.read_bytes())


def test_what_the_protocol_excludes_is_removed(tmp_path: Path) -> None:
    how = replace(load_protocol("trec_eval"), name="own", exclude=("own",))
    bench = task_without_judgments(load_collection("mini-task1"), None, None, how)
    topic = next(iter(bench.topics)).id
    made = make(lambda request: Run.from_dict("mine", {topic: {topic: 2.0, "other": 1.0}}), bench, runs=tmp_path)
    assert made.run.to_dict() == {topic: {"other": 1.0}}


def test_a_system_that_ranks_the_topics_of_one_edition_is_refused(tmp_path: Path) -> None:
    class Learner:
        name = "learner"

        def trains_without(self) -> frozenset[str]:
            return frozenset({"mini-task1/official"})

        def __call__(self, request: Request) -> Run:
            raise AssertionError

    bench = task_without_judgments(load_collection("mini-task1"), load_corpus("mini-answers"))
    refuses("mini-task1, edition official, whose judgments are not here", lambda: make(Learner(), bench, runs=tmp_path))


@pytest.mark.parametrize("private", [True, False])
def test_only_private_judgments_may_be_missing(conf: Conf, tmp_path: Path, private: bool) -> None:
    qrels = tmp_path / "judgments.txt"
    conf(
        "collection",
        "club",
        f"name: club\ntitle: x\nlicence: CC0\nprotocol: trec_eval\n"
        f"editions: {{first: {{title: x, private: {private!s:.5}, qrels: {{file: '{qrels}'}}}}}}\n"
        f"topics: {{reader: jsonl, embedded: topics/mini-task1.eng.jsonl}}\n",
    )
    club = load_collection("club")
    assert club.withheld() is private
    absent = "needs the private judgments, which the organisers have" if private else f"needs {qrels}"
    assert club.state() == absent
    said = "cannot be read: the judgments of club, edition first, are private; " if private else "no such file"
    refuses(f"judgments.txt: {said}", club.qrels)
    qrels.write_text("M.1 0 a 1\n")
    assert not club.withheld()
    assert club.state() == "here"
    assert club.qrels().to_dict() == {"M.1": {"a": 1}}
