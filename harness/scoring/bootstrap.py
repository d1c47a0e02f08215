"""Uncertainty of the ranks of runs: the percentile bootstrap over topics (Efron and Tibshirani, 1993, chapter 13).

Each resample draws as many topics as there are, with replacement, and ranks all runs by their means over what was
drawn: the runs share the topics, so that a hard draw is hard for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.data.columns import Floats, Index
from harness.errors import HarnessError
from harness.scoring.compare import TOLERANCE

CHUNK = 1 << 22  # numbers of an intermediate table, 32 MiB
MOST = 1_000_000  # resamples


@dataclass(frozen=True, eq=False)
class RankIntervals:
    """What the resamples say of each run's rank.

    Attributes
    ----------
    low, high : int64, shape (runs,). The best and the worst rank, after as many resamples are left out at either end
        as the confidence allows.
    first : float64, shape (runs,). The share of resamples in which the run has rank 1, alone or tied.
    """

    low: Index
    high: Index
    first: Floats


def places(means: Floats) -> Index:
    """Ranks from 1 along the last axis, high means first; equal means share the best of their places; NaN come last.

    Equal is what differs by no more than 1e-12 (times the largest value, if that is above 1), along a chain of
    neighbours.

    Examples
    --------
    >>> places(np.array([0.25, 0.5, 0.5, 0.125])).tolist()
    [3, 1, 1, 4]
    """
    values = np.where(np.isnan(means), -np.inf, means)
    order = np.argsort(-values, axis=-1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=-1)
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=1.0))
    with np.errstate(invalid="ignore"):  # of two without a mean
        below = ordered[..., :-1] - ordered[..., 1:] > TOLERANCE * largest
    first = np.zeros(ordered.shape, dtype=np.int64)
    first[..., 1:] = np.where(below, np.arange(1, ordered.shape[-1]), 0)
    out = np.empty_like(first)
    np.put_along_axis(out, order, np.maximum.accumulate(first, axis=-1) + 1, axis=-1)
    return out


def draws(stream: np.random.PCG64, n: int, resamples: int) -> Index:
    """Returns resamples of `n` items with replacement: int64, shape (resamples, n), numbers from 0 to n - 1.

    Raw words of a bit generator, scaled: unlike a Generator's methods, their stream is the same in every numpy. No
    thing is drawn more often than another one by a share of more than n / 2^32.
    """
    words = stream.random_raw(resamples * n) >> np.uint64(32)
    out: Index = ((words * np.uint64(n)) >> np.uint64(32)).astype(np.int64).reshape(resamples, n)
    return out


def rank_intervals(
    values: Floats,
    clusters: Sequence[int] | None = None,
    *,
    resamples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> RankIntervals:
    """Returns percentile bootstrap intervals of the ranks of runs by their means over topics.

    The same for any order of the runs. Memory is 2 or 4 bytes for each run and resample, and some tables of `CHUNK`.

    Parameters
    ----------
    values : float64, shape (runs, topics). NaN where a topic does not count for a run; a run of which a resample draws
        no topic that counts is last in it.
    clusters : of each topic, a number from 0: whole clusters are drawn, as many as there are. None: topics are.
    resamples : how many, at most `MOST`.
    confidence : the share of resamples that an interval holds.

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
    outside = _outside(resamples, confidence)
    for start, means in _resampled(values, clusters, resamples, seed):
        ranks[start : start + len(means)] = places(means)
    first = (ranks == 1).mean(axis=0)
    ranks.sort(axis=0)
    return RankIntervals(
        low=ranks[outside].astype(np.int64), high=ranks[resamples - 1 - outside].astype(np.int64), first=first
    )


def mean_resampled(
    values: Floats, *, resamples: int = 1000, seed: int = 0, confidence: float = 0.95
) -> tuple[Floats, Floats]:
    """Returns percentile bootstrap intervals of the means of runs over topics: lower and upper ends, shape (runs,).

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
    ([0.125, 0.25], [0.875, 0.25])
    """
    outside = _outside(_checked(resamples), confidence)
    means = np.sort(np.concatenate([part for _, part in _resampled(values, None, resamples, seed)]), axis=0)
    means[:, np.isnan(means).any(axis=0)] = np.nan
    return means[outside], means[resamples - 1 - outside]


def _checked(resamples: int) -> int:
    if not 1 <= resamples <= MOST:
        raise HarnessError(f"resamples: {resamples} is not between 1 and {MOST:,}")
    return resamples


def _outside(resamples: int, confidence: float) -> int:
    """Returns the number of resamples cut at either end."""
    if not 0 < confidence < 1:
        raise HarnessError(f"confidence: {confidence:g} is not between 0 and 1")
    return int((1.0 - confidence) / 2.0 * resamples + 1e-9)


def _resampled(
    values: Floats, clusters: Sequence[int] | None, resamples: int, seed: int
) -> Iterator[tuple[int, Floats]]:
    """The means of runs over what each resample draws, some resamples at a time: the number of the first, and means."""
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
