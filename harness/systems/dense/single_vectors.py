"""Inner products of queries with documents' single vectors, of one or several parts: in float32, and exact.

The functions of `singles.c` do the same for float32 and float16 vectors of one part: exact scores are equal bit by bit,
rough scores within the error that `DocumentParts.wrong` bounds.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from harness.data.columns import Bools
from harness.errors import HarnessError
from harness.io.checks import check_number
from harness.io.kernels import kernel
from harness.systems.dense.maxsim import Floats32, Rows, Vectors
from harness.systems.hardware import cores

MARGIN = 2**-23  # times the dimensions: bounds the float32 error of an inner product of unit vectors
STEP = 4096  # vectors converted to float64 at a time
LANES = 16  # queries that the kernel scores together
THREADS = 64  # most threads of the kernel
Floats64 = npt.NDArray[np.float64]
Asked = npt.NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class DocumentParts:
    """Vectors of several parts of the same documents, such as answers and titles, and how they are combined.

    Attributes
    ----------
    vectors, weights : vectors and weight of each part; at least one part, weights above 0.
    combine : `sum` of the weighted inner products, in which a missing part counts 0, or `max`.
    """

    vectors: tuple[Vectors, ...]
    weights: tuple[float, ...]
    combine: str

    @staticmethod
    def of(vectors: Sequence[Vectors], weights: Sequence[float] | None, combine: str) -> DocumentParts:
        """Combines parts with their weights, 1 by default; drops parts of weight 0.

        Raises
        ------
        HarnessError
            Parts differ in documents or dimensions; or weights are negative, too few, too many, or all 0.
        """
        given = [1.0] * len(vectors) if weights is None else [check_number("weights", weight) for weight in weights]
        if len(given) != len(vectors) or not any(given):
            raise HarnessError(f"key 'weights' is {given}, expected one for each of {len(vectors)} parts, not all 0")
        for place, part in enumerate(vectors[1:], 2):
            if part.dimensions != vectors[0].dimensions:
                fit = f"{part.dimensions} dimensions, those of part 1 {vectors[0].dimensions}"
                raise HarnessError(f"vectors of part {place} have {fit}: they are of another model")
            if part.ids is not vectors[0].ids and not np.array_equal(part.ids, vectors[0].ids):
                raise HarnessError(f"vectors of part {place} are of other documents than those of part 1")
        kept = [(part, weight) for part, weight in zip(vectors, given, strict=True) if weight]
        return DocumentParts(tuple(part for part, _ in kept), tuple(weight for _, weight in kept), combine)

    @property
    def dimensions(self) -> int:
        """Dimensions of a vector."""
        return self.vectors[0].dimensions

    def some(self, rows: Rows | None = None) -> Rows:
        """Returns the documents that have a vector in any part, among some documents or by default among all."""
        chosen = slice(None) if rows is None else rows
        there = reduce(np.logical_or, (part.document[chosen] >= 0 for part in self.vectors))
        return np.flatnonzero(there) if rows is None else rows[there]

    def rough(self, queries: Floats32, rows: Rows) -> Floats32:
        """Returns float32 scores, shape (queries, rows), whose last bits depend on the whole matrix product."""
        pairs = zip(self.vectors, self.weights, strict=True)
        if self.combine == "sum" or len(self.vectors) == 1:  # summing the vectors first takes only one product
            values = [_weighted(_values(part, rows), weight) for part, weight in pairs]
            out: Floats32 = queries @ reduce(np.add, values).T
            return out
        out = np.full((len(queries), rows.size), -np.inf, np.float32)
        for part, weight in pairs:
            products = _weighted(queries, weight) @ _values(part, rows).T
            products[:, part.document[rows] < 0] = -np.inf
            np.maximum(out, products, out=out)
        return out

    def exact(self, queries: Floats32, asked: Rows, rows: Rows) -> Floats64:
        """Returns float64 scores of queries `asked` with documents `rows`, shape (rows,), the same on every processor.

        It is fastest where documents ascend, so that each is read from memory once.
        """
        out = np.full(rows.size, 0.0 if self.combine == "sum" else -np.inf)
        for part, weight in zip(self.vectors, self.weights, strict=True):
            there = np.flatnonzero(part.document[rows] >= 0)
            scores = weight * _products(queries, asked[there], part, part.document[rows[there]])
            out[there] = out[there] + scores if self.combine == "sum" else np.maximum(out[there], scores)
        return out

    def wrong(self, queries: Floats32) -> Floats64:
        """Returns an upper bound of the error of `rough` scores for each query, shape (queries,).

        Raises
        ------
        HarnessError
            Vectors are so long that a score does not fit float32, or have values that are not numbers.
        """
        lengths = np.linalg.norm(queries.astype(np.float64), axis=1)
        longest = [part.longest for part in self.vectors]
        pairs = list(zip(longest, self.weights, strict=True))
        most = sum(weight * max(length, 1) for length, weight in pairs) * lengths.max(initial=1)
        limit = np.finfo(np.float32)
        if not most <= limit.max:
            raise HarnessError(f"vectors are up to {max(longest):.3g} long: their inner products do not fit 32 bits")
        reach = sum(weight * length for length, weight in pairs)
        out: Floats64 = MARGIN * (self.dimensions + 2 * len(pairs)) * reach * lengths
        return out + self.dimensions * float(limit.tiny)


class Scan:
    """Rough scores of queries with documents, of which only those are returned that reach a floor.

    Parameters
    ----------
    queries : shape (queries, dimensions); at most 65,536.
    block : maximum number of documents that are scored at a time.
    out : shape (queries, documents). Documents to exclude.

    Attributes
    ----------
    most : documents in one call at most.
    """

    def __init__(self, parts: DocumentParts, queries: Floats32, block: int, out: Bools | None = None) -> None:
        self._parts, self._queries, self._out = parts, queries, out
        able = kernel("harness_dense_able") if _fit(parts.vectors[0]) and parts.weights == (1.0,) else None
        self._kernel = kernel("harness_dense_scan") if able is not None and able() else None
        if self._kernel is None:
            self.most = block
            return
        self._threads = _threads()
        self.most = block if self._threads == 1 else 2 * block  # threads that have little to do cost more than they do
        self._step = -(-self.most // self._threads)
        panels = -(-len(queries) // LANES)
        padded = np.zeros((panels * LANES, parts.dimensions), np.float32)
        padded[: len(queries)] = queries
        self._panels = np.ascontiguousarray(padded.reshape(panels, LANES, -1).transpose(0, 2, 1))
        room = self._step * self._threads * len(queries)
        self._room = np.empty(room, np.uint16), np.empty(room, np.int64), np.empty(room, np.float32)

    def __call__(self, rows: Rows, floor: Floats32) -> tuple[Asked, Rows, Floats32]:
        """Returns the index of the query, the document and the score of each pair that reaches the query's floor.

        Parameters
        ----------
        rows : at most `most` documents, each with a vector in some part.
        floor : shape (queries,).
        """
        if self._kernel is None:
            scores = self._parts.rough(self._queries, rows)
            good = scores >= floor[:, None]
            if self._out is not None:
                good &= ~self._out[:, rows]
            asked, column = np.divmod(np.flatnonzero(good), rows.size)
            return asked.astype(np.uint16), rows[column], scores[asked, column]
        part, queries = self._parts.vectors[0], len(self._queries)
        values = np.asarray(part.values)
        floors = np.full(len(self._panels) * LANES, np.inf, np.float32)
        floors[:queries] = floor
        out = np.zeros((0, 0), np.bool_) if self._out is None else self._out
        sizes = np.zeros(self._threads, np.int64)
        shape = queries, self._parts.dimensions, floors, values, int(values.dtype == np.float16), len(values)
        documents_of_rows = np.ascontiguousarray(part.document[rows], np.int64)
        documents = documents_of_rows, np.ascontiguousarray(rows, np.int64), rows.size, out, out.shape[1]
        code = self._kernel(self._panels, *shape, *documents, self._step, self._threads, *self._room, sizes)
        _raise_kernel_fault(code)
        begins = [thread * self._step * queries for thread in range(self._threads)]
        slices = [slice(begin, begin + size) for begin, size in zip(begins, sizes.tolist(), strict=True)]
        asked, names, scores = (np.concatenate([column[each] for each in slices]) for column in self._room)
        return asked, names, scores


def grouped(asked: Asked, documents: Rows, scores: Floats32, queries: int) -> tuple[list[Rows], list[Floats32]]:
    """Returns the documents of each query and their scores, in the order given."""
    order = np.argsort(asked, kind="stable")
    bounds = np.cumsum(np.bincount(asked, minlength=queries))[:-1]
    return np.split(documents[order], bounds), np.split(scores[order], bounds)


def _threads() -> int:
    """Returns the number of threads of the kernel, by the variables that NumPy's matrix products heed too."""
    given = (os.environ.get(name, "") for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"))
    wanted = next((int(text) for text in given if text.isdecimal() and int(text) > 0), cores())
    return min(wanted, THREADS)


def _fit(part: Vectors) -> bool:
    """Returns whether the kernels read these vectors."""
    values = part.values
    return values.dtype in (np.float32, np.float16) and values.dtype.isnative and bool(values.flags.c_contiguous)


def _raise_kernel_fault(code: int) -> None:
    """Raises the error that a code of the kernel stands for; 0 is none."""
    if code == -1:
        raise MemoryError
    if code:
        raise ValueError("rows of vectors are outside their array")


def _products(queries: Floats32, asked: Rows, part: Vectors, rows: Rows) -> Floats64:
    """Returns inner products of pairs of a query and a row in float64, summed in the same order on each machine."""
    out = np.empty(rows.size)
    wide = np.ascontiguousarray(queries, np.float64)
    compiled = kernel("harness_dense_exact") if _fit(part) else None
    if compiled is not None:
        values = np.asarray(part.values)
        shape = int(values.dtype == np.float16), len(values), part.dimensions
        pairs = np.ascontiguousarray(rows, np.int64), np.ascontiguousarray(asked, np.int64), rows.size
        _raise_kernel_fault(compiled(values, *shape, *pairs, wide, len(wide), out))
        return out
    for begin in range(0, rows.size, STEP):
        some = slice(begin, begin + STEP)
        # Not a matrix product, whose order of summation depends on the block and the library.
        out[some] = (part.take(rows[some]) * wide[asked[some]]).sum(axis=1)
    return out


def _values(part: Vectors, rows: Rows) -> Floats32:
    """Returns single vectors of some documents, zeros for missing ones; a view if they are adjacent float32 rows."""
    single = part.document[rows]
    if part.values.dtype == np.float32 and single.size and (np.diff(single) == 1).all() and single[0] >= 0:
        view: Floats32 = np.asarray(part.values)[single[0] : single[-1] + 1]
        return view
    if (single >= 0).all():
        return part.take(single)
    values = np.zeros((rows.size, part.dimensions), np.float32)
    values[single >= 0] = part.take(single[single >= 0])
    return values


def _weighted(values: Floats32, weight: float) -> Floats32:
    return values if weight == 1 else values * np.float32(weight)
