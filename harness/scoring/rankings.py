"""Data classes for measures and their inputs: rankings of all topics as arrays, and judgments."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, cast, get_args

import numpy as np

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
