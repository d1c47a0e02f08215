"""Trained systems: a difference over topics and seeds, with both as random samples.

The mean over seeds of each topic hides how much another seed would change it: a paired test of such means asks about
these trainings, not about the method. Here seeds and topics are crossed random factors; the squared error of a
difference adds up from their mean squares, with Satterthwaite's degrees of freedom (Cornfield and Tukey, 1956; Brennan,
Generalizability Theory, 2001).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from harness.data.columns import Floats
from harness.errors import HarnessError
from harness.scoring.intervals import detectable_shift

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
