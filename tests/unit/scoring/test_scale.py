"""What grows with topics and lines, and how: sizes and steps are counted, no clock is read."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.data.trec import Qrels, Run, parse_run, read_run
from harness.experiments.evaluate import Evaluation, evaluate
from harness.experiments.task import task
from harness.scoring.protocol import Protocol
from harness.scoring.scorer import Scorer

HOW = Protocol("p", ("nDCG", "AP", "P@10", "Bpref", "Judged@5"), prime=True)


class Counted(tuple[str, ...]):
    """A tuple that counts how often it is gone through."""

    __slots__ = ()
    times = 0

    def __iter__(self) -> Iterator[str]:
        Counted.times += 1
        return super().__iter__()


def many(topics: int) -> tuple[Run, Qrels]:
    """One line and one judgment for each topic; every third is relevant, the last topics are not answered."""
    run = "".join(f"t{n} Q0 d{n} 1 1.5 r\n" for n in range(topics - 5))
    qrels = Qrels.from_dict("e", {f"t{n}": {f"d{n}": n % 3} for n in range(topics)})
    return parse_run(run.encode(), "run"), qrels


@pytest.mark.parametrize("ideal", ["judged", "retrieved"])
def test_topics_of_a_run_are_gone_through_a_fixed_number_of_times(ideal: Any) -> None:  # noqa: ANN401
    seen = []
    for topics in (50, 400):
        run, qrels = many(topics)
        scorer = Scorer(qrels, replace(HOW, ideal=ideal))
        run, Counted.times = replace(run, topics=Counted(run.topics)), 0
        scores = scorer(run)
        scorer.tie_spans(run, scores)
        assert scores.missing == tuple(f"t{n}" for n in range(topics - 5, topics))
        seen.append(Counted.times)
    assert seen[0] == seen[1] <= 10


def test_the_ideal_ranking_has_no_room_for_what_is_not_there() -> None:
    """One topic with many judgments makes no place for as many in every other."""
    judged = {f"t{n}": {"a": 1.0, "b": 0.0} for n in range(200)}
    judged["long"] = {f"d{n}": float(n % 3) for n in range(900)}
    ideal = Scorer(Qrels.from_dict("e", judged), HOW)._judged.ideal
    assert ideal.gain.size == ideal.topic.size == 200 + 600
    assert ideal.rank[ideal.topic == 200].tolist() == list(range(600))
    assert (np.diff(ideal.gain[ideal.topic == 200]) <= 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("digits", [5, 20])
def test_reading_a_run_takes_at_most_twice_its_size(tmp_path: Path, digits: int) -> None:
    """Lines of 37 bytes and more, a thousand for each topic."""
    path, lines = tmp_path / "run", 400_000
    rows = (f"A.{n // 1000}\tQ0\t{n:0{digits}}\t{n % 1000}\t{1e3 - n % 1000:.6f}\tsystem\n" for n in range(lines))
    path.write_text("".join(rows))
    tracemalloc.start()
    run = read_run(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(run) == lines
    assert peak < 2 * path.stat().st_size


def test_what_only_a_report_needs_is_made_for_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    found = task("mini-task1")
    topic = found.scorer.qrels.topics[0]
    made: list[str] = []
    monkeypatch.setattr(Scorer, "rankings", lambda _self, run, *_: made.append(run.name))
    evaluation = evaluate(found, Run.from_dict("r", {topic: {"d": 1.0}}))
    assert isinstance(evaluation, Evaluation)
    assert made == []
