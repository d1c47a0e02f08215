"""Measures of ir_measures: what they are given, what they are called, and what is refused."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from dataclasses import replace
from math import log2
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from case_tables import table
from refusals import refusal
from scoring_tools import GAINS, PLAIN, one, random_case, random_protocol, run_of

import harness
from harness.data.trec import Qrels
from harness.errors import HarnessError
from harness.io.files import data_root
from harness.scoring import ir_measures as library
from harness.scoring.measures import label, parse_measure, parse_measures, unbounded, without_diagnostics
from harness.scoring.scorer import Scorer
from harness.scoring.scores import scores_from_json, scores_to_json, tie_caution
from harness.scoring.spellings import split_measures

# Ours, and the same measure through the library: a parameter at its default makes it theirs.
SAME = {
    "nDCG": "nDCG(judged_only=False)",
    "nDCG@2": "nDCG(dcg='log2')@2",
    "AP": "AP(judged_only=False)",
    "AP@2": "AP(judged_only=False)@2",
    "P@1": "P(judged_only=False)@1",
    "P@20": "P(judged_only=False)@20",
    "R@2": "R(judged_only=False)@2",
    "RR": "RR(judged_only=False)",
    "RR@2": "RR(judged_only=False)@2",
}
WHOLE = [gains for gains in GAINS if all(gain == int(gain) for _, gain in gains)]


@pytest.mark.slow
def test_prepared_rankings_give_the_same_values_as_ours() -> None:
    """Under every kind of protocol, with ties, keys, missing topics and topics without relevant documents."""
    rng = random.Random(31)
    both = (*SAME, *SAME.values())
    seen = np.zeros(len(SAME), dtype=int)
    for _ in range(160):
        how = replace(random_protocol(rng), gains=rng.choice(WHOLE))
        rankings, judged, keys = random_case(rng, 8)
        level = int(how.relevant_from)
        bprefs = ("Bpref", f"Bpref(rel={level})")
        scorer = Scorer(Qrels.from_dict("e", judged), how, keys=keys, measures=(*both, *bprefs))
        try:
            found = scorer(run_of(rankings))
        except HarnessError as error:
            assert "none of its topics" in str(error)
            continue
        ours, theirs = found.values[:, : len(SAME)], found.values[:, len(SAME) : 2 * len(SAME)]
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-12, err_msg=f"{how} {rankings} {judged} {keys}")
        np.testing.assert_allclose(found.column(bprefs[1]), found.column("Bpref"), rtol=0, atol=1e-12)
        seen += (ours > 0).any(axis=0)
    assert seen.min() > 8, seen


@pytest.mark.slow
def test_a_threshold_of_the_measure_is_that_of_a_protocol() -> None:
    """`rel` counts grades, whatever gains the protocol gives them, and topics are left out by it."""
    rng = random.Random(32)
    for _ in range(150):
        how = random_protocol(rng)
        rankings, judged, keys = random_case(rng, 8)
        if not set(rankings) & set(judged):
            continue
        qrels, run, level = Qrels.from_dict("e", judged), run_of(rankings), rng.randint(1, 3)
        theirs = Scorer(qrels, how, keys=keys, measures=(f"AP(rel={level})", "AP"))(run)
        ours = Scorer(qrels, replace(how, relevant_from=float(level)), keys=keys, measures=("AP",))(run)
        np.testing.assert_allclose(theirs.column(f"AP(rel={level})"), ours.column("AP"), rtol=0, atol=1e-12)
        np.testing.assert_array_equal(
            theirs.column("AP"), Scorer(qrels, how, keys=keys, measures=("AP",))(run).values[:, 0]
        )


# Results a b c e, judged a 2, b 0, c 4, d 1; e is not judged, d not retrieved.
RESULTS, JUDGED = "a:4 b:3 c:2 e:1", {"a": 2, "b": 0, "c": 4, "d": 1}
BY_HAND = {
    "ERR@3": 3 / 16 + (1 - 3 / 16) * (15 / 16) / 3,  # gdeval: (2^g - 1) / 2^4, five digits
    "ERR@2": 3 / 16,
    "RBP(p=0.5)": (1 - 0.5) * (1 + 0.5**2),
    "RBP": (1 - 0.8) * (1 + 0.8**2),
    "RBP(p=0.5,rel=4)": (1 - 0.5) * 0.5**2,
    "Rprec": 2 / 3,
    "Rprec(rel=2)": 1 / 2,
    "Success@1": 1.0,
    "Success(rel=3)@2": 0.0,
    "Success(rel=3)@3": 1.0,
    "infAP": (1 + (1 / 3 + 2 / 3 * 1 / 2)) / 3,
    "AP(rel=2)": (1 + 2 / 3) / 2,
    "AP(rel=2)@2": 1 / 2,
    "P(rel=2)@3": 2 / 3,
    "RR(rel=4)": 1 / 3,
    "RR(rel=4)@2": 0.0,
    "Bpref(rel=2)": (1 + (1 - 1 / 2)) / 2,
    "nDCG(dcg='exp-log2')@10": (3 + 15 / log2(4)) / (15 + 3 / log2(3) + 1 / log2(4)),
    "SetP": 2 / 4,
    "SetR": 2 / 3,
    "SetF": 2 * (1 / 2) * (2 / 3) / (1 / 2 + 2 / 3),
    "IPrec@0.5": 2 / 3,
    "NumRet": 4.0,
    "NumRet(rel=2)": 2.0,
    "NumRel": 3.0,
}


@pytest.mark.parametrize(("measure", "value"), BY_HAND.items(), ids=BY_HAND.keys())
def test_values_by_hand(measure: str, value: float) -> None:
    found = one(RESULTS, JUDGED, replace(PLAIN, measures=(measure,)))
    assert found.values.tolist() == [[pytest.approx(value, abs=6e-6)]]


def test_the_protocols_threshold_and_depth_hold_where_the_measure_says_nothing() -> None:
    how = replace(PLAIN, measures=("RBP(p=0.5)", "Rprec", "RBP(p=0.5,rel=1)", "Success@3"))
    assert one(RESULTS, JUDGED, replace(how, relevant_from=3.0)).values.tolist() == [
        [pytest.approx(0.5 * 0.25), 0.0, pytest.approx(0.5 * 1.25), 1.0]
    ]
    assert one(RESULTS, JUDGED, replace(how, depth=2)).values.tolist() == [
        [pytest.approx(0.5), pytest.approx(1 / 3), pytest.approx(0.5), 1.0]
    ]
    # 0.5 is a threshold that the library does not know, and gains decide nothing here.
    half = replace(how, relevant_from=0.5, gains=((2.0, 0.3),))
    assert one(RESULTS, JUDGED, half).column("Rprec").tolist() == [pytest.approx(2 / 3)]


def test_gains_are_the_protocols() -> None:
    how = replace(PLAIN, measures=("ERR@3",), gains=((2.0, 1.0), (4.0, 3.0)))
    assert one(RESULTS, JUDGED, how).values[0, 0] == pytest.approx(1 / 16 + 15 / 16 * 7 / 16 / 3, abs=6e-6)


@pytest.mark.parametrize(
    ("measure", "gains", "message"),
    [
        ("ERR@3", ((2.0, 0.3),), "measure ERR@3: a gain is 0.3, ir_measures (gdeval) takes whole numbers up to 4"),
        ("ERR@3", ((2.0, 5.0),), "measure ERR@3: a gain is 5, ir_measures (gdeval) takes whole numbers up to 4"),
        (
            "nDCG(dcg='log2')",
            ((1.0, 1e6),),  # of a document that was not retrieved
            "measure nDCG(dcg='log2'): a gain is 1e+06, ir_measures (pytrec_eval) takes whole numbers up to 1000",
        ),
    ],
)
def test_gains_that_the_library_cannot_take(measure: str, gains: tuple[tuple[float, float], ...], message: str) -> None:
    assert refusal(one, RESULTS, JUDGED, replace(PLAIN, measures=(measure,), gains=gains)) == message


def test_topics_follow_the_protocol() -> None:
    """A topic without results is 0 or left out, one without relevant documents too; counts are never left out."""
    judged = {"found": {"a": 1}, "missing": {"a": 1}, "empty": {"a": 0}}
    run, measures = run_of({"found": [("a", 1.0)], "empty": [("a", 1.0)]}), ("RBP(p=0.5)", "ERR@5", "NumRet")
    zero = Scorer(Qrels.from_dict("e", judged), PLAIN, measures=measures)(run)
    np.testing.assert_allclose(zero.values, np.array([[0.5, 1 / 16, 1], [0, 0, 0], [0, 0, 1]]), atol=6e-6)
    strict = replace(PLAIN, topics="answered", no_relevant="skip")
    left = Scorer(Qrels.from_dict("e", judged), strict, measures=measures)(run)
    expected = np.array([[0.5, 1 / 16, 1], [np.nan, np.nan, np.nan], [np.nan, np.nan, 1]])
    np.testing.assert_allclose(left.values, expected, atol=6e-6)


def test_tie_bounds_are_said_to_be_unknown() -> None:
    scorer = Scorer(Qrels.from_dict("e", {"t": {"a": 1, "b": 0}}), PLAIN, measures=("AP", "RBP(p=0.5)", "Judged@5"))
    tied, clear = (scorer(run_of({"t": [("a", 1.0), ("b", value)]})) for value in (1.0, 2.0))
    assert scorer.tie_spans(run_of({"t": [("a", 1.0), ("b", 1.0)]}), tied) == {"AP": (0.5, 1.0)}
    assert tie_caution([clear, tied]) == "how far the order of tied results changes RBP(p=0.5) is not known"
    assert tie_caution([clear]) == ""
    assert unbounded(scorer.measures) == ["RBP(p=0.5)"]
    assert without_diagnostics(scorer.measures) == ["AP", "RBP(p=0.5)"]
    alone = Scorer(scorer.qrels, PLAIN, measures=("RBP(p=0.5)",))
    assert alone.tie_spans(run_of({"t": [("a", 1.0), ("b", 1.0)]}), tied) == {}
    worst, best = alone.tie_bounds(run_of({"t": [("a", 1.0), ("b", 1.0)]}))
    assert (worst.measures, worst.values.shape) == (best.measures, best.values.shape) == ((), (1, 0))


# Names.


@pytest.mark.parametrize(("text", "name", "primed"), table("scoring/ir-measures-names"))
def test_names_are_written_in_one_way(text: str, name: str, primed: str) -> None:
    assert str(parse_measure(text)) == name
    assert str(parse_measure(name)) == name
    assert label(text, prime=True) == primed
    assert label(text, prime=False) == primed.replace("′", "")


def test_commas_inside_parentheses_do_not_separate() -> None:
    assert split_measures("nDCG@10, RBP(p=0.8,rel=1),,AP(rel=2, judged_only=True)@5 ,") == (
        "nDCG@10",
        "RBP(p=0.8,rel=1)",
        "AP(rel=2, judged_only=True)@5",
    )
    with pytest.raises(HarnessError, match=re.escape("measure 'RBP(p=0.8, rel=1)' is named twice")):
        parse_measures(["RBP(rel=1,p=0.8)", "RBP(p=0.8, rel=1)"])


def test_names_survive_in_json() -> None:
    how = replace(PLAIN, measures=("RBP(p=0.8,rel=1)", "nDCG(dcg='exp-log2')@10", "AP"))
    data = json.loads(json.dumps(scores_to_json(one(RESULTS, JUDGED, how))))
    schema = json.loads((data_root() / "harness/data/schemas/scores.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(data)
    back = scores_from_json(data)
    assert back.measures == back.protocol.measures == how.measures


SERVED = "pytrec_eval, cwl_eval, compat, msmarco, gdeval"
SHAPE = "expected parameters as in RBP(p=0.8,rel=2) or AP(rel=2)@10"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Succes@5", "measure 'Succes@5' is unknown; did you mean 'Success@5'?"),
        ("MAP(rel=2)", "measure 'MAP(rel=2)' is unknown; did you mean 'AP'?"),
        ("RBP(p=0.8", "measure 'RBP(p=0.8' is unknown; did you mean 'RBP'?"),
        ("Judged()", "measure 'Judged' needs a cut, such as Judged@10"),
        ("ERR", "measure 'ERR' needs a cut, such as ERR@10"),
        ("Success", "measure 'Success' needs a cut, such as Success@10"),
        ("P(rel=2)", "measure 'P(rel=2)' needs a cut, such as P(rel=2)@10"),
        ("ERR@0", "measure 'ERR@0': 'cutoff' is 0, expected a whole number from 1 to 999,999,999"),
        ("ERR@2.5", "measure 'ERR@2.5': 'cutoff' is 2.5, expected a whole number from 1 to 999,999,999"),
        ("RBP@10", "measure 'RBP@10' has no cut in ir_measures"),
        ("Rprec@10", "measure 'Rprec@10': Rprec has no cut"),
        ("NumQ@5", "measure 'NumQ@5': NumQ has no cut"),
        ("RBP(q=0.8)", "measure 'RBP(q=0.8)' has no parameter 'q'; known: cutoff, p, rel"),
        ("AP(rell=2)", "measure 'AP(rell=2)' has no parameter 'rell'; did you mean 'rel'?"),
        ("RBP(p=2)", "measure 'RBP(p=2)': 'p' is 2, expected a number from 0 to 1"),
        ("RBP(p='x')", "measure \"RBP(p='x')\": 'p' is 'x', expected a number from 0 to 1"),
        ("AP(rel=True)", "measure 'AP(rel=True)': 'rel' is True, expected a whole number from 1 to 1,000"),
        ("AP(rel=0)", "measure 'AP(rel=0)': 'rel' is 0, expected a whole number from 1 to 1,000"),
        ("nDCG(dcg='ln')", "measure \"nDCG(dcg='ln')\": 'dcg' is 'ln', expected one of log2, exp-log2"),
        ("AP(judged_only=1)", "measure 'AP(judged_only=1)': 'judged_only' is 1, expected True or False"),
        ("nDCG(gains={0:1})", "measure 'nDCG(gains={0:1})': gains are the protocol's, not the measure's"),
        ("BPM@5", "measure 'BPM@5' needs 'max_rel', such as BPM(max_rel=3)@5"),
        (
            "IPrec@0.333",
            "measure 'IPrec(recall=0.333)': 'recall' has more than two digits after the point, which trec_eval drops",
        ),
        ("P(cutoff=5)@5", "measure 'P(cutoff=5)@5': says 'cutoff' twice"),
        ("RBP(0.8)", f"measure 'RBP(0.8)': {SHAPE}"),
        ("RBP(p=0.8))", f"measure 'RBP(p=0.8))': {SHAPE}"),
        ("RBP(p=0.8,p=0.9)", f"measure 'RBP(p=0.8,p=0.9)': {SHAPE}"),
        ("RBP(**{})", f"measure 'RBP(**{{}})': {SHAPE}"),
        ("RBP(p=exit())", f"measure 'RBP(p=exit())': {SHAPE}"),
        (
            "alpha_nDCG@10",
            "measure 'alpha_nDCG@10': needs judgments of subtopics, and judgments are of whole topics here",
        ),
        ("Accuracy", f"measure 'Accuracy': ir_measures computes it, if at all, by none of {SERVED}"),
    ],
)
def test_names_that_are_refused(text: str, message: str) -> None:
    assert refusal(parse_measure, text) == message


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    get = "ir_measures is not installed (pip install 'mathir-harness[measures]')"
    for text, near in (("ERR@20", "RR@20"), ("AP(rel=2)", "AP"), ("nDGC", "nDCG")):
        assert refusal(parse_measure, text) == f"measure {text!r} is unknown; did you mean {near!r}? {get}"
    assert str(parse_measure("nDCG@10")) == "nDCG@10"


def test_a_program_that_is_not_here_is_named() -> None:
    code = "from harness.scoring.measures import parse_measure\nparse_measure('ERR@20')"
    environment = {"PATH": "", "PYTHONPATH": str(Path(harness.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].partition(": ")[2] == (
        "measure 'ERR@20': ir_measures computes it by gdeval "
        "(Install perl, see <https://www.perl.org>), which is not here"
    )


def test_the_page_lists_the_measures_of_the_library_that_are_not_available() -> None:
    import ir_measures

    known = {type(measure).NAME for measure in ir_measures.measures.registry.values()}
    page = (Path(__file__).parents[3] / "docs/measures.md").read_text("utf-8")
    listed = page.partition("- Not available are ")[2].partition("\n- ")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == known - library.names() - {"Judged"}
