"""Differences of trained systems over topics and seeds: components, error rates, and how many seeds a claim needs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from harness.data.columns import Floats
from harness.errors import HarnessError
from harness.scoring.seeds import seed_test, seed_variance, seeds_needed


def trained(random: np.random.Generator, topics: Floats, seeds: int, mean: float = 0.0) -> Floats:
    """Scores of a method whose seeds differ by 0.013, and by 0.05 on each topic."""
    of_seeds = random.normal(0.0, 0.013, (seeds, 1))
    values: Floats = mean + topics + of_seeds + random.normal(0.0, 0.05, (seeds, len(topics)))
    return values


def test_components_come_back() -> None:
    random = np.random.default_rng(0)
    found = seed_variance(trained(random, random.normal(0.4, 0.2, 400), 400))
    assert found.seed == pytest.approx(0.013, rel=0.1)
    assert found.topic == pytest.approx(0.2, rel=0.1)
    assert found.interaction == pytest.approx(0.05, rel=0.02)


@pytest.mark.parametrize(("seeds", "fixed_baseline"), [(2, False), (3, False), (5, False), (3, True)])
def test_the_error_rate_of_equal_methods(seeds: int, fixed_baseline: bool) -> None:
    """Two methods that do not differ: a test of means over seeds finds differences far too often, this one does not."""
    random = np.random.default_rng(seeds)
    trials, wrong, of_means = 800, 0, 0
    for _ in range(trials):
        topics = random.normal(0.4, 0.2, 77)
        a = trained(random, topics, seeds)
        b = (topics + random.normal(0.0, 0.05, 77))[None] if fixed_baseline else trained(random, topics, seeds)
        wrong += seed_test(a, b).p < 0.05
        of_means += stats.ttest_rel(a.mean(axis=0), b.mean(axis=0)).pvalue < 0.05
    assert wrong / trials <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / trials)
    assert of_means / trials > 0.09


def test_it_is_the_paired_test_if_seeds_do_not_differ_() -> None:
    random = np.random.default_rng(9)
    topics = random.normal(0.4, 0.2, 60)
    same = np.repeat((topics + random.normal(0.0, 0.05, 60))[None], 4, axis=0)
    baseline = topics[None]
    found = seed_test(same, baseline)
    expected = stats.ttest_rel(same[0], topics)
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.error, found.freedom) == (found.topics_error, 59.0)


def test_the_error_is_what_new_seeds_and_new_topics_would_change() -> None:
    random = np.random.default_rng(9)
    found = []
    for _ in range(1500):
        topics = random.normal(0.4, 0.2, 60)
        found.append(seed_test(trained(random, topics, 6, 0.02), trained(random, topics, 4)))
    assert np.sqrt(np.mean([each.error**2 for each in found])) == pytest.approx(
        np.std([each.difference for each in found]), rel=0.08
    )
    assert np.mean([each.low < 0.02 < each.high for each in found]) == pytest.approx(0.95, abs=0.017)


def test_seeds_that_a_claim_needs() -> None:
    random = np.random.default_rng(4)
    topics = random.normal(0.4, 0.2, 300)
    a = seed_variance(trained(random, topics, 200))
    need = seeds_needed(a, a, 0.002, 0.015)
    assert need is not None
    half = [stats.t.isf(0.025, 400) * np.sqrt(0.002**2 + 2 * a.seed**2 / n) for n in (need, 2 * need)]
    assert half[1] < half[0] < 0.015
    assert (seeds_needed(a, None, 0.002, 0.015) or need) < need
    assert (seeds_needed(a, a, 0.002, 0.03) or need) < need
    assert seeds_needed(a, a, 0.01, 0.015) is None


def test_what_cannot_be_tested_is_said() -> None:
    with pytest.raises(HarnessError, match=r"needs two seeds and the same topics; found \(1, 5\) and \(1, 5\)"):
        seed_test(np.zeros((1, 5)), np.zeros((1, 5)))
    with pytest.raises(HarnessError, match=r"found \(1, 5\); expected 2 x 2 or more"):
        seed_variance(np.zeros((1, 5)))
