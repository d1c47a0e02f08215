"""Tests over several collections: against statsmodels' meta-analysis and a mixed model, by hand, and their size."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.meta_analysis import combine_effects

from harness.data.columns import Floats
from harness.errors import HarnessError
from harness.scoring.strata import stratified_test


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
def test_what_cannot_be_tested_is_said(values: dict[str, list[float]], said: str) -> None:
    with pytest.raises(HarnessError) as raised:
        stratified_test("a", "b", "AP", {name: np.array(each) for name, each in values.items()})
    assert str(raised.value) == said


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
