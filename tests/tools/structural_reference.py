"""Plain implementations: the index of paths in memory at once, and scores from paths as tuples of words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.formulas.trees.forest import Forest
from harness.formulas.trees.tree import Tree, children
from harness.systems.structural.paths import Codes, paths
from harness.systems.structural.tree import Structural

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


def plain_paths(tree: Tree, height: int) -> list[tuple[int, int, int, tuple[str, ...], tuple[str, ...]]]:
    """Of each path: begin, end, edges, with wildcard, with symbol."""
    below, out = children(tree), []
    for node, label in enumerate(tree.labels):
        leaf = not below[node]
        wildcard = f"{label.split('!')[0]}!*" if leaf else f"inner {label}"
        symbol = label if leaf else f"inner {label}"
        walked: tuple[str, ...] = ()
        at, edges = node, 0
        while True:
            if leaf or edges <= height:
                out.append((node, at, edges, (wildcard, *walked), (symbol, *walked)))
            if at == 0:
                break
            above = tree.parents[at]
            walked += (tree.labels[above], "" if tree.labels[above].startswith("U!") else tree.edges[at])
            at, edges = above, edges + 1
    return out


def plain_short(tree: Tree, height: int) -> Counter[tuple[str, ...]]:
    found: Counter[tuple[str, ...]] = Counter()
    leaf = [not below for below in children(tree)]
    for node, _, edges, wildcard, symbol in plain_paths(tree, height):
        if edges <= height:
            found[wildcard] += 1 if leaf[node] else 2
            found[symbol] += leaf[node]
    return +found


def plain_score(query: Tree, tree: Tree, trees: Sequence[Tree], system: Structural) -> float:
    often = Counter(path for each in trees for path in plain_short(each, system.height))

    def weight(path: tuple[str, ...]) -> float:
        return math.sqrt(math.log(1 + len(trees) / max(1, often[path])))

    ours, theirs = plain_short(query, system.height), plain_short(tree, system.height)
    shared = sum(weight(path) * count for path, count in (ours & theirs).items())
    total = sum(weight(path) * count for bag in (ours, theirs) for path, count in bag.items())
    leaves = sum(not below for below in children(query))
    bags: list[dict[tuple[int, bool], Counter[tuple[str, ...]]]] = [{}, {}]
    for bag, each in zip(bags, (query, tree), strict=True):
        leaf = [not below for below in children(each)]
        for node, top, _, wildcard, symbol in plain_paths(each, 0):
            if leaf[node]:
                bag.setdefault((top, True), Counter())[wildcard] += 1
                bag.setdefault((top, False), Counter())[symbol] += 1
    best = max(
        (1 - system.credit) * (bags[0][a, True] & bags[1][b, True]).total()
        + system.credit * (bags[0][a, False] & bags[1][b, False]).total()
        for a in range(len(query))
        for b in range(len(tree))
    )
    return system.share * best / leaves + (1 - system.share) * 2 * shared / total


def plain_dice(queries: Sequence[Tree], trees: Sequence[Tree], height: int) -> list[list[float]]:
    """Dice coefficient of each query with each tree; 0 if they share nothing."""
    bags = [plain_short(tree, height) for tree in trees]
    often = Counter(path for bag in bags for path in bag)

    def mass(bag: Counter[tuple[str, ...]]) -> float:
        return sum(math.sqrt(math.log(1 + len(trees) / max(1, often[path]))) * count for path, count in bag.items())

    masses = [mass(bag) for bag in bags]
    asked = [plain_short(query, height) for query in queries]
    return [[2 * mass(bag & a) / (all_ + mass(a)) for bag, all_ in zip(bags, masses, strict=True)] for a in asked]
