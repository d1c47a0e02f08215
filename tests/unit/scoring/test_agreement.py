"""Correlations of rankings, rank-biased overlap and kappa: by hand, from the definitions, and published values."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from itertools import permutations, product
from statistics import mean

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from refusals import refusal
from sklearn.metrics import cohen_kappa_score

from harness.scoring.agreement import Kappa, confusion, kappa, rank_correlation, rbo, rbo_cut, tau_ap, tau_ap_b, tau_b

SMALL = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=5)
PAIRS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=9)
RANKING = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True)
SCORED = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 3), min_size=1)

# The data and the expected values of the tests of the R package ircor (Urbano), for the paper's forms for ties.
IRCOR: tuple[tuple[str, str, float, float, float, float], ...] = (
    (
        ".897 .372 .908 .898 .661 .062 .177 .384 .498 .992",
        ".82 .406 .817 .953 .673 .073 .364 .547 .589 .988",
        *(0.8519, 0.8333, 0.7454, 0.7321),
    ),
    (
        ".266 .573 .202 .945 .629 .206 .687 .77 .718 .38",
        ".263 .843 .728 .928 .08 .114 .467 .641 .973 .644",
        *(0.2504, 0.2880, 0.2692, 0.2970),
    ),
    (
        ".185 .573 .944 .129 .468 .553 .761 .405 .976 .445",
        ".845 .272 .275 .924 .605 .334 .162 .872 .018 .25",
        *(-0.6971, -0.668, -0.5558, -0.7047),
    ),
)


def sign(x: float) -> int:
    return (x > 0) - (x < 0)


@given(PAIRS)
def test_tau_b_is_its_definition(pairs: list[tuple[int, int]]) -> None:
    a, b = zip(*pairs, strict=True)
    couples = [(i, j) for i in range(len(a)) for j in range(i)]
    concordance = sum(sign(a[i] - a[j]) * sign(b[i] - b[j]) for i, j in couples)
    told = [sum(values[i] != values[j] for i, j in couples) for values in (a, b)]
    if 0 in told:
        assert math.isnan(tau_b(a, b))
    else:
        assert tau_b(a, b) == pytest.approx(concordance / math.sqrt(told[0] * told[1]))


@pytest.mark.parametrize("size", [2, 7, 100, 101, 500])  # scipy.stats is imported for long lists only
def test_tau_b_is_scipys(size: int) -> None:
    from scipy import stats

    rng = np.random.default_rng(size)
    for ties in (2, size, 10 * size):
        a, b = rng.integers(0, ties, size) / 7, rng.integers(0, ties, size) / 3
        assert tau_b(a, b) == pytest.approx(float(stats.kendalltau(a, b).statistic), rel=0, abs=0, nan_ok=True)


def yilmaz(estimate: Sequence[float], truth: Sequence[float]) -> float:
    """Without ties, from the paper: the share of items above each one that belong there."""
    order = sorted(range(len(estimate)), key=lambda i: -estimate[i])
    shares = [sum(truth[j] > truth[i] for j in order[:at]) / at for at, i in enumerate(order) if at]
    return 2 / (len(order) - 1) * sum(shares) - 1


def test_tau_ap_by_hand() -> None:
    # Truth a b c d. Exchanging the first two costs 1 of C(2) / 1, the last two 1 of C(4) / 3.
    assert tau_ap([3, 4, 2, 1], [4, 3, 2, 1]) == pytest.approx(2 / 3 * (0 + 1 + 1) - 1)
    assert tau_ap([4, 3, 1, 2], [4, 3, 2, 1]) == pytest.approx(2 / 3 * (1 + 1 + 2 / 3) - 1)
    assert tau_ap([1, 2, 3], [3, 2, 1]) == -1
    # It is not symmetric.
    assert tau_ap([4, 2, 1, 3], [4, 3, 2, 1]) != pytest.approx(tau_ap([4, 3, 2, 1], [4, 2, 1, 3]))


def broken(values: Sequence[float]) -> list[list[float]]:
    """Every way in which the ties can be broken, each as often."""
    n = len(values)
    return [[value + order[i] / (2 * n) for i, value in enumerate(values)] for order in permutations(range(n))]


@given(SMALL)
def test_tau_ap_is_the_mean_over_the_orders_of_ties(pairs: list[tuple[int, int]]) -> None:
    estimate, truth = zip(*pairs, strict=True)
    if len(set(truth)) < len(truth) and len(truth) > 4:
        truth = tuple(range(len(truth)))  # 120 x 120 orders are too many
    ways = product(broken(estimate), broken(truth) if len(set(truth)) < len(truth) else [truth])
    assert tau_ap(estimate, truth) == pytest.approx(mean(yilmaz(a, b) for a, b in ways))


@pytest.mark.parametrize(("x", "y", "plain", "symmetric", "tied", "tied_symmetric"), IRCOR)
def test_published_values(x: str, y: str, plain: float, symmetric: float, tied: float, tied_symmetric: float) -> None:
    a, b = ([float(value) for value in text.split()] for text in (x, y))
    rough_a, rough_b = ([round(value, 1) for value in values] for values in (a, b))  # their ties
    assert tau_ap(b, a) == pytest.approx(plain, abs=6e-5)
    assert tau_ap(rough_b, a) == pytest.approx(tied, abs=6e-5)
    assert tau_ap_b(a, b) == pytest.approx(symmetric, abs=6e-5)
    assert tau_ap_b(rough_a, rough_b) == pytest.approx(tied_symmetric, abs=6e-5)


@given(PAIRS)
def test_tau_ap_b_is_symmetric_and_1_for_equal_rankings_alone(pairs: list[tuple[int, int]]) -> None:
    a, b = zip(*pairs, strict=True)
    assume(len(set(a)) > 1 and len(set(b)) > 1)
    assert tau_ap_b(a, b) == tau_ap_b(b, a)
    assert tau_ap_b(a, a) == 1
    equal = all(sign(x - u) == sign(y - v) for x, y in pairs for u, v in pairs)
    assert (tau_ap_b(a, b) == 1) == equal
    assert math.isnan(tau_ap_b(a, [1] * len(a)))


@given(PAIRS, st.randoms(use_true_random=False))
def test_the_order_of_the_items_does_not_matter(pairs: list[tuple[int, int]], rng: random.Random) -> None:
    mixed = rng.sample(pairs, len(pairs))
    for measure in (tau_b, tau_ap, tau_ap_b):
        one, two = (measure(*zip(*each, strict=True)) for each in (pairs, mixed))
        assert one == pytest.approx(two, nan_ok=True)


def test_rankings_that_cannot_be_correlated() -> None:
    shapes = "rankings of shapes (2,) and (3,), expected two of the same items, two or more"
    for measure in (tau_b, tau_ap, tau_ap_b):
        assert refusal(measure, [1, 2], [1, 2, 3]) == shapes
        assert "expected two of the same items, two or more" in refusal(measure, [1], [1])
        assert "not finite" in refusal(measure, [1, math.nan], [1, 2])


def extrapolated(a: Sequence[str], b: Sequence[str], p: float) -> float:
    """Equation 32 of Webber et al., term by term: rankings without ties, of unequal lengths."""
    short, long = sorted((a, b), key=len)
    s, n = len(short), len(long)
    overlap = [0, *(len({*short[:d]} & {*long[:d]}) for d in range(1, n + 1))]
    seen = sum(overlap[d] / d * p**d for d in range(1, n + 1))
    added = sum(overlap[s] * (d - s) / (s * d) * p**d for d in range(s + 1, n + 1))
    return (1 - p) / p * (seen + added) + ((overlap[n] - overlap[s]) / n + overlap[s] / s) * p**n


@given(RANKING, RANKING, st.floats(0.05, 0.99))
def test_rbo_is_equation_32(a: list[str], b: list[str], p: float) -> None:
    found = rbo(a, b, p)
    assert found == pytest.approx(extrapolated(a, b, p))
    assert found == pytest.approx(rbo(b, a, p))
    assert -1e-12 <= found <= 1 + 1e-12
    assert rbo(a, a, p) == pytest.approx(1)
    # What may come after the ends moves it by no more than the weight that is left there.
    if len(a) == len(b):
        known = (1 - p) * sum(len({*a[:d]} & {*b[:d]}) / d * p ** (d - 1) for d in range(1, len(a) + 1))
        assert known - 1e-12 <= found <= known + p ** len(a) + 1e-12


def test_rbo_by_hand() -> None:
    # Overlaps 0, 2 at depths 1, 2; then agreement goes on at 1: (1 - p)(0 + p) + p^2.
    assert rbo(["a", "b"], ["b", "a"], 0.5) == pytest.approx(0.5 * 0.5 + 0.25)
    # One of two in common, at the top: 1, 1/2, and on at 1/2.
    assert rbo(["a", "b"], ["a", "c"], 0.9) == pytest.approx(0.1 * (1 + 0.9 / 2) + 0.81 / 2)
    # The shorter one goes on as it ends, wholly in agreement.
    assert rbo(["a"], ["a", "b", "c"], 0.8) == pytest.approx(1)
    assert rbo(["a"], ["b", "a", "c"], 0.8) == pytest.approx(0.2 * (0 + 0.8 / 2 + 0.64 / 3) + 0.512 / 3)
    assert math.isnan(rbo([], ["a"]))


def tied(a: Mapping[str, float], b: Mapping[str, float], p: float) -> float:
    """Webber's agreement with ties, 2 x common / all items down to a depth, set by set; for rankings of one length."""

    def down_to(scores: Mapping[str, float], depth: int) -> set[str]:
        return {item for item in scores if sum(other > scores[item] for other in scores.values()) < depth}

    agreements = []
    for depth in range(1, len(a) + 1):
        x, y = down_to(a, depth), down_to(b, depth)
        agreements.append(2 * len(x & y) / (len(x) + len(y)))
    return (1 - p) / p * sum(each * p**d for d, each in enumerate(agreements, 1)) + agreements[-1] * p ** len(a)


@given(SCORED, SCORED, st.floats(0.05, 0.99))
def test_rbo_with_ties(a: dict[str, float], b: dict[str, float], p: float) -> None:
    assert rbo(a, a, p) == pytest.approx(1)
    assert rbo(a, b, p) == pytest.approx(rbo(b, a, p))
    assert -1e-12 <= rbo(a, b, p) <= 1 + 1e-12
    size = min(len(a), len(b))
    a, b = (dict(sorted(each.items())[:size]) for each in (a, b))
    assert rbo(a, b, p) == pytest.approx(tied(a, b, p))


@given(RANKING, RANKING)
def test_a_ranking_is_a_mapping_without_ties(a: list[str], b: list[str]) -> None:
    scored = {item: -place for place, item in enumerate(a)}
    assert rbo(scored, b) == rbo(a, b)


def test_rbo_cut_by_hand() -> None:
    assert rbo_cut(["a", "b"], ["b", "a"], 0.5, 2) == pytest.approx((0 + 0.5 * 1) / 1.5)
    assert rbo_cut(["a", "b"], ["b", "a"], 0.5, 3) == pytest.approx((0 + 0.5 + 0.25 * 2 / 3) / 1.75)
    assert rbo_cut(["a", "b", "c"], ["a", "x", "b"], 0.5, 1) == 1
    assert rbo_cut([], ["a"], 0.5, 3) == 0


def test_rankings_without_an_overlap_to_speak_of() -> None:
    for p in (0.0, 1.0, -1.0):
        assert refusal(rbo, "ab", "ab", p).startswith(f"rank-biased overlap: p is {p:g}")
    assert "an item occurs twice" in refusal(lambda: rbo(["a", "a"], ["a", "b"]))
    assert "not finite" in refusal(lambda: rbo({"a": math.inf}, {"a": 1.0}))


def test_rank_correlation_takes_the_common_runs() -> None:
    first = {"x": 0.3, "y": 0.2, "z": 0.1, "nan": math.nan}
    found = rank_correlation("AP", "P", first, {"z": 0.1 + 0.2, "y": 0.3, "x": 0.4, "w": 0.9, "nan": 1.0})
    # 0.1 + 0.2 and 0.3 are tied: two of three pairs are told by both.
    assert (found.n, found.tau) == pytest.approx((3, 2 / math.sqrt(6)))
    assert found.tau_ap == pytest.approx((1 + (2 * (1 + 1 / 2) / 2 - 1)) / 2)
    constant = rank_correlation("AP", "P", first, dict.fromkeys("xyz", 0.5))
    assert (constant.tau, constant.tau_ap) == (None, None)
    assert refusal(lambda: rank_correlation("AP", "P", first, {"x": 1.0})).startswith("AP and P: 1 run in common")


def test_kappa_by_hand() -> None:
    # Cohen's first kind of example: 20 and 15 agree, 5 and 10 do not; by chance .5 x .6 + .5 x .4.
    a = [1] * 25 + [0] * 25
    b = [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15
    assert astuple(kappa(a, b)) == pytest.approx((50, 0.7, 0.5, 0.4))
    counts, grades = confusion(a, b)
    assert (counts.tolist(), grades.tolist()) == ([[15, 10], [5, 20]], [0, 1])
    assert kappa([2, 2], [2, 2]) == Kappa(2, 1.0, 1.0, None)
    # Assessors who always contradict each other.
    assert kappa([0, 1], [1, 0]).kappa == pytest.approx(-1)


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30), st.data())
def test_kappa_is_sklearns(pairs: list[tuple[int, int]], data: st.DataObject) -> None:
    pairs += [(grade, grade) for grade in range(4)]  # sklearn takes distances of places among the grades that occur
    a, b = zip(*pairs, strict=True)
    for weights in ("none", "linear", "quadratic"):
        expected = cohen_kappa_score(a, b, weights=None if weights == "none" else weights)
        assert kappa(a, b, weights).kappa == pytest.approx(expected)
    mixed = data.draw(st.permutations(pairs))
    x, y = zip(*mixed, strict=True)
    assert kappa(x, y, "quadratic").kappa == pytest.approx(kappa(a, b, "quadratic").kappa)


def test_distances_are_of_grades() -> None:
    # Nobody gives 1: 0 against 2 is still two grades apart. Observed distance (0 + 2 + 0 + 1) / 4 of at most 3.
    found = kappa([0, 0, 3, 3], [0, 2, 3, 2], "linear")
    assert found.observed == pytest.approx(1 - 3 / 4 / 3)
    chance = np.mean([abs(x - y) for x in (0, 0, 3, 3) for y in (0, 2, 3, 2)]) / 3
    assert (found.chance, found.kappa) == pytest.approx((1 - chance, 1 - 0.25 / chance))


def test_grades_without_a_kappa() -> None:
    assert "grades of shapes (2,) and (1,)" in refusal(lambda: kappa([1, 2], [1]))
    assert "expected finite ones" in refusal(lambda: kappa([math.nan], [1]))
    assert "weights 'quadratc'; did you mean 'quadratic'?" in refusal(lambda: kappa([1], [1], "quadratc"))  # type: ignore[arg-type]
