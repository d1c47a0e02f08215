"""Fisher's randomization test of paired differences: the share of sign flips at least as extreme as the observation.

Sources: its use in retrieval (Smucker, Allan and Carterette, CIKM 2007); the Monte Carlo p-value that is never 0
(Phipson and Smyth, 2010).

The max-statistic permutation test: p-values corrected for many correlated tests at once, by shared sign flips.

Sources: step-down max-T (Westfall and Young, Resampling-Based Multiple Testing, 1993, algorithm 2.8); all pairs of runs
in retrieval, where the single-step form is a randomized Tukey HSD (Carterette, ACM TOIS 30(1), 2012).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence

import numpy as np

from harness.data.columns import Floats, Index
from harness.errors import HarnessError

TOLERANCE = 1e-12  # differences below count as 0: far below any published digit, far above rounding errors of float64
CHUNK_WORDS = 1 << 18  # 2 MiB of random sign bits at a time
LEAST, MOST = 10_000, 20_000_000  # flips drawn per test; the most take half a second with 77 topics
BEYOND = 10  # flips expected to be as extreme where the corrected p is alpha, which makes its error a third of it


def flips_for(family: int, alpha: float) -> int:
    """Returns how many sign flips to draw, so that p can be significant after Bonferroni's correction.

    >>> flips_for(4, 0.05), flips_for(525, 0.05)
    (10000, 105000)
    """
    return max(LEAST, min(MOST, math.ceil(BEYOND * family / alpha))) if alpha > 0 else LEAST


def check_flips(drawn: int, family: int, alpha: float) -> None:
    """Raises HarnessError if so few sign flips are drawn that no corrected p is below alpha, or too many."""
    if family / alpha - 1 < drawn <= MOST:
        return
    least = math.floor(family / alpha)
    why = f"give no corrected p below {alpha:g} in a family of {family:,} tests" if drawn <= MOST else "are too many"
    right = f"draw at least {least:,}" if least <= MOST else "test fewer pairs or measures"
    raise HarnessError(f"permutations: {drawn:,} sign flips {why}; {right}, or use the t-test")


def child_seed(seed: int, a: str, b: str, measure: str) -> int:
    """Returns a seed specific to a row, so that other rows, their order and the pair's order do not change its p."""
    key = json.dumps([seed, *sorted((a, b)), measure])
    return int.from_bytes(hashlib.sha256(key.encode()).digest(), "big")


def sign_flips(differences: Floats, permutations: int, seed: int, tolerance: float) -> tuple[float, float | None]:
    """Returns the share of sign flips whose sum is at least as far from 0 as the observed one, and its standard error.

    If the m non-zero differences have at most `permutations` sign flips (2^m), all are enumerated: the result is exact,
    and the error None. Otherwise it is (count + 1) / (permutations + 1), with the Monte Carlo standard error.

    Parameters
    ----------
    differences : float64, shape (n,). Zeros do not affect the result.
    tolerance : tolerance per difference when a sum is compared with the observed one.
    """
    differences = differences[differences != 0]
    m = differences.size
    threshold = abs(float(differences.sum())) - m * tolerance
    exact = m < 63 and 2**m <= permutations
    total = 2**m if exact else permutations
    words = 1 if exact else -(-m // 64)
    # Raw words of a bit generator: their stream is the same in all versions of NumPy, unlike a Generator's methods.
    stream = np.random.PCG64(seed)
    chunk, count = max(1, CHUNK_WORDS // words), 0
    tables = _partial_sums(differences)
    for start in range(0, total, chunk):
        size = min(chunk, total - start)
        bits = np.arange(start, start + size, dtype=np.uint64) if exact else stream.random_raw(size * words)
        flips = bits.astype("<u8").view(np.uint8).reshape(size, words * 8)
        sums = np.zeros(size)
        for table, flip in zip(tables, flips.T[: len(tables)], strict=True):
            sums += table.take(flip)
        count += int(np.count_nonzero(np.abs(sums) >= threshold))
    if exact:
        return count / total, None
    p = (count + 1) / (total + 1)
    return p, math.sqrt(p * (1 - p) / total)


def _partial_sums(differences: Floats) -> Floats:
    """Returns, for each eight differences, the sums under the 256 sign patterns, shape (ceil(n / 8), 256)."""
    padded = np.zeros(-(-differences.size // 8) * 8)
    padded[: differences.size] = differences
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    sums: Floats = padded.reshape(-1, 8) @ (1.0 - 2.0 * bits.T)
    return sums


CHUNK = 1 << 18  # statistics held at a time: 2 MiB
TIES = 1e-9  # statistics this close, relative to the observed one, count as equal: sums differ by rounding only


def step_down_max_t(differences: Floats, permutations: int, seed: int) -> tuple[Floats, Floats, bool]:
    """Returns p and corrected p of each test, float64, shape (tests,), and whether all sign flips were enumerated.

    Each draw flips the signs of whole topics, in all tests alike, so that the correlation of the tests is kept. The
    statistic is the absolute paired t of the flipped differences. A test's p is the share of draws in which its
    statistic reaches the observed one; its corrected p is the share in which the largest one does, over the tests whose
    observed statistic is not larger than its own, then made monotone. The familywise error rate holds if each topic's
    differences in all tests without a true difference may change their signs together.

    Parameters
    ----------
    differences : float64, shape (topics, tests); of clustered topics, sums over the clusters. NaN where a topic does
        not count for a test.
    permutations : sign flips drawn; if there are no more (2^topics), all are enumerated and p is exact. Otherwise p is
        (count + 1) / (permutations + 1).

    Examples
    --------
    >>> differences = np.array([[3.0, 0.5], [2.0, -0.4], [1.5, 0.1], [1.0, -0.2]])
    >>> p, corrected, exact = step_down_max_t(differences, 1000, seed=0)
    >>> p.tolist(), corrected.tolist(), exact
    ([0.125, 1.0], [0.125, 1.0], True)
    """
    counted = ~np.isnan(differences)
    values = np.where(counted, differences, 0.0)
    n = counted.sum(axis=0).astype(np.float64)
    squares = (values**2).sum(axis=0)
    topics, tests = values.shape
    observed = _grows_with_t(values.sum(axis=0)[None, :], n, squares)[0]
    order = np.argsort(observed, kind="stable")  # ascending: a running maximum covers the tests that are not larger
    values, n, squares = np.ascontiguousarray(values[:, order]), n[order], squares[order]
    reached = observed[order] * (1.0 - TIES)
    exact = topics < 63 and 2**topics <= permutations
    total = 2**topics if exact else permutations
    words = 1 if exact else -(-topics // 64)
    stream = np.random.PCG64(seed)  # raw words: the same stream in all versions of NumPy
    own, largest = np.zeros(tests, dtype=np.int64), np.zeros(tests, dtype=np.int64)
    chunk = max(1, min(255, CHUNK // max(1, tests)))  # so that a byte holds the counts of a chunk
    for start in range(0, total, chunk):
        size = min(chunk, total - start)
        raw = np.arange(start, start + size, dtype=np.uint64) if exact else stream.random_raw(size * words)
        bits = np.unpackbits(raw.astype("<u8").view(np.uint8).reshape(size, -1), axis=1, bitorder="little")
        signs: Floats = 1.0 - 2.0 * bits[:, :topics].astype(np.float64)
        statistics = _grows_with_t(signs @ values, n, squares)
        own += (statistics >= reached).sum(axis=0, dtype=np.uint8)
        np.maximum.accumulate(statistics, axis=1, out=statistics)
        largest += (statistics >= reached).sum(axis=0, dtype=np.uint8)
    p, corrected = np.empty(tests), np.empty(tests)
    for counts, into in ((own, p), (largest, corrected)):
        into[order] = np.where(reached == 0.0, 1.0, counts / total if exact else (counts + 1) / (total + 1))
    # The test with the larger statistic has no larger corrected p.
    corrected[order] = np.maximum.accumulate(corrected[order][::-1])[::-1]
    return p, corrected, exact


def shared_flips(
    tests: Sequence[tuple[tuple[str, str], str]],
    columns: Mapping[tuple[str, str], Floats],
    clusters: Index | None,
    permutations: int,
    seed: int,
) -> dict[tuple[str, str, str], tuple[float, float, float | None]]:
    """Returns (a, b, measure) -> p of shared sign flips, p corrected by the largest statistic, and the error of p.

    Parameters
    ----------
    tests : pairs of runs with a measure.
    columns : (run, measure) -> float64, shape (topics,): its values, NaN where a topic does not count.
    clusters : number of each topic's cluster, whose topics flip together; None if topics are independent.
    """
    differences = np.stack([columns[a, measure] - columns[b, measure] for (a, b), measure in tests], axis=1)
    differences[np.abs(differences) <= TOLERANCE] = 0.0
    if clusters is not None:
        sums = np.zeros((int(clusters.max(initial=-1)) + 1, len(tests)))
        np.add.at(sums, clusters, np.nan_to_num(differences))
        present = np.zeros(sums.shape, dtype=np.bool_)
        np.logical_or.at(present, clusters, ~np.isnan(differences))
        differences = np.where(present, sums, np.nan)
        differences[np.abs(differences) <= TOLERANCE] = 0.0
    p, largest, exact = step_down_max_t(differences, permutations, seed)
    errors = [None if exact else math.sqrt(each * (1 - each) / permutations) for each in p.tolist()]
    drawn = zip(p.tolist(), largest.tolist(), errors, strict=True)
    return {(a, b, measure): each for ((a, b), measure), each in zip(tests, drawn, strict=True)}


def _grows_with_t(sums: Floats, n: Floats, squares: Floats) -> Floats:
    """Returns t^2, or of tests over equally many topics what orders them as t^2 does; overwrites `sums`.

    Sign flips leave the sums of squares as they are: t^2 is (n - 1) x / (1 - x) with x = sum^2 / (n squares).
    """
    with np.errstate(divide="ignore"):
        sums *= sums
        sums *= np.where(squares > 0.0, 1.0 / (n * squares), 0.0)
        if (n != n[0]).any():
            np.minimum(sums, 1.0, out=sums)
            sums *= (n - 1.0) / (1.0 - sums)
    return sums
