"""Structural search: operator trees that share paths with the query's, then the best matching subtree of each.

The formulas of a corpus are found in two stages. An inverted index of short paths gives candidates by the weight of the
paths that they share with the query (as much as the index must be read is bounded; rare paths come first). Each
candidate is then scored by two parts of the same range, 0 to 1:

overlap
    Dice's coefficient over the short paths of both trees, each path weighted by the root of its logarithmic IDF. What
    the candidate has and the query has not lowers it: the penalty of length.
subtree
    the share of the query's leaf-to-root paths that are found below one node of the candidate, of the best pair of
    nodes; paths count with wildcards, and to the part `symbols` with the same symbols.

A document scores as its formulas do; of a topic with several formulas the mean counts, each by the weight of its paths.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.collections.corpus import Corpus
from harness.data.columns import Floats
from harness.data.topics import Topic
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.formulas.trees import forest
from harness.formulas.trees.forest import Forest
from harness.formulas.trees.tree import Tree
from harness.io import checks
from harness.io.console import track
from harness.store import artefacts, code
from harness.store.cost import phase
from harness.systems.base import Request
from harness.systems.structural import formulas
from harness.systems.structural.formulas import Formulas
from harness.systems.structural.paths import Asked, Codes, Hashes, Paths, Places, canonical, counted, paths

KIND = "opt"
BLOCK = 1 << 15  # trees whose paths are made at a time
_OFTEN = 15  # a path's count in a tree as the index has it
_ROOTS = 16  # subtrees of the query that are looked for, the largest
_INNER = 2  # weight of a path from an inner node, which has one form only
_ALMOST = 1 - 2**-20  # the most that a formula can score which is not the query's
_FILES = ("path", "end", "often", "gaps", "weight")


@dataclass(frozen=True, eq=False)
class Index:
    """The inverted index of a forest's paths.

    Attributes
    ----------
    trees : the forest.
    height : edges of the longest path.
    path : uint64, shape (paths,), sorted.
    end : int64, shape (paths,). Where each path's trees end in `gaps`.
    often : int32, shape (paths,). Trees in which it comes.
    gaps : uint8. Numbers of trees, ascending, as differences of 7 bits a byte; a tree comes as often as its path in it.
    weight : float32, shape (trees,). Sum of the weights of a tree's paths.
    """

    trees: Forest
    height: int
    path: Hashes
    end: Places
    often: npt.NDArray[np.int32]
    gaps: npt.NDArray[np.uint8]
    weight: npt.NDArray[np.float32]

    @property
    def size(self) -> int:
        """Bytes of the arrays, without the trees'."""
        return sum(int(getattr(self, name).nbytes) for name in _FILES)

    @cached_property
    def codes(self) -> Codes:
        """Of the trees' labels."""
        return Codes.of(self.trees)

    def save(self, folder: Path) -> None:
        """Writes the arrays into a folder that exists; the trees are kept elsewhere."""
        for name in _FILES:
            np.save(folder / f"{name}.npy", getattr(self, name))

    @staticmethod
    def load(folder: Path, trees: Forest, height: int) -> Index:
        """Returns the inverse of `save`. Raises HarnessError if a file is missing or damaged."""
        try:
            arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in _FILES}
        except (OSError, ValueError, EOFError) as error:
            raise HarnessError(f"{folder}: not an index of paths: {error}") from None
        return Index(trees, height, **{name: np.asarray(array) for name, array in arrays.items()})

    def idf(self, hashes: Hashes) -> tuple[Floats, Places]:
        """Returns the weight of each path and its place in the index, -1 where it has none."""
        at = np.minimum(np.searchsorted(self.path, hashes), len(self.path) - 1)
        known = self.path[at] == hashes
        often = np.where(known, self.often[at], 1)
        return _weight(often, len(self.trees)), np.where(known, at, -1)

    def read(self, places: Places) -> tuple[Places, Places, Places]:
        """Returns the entries of some paths: index into `places`, tree, and how often the path comes in it."""
        end = self.end[places]
        begin = np.where(places > 0, self.end[places - 1], 0)
        taken = np.concatenate([self.gaps[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)])
        gaps, lists = _decoded(taken, np.cumsum(end - begin))
        starts = np.concatenate(([0], lists[:-1]))
        # The first gap of a list is the number of a tree, which may be 0.
        new = gaps != 0
        new[starts] = True
        total = np.cumsum(gaps)
        entries = np.flatnonzero(new)
        each = self.often[places]
        tree = total[entries] - np.repeat(total[starts] - gaps[starts], each)
        return np.repeat(np.arange(len(places)), each), tree, np.diff(entries, append=len(gaps))

    def candidates(self, query: Query, limit: int, budget: int) -> Places:
        """Returns the trees that share the most with a query, ascending.

        Parameters
        ----------
        limit : how many at most.
        budget : entries of the index that are read: whole paths, the rarest first, at least one.
        """
        known = np.flatnonzero(query.place >= 0)
        if not len(known):
            return np.empty(0, np.int64)
        often = self.often[query.place[known]]
        order = np.lexsort((known, often))
        order = order[: max(1, int(np.searchsorted(np.cumsum(often[order]), budget, "right")))]
        asked = known[order]
        which, tree, count = self.read(query.place[asked])
        shared = query.value[asked][which] * np.minimum(count, query.count[asked][which])
        total = np.bincount(tree, weights=shared, minlength=len(self.trees))
        trees = np.flatnonzero(total > 0)
        dice = total[trees] / (query.weight + self.weight[trees])
        if len(trees) > limit:
            least = np.partition(dice, len(trees) - limit)[len(trees) - limit]
            more = trees[dice > least]
            # Of those that tie with the last one, the first.
            trees = np.sort(np.concatenate((more, trees[dice == least][: limit - len(more)])))
        return trees


def _weight(often: npt.NDArray[Any], trees: int) -> Floats:
    out: Floats = np.sqrt(np.log1p(trees / often))
    return out


def _short(found: Paths, height: int) -> tuple[Hashes, Places, Places]:
    """Returns the short paths in all their forms: number, tree, factor of the weight."""
    short = found.height <= height
    leaf = found.leaf[found.node]
    forms = np.concatenate((np.flatnonzero(short), np.flatnonzero(short & leaf)))
    hashes = np.concatenate((found.wildcard[short], found.symbol[short & leaf]))
    return hashes, found.tree[found.node[forms]], np.where(leaf[forms], 1, _INNER)


@dataclass(frozen=True, eq=False)
class _Block:
    """The paths of consecutive trees: `path` (index into `known`), `tree` and `count` of each pair."""

    known: Hashes
    factor: npt.NDArray[np.uint8]
    path: npt.NDArray[np.uint32]
    tree: npt.NDArray[np.uint32]
    count: npt.NDArray[np.uint16]


def build(trees: Forest, height: int) -> Index:
    """Returns the index of a forest; takes about 30 bytes of memory for each path of a tree."""
    codes, blocks = Codes.of(trees), []
    for begin in track(range(0, len(trees), BLOCK), f"indexing paths, blocks of {BLOCK:,} formulas"):
        some = np.arange(begin, min(begin + BLOCK, len(trees)))
        hashes, tree, factor = _short(paths(trees, codes, some, height), height)
        known, at, number = np.unique(hashes, return_index=True, return_inverse=True)
        path, tree, count = counted(number, tree, len(some))
        counts = np.minimum(count, np.iinfo(np.uint16).max).astype(np.uint16)
        kept = (path.astype(np.uint32), (tree + begin).astype(np.uint32), counts)
        blocks.append(_Block(known, factor[at].astype(np.uint8), *kept))
    return _merged(trees, height, blocks)


def _merged(trees: Forest, height: int, blocks: list[_Block]) -> Index:
    path = np.unique(np.concatenate([block.known for block in blocks]))
    numbers = [np.searchsorted(path, block.known) for block in blocks]
    often = np.zeros(len(path), np.int64)
    for block, number in zip(blocks, numbers, strict=True):
        often[number] += np.bincount(block.path, minlength=len(number))
    value, weight = _weight(often, len(trees)), np.zeros(len(trees))
    free = np.cumsum(often) - often  # where each path's next tree goes
    tree, count = np.empty(int(often.sum()), np.uint32), np.empty(int(often.sum()), np.uint8)
    for block, number in zip(blocks, numbers, strict=True):
        of_path = (value[number] * block.factor)[block.path]
        weight += np.bincount(block.tree, weights=of_path * block.count, minlength=len(trees))
        here = np.bincount(block.path, minlength=len(number))
        to = np.arange(len(block.path)) + np.repeat(free[number] - np.cumsum(here) + here, here)
        tree[to], count[to] = block.tree, np.minimum(block.count, _OFTEN)
        free[number] += here
    gaps, end = encoded(tree, count, np.cumsum(often))
    return Index(trees, height, path, end, often.astype(np.int32), gaps, weight.astype(np.float32))


def encoded(tree: npt.NDArray[np.uint32], count: npt.NDArray[np.uint8], end: Places) -> tuple[Any, Places]:
    """Returns the lists of trees as bytes, and where each ends among them; some paths at a time."""
    parts, ends, done = [np.empty(0, np.uint8)], [np.empty(0, np.int64)], 0
    at = 0
    while at < len(end):
        begin = int(end[at - 1]) if at else 0
        stop = max(at + 1, int(np.searchsorted(end, begin + (1 << 22))))
        some = slice(begin, int(end[stop - 1]))
        starts = np.concatenate(([0], end[at : stop - 1] - begin))
        gaps = np.diff(tree[some].astype(np.int64), prepend=0)
        gaps[starts] = tree[some][starts]
        # Repeated trees are gaps of 0.
        times = count[some].astype(np.int64)
        all_gaps = np.zeros(int(times.sum()), np.int64)
        all_gaps[np.cumsum(times) - times] = gaps
        width = 1 + (all_gaps >> 7 > 0) + (all_gaps >> 14 > 0) + (all_gaps >> 21 > 0) + (all_gaps >> 28 > 0)
        first = np.cumsum(width) - width
        out = np.empty(int(width.sum()), np.uint8)
        for number in range(int(width.max())):
            wide = width > number
            more = np.where(width[wide] > number + 1, 128, 0)
            out[first[wide] + number] = (all_gaps[wide] >> (7 * number) & 127) | more
        bytes_end = np.cumsum(np.add.reduceat(np.add.reduceat(width, np.cumsum(times) - times), starts))
        parts.append(out)
        ends.append(bytes_end + done)
        done += len(out)
        at = stop
    return np.concatenate(parts), np.concatenate(ends)


def _decoded(taken: npt.NDArray[np.uint8], ends: Places) -> tuple[Places, Places]:
    """Returns the gaps of lists whose bytes end at `ends`, and where each list's gaps end."""
    last = taken < 128
    if last.all():
        return taken.astype(np.int64), ends
    stop = np.flatnonzero(last)
    first = np.concatenate(([0], stop[:-1] + 1))
    gaps = (taken[first] & 127).astype(np.int64)
    width = stop - first
    for number in range(1, int(width.max()) + 1):
        wide = np.flatnonzero(width >= number)
        gaps[wide] |= (taken[first[wide] + number] & 127).astype(np.int64) << (7 * number)
    return gaps, np.searchsorted(stop, ends)


def index_of(corpus: Corpus, trees: Forest, height: int, route: str = formulas.OWN) -> Index:
    """Returns the index of a corpus's operator trees, read by a route; from the store if it was built before."""
    spec = {"formulas": formulas.spec(corpus, KIND, route), "height": height, "code": code.of(__name__)}
    folder = artefacts.get_or_build("structural", spec, lambda made: build(trees, height).save(made))
    return Index.load(folder, trees, height)


# ---- queries ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Query:
    """A formula that is searched for.

    Attributes
    ----------
    place, count, value : of each distinct short path: its place in the index or -1, how often it comes, its weight.
    weight : the sum of weights.
    short : the short paths as one group.
    wildcards, symbols : the paths from leaves, grouped by the node that they end in: the largest subtrees.
    leaves : of the formula.
    canonical : the formula but for the order of unordered arguments.
    """

    place: Places
    count: Places
    value: Floats
    weight: float
    short: Asked
    wildcards: Asked
    symbols: Asked
    leaves: int
    canonical: str

    @staticmethod
    def of(tree: Tree, index: Index) -> Query:
        """Returns the query's paths with the weights that the index gives them."""
        own = forest.pack([tree])
        found = paths(own, Codes.of(own), np.zeros(1, np.int64), index.height, full=True)
        hashes, _, factor = _short(found, index.height)
        known, first, count = np.unique(hashes, return_index=True, return_counts=True)
        idf, place = index.idf(known)
        value = idf * factor[first]
        short = Asked(known, value, np.arange(len(known) + 1), np.zeros(len(known), np.int64), count, 1)
        leaf = found.leaf[found.node]
        top, wildcard, symbol = found.top[leaf], found.wildcard[leaf], found.symbol[leaf]
        below = np.bincount(top, minlength=len(tree))
        root = np.sort(np.lexsort((np.arange(len(tree)), -below))[:_ROOTS])
        group = np.full(len(tree), -1)
        group[root] = np.arange(len(root))
        large = group[top] >= 0
        wildcards, symbols = (Asked.of(form[large], group[top[large]], len(root)) for form in (wildcard, symbol))
        leaves, weight = int(found.leaf.sum()), float((value * count).sum())
        return Query(place, count, value, weight, short, wildcards, symbols, leaves, canonical(tree))


@dataclass(frozen=True, eq=False)
class Parts:
    """What the score of each candidate is made of; all of the shape (candidates,).

    Attributes
    ----------
    overlap : Dice's coefficient of the short paths.
    structure, symbols : of the best pair of nodes the share of the query's paths found below, with wildcards and with
        symbols.
    """

    overlap: Floats
    structure: Floats
    symbols: Floats


def parts(query: Query, index: Index, trees: Places, credit: float) -> Parts:
    """Compares a query with trees.

    Parameters
    ----------
    credit : how far the same symbols count when the best pair of nodes is chosen, 0 to 1.
    """
    found = paths(index.trees, index.codes, trees, index.height, full=True)
    hashes, tree, _ = _short(found, index.height)
    shared = query.short.shared(hashes, tree, len(trees))[0]
    overlap = 2 * shared / (query.weight + index.weight[trees].astype(np.float64))
    leaf = np.flatnonzero(found.leaf[found.node])
    top, nodes = found.top[leaf], len(found.leaf)
    structure = query.wildcards.shared(found.wildcard[leaf], top, nodes)
    symbols = query.symbols.shared(found.symbol[leaf], top, nodes)
    both = (1 - credit) * structure + credit * symbols
    # Of each tree the first node with the best value, and the first node of the query with which it has this value.
    of_node = both.max(axis=0)
    first = np.searchsorted(found.tree, np.arange(len(trees)))
    reached = np.flatnonzero(of_node == np.maximum.reduceat(of_node, first)[found.tree])
    node = reached[np.searchsorted(found.tree[reached], np.arange(len(trees)))]
    asked = both[:, node].argmax(axis=0)
    return Parts(overlap, structure[asked, node] / query.leaves, symbols[asked, node] / query.leaves)


@dataclass(frozen=True)
class Structural:
    """Structural search of formulas.

    Parameters
    ----------
    height : edges of the paths in the index.
    candidates : formulas that are compared with the query.
    budget : entries of the index that are read for a query, rare paths first.
    share : weight of the best subtree in the score; that of the overlap is the rest.
    credit : weight of the same symbols in the best subtree.
    aggregate : a document counts with its `best` formula for each formula of the topic, or with the `sum` over its.
    route : by which LaTeX is read into trees, `own` or `latexml`.
    depth : documents returned of each topic.
    """

    height: int = 2
    candidates: int = 1000
    budget: int = 150_000
    share: float = 0.3
    credit: float = 0.3
    aggregate: str = "best"
    route: str = formulas.OWN
    depth: int = 1000
    name: str = "tree"

    def __post_init__(self) -> None:
        for key in ("height", "candidates", "budget", "depth"):
            checks.whole(key, getattr(self, key), low=0 if key == "height" else 1)
        checks.number("share", self.share, high=1)
        checks.number("credit", self.credit, high=1)
        checks.choice("aggregate", self.aggregate, formulas.AGGREGATES)
        checks.choice("route", self.route, formulas.ROUTES)

    def __call__(self, request: Request) -> Run:
        """Ranks documents by their formulas."""
        corpus = request.corpus_for(self.name)
        with phase("index"):
            known = formulas.read(corpus, KIND, self.route)
            index = index_of(corpus, known.trees, self.height, self.route)
            asked = formulas.queries(request.topics, corpus, KIND, self.route)

        def score(topic: Topic) -> Floats:
            return self.documents(asked[topic.id], known, index)

        return formulas.ranked(self.name, request, known, score, self.depth)

    def documents(self, asked: tuple[Tree, ...], known: Formulas, index: Index) -> Floats:
        """Returns what a topic's formulas give to all documents, shape (documents,)."""
        total, mass = np.zeros(len(known.ids)), 0.0
        for tree in asked:
            query = Query.of(tree, index)
            trees, scores = self.search(query, index)
            weight = query.weight if len(asked) > 1 else 1.0
            total += weight * known.documents(trees, scores, self.aggregate)
            mass += weight
        return total / mass if mass else total

    def search(self, query: Query, index: Index) -> tuple[Places, Floats]:
        """Returns the candidates, ascending, and their scores, 0 to 1; 1 is of the query itself only."""
        trees = index.candidates(query, self.candidates, self.budget)
        if not len(trees):
            return trees, np.zeros(0)
        found = parts(query, index, trees, self.credit)
        subtree = (1 - self.credit) * found.structure + self.credit * found.symbols
        scores = self.share * subtree + (1 - self.share) * found.overlap
        for number in np.flatnonzero(scores >= _ALMOST).tolist():
            # Different trees can have the same paths.
            same = canonical(index.trees[int(trees[number])]) == query.canonical
            scores[number] = 1.0 if same else _ALMOST
        return trees, scores
