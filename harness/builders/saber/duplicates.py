"""Texts that are nearly the same: MinHash and banding find pairs, the exact Jaccard similarity of them decides.

Sources: Broder, On the resemblance and containment of documents, 1997; Leskovec, Rajaraman, Ullman, Mining of Massive
Datasets, ch. 3 (banding).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xxhash

from harness.errors import HarnessError
from harness.io.console import track

SURE = 0.99  # that two texts just as alike as the threshold share a band


def shingles(words: Sequence[str], size: int) -> frozenset[int]:
    """The runs of so many words as 32-bit hashes; of a shorter text, the whole as one run.

    >>> len(shingles("a b c a b c".split(), 3))
    3
    """
    runs = range(max(len(words) - size + 1, 1)) if words else range(0)
    return frozenset(
        xxhash.xxh32_intdigest("\x1f".join(words[i : i + size]).encode("utf-8", "surrogatepass")) for i in runs
    )


def jaccard(one: frozenset[int], other: frozenset[int]) -> float:
    """Shared over all; 0 for two empty sets.

    >>> jaccard(frozenset((1, 2)), frozenset((2, 3))) == 1 / 3
    True
    """
    both = len(one & other)
    return both / (len(one) + len(other) - both) if both else 0.0


def rows_of(permutations: int, threshold: float) -> int:
    """Rows of a band: the most with which two texts as alike as the threshold share one of the bands with `SURE`.

    >>> rows_of(128, 0.8), rows_of(128, 1.0)
    (6, 128)
    """
    fits = [r for r in range(1, permutations + 1) if 1 - (1 - threshold**r) ** (permutations // r) >= SURE]
    if not fits:
        raise HarnessError(f"{permutations} permutations cannot find texts alike by {threshold:g}; take more")
    return max(fits)


def earlier(sets: Sequence[frozenset[int]], threshold: float, permutations: int = 128, seed: int = 0) -> dict[int, int]:
    """Text -> the first kept text before it that it is as alike to as the threshold, or more.

    Texts are gone through in order; one that is like a kept one is not kept. Every pair returned is that alike; a pair
    just at the threshold is missed with a probability below 1 - `SURE`.

    Raises
    ------
    HarnessError
        There are too few permutations for the threshold.

    Examples
    --------
    >>> earlier([frozenset((1, 2, 3)), frozenset((7, 8)), frozenset((1, 2, 3))], 0.8)
    {2: 0}
    """
    rows = rows_of(permutations, threshold)
    rng = np.random.default_rng(seed)
    factors = rng.integers(1 << 63, size=permutations, dtype=np.uint64) * 2 + 1
    offsets = rng.integers(1 << 63, size=permutations, dtype=np.uint64)
    buckets: dict[bytes, list[int]] = {}
    out: dict[int, int] = {}
    for i, mine in enumerate(track(sets, "near duplicates")):
        if not mine:
            continue
        signature = _signature(mine, factors, offsets)
        bands = [
            band.to_bytes(4) + signature[band * rows : (band + 1) * rows].tobytes()
            for band in range(permutations // rows)
        ]
        before = {j for band in bands for j in buckets.get(band, ())}
        found = min((j for j in before if jaccard(mine, sets[j]) >= threshold), default=None)
        if found is not None:
            out[i] = found
            continue
        for band in bands:
            buckets.setdefault(band, []).append(i)
    return out


def _signature(
    mine: frozenset[int], factors: npt.NDArray[np.uint64], offsets: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint32]:
    """The least hash of each permutation: multiply-shift (Dietzfelbinger et al. 1997), 32 bits."""
    values = np.fromiter(mine, np.uint64, len(mine))
    hashed = (factors[:, None] * values[None, :] + offsets[:, None]) >> np.uint64(32)
    out: npt.NDArray[np.uint32] = hashed.min(axis=1).astype(np.uint32)
    return out
