"""Measures as trec_eval's users and printed tables write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from case_tables import table

import harness as h
from harness.errors import HarnessError
from harness.experiments.experiment import Experiment
from harness.experiments.overrides import Condition
from harness.scoring.measures import parse_measure, parse_measures
from harness.scoring.spellings import split_measures

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(("written", "ours"), table("scoring/spellings"))
def test_other_spellings(written: str, ours: str) -> None:
    assert str(parse_measure(written)) == ours


@pytest.mark.parametrize(("written", "fault"), table("scoring/spelling-faults"))
def test_what_is_no_measure(written: str, fault: str) -> None:
    with pytest.raises(HarnessError, match=fault):
        parse_measure(written)


def test_all_faults_are_said_at_once() -> None:
    with pytest.raises(HarnessError) as raised:
        parse_measures(["AP", "nDGC", "P", "MAP", "IPrec", "bpref"])
    starts = ["measure 'nDGC' is unknown", "measure 'P' needs a cut", "measure 'MAP' is named twice"]
    for line, start in zip(raised.value.lines, [*starts, "measure 'IPrec' needs 'recall'"], strict=True):
        assert line.startswith(start)


def test_commas_and_blanks_separate() -> None:
    assert split_measures("nDCG@10, AP  P.5,RBP(p=0.8, rel=1)") == ("nDCG@10", "AP", "P.5", "RBP(p=0.8, rel=1)")


@pytest.mark.parametrize(
    ("written", "ours"),
    [
        ("P.5,10", ["P@5", "P@10"]),
        ("recall_5,100", ["R@5", "R@100"]),
        ("iprec_at_recall.0,.1,.25", ["IPrec(recall=0.0)", "IPrec(recall=0.1)", "IPrec(recall=0.25)"]),
        ("set_F.0.5,2", ["SetF(beta=0.5)", "SetF(beta=2.0)"]),
        ("success", ["Success@1", "Success@5", "Success@10"]),
        ("map_cut", [f"AP@{cut}" for cut in (5, 10, 15, 20, 30, 100, 200, 500, 1000)]),
        ("AP,P.5,10 11pt_avg", None),
        ("AP,P.5,10,RBP(p=0.8,rel=1)", ["AP", "P@5", "P@10", "RBP(p=0.8,rel=1)"]),
    ],
)
def test_names_of_several_measures(written: str, ours: list[str] | None) -> None:
    if ours is None:
        with pytest.raises(HarnessError, match="measure '11pt_avg' of trec_eval"):
            parse_measures(split_measures(written))
    else:
        assert [str(measure) for measure in parse_measures(split_measures(written))] == ours
        assert list(h.task("mini-task1", measures=split_measures(written)).scorer.measures) == ours


def test_every_way_in_takes_them() -> None:
    task = h.task("mini-task1", measures=["MAP", "ndcg_cut_10"])
    runs = [f"runs/mini/mini-task1/{name}.run" for name in ("overlap", "shuffle")]
    evaluation = h.evaluate(task, *(ROOT / run for run in runs))
    assert evaluation.scores[0].measures == ("AP", "nDCG@10")
    assert set(h.compare(evaluation, "shuffle", measures=["map"]).frame().measure) == {"AP"}
    found = Experiment("x", {"bm25": Condition(("system=bm25",))}, ("MAP", "P.5"))
    assert found.measures == ("AP", "P@5")
