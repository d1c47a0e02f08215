"""Plain implementation of structural search: scores from paths as tuples of words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from harness.formulas.trees.tree import Tree, children
from harness.systems.structural.tree import Structural


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
