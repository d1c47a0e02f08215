"""Orders of results: by topic and score, tied results in the order of the file or by a preference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.data.columns import Bools, Floats, Index

Preference = Callable[[Index], Floats]  # rows -> sort key of tied rows, descending


def by_score(topic: npt.NDArray[np.int32], of_run: Index, score: Floats, *, single: bool) -> tuple[Index, Index]:
    """Sorts the results of judged topics by topic and descending score, tied ones in the order given.

    Parameters
    ----------
    topic : int32, shape (results,). Index into `of_run`.
    of_run : int64, shape (topics,). Index into the judgments' topics, -1 if a topic is not judged.
    score : float64, shape (results,). Finite.
    single : compare scores as 32-bit floats.

    Returns
    -------
    int64 arrays: rows of the results in order, and the places of tied results among them.
    """
    of = of_run[topic]
    rows = by_topic(of)
    return sort(rows, of[rows], score, single=single)


def sort(rows: Index, topic: Index, score: Floats, *, single: bool) -> tuple[Index, Index]:
    """Sorts rows by descending score within each topic, tied ones in the order given.

    Parameters
    ----------
    rows : int64, shape (n,). Row indices by topic.
    topic : int64, shape (n,). The topic of each of `rows`.
    score : float64, shape (results,). Of all results.

    Returns
    -------
    As `by_score`.
    """
    s = (as_single(score) if single else score)[rows]
    if not ((topic[1:] > topic[:-1]) | ((topic[1:] == topic[:-1]) & (s[1:] <= s[:-1]))).all():
        order = np.lexsort((-s, topic))
        rows, topic, s = rows[order], topic[order], s[order]
    return rows, np.flatnonzero(tied(topic, s))


def preferred(rows: Index, places: Index, topic: Index, score: Floats, prefer: Preference, *, single: bool) -> Index:
    """Returns sorted rows with tied ones ordered by a preference.

    Parameters
    ----------
    places : int64, shape (ties,). Places in `rows` of the tied ones.
    topic : int64, shape (ties,). Their topics.
    score : float64, shape (results,). Of all results.
    """
    if not places.size:
        return rows
    inside = rows[places]
    s = as_single(score[inside]) if single else score[inside]
    rows = rows.copy()
    rows[places] = inside[np.lexsort((-prefer(inside), -s, topic))]
    return rows


def as_single(score: Floats) -> npt.NDArray[np.float32]:
    """Returns scores as 32-bit floats, infinite where they are too large."""
    with np.errstate(over="ignore"):
        return score.astype(np.float32)


def tied(topic: Index, score: npt.NDArray[np.floating[Any]]) -> Bools:
    """Returns a mask of results with an equal adjacent score in the same topic, in a sorted ranking."""
    same = (topic[1:] == topic[:-1]) & (score[1:] == score[:-1])
    out: Bools = np.concatenate((same, [False])) | np.concatenate(([False], same))
    return out


def by_topic(topic: Index) -> Index:
    """Returns the rows of judged topics, grouped by topic, in their original order within each."""
    heads = np.flatnonzero(np.concatenate(([True], topic[1:] != topic[:-1])))
    spans = np.diff(np.append(heads, topic.size))
    order = np.argsort(topic[heads], kind="stable")
    order = order[topic[heads[order]] >= 0]
    heads, spans = heads[order], spans[order]
    if heads.size == topic.size:  # every row its own stretch
        return heads
    ends = np.cumsum(spans)
    out: Index = np.arange(int(spans.sum())) + np.repeat(heads - (ends - spans), spans)
    return out


def rank_in_topic(topic: Index) -> Index:
    """Returns positions from 0 within each run of equal topics."""
    if not topic.size:
        return np.zeros(0, dtype=np.int64)
    heads = np.flatnonzero(np.concatenate(([True], topic[1:] != topic[:-1])))
    spans = np.diff(np.append(heads, topic.size))
    out: Index = np.arange(topic.size) - np.repeat(heads, spans)
    return out
