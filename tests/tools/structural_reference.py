"""The index of paths computed in memory at once, which the one of bounded memory must equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from harness.formulas.trees.forest import Forest
from harness.systems.structural.paths import Codes, paths
from harness.systems.structural.tree import encoded

Array = npt.NDArray[Any]


def index(trees: Forest, height: int) -> dict[str, Array]:
    """Name of each file -> its array."""
    found = paths(trees, Codes.of(trees), np.arange(len(trees)), height)
    leaf = found.leaf[found.node]
    hashes = np.concatenate((found.wildcard, found.symbol[leaf]))
    tree = np.concatenate((found.tree[found.node], found.tree[found.node[leaf]]))
    factor = np.concatenate((np.where(leaf, 1, 2), np.ones(int(leaf.sum()), np.int64)))
    lists: dict[int, dict[int, int]] = {}
    factors: dict[int, int] = {}
    for key, number, each in zip(hashes.tolist(), tree.tolist(), factor.tolist(), strict=True):
        counts = lists.setdefault(key, {})
        counts[number] = counts.get(number, 0) + 1
        factors.setdefault(key, each)
    path = sorted(lists)
    often = np.array([len(lists[key]) for key in path])
    weight = [0.0] * len(trees)
    for key, value in zip(path, np.sqrt(np.log1p(len(trees) / often)).tolist(), strict=True):
        for number, count in sorted(lists[key].items()):
            weight[number] += value * factors[key] * count
    entries = [entry for key in path for entry in sorted(lists[key].items())]
    numbers = np.array([number for number, _ in entries], np.uint32)
    gaps, end = encoded(numbers, np.array([min(n, 15) for _, n in entries], np.uint8), np.cumsum(often))
    return {
        "path": np.array(path, np.uint64),
        "end": end,
        "often": often.astype(np.int32),
        "gaps": gaps,
        "weight": np.array(weight).astype(np.float32),
    }
