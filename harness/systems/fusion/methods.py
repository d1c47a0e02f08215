"""Methods of rank fusion: candidates in, one score each out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from harness.data.columns import Bools, Floats
from harness.data.trec import Qrels, pair_hashes
from harness.errors import HarnessError
from harness.systems.fusion.candidates import Candidates

NORMALIZATIONS = ("min-max", "z-score", "sum", "none")
MISSING = ("zero", "minimum")
_TIE = 0.4  # of one rank: less than the half rank by which two medians may differ
_EVEN = 1e-12  # of the total weight: halves closer than this are equal


def rrf(candidates: Candidates, k: float = 60) -> Floats:
    """Reciprocal rank fusion: the sum of 1 / (k + rank) over the runs that retrieved the document.

    Cormack, Clarke and Buettcher (SIGIR 2009); Section 3.6.2, formula 2 of the MIRMU paper.
    """
    return _sum(1.0 / (k + candidates.rank))


def rank_biased_centroids(candidates: Candidates, phi: float = 0.9) -> Floats:
    """The sum of (1 - phi) phi^(rank - 1) over the runs that retrieved the document.

    Bailey, Moffat, Scholer and Thomas (SIGIR 2017), who call it RBC; here RBC is MIRMU's regression. With `phi` a
    reader looks at 1 / (1 - phi) results of each run on average; the default is ours.
    """
    return _sum((1.0 - phi) * phi ** (candidates.rank - 1.0))


def ibc(candidates: Candidates, seed: int = 0) -> Floats:
    """MIRMU's IBC: (N - M) / N with M the median rank over all runs, N the depth and the rank of the unretrieved.

    The median of an even number of ranks is the mean of the two in the middle. Documents of one median are ordered by
    one of their own ratings (see `Candidates.ratings`), drawn uniformly: it is added to the score as less than half a
    rank. The draw depends on seed, topic and document alone. What is still tied stays so, and `to_run` orders it by
    id; among runs that share few results that is most, since what fewer than half of them retrieved has the median N.
    """
    return wibc(candidates, [1.0] * candidates.rank.shape[1], seed)


def wibc(candidates: Candidates, weights: Sequence[float], seed: int = 0) -> Floats:
    """MIRMU's WIBC: IBC with the weighted median, and ties broken by a rating drawn by the runs' weights.

    The weighted median is the rank at which the weights of the better-ranked runs reach half of the total; if they
    reach it exactly, the mean of that rank and the next one, so that equal weights give IBC. (In the authors' library,
    pv211-utils, weights are added up in the order of the systems, not of the ranks.) The paper does not say what the
    weights are; `Fusion` takes the runs' nDCG' on training topics. `weights`: one for each run, from 0, not all 0.
    """
    ranks = np.minimum(candidates.rank, candidates.depth)
    order = np.argsort(ranks, axis=1, kind="stable")
    reached = np.cumsum(np.asarray(weights, dtype=np.float64)[order], axis=1)
    total = math.fsum(weights)

    def first(flags: Bools) -> Floats:
        place = np.take_along_axis(order, flags.argmax(axis=1)[:, None], axis=1)
        return np.take_along_axis(ranks, place, axis=1)[:, 0]

    low, high = first(reached >= total * (0.5 - _EVEN)), first(reached > total * (0.5 + _EVEN))
    drawn = first(reached > total * _uniform(candidates, seed)[:, None])
    n = candidates.depth
    return (n - (low + high) / 2) / n + _TIE / n * (n - drawn) / n


def _uniform(candidates: Candidates, seed: int) -> Floats:
    """A number in [0, 1) for each candidate, from a hash of seed, topic and document (SplitMix64's finish)."""
    z = pair_hashes(candidates.topics, candidates.topic.astype(np.int32), candidates.docs[candidates.doc])
    z += np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    out: Floats = ((z ^ (z >> np.uint64(31))) >> np.uint64(32)) / 2.0**32
    return out


def normalize(candidates: Candidates, normalization: str = "min-max", missing: str = "zero") -> Floats:
    """The runs' scores made comparable, topic by topic and run by run. Shape (pairs, runs).

    `normalization`: `min-max` ((s - min) / (max - min)), `z-score` ((s - mean) / standard deviation), `sum`
    ((s - min) / sum of all s - min; Montague and Aslam, CIKM 2001) or `none`. Where all scores are equal, each becomes
    1, 0 or 1 / n. `missing`: what a run gives documents that it did not retrieve, `zero`, as is usual (for z-scores
    that is its mean), or `minimum`, its lowest normalized score of the topic (0 if it does not answer the topic).
    """
    score = candidates.score
    starts = np.searchsorted(candidates.topic, np.arange(len(candidates.topics)))

    def over(reduce: np.ufunc, values: Floats) -> Floats:
        """One value for each topic and run, in the rows of the topic. Shape (pairs, runs)."""
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


def combsum(candidates: Candidates, normalization: str = "min-max", missing: str = "zero") -> Floats:
    """The sum of the normalized scores (Fox and Shaw, TREC-2)."""
    return _sum(normalize(candidates, normalization, missing))


def combmnz(candidates: Candidates, normalization: str = "min-max", missing: str = "zero") -> Floats:
    """CombSUM times the number of runs that retrieved the document (Fox and Shaw, TREC-2)."""
    return np.asarray(combsum(candidates, normalization, missing) * np.isfinite(candidates.rank).sum(axis=1))


def interpolation(
    candidates: Candidates, weights: Sequence[float], normalization: str = "min-max", missing: str = "zero"
) -> Floats:
    """The sum of the normalized scores, each times its run's weight."""
    return _sum(normalize(candidates, normalization, missing) * np.asarray(weights, dtype=np.float64))


def rbc_fit(candidates: Candidates, qrels: Qrels, ridge: float = 1.0) -> Floats:
    """MIRMU's RBC: a regression that predicts the gain of judgments from the ranks that the runs gave.

    Ours: linear ridge regression on standardized ratings (see `Candidates.ratings`), the intercept not penalized,
    gains are grades. It learns from every judgment of the topics that a run answers, retrieved or not. `candidates`:
    the same systems' runs on training topics, in the order in which they will be fused; `ridge`: the penalty of the
    sum of squared coefficients, above 0. Returns the intercept, then the slope of each run's rating, shape (1 + runs,).
    Raises HarnessError if no judged topic is answered by any of the runs.
    """
    answered = np.isin(qrels.topics, candidates.topics)[qrels.topic]
    # Sorted, so that the order of the judgments' file does not move the last digit.
    order = np.lexsort((qrels.doc, np.array(qrels.topics)[qrels.topic]))
    order = order[answered[order]]
    if not order.size:
        raise HarnessError("fusion: none of the training judgments' topics is answered by the training runs")
    row, gain = candidates.find(qrels)[order], qrels.grade[order]
    features = np.where(row[:, None] >= 0, candidates.ratings()[row], 0.0)
    mean, deviation = features.mean(axis=0), features.std(axis=0)
    deviation[deviation < 1e-12] = 1.0  # constant: its slope is 0
    z = (features - mean) / deviation
    slopes = np.linalg.solve(z.T @ z + ridge * np.eye(mean.size), z.T @ (gain - gain.mean())) / deviation
    return np.concatenate(([gain.mean() - mean @ slopes], slopes))


def rbc(candidates: Candidates, coefficients: Floats) -> Floats:
    """The gains that a regression (see `rbc_fit`) predicts."""
    return _sum(candidates.ratings() * coefficients[1:]) + float(coefficients[0])


# Each method's function and which of the system's parameters it takes; `rbc` takes coefficients that are learned.
METHODS: Mapping[str, tuple[Callable[..., Floats], tuple[str, ...]]] = {
    "rrf": (rrf, ("k",)),
    "ibc": (ibc, ("seed",)),
    "wibc": (wibc, ("weights", "seed")),
    "rbc": (rbc, ()),
    "rank-biased-centroids": (rank_biased_centroids, ("phi",)),
    "combsum": (combsum, ("normalization", "missing")),
    "combmnz": (combmnz, ("normalization", "missing")),
    "interpolation": (interpolation, ("weights", "normalization", "missing")),
}


def _sum(values: Floats) -> Floats:
    """Sums over runs, which do not depend on the order of the runs. Sums that differ by rounding alone are equal
    (1/78 and 1/117 + 1/234): 44 bits after the leading one are kept. Shape (pairs,).
    """
    with np.errstate(over="ignore"):
        total = np.asarray(np.sort(values, axis=1).sum(axis=1), dtype=np.float64)
    return ((total.view(np.int64) + 128) & -256).view(np.float64)
