"""Bounds of measures if each unjudged document has no gain, or is relevant with the largest gain.

Unjudged are the documents without a judgment that any of the given runs has for a topic, down to the protocol's depth;
documents that no run has are not among them. With a given number of relevant unjudged documents, a run scores highest
if they are its first ones and lowest if they are its last ones, since an exchange of two documents moves the better one
up and leaves the ideal ranking as it is. So a search over their number finds bounds that some assignment attains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.data.columns import Bools, Floats, Index
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.scoring.measures import discounts, parse_measure, without_diagnostics
from harness.scoring.randomization import TOLERANCE
from harness.scoring.rankings import Measure
from harness.scoring.scorer import Scorer
from harness.scoring.scores import Scores


@dataclass(frozen=True)
class TopicRanking:
    """One run's ranking of one topic, as the bounds need it.

    Attributes
    ----------
    relevant, gain, unjudged : of each result in order, shape (results,).
    docs : the results.
    judged_relevant : number of relevant documents in the judgments.
    ideal : their gains above 0, largest first.
    largest : the gain of a relevant unjudged document.
    pool : the unjudged documents of all runs.
    """

    relevant: Bools
    gain: Floats
    unjudged: Bools
    docs: tuple[str, ...]
    judged_relevant: int
    ideal: Floats
    largest: float
    pool: frozenset[str]


@dataclass(frozen=True)
class BoundedMean:
    """A mean with its bounds over the assignments to unjudged documents."""

    run: str
    measure: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class BoundedDifference:
    """Bounds of the mean of a - b; attained by an assignment if `tight`, else no assignment exceeds them."""

    a: str
    b: str
    measure: str
    difference: float
    low: float
    high: float
    tight: bool

    @property
    def order(self) -> str:
        """The conclusion that stands for every assignment: `a`, `b` or `equal`; else `open`."""
        if max(abs(self.low), abs(self.high)) <= TOLERANCE:
            return "equal"
        return "a" if self.low > TOLERANCE else "b" if self.high < -TOLERANCE else "open"


Bound = Callable[[TopicRanking, int | None], tuple[float, float]]


def precision_bounds(topic: TopicRanking, k: int | None) -> tuple[float, float]:
    """Returns the bounds of P@k."""
    low, high = relevant_retrieved_bounds(topic, k)
    return low / (k or 1), high / (k or 1)


def relevant_retrieved_bounds(topic: TopicRanking, k: int | None) -> tuple[float, float]:
    """Returns the bounds of the number of relevant results."""
    relevant, more = (float(np.count_nonzero(each[:k])) for each in (topic.relevant, topic.unjudged))
    return relevant, relevant + more


def success_bounds(topic: TopicRanking, k: int | None) -> tuple[float, float]:
    """Returns the bounds of Success@k."""
    low, high = precision_bounds(topic, k)
    return float(low > 0.0), float(high > 0.0)


def reciprocal_rank_bounds(topic: TopicRanking, k: int | None) -> tuple[float, float]:
    """Returns the bounds of the reciprocal rank."""
    low, high = (np.flatnonzero(each[:k]) for each in (topic.relevant, topic.relevant | topic.unjudged))
    return (1.0 / (low[0] + 1.0) if low.size else 0.0), (1.0 / (high[0] + 1.0) if high.size else 0.0)


def recall_bounds(topic: TopicRanking, k: int | None) -> tuple[float, float]:
    """Returns the bounds of recall at k."""
    relevant, more = (int(np.count_nonzero(each[:k])) for each in (topic.relevant, topic.unjudged))
    elsewhere = len(topic.pool) - more
    return _share(relevant, topic.judged_relevant + elsewhere), _share(relevant + more, topic.judged_relevant + more)


def average_precision_bounds(topic: TopicRanking, k: int | None) -> tuple[float, float]:
    """Returns the bounds of average precision, by the number of relevant unjudged results."""
    places = np.flatnonzero(topic.unjudged[:k])
    numbers = np.arange(len(places) + 1)
    first = numbers[:, None] > np.arange(len(places))[None, :]  # row m: the first m of them are relevant
    sums = []
    for chosen in (first, first[:, ::-1]):
        relevant = np.repeat(topic.relevant[:k][None, :], len(numbers), axis=0)
        relevant[:, places] = chosen
        precision = np.cumsum(relevant, axis=1) / np.arange(1.0, relevant.shape[1] + 1.0)
        sums.append(np.where(relevant, precision, 0.0).sum(axis=1))
    elsewhere = len(topic.pool) - len(places)
    high, low = (
        _shares(of, topic.judged_relevant + numbers + more) for of, more in zip(sums, (0, elsewhere), strict=True)
    )
    return float(low.min()), float(high.max())


def geometric_bounds(topic: TopicRanking, k: int | None) -> tuple[float, float]:
    """Returns the bounds of the logarithm of average precision, as in GMAP."""
    low, high = average_precision_bounds(topic, k)
    return math.log(max(low, 1e-5)), math.log(max(high, 1e-5))


def ndcg_bounds(topic: TopicRanking, k: int | None) -> tuple[float, float]:
    """Returns the bounds of nDCG, by the number of unjudged results with the largest gain."""
    places = np.flatnonzero(topic.unjudged[:k])
    elsewhere = len(topic.pool) - len(places)
    discount = discounts(max(len(topic.gain), len(topic.ideal)) + len(topic.pool) + 1)
    gain = topic.gain[:k]
    dcg = float((gain * discount[: len(gain)]).sum())
    of_unjudged = topic.largest * discount[places]
    first, last = (np.concatenate(([0.0], np.cumsum(each))) for each in (of_unjudged, of_unjudged[::-1]))

    def ideal(more: int) -> float:
        gains = np.concatenate((np.full(more, topic.largest), topic.ideal))[:k]
        return float((gains * discount[: len(gains)]).sum())

    numbers = range(len(places) + 1)
    high = max(_share(dcg + first[m], ideal(m)) for m in numbers)
    return min(_share(dcg + last[m], ideal(m + elsewhere)) for m in numbers), high


_BOUNDS: Mapping[str, Bound] = {
    "P": precision_bounds,
    "RelRet": relevant_retrieved_bounds,
    "Success": success_bounds,
    "RR": reciprocal_rank_bounds,
    "R": recall_bounds,
    "AP": average_precision_bounds,
    "GMAP": geometric_bounds,
    "nDCG": ndcg_bounds,
}


def _share(a: float, b: float) -> float:
    return a / b if b else 0.0


def _shares(a: Floats, b: Index) -> Floats:
    out: Floats = np.divide(a, b, out=np.zeros(len(a)), where=b > 0)
    return out


class UnjudgedBounds:
    """Bounds of the measures of runs, topic by topic.

    Raises
    ------
    HarnessError
        The protocol removes unjudged documents, its ideal ranking is of retrieved ones, or a topic that does not count
        has unjudged documents, which could make it count.

    Examples
    --------
    >>> from harness.data.trec import Qrels
    >>> from harness.scoring.protocol import Protocol
    >>> scorer = Scorer(Qrels.from_dict("all", {"t": {"a": 1}}), Protocol("p", ("P@2", "AP")))
    >>> run = Run.from_dict("mine", {"t": {"x": 3.0, "a": 2.0}})
    >>> found = UnjudgedBounds(scorer, [run], [scorer(run)])
    >>> [(each.measure, each.low, each.value, each.high) for each in found.means()]
    [('P@2', 0.5, 0.5, 1.0), ('AP', 0.5, 0.5, 1.0)]
    """

    def __init__(self, scorer: Scorer, runs: Sequence[Run], scores: Sequence[Scores]) -> None:
        protocol = scorer.protocol
        if protocol.prime or protocol.candidates == "judged":
            raise HarnessError(
                f"unjudged: protocol {protocol.name} scores judged documents only, so that nothing is open; "
                "protocol trec_eval keeps the others"
            )
        if protocol.ideal != "judged":
            raise HarnessError(f"unjudged: protocol {protocol.name} has an ideal ranking of retrieved documents")
        self.scores = scores
        known = {name: parse_measure(name) for name in without_diagnostics(scores[0].measures)}
        self.measures = {
            name: metric for name, metric in known.items() if metric.name in _BOUNDS and metric.relevant_from is None
        }
        self.unknown = [name for name in known if name not in self.measures]
        self.rankings = _rankings(scorer, runs)
        self._topics = scores[0].topics
        self._bounds = {
            (score.run, name): self._of(rankings, name, score)
            for score, rankings in zip(scores, self.rankings, strict=True)
            for name in self.measures
        }

    def _of(self, rankings: Mapping[str, TopicRanking], name: str, scores: Scores) -> Floats:
        """Returns low and high of each topic, shape (2, topics); NaN where it does not count."""
        measure = self.measures[name]
        out = np.full((2, len(self._topics)), np.nan)
        for at, (topic, value) in enumerate(zip(self._topics, scores.column(name).tolist(), strict=True)):
            if not math.isnan(value):
                out[:, at] = _BOUNDS[measure.name](rankings[topic], measure.k)
            elif topic in rankings and rankings[topic].pool:
                raise HarnessError(
                    f"unjudged: topic {topic} does not count for {name} by protocol {scores.protocol.name}, and may if "
                    "an unjudged document is relevant, so that no bounds hold"
                )
        return out

    def means(self) -> list[BoundedMean]:
        """Returns the mean (or other aggregate) of each run and measure with its bounds."""
        return [
            BoundedMean(
                score.run, name, score.aggregate(name), *self._aggregates(measure, self._bounds[score.run, name])
            )
            for score in self.scores
            for name, measure in self.measures.items()
        ]

    def _aggregates(self, measure: Measure, ends: Floats) -> tuple[float, float]:
        low, high = (each[~np.isnan(each)] for each in ends)
        return tuple(measure.of_mean(float(each.mean()), len(each)) if each.size else math.nan for each in (low, high))  # type: ignore[return-value]

    def differences(self, pairs: Sequence[tuple[str, str]]) -> list[BoundedDifference]:
        """Returns bounds of the mean difference of pairs of runs, over the topics that count for both."""
        by_run = {score.run: (score, rankings) for score, rankings in zip(self.scores, self.rankings, strict=True)}
        out = []
        for a, b in pairs:
            for name, measure in self.measures.items():
                apart = by_run[a][0].column(name) - by_run[b][0].column(name)
                counted = ~np.isnan(apart)
                if tight := measure.name in ("P", "RelRet"):
                    ends = np.array(
                        [
                            _count_difference(by_run[a][1][topic], by_run[b][1][topic], measure.k)
                            for topic, counts in zip(self._topics, counted.tolist(), strict=True)
                            if counts
                        ]
                    ).T / (measure.k or 1 if measure.name == "P" else 1)
                else:
                    one, other = self._bounds[a, name][:, counted], self._bounds[b, name][:, counted]
                    ends = np.stack([one[0] - other[1], one[1] - other[0]])
                low, high = (float(each.mean()) if each.size else math.nan for each in ends)
                out.append(BoundedDifference(a, b, name, float(apart[counted].mean()), low, high, tight))
        return out

    def judged_shares(self) -> dict[str, list[tuple[float, float]]]:
        """Returns run -> (k, mean share of judged documents among the first k results)."""
        out = {}
        for score, rankings in zip(self.scores, self.rankings, strict=True):
            flags = [~each.unjudged for each in rankings.values() if each.unjudged.size]
            longest = max((len(each) for each in flags), default=0)
            cuts = [k for power in range(5) for k in (10**power, 2 * 10**power, 5 * 10**power) if k <= longest]
            out[score.run] = [(float(k), float(np.mean([each[:k].mean() for each in flags]))) for k in cuts]
        return out


def _count_difference(a: TopicRanking, b: TopicRanking, k: int | None) -> tuple[float, float]:
    """Returns the bounds of a difference in relevant results: unjudged documents that both have cancel out."""
    base = int(np.count_nonzero(a.relevant[:k])) - int(np.count_nonzero(b.relevant[:k]))
    first = [
        {doc for doc, free in zip(each.docs[:k], each.unjudged[:k].tolist(), strict=True) if free} for each in (a, b)
    ]
    return float(base - len(first[1] - first[0])), float(base + len(first[0] - first[1]))


def _rankings(scorer: Scorer, runs: Sequence[Run]) -> list[dict[str, TopicRanking]]:
    """Returns for each run topic -> its ranking, for all topics of the judgments."""
    protocol, qrels = scorer.protocol, scorer.qrels.judged()
    gain = protocol.gain_of(qrels.grade)
    judged: dict[str, dict[str, tuple[float, bool]]] = {topic: {} for topic in qrels.topics}
    for topic, doc, value, grade in zip(
        qrels.topic.tolist(), qrels.doc.tolist(), gain.tolist(), qrels.grade.tolist(), strict=True
    ):
        judged[qrels.topics[topic]][doc.decode()] = (value, grade >= protocol.relevant_from)
    largest = float(gain.max(initial=0.0))
    by_run = [scorer.rankings(run, max(1, len(run))) for run in runs]
    pools = {
        topic: frozenset(
            doc for each in by_run if topic in each for doc in each[topic].docs if doc not in each[topic].judged
        )
        for topic in judged
    }
    out = []
    for each in by_run:
        rankings = {}
        for topic, known in judged.items():
            docs = each[topic].docs if topic in each else ()
            free = np.array([doc in pools[topic] for doc in docs], dtype=bool)
            marks = [(0.0, False) if loose else known[doc] for doc, loose in zip(docs, free.tolist(), strict=True)]
            gains = np.array([value for value, _ in marks], dtype=np.float64)
            ideal = np.array(
                sorted((value for value, _ in known.values() if value > 0.0), reverse=True), dtype=np.float64
            )
            relevant = np.array([flag for _, flag in marks], dtype=bool)
            number = sum(flag for _, flag in known.values())
            rankings[topic] = TopicRanking(relevant, gains, free, docs, number, ideal, largest, pools[topic])
        out.append(rankings)
    return out
