"""Each measure on small rankings, with the arithmetic written out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from math import log, log2

import numpy as np
import pytest
from case_tables import table
from refusals import refusal

from harness.scoring import measures as m
from harness.scoring.measures import MEASURES, label, parse_measure
from harness.scoring.rankings import Judged, Ranked

Results = Sequence[float | None]  # a topic's ranking as grades; None is unjudged


def made(*topics: tuple[Results, Sequence[float]], relevant_from: float = 1.0) -> tuple[Ranked, Judged]:
    """Rankings and judgments from (grades in the order of the ranking, grades of all judged documents)."""
    relevant = [sum(grade >= relevant_from for grade in judged) for _, judged in topics]
    counts = [len(judged) - count for (_, judged), count in zip(topics, relevant, strict=True)]
    ideal = rankings([sorted(judged, reverse=True) for _, judged in topics], relevant_from)
    known = Judged(np.array(relevant, dtype=np.int64), np.array(counts, dtype=np.int64), ideal)
    return rankings([results for results, _ in topics], relevant_from), known


def rankings(topics: Sequence[Results], relevant_from: float) -> Ranked:
    grades = list(chain.from_iterable(topics))
    return Ranked(
        topic=np.array([row for row, results in enumerate(topics) for _ in results], dtype=np.int64),
        rank=np.array([rank for results in topics for rank in range(len(results))], dtype=np.int64),
        gain=np.array([grade or 0.0 for grade in grades], dtype=np.float64),
        relevant=np.array([grade is not None and grade >= relevant_from for grade in grades], dtype=bool),
        judged=np.array([grade is not None for grade in grades], dtype=bool),
        topics=len(topics),
    )


# name: (results, all judged grades, measure, value)
CASES: dict[str, tuple[Results, Sequence[float], str, float]] = {
    "nDCG": ([3, None, 1], [3, 1, 0], "nDCG", (3 + 1 / log2(4)) / (3 + 1 / log2(3))),
    "nDCG of the ideal ranking": ([3, 2, 1], [1, 2, 3], "nDCG", 1.0),
    "nDCG: gains are linear": ([1, 3], [1, 3], "nDCG", (1 + 3 / log2(3)) / (3 + 1 / log2(3))),
    "nDCG: relevant documents not found": ([0, 2], [2, 2, 0], "nDCG", (2 / log2(3)) / (2 + 2 / log2(3))),
    "nDCG: nothing relevant": ([0, None], [0, 0], "nDCG", 0.0),
    "nDCG: nothing found": ([], [3], "nDCG", 0.0),
    "nDCG: fractions": ([0.3, 1.0], [1.0, 0.3], "nDCG", (0.3 + 1 / log2(3)) / (1 + 0.3 / log2(3))),
    "nDCG@1": ([1, 3], [1, 3], "nDCG@1", 1 / 3),
    "nDCG@2 cuts the ideal too": ([0, 2, 3], [3, 2, 1, 0], "nDCG@2", (2 / log2(3)) / (3 + 2 / log2(3))),
    "nDCG@10: ideal shorter than k": ([None, 2], [2], "nDCG@10", (2 / log2(3)) / 2),
    "nDCG@10: results shorter than k": ([2], [2, 2, 1], "nDCG@10", 2 / (2 + 2 / log2(3) + 1 / log2(4))),
    "AP": ([1, 0, 2, None, 1], [1, 2, 1, 0], "AP", (1 / 1 + 2 / 3 + 3 / 5) / 3),
    "AP: relevant documents not found": ([0, 1], [1, 1, 1, 0], "AP", (1 / 2) / 3),
    "AP: nothing relevant": ([0, 0], [0, 0], "AP", 0.0),
    "AP: nothing found": ([], [1], "AP", 0.0),
    "AP@2": ([1, 0, 2], [1, 2], "AP@2", (1 / 1) / 2),
    "AP@2 over all relevant ones, not two": ([1, 1, 1], [1, 1, 1], "AP@2", (1 / 1 + 2 / 2) / 3),
    "P@2": ([1, 0, 1], [1, 1, 0], "P@2", 1 / 2),
    "P@5 over 5, also of fewer results": ([1, 1], [1, 1], "P@5", 2 / 5),
    "P@5 of nothing": ([], [1], "P@5", 0.0),
    "R@2": ([1, 0, 1], [1, 1, 1, 0], "R@2", 1 / 3),
    "R@2 over all relevant ones, not two": ([1, 1], [1, 1, 1, 1], "R@2", 2 / 4),
    "R@9: nothing relevant": ([0], [0], "R@9", 0.0),
    "RR": ([0, None, 2, 1], [2, 1, 0], "RR", 1 / 3),
    "RR@2": ([0, None, 2], [2, 0], "RR@2", 0.0),
    "RR@3": ([0, None, 2], [2, 0], "RR@3", 1 / 3),
    "RR of nothing": ([], [1], "RR", 0.0),
    # R = 2, N = 3, min 2: one of them above each relevant document is 1/2 lost; unjudged ones do not count.
    "Bpref": ([1, None, 0, None, 1], [1, 1, 0, 0, 0], "Bpref", (1 + (1 - 1 / 2)) / 2),
    "Bpref: more than R above": ([0, 0, 0, 1], [1, 1, 0, 0, 0], "Bpref", (1 - 2 / 2) / 2),
    # R = 3 > N = 1: the denominator is N, so that one non-relevant document above loses all.
    "Bpref: R > N": ([1, 0, 1, 1], [1, 1, 1, 0], "Bpref", (1 + 0 + 0) / 3),
    # R = 3, N = 2: min(2, 3) / 2 = 1.
    "Bpref: R > N = 2": ([0, 1, 0, 1], [1, 1, 1, 0, 0], "Bpref", ((1 - 1 / 2) + (1 - 2 / 2)) / 3),
    "Bpref: N = 0": ([None, 1, None, 1], [1, 1], "Bpref", (1 + 1) / 2),
    "Bpref: N = 0, one not found": ([1], [1, 1, 1], "Bpref", 1 / 3),
    "Bpref: R = 0": ([0, None], [0, 0], "Bpref", 0.0),
    "Bpref of nothing": ([], [1, 0], "Bpref", 0.0),
    "Judged@2": ([0, None, 1], [1, 0], "Judged@2", 1 / 2),
    "Judged@4 over the three there are": ([0, None, 1], [1, 0], "Judged@4", 2 / 3),
    "Judged@4: all of them": ([0, 1], [1, 0], "Judged@4", 1.0),
    "RelRet": ([1, None, 0, 2], [1, 2, 3, 0], "RelRet", 2.0),
    "RelRet@1": ([1, None, 0, 2], [1, 2, 3, 0], "RelRet@1", 1.0),
    "NumRet": ([1, None, 0, 2], [1, 2, 3, 0], "NumRet", 4.0),
    "NumRel of nothing": ([], [1, 2, 3, 0], "NumRel", 3.0),
    "NumQ of nothing": ([], [0], "NumQ", 1.0),
    "GMAP is a logarithm": ([1, 0, 1], [1, 1, 1, 0], "GMAP", log((1 / 1 + 2 / 3) / 3)),
    "GMAP of nothing": ([], [1], "GMAP", log(0.00001)),
    "Rprec": ([1, None, 2, 2], [1, 2, 2, 0], "Rprec", 2 / 3),
    "Rprec of fewer results": ([1], [1, 1], "Rprec", 1 / 2),
    "Success@1": ([None, 1], [1], "Success@1", 0.0),
    "Success@2": ([None, 1, 1], [1, 1], "Success@2", 1.0),
    # R = 3: a recall of 0.5 is that of floor(1.5 + 0.9) = 2 documents, found at rank 4; precision 2/4, then 3/5.
    "IPrec@0.5": ([1, 0, 0, 1, 1], [1, 1, 1, 0, 0], "IPrec@0.5", 3 / 5),
    "IPrec@0": ([0, 1, 0], [1, 1, 0, 0], "IPrec@0", 1 / 2),
    "IPrec@1: not reached": ([1, 0], [1, 1, 0], "IPrec@1", 0.0),
    "IPrec@0 without relevant ones": ([0], [0], "IPrec@0", 0.0),
}


def value(measure: str, ranked: Ranked, judged: Judged) -> list[float]:
    parsed = parse_measure(measure)
    found: list[float] = parsed.function(ranked, judged, parsed.k).tolist()
    return found


@pytest.mark.parametrize(("results", "judged", "measure", "wanted"), CASES.values(), ids=CASES.keys())
def test_a_measure_on_one_topic(results: Results, judged: Sequence[float], measure: str, wanted: float) -> None:
    assert value(measure, *made((results, judged))) == [pytest.approx(wanted, rel=1e-14)]


@pytest.mark.parametrize(("results", "judged", "measure", "wanted"), CASES.values(), ids=CASES.keys())
def test_a_topic_scores_the_same_among_others(
    results: Results, judged: Sequence[float], measure: str, wanted: float
) -> None:
    """Also beside topics without relevant documents, without non-relevant ones, and without results."""
    others: list[tuple[Results, Sequence[float]]] = [([0, 0, None], [0]), ([], [1, 0]), ([1, 3], [1, 3]), ([], [0])]
    found = value(measure, *made(*others[:2], (results, judged), *others[2:]))
    assert found[2] == pytest.approx(wanted, rel=1e-14)
    np.testing.assert_array_equal(found[:2] + found[3:], value(measure, *made(*others)))


def test_judged_of_no_results_is_undefined() -> None:
    assert np.isnan(value("Judged@10", *made(([], [1])))).all()


def test_the_threshold_is_of_the_binary_measures_only() -> None:
    results, judged = [1, 2], [1, 2, 3]
    ranked, known = made((results, judged), relevant_from=2.0)
    assert value("AP", ranked, known) == [(1 / 2) / 2]
    assert value("Bpref", ranked, known) == [(1 - 1 / 1) / 2]
    dcg, ideal = 1 + 2 / log2(3), 3 + 2 / log2(3) + 1 / 2
    assert value("nDCG", ranked, known) == [pytest.approx(dcg / ideal)]


def test_discounts_and_ideals() -> None:
    assert m.discounts(3).tolist() == [1.0, pytest.approx(1 / log2(3)), 0.5]
    _, judged = made(([], [1, 3]), ([], [2]))
    assert m.ideal_dcg(judged, None).tolist() == [pytest.approx(3 + 1 / log2(3)), 2.0]
    assert m.ideal_dcg(judged, 1).tolist() == [3.0, 2.0]


def test_running_counts_begin_anew_with_each_topic() -> None:
    ranked, _ = made(([1, 0, 1], [1]), ([], [1]), ([1], [1]), ([0, None, 1], [1]))
    assert ranked.relevant_so_far.tolist() == [1, 1, 2, 1, 0, 0, 1]
    assert ranked.judged_so_far.tolist() == [1, 2, 3, 1, 1, 1, 2]
    assert ranked.total(ranked.relevant).tolist() == [2, 0, 1, 1]
    assert ranked.total(ranked.relevant, 1).tolist() == [1, 0, 1, 0]
    all_judged, _ = made(([1, 0], [1]), ([0, 0, 1], [1]))
    assert all_judged.judged_so_far.tolist() == [1, 2, 1, 2, 3]


@pytest.mark.parametrize("measure", sorted(MEASURES))
def test_measures_take_no_results_at_all(measure: str) -> None:
    found = MEASURES[measure].function(*made(([], [1, 0]), ([], [0])), 5)
    of_nothing = {"Judged": [np.nan, np.nan], "NumQ": [1.0, 1.0], "NumRel": [1.0, 0.0], "GMAP": [np.log(1e-5)] * 2}
    np.testing.assert_array_equal(found, of_nothing.get(measure, [0.0, 0.0]))


# Names.


@pytest.mark.parametrize(
    ("text", "name", "k"),
    [
        ("nDCG", "nDCG", None),
        ("nDCG@10", "nDCG", 10),
        ("AP", "AP", None),
        ("P@1", "P", 1),
        ("R@1000", "R", 1000),
        ("RR@10", "RR", 10),
        ("RelRet", "RelRet", None),
    ],
)
def test_measures_are_parsed_and_written(text: str, name: str, k: int | None) -> None:
    measure = parse_measure(text)
    assert measure == replace(MEASURES[name], k=k)
    assert measure.function is MEASURES[name].function
    assert str(measure) == text


ALL_NAMES = "known: AP, Bpref, GMAP, Judged, NumQ, NumRel, NumRet, P, R, RR, RelRet, Rprec, Success, nDCG"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nDGC", "measure 'nDGC' is unknown; did you mean 'nDCG'?"),
        ("nDCGG@10", "measure 'nDCGG@10' is unknown; did you mean 'nDCG@10'?"),
        ("P_0", "measure 'P@0': the cut must be 1 or more"),
        ("P10", "measure 'P10' is unknown; " + ALL_NAMES),
        ("F1@5", "measure 'F1@5' is unknown; " + ALL_NAMES),
        ("", "measure '' is unknown; " + ALL_NAMES),
        ("P@", "measure 'P@' is unknown; did you mean 'P'?"),
        ("P@ten", "measure 'P@ten' is unknown; did you mean 'P'?"),
        ("P@-1", "measure 'P@-1' is unknown; did you mean 'P'?"),
        ("P@1.5", "measure 'P@1.5' is unknown; did you mean 'P'?"),
        ("P@ 5", "measure 'P@ 5' is unknown; did you mean 'P'?"),
        ("P@٣", "measure 'P@٣' is unknown; did you mean 'P'?"),
        ("P@1234567890", "measure 'P@1234567890' is unknown; did you mean 'P'?"),
        ("AP\n", "measure 'AP\\n' is unknown; did you mean 'AP'?"),
        ("P@0", "measure 'P@0': the cut must be 1 or more"),
        ("nDCG@00", "measure 'nDCG@00': the cut must be 1 or more"),
        ("AP@05", "measure 'AP@05': the cut begins with 0, expected AP@5"),
        ("P", "measure 'P' needs a cut, such as P@10"),
        ("R", "measure 'R' needs a cut, such as R@10"),
        ("Judged", "measure 'Judged' needs a cut, such as Judged@10"),
    ],
)
@pytest.mark.parametrize("function", [parse_measure, lambda text: label(text, prime=True)], ids=["parse", "label"])
def test_names_that_are_no_measure(function: Callable[[str], object], text: str, message: str) -> None:
    assert refusal(function, text) == message


@pytest.mark.parametrize(("text", "plain", "primed"), table("scoring/labels"))
def test_labels_are_those_of_papers(text: str, plain: str, primed: str) -> None:
    assert label(text, prime=False) == plain
    assert label(text, prime=True) == primed
