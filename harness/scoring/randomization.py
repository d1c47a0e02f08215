"""Fisher's randomization test of paired differences: the share of sign flips at least as extreme as the observation.

Sources: its use in retrieval (Smucker, Allan and Carterette, CIKM 2007); the Monte Carlo p-value that is never 0
(Phipson and Smyth, 2010).
"""

from __future__ import annotations

import hashlib
import json
import math

import numpy as np

from harness.data.columns import Floats
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
