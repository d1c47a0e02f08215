"""Uncertainty of means and ranks of runs: the bootstrap over topics with expanded percentiles.

Each resample draws n of the n topics with replacement, and ranks all runs by their means over the drawn topics. All
runs share the same draw. Means of resamples vary less than means of samples, by sqrt((n - 1) / n), and have no tails of
a t distribution, so that the usual percentiles cover too little for few topics. They are expanded (Hesterberg, The
American Statistician 2015): to the normal probability of -sqrt(n / (n - 1)) t, with t the quantile of n - 1 degrees of
freedom. `python -m bench.coverage` measures what they cover.

The price of a search: how much of a tuned setting's mean is the luck of having been chosen among many.

Source: nested cross-validation (Varma and Simon, BMC Bioinformatics 7:91, 2006), over topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.data.columns import Floats, Index
from harness.errors import HarnessError
from harness.scoring.randomization import TOLERANCE

CHUNK = 1 << 22  # maximum number of values in an intermediate table, 32 MiB
MOST = 1_000_000  # maximum number of resamples


@dataclass(frozen=True, eq=False)
class RankIntervals:
    """Bootstrap intervals of each run's rank.

    Attributes
    ----------
    low, high : int64, shape (runs,). Interval of the rank, from best to worst.
    first : float64, shape (runs,). Share of resamples in which the run has rank 1, alone or tied.
    """

    low: Index
    high: Index
    first: Floats


def ranks_of_means(means: Floats) -> Index:
    """Returns ranks from 1 along the last axis, by descending mean; equal means share the best rank, NaN are last.

    Adjacent means are equal if they differ by at most 1e-12 (times the largest value, if above 1).

    Examples
    --------
    >>> ranks_of_means(np.array([0.25, 0.5, 0.5, 0.125])).tolist()
    [3, 1, 1, 4]
    """
    values = np.where(np.isnan(means), -np.inf, means)
    order = np.argsort(-values, axis=-1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=-1)
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=1.0))
    with np.errstate(invalid="ignore"):  # both means are -inf
        below = ordered[..., :-1] - ordered[..., 1:] > TOLERANCE * largest
    first = np.zeros(ordered.shape, dtype=np.int64)
    first[..., 1:] = np.where(below, np.arange(1, ordered.shape[-1]), 0)
    out = np.empty_like(first)
    np.put_along_axis(out, order, np.maximum.accumulate(first, axis=-1) + 1, axis=-1)
    return out


def draws(stream: np.random.PCG64, n: int, resamples: int) -> Index:
    """Returns resamples of `n` items with replacement: int64, shape (resamples, n), numbers from 0 to n - 1.

    Scales the raw words of a bit generator, whose stream is the same in all versions of NumPy, unlike the methods of a
    Generator. The relative difference of the probabilities of two items is at most n / 2^32.
    """
    words = stream.random_raw(resamples * n) >> np.uint64(32)
    out: Index = ((words * np.uint64(n)) >> np.uint64(32)).astype(np.int64).reshape(resamples, n)
    return out


def rank_intervals(
    values: Floats,
    clusters: Sequence[int] | Index | None = None,
    *,
    resamples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> RankIntervals:
    """Returns bootstrap intervals of the ranks of runs by their means over topics.

    The result does not depend on the order of runs. Memory is 2 or 4 bytes per run and resample, plus some tables of
    size `CHUNK`.

    Parameters
    ----------
    values : float64, shape (runs, topics). NaN where a topic does not count for a run; a run without a counting topic
        in a resample is ranked last in it.
    clusters : cluster number of each topic, from 0: whole clusters are drawn. None: single topics are drawn.
    resamples : number of resamples, at most `MOST`.
    confidence : level of the intervals.

    Raises
    ------
    HarnessError
        There is no run or no topic, or an option is out of its range.

    Examples
    --------
    >>> found = rank_intervals(np.array([[0.9, 0.2, 0.7, 0.9], [0.2, 0.9, 0.3, 0.4], [0.1, 0.1, 0.2, 0.1]]))
    >>> found.low.tolist(), found.high.tolist()
    ([1, 1, 3], [2, 2, 3])
    """
    runs = len(values)
    ranks = np.empty((_checked(resamples), runs), dtype=np.uint16 if runs < 1 << 16 else np.uint32)
    outside = _outside(resamples, confidence, _units(values, clusters))
    for start, means in _resampled(values, clusters, resamples, seed):
        ranks[start : start + len(means)] = ranks_of_means(means)
    first = (ranks == 1).mean(axis=0)
    ranks.sort(axis=0)
    low, high = _ends(ranks, outside)
    return RankIntervals(low=low.astype(np.int64), high=high.astype(np.int64), first=first)


def mean_resampled(
    values: Floats, *, resamples: int = 1000, seed: int = 0, confidence: float = 0.95
) -> tuple[Floats, Floats]:
    """Returns bootstrap intervals of the means of runs over topics: lower and upper ends, shape (runs,).

    Parameters
    ----------
    values : float64, shape (runs, topics). NaN where a topic does not count for a run.

    Returns
    -------
    NaN for a run of which a resample draws no topic that counts.

    Raises
    ------
    HarnessError
        As `rank_intervals`.

    Examples
    --------
    >>> low, high = mean_resampled(np.array([[0.0, 0.5, 1.0, 0.5], [0.25, 0.25, 0.25, 0.25]]))
    >>> low.tolist(), high.tolist()
    ([0.0, 0.25], [1.0, 0.25])
    """
    outside = _outside(_checked(resamples), confidence, _units(values, None))
    means = np.sort(np.concatenate([part for _, part in _resampled(values, None, resamples, seed)]), axis=0)
    means[:, np.isnan(means).any(axis=0)] = np.nan
    return _ends(means, outside)


def _checked(resamples: int) -> int:
    if not 1 <= resamples <= MOST:
        raise HarnessError(f"resamples: {resamples} is not between 1 and {MOST:,}")
    return resamples


def _units(values: Floats, clusters: Sequence[int] | Index | None) -> Index:
    """Returns the number of topics, or clusters of topics, that count for each run."""
    counted = ~np.isnan(np.asarray(values, dtype=np.float64))
    of = np.arange(counted.shape[-1]) if clusters is None else np.asarray(clusters, dtype=np.int64)
    return np.array([np.unique(of[row]).size for row in counted], dtype=np.int64)


def _outside(resamples: int, confidence: float, n: Index) -> Index:
    """Returns the number of resamples cut at either end, for each run with n topics (clusters) that count."""
    from scipy import special

    if not 0 < confidence < 1:
        raise HarnessError(f"confidence: {confidence:g} is not between 0 and 1")
    few = np.maximum(n, 2)
    tail = special.ndtr(np.sqrt(few / (few - 1.0)) * special.stdtrit(few - 1.0, (1.0 - confidence) / 2.0))
    return np.floor(np.where(n < 2, 0.0, tail) * resamples + 1e-9).astype(np.int64)


def _ends(ordered: NDArray[Any], outside: Index) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns the ends of each column's interval, from sorted resamples."""
    run = np.arange(ordered.shape[1])
    return ordered[outside, run], ordered[len(ordered) - 1 - outside, run]


def _resampled(
    values: Floats, clusters: Sequence[int] | Index | None, resamples: int, seed: int
) -> Iterator[tuple[int, Floats]]:
    """Yields the means of runs in chunks of resamples: the number of the first resample, and the means."""
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2 or not values.size:
        raise HarnessError(f"bootstrap: values of shape {values.shape}, expected (runs, topics), one of each or more")
    runs, topics = values.shape
    of = np.arange(topics) if clusters is None else np.asarray(clusters, dtype=np.int64)
    n = int(of.max()) + 1
    counted = (~np.isnan(values)).astype(np.float64)
    filled = np.where(np.isnan(values), 0.0, values)
    all_count = bool(counted.all())
    stream = np.random.PCG64(seed)
    step = max(1, CHUNK // max(runs, topics, n))
    for start in range(0, resamples, step):
        drawn = draws(stream, n, min(step, resamples - start))
        size = drawn.shape[0]
        flat = drawn + n * np.arange(size)[:, None]
        weights = np.bincount(flat.ravel(), minlength=size * n).reshape(size, n).astype(np.float64)[:, of]
        sums = weights @ filled.T
        many = weights.sum(axis=1, keepdims=True) if all_count else weights @ counted.T
        with np.errstate(invalid="ignore"):
            yield start, sums / many


FOLDS, REPEATS = 5, 20


@dataclass(frozen=True)
class SelectionPrice:
    """What a best of several settings is worth on other topics.

    Attributes
    ----------
    best : index of the setting with the largest mean.
    settings, topics : how many were compared, on how many topics.
    value : its mean over the topics that it was chosen on.
    cross_validated : mean over topics that the setting was not chosen on: topics in folds, the best of the others
        scored on each, over 20 divisions into folds.
    optimism : how far `value` is better than that.
    chosen_again : share of these choices that are `best`.
    """

    best: int
    settings: int
    topics: int
    value: float
    cross_validated: float
    optimism: float
    chosen_again: float


def price_of_selection(
    values: Floats, *, groups: Sequence[int] | None = None, maximize: bool = True, folds: int = FOLDS, seed: int = 0
) -> SelectionPrice:
    """Returns the mean of the best setting with its bias of selection.

    Parameters
    ----------
    values : float64, shape (topics, settings). Topics with NaN are left out.
    groups : number of each topic's cluster of dependent topics, which no division separates; None if topics are
        independent.
    maximize : whether larger values are better.
    folds : parts of the topics for cross-validation.

    Raises
    ------
    HarnessError
        There are fewer than two settings, or fewer topics (clusters) than folds.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> found = price_of_selection(random.normal(0.3, 0.1, (50, 40)))  # settings that do not differ
    >>> round(found.value, 3), round(found.cross_validated, 3), round(found.optimism, 3)
    (0.33, 0.303, 0.027)
    """
    table = np.asarray(values, dtype=np.float64)
    counted = ~np.isnan(table).any(axis=1)
    table = table[counted] * (1.0 if maximize else -1.0)
    n, settings = table.shape
    of = np.arange(n) if groups is None else np.unique(np.asarray(groups)[counted], return_inverse=True)[1]
    units = int(of.max(initial=-1)) + 1
    if settings < 2 or units < folds or folds < 2:
        raise HarnessError(f"a search over {settings} settings and {units} topics has no price; it needs 2 and {folds}")
    means = table.mean(axis=0)
    best = int(np.argmax(means))
    random = np.random.default_rng(seed)
    held, again = 0.0, 0
    for _ in range(REPEATS):
        fold = (random.permutation(units) % folds)[of]
        for part in range(folds):
            out = fold == part
            choice = int(np.argmax(table[~out].mean(axis=0)))
            held += float(table[out, choice].sum())
            again += choice == best
    sign = 1.0 if maximize else -1.0
    cross_validated = held / (n * REPEATS)
    optimism = float(means[best]) - cross_validated
    return SelectionPrice(
        best=best,
        settings=settings,
        topics=n,
        value=sign * float(means[best]),
        cross_validated=sign * cross_validated,
        optimism=optimism if abs(optimism) > TOLERANCE else 0.0,
        chosen_again=again / (folds * REPEATS),
    )
