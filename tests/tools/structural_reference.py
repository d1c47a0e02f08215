"""The index of paths computed in memory at once, which the one of bounded memory must equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from harness.formulas.trees.forest import Forest
from harness.systems.structural.paths import Codes, paths

Array = npt.NDArray[Any]
RANGE = 4096  # trees of a block


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
    frequent: list[tuple[int, int]] = []  # number of a posting, and its occurrences
    for key, value in zip(path, np.sqrt(np.log1p(len(trees) / often)).tolist(), strict=True):
        for number, count in sorted(lists[key].items()):
            weight[number] += value * factors[key] * count
    blocks: list[tuple[int, int]] = []  # range, and size less 1
    ends, postings = [], []
    for key in path:
        entries = sorted(lists[key].items())
        numbers = [number // RANGE for number, _ in entries]
        blocks += [(each, numbers.count(each) - 1) for each in sorted(set(numbers))]
        postings += [number % RANGE * 16 + min(count, 15) for number, count in entries]
        frequent += [(len(postings) - len(entries) + n, count) for n, (_, count) in enumerate(entries) if count > 15]
        ends.append((len(postings), len(blocks)))
    return {
        "path": np.array(path, np.uint64),
        "end": np.array([end for end, _ in ends]),
        "blocks": np.array([end for _, end in ends]),
        "range": np.array([each for each, _ in blocks], np.uint16),
        "size": np.array([size for _, size in blocks], np.uint16),
        "posting": np.array(postings, np.uint16),
        "frequent": np.array([number for number, _ in frequent], np.int64),
        "frequency": np.array([count for _, count in frequent], np.uint32),
        "weight": np.array(weight).astype(np.float32),
    }
