"""Confidence intervals of the means of runs over topics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.data.columns import Floats


def mean_intervals(
    values: Floats, clusters: Sequence[int] | None = None, confidence: float = 0.95
) -> tuple[Floats, Floats]:
    """Returns the t interval of each run's mean over topics: lower and upper ends, float64, shape (runs,).

    Topics of a cluster are dependent, so the interval uses cluster-robust standard errors (Liang and Zeger, 1986) with
    clusters - 1 degrees of freedom. Without clusters this is the usual interval, mean +- t sd / sqrt(n).

    Parameters
    ----------
    values : float64, shape (runs, topics). NaN where a topic does not count for a run.
    clusters : cluster number of each topic, from 0; None: each topic is its own cluster.

    Returns
    -------
    NaN for a run with fewer than two topics (clusters) that count.

    Examples
    --------
    >>> low, high = mean_intervals(np.array([[0.0, 0.5, 1.0, 0.5]]))
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([-0.15], [1.15])
    """
    from scipy import stats

    values = np.asarray(values, dtype=np.float64)
    of = np.arange(values.shape[1]) if clusters is None else np.asarray(clusters, dtype=np.int64)
    member = np.zeros((values.shape[1], int(of.max(initial=-1)) + 1))
    member[np.arange(of.size), of] = 1.0
    counted = ~np.isnan(values)
    n = counted.sum(axis=1).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(counted, values, 0.0).sum(axis=1) / n
        sums = np.where(counted, values - mean[:, None], 0.0) @ member
        groups = (counted.astype(np.float64) @ member > 0).sum(axis=1)
        error = np.sqrt(groups / (groups - 1.0) * (sums**2).sum(axis=1)) / n
        half = stats.t.isf((1.0 - confidence) / 2.0, groups - 1.0) * error
    half[groups < 2] = np.nan
    return mean - half, mean + half
