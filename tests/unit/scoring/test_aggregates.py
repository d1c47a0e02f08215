"""How values of topics become one value: means, sums of counts, geometric means, in every place that shows them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import harness as h
from harness.data.trec import Qrels, Run
from harness.errors import HarnessError
from harness.experiments.result_files import task_result
from harness.labs.leaderboard import LeaderboardEntry, LeaderboardSettings, leaderboard
from harness.reports.means import comparison_means_table
from harness.reports.means import paper_means_table as paper_table
from harness.scoring.measures import MEASURES, parse_measure, shown_decimals, without_diagnostics
from harness.scoring.protocol import Protocol
from harness.scoring.rankings import Measure
from harness.scoring.scorer import Scorer
from harness.scoring.scores import Scores, pooled

ROOT = Path(__file__).parents[3]
# Three topics of 3 results with 1, 2 and 0 relevant ones; the run lacks the last, which has 2 relevant documents.
JUDGED = {"1": {"a": 1, "b": 0, "c": 0}, "2": {"a": 2, "b": 1, "d": 2}, "3": {"a": 1, "b": 1}}
RUN = Run.from_dict("r", {"1": {"b": 3.0, "a": 2.0, "x": 1.0}, "2": {"a": 3.0, "y": 2.0, "b": 1.0, "z": 0.5}})
COUNTS = ("NumQ", "NumRet", "NumRel", "RelRet", "NumRel(rel=2)", "NumRet(rel=2)")


def scored(how: Protocol, *measures: str) -> Scores:
    return Scorer(Qrels.from_dict("e", JUDGED), how, measures=measures)(RUN)


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        (Protocol("p", ("AP",)), [3, 7, 6, 3, 2, 1]),
        (Protocol("p", ("AP",), topics="answered"), [2, 7, 4, 3, 2, 1]),
        (Protocol("p", ("AP",), relevant_from=2.0), [3, 7, 2, 1, 2, 1]),
        (Protocol("p", ("AP",), prime=True), [3, 4, 6, 3, 2, 1]),
        (Protocol("p", ("AP",), no_relevant="skip", relevant_from=2.0), [3, 7, 2, 1, 2, 1]),
    ],
    ids=["all", "answered", "threshold", "prime", "skip"],
)
def test_counts_are_sums_as_in_trec_eval(how: Protocol, wanted: list[int]) -> None:
    """A topic that the run lacks still counts as a topic, with its relevant documents, as with trec_eval's -c."""
    scores = scored(how, *COUNTS)
    assert [scores.aggregate(measure) for measure in COUNTS] == wanted
    assert scores.mean("NumRet") == pytest.approx(scores.aggregate("NumRet") / scores.n("NumRet"))
    assert [shown_decimals(name, 4) for name in ("NumRet", "AP")] == [0, 4]
    assert without_diagnostics(COUNTS) == ["RelRet", "NumRet(rel=2)"]


def test_the_geometric_mean_takes_a_floor_and_missing_topics_as_trec_eval() -> None:
    scores = scored(Protocol("p", ("AP",)), "GMAP", "AP")
    ap = [1 / 2, (1 + 2 / 3) / 3, 0.00001]
    assert scores.column("GMAP").tolist() == pytest.approx([math.log(value) for value in ap])
    assert scores.aggregate("GMAP") == pytest.approx(math.prod(ap) ** (1 / 3))
    assert scores.aggregate("AP") == scores.mean("AP") == pytest.approx((ap[0] + ap[1]) / 3)


def test_nothing_counted_is_no_sum() -> None:
    scores = replace(scored(Protocol("p", ("AP",)), "NumRet", "GMAP"), values=np.full((3, 2), np.nan))
    assert np.isnan([scores.aggregate(measure) for measure in scores.measures]).all()


def test_a_measure_says_its_aggregate() -> None:
    assert (parse_measure("NumRet").of_mean(2.5, 4), parse_measure("AP").of_mean(0.5, 4)) == (10.0, 0.5)
    with pytest.raises(HarnessError, match="measure 'X': 'aggregate' is 'total'; known: geometric, mean, sum"):
        Measure("X", MEASURES["AP"].function, aggregate="total")  # type: ignore[arg-type]


def test_every_place_shows_the_sum() -> None:
    task = h.task("mini-task1", measures=["RelRet", "NumRet", "AP"])
    evaluation = h.evaluate(task, *(ROOT / f"runs/mini/mini-task1/{name}.run" for name in ("overlap", "shuffle")))
    wanted = {each.run: float(np.nansum(each.column("RelRet"))) for each in evaluation.scores}
    many = max(evaluation.scores, key=lambda each: wanted[each.run])
    few, total = next(run for run in wanted if run != many.run), many.aggregate("RelRet")
    assert total == wanted[many.run] > wanted[few] > 1
    table = comparison_means_table(evaluation, None)
    assert [(table.columns[2].title, table.columns[4].title), table.rows[0][2].text] == [
        ("sum", "mean"),
        f"{total:.0f}",
    ]
    cell = paper_table(evaluation, columns=["run", "num_rel_ret"]).rows[0][1]
    assert (cell.text, cell.value) == (f"{total:.0f}", total)
    assert task_result(many)["scores"]["test"][0]["main_score"] == total
    board = leaderboard([LeaderboardEntry(each.run, each) for each in evaluation.scores], LeaderboardSettings())
    mean = board.ranked[0].mean("RelRet")
    assert mean.value == total
    assert mean.low is not None
    assert mean.high is not None
    assert mean.low <= total <= mean.high
    halves = [replace(many, topics=tuple(f"{half}{t}" for t in many.topics)) for half in "ab"]
    assert pooled(halves).aggregate("RelRet") == 2 * total
    row = h.compare(evaluation, few, measures=["RelRet"]).rows[0]
    assert row.difference == pytest.approx((total - wanted[few]) / row.n)  # tests are of topics
