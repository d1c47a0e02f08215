"""Structural search over operator trees: candidates by shared paths, scored by overlap and best matching subtree.

Search has two stages. An inverted index of short paths finds candidates by the weight of the paths that they share with
the query; rare paths are read first, and the number of index entries read is bounded. Each candidate is then scored by
two components, each from 0 to 1:

overlap
    Dice coefficient over the short paths of both trees, each path weighted by the square root of its logarithmic IDF.
    Paths of the candidate that the query lacks lower it, which acts as a length penalty.
subtree
    the share of the query's leaf-to-root paths found below a node of the candidate, for the best pair of nodes. Paths
    are compared with wildcards, and for the component `symbols` with their symbols.

Document scores are aggregated from formula scores. For a topic with several formulas they are averaged, weighted by the
paths of each formula.
"""

from __future__ import annotations

from contextlib import ExitStack
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
from harness.io import checks, memory
from harness.io.arrays import Column, mapped, ranges, release
from harness.io.console import track
from harness.store import artefacts, code
from harness.store.cost import phase
from harness.systems.base import Request
from harness.systems.blocks import Blocks
from harness.systems.structural import formulas
from harness.systems.structural.formulas import Formulas
from harness.systems.structural.paths import Asked, Codes, Hashes, Paths, Places, canonical, counted, paths

KIND = "opt"
BLOCK = 1 << 15  # trees whose paths are computed at a time
_OFTEN = 15  # maximum count of a path in a tree that the index stores
_ROOTS = 16  # number of the query's largest subtrees that are matched
_INNER = 2  # weight of a path from an inner node, which has one form instead of two
_ALMOST = 1 - 2**-20  # maximum score of a formula that differs from the query
_NODE = 1000  # bytes of memory that the paths of a node take
_POSTING = 200  # bytes of memory that merging takes for a posting
_FILES = ("path", "end", "often", "gaps", "weight")


@dataclass(frozen=True, eq=False)
class Index:
    """The inverted index of a forest's paths.

    Attributes
    ----------
    trees : the forest.
    height : edges of the longest path.
    path : uint64, shape (paths,), sorted. Hashes of the paths.
    end : int64, shape (paths,). Where each path's postings end in `gaps`.
    often : int32, shape (paths,). Number of trees that contain a path.
    gaps : uint8. Postings: ascending tree numbers as variable-byte gaps; a tree is repeated for each occurrence.
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
        """Bytes of the arrays, without those of the trees."""
        return sum(int(getattr(self, name).nbytes) for name in _FILES)

    @cached_property
    def codes(self) -> Codes:
        """Codes of the trees' labels."""
        return Codes.of(self.trees)

    @staticmethod
    def load(folder: Path, trees: Forest, height: int) -> Index:
        """Loads an index that `write` wrote, memory-mapped. Raises HarnessError if a file is missing or damaged."""
        try:
            arrays = {name: mapped(folder / f"{name}.npy") for name in _FILES}
        except (OSError, ValueError, EOFError) as error:
            raise HarnessError(f"{folder}: not an index of paths: {error}") from None
        return Index(trees, height, **arrays)

    def idf(self, hashes: Hashes) -> tuple[Floats, Places]:
        """Returns the weight of each path and its position in the index, -1 if the index lacks it."""
        at = np.minimum(np.searchsorted(self.path, hashes), len(self.path) - 1)
        known = self.path[at] == hashes
        often = np.where(known, self.often[at], 1)
        return _weight(often, len(self.trees)), np.where(known, at, -1)

    def read(self, places: Places) -> tuple[Places, Places, Places]:
        """Reads the postings of some paths: index into `places`, tree, and occurrences of the path in the tree."""
        end = self.end[places]
        begin = np.where(places > 0, self.end[places - 1], 0)
        taken = np.concatenate([self.gaps[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)])
        gaps, lists = _decoded(taken, np.cumsum(end - begin))
        starts = np.concatenate(([0], lists[:-1]))
        # The first gap of a list is a tree number, which may be 0.
        new = gaps != 0
        new[starts] = True
        total = np.cumsum(gaps)
        entries = np.flatnonzero(new)
        each = self.often[places]
        tree = total[entries] - np.repeat(total[starts] - gaps[starts], each)
        return np.repeat(np.arange(len(places)), each), tree, np.diff(entries, append=len(gaps))

    def candidates(self, query: Query, limit: int, budget: int) -> Places:
        """Returns the trees with the highest Dice coefficient with a query, ascending by number.

        Parameters
        ----------
        limit : maximum number of trees.
        budget : maximum number of postings read: of whole paths, the rarest first, and of at least one path.
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
            # Ties at the cutoff are broken by tree number.
            trees = np.sort(np.concatenate((more, trees[dice == least][: limit - len(more)])))
        return trees


def _weight(often: npt.NDArray[Any], trees: int) -> Floats:
    out: Floats = np.sqrt(np.log1p(trees / often))
    return out


def _short(found: Paths, height: int) -> tuple[Hashes, Places, Places]:
    """Returns the short paths in all their forms: hash, tree, and factor of the weight."""
    short = found.height <= height
    leaf = found.leaf[found.node]
    forms = np.concatenate((np.flatnonzero(short), np.flatnonzero(short & leaf)))
    hashes = np.concatenate((found.wildcard[short], found.symbol[short & leaf]))
    return hashes, found.tree[found.node[forms]], np.where(leaf[forms], 1, _INNER)


def write(trees: Forest, height: int, folder: Path, *, limit: int | None = None) -> None:
    """Writes the index of a forest to an empty folder, without the trees, which are stored elsewhere.

    Memory holds 8 bytes for each tree, and within the limit the paths of some trees, then the postings of some paths.

    Parameters
    ----------
    limit : bytes of memory for blocks; by default `harness.io.memory.limit`.
    """
    limit = memory.limit() if limit is None else limit
    codes = Codes.of(trees)
    weight = np.zeros(len(trees))
    with ExitStack() as files:
        blocks = files.enter_context(Blocks(folder / "blocks", 1 << 64, (np.uint32, np.uint16, np.uint8)))
        for some in track(_blocks(trees, limit // _NODE), f"indexing paths, blocks of {BLOCK:,} formulas"):
            hashes, tree, factor = _short(paths(trees, codes, some, height), height)
            known, at, number = np.unique(hashes, return_index=True, return_inverse=True)
            path, tree, count = counted(number, tree, len(some))
            counts = np.minimum(count, np.iinfo(np.uint16).max)
            blocks.add(known, np.bincount(path, minlength=len(known)), tree + some[0], counts, factor[at][path])
            release(trees.labels, trees.parents, trees.edges)
        kinds = (np.uint64, np.int64, np.int32, np.uint8)
        columns = [
            files.enter_context(Column(folder / f"{name}.npy", kind))
            for name, kind in zip(_FILES[:4], kinds, strict=True)
        ]
        for lists in blocks.merged(limit // _POSTING):
            trees_, count, factor = lists.columns
            of_path = np.repeat(_weight(lists.often, len(trees)), lists.often) * factor
            np.add.at(weight, trees_.astype(np.int64), of_path * count)  # one after the other, by ascending path
            gaps, end = encoded(trees_, np.minimum(count, _OFTEN).astype(np.uint8), np.cumsum(lists.often))
            done = len(columns[-1])
            for column, values in zip(columns, (lists.key, end + done, lists.often, gaps), strict=True):
                column.add(values)
    np.save(folder / "weight.npy", weight.astype(np.float32))


def _blocks(trees: Forest, most: int) -> list[Places]:
    """Divides the trees into blocks of at most `BLOCK` trees, and of `most` nodes if they have several trees."""
    begins = range(0, len(trees), BLOCK)
    parts = [(begin, ranges(trees.offsets[begin : begin + BLOCK + 1], most)) for begin in begins]
    return [np.arange(begin + first, begin + last) for begin, found in parts for first, last in found]


def encoded(tree: npt.NDArray[np.uint32], count: npt.NDArray[np.uint8], end: Places) -> tuple[Any, Places]:
    """Encodes posting lists as variable-byte gaps, some paths at a time; returns the bytes and where each list ends."""
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
    """Decodes posting lists whose bytes end at `ends`; returns the gaps and where each list's gaps end."""
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
    """Returns the index of a corpus's operator trees, parsed by a route; from the store or built."""
    spec = {"formulas": formulas.spec(corpus, KIND, route), "height": height, "code": code.of(__name__)}
    folder = artefacts.get_or_build("structural", spec, lambda made: write(trees, height, made))
    return Index.load(folder, trees, height)


# ---- queries ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Query:
    """A query formula.

    Attributes
    ----------
    place, count, value : for each distinct short path: its position in the index or -1, its count, and its weight.
    weight : sum of the weights of all short paths.
    short : the short paths as one group.
    wildcards, symbols : paths from leaves in both forms, grouped by the node where they end; only the largest subtrees.
    leaves : number of leaves.
    canonical : canonical text of the formula, see `paths.canonical`.
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
        """Builds a query from a tree, with the path weights of an index."""
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
    """Components of each candidate's score, all of shape (candidates,).

    Attributes
    ----------
    overlap : Dice's coefficient of the short paths.
    structure, symbols : share of the query's paths found below the best pair of nodes, compared with wildcards and with
        symbols.
    """

    overlap: Floats
    structure: Floats
    symbols: Floats


def parts(query: Query, index: Index, trees: Places, credit: float) -> Parts:
    """Computes the score components of a query with each of some trees.

    Parameters
    ----------
    credit : weight of equal symbols in the choice of the best pair of nodes, 0 to 1.
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
    # For each tree, the first node with the best value, and the first node of the query that gives this value.
    of_node = both.max(axis=0)
    first = np.searchsorted(found.tree, np.arange(len(trees)))
    reached = np.flatnonzero(of_node == np.maximum.reduceat(of_node, first)[found.tree])
    node = reached[np.searchsorted(found.tree[reached], np.arange(len(trees)))]
    asked = both[:, node].argmax(axis=0)
    return Parts(overlap, structure[asked, node] / query.leaves, symbols[asked, node] / query.leaves)


@dataclass(frozen=True)
class Structural:
    """Structural search: ranks documents by the path overlap and the best matching subtree of their formulas.

    Parameters
    ----------
    height : maximum edges of a path in the index.
    candidates : formulas compared with the query.
    budget : maximum number of postings read for a query, rare paths first.
    share : weight of the best subtree in the score; the overlap has the remaining weight.
    credit : weight of equal symbols in the best subtree.
    aggregate : score of a document for a topic formula: that of its `best` formula, or the `sum` over its formulas.
    route : parser of LaTeX, `own` or `latexml`.
    depth : documents returned for each topic.
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
        """Returns the scores of all documents for a topic's formulas, shape (documents,)."""
        total, mass = np.zeros(len(known.ids)), 0.0
        for tree in asked:
            query = Query.of(tree, index)
            trees, scores = self.search(query, index)
            weight = query.weight if len(asked) > 1 else 1.0
            total += weight * known.documents(trees, scores, self.aggregate)
            mass += weight
        return total / mass if mass else total

    def search(self, query: Query, index: Index) -> tuple[Places, Floats]:
        """Returns the candidates, ascending, and their scores from 0 to 1; only the query itself can score 1."""
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
