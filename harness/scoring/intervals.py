"""Means over topics: standard errors, confidence intervals and power, also where topics are dependent.

All means are over topics. Topics that share a cluster are dependent, which changes errors, not means: the
cluster-robust variance CR2 with its degrees of freedom (Bell and McCaffrey, Survey Methodology 2002), in the closed
form that it has for a mean. Of clusters of equal size it is the t-test of their means; of single topics the usual one.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import lru_cache

import numpy as np

from harness.data.columns import Floats, Index


def numbers_of_names(names: Sequence[Hashable]) -> Index:
    """Returns the number of each name, from 0, in the order of their first occurrence; int64, shape (names,)."""
    number = {name: at for at, name in enumerate(dict.fromkeys(names))}
    return np.array([number[name] for name in names], dtype=np.int64)


def mean_errors(values: Floats, clusters: Sequence[int] | Index | None = None) -> tuple[Floats, Floats, Floats, Index]:
    """Returns each row's mean over topics, its standard error, degrees of freedom, and number of clusters that count.

    With n_g of N topics in cluster g, and s_g the sum of their deviations from the mean, the squared error is the sum
    of s_g^2 / (1 - n_g / N), over N^2; without clusters, sd^2 / n with n - 1 degrees of freedom.

    Parameters
    ----------
    values : float64, shape (rows, topics). NaN where a topic does not count.
    clusters : cluster number of each topic, from 0; None: each topic is its own cluster.

    Returns
    -------
    Four arrays of shape (rows,). Error and degrees of freedom are NaN for a row with fewer than two clusters.

    Examples
    --------
    >>> [each.round(4).tolist() for each in mean_errors(np.array([[0.0, 0.5, 1.0, 0.9]]), [0, 0, 1, 1])]
    [[0.6], [0.35], [1.0], [2]]
    """
    values = np.asarray(values, dtype=np.float64)
    counted = ~np.isnan(values)
    size = _sums(counted.astype(np.float64), clusters)
    groups = np.count_nonzero(size, axis=1)
    n = size.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(counted, values, 0.0).sum(axis=1) / n
        sums = _sums(np.where(counted, values - mean[:, None], 0.0), clusters)
        outside = 1.0 - size / n[:, None]  # share of the topics outside the cluster
        error = np.sqrt((sums**2 / outside).sum(axis=1)) / n
        scaled = size**2 / outside
        spread = (size**2).sum(axis=1) + (scaled.sum(axis=1) ** 2 - (scaled**2).sum(axis=1)) / n**2
        freedom = n**2 / spread
    few = groups < 2
    error[few] = freedom[few] = np.nan
    return mean, error, freedom, groups


def _sums(values: Floats, clusters: Sequence[int] | Index | None) -> Floats:
    """Returns the sums of each row by cluster, shape (rows, clusters)."""
    if clusters is None:
        return values
    of = np.asarray(clusters, dtype=np.int64)
    member = np.zeros((of.size, int(of.max(initial=-1)) + 1))
    member[np.arange(of.size), of] = 1.0
    sums: Floats = values @ member
    return sums


def mean_intervals(
    values: Floats, clusters: Sequence[int] | Index | None = None, confidence: float = 0.95
) -> tuple[Floats, Floats]:
    """Returns the t interval of each run's mean over topics: lower and upper ends, float64, shape (runs,).

    Parameters
    ----------
    values, clusters : see `mean_errors`.

    Returns
    -------
    NaN for a run with fewer than two topics (clusters) that count.

    Examples
    --------
    >>> low, high = mean_intervals(np.array([[0.0, 0.5, 1.0, 0.5]]))
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([-0.15], [1.15])
    """
    from scipy import special

    mean, error, freedom, _ = mean_errors(values, clusters)
    half = -special.stdtrit(freedom, (1.0 - confidence) / 2.0) * error
    return mean - half, mean + half


def paired_t(
    mean: float, sd: float, n: int, freedom: float, level: float
) -> tuple[float | None, float | None, float | None, float]:
    """Returns Cohen's d, the t statistic, the two-sided p, and half the width of the interval, of paired differences.

    Where sd is 0 and the mean is not, the first three are None: the test is undefined.
    """
    from scipy import special

    if sd == 0:
        return (0.0, 0.0, 1.0, 0.0) if mean == 0 else (None, None, None, 0.0)
    error = sd / math.sqrt(n)
    # `stats.t` calls these two, after checks of its arguments that take longer than the test.
    p = 2 * float(special.stdtr(freedom, -abs(mean) / error))
    return mean / sd, mean / error, p, -float(special.stdtrit(freedom, (1 - level) / 2)) * error


@lru_cache(maxsize=1024)
def detectable_shift(freedom: float, alpha: float, power: float) -> float:
    """Returns the smallest detectable mean difference in units of its standard error, by the power of the noncentral t.

    |T| > c means that the chi-square under T is below freedom (Z + shift)^2 / c^2; the mean over Z is a trapezoid sum.
    Unlike scipy's `nct` it also converges for few topics and small alpha.
    """
    from scipy import special  # not `stats` or `optimize`, whose imports take longer than most comparisons

    critical = -float(special.stdtrit(freedom, alpha / 2))
    z, step = np.linspace(-9.0, 9.0, 4001, retstep=True)
    weights = np.exp(-z * z / 2) * step / math.sqrt(2 * math.pi)

    def lacking(shift: float) -> float:
        return float(weights @ special.chdtr(freedom, freedom * ((z + shift) / critical) ** 2)) - power

    low, high = 0.0, critical + 1.0
    value = below = lacking(low)
    while (above := lacking(high)) < 0:
        high *= 2
    # Regula falsi; where an end stays twice, its value is halved (Illinois), so that both ends approach the root.
    last, shift = high, low
    while abs(shift - last) > 1e-13 * high:
        last, shift = shift, high - above * (high - low) / (above - below)
        before, value = value, lacking(shift)
        if value < 0:
            low, below, above = shift, value, above / (1 + (before < 0))
        else:
            high, above, below = shift, value, below / (1 + (before >= 0))
    return shift
