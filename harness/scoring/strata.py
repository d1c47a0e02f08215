"""One test of two runs over several collections: topics as strata, the collection as a fixed or as a random effect.

Sources: stratified mean and its error (Cochran, Sampling Techniques, 1977, chapter 5; degrees of freedom by
Satterthwaite, 1946); heterogeneity Q and I^2 (Cochran, 1954; Higgins and Thompson, 2002); between-collection variance
(Paule and Mandel, 1982); interval of a random-effects mean (Hartung and Knapp, 2001, in the form
that is not narrower than the usual one: Roever, Knapp and Friede, 2015).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.data.columns import Floats
from harness.errors import HarnessError


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
        if they vary.
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
    random: PooledDifference
    q: float
    q_p: float
    i_squared: float
    tau: float


def stratified_test(
    a: str, b: str, measure: str, differences: Mapping[str, Floats], alpha: float = 0.05
) -> StratifiedTest:
    """Tests the differences of two runs over the topics of several collections.

    Parameters
    ----------
    differences : collection -> float64, shape (topics,): a - b on each topic that counts for both runs.
    alpha : 1 - alpha is the level of the intervals.

    Raises
    ------
    HarnessError
        There are fewer than two collections, or one has fewer than two topics or the same difference on all.

    Examples
    --------
    >>> values = {"one": np.array([0.1, 0.3, 0.2]), "two": np.array([0.0, 0.1, 0.2, 0.1])}
    >>> found = stratified_test("a", "b", "AP", values)
    >>> round(found.fixed.difference, 4), round(found.fixed.p, 4), round(found.random.difference, 4)
    (0.1429, 0.0098, 0.1417)
    """
    from scipy import special

    if len(differences) < 2:
        raise HarnessError(f"a test over collections needs two or more; there is {len(differences)}")
    if few := [name for name, values in differences.items() if len(values) < 2]:
        raise HarnessError(f"runs {a} and {b} have fewer than two topics for {measure} in common on {few[0]}")
    n = np.array([len(values) for values in differences.values()], dtype=np.float64)
    mean = np.array([values.mean() for values in differences.values()])
    variance = np.array([values.var(ddof=1) for values in differences.values()]) / n
    if (variance == 0.0).any():
        constant = next(name for name, each in zip(differences, variance, strict=True) if each == 0.0)
        raise HarnessError(f"runs {a} and {b} differ by the same amount in {measure} on all topics of {constant}")
    share = n / n.sum()
    parts = share**2 * variance
    freedom = float(parts.sum() ** 2 / (parts**2 / (n - 1.0)).sum())
    q = _q(mean, 1.0 / variance)
    tau_squared = _paule_mandel(mean, variance)
    of_random = 1.0 / (variance + tau_squared)
    centre = float(of_random @ mean / of_random.sum())
    scaled = max(1.0, _q(mean, of_random) / (len(n) - 1))  # never less than what the topics' sampling says
    hartung_knapp = math.sqrt(scaled / of_random.sum())
    return StratifiedTest(
        a=a,
        b=b,
        measure=measure,
        topics={name: len(values) for name, values in differences.items()},
        differences=dict(zip(differences, mean.tolist(), strict=True)),
        fixed=_pooled(float(share @ mean), math.sqrt(parts.sum()), freedom, alpha),
        random=_pooled(centre, hartung_knapp, len(n) - 1.0, alpha),
        q=q,
        q_p=float(special.chdtrc(len(n) - 1, q)),
        i_squared=max(0.0, (q - (len(n) - 1)) / q) if q > 0.0 else 0.0,
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
