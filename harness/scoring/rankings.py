"""What a measure is, and what it is given: the rankings of all topics as arrays, and what was judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from harness.data.columns import Bools, Floats, Index


@dataclass(frozen=True)
class Ranked:
    """The rankings of all topics, one below the other, best first.

    Attributes
    ----------
    topic : int64, shape (results,). Index into the judgments' topics, ascending.
    rank : int64, shape (results,). From 0 within each topic.
    gain : float64, shape (results,). 0 for documents that were not judged.
    relevant, judged : bool, shape (results,).
    topics : how many topics there are.
    """

    topic: Index
    rank: Index
    gain: Floats
    relevant: Bools
    judged: Bools
    topics: int

    def __post_init__(self) -> None:
        # All measures are given the same arrays: one that writes into them would change the others.
        for values in (self.topic, self.rank, self.gain, self.relevant, self.judged):
            values.setflags(write=False)

    def total(self, values: Floats | Bools, k: int | None = None) -> Floats:
        """Sums over the first k results of each topic, shape (topics,)."""
        head = self.head(k)
        out: Floats = np.bincount(self.topic[head], values[head], self.topics).astype(np.float64, copy=False)
        return out

    def head(self, k: int | None) -> Bools | slice:
        """Returns which results stand among the first k of their topic."""
        return slice(None) if k is None else self.rank < k

    @cached_property
    def relevant_so_far(self) -> Index:
        """How many relevant results stand at or above each result in its topic."""
        return self._running(self.relevant)

    @cached_property
    def judged_so_far(self) -> Index:
        """How many judged results stand at or above each result in its topic."""
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
    """What is known of each topic before any run is seen.

    Attributes
    ----------
    relevant, nonrelevant : int64, shape (topics,)
        How many documents are judged so (binary, by the protocol's threshold).
    ideal : the best possible ranking: the documents of gain above 0 by their gains, descending.
    """

    relevant: Index
    nonrelevant: Index
    ideal: Ranked

    def __post_init__(self) -> None:
        _fixed(self.relevant)
        _fixed(self.nonrelevant)


Function = Callable[[Ranked, Judged, int | None], Floats]


@dataclass(frozen=True)
class Measure:
    """A measure, and all that the rest of the harness needs to know of it.

    Attributes
    ----------
    name : such as `nDCG`; with parameters, `RBP(p=0.9)`.
    function : (rankings, judgments, cut) -> its values, float64, shape (topics,); 0 for a topic without results.
    graded : made from gains; else from the relevance threshold.
    needs_cut : has no meaning without a cut.
    needs_relevant : undefined for a topic without relevant documents, which a protocol may leave out of the mean.
    primed : removing unjudged documents changes it, so that its label says when that was done.
    diagnostic : says how much is known of a run, not how good the run is: taken before unjudged documents are removed,
        never tested.
    tie_bounds : among tied results it is best with the best first and worst with them last: by gain if graded; else
        relevant ones first, then unjudged ones, then the others.
    mean : what papers call its mean (`MAP`); empty: as `name`.
    relevant_from : a relevance threshold of its own; None: the protocol's.
    k : the cut, the first `k` results; None for all of them.

    Examples
    --------
    >>> from harness.scoring.measures import parse_measure
    >>> measure = parse_measure("P@10")
    >>> measure.name, measure.k, measure.needs_cut, measure.tie_bounds
    ('P', 10, True, True)
    """

    name: str
    function: Function = field(compare=False, repr=False)
    graded: bool = False
    needs_cut: bool = False
    needs_relevant: bool = True
    primed: bool = True
    diagnostic: bool = False
    tie_bounds: bool = False
    mean: str = ""
    relevant_from: float | None = None
    k: int | None = None

    def __str__(self) -> str:
        return self.name if self.k is None else f"{self.name}@{self.k}"
