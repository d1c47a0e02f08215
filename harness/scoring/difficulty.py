"""Difficulty of each topic for a set of runs, and its discrimination between good and bad runs.

Source of the discrimination: the corrected item-total correlation of test theory (Lord and Novick, 1968), with topics
as items and runs as test takers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.data.columns import Floats
from harness.errors import HarnessError

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
