"""Intervals of means against scipy, and of clusters against what they reduce to."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from harness.scoring.intervals import mean_intervals


def test_as_scipy_has_it() -> None:
    values = np.random.default_rng(1).random((4, 12))
    values[1, 3] = values[2, :10] = math.nan
    for confidence in (0.8, 0.95):
        low, high = mean_intervals(values, confidence=confidence)
        for run, row in enumerate(values):
            expected = stats.ttest_1samp(row[~np.isnan(row)], 0.0).confidence_interval(confidence)
            np.testing.assert_allclose((low[run], high[run]), (expected.low, expected.high), rtol=1e-12)


def test_equal_clusters_are_as_their_means() -> None:
    values = np.random.default_rng(2).random((3, 12))
    clusters = [0, 1, 2, 3] * 3
    means = values.reshape(3, 3, 4).mean(axis=1)
    np.testing.assert_allclose(mean_intervals(values, clusters), mean_intervals(means), rtol=1e-12)


def test_unequal_clusters_by_hand() -> None:
    """Mean 0.5; deviations add to -1 and 1 in two clusters; half = t(1 df) sqrt(2 / 1 * 2) / 4."""
    values = np.array([[0.0, 0.0, 1.0, 1.0]])
    low, high = mean_intervals(values, [0, 0, 1, 1])
    half = 12.706204736174694 * 2 / 4
    np.testing.assert_allclose((low[0], high[0]), (0.5 - half, 0.5 + half), rtol=1e-12)
    repeated = np.array([[0.0, 0.0, 0.0, 1.0, 0.5]])
    narrow, wide = (mean_intervals(repeated, clusters) for clusters in (None, [0, 0, 0, 1, 2]))
    assert wide[1][0] - wide[0][0] > narrow[1][0] - narrow[0][0]


def test_too_few_topics_have_no_interval() -> None:
    low, high = mean_intervals(np.array([[0.5, math.nan], [math.nan, math.nan], [0.5, 0.5]]))
    assert np.isnan(low[:2]).all()
    assert np.isnan(high[:2]).all()
    assert (low[2], high[2]) == (0.5, 0.5)
    assert np.isnan(mean_intervals(np.array([[0.1, 0.9]]), [0, 0])).all()
