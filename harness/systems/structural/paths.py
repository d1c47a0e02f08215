"""Paths of operator trees from a node up to one of its ancestors, as 64-bit hashes, for many trees at once.

The paths follow Zhong and Zanibbi (2019), "Structural similarity search for formulas using leaf-root paths in operator
subtrees", and Approach0. A path consists of its labels and the position of each argument, which is ignored below
unordered operators (`U!`). A path that begins at a leaf has two forms: with the leaf's symbol (`V!x`), and with a
wildcard that keeps only the kind of symbol (`V!*`). A path that begins at an inner node has one form.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from harness.data.columns import Floats
from harness.formulas.trees.forest import Forest
from harness.formulas.trees.tree import Tree

Hashes = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]

_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_HALF, _THIRD, _REST = np.uint64(32), np.uint64(29), np.uint64(48)


@dataclass(frozen=True, eq=False)
class Codes:
    """Hashes of a forest's labels and edges, equal for equal names in every forest.

    Attributes
    ----------
    label, inner, wildcard : uint64, shape (labels,). Hash of the label, of the label as the beginning of a path at an
        inner node, and of the label's kind.
    ordered : bool, shape (labels,). Whether the order of arguments matters.
    edge : uint64, shape (edges,).
    """

    label: Hashes
    inner: Hashes
    wildcard: Hashes
    ordered: npt.NDArray[np.bool_]
    edge: Hashes

    @staticmethod
    def of(forest: Forest) -> Codes:
        """Returns the codes of a forest."""
        names = forest.label_names
        return Codes(
            _name_hashes(names),
            _name_hashes(tuple(f"inner {name}" for name in names)),
            _name_hashes(tuple(f"{name.partition('!')[0]}!*" for name in names)),
            np.array([not name.startswith("U!") for name in names], dtype=np.bool_),
            _name_hashes(tuple(f"edge {name}" for name in forest.edge_names)),
        )


def _name_hashes(names: tuple[str, ...]) -> Hashes:
    return np.frombuffer(b"".join(map(_digest, names)), "<u8").astype(np.uint64)


@lru_cache(1 << 16)  # a query has few names, which others have as well
def _digest(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=8).digest()


@dataclass(frozen=True, eq=False)
class Paths:
    """The paths of some trees, whose nodes are numbered consecutively.

    Attributes
    ----------
    node, top : int64, shape (paths,). First and last node of each path.
    wildcard, symbol : uint64, shape (paths,). The two forms of each path; equal if it begins at an inner node.
    height : int32, shape (paths,). Number of edges; 0 for a single node.
    leaf : bool, shape (nodes,). Whether a node is a leaf.
    tree : int64, shape (nodes,). The tree of each node, as a position among the requested trees.
    """

    node: Places
    top: Places
    wildcard: Hashes
    symbol: Hashes
    height: npt.NDArray[np.int32]
    leaf: npt.NDArray[np.bool_]
    tree: Places

    @property
    def leaves(self) -> Places:
        """Number of leaves of each tree."""
        return np.bincount(self.tree[self.leaf], minlength=int(self.tree[-1]) + 1)


def paths(forest: Forest, codes: Codes, trees: Places, height: int, full: bool = False) -> Paths:
    """Returns the paths of at most `height` edges from every node; with `full` also the longer paths from leaves.

    Time and memory grow with nodes times height, and with `full` also with leaves times depth.
    """
    begin, end = forest.offsets[trees], forest.offsets[trees + 1]
    lengths = end - begin
    first = np.cumsum(lengths) - lengths
    at = np.arange(int(lengths.sum())) + np.repeat(begin - first, lengths)
    parent = forest.parents[at] + np.repeat(first, lengths)
    label, edge = forest.labels[at], forest.edges[at]
    root = np.zeros(len(at), np.bool_)
    root[first] = True
    leaf = np.ones(len(at), np.bool_)
    leaf[parent[~root]] = False
    # The hash that a step from a node to its parent adds to a path.
    above = label[parent]
    step = codes.label[above] + np.where(codes.ordered[above], codes.edge[edge], np.uint64(0))

    node = top = np.arange(len(at))
    symbol = np.where(leaf, codes.label[label], codes.inner[label])  # a leaf may have the label of an operator
    wildcard = np.where(leaf, codes.wildcard[label], symbol)
    parts = [(node, top, wildcard, symbol)]
    while node.size and (len(parts) <= height or full):
        stay = ~root[top]
        if len(parts) > height:
            stay &= leaf[node]
        node, top, wildcard, symbol = node[stay], top[stay], wildcard[stay], symbol[stay]
        wildcard, symbol = _extended_hash(wildcard, step[top]), _extended_hash(symbol, step[top])
        top = parent[top]
        parts.append((node, top, wildcard, symbol))
    heights = np.repeat(np.arange(len(parts), dtype=np.int32), [len(part[0]) for part in parts])
    nodes, tops, wildcards, symbols = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Paths(nodes, tops, wildcards, symbols, heights, leaf, np.repeat(np.arange(len(trees)), lengths))


def _extended_hash(path: Hashes, step: Hashes) -> Hashes:
    path = (path * _FIRST) ^ step  # not symmetric: a label below an equal label must not cancel out
    path = (path ^ (path >> _THIRD)) * _SECOND
    return path ^ (path >> _HALF)


def count_pairs(first: Places, second: Places, width: int) -> tuple[Places, Places, Places]:
    """Counts pairs of numbers; returns first, second (less than `width`) and count of each distinct pair, sorted."""
    pairs, counts = np.unique(first * width + second, return_counts=True)
    return pairs // width, pairs % width, counts


@dataclass(frozen=True, eq=False)
class QueryPaths:
    """Paths of a query by group (the whole tree, or the node where they end), prepared for matching with documents.

    Attributes
    ----------
    known : uint64, shape (distinct paths,), sorted.
    weight : float64, of the same shape.
    start, group, count : where each path's groups begin; the groups; and how often the path occurs in each group.
    groups : number of groups.
    """

    known: Hashes
    weight: Floats
    start: Places
    group: Places
    count: Places
    groups: int

    @staticmethod
    def of(hashes: Hashes, group: Places, groups: int) -> QueryPaths:
        """Prepares paths and their groups, with weight 1 for each path."""
        known, number = np.unique(hashes, return_inverse=True)
        path, group, count = count_pairs(number, group, groups)
        return QueryPaths(
            known, np.ones(len(known)), np.searchsorted(path, np.arange(len(known) + 1)), group, count, groups
        )

    @cached_property
    def _maybe(self) -> npt.NDArray[np.bool_]:
        """Whether a known hash begins with given 16 bits; rules out most other hashes without a search."""
        out = np.zeros(1 << 16, np.bool_)
        out[self.known >> _REST] = True
        return out

    def shared(self, hashes: Hashes, group: Places, groups: int) -> Floats:
        """Sums the weights of the paths shared with each group of document paths, shape (query's groups, groups).

        A path counts with the minimum of its numbers of occurrences on both sides.
        """
        some = np.flatnonzero(self._maybe[hashes >> _REST])
        at = np.minimum(np.searchsorted(self.known, hashes[some]), len(self.known) - 1)
        same = self.known[at] == hashes[some]
        path, group, count = count_pairs(at[same], group[some[same]], groups)
        lengths = self.start[path + 1] - self.start[path]
        entry = np.repeat(np.arange(len(path)), lengths)
        asked = np.arange(len(entry)) + np.repeat(self.start[path] - np.cumsum(lengths) + lengths, lengths)
        value = np.minimum(count[entry], self.count[asked]) * self.weight[path[entry]]
        key = self.group[asked] * groups + group[entry]
        out: Floats = np.bincount(key, weights=value, minlength=groups * self.groups).astype(np.float64, copy=False)
        return out.reshape(self.groups, groups)


def canonical(tree: Tree) -> str:
    """Returns a canonical text of a tree, equal for trees that differ only in the order of unordered arguments."""
    below: list[list[str]] = [[] for _ in tree.labels]
    for number in range(len(tree) - 1, 0, -1):
        parent = tree.parents[number]
        ordered = not tree.labels[parent].startswith("U!")
        text = _subtree_text(tree.labels[number], below[number])
        below[parent].append(f"{tree.edges[number]} {text}" if ordered else text)
    return _subtree_text(tree.labels[0], below[0])


def _subtree_text(label: str, below: list[str]) -> str:
    return f"{len(label)}:{label}({','.join(sorted(below))})"
