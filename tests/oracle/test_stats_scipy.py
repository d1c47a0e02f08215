"""Agreement of `harness.scoring.compare` with scipy.stats, which computes the same by other routes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import optimize
from scipy import stats as scipy_stats
from scoring_tools import ap

from harness.data.columns import Floats
from harness.scoring.compare import compare
from harness.scoring.comparison import PairDifference
from harness.scoring.intervals import detectable_shift


def row_of(a: Floats, b: Floats, permutations: int = 10, confidence: float = 0.95) -> PairDifference:
    return compare([ap("a", a), ap("b", b)], permutations=permutations, confidence=confidence).rows[0]


@pytest.mark.parametrize("n", [2, 3, 10, 77, 500])
@pytest.mark.parametrize("seed", range(5))
def test_paired_t_test(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.random(n), rng.random(n) ** 1.2
    row, expected = row_of(a, b, confidence=0.9), scipy_stats.ttest_rel(a, b)
    interval = expected.confidence_interval(0.9)
    assert row.t == pytest.approx(expected.statistic, rel=1e-10)
    assert row.p == pytest.approx(expected.pvalue, rel=1e-10)
    assert [row.ci_low, row.ci_high] == pytest.approx([interval.low, interval.high], rel=1e-9)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=2, max_size=40))
def test_paired_t_test_on_rounded_values(pairs: list[tuple[int, int]]) -> None:
    a, b = np.array(pairs, dtype=np.float64).T / 1000
    assume(len({x - y for x, y in pairs}) > 1)
    row, expected = row_of(a, b), scipy_stats.ttest_rel(a, b)
    assert row.t == pytest.approx(expected.statistic, rel=1e-8, abs=1e-10)
    assert row.p == pytest.approx(expected.pvalue, rel=1e-8)


@pytest.mark.parametrize(("n", "zeros"), [(3, 0), (7, 0), (7, 3), (8, 6), (11, 0)])
@pytest.mark.parametrize("seed", range(3))
def test_exact_randomization(n: int, zeros: int, seed: int) -> None:
    """As many permutations as there are sign patterns of the differences that are not 0 are enough."""
    rng = np.random.default_rng(seed)
    a, b = rng.random(n), rng.random(n)
    b[:zeros] = a[:zeros]
    expected = scipy_stats.permutation_test(
        (a - b,), np.mean, permutation_type="samples", n_resamples=np.inf, vectorized=True
    )
    row = row_of(a, b, permutations=2 ** (n - zeros))
    assert row.p_randomization == pytest.approx(expected.pvalue)
    assert row.p_randomization_error is None


def test_drawn_randomization() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.random(60), rng.random(60) * 0.85
    expected = scipy_stats.permutation_test(
        (a - b,), np.mean, permutation_type="samples", n_resamples=20_000, vectorized=True, rng=np.random.default_rng(6)
    ).pvalue
    assert 0.005 < expected < 0.5
    spread = np.sqrt(2 * expected * (1 - expected) / 20_000)
    assert abs(row_of(a, b, permutations=20_000).p_randomization - expected) < 5 * spread


@pytest.mark.parametrize("n", [3, 5, 10, 77, 1000, 100_000])
@pytest.mark.parametrize("alpha", [0.05, 0.05 / 36])
@pytest.mark.parametrize("power", [0.06, 0.5, 0.8, 0.99])
def test_detectable_difference_is_the_root_that_brentq_finds(n: int, alpha: float, power: float) -> None:
    critical = scipy_stats.t.isf(alpha / 2, n - 1)

    def lacking(shift: float) -> float:
        lower = scipy_stats.nct.cdf(-critical, n - 1, shift)  # NaN where it underflows
        return float(scipy_stats.nct.sf(critical, n - 1, shift) + np.nan_to_num(lower) - power)

    shift = detectable_shift(n - 1, alpha, power)
    assert lacking(shift) == pytest.approx(0.0, abs=1e-9)
    assert shift == pytest.approx(optimize.brentq(lacking, 0.0, 2 * shift + 1, xtol=1e-12), rel=1e-7)
