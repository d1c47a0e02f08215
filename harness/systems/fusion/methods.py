"""Rank fusion methods: functions from candidates to one score for each candidate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.data.columns import Floats, Index, pair_hashes
from harness.data.trec import Qrels, Run
from harness.errors import HarnessError, suggestion
from harness.io import checks
from harness.scoring.measures import ndcg
from harness.scoring.rankings import Judged, Ranked
from harness.systems.fusion.candidates import DEPTH, FusionCandidates, align_results, positions

NORMALIZATIONS = ("min-max", "z-score", "sum", "none")
MISSING = ("zero", "minimum")
VARIANTS = ("paper", "authors")
_TIE = 0.4  # maximum tie-breaking bonus in ranks: below 0.5, the least difference of two medians
_EVEN = 1e-12  # share of the total weight below which a difference from one half counts as equal
_RELEVANT = 2  # the lowest grade that ARQMath's protocol counts as relevant


def rrf(candidates: FusionCandidates, k: float = 60) -> Floats:
    """Returns reciprocal rank fusion: the sum of 1 / (k + rank) over the runs that retrieved the document.

    Cormack, Clarke and Buettcher (SIGIR 2009); Section 3.6.2, formula 2 of the MIRMU paper.
    """
    return _sum(1.0 / (k + candidates.rank))


def rank_biased_centroids(candidates: FusionCandidates, phi: float = 0.9) -> Floats:
    """Returns the sum of (1 - phi) phi^(rank - 1) over the runs that retrieved the document.

    Bailey, Moffat, Scholer and Thomas (SIGIR 2017) call it RBC; in this module RBC is MIRMU's regression. A user with
    persistence `phi` reads 1 / (1 - phi) results of each run on average; the default is ours.
    """
    return _sum((1.0 - phi) * phi ** (candidates.rank - 1.0))


def ibc(candidates: FusionCandidates, seed: int = 0, variant: str = "paper") -> Floats:
    """Returns MIRMU's IBC: (N - M) / N, where M is the median rank of a document; Section 3.6.1 of the MIRMU paper.

    The median of an even number of ranks is the mean of the middle two. Documents with equal medians are ordered by one
    of their own ratings (see `FusionCandidates.ratings`), drawn uniformly and added to the score as less than half a
    rank. The draw depends only on seed, topic and document. Remaining ties are ordered by id in `to_run`. If the runs
    share few results, most documents tie, since a document that fewer than half of the runs retrieved has the median N.

    Parameters
    ----------
    variant : `paper`: N is the depth, and the rank of a document in a run that did not retrieve it. `authors`: as in
        the authors' library pv211-utils (`ensembles.py`, f878595): the median over the runs that retrieved the
        document, and N the number of results of the last run (the depth where it has none: the library stops there).

    Examples
    --------
    Of three runs, one has X at rank 1, and all have Y, at ranks 2, 2 and 3:

    >>> from functools import partial
    >>> from harness.systems.fusion.candidates import fuse
    >>> lists = {"a": "XYU", "b": "VYW", "c": "RSY"}
    >>> runs = [Run.from_dict(name, {"T": dict(zip(docs, (3.0, 2.0, 1.0)))}) for name, docs in lists.items()]
    >>> found = {variant: fuse(runs, partial(ibc, variant=variant), "x", 3).to_dict()["T"] for variant in VARIANTS}
    >>> {variant: max(docs, key=docs.get) for variant, docs in found.items()}
    {'paper': 'Y', 'authors': 'X'}
    """
    return wibc(candidates, [1.0] * candidates.rank.shape[1], seed, variant, sort=True)


def wibc(
    candidates: FusionCandidates, weights: Sequence[float], seed: int = 0, variant: str = "paper", *, sort: bool = False
) -> Floats:
    """Returns MIRMU's WIBC: IBC with a weighted median, and ties broken by a rating drawn by the runs' weights (3.6.4).

    The weighted median is the rank at which the cumulative weight of the better-ranked runs reaches half of the total.
    If it is exactly half, the median is the mean of that rank and the next, so that equal weights give IBC. The paper
    does not state the weights; `Fusion` uses the runs' nDCG' on training topics.

    Parameters
    ----------
    weights : weight of each run, not negative, not all 0.
    variant : `paper`: see `ibc`. `authors`: N and the runs that count for a document are those of `ibc`, and weights
        are summed in the order of the runs instead of their ranks, as in pv211-utils. If all runs retrieve all
        documents, the rank in one fixed run therefore decides. (The library stops at a document that a run lacks; here
        the weights of the runs that have it are summed.)
    sort : for `authors`, sum the weights in the order of the ranks nevertheless.
    """
    weight: Floats = np.broadcast_to(np.asarray(weights, dtype=np.float64), candidates.rank.shape)
    ranks, n = np.minimum(candidates.rank, candidates.depth), np.full(candidates.topic.size, float(candidates.depth))
    if variant == "paper":
        order = np.argsort(ranks, axis=1, kind="stable")
    else:
        listed = np.isfinite(candidates.rank)
        weight, n = weight * listed, candidates.listed().astype(np.float64)
        order = np.argsort(candidates.rank if sort else ~listed, axis=1, kind="stable")
    reached = np.cumsum(np.take_along_axis(weight, order, axis=1), axis=1)
    total = reached[:, -1]

    def at(place: Index) -> Floats:
        row = np.arange(place.size)
        listed: Floats = ranks[row, order[row, place]]
        return listed

    def first(share: Floats, *, above: bool = False) -> Index:
        """Returns the first position where the cumulative weight reaches (or exceeds) a share of the total."""
        line = (share * total)[:, None]
        return np.asarray((reached > line if above else reached >= line).argmax(axis=1))

    half = np.full(total.shape, 0.5)
    low, high = at(first(half - _EVEN)), at(first(half + _EVEN, above=True))
    drawn = at(first(_uniform(candidates, seed), above=True))
    out: Floats = (n - (low + high) / 2) / n + _TIE / n * (candidates.depth - drawn) / candidates.depth
    return out


def _uniform(candidates: FusionCandidates, seed: int) -> Floats:
    """Returns a number in [0, 1) for each candidate: a hash of seed, topic and document (finaliser of SplitMix64)."""
    z = pair_hashes(candidates.topics, candidates.topic.astype(np.int32), candidates.docs[candidates.doc])
    z += np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    out: Floats = ((z ^ (z >> np.uint64(31))) >> np.uint64(32)) / 2.0**32
    return out


def normalize(candidates: FusionCandidates, normalization: str = "min-max", missing: str = "zero") -> Floats:
    """Normalizes the runs' scores for each topic and run. Shape (pairs, runs).

    `normalization`: `min-max` ((s - min) / (max - min)), `z-score` ((s - mean) / standard deviation), `sum`
    ((s - min) / sum of all s - min; Montague and Aslam, CIKM 2001) or `none`. If all scores are equal, they become 1, 0
    or 1 / n, respectively. `missing`: score of a document that a run did not retrieve: `zero`, as is usual (for
    z-scores, the mean), or `minimum`, the run's lowest normalized score for the topic (0 if the run lacks the topic).
    """
    score = candidates.score
    starts = np.searchsorted(candidates.topic, np.arange(len(candidates.topics)))

    def over(reduce: np.ufunc, values: Floats) -> Floats:
        """Reduces values by topic and run; repeats each result in all rows of its topic. Shape (pairs, runs)."""
        return np.asarray(reduce.reduceat(values, starts, axis=0), dtype=np.float64)[candidates.topic]

    def total(values: Floats) -> Floats:
        return over(np.add, np.nan_to_num(values))

    low, high = over(np.fmin, score), over(np.fmax, score)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        count = total((~np.isnan(score)).astype(np.float64))
        if normalization == "min-max":
            out = np.where(high == low, 1.0, (score - low) / (high - low))
        elif normalization == "z-score":
            distance = score - total(score) / count
            out = np.where(high == low, 0.0, distance / np.sqrt(total(distance**2) / count))
        elif normalization == "sum":
            out = np.where(high == low, 1.0 / count, (score - low) / total(score - low))
        else:
            out = score
    out = np.where(np.isnan(score), np.nan, out)
    return np.where(np.isnan(score), np.nan_to_num(over(np.fmin, out)) if missing == "minimum" else 0.0, out)


def combsum(candidates: FusionCandidates, normalization: str = "min-max", missing: str = "zero") -> Floats:
    """Returns the sum of the normalized scores (Fox and Shaw, TREC-2)."""
    return _sum(normalize(candidates, normalization, missing))


def combmnz(candidates: FusionCandidates, normalization: str = "min-max", missing: str = "zero") -> Floats:
    """Returns CombSUM times the number of runs that retrieved the document (Fox and Shaw, TREC-2)."""
    retrieved = np.isfinite(candidates.rank).sum(axis=1, keepdims=True)
    return _sum(normalize(candidates, normalization, missing) * retrieved)  # rounded last, so that equal products tie


def interpolation(
    candidates: FusionCandidates, weights: Sequence[float], normalization: str = "min-max", missing: str = "zero"
) -> Floats:
    """Returns the sum of the normalized scores, weighted by run."""
    return _sum(normalize(candidates, normalization, missing) * np.asarray(weights, dtype=np.float64))


def rbc_fit(candidates: FusionCandidates, qrels: Qrels, ridge: float | None = None, variant: str = "paper") -> Floats:
    """Fits MIRMU's RBC, a regression that predicts the gain of a document from its ranks in the runs (3.6.3).

    Ratings (see `FusionCandidates.ratings`) are standardized, and the intercept is not penalized.

    Parameters
    ----------
    candidates : runs of the same systems on training topics, in the order in which they will be fused.
    ridge : penalty on the sum of squared coefficients, above 0; None for 1. The variant `authors` has no penalty.
    variant : `paper`: ridge regression of grades over all judgments of the topics that any run answers, retrieved or
        not. `authors`: ordinary least squares as in pv211-utils (`ensembles.py`, f878595). Its target is 1 for relevant
        documents (grade 2 or more) and 0 for all others, over all documents retrieved for a judged topic, judged or
        not; ratings are relative to the last run's number of results. (The library stops at a document that a run
        lacks; here its rating is 0.)

    Returns
    -------
    The intercept, then the slope of each run's rating, shape (1 + runs,).

    Raises
    ------
    HarnessError
        None of the runs answers a judged topic.
    """
    answered = np.isin(qrels.topics, candidates.topics)[qrels.topic]
    # Sorted, so that the order of judgments in the file does not change the last digits.
    order = np.lexsort((qrels.doc, np.array(qrels.topics)[qrels.topic]))
    order = order[answered[order]]
    if not order.size:
        raise HarnessError("fusion: none of the training judgments' topics is answered by the training runs")
    row, gain = candidates.find(qrels)[order], qrels.grade[order]
    if variant == "authors":
        relevant = np.zeros(candidates.topic.size)
        relevant[row[(row >= 0) & (gain >= _RELEVANT)]] = 1.0
        judged = np.isin(np.array(candidates.topics), np.array(qrels.topics))[candidates.topic]
        features, gain = _listed_ratings(candidates)[judged], relevant[judged]
    else:
        features = np.where(row[:, None] >= 0, candidates.ratings()[row], 0.0)
    mean, deviation = features.mean(axis=0), features.std(axis=0)
    deviation[deviation < 1e-12] = 1.0  # a constant rating, whose slope is 0
    z = (features - mean) / deviation
    if variant == "authors":
        slopes = np.linalg.lstsq(z, gain - gain.mean(), rcond=None)[0] / deviation
    else:
        penalty = (1.0 if ridge is None else ridge) * np.eye(mean.size)
        slopes = np.linalg.solve(z.T @ z + penalty, z.T @ (gain - gain.mean())) / deviation
    return np.concatenate(([gain.mean() - mean @ slopes], slopes))


def rbc(candidates: FusionCandidates, coefficients: Floats, variant: str = "paper") -> Floats:
    """Returns the gains predicted by a regression that `rbc_fit` fitted with the same `variant`."""
    ratings = candidates.ratings() if variant == "paper" else _listed_ratings(candidates)
    return _sum(ratings * coefficients[1:]) + float(coefficients[0])


def _listed_ratings(candidates: FusionCandidates) -> Floats:
    """Returns (N - rank) / N, 0 if not retrieved; N is the last run's number of results, and ranks may exceed it."""
    n = candidates.listed()[:, None]
    return np.where(np.isfinite(candidates.rank), (n - candidates.rank) / n, 0.0)


def training_ndcg(run: Run, qrels: Qrels, depth: int = DEPTH) -> float:
    """Returns a run's mean nDCG' over all judged topics, at cutoff `depth`, with grades as gains."""
    candidates = align_results([run], depth)
    row = candidates.find(qrels)

    def ranked(rows: Index, key: Floats) -> Ranked:
        rows = rows[np.lexsort((key[rows], qrels.topic[rows]))]
        topic, every = qrels.topic[rows].astype(np.int64), np.ones(rows.size, dtype=bool)
        return Ranked(topic, positions(topic), qrels.grade[rows], every, every, len(qrels.topics))

    ranking = ranked(np.flatnonzero(row >= 0), candidates.rank[row, 0])
    best = ranked(np.flatnonzero(qrels.grade > 0), -qrels.grade)
    uncounted = np.zeros(len(qrels.topics), np.int64)  # nDCG needs gains only, no numbers of relevant documents
    return math.fsum(ndcg(ranking, Judged(uncounted, uncounted, best), None).tolist()) / len(qrels.topics)


def learned_weights(runs: Sequence[Run], qrels: Qrels, depth: int) -> dict[str, Any]:
    """Returns the parameter `weights`: the runs' nDCG' on training topics."""
    return {"weights": [training_ndcg(run, qrels, depth) for run in runs]}


def learned_regression(
    runs: Sequence[Run], qrels: Qrels, depth: int, ridge: float | None = None, variant: str = "paper"
) -> dict[str, Any]:
    """Returns the parameter `coefficients` of `rbc`, fitted on training topics."""
    return {"coefficients": rbc_fit(align_results(runs, depth), qrels, ridge, variant)}


Learn = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class FusionMethod:
    """A fusion method.

    Attributes
    ----------
    score : function of candidates and `parameters` that returns a score for each candidate.
    learn : function of training runs, their judgments, a depth and `learning` that returns the learned parameters of
        `score`: `weights`, unless they are given, or `coefficients`, which cannot be given.
    """

    score: Callable[..., Floats]
    parameters: tuple[str, ...] = ()
    learn: Learn | None = None
    learning: tuple[str, ...] = ()

    @property
    def takes(self) -> tuple[str, ...]:
        """All parameters that a configuration may give."""
        return tuple(dict.fromkeys(self.parameters + self.learning)) + (("training_runs",) if self.learn else ())


METHODS: Mapping[str, FusionMethod] = {
    "rrf": FusionMethod(rrf, ("k",)),
    "ibc": FusionMethod(ibc, ("seed", "variant")),
    "wibc": FusionMethod(wibc, ("weights", "seed", "variant"), learned_weights),
    "rbc": FusionMethod(rbc, ("variant",), learned_regression, ("ridge", "variant")),
    "rank-biased-centroids": FusionMethod(rank_biased_centroids, ("phi",)),
    "combsum": FusionMethod(combsum, ("normalization", "missing")),
    "combmnz": FusionMethod(combmnz, ("normalization", "missing")),
    "interpolation": FusionMethod(interpolation, ("weights", "normalization", "missing"), learned_weights),
}


def check_known(method: str, parameters: Iterable[str]) -> None:
    """Raises HarnessError if no method has a parameter of one of these names."""
    for key in parameters:
        if not any(key in other.takes for other in METHODS.values()):
            near = suggestion(key, ("runs", "depth", *METHODS[method].takes))
            raise HarnessError(f"key {key!r} is unknown to {method}; {near}")


def given(method: str, parameters: Mapping[str, Any], runs: int) -> dict[str, Any]:
    """Checks the parameters of a method; returns those that are not None.

    Parameters
    ----------
    runs : number of runs to fuse.

    Raises
    ------
    HarnessError
        A parameter is unknown, is not used by the method, or has an invalid value.
    """
    check_known(method, parameters)
    for key, value in parameters.items():
        takers = [name for name, other in METHODS.items() if key in other.takes]
        if value is None:
            continue
        if method not in takers:
            who = f"{', '.join(takers[:-1])} and {takers[-1]} take" if takers[1:] else f"{takers[0]} takes"
            raise HarnessError(f"key {key!r} is not used by {method}; {who} {key}")
        if key in _CHOICES:
            checks.choice(key, value, _CHOICES[key])
        elif not _RULES[key][0](value, runs):
            raise HarnessError(f"key {key!r} is {value!r}, expected {_RULES[key][1].format(runs)}")
    if parameters.get("variant") == "authors" and parameters.get("ridge") is not None:
        raise HarnessError("key 'ridge' is not used by variant 'authors', which has no penalty; take it out")
    return {key: value for key, value in parameters.items() if value is not None}


def are_texts(value: object) -> bool:
    """Returns whether a value is a list of non-empty texts."""
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(item, str) and item for item in value)


def files_of(entry: str | Sequence[str]) -> Sequence[str]:
    """Returns an entry of `training_runs` as a list: one run file, or several of a system on different topics."""
    return [entry] if isinstance(entry, str) else entry


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_list_of(value: object, n: int, right: Callable[[Any], bool]) -> bool:
    return isinstance(value, list | tuple) and len(value) == n and all(map(right, value))


_CHOICES = {"normalization": NORMALIZATIONS, "missing": MISSING, "variant": VARIANTS}
# For each parameter, a check of its value, given the number of runs, and a description of valid values.
_RULES: Mapping[str, tuple[Callable[[Any, int], bool], str]] = {
    "k": (lambda value, _: type(value) is int and value >= 0, "a whole number from 0"),
    "seed": (lambda value, _: type(value) is int, "a whole number"),
    "phi": (lambda value, _: _is_number(value) and 0 < value < 1, "a number between 0 and 1"),
    "ridge": (lambda value, _: _is_number(value) and value > 0, "a number above 0"),
    "weights": (
        lambda value, runs: _is_list_of(value, runs, lambda w: _is_number(w) and w >= 0) and any(value),
        "{} numbers from 0, not all 0",
    ),
    "training_runs": (
        lambda value, runs: _is_list_of(value, runs, lambda entry: are_texts(files_of(entry))),
        "{} run files, or lists of run files",
    ),
}


def _sum(values: Floats) -> Floats:
    """Sums over runs, independently of their order; see `rounded_to_bits`. Shape (pairs,)."""
    with np.errstate(over="ignore"):
        return rounded_to_bits(np.asarray(np.sort(values, axis=1).sum(axis=1), dtype=np.float64))


def rounded_to_bits(scores: Floats) -> Floats:
    """Rounds scores to 44 bits after the leading one; sums that differ only by rounding errors become equal.

    Examples
    --------
    >>> 1 / 78 == 1 / 117 + 1 / 234, len(set(rounded_to_bits(np.array([1 / 78, 1 / 117 + 1 / 234])).tolist()))
    (False, 1)
    """
    return ((scores.view(np.int64) + 128) & -256).view(np.float64)
