"""What the measures are: rankings as arrays in, a number for each topic out.

Every measure agrees with trec_eval where trec_eval has it (nDCG, AP, P@k, R@k, RR, Bpref, relevant
retrieved); Judged@k is the share of the first k results that were judged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness.data.columns import Bools, Floats, Index
from harness.errors import HarnessError, suggestion


@dataclass(frozen=True)
class Measure:
    """A measure's name and its cut: the first `k` results, or all of them."""

    name: str
    k: int | None = None

    def __str__(self) -> str:
        return self.name if self.k is None else f"{self.name}@{self.k}"


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

    def total(self, values: Floats | Bools, k: int | None = None) -> Floats:
        """Sums over the first k results of each topic, shape (topics,)."""
        head = self.head(k)
        out: Floats = np.bincount(self.topic[head], values[head], self.topics).astype(np.float64, copy=False)
        return out

    def head(self, k: int | None) -> Bools | slice:
        """Which results stand among the first k of their topic."""
        return slice(None) if k is None else self.rank < k

    @cached_property
    def relevant_so_far(self) -> Index:
        """How many relevant results stand at or above each result in its topic."""
        return self._running(self.relevant)

    @cached_property
    def judged_so_far(self) -> Index:
        """How many judged results stand at or above each result in its topic."""
        return self.rank + 1 if self.judged.all() else self._running(self.judged)

    def _running(self, flags: Bools) -> Index:
        count = np.cumsum(flags)
        starts = np.searchsorted(self.topic, np.arange(self.topics))
        before = np.concatenate(([0], count))[starts]
        out: Index = count - before[self.topic]
        return out


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


def discounts(n: int) -> Floats:
    """1 / log2(rank + 1) for ranks 1 to n (Jaervelin and Kekaelaeinen 2002, as trec_eval has it)."""
    out: Floats = 1.0 / np.log2(np.arange(n) + 2.0)
    return out


def _divide(a: Floats, b: Floats | Index) -> Floats:
    """a / b, and 0 where b is 0: so a topic without relevant documents scores here; the protocol may leave it out."""
    out: Floats = np.zeros(a.shape)
    np.divide(a, b, out=out, where=np.asarray(b) > 0)
    return out


def _dcg(ranked: Ranked, k: int | None) -> Floats:
    return ranked.total(ranked.gain * discounts(int(ranked.rank.max(initial=0)) + 1)[ranked.rank], k)


def ideal_dcg(judged: Judged, k: int | None) -> Floats:
    """The DCG of the best possible ranking, shape (topics,)."""
    return _dcg(judged.ideal, k)


def ndcg(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    """DCG over the DCG of the ideal ranking, linear gains."""
    return _divide(_dcg(ranked, k), ideal_dcg(judged, k))


def average_precision(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    """Mean over all relevant documents of the precision at their ranks; 0 for those not found."""
    flags = ranked.relevant & (ranked.rank < k) if k is not None else ranked.relevant
    precision = np.where(flags, ranked.relevant_so_far / (ranked.rank + 1.0), 0.0)
    return _divide(ranked.total(precision), judged.relevant)


def relevant_retrieved(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    """How many relevant documents were found."""
    return ranked.total(ranked.relevant, k)


def precision(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    """Relevant documents among the first k over k, also when fewer than k were found."""
    found = relevant_retrieved(ranked, judged, k)
    return found / k if k is not None else _divide(found, ranked.total(np.ones(ranked.rank.size)))


def recall(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    """Relevant documents among the first k over all relevant ones."""
    return _divide(relevant_retrieved(ranked, judged, k), judged.relevant)


def reciprocal_rank(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    """1 over the rank of the first relevant document; 0 if there is none."""
    out = np.zeros(ranked.topics)
    found = ranked.relevant & (ranked.rank < k) if k is not None else ranked.relevant
    np.maximum.at(out, ranked.topic[found], 1.0 / (ranked.rank[found] + 1.0))
    return out


def bpref(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    """Binary preference as trec_eval has it (Buckley and Voorhees 2004).

    Mean over all relevant documents of 1 - min(n, R) / min(N, R) for those found, with n the judged
    non-relevant documents above, R all relevant, N all judged non-relevant ones. Unjudged documents
    do not count. The MathAMR+ thesis prints R alone as the denominator (its Figure 2.3).
    """
    found = ranked.relevant & (ranked.rank < k) if k is not None else ranked.relevant
    above = ranked.judged_so_far[found] - ranked.relevant_so_far[found]
    topic = ranked.topic[found]
    most = judged.relevant[topic]
    bound = np.minimum(judged.nonrelevant[topic], most)
    preferred = np.where(above > 0, 1.0 - np.minimum(above, most) / np.maximum(bound, 1), 1.0)
    return _divide(np.bincount(topic, preferred, ranked.topics).astype(np.float64), judged.relevant)


def judged_share(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    """The share of the first k results (of all, if fewer were found) that were judged; NaN without results.

    Taken before unjudged documents are removed.
    """
    found = ranked.total(np.ones(ranked.rank.size), k)
    share = _divide(ranked.total(ranked.judged, k), found)
    return np.where(found > 0, share, np.nan)


Function = Callable[[Ranked, Judged, int | None], Floats]
MEASURES: Mapping[str, Function] = {
    "nDCG": ndcg,
    "AP": average_precision,
    "P": precision,
    "R": recall,
    "RR": reciprocal_rank,
    "Bpref": bpref,
    "Judged": judged_share,
    "RelRet": relevant_retrieved,
}
GRADED = frozenset({"nDCG"})  # from gains; the others from the relevance threshold
_MEANS = {"AP": "MAP", "RR": "MRR"}


def parse_measure(text: str) -> Measure:
    """`nDCG@10` -> Measure("nDCG", 10).

    Raises
    ------
    HarnessError
        For an unknown name, a cut that is no positive whole number or begins with 0 (so that a measure has one
        spelling only), or P, R and Judged without a cut.
    """
    match = re.fullmatch(r"([A-Za-z]+)(?:@([0-9]{1,9}))?", text)
    if match is None or match[1] not in MEASURES:
        raise HarnessError(f"measure {text!r} is unknown; {suggestion(re.split('[@_]', text)[0], MEASURES)}")
    name, k = match[1], int(match[2]) if match[2] else None
    if k == 0:
        raise HarnessError(f"measure {text!r}: the cut must be 1 or more")
    if k is not None and match[2].startswith("0"):
        raise HarnessError(f"measure {text!r}: the cut begins with 0, expected {name}@{k}")
    if k is None and name in ("P", "R", "Judged"):
        raise HarnessError(f"measure {text!r} needs a cut, such as {name}@10")
    return Measure(name, k)


def parse_measures(texts: Iterable[str]) -> tuple[Measure, ...]:
    """Several measures; raises HarnessError as `parse_measure` does, and if one is named twice."""
    out: dict[Measure, None] = {}
    for text in texts:
        measure = parse_measure(text)
        if measure in out:
            raise HarnessError(f"measure {text!r} is named twice")
        out[measure] = None
    return tuple(out)


def label(text: str, *, prime: bool) -> str:
    """A measure as papers print its mean: `AP` -> `MAP`, with a prime when unjudged documents are removed."""
    measure = parse_measure(text)
    mark = "\u2032" if prime and measure.name not in ("Bpref", "Judged", "RelRet") else ""
    cut = "" if measure.k is None else f"@{measure.k}"
    return f"{_MEANS.get(measure.name, measure.name)}{mark}{cut}"
