"""Randomization tests: alone, exact or drawn, and by the largest statistic, against a loop over all sign flips."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples
from refusals import refusal
from scipy import stats
from scoring_tools import ap

from harness.data.columns import Floats
from harness.scoring import randomization
from harness.scoring.compare import compare
from harness.scoring.randomization import sign_flips, step_down_max_t
from harness.scoring.scores import Scores

THOUSANDTHS = st.lists(st.integers(-1000, 1000).filter(bool), max_size=9)


def flips(thousandths: list[int], permutations: int, seed: int = 0) -> tuple[float, float | None]:
    return sign_flips(np.array(thousandths, dtype=np.float64) / 1000, permutations, seed, 1e-12)


def share(thousandths: list[int]) -> float:
    """Of all sign patterns, those whose sum is as far from 0 as the observed one."""
    patterns = product((1, -1), repeat=len(thousandths))
    sums = [abs(sum(s * d for s, d in zip(pattern, thousandths, strict=True))) for pattern in patterns]
    return sum(found >= abs(sum(thousandths)) for found in sums) / len(sums)


@given(THOUSANDTHS, st.integers(0, 20), st.integers(1, 600))
@settings(max_examples=examples(150), deadline=None)
def test_it_is_exact_where_the_patterns_are_no_more_than_the_permutations(
    differences: list[int], zeros: int, permutations: int
) -> None:
    p, error = flips(differences + [0] * zeros, permutations)
    assert (error is None) == (2 ** len(differences) <= permutations)
    if error is None:
        assert p == share(differences)


def test_three_differences_of_many_topics() -> None:
    """Of 67 topics three differ, by .1 -.2 .3: six of their eight sign patterns reach .2."""
    assert flips([0] * 64 + [100, -200, 300], 8) == (6 / 8, None)
    assert flips([0] * 64 + [100, -200, 300], 7)[1] is not None
    assert flips([0] * 70, 1) == (1.0, None)
    assert flips([], 1) == (1.0, None)


def test_differences_of_0_change_neither_p_nor_its_error() -> None:
    rng = np.random.default_rng(4)
    differences = rng.integers(1, 1000, 40).tolist()
    assert flips([-differences[0], *differences[1:]], 500) == flips(
        [-differences[0], *[0] * 100, *differences[1:]], 500
    )


def test_the_standard_error_is_the_spread_of_p_over_seeds() -> None:
    differences = [int(d) for d in np.random.default_rng(9).normal(150, 500, 30)]
    found = [flips(differences, 400, seed) for seed in range(400)]
    p = np.array([value for value, _ in found])
    assert 0.05 < p.mean() < 0.95
    assert np.mean([error or 0 for _, error in found]) == pytest.approx(p.std(), rel=0.15)


def test_what_is_drawn_nears_the_exact_p() -> None:
    differences = [int(d) for d in np.random.default_rng(3).normal(100, 400, 14)]
    (exact, _), (drawn, error) = flips(differences, 2**14), flips(differences, 2**14 - 1)
    assert 0.05 < exact < 0.95
    assert drawn != exact
    assert abs(drawn - exact) < 5 * (error or 0)


@pytest.mark.parametrize(("n", "permutations"), [(12, 4096), (20, 3000), (70, 3000), (130, 1001)])
def test_memory_chunks_do_not_change_p(n: int, permutations: int, monkeypatch: pytest.MonkeyPatch) -> None:
    differences = [int(d) for d in np.random.default_rng(1).normal(50, 400, n)]
    whole = flips(differences, permutations)
    monkeypatch.setattr(randomization, "CHUNK_WORDS", 100)
    assert flips(differences, permutations) == whole


def absolute_t(differences: Floats) -> list[float]:
    """|t| of each column by scipy; 0 for differences that are all 0."""
    columns = [column[~np.isnan(column)] for column in differences.T]
    return [abs(float(stats.ttest_1samp(c, 0.0).statistic)) if c.any() else 0.0 for c in columns]


def by_all_flips(differences: Floats) -> tuple[list[float], list[float]]:
    """p and corrected p as Westfall and Young define them, one sign flip and one test at a time."""
    topics, tests = differences.shape
    observed = absolute_t(differences)
    order = sorted(range(tests), key=lambda j: -observed[j])
    own, largest = [0] * tests, [0] * tests
    for signs in product((1.0, -1.0), repeat=topics):
        drawn = absolute_t(differences * np.array(signs)[:, None])
        for j in range(tests):
            own[j] += drawn[j] >= observed[j] * (1 - 1e-9)
        for at, j in enumerate(order):
            largest[j] += max(drawn[k] for k in order[at:]) >= observed[j] * (1 - 1e-9)
    corrected = [count / 2**topics for count in largest]
    for one, other in pairwise(order):
        corrected[other] = max(corrected[other], corrected[one])
    return [count / 2**topics for count in own], corrected


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_it_is_what_the_definition_gives(seed: int) -> None:
    random = np.random.default_rng(seed)
    differences = random.normal(0.3, 1.0, (7, 4)).round(1)
    if seed % 2:
        differences[random.random(differences.shape) < 0.15] = np.nan
    p, corrected, exact = step_down_max_t(differences, 128, seed=0)
    assert exact
    expected = by_all_flips(differences)
    assert (p.tolist(), corrected.tolist()) == (pytest.approx(expected[0]), pytest.approx(expected[1]))


def test_equal_tests_cost_nothing_and_no_difference_is_never_significant() -> None:
    differences = np.random.default_rng(1).normal(0.8, 1.0, (20, 1))
    alone = step_down_max_t(differences, 5000, seed=3)
    repeated = step_down_max_t(np.hstack([differences] * 50 + [np.zeros((20, 1))]), 5000, seed=3)
    assert repeated[1][:50].tolist() == [alone[1][0]] * 50
    assert repeated[1][50] == 1.0
    assert not alone[2]


def test_drawn_p_is_near_the_exact_one_and_never_0() -> None:
    differences = np.random.default_rng(5).normal(0.5, 1.0, (12, 6))
    exact, drawn = step_down_max_t(differences, 4096, seed=1), step_down_max_t(differences, 4095, seed=1)
    assert (exact[2], drawn[2]) == (True, False)
    assert drawn[1] == pytest.approx(exact[1], abs=5 * 0.5 / np.sqrt(4095))
    strong = np.random.default_rng(2).normal(9.0, 0.1, (70, 2))
    assert step_down_max_t(strong, 99, seed=1)[1].tolist() == [0.01, 0.01]


def test_the_familywise_error_rate_is_alpha() -> None:
    """Of 400 correlated families without a difference, about 5 % have any significant test; Bonferroni's are fewer."""
    random = np.random.default_rng(11)
    families, tests = 400, 10
    wrong = bonferroni = 0
    for seed in range(families):
        common = random.normal(size=(25, 1))
        differences = 0.95 * common + 0.3 * random.normal(size=(25, tests))
        p, corrected, _ = step_down_max_t(differences, 399, seed)
        wrong += bool((corrected <= 0.05).any())
        bonferroni += bool((p * tests <= 0.05).any())
    assert wrong / families == pytest.approx(0.05, abs=3 * np.sqrt(0.05 * 0.95 / families))
    assert bonferroni < wrong


def runs(count: int, topics: int, seed: int) -> list[Scores]:
    values = np.random.default_rng(seed).random((count, topics))
    return [ap(f"r{at}", values[at]) for at in range(count)]


@pytest.mark.slow
def test_in_a_comparison_it_is_over_the_rows_and_independent_of_the_order_of_topics() -> None:
    scores = runs(3, 9, 2)
    found = compare(scores, correction="maxT", permutations=512)
    differences = np.stack([scores[a].values[:, 0] - scores[b].values[:, 0] for a, b in ((0, 1), (0, 2), (1, 2))], 1)
    expected = by_all_flips(differences)
    assert [row.p_randomization for row in found.rows] == pytest.approx(expected[0])
    assert [row.p_max_t for row in found.rows] == pytest.approx(expected[1])
    turned = [score.select(score.topics[::-1]) for score in scores]
    again = compare(turned, correction="maxT", permutations=512)
    assert [row.p_max_t for row in again.rows] == [row.p_max_t for row in found.rows]
    assert [row.significant_max_t for row in found.rows] == [(row.p_max_t or 0.0) < 0.05 for row in found.rows]
    assert found.correction.endswith("maxT by sign flips that all tests share; randomization tests are exact")


def test_clusters_flip_together() -> None:
    scores = runs(2, 8, 4)
    clusters = {topic: f"c{at // 2}" for at, topic in enumerate(scores[0].topics)}
    (row,) = compare(scores, correction="maxT", permutations=16, clusters=clusters).rows
    sums = (scores[0].values - scores[1].values).reshape(4, 2).sum(axis=1)[:, None]
    assert row.p_max_t == pytest.approx(by_all_flips(sums)[1][0])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"correction": "maxT", "family": 9}, "family: maxT corrects for the 1 tests made here; leave the family out"),
        ({"correction": "maxt"}, "unknown correction 'maxt'; did you mean 'maxT'?"),
    ],
)
def test_what_it_cannot_correct_for_is_refused(options: dict[str, Any], said: str) -> None:
    assert refusal(compare, runs(2, 5, 1), **options) == said
