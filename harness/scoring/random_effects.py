"""Trained systems: a difference over topics and seeds, with both as random samples.

The mean over seeds of each topic hides how much another seed would change it: a paired test of such means asks about
these trainings, not about the method. Here seeds and topics are crossed random factors; the squared error of a
difference adds up from their mean squares, with Satterthwaite's degrees of freedom (Cornfield and Tukey, 1956; Brennan,
Generalizability Theory, 2001).

One test of two runs over several collections: topics as strata, the collection as a fixed or as a random effect.

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
from harness.scoring.intervals import detectable_shift, mean_errors
from harness.scoring.randomization import TOLERANCE

MOST_SEEDS = 1_000


@dataclass(frozen=True)
class SeedVariance:
    """Components of variance of one system's scores over seeds and topics, each as a standard deviation.

    Attributes
    ----------
    seed, topic : of seeds' and topics' true means.
    interaction : of what is left: seeds do better on some topics than on others.
    """

    seeds: int
    topics: int
    seed: float
    topic: float
    interaction: float


@dataclass(frozen=True)
class SeedTest:
    """Difference of two systems over other seeds and other topics.

    Attributes
    ----------
    difference, error, freedom : mean of a - b, its standard error, and the t-test's degrees of freedom.
    low, high : interval of the difference at 1 - alpha.
    p : two-sided; 1 where nothing varies and the difference is 0, 0 where nothing varies and it is not.
    topics_error : the part of the error that a paired test of means over seeds knows.
    """

    seeds_a: int
    seeds_b: int
    topics: int
    difference: float
    error: float
    freedom: float
    low: float
    high: float
    p: float
    topics_error: float


def seed_variance(values: Floats) -> SeedVariance:
    """Returns the components of variance of a system with two or more seeds.

    Parameters
    ----------
    values : float64, shape (seeds, topics), without NaN.

    Examples
    --------
    >>> found = seed_variance(np.array([[0.1, 0.5, 0.6], [0.2, 0.6, 0.8]]))
    >>> round(found.seed, 4), round(found.topic, 4), round(found.interaction, 4)
    (0.0913, 0.2828, 0.0408)
    """
    seeds, topics = _checked(values, 2)
    of_seeds, of_topics, rest = _mean_squares(values)
    return SeedVariance(
        seeds,
        topics,
        math.sqrt(max(0.0, of_seeds - rest) / topics),
        math.sqrt(max(0.0, of_topics - rest) / seeds),
        math.sqrt(rest),
    )


def seed_test(a: Floats, b: Floats, alpha: float = 0.05) -> SeedTest:
    """Tests the difference of two systems, at least one of which has several seeds.

    Parameters
    ----------
    a, b : float64, shape (seeds, topics): scores on the same topics, without NaN. A system with one row has no seeds.
    alpha : 1 - alpha is the level of the interval.

    Raises
    ------
    HarnessError
        Neither has two seeds, the topics are not as many, or there are fewer than two.
    """
    from scipy import special

    for values in (a, b):
        _checked(values, 1)
    if max(len(a), len(b)) < 2 or a.shape[1] != b.shape[1]:
        raise HarnessError(f"a test over seeds needs two seeds and the same topics; found {a.shape} and {b.shape}")
    topics = a.shape[1]
    apart = a.mean(axis=0) - b.mean(axis=0)
    difference = float(apart.mean())
    over_topics = float(apart.var(ddof=1)) / topics
    parts = [(over_topics, topics - 1.0)]
    twice = 0.0  # the interaction is in the variance over topics and in that over seeds
    for values in (a, b):
        if (seeds := len(values)) > 1:
            of_seeds, _, rest = _mean_squares(values)
            parts.append((of_seeds / (seeds * topics), seeds - 1.0))
            twice += rest / (seeds * topics)
    whole = sum(variance for variance, _ in parts)
    variance = max(whole - twice, over_topics, *(each for each, _ in parts))
    spread = sum(each**2 / freedom for each, freedom in parts)
    freedom = variance**2 / spread if spread else topics - 1.0
    error = math.sqrt(variance)
    half = -float(special.stdtrit(freedom, alpha / 2.0)) * error
    p = 2.0 * float(special.stdtr(freedom, -abs(difference) / error)) if error else float(difference == 0.0)
    return SeedTest(
        seeds_a=len(a),
        seeds_b=len(b),
        topics=topics,
        difference=difference,
        error=error,
        freedom=freedom,
        low=difference - half,
        high=difference + half,
        p=p,
        topics_error=math.sqrt(over_topics),
    )


def seeds_needed(
    a: SeedVariance,
    b: SeedVariance | None,
    topics_error: float,
    difference: float,
    alpha: float = 0.05,
    power: float = 0.8,
) -> int | None:
    """Returns how many seeds of each trained system find a difference with the power; None beyond 1,000.

    Parameters
    ----------
    b : None if the other system is not trained.
    topics_error : standard error of the difference over topics, which more seeds leave as it is
        (`SeedTest.topics_error`).
    """
    of_seeds = a.seed**2 + (b.seed**2 if b is not None else 0.0)
    for seeds in range(2, MOST_SEEDS + 1):
        variance = topics_error**2 + of_seeds / seeds
        spread = topics_error**4 / (a.topics - 1.0)
        spread += sum(each.seed**4 / seeds**2 / (seeds - 1.0) for each in (a, b) if each is not None)
        freedom = variance**2 / spread if spread else a.topics - 1.0
        if detectable_shift(round(freedom, 3), alpha, power) * math.sqrt(variance) <= difference:
            return seeds
        if detectable_shift(a.topics - 1.0, alpha, power) * topics_error > difference:
            return None  # not even without any variance of seeds
    return None


def _mean_squares(values: Floats) -> tuple[float, float, float]:
    """Returns the mean squares of seeds, topics and the rest of a crossed design without replication."""
    seeds, topics = values.shape
    grand, of_seeds, of_topics = values.mean(), values.mean(axis=1), values.mean(axis=0)
    rest = values - of_seeds[:, None] - of_topics + grand
    return (
        topics * float(((of_seeds - grand) ** 2).sum()) / (seeds - 1),
        seeds * float(((of_topics - grand) ** 2).sum()) / (topics - 1),
        float((rest**2).sum()) / ((seeds - 1) * (topics - 1)),
    )


def _checked(values: Floats, least: int) -> tuple[int, int]:
    if values.ndim != 2 or len(values) < least or values.shape[1] < 2 or np.isnan(values).any():
        raise HarnessError(
            f"seeds x topics: found {values.shape}; expected {least} x 2 or more, without missing values"
        )
    return values.shape[0], values.shape[1]


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
