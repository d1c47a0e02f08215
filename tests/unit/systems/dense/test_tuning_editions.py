"""Editions of one collection: trained on one, evaluated on another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from tuning_tools import SUBJECTS, Courses, courses, judged, settings, similar, threads, topic

from harness.collections.corpora import load_corpus
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.experiments.produce import make
from harness.experiments.task import task
from harness.systems.base import Request
from harness.systems.dense.training import data

__all__ = ["courses"]  # a fixture


@pytest.fixture
def both(courses: Courses) -> Courses:
    """Topics P0 to P3 are judged in e0, F0 and F1 in e1."""
    past = [topic(f"P{number}", SUBJECTS[number % 4], 100 + number) for number in range(4)]
    future = [topic(f"F{number}", SUBJECTS[number % 4], 200 + number) for number in range(2)]
    first = [*judged(past, threads(), 3), ("P0", "A5.1", 3)]
    first = list({(t, d): (t, d, g) for t, d, g in first}.values())
    courses.collection("both", [*past, *future], first, [("F0", "A0.0", 3), ("F1", "A5.1", 1)])
    return courses


def test_the_edition_that_is_evaluated_is_left_out(both: Courses) -> None:
    corpus = load_corpus("threads")
    found = data.examples("cross", settings(collections=["both/e0"], leave_out=["both/e1"]), corpus, similar(corpus))
    pairs = {found.ids[number] for number in [*found.train.tolist(), *found.held.tolist()]}
    assert {name for name, _ in pairs} == {"P0", "P1", "P2", "P3"}
    assert not {"A0.0", "A5.1"} & {document for _, document in found.ids}
    assert found.counts["judged pairs left out"] >= 2


@pytest.mark.parametrize(
    ("collections", "leave_out"),
    [("both", "both/e1"), ("both/e1", "both/e1"), ("both/e0", "both"), ("both", "both")],
)
def test_what_is_left_out_is_not_trained_on(both: Courses, collections: str, leave_out: str) -> None:
    with pytest.raises(HarnessError, match=f"'leave_out': {collections} is trained on as well"):
        settings(collections=[collections], leave_out=[leave_out])


@dataclass
class Learner:
    """Ranks the first document for every topic that it is given."""

    left_out: frozenset[str]
    name: str = "learner"

    def trains_without(self) -> frozenset[str]:
        return self.left_out

    def __call__(self, request: Request) -> Run:
        first = next(iter(request.corpus_for(self.name).ids()))
        return Run.from_dict(self.name, {topic.id: {first: 1.0} for topic in request.topics})


def test_it_ranks_the_topics_of_that_edition_alone(both: Courses, tmp_path: Path) -> None:
    system = Learner(frozenset(["both/e1"]))
    made = make(system, task("both", "threads", edition="e1"), runs=tmp_path)
    assert made.run.topics == ("F0", "F1")
    with pytest.raises(HarnessError, match="trains on posts without leaving out those judged in both"):
        make(system, task("both", "threads", edition="e0"), runs=tmp_path)
    everything = make(Learner(frozenset(["both"])), task("both", "threads", edition="e1"), runs=tmp_path)
    assert len(everything.run.topics) == 6
