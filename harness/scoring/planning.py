"""Planning: how many topics a paired test needs to find a difference, from the scores of pilot or archived runs.

Sources: topic set size design by the paired t-test, with the variance of differences from the residual of a two-way
analysis of variance over all runs (Sakai, Information Retrieval Journal 19(3), 2016; Nagata's power of the t-test), and
power by resampling of topics (Webber, Moffat and Zobel, CIKM 2008).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from harness.data.columns import Floats
from harness.errors import HarnessError
from harness.scoring.anova import anova
from harness.scoring.intervals import detectable_shift

MOST_TOPICS = 100_000
RESAMPLES = 2_000


@dataclass(frozen=True)
class TopicSetSize:
    """How many topics find one difference in one measure, with the given power.

    Attributes
    ----------
    difference : absolute mean difference between two runs.
    sd : standard deviation of a difference between two runs over topics, sqrt(2) times the residual's.
    topics : the smallest number of topics whose power is at least the one asked for; None beyond 100,000.
    resampled : power of the test at that number of topics when topics are drawn with replacement from those of the
        pilot, each pair of runs shifted to this difference; None if `topics` is.
    """

    difference: float
    sd: float
    topics: int | None
    resampled: float | None


@dataclass(frozen=True)
class TestPlan:
    """Plan of one measure: what the pilot's topics can find, and how many topics other differences need.

    Attributes
    ----------
    runs, topics : of the pilot.
    alpha : level of each test: the family's, over its size.
    detectable : smallest difference that the pilot's number of topics finds with this power.
    """

    measure: str
    runs: int
    topics: int
    alpha: float
    power: float
    detectable: float
    sizes: tuple[TopicSetSize, ...]


def topics_needed(sd: float, difference: float, alpha: float, power: float) -> int | None:
    """Returns the smallest number of topics at which a two-sided paired t-test has the power; None beyond 100,000.

    Parameters
    ----------
    sd : standard deviation of the differences over topics.
    difference : the mean difference to find, above 0.

    Examples
    --------
    >>> topics_needed(0.25, 0.1, 0.05, 0.8)
    52
    """
    low, high = 1, 2

    def enough(n: int) -> bool:
        return detectable_shift(n - 1.0, alpha, power) * sd / math.sqrt(n) <= difference

    while not enough(high):
        low, high = high, 2 * high
        if low > MOST_TOPICS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def plan_tests(
    values: Floats,
    measure: str,
    differences: Sequence[float],
    *,
    family: int = 1,
    alpha: float = 0.05,
    power: float = 0.8,
    seed: int = 0,
) -> TestPlan:
    """Plans paired t-tests of one measure, corrected by Bonferroni over a family.

    Parameters
    ----------
    values : float64, shape (topics, runs): scores of the pilot. Topics with NaN are left out.
    differences : mean differences to find, each above 0.
    family : number of tests to correct for.

    Raises
    ------
    HarnessError
        There are fewer than two runs or topics, the runs do not differ by topic, or an option is out of its range.
    """
    for name, value, low, high in (("alpha", alpha, 0.0, 1.0), ("power", power, alpha, 1.0)):
        if not low < value < high:
            raise HarnessError(f"{name}: {value:g} is not between {low:g} and {high:g}")
    if family < 1:
        raise HarnessError(f"family: {family} is less than 1")
    if wrong := [each for each in differences if not each > 0.0]:
        raise HarnessError(f"difference: {wrong[0]:g} is not above 0")
    if values.shape[1] < 2:
        raise HarnessError("planning needs two runs or more, whose differences vary over topics")
    table = np.asarray(values, dtype=np.float64)
    table = table[~np.isnan(table).any(axis=1)]
    n, runs = table.shape
    residual = anova(table, [str(run) for run in range(runs)]).sources[-1].mean
    if residual == 0.0:
        raise HarnessError(f"{measure}: the runs differ by the same amount on all topics; there is nothing to plan")
    sd, level = math.sqrt(2.0 * residual), alpha / family
    sizes = []
    for difference in differences:
        topics = topics_needed(sd, difference, level, power)
        resampled = None if topics is None else resampled_power(table, difference, topics, level, seed)
        sizes.append(TopicSetSize(difference, sd, topics, resampled))
    detectable = detectable_shift(n - 1.0, level, power) * sd / math.sqrt(n)
    return TestPlan(measure, runs, n, level, power, detectable, tuple(sizes))


def resampled_power(values: Floats, difference: float, topics: int, alpha: float, seed: int = 0) -> float:
    """Returns the share of significant paired t-tests over topics drawn with replacement, all pairs of runs alike.

    Each pair's differences are shifted so that their mean is `difference`. Pairs that differ by the same amount on all
    topics are left out.

    Parameters
    ----------
    values : float64, shape (topics of the pilot, runs).
    topics : how many to draw.
    """
    from scipy import special

    critical = -float(special.stdtrit(topics - 1.0, alpha / 2.0))
    random = np.random.default_rng(seed)
    pairs = np.array(list(combinations(range(values.shape[1]), 2)))
    apart = values[:, pairs[:, 0]] - values[:, pairs[:, 1]]
    apart = apart[:, apart.std(axis=0) > 1e-12]
    apart += difference - apart.mean(axis=0)
    rounds = max(1, RESAMPLES // apart.shape[1])
    significant = 0
    for _ in range(rounds):
        # How often each topic is drawn says all about the sample: sums and squares follow.
        times = random.multinomial(topics, np.full(len(values), 1.0 / len(values))).astype(np.float64)
        mean = times @ apart / topics
        variance = (times @ apart**2 - topics * mean**2) / (topics - 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            significant += int(np.count_nonzero(np.abs(mean) / np.sqrt(variance / topics) > critical))
    return float(significant / (rounds * apart.shape[1]))
