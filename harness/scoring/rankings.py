"""Data classes for measures and their inputs: rankings of all topics as arrays, and judgments.

Orders of results: by topic and score, tied results in the order of the file or by a preference.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from harness.data.columns import Bools, Floats, Index
from harness.errors import HarnessError, suggestion


@dataclass(frozen=True)
class Ranked:
    """Rankings of all topics, concatenated, best results first.

    Attributes
    ----------
    topic : int64, shape (results,). Index into the judgments' topics, ascending.
    rank : int64, shape (results,). From 0 within each topic.
    gain : float64, shape (results,). 0 for documents that were not judged.
    relevant, judged : bool, shape (results,).
    topics : number of topics.
    pooled : bool, shape (results,). In the pool but not judged: the grade is negative. None: no result is.
    """

    topic: Index
    rank: Index
    gain: Floats
    relevant: Bools
    judged: Bools
    topics: int
    pooled: Bools | None = None

    def __post_init__(self) -> None:
        # All measures share these arrays, so they are read-only.
        for values in (self.topic, self.rank, self.gain, self.relevant, self.judged):
            values.setflags(write=False)

    def total(self, values: Floats | Bools, k: int | None = None) -> Floats:
        """Sums over the first k results of each topic, shape (topics,)."""
        head = self.head(k)
        out: Floats = np.bincount(self.topic[head], values[head], self.topics).astype(np.float64, copy=False)
        return out

    def head(self, k: int | None) -> Bools | slice:
        """Returns a mask (or slice) of the first k results of each topic."""
        return slice(None) if k is None else self.rank < k

    @cached_property
    def relevant_so_far(self) -> Index:
        """Number of relevant results at or above each result in its topic."""
        return self._running(self.relevant)

    @cached_property
    def judged_so_far(self) -> Index:
        """Number of judged results at or above each result in its topic."""
        return _fixed(self.rank + 1) if self.judged.all() else self._running(self.judged)

    def _running(self, flags: Bools) -> Index:
        count = np.cumsum(flags)
        starts = np.searchsorted(self.topic, np.arange(self.topics))
        before = np.concatenate(([0], count))[starts]
        return _fixed(count - before[self.topic])


def _fixed(values: Index) -> Index:
    values.setflags(write=False)
    return values


@dataclass(frozen=True)
class Judged:
    """Properties of the judgments of each topic, independent of any run.

    Attributes
    ----------
    relevant, nonrelevant : int64, shape (topics,)
        Numbers of relevant and non-relevant judged documents (binary, by the protocol's threshold). A document with a
        negative grade is not judged.
    ideal : the ideal ranking: documents with a gain above 0, by descending gain.
    """

    relevant: Index
    nonrelevant: Index
    ideal: Ranked

    def __post_init__(self) -> None:
        _fixed(self.relevant)
        _fixed(self.nonrelevant)


Function = Callable[[Ranked, Judged, int | None], Floats]
Aggregate = Literal["mean", "sum", "geometric"]


@dataclass(frozen=True)
class Measure:
    """A measure and its properties.

    Attributes
    ----------
    name : such as `nDCG`; with parameters, `RBP(p=0.9)`.
    function : (rankings, judgments, cut) -> values, float64, shape (topics,).
    aggregate : how values of topics become one value of the run: their `mean`, their `sum` (counts), or `geometric`,
        for values that are logarithms: the exponential of their mean.
    graded : whether it uses gains; otherwise it uses the relevance threshold.
    needs_cut, takes_cut : whether a cut is required, and whether there may be one.
    needs_relevant : whether it is undefined for topics without relevant documents; a protocol may leave these out.
    primed : whether removing unjudged documents changes it, so that its label gets a prime.
    diagnostic : whether it describes the judgments or the size of a run rather than effectiveness; diagnostics are not
        tested, and computed before unjudged documents are removed if they are not `primed`.
    sensitivity : the most by which one judgment changes the score of a topic, such as 1 for scores from 0 to 1. Where
        judgments are private, means are shown with noise in proportion to it; None: the measure is private itself.
    tie_bounds : whether the best and worst order of tied results are known: by gain if graded; else relevant results,
        then unjudged, then non-relevant ones.
    mean : name of its mean in papers (`MAP`); empty: as `name`.
    double : the function under a protocol with `precision: double`, where trec_eval 10 computes another value than 9.
    relevant_from : its own relevance threshold; None: the protocol's.
    k : the cut, the first `k` results; None for all results.
    highest : the largest value of a topic, of measures that are never below 0; infinite if unknown.
    names : its other names, in trec_eval and in papers, in lower case; `harness.scoring.spellings` reads them.
    mteb : its name in mteb; empty: its own, in lower case.

    Examples
    --------
    >>> from harness.scoring.measures import parse_measure
    >>> measure = parse_measure("P@10")
    >>> measure.name, measure.k, measure.needs_cut, measure.tie_bounds
    ('P', 10, True, True)
    """

    name: str
    function: Function = field(default=cast("Function", None), compare=False, repr=False)
    graded: bool = False
    needs_cut: bool = False
    needs_relevant: bool = True
    primed: bool = True
    diagnostic: bool = False
    tie_bounds: bool = False
    sensitivity: float | None = None
    mean: str = ""
    relevant_from: float | None = None
    k: int | None = None
    aggregate: Aggregate = "mean"
    takes_cut: bool = True
    double: Function | None = field(default=None, compare=False, repr=False)
    highest: float = math.inf
    names: tuple[str, ...] = ()
    mteb: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or "@" in self.name:
            raise HarnessError(f"measure {self.name!r}: expected a name without a cutoff; the cutoff is 'k'")
        if not callable(self.function):
            expected = "expected a function of rankings, judgments and cutoff; measures are named by text elsewhere"
            raise HarnessError(f"measure {self.name!r}: 'function' is {self.function!r}, {expected}")
        if self.aggregate not in (known := get_args(Aggregate)):
            said = suggestion(str(self.aggregate), known)
            raise HarnessError(f"measure {self.name!r}: 'aggregate' is {self.aggregate!r}; {said}")
        if self.sensitivity is not None and not 0 < self.sensitivity < math.inf:
            raise HarnessError(
                f"measure {self.name!r}: 'sensitivity' is {self.sensitivity!r}, expected a number above 0"
            )
        if self.k is not None and (type(self.k) is not int or self.k < 1):
            raise HarnessError(f"measure {self.name!r}: 'k' is {self.k!r}, expected a whole number from 1 or None")

    @property
    def private(self) -> bool:
        """Whether the measure must not be shown where judgments are private; all are that do not declare otherwise."""
        return self.sensitivity is None or self.aggregate != "mean"

    def of_mean(self, mean: float, n: int) -> float:
        """Returns the aggregate of n topics whose values have this mean."""
        return mean * n if self.aggregate == "sum" else math.exp(mean) if self.aggregate == "geometric" else mean

    def __str__(self) -> str:
        return self.name if self.k is None else f"{self.name}@{self.k}"


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


def ideal_ranking(topic: npt.NDArray[np.integer[Any]], gain: Floats, relevant: Bools, topics: int) -> Ranked:
    """Returns the ranking of the documents with a gain above 0 (topic, gain, relevance of each) by descending gain."""
    rows = np.flatnonzero(gain > 0)
    rows = rows[np.lexsort((-gain[rows], topic[rows]))]
    of = topic[rows].astype(np.int64)
    return Ranked(of, rank_in_topic(of), gain[rows], relevant[rows], np.ones(rows.size, dtype=bool), topics)
