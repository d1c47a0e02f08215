"""One test of two runs over several collections: topics as strata, the collection as a fixed or as a random effect.

Sources: stratified mean and its error (Cochran, Sampling Techniques, 1977, chapter 5; degrees of freedom by
Satterthwaite, 1946); heterogeneity Q and I^2 (Cochran, 1954; Higgins and Thompson, 2002); between-collection variance
(Paule and Mandel, 1982); interval of a random-effects mean (Hartung and Knapp, 2001, in the form
that is not narrower than the usual one: Roever, Knapp and Friede, 2015).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.data.columns import Floats, Index
from harness.errors import HarnessError
from harness.scoring.intervals import mean_errors
from harness.scoring.randomization import TOLERANCE


@dataclass(frozen=True)
class PooledDifference:
    """A mean difference over collections: interval at 1 - alpha, two-sided p."""

    difference: float
    error: float
    freedom: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class StratifiedTest:
    """One measure of run `a` against run `b` over several collections.

    Attributes
    ----------
    topics : collection -> topics that count for both runs.
    differences : collection -> mean of a - b.
    fixed : of the topics of these collections: each topic weighs the same.
    random : of collections like these: the collections' differences vary around a mean, which this is. Its p is larger
        if they vary. None, as are those that follow, if the runs differ by the same amount on all topics of a
        collection, whose weight would be infinite.
    q, q_p : heterogeneity: weighted squared deviations of the collections' differences, and its chi-square p.
    i_squared : share of their variance that is not sampling of topics.
    tau : standard deviation of the collections' true differences (Paule and Mandel).
    """

    a: str
    b: str
    measure: str
    topics: dict[str, int]
    differences: dict[str, float]
    fixed: PooledDifference
    random: PooledDifference | None = None
    q: float | None = None
    q_p: float | None = None
    i_squared: float | None = None
    tau: float | None = None


def stratified_error(
    differences: Floats, strata: Index, clusters: Index | Sequence[int] | None = None
) -> tuple[float, float]:
    """Returns the standard error of the mean over all topics, and its degrees of freedom, of topics drawn by stratum.

    The variance between strata is no part of it: the collections are these, and each keeps its number of topics.

    Parameters
    ----------
    differences : float64, shape (topics,).
    strata : number of each topic's collection, from 0. The error is NaN if one has fewer than two topics (clusters).
    clusters : number of each topic's cluster of dependent topics; None if topics are independent.

    Examples
    --------
    >>> differences = np.array([0.1, 0.3, 0.2, 0.0, 0.1, 0.2, 0.1])
    >>> error, freedom = stratified_error(differences, np.array([0, 0, 0, 1, 1, 1, 1]))
    >>> round(error, 4), round(freedom, 2)
    (0.034, 4.67)
    """
    _, errors, freedoms, _ = _by_stratum(differences, strata, clusters)
    return _error_of_all(np.bincount(strata), errors, freedoms)


def _by_stratum(
    differences: Floats, strata: Index, clusters: Index | Sequence[int] | None
) -> tuple[Floats, Floats, Floats, Index]:
    """Returns the mean of each stratum, its standard error, degrees of freedom, and number of topics (clusters)."""
    values = np.full((int(strata.max(initial=-1)) + 1, len(differences)), np.nan)
    values[strata, np.arange(len(differences))] = differences
    mean, error, freedom, units = mean_errors(values, clusters)
    error[error <= TOLERANCE] = 0.0
    return mean, error, freedom, units


def _error_of_all(n: Index, errors: Floats, freedoms: Floats) -> tuple[float, float]:
    """Returns the error of the mean over all topics and its degrees of freedom, by Satterthwaite."""
    parts = (n / n.sum() * errors) ** 2
    spread = float((parts**2 / freedoms).sum())
    freedom = float(parts.sum() ** 2 / spread) if spread else float(freedoms.sum())
    return math.sqrt(float(parts.sum())), freedom


def stratified_test(
    a: str,
    b: str,
    measure: str,
    differences: Mapping[str, Floats],
    alpha: float = 0.05,
    clusters: Mapping[str, Sequence[int]] | None = None,
) -> StratifiedTest:
    """Tests the differences of two runs over the topics of several collections.

    Parameters
    ----------
    differences : collection -> float64, shape (topics,): a - b on each topic that counts for both runs.
    alpha : 1 - alpha is the level of the intervals.
    clusters : collection -> number of each topic's cluster of dependent topics; None if topics are independent.

    Raises
    ------
    HarnessError
        There are fewer than two collections, or one has fewer than two topics (clusters).

    Examples
    --------
    >>> values = {"one": np.array([0.1, 0.3, 0.2]), "two": np.array([0.0, 0.1, 0.2, 0.1])}
    >>> found = stratified_test("a", "b", "AP", values)
    >>> round(found.fixed.difference, 4), round(found.fixed.p, 4), round(found.random.difference, 4)
    (0.1429, 0.0098, 0.1417)
    """
    if len(differences) < 2:
        raise HarnessError(f"a test over collections needs two or more; there is {len(differences)}")
    names = list(differences)
    strata = np.repeat(np.arange(len(names)), [len(values) for values in differences.values()])
    of = None if clusters is None else [each for name in names for each in clusters[name]]
    mean, error, freedoms, units = _by_stratum(np.concatenate(list(differences.values())), strata, of)
    n = np.bincount(strata, minlength=len(names))
    if len(units) < len(names) or units.min() < 2:
        few = next(name for at, name in enumerate(names) if at >= len(units) or units[at] < 2)
        raise HarnessError(f"runs {a} and {b} have fewer than two topics for {measure} in common on {few}")
    test = StratifiedTest(
        a=a,
        b=b,
        measure=measure,
        topics=dict(zip(names, n.tolist(), strict=True)),
        differences=dict(zip(names, mean.tolist(), strict=True)),
        fixed=_pooled(float(n @ mean / n.sum()), *_error_of_all(n, error, freedoms), alpha),
    )
    return test if (error == 0.0).any() else _with_heterogeneity(test, mean, error**2, alpha)


def _with_heterogeneity(test: StratifiedTest, mean: Floats, variance: Floats, alpha: float) -> StratifiedTest:
    from scipy import special

    freedom = len(mean) - 1
    q = _q(mean, 1.0 / variance)
    tau_squared = _paule_mandel(mean, variance)
    weights = 1.0 / (variance + tau_squared)
    scaled = max(1.0, _q(mean, weights) / freedom)  # never less than what the topics' sampling says
    hartung_knapp = math.sqrt(scaled / weights.sum())
    return replace(
        test,
        random=_pooled(float(weights @ mean / weights.sum()), hartung_knapp, float(freedom), alpha),
        q=q,
        q_p=float(special.chdtrc(freedom, q)),
        i_squared=max(0.0, (q - freedom) / q) if q > 0.0 else 0.0,
        tau=math.sqrt(tau_squared),
    )


def _pooled(difference: float, error: float, freedom: float, alpha: float) -> PooledDifference:
    from scipy import special

    half = -float(special.stdtrit(freedom, alpha / 2.0)) * error
    p = 2.0 * float(special.stdtr(freedom, -abs(difference) / error)) if error else float(difference == 0.0)
    return PooledDifference(difference, error, freedom, difference - half, difference + half, p)


def _q(mean: Floats, weights: Floats) -> float:
    """Returns the weighted sum of squared deviations from the weighted mean."""
    centre = weights @ mean / weights.sum()
    return float(weights @ (mean - centre) ** 2)


def _paule_mandel(mean: Floats, variance: Floats) -> float:
    """Returns the variance between collections at which Q equals its expectation; 0 if Q is below it."""
    from scipy import optimize

    freedom = len(mean) - 1

    def above(tau_squared: float) -> float:
        return _q(mean, 1.0 / (variance + tau_squared)) - freedom

    if above(0.0) <= 0.0:
        return 0.0
    high = float(mean.var(ddof=1)) + 1e-12
    while above(high) > 0.0:
        high *= 2.0
    return float(optimize.brentq(above, 0.0, high, xtol=1e-15))
