"""Agreement of two rankings or two assessors: Kendall's tau, AP correlation, rank-biased overlap, Cohen's kappa.

Sources: tau-b (Kendall, 1945); AP correlation (Yilmaz, Aslam and Robertson, SIGIR 2008) and its forms for ties (Urbano
and Marrero, ICTIR 2017); rank-biased overlap (Webber, Moffat and Zobel, TOIS 2010); kappa (Cohen, 1960 and 1968).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from harness.data.columns import Bools, Floats, Index
from harness.errors import HarnessError, counted_text, suggestion

Weights = Literal["none", "linear", "quadratic"]
Values = Sequence[float] | Floats | Bools
Ranking = Sequence[str] | Mapping[str, float]
_FEW = 100  # items whose pairs are compared sooner than scipy.stats is imported


def tau_b(a: Values, b: Values) -> float:
    """Returns Kendall's tau-b of two lists of values of the same items, shape (n,) each; NaN if one is constant.

    Raises HarnessError for lists of unequal length, of fewer than two items, or with a value that is not finite.

    >>> round(tau_b([3, 2, 1], [3, 1, 2]), 4)
    0.3333
    """
    x, y = _paired(a, b)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return math.nan
    if x.size > _FEW:
        from scipy import stats

        return float(stats.kendalltau(x, y).statistic)
    i, j = np.triu_indices(x.size, 1)
    first, second = np.sign(x[i] - x[j]), np.sign(y[i] - y[j])
    tau = float(first @ second) / math.sqrt(np.count_nonzero(first)) / math.sqrt(np.count_nonzero(second))
    return min(1.0, max(-1.0, tau))


def tau_ap(estimate: Values, truth: Values) -> float:
    """Returns the AP correlation of an estimated ranking with the true one: tau weighted to the top of the estimate.

    Both are values of the same items, shape (n,); higher values rank first. Tied items are in random order: the result
    is the mean over all orders of the ties. Without ties in the truth, this is Urbano and Marrero's tau_ap,a.
    Raises HarnessError as `tau_b`.

    >>> round(tau_ap([4, 3, 2, 1], [4, 2, 3, 1]), 4)  # 2 / 3 (1 / 1 + 1 / 2 + 3 / 3) - 1
    0.6667
    """
    y, x = _paired(estimate, truth)
    n = y.size
    above = y[None, :] > y[:, None]
    mates = (y[None, :] == y[:, None]) & ~np.eye(n, dtype=bool)
    # Probability that the truth also ranks column j above row i.
    agreed = (x[None, :] > x[:, None]) + 0.5 * (x[None, :] == x[:, None])
    before, size = above.sum(axis=1), mates.sum(axis=1) + 1
    harmonic = np.concatenate(([0.0], np.cumsum(1.0 / np.arange(1, n + 1))))
    # An item takes each position within its tie group with equal probability, and each other member is equally likely
    # to be above it: sums over k < size of 1 / (before + k) and k / (before + k), without 0 / 0 at the first rank.
    inverse = harmonic[before + size - 1] - harmonic[np.maximum(before - 1, 0)]
    share = np.where(before > 0, size - before * inverse, size - 1)
    inside = (agreed * mates).sum(axis=1) / np.maximum(size - 1, 1)
    terms = ((agreed * above).sum(axis=1) * inverse + inside * share) / size
    return float(2 * terms.sum() / (n - 1) - 1)


def tau_ap_b(a: Values, b: Values) -> float:
    """Returns the symmetric AP correlation of two rankings, neither of which is the truth; ties are allowed.

    This is the mean of Urbano and Marrero's tau_ap,b in both directions: a tie in both rankings is no disagreement, a
    tie in only one is. It is 1 only if the rankings are equal including ties, and NaN if one is constant.
    Raises HarnessError as `tau_b`.

    >>> tau_ap_b([2, 2, 1], [2, 2, 1]), round(tau_ap_b([3, 2, 1], [3, 1, 2]), 4)
    (1.0, 0.5)
    """
    x, y = _paired(a, b)
    return (_tau_ap_ties(x, y) + _tau_ap_ties(y, x)) / 2


def _tau_ap_ties(x: Floats, y: Floats) -> float:
    above = y[None, :] > y[:, None]
    before = above.sum(axis=1)
    lower = before > 0  # all items except those tied for the first rank
    if not lower.any():
        return math.nan
    concordant = (above & (x[None, :] > x[:, None])).sum(axis=1)
    return float(2 * (concordant[lower] / before[lower]).mean() - 1)


def _paired(a: Values, b: Values) -> tuple[Floats, Floats]:
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape or x.size < 2:
        raise HarnessError(f"rankings of shapes {x.shape} and {y.shape}, expected two of the same items, two or more")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise HarnessError("rankings: a value is not finite, so that its item has no place")
    return x, y


def rbo(a: Ranking, b: Ranking, p: float = 0.9) -> float:
    """Returns the extrapolated rank-biased overlap (Webber et al., equation 32): 0 for disjoint, 1 for equal rankings.

    The weight of depth d is (1 - p) p^(d - 1): with p = 0.9, the first ten ranks have 86% of the weight. The agreement
    at the end of the longer ranking is extrapolated; the shorter ranking is first extended with the agreement at its
    own end. NaN if a ranking is empty.

    Parameters
    ----------
    a, b : items, best first; or item -> score, where equal scores are ties. Tied items have the first rank of their
        group, and the agreement at a depth is 2 x common items / total items of both rankings down to that depth.

    Raises
    ------
    HarnessError
        p is not between 0 and 1, an item occurs twice in a ranking, or a score is not finite.

    Examples
    --------
    >>> round(rbo("abc", "abc"), 3), rbo("abc", "xyz"), round(rbo("ab", "ba", p=0.5), 3)
    (1.0, 0.0, 0.5)
    """
    first, second = _ranks(a, p), _ranks(b, p)
    if not first or not second:
        return math.nan
    short, long = sorted((len(first), len(second)))
    depth = np.arange(1, long + 1)
    common = _down_to(_meeting(first, second), long)
    sizes = [np.where(depth > len(ranks), depth, _down_to(list(ranks.values()), long)) for ranks in (first, second)]
    extended = common + common[short - 1] / short * np.maximum(depth - short, 0)
    agreement = 2 * extended / (sizes[0] + sizes[1])
    return float((1 - p) * (p ** (depth - 1) @ agreement) + p**long * agreement[-1])


def rbo_cut(a: Sequence[str], b: Sequence[str], p: float, depth: int) -> float:
    """Returns the mean overlap of two rankings without ties down to a depth, with the weights of `rbo`.

    repro_eval and the Compatibility measure (Clarke, Vtyurina and Smucker, TOIS 2021) compute it in this way. Rankings
    shorter than the depth are not extrapolated, so two equal short rankings get less than 1. Raises as `rbo`.

    >>> round(rbo_cut("abc", "abc", 0.9, 3), 3), round(rbo_cut("ab", "ab", 0.5, 3), 4)
    (1.0, 0.9524)
    """
    ranks = np.arange(1, depth + 1)
    overlap = _down_to(_meeting(_ranks(a, p), _ranks(b, p)), depth) / ranks
    weights = p ** (ranks - 1.0)
    return float(weights @ overlap / weights.sum())


def _ranks(ranking: Ranking, p: float) -> dict[str, int]:
    """Returns item -> rank from 1; tied items have the first rank of their group."""
    if not 0 < p < 1:
        raise HarnessError(f"rank-biased overlap: p is {p:g}, expected a number between 0 and 1")
    if not isinstance(ranking, Mapping):
        out = {item: rank for rank, item in enumerate(ranking, 1)}
        if len(out) < len(ranking):
            raise HarnessError("rank-biased overlap: an item occurs twice in a ranking")
        return out
    scores = -np.array(list(ranking.values()), dtype=np.float64)
    if not np.isfinite(scores).all():
        raise HarnessError("rank-biased overlap: a score is not finite, so that its item has no place")
    before = np.searchsorted(np.sort(scores), scores)
    return dict(zip(ranking, (before + 1).tolist(), strict=True))


def _meeting(a: Mapping[str, int], b: Mapping[str, int]) -> list[int]:
    """Returns for each common item the depth at which it is in both rankings."""
    return [max(rank, b[item]) for item, rank in a.items() if item in b]


def _down_to(ranks: Sequence[int], depth: int) -> Index:
    """Returns the number of ranks <= 1, <= 2, ..., <= `depth`; shape (depth,)."""
    out: Index = np.cumsum(np.bincount(np.asarray(ranks, dtype=np.int64), minlength=depth + 1))[1 : depth + 1]
    return out


@dataclass(frozen=True)
class RunRankingCorrelation:
    """Correlation of two rankings of the same `n` runs.

    Attributes
    ----------
    tau, tau_ap : `tau_b` and `tau_ap_b`; None where all runs of one ranking are tied.
    rbo : rank-biased overlap with p = 0.9.
    """

    a: str
    b: str
    n: int
    tau: float | None
    tau_ap: float | None
    rbo: float


def rank_correlation(a: str, b: str, means: Mapping[str, float], others: Mapping[str, float]) -> RunRankingCorrelation:
    """Returns the correlations of two rankings over the runs that are in both.

    Parameters
    ----------
    a, b : names of the rankings, such as measures or editions.
    means, others : run -> mean; higher is better, and means equal to 12 decimals are tied. NaN: no mean.

    Raises
    ------
    HarnessError
        They have fewer than two runs in common.

    Examples
    --------
    >>> rank_correlation("AP", "P@10", {"x": 0.3, "y": 0.2, "z": 0.1}, {"x": 0.5, "y": 0.4, "w": 0.9}).tau
    1.0
    """
    runs = sorted(run for run in means if not math.isnan(means[run]) and not math.isnan(others.get(run, math.nan)))
    if len(runs) < 2:
        raise HarnessError(
            f"{a} and {b}: {counted_text(len(runs), 'run')} in common; a correlation of rankings needs 2 or more"
        )
    x, y = ([round(values[run], 12) for run in runs] for values in (means, others))
    tau, tau_ap = tau_b(x, y), tau_ap_b(x, y)
    overlap = rbo(dict(zip(runs, x, strict=True)), dict(zip(runs, y, strict=True)))
    return RunRankingCorrelation(
        a, b, len(runs), None if math.isnan(tau) else tau, None if math.isnan(tau_ap) else tau_ap, overlap
    )


@dataclass(frozen=True)
class Kappa:
    """Agreement of two assessors beyond chance.

    Attributes
    ----------
    n : number of items judged by both.
    observed, chance : observed agreement, and that expected of assessors who grade at random with the observed grade
        frequencies; with weights, 1 - mean distance / largest distance.
    kappa : (observed - chance) / (1 - chance); None if both give the same single grade throughout.
    """

    n: int
    observed: float
    chance: float
    kappa: float | None


def kappa(a: Values, b: Values, weights: Weights = "none") -> Kappa:
    """Returns Cohen's kappa of two assessors' grades of the same items, shape (n,) each.

    Parameters
    ----------
    weights : distance of two different grades: constant, their difference, or its square. Distances use the grade
        values, so unused grades between two grades count.

    Raises
    ------
    HarnessError
        The lists are of unequal length or empty, a grade is not finite, or the weights are unknown.

    Examples
    --------
    >>> kappa([1, 1, 0, 0], [1, 0, 0, 0])
    Kappa(n=4, observed=0.75, chance=0.5, kappa=0.5)
    """
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape or not x.size or not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise HarnessError(f"kappa: grades of shapes {x.shape} and {y.shape}, expected finite ones of the same items")
    table, grades = confusion(x, y)
    apart = np.abs(grades[:, None] - grades[None, :])
    distances = {"none": (apart > 0).astype(np.float64), "linear": apart, "quadratic": apart**2}
    if weights not in distances:
        raise HarnessError(f"kappa: weights {weights!r}; {suggestion(weights, distances)}")
    distance = distances[weights]
    largest = float(distance.max()) or 1.0
    shares = table / table.sum()
    seen = float((shares * distance).sum()) / largest
    random = float((np.outer(shares.sum(axis=1), shares.sum(axis=0)) * distance).sum()) / largest
    return Kappa(x.size, 1 - seen, 1 - random, 1 - seen / random if random > 0 else None)


def confusion(a: Values, b: Values) -> tuple[Index, Floats]:
    """Returns the confusion matrix, shape (grades, grades) with `a` in rows, and the grades in ascending order."""
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    grades, codes = np.unique(np.concatenate((x, y)), return_inverse=True)
    pairs = codes[: x.size] * grades.size + codes[x.size :]
    return np.bincount(pairs, minlength=grades.size**2).reshape(grades.size, grades.size), grades
