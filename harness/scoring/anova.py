"""Analysis of variance of scores: systems, topics and residual, and pairs of systems (Tukey's HSD).

It complements paired tests: one error term over all systems instead of one per pair. Sources: its use in
retrieval (Tague-Sutcliffe and Blustein, TREC-3 1994; Carterette, TOIS 2012); honestly significant differences
(Tukey, 1949) with the error of a design with topics as blocks.

Planning: how many topics a paired test needs to find a difference, from the scores of pilot or archived runs.

Sources: topic set size design by the paired t-test, with the variance of differences from the residual of a two-way
analysis of variance over all runs (Sakai, Information Retrieval Journal 19(3), 2016; Nagata's power of the t-test), and
power by resampling of topics (Webber, Moffat and Zobel, CIKM 2008).

Difficulty of each topic for a set of runs, and its discrimination between good and bad runs.

Source of the discrimination: the corrected item-total correlation of test theory (Lord and Novick, 1968), with topics
as items and runs as test takers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np

from harness.data.columns import Floats
from harness.errors import HarnessError
from harness.scoring.intervals import detectable_shift

ROUNDING = 1e-12  # share of the total variance that is attributed to rounding


@dataclass(frozen=True)
class VarianceSource:
    """Row of the ANOVA table for one source of variance.

    Attributes
    ----------
    name : `system`, `topic` or `residual`.
    squares, freedom : sum of squares and degrees of freedom; `mean` is their ratio.
    share : share of the total sum of squares.
    f, p : F test against the residual; None for the residual itself, and if the residual is 0.
    omega : partial omega squared, the estimated population share of variance of this source relative to source and
        residual (below 0 means none); None as `f`.
    """

    name: str
    squares: float
    freedom: int
    mean: float
    share: float
    f: float | None = None
    p: float | None = None
    omega: float | None = None


@dataclass(frozen=True)
class SystemPair:
    """Pair of systems: difference of means, its simultaneous interval, and Tukey's p (None without residual)."""

    a: str
    b: str
    difference: float
    low: float
    high: float
    p: float | None
    significant: bool | None


@dataclass(frozen=True)
class Anova:
    """The two-way analysis without replication, and all pairs of systems.

    Attributes
    ----------
    topics : number of topics that count for all systems.
    sources : system, topic, residual.
    hsd : the honestly significant difference of two means at `alpha`.
    """

    topics: int
    means: dict[str, float]
    sources: tuple[VarianceSource, ...]
    alpha: float
    hsd: float
    pairs: tuple[SystemPair, ...]


def anova(values: Floats, systems: Sequence[str], alpha: float = 0.05) -> Anova:
    """Fits score = system + topic + error; returns F tests of both, and Tukey's HSD of all pairs of systems.

    Parameters
    ----------
    values : float64, shape (topics, systems). A topic with NaN is excluded.
    systems : names of the systems.
    alpha : significance level of the family of all pairs.

    Raises
    ------
    HarnessError
        There are fewer than two systems or fewer than two topics that count for all of them, or alpha is out of range.

    Examples
    --------
    >>> found = anova(np.array([[1.0, 2.0, 4.0], [2.0, 4.0, 5.0], [4.0, 5.0, 7.0]]), ("a", "b", "c"))
    >>> [(source.name, round(source.squares, 3), source.freedom) for source in found.sources]
    [('system', 13.556, 2), ('topic', 13.556, 2), ('residual', 0.444, 4)]
    """
    from scipy import stats

    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != len(systems) or len(systems) < 2:
        raise HarnessError(f"ANOVA: values of shape {table.shape}, expected topics x {len(systems)} systems, 2 or more")
    if not 0 < alpha < 1:
        raise HarnessError(f"alpha: {alpha:g} is not between 0 and 1")
    table = table[~np.isnan(table).any(axis=1)]
    n, k = table.shape
    if n < 2:
        raise HarnessError(f"ANOVA: {n} topics count for all systems; it needs 2 or more")
    grand, of_system, of_topic = float(table.mean()), table.mean(axis=0), table.mean(axis=1)
    rest = table - of_system - of_topic[:, None] + grand
    parts = {
        "system": (n * float(((of_system - grand) ** 2).sum()), k - 1),
        "topic": (k * float(((of_topic - grand) ** 2).sum()), n - 1),
        "residual": (float((rest**2).sum()), (n - 1) * (k - 1)),
    }
    whole = float(((table - grand) ** 2).sum())
    # Rounding errors in a residual of 0 would make every other source significant.
    least = ROUNDING * max(whole, float(np.abs(table).max()) ** 2)
    parts = {name: (squares if squares > least else 0.0, freedom) for name, (squares, freedom) in parts.items()}
    error, freedom = parts["residual"][0] / parts["residual"][1], parts["residual"][1]
    sources = []
    for name, (squares, df) in parts.items():
        mean, share = squares / df, squares / whole if whole > least else 0.0
        if name == "residual" or not error:
            sources.append(VarianceSource(name, squares, df, mean, share))
            continue
        f = mean / error
        omega = df * (f - 1) / (df * (f - 1) + table.size)
        sources.append(VarianceSource(name, squares, df, mean, share, f, float(stats.f.sf(f, df, freedom)), omega))
    scale = math.sqrt(error / n)
    hsd = _critical(alpha, k, freedom) * scale if error else 0.0
    pairs = tuple(combinations(range(k), 2))
    differences = [float(of_system[i] - of_system[j]) for i, j in pairs]
    ps: list[float | None] = [None] * len(pairs)
    if error:
        ps = list(map(float, studentized_range_sf(np.abs(differences) / scale, k, freedom)))
    return Anova(
        n,
        dict(zip(systems, of_system.tolist(), strict=True)),
        tuple(sources),
        alpha,
        hsd,
        tuple(
            SystemPair(systems[i], systems[j], d, d - hsd, d + hsd, p, None if p is None else p < alpha)
            for (i, j), d, p in zip(pairs, differences, ps, strict=True)
        ),
    )


def studentized_range_sf(q: Floats, means: int, freedom: int) -> Floats:
    """Returns the probability that the studentized range of some means exceeds each q; error about 1e-11.

    It is the mean over the error estimate s (by Gauss-Legendre quadrature) of the probability that the range exceeds
    q s (by a trapezoid sum, very accurate for functions that vanish at both ends). scipy's adaptive integral takes a
    hundred times as long.

    >>> studentized_range_sf(np.array([3.578, 4.639]), 3, 20).round(4)  # the 5% and 1% points of printed tables
    array([0.05, 0.01])
    """
    from scipy import special, stats

    nodes, weights = _gauss_legendre(96)
    spread = 9 / math.sqrt(2 * freedom)
    low, high = max(0.0, 1 - spread), 1 + spread
    s = low + (nodes + 1) * (high - low) / 2
    weights = weights * (high - low) / 2 * stats.chi.pdf(s, freedom, scale=1 / math.sqrt(freedom))
    z, step = np.linspace(-9.0, 9.0, 241, retstep=True)
    density, below = means * np.exp(-z * z / 2) * step / math.sqrt(2 * math.pi), special.ndtr(z)
    out = np.empty(np.shape(q))
    for index, value in np.ndenumerate(q):
        inside = (below - special.ndtr(z - value * s[:, None])) ** (means - 1) @ density
        out[index] = weights @ (1 - inside)
    return np.clip(out, 0.0, 1.0)


@cache  # takes as long as twenty of the sums above
def _gauss_legendre(count: int) -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return nodes, weights


def _critical(alpha: float, means: int, freedom: int) -> float:
    """Returns the critical value of the studentized range at level alpha."""
    from scipy import optimize

    def above(q: float) -> float:
        return float(studentized_range_sf(np.array([q]), means, freedom)[0]) - alpha

    high = 4.0
    while above(high) > 0:
        high *= 2
    return float(optimize.brentq(above, 0.0, high))


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


SAME = 1e-12  # values of a topic that differ by at most this are equal


@dataclass(frozen=True)
class TopicDifficulty:
    """Difficulty of one topic over all runs.

    Attributes
    ----------
    runs : number of runs for which the topic counts; the other statistics are over these.
    mean, sd, low, high : statistics of the runs' values; sd has ddof 1 and is None for a single run.
    zeros : number of runs with value 0.
    discrimination : Pearson correlation over runs of the topic's values with the runs' means over all other topics:
        near 1, the topic orders runs as the others do; below 0, it reverses the order. None if either is constant, or
        for fewer than three runs.
    """

    topic: str
    runs: int
    mean: float
    sd: float | None
    low: float
    high: float
    zeros: int
    discrimination: float | None


def topic_difficulty(values: Floats, topics: Sequence[str]) -> tuple[TopicDifficulty, ...]:
    """Returns the difficulty of topics that count for at least one run, hardest (lowest mean) first; ties by name.

    Parameters
    ----------
    values : float64, shape (topics, runs); NaN where a topic does not count for a run.
    topics : names of the topics.

    Raises
    ------
    HarnessError
        The shape does not fit.

    Examples
    --------
    >>> found = topic_difficulty(np.array([[0.1, 0.2, 0.3], [0.9, 0.5, 0.1], [0.2, 0.5, 0.8]]), ("A.1", "A.2", "A.3"))
    >>> [(each.topic, round(each.mean, 1), round(each.discrimination, 2)) for each in found]
    [('A.1', 0.2, -1.0), ('A.2', 0.5, -1.0), ('A.3', 0.5, -1.0)]
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or len(table) != len(topics):
        raise HarnessError(f"topic difficulty: values of shape {table.shape}, expected {len(topics)} topics x runs")
    counts = ~np.isnan(table)
    filled = np.where(counts, table, 0.0)
    out = []
    for at, topic in enumerate(topics):
        here = counts[at]
        if not here.any():
            continue
        own = table[at, here]
        others, n = filled.sum(axis=0) - filled[at], counts.sum(axis=0) - here
        rated = here & (n > 0)
        out.append(
            TopicDifficulty(
                topic,
                own.size,
                float(own.mean()),
                float(own.std(ddof=1)) if own.size > 1 else None,
                float(own.min()),
                float(own.max()),
                int(np.count_nonzero(np.abs(own) <= SAME)),
                _correlation(table[at, rated], others[rated] / n[rated]),
            )
        )
    return tuple(sorted(out, key=lambda each: (round(each.mean, 12), each.topic)))


def _correlation(x: Floats, y: Floats) -> float | None:
    if x.size < 3 or np.ptp(x) <= SAME or np.ptp(y) <= SAME:
        return None
    return float(np.clip(np.corrcoef(x, y)[0, 1], -1.0, 1.0))
