"""The inverted index of a forest's short paths, and the search for the trees that share the most of a query's.

The postings of a path are its trees, ascending, in blocks: one for each range of 4,096 trees that has any. A posting is
16 bits, 12 for the tree in its range and 4 for the number of occurrences, so that neither reading nor leaving out takes
decoding; a table holds the numbers above 15. `search.c` finds the same trees range by range.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.collections.corpus import Corpus
from harness.data.columns import Floats
from harness.errors import HarnessError
from harness.formulas.trees.forest import WIDEST, Forest
from harness.io import memory
from harness.io.arrays import Array, ArrayFile, mapped, ranges, release
from harness.io.console import track
from harness.io.kernels import addressed
from harness.store import artefacts, code
from harness.systems.blocks import BlockFiles
from harness.systems.structural import formulas
from harness.systems.structural.paths import Codes, Hashes, Paths, Places, count_pairs, paths

KIND = "opt"
BLOCK = 1 << 15  # trees whose paths are computed at a time
RANGE = 1 << 12  # trees of a block of postings
OFTEN = 15  # maximum occurrences in a posting; larger numbers are in the table `frequent`
_INNER = 2  # weight of a path from an inner node, which has one form instead of two
_NODE = 1000  # bytes of memory that the paths of a node take
_POSTING = 200  # bytes of memory that merging takes for a posting
DAMAGED = "index of paths: its postings are damaged"
_ARRAYS = {
    "path": np.uint64,
    "end": np.int64,
    "blocks": np.int64,
    "range": np.uint16,
    "size": np.uint16,
    "posting": np.uint16,
    "frequent": np.int64,
    "frequency": np.uint32,
    "weight": np.float32,
}


@dataclass(frozen=True, eq=False)
class Terms:
    """The distinct short paths of a query.

    Attributes
    ----------
    known : uint64, sorted. Hashes of the paths.
    place, count, value : for each path its position in the index or -1, its count, and its weight.
    weight : sum of the weights of all short paths.
    """

    known: Hashes
    place: Places
    count: Places
    value: Floats
    weight: float


@dataclass(frozen=True, eq=False)
class PathIndex:
    """The inverted index of a forest's paths.

    Attributes
    ----------
    trees : the forest.
    height : edges of the longest path.
    path : uint64, shape (paths,), sorted. Hashes of the paths.
    end, blocks : int64, shape (paths,). Where each path's postings and its blocks end.
    range, size : uint16, shape (blocks,). Range of a block, ascending for each path; number of its postings, less 1.
    posting : uint16. Postings: tree in its range times 16, plus the path's occurrences in it, at most 15.
    frequent : int64, ascending. Numbers of the postings of more than 15 occurrences.
    frequency : uint32, of the same shape. Occurrences in these.
    weight : float32, shape (trees,). Sum of the weights of a tree's paths.
    """

    trees: Forest
    height: int
    path: Hashes
    end: Places
    blocks: Places
    range: npt.NDArray[np.uint16]
    size: npt.NDArray[np.uint16]
    posting: npt.NDArray[np.uint16]
    frequent: Places
    frequency: npt.NDArray[np.uint32]
    weight: npt.NDArray[np.float32]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, without those of the trees."""
        return sum(int(getattr(self, name).nbytes) for name in _ARRAYS)

    @cached_property
    def codes(self) -> Codes:
        """Codes of the trees' labels."""
        return Codes.of(self.trees)

    @staticmethod
    def load(folder: Path, trees: Forest, height: int) -> PathIndex:
        """Loads an index that `write_path_index` wrote, memory-mapped.

        Raises HarnessError if a file is missing or damaged.
        """
        try:
            arrays = {name: mapped(folder / f"{name}.npy") for name in _ARRAYS}
        except (OSError, ValueError, EOFError) as error:
            raise HarnessError(f"{folder}: not an index of paths: {error}") from None
        index = PathIndex(trees, height, **arrays)
        pairs = zip(arrays.values(), _ARRAYS.values(), strict=True)
        fit = all(array.dtype == kind and array.ndim == 1 for array, kind in pairs)
        length = {name: array.size for name, array in arrays.items()} | {"trees": len(trees)}
        alike = (("end", "path"), ("blocks", "path"), ("size", "range"), ("frequency", "frequent"), ("weight", "trees"))
        ends = (("end", "posting"), ("blocks", "range"))
        fit = fit and all(length[one] == length[other] for one, other in alike)
        if not fit or any((arrays[one][-1] if length[one] else 0) != length[other] for one, other in ends):
            raise HarnessError(f"{folder}: not an index of these trees")
        return index

    def idf(self, hashes: Hashes) -> tuple[Floats, Places]:
        """Returns the weight of each path and its position in the index, -1 if the index lacks it."""
        at = np.minimum(np.searchsorted(self.path, hashes), len(self.path) - 1)
        known = self.path[at] == hashes
        often = np.where(known, self.often(at), 1)
        return _idf_weight(often, len(self.trees)), np.where(known, at, -1)

    def often(self, places: Places) -> Places:
        """Returns the number of trees that contain each of some paths."""
        begin, end = _bounds(self.end, places)
        return end - begin

    def read(self, places: Places) -> tuple[Places, Places, Places]:
        """Reads the postings of some paths: index into `places`, tree, and occurrences of the path in the tree."""
        begin, end = _bounds(self.end, places)
        spans = list(zip(begin.tolist(), end.tolist(), strict=True))
        posting = np.concatenate([self.posting[a:b] for a, b in spans])
        often = np.concatenate([self._occurrences(a, b) for a, b in spans])
        pairs = list(zip(*(array.tolist() for array in _bounds(self.blocks, places)), strict=True))
        sizes = np.concatenate([self.size[a:b] for a, b in pairs]).astype(np.int64) + 1
        first = np.concatenate([self.range[a:b] for a, b in pairs]).astype(np.int64) * RANGE
        tree = np.repeat(first, sizes) + (posting >> 4)
        return np.repeat(np.arange(len(places)), end - begin), tree, often

    def _occurrences(self, begin: int, end: int) -> Places:
        out = (self.posting[begin:end] & OFTEN).astype(np.int64)
        some = slice(*np.searchsorted(self.frequent, (begin, end)).tolist())
        out[self.frequent[some] - begin] = self.frequency[some]
        return out

    def candidates(self, terms: Terms, limit: int, budget: int) -> Places:
        """Returns the trees with the highest Dice coefficient with a query, ascending by number.

        Parameters
        ----------
        limit : maximum number of trees.
        budget : maximum number of postings read: of whole paths, the rarest first, and of at least one path.
        """
        known = np.flatnonzero(terms.place >= 0)
        if not len(known):
            return np.empty(0, np.int64)
        often = self.often(terms.place[known])
        order = np.lexsort((known, often))
        order = order[: max(1, int(np.searchsorted(np.cumsum(often[order]), budget, "right")))]
        asked = known[order]
        which, tree, often = self.read(terms.place[asked])
        shared = terms.value[asked][which] * np.minimum(often, terms.count[asked][which])
        total = np.bincount(tree, weights=shared, minlength=len(self.trees))
        trees = np.flatnonzero(total > 0)
        dice = total[trees] / (terms.weight + self.weight[trees])
        if len(trees) > limit:
            least = np.partition(dice, len(trees) - limit)[len(trees) - limit]
            more = trees[dice > least]
            # Ties at the cutoff are broken by tree number.
            trees = np.sort(np.concatenate((more, trees[dice == least][: limit - len(more)])))
        return trees

    @cached_property
    def _least_weight(self) -> float:
        return float(self.weight.min())

    @cached_property
    def _idf(self) -> Floats:
        return _idf_weight(self.often(np.arange(len(self.path))), len(self.trees))

    @cached_property
    def given(self) -> tuple[Array, Array, Array]:
        """What `search.c` takes: addresses of arrays, which live as long as the index, their lengths, and weights."""
        trees, codes = self.trees, self.codes
        arrays = (
            *(self.path, self.end, self.blocks, self.range, self.size, self.posting, self.weight, self._idf),
            *(self.frequent, self.frequency),
            *(trees.offsets, trees.labels, trees.parents, trees.edges),
            *(codes.label, codes.inner, codes.wildcard, codes.edge, codes.ordered),
        )
        lengths = [len(self.path), len(self.range), len(self.posting), len(trees), min(self.height, WIDEST)]
        lengths.append(len(self.frequent))
        weights = [self._least_weight, float(_idf_weight(np.ones(1), len(trees))[0])]
        return np.array([addressed(each) for each in arrays], np.uintp), np.array(lengths, np.int64), np.array(weights)

    def __getstate__(self) -> dict[str, Any]:
        """Returns the fields alone: a copy in another process has other addresses."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _bounds(end: Places, places: Places) -> tuple[Places, Places]:
    """Returns where some lists begin and end, of those that end at `end`."""
    return np.where(places > 0, end[places - 1], 0), end[places]


def _idf_weight(often: npt.NDArray[Any], trees: int) -> Floats:
    out: Floats = np.sqrt(np.log1p(trees / often))
    return out


def short_paths(all_paths: Paths, height: int) -> tuple[Hashes, Places, Places]:
    """Returns the short paths in all their forms: hash, tree, and factor of the weight."""
    short = all_paths.height <= height
    leaf = all_paths.leaf[all_paths.node]
    forms = np.concatenate((np.flatnonzero(short), np.flatnonzero(short & leaf)))
    hashes = np.concatenate((all_paths.wildcard[short], all_paths.symbol[short & leaf]))
    return hashes, all_paths.tree[all_paths.node[forms]], np.where(leaf[forms], 1, _INNER)


def write_path_index(trees: Forest, height: int, folder: Path, *, limit: int | None = None) -> None:
    """Writes the index of a forest to an empty folder, without the trees, which are stored elsewhere.

    Memory holds 8 bytes for each tree, and within the limit the paths of some trees, then the postings of some paths.

    Parameters
    ----------
    limit : bytes of memory for blocks; by default `harness.io.memory.limit`.

    Raises
    ------
    HarnessError
        The forest has more trees than 65,536 ranges, 268 million.
    """
    if len(trees) > RANGE << 16:
        raise HarnessError(f"{len(trees):,} distinct formulas: an index of paths takes at most {RANGE << 16:,}")
    limit = memory.limit() if limit is None else limit
    codes = Codes.of(trees)
    weight = np.zeros(len(trees))
    with ExitStack() as files:
        blocks = files.enter_context(BlockFiles(folder / "entries", 1 << 64, (np.uint32, np.uint32, np.uint8)))
        for some in track(_blocks(trees, limit // _NODE), f"indexing paths, blocks of {BLOCK:,} formulas"):
            hashes, tree, factor = short_paths(paths(trees, codes, some, height), height)
            known, at, number = np.unique(hashes, return_index=True, return_inverse=True)
            path, tree, count = count_pairs(number, tree, len(some))
            blocks.add(known, np.bincount(path, minlength=len(known)), tree + some[0], count, factor[at][path])
            release(trees.labels, trees.parents, trees.edges)
        columns = [
            files.enter_context(ArrayFile(folder / f"{name}.npy", kind)) for name, kind in list(_ARRAYS.items())[:-1]
        ]
        for lists in blocks.merged(limit // _POSTING):
            trees_, count, factor = lists.columns
            of_path = np.repeat(_idf_weight(lists.often, len(trees)), lists.often) * factor
            np.add.at(weight, trees_.astype(np.int64), of_path * count)  # one after the other, by ascending path
            end = np.cumsum(lists.often)
            at, sizes, posting = encoded(trees_, count, end)
            done, before = len(columns[5]), len(columns[3])
            blocks_end = np.searchsorted(at, end) + before
            frequent = np.flatnonzero(count > OFTEN)
            values = (lists.key, end + done, blocks_end, trees_[at] // RANGE, sizes, posting)
            for column, value in zip(columns, (*values, frequent + done, count[frequent]), strict=True):
                column.add(np.asarray(value))
    np.save(folder / "weight.npy", weight.astype(np.float32))


def _blocks(trees: Forest, most: int) -> list[Places]:
    """Divides the trees into blocks of at most `BLOCK` trees, and of `most` nodes if they have several trees."""
    begins = range(0, len(trees), BLOCK)
    parts = [(begin, ranges(trees.offsets[begin : begin + BLOCK + 1], most)) for begin in begins]
    return [np.arange(begin + first, begin + last) for begin, bounds in parts for first, last in bounds]


def encoded(
    tree: npt.NDArray[np.uint32], count: npt.NDArray[np.integer], end: Places
) -> tuple[Places, npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
    """Encodes posting lists that end at `end`: where each block begins, its size less 1, and all postings."""
    of_block = tree // RANGE
    new = np.ones(len(tree), np.bool_)
    new[1:] = of_block[1:] != of_block[:-1]
    new[end[:-1]] = True
    at = np.flatnonzero(new)
    sizes = np.diff(at, append=len(tree)) - 1
    posting = (tree % RANGE << 4) + np.minimum(count, OFTEN)
    return at, sizes.astype(np.uint16), posting.astype(np.uint16)


def index_of(corpus: Corpus, trees: Forest, height: int, route: str = formulas.OWN) -> PathIndex:
    """Returns the index of a corpus's operator trees, parsed by a route; from the store or built."""
    spec = {"formulas": formulas.spec(corpus, KIND, route), "height": height, "code": code.of(__name__)}
    folder = artefacts.get_or_build("structural", spec, lambda made: write_path_index(trees, height, made))
    return PathIndex.load(folder, trees, height)
