"""Measures as trec_eval's users and printed tables write them."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness as h
from harness.errors import HarnessError
from harness.experiments.experiment import Experiment
from harness.experiments.parts import Condition
from harness.scoring.measures import parse_measure, parse_measures
from harness.scoring.spellings import split_measures

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("written", "ours"),
    [
        ("MAP", "AP"),
        ("map", "AP"),
        ("MAP\u2032", "AP"),
        ("nDCG'", "nDCG"),
        ("NDCG@10", "nDCG@10"),
        ("ndcg_cut_10", "nDCG@10"),
        ("ndcg_cut.10", "nDCG@10"),
        ("P.5", "P@5"),
        ("P_5", "P@5"),
        ("p\u2032@10", "P@10"),
        ("recall_1000", "R@1000"),
        ("recip_rank", "RR"),
        ("MRR", "RR"),
        ("MRR@10", "RR@10"),
        ("bpref", "Bpref"),
        ("num_rel_ret", "RelRet"),
        ("map_cut_100", "AP@100"),
        ("judged@10", "Judged@10"),
        ("success_1", "Success@1"),
        ("success.1", "Success@1"),
        ("set_P", "SetP"),
        ("set_relative_P", "SetP(relative=True)"),
        ("gm_map", "GMAP"),
        ("num_q", "NumQ"),
        ("NumRelRet", "RelRet"),
        ("rprec", "Rprec"),
        ("iprec_at_recall_0.10", "IPrec(recall=0.1)"),
        ("IPrec@1", "IPrec(recall=1.0)"),
        ("IPrec.0.25", "IPrec(recall=0.25)"),
        ("set_F", "SetF"),
        ("set_F.5", "SetF(beta=5.0)"),
        ("set_F_0.5", "SetF(beta=0.5)"),
        ("SetF.0.5", "SetF(beta=0.5)"),
        ("precision@5", "P@5"),
    ],
)
def test_other_spellings(written: str, ours: str) -> None:
    assert str(parse_measure(written)) == ours


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ("nDGC@10", "measure 'nDGC@10' is unknown.*; did you mean 'nDCG@10'"),
        ("P.0", "measure 'P@0': the cut must be 1 or more"),
        ("P_05", "measure 'P@05': the cut begins with 0, expected P@5"),
        ("P.5,10", "measure 'P.5,10' names several measures, expected one of P@5, P@10"),
        ("11pt_avg", "measure '11pt_avg' of trec_eval is not computed; use AP, or iprec_at_recall"),
        ("Rprec_mult_0.20", "measure 'Rprec_mult_0.20' of trec_eval is not computed; use Rprec"),
        ("utility_2,-1,0,0", "measure 'utility_2,-1,0,0' of trec_eval is not computed; use SetP"),
        ("all_trec", "measure 'all_trec' of trec_eval is not computed; .*use official"),
        ("IPrec", "measure 'IPrec' needs 'recall', such as IPrec.recall=0.5.; iprec_at_recall names the eleven"),
        ("SetF(rel=1,bta=2)", "measure 'SetF.rel=1,bta=2.' has no parameter 'bta'; did you mean 'beta'"),
        ("set_P.5", "measure 'SetP@5' has no parameter 'cutoff'; known: "),
        ("prefs_simp", "measure 'prefs_simp' of trec_eval is not computed; .* use Bpref"),
    ],
)
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
