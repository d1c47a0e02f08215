"""Near-duplicate texts: MinHash with banding proposes pairs, their exact Jaccard similarity decides.

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

SURE = 0.99  # minimum probability that two texts at exactly the threshold share a band


def shingles(words: Sequence[str], size: int) -> frozenset[int]:
    """Returns the word n-grams (n = `size`) as 32-bit hashes; a shorter text is one n-gram.

    >>> len(shingles("a b c a b c".split(), 3))
    3
    """
    runs = range(max(len(words) - size + 1, 1)) if words else range(0)
    return frozenset(
        xxhash.xxh32_intdigest("\x1f".join(words[i : i + size]).encode("utf-8", "surrogatepass")) for i in runs
    )


def jaccard(one: frozenset[int], other: frozenset[int]) -> float:
    """Computes the Jaccard similarity, intersection over union; 0 for two empty sets.

    >>> jaccard(frozenset((1, 2)), frozenset((2, 3))) == 1 / 3
    True
    """
    both = len(one & other)
    return both / (len(one) + len(other) - both) if both else 0.0


def band_rows(permutations: int, threshold: float) -> int:
    """Returns the most rows per band with which texts at the threshold share a band with probability `SURE`.

    >>> band_rows(128, 0.8), band_rows(128, 1.0)
    (6, 128)
    """
    fits = [r for r in range(1, permutations + 1) if 1 - (1 - threshold**r) ** (permutations // r) >= SURE]
    if not fits:
        raise HarnessError(f"{permutations} permutations are too few for the similarity {threshold:g}; use more")
    return max(fits)


def earlier(sets: Sequence[frozenset[int]], threshold: float, permutations: int = 128, seed: int = 0) -> dict[int, int]:
    """Returns duplicate -> the first kept text before it with at least the threshold's Jaccard similarity.

    Texts are compared in order with the kept ones; a duplicate is not kept. Every returned pair reaches the threshold;
    a pair exactly at the threshold is missed with a probability below 1 - `SURE`.

    Raises
    ------
    HarnessError
        The permutations are too few for the threshold.

    Examples
    --------
    >>> earlier([frozenset((1, 2, 3)), frozenset((7, 8)), frozenset((1, 2, 3))], 0.8)
    {2: 0}
    """
    rows = band_rows(permutations, threshold)
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
        first = min((j for j in before if jaccard(mine, sets[j]) >= threshold), default=None)
        if first is not None:
            out[i] = first
            continue
        for band in bands:
            buckets.setdefault(band, []).append(i)
    return out


def _signature(
    mine: frozenset[int], factors: npt.NDArray[np.uint64], offsets: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint32]:
    """Returns the smallest hash of each permutation: multiply-shift (Dietzfelbinger et al. 1997), 32 bits."""
    values = np.fromiter(mine, np.uint64, len(mine))
    hashed = (factors[:, None] * values[None, :] + offsets[:, None]) >> np.uint64(32)
    out: npt.NDArray[np.uint32] = hashed.min(axis=1).astype(np.uint32)
    return out
