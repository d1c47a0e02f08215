"""Tests over topics and seeds, and over collections: components, error rates, by statsmodels, by hand, by size."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refusal
from scipy import stats
from statsmodels.stats.meta_analysis import combine_effects

from harness.data.columns import Floats
from harness.errors import HarnessError
from harness.scoring.random_effects import SeedVariance, seed_test, seed_variance, seeds_needed, stratified_test


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


@pytest.mark.slow
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


def test_seeds_that_a_claim_needs_on_few_topics() -> None:
    """By Satterthwaite's approximation: the topics' error has 5 degrees of freedom, seeds one less than there are."""
    a = SeedVariance(seeds=3, topics=6, seed=0.01, topic=0.1, interaction=0.0)
    need = seeds_needed(a, a, 0.004, 0.02)
    assert need is not None and need > 2

    def power(seeds: int) -> float:
        of_topics, of_seeds = 0.004**2, 0.01**2 / seeds
        freedom = (of_topics + 2 * of_seeds) ** 2 / (of_topics**2 / 5 + 2 * of_seeds**2 / (seeds - 1))
        shift = 0.02 / np.sqrt(of_topics + 2 * of_seeds)
        critical = stats.t.isf(0.025, freedom)
        return float(stats.nct.sf(critical, freedom, shift) + stats.nct.cdf(-critical, freedom, shift))

    assert power(need - 1) < 0.8 <= power(need)


def test_seeds_that_cannot_be_tested() -> None:
    with pytest.raises(HarnessError, match=r"needs two seeds and the same topics; found \(1, 5\) and \(1, 5\)"):
        seed_test(np.zeros((1, 5)), np.zeros((1, 5)))
    with pytest.raises(HarnessError, match=r"found \(1, 5\); expected 2 x 2 or more"):
        seed_variance(np.zeros((1, 5)))


def collections(spread: float, seed: int, sizes: tuple[int, ...] = (77, 71, 78, 30)) -> dict[str, Floats]:
    random = np.random.default_rng(seed)
    return {str(n): random.normal(0.02 + spread * random.normal(), 0.1, n) for n in sizes}


@pytest.mark.parametrize("seed", range(3))
def test_random_effects_and_heterogeneity_are_those_of_statsmodels(seed: int) -> None:
    values = collections(0.06, seed)
    found = stratified_test("a", "b", "AP", values)
    mean = np.array([each.mean() for each in values.values()])
    variance = np.array([each.var(ddof=1) / len(each) for each in values.values()])
    peer = combine_effects(mean, variance, method_re="iterated")
    assert [found.q, found.q_p] == pytest.approx([peer.q, peer.test_homogeneity().pvalue])
    assert [found.i_squared, found.tau] == pytest.approx([max(0.0, peer.i2), np.sqrt(peer.tau2)], rel=1e-4)
    assert found.random is not None
    error = peer.sd_eff_w_re * np.sqrt(max(1.0, peer.scale_hksj_re))
    assert [found.random.difference, found.random.error] == pytest.approx([peer.mean_effect_re, error], rel=1e-4)
    half = stats.t.isf(0.025, 3) * error
    assert found.random.high - found.random.low == pytest.approx(2 * half, rel=1e-4)


def test_the_fixed_effect_is_the_mean_over_all_topics_without_the_variance_between_collections() -> None:
    values = collections(0.1, 5)
    found = stratified_test("a", "b", "AP", values)
    together = np.concatenate(list(values.values()))
    assert found.fixed.difference == pytest.approx(together.mean())
    inside = sum(len(each) * each.var(ddof=1) for each in values.values()) / len(together) ** 2
    assert found.fixed.error == pytest.approx(np.sqrt(inside))
    assert found.fixed.error < stats.sem(together)
    assert found.differences == {name: pytest.approx(each.mean()) for name, each in values.items()}
    assert found.topics == {"77": 77, "71": 71, "78": 78, "30": 30}


def test_two_alike_collections_are_about_one_paired_t_test() -> None:
    values = np.random.default_rng(2).normal(0.03, 0.1, 80)
    found = stratified_test("a", "b", "AP", {"one": values[:40], "two": values[40:]})
    assert found.fixed.p == pytest.approx(stats.ttest_1samp(values, 0.0).pvalue, rel=0.2)


@pytest.mark.slow
def test_error_rates_under_the_null_hypothesis() -> None:
    """Without a mean difference: the fixed effect holds its level if collections agree, the random one if they vary."""
    random = np.random.default_rng(3)
    trials, wrong = 1000, {"fixed, alike": 0, "fixed, varying": 0, "random, varying": 0}
    for _ in range(trials):
        alike = {str(n): random.normal(0.0, 0.1, n) for n in (40, 50, 60)}
        varying = {name: values + random.normal(0.0, 0.03) for name, values in alike.items()}
        wrong["fixed, alike"] += stratified_test("a", "b", "AP", alike).fixed.p < 0.05
        found = stratified_test("a", "b", "AP", varying)
        assert found.random is not None
        wrong["fixed, varying"] += found.fixed.p < 0.05
        wrong["random, varying"] += found.random.p < 0.05
    error = 3 * np.sqrt(0.05 * 0.95 / trials)
    assert wrong["fixed, alike"] / trials == pytest.approx(0.05, abs=error)
    assert wrong["random, varying"] / trials <= 0.05 + error
    assert wrong["fixed, varying"] / trials > 0.2  # of other collections it says nothing


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"one": [0.1, 0.2]}, "a test over collections needs two or more; there is 1"),
        ({"one": [0.1, 0.2], "two": [0.1]}, "runs a and b have fewer than two topics for AP in common on two"),
    ],
)
def test_collections_that_cannot_be_tested(values: dict[str, list[float]], said: str) -> None:
    assert refusal(stratified_test, "a", "b", "AP", {name: np.array(each) for name, each in values.items()}) == said


def test_a_collection_without_variance_leaves_the_fixed_effect_alone() -> None:
    found = stratified_test("a", "b", "AP", {"one": np.array([0.1, 0.2, 0.3]), "two": np.array([0.1, 0.1])})
    assert found.fixed.difference == pytest.approx(0.16)
    assert found.fixed.error == pytest.approx(0.6 * 0.1 / np.sqrt(3))
    assert (found.random, found.q, found.tau) == (None, None, None)


def test_clusters_of_dependent_topics_are_the_units_of_each_collection() -> None:
    """Clusters of equal size are as many topics with the clusters' means."""
    random = np.random.default_rng(0)
    values = {"one": random.normal(size=12), "two": random.normal(size=8)}
    clusters = {name: [at // 2 for at in range(len(each))] for name, each in values.items()}
    means = {name: each.reshape(-1, 2).mean(axis=1) for name, each in values.items()}
    found, expected = stratified_test("a", "b", "AP", values, clusters=clusters), stratified_test("a", "b", "AP", means)
    assert [found.fixed.error, found.q, found.fixed.p] == pytest.approx(
        [expected.fixed.error, expected.q, expected.fixed.p]
    )
