"""Exact MaxSim over documents of many vectors.

The score of a document is the sum, over the query's vectors, of the highest inner product with any of the document's
vectors (Khattab and Zaharia 2020; MathAMR+, 3.5 and equations 3.4 and 3.7). Documents differ in their number of
vectors: they are sorted by it, and blocks of similar documents are padded with copies of each document's last vector,
so that a block takes one matrix product and one maximum. A copy never changes a maximum, so no masking is needed.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from harness.data.columns import Ids
from harness.errors import HarnessError
from harness.io.kernels import kernel
from harness.systems.ranking import positions_by_id

Floats32 = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.floating[Any]]
PRECISIONS = ("float32", "float16")
PRODUCT = 1 << 20  # inner products held at a time: 4 MiB, about the size of a core's cache
WIDTH = 512  # query vectors of one matrix product
SLACK = 8  # a block's longest document has at most 1/8 more vectors than its shortest, or one more vector


def require_finite_values(values: npt.NDArray[Any], what: str) -> None:
    """Raises HarnessError if a value is infinite or not a number."""
    if values.dtype.kind == "f":
        for begin in range(0, len(values), 1 << 16):
            if not np.isfinite(values[begin : begin + (1 << 16)]).all():
                raise HarnessError(f"{what}: a value is infinite or not a number")


def queries_of(queries: Sequence[Floats32], dimensions: int) -> tuple[Floats32, Rows]:
    """Concatenates the vectors of several queries; returns them and the row where each query starts.

    Raises
    ------
    HarnessError
        A query has no vector, another number of dimensions, or a value that is not finite.
    """
    for number, query in enumerate(queries, 1):
        if query.ndim != 2 or query.shape[1] != dimensions or not len(query):
            fit = f"expected at least one vector of {dimensions} dimensions"
            raise HarnessError(f"query {number} has vectors of shape {query.shape}, {fit}")
        require_finite_values(query, f"query {number}")
    start = np.cumsum([0, *map(len, queries)])
    return np.concatenate([np.zeros((0, dimensions), np.float32), *queries]).astype(np.float32, copy=False), start


def blocks(lengths: Rows, size: int) -> Iterator[Rows]:
    """Groups documents with similar numbers of vectors; documents without vectors are in no group.

    Parameters
    ----------
    lengths : shape (documents,). Number of vectors of each document.
    size : maximum vectors of a group, padded to its longest document; a longer document forms its own group.

    Yields
    ------
    int64, shape (group,). Indices of documents, by ascending number of vectors.
    """
    order = np.argsort(lengths, kind="stable")
    ordered = lengths[order]
    begin = int(np.searchsorted(ordered, 0, side="right"))
    while begin < len(order):
        shortest = int(ordered[begin])
        end = int(np.searchsorted(ordered, shortest + max(1, shortest // SLACK), side="right"))
        end = min(end, begin + max(1, size // int(ordered[end - 1])))
        yield order[begin:end]
        begin = end


def padded(first: Rows, lengths: Rows) -> Rows:
    """Returns rows of vectors for a group of documents, shape (longest, documents); pads with the last vector's row."""
    step = np.arange(int(lengths.max()))[:, None]
    rows: Rows = first + np.minimum(step, lengths - 1)
    return rows


def query_ranges(start: Rows, most: int) -> Iterator[tuple[int, int]]:
    """Splits queries into ranges (begin, end) of at most `most` vectors each; a range has at least one query."""
    begin, count = 0, len(start) - 1
    while begin < count:
        end = max(begin + 1, int(np.searchsorted(start, start[begin] + most, side="right")) - 1)
        yield begin, end
        begin = end


@dataclass(frozen=True, eq=False)
class Vectors:
    """The vectors of documents, L2-normalised.

    Attributes
    ----------
    ids : bytes, shape (documents,). Distinct.
    start : int64, shape (documents + 1,). Where each document's vectors begin in `values`, and their end.
    values : float32 or float16, shape (vectors, dimensions).
    document : int64, shape (documents,). The row in `values` of the vector for the whole document; -1 if it has none.
    context : bytes, shape (documents,), or None. The post of each formula if the documents are formulas (Task 2).
    """

    ids: Ids
    start: Rows
    values: npt.NDArray[Any]
    document: Rows
    context: Ids | None = None

    def __len__(self) -> int:
        return int(self.ids.size)

    @property
    def dimensions(self) -> int:
        """Dimensions of a vector."""
        return int(self.values.shape[1])

    @cached_property
    def place(self) -> Rows:
        """Rank of each document in ties, shape (documents,)."""
        return positions_by_id(self.ids)

    @cached_property
    def longest(self) -> float:
        """Upper bound of the lengths of documents' single vectors; 0 if there are none."""
        single = self.document[self.document >= 0]
        blocks = (self.take(single[begin : begin + (1 << 14)]) for begin in range(0, single.size, 1 << 14))
        most = [np.einsum("ij,ij->i", values, values).max() for values in blocks]
        # Rounded up, to cover rounding and squares that underflow in float32.
        return math.sqrt(np.max(most)) * (1 + 1e-3) + 1e-16 if most else 0.0

    def take(self, rows: Rows) -> Floats32:
        """Returns some rows of `values` as float32, shape (rows, dimensions)."""
        values = np.asarray(self.values)
        widen = kernel("harness_dense_widen") if values.dtype == np.float16 and values.dtype.isnative else None
        if widen is not None and values.flags.c_contiguous and rows.ndim == 1:  # of singles.c
            wide = np.empty((rows.size, self.dimensions), np.float32)
            if not widen(values, len(values), self.dimensions, np.ascontiguousarray(rows, np.int64), rows.size, wide):
                return wide
        taken: Floats32 = values[rows].astype(np.float32, copy=False)
        return taken

    def rows(self, names: Iterable[str]) -> Rows:
        """Returns the rows of the documents with these ids, ascending."""
        wanted = np.array(sorted(name.encode() for name in names), dtype=np.bytes_)
        return np.flatnonzero(np.isin(self.ids, wanted)) if len(wanted) else np.empty(0, np.int64)

    def owner(self, rows: Rows) -> Rows:
        """Returns the documents that rows of `values` belong to, in the shape of `rows`."""
        owner: Rows = np.searchsorted(self.start, rows, side="right") - 1
        return owner

    def check(self) -> None:
        """Raises HarnessError if the arrays are inconsistent; does not read the vectors' values."""
        count = len(self.ids)
        good = self.values.ndim == 2 and self.values.dtype.name in PRECISIONS
        good = good and self.start.shape == (count + 1,) and self.document.shape == (count,)
        good = good and (self.start[0], self.start[-1]) == (0, len(self.values))
        good = good and bool((np.diff(self.start) >= 0).all())
        good = good and (self.context is None or self.context.shape == (count,))
        if not good:
            raise HarnessError("vectors of documents: shapes or types of the arrays do not fit each other")
        inside = (self.document >= self.start[:-1]) & (self.document < self.start[1:])
        if not (inside | (self.document == -1)).all():
            row = int(np.flatnonzero(~inside & (self.document != -1))[0])
            raise HarnessError(
                f"vectors of document {self.ids[row].decode()}: its single vector is not one of its vectors"
            )
        if np.unique(self.ids).size != count:
            raise HarnessError("vectors of documents: an id occurs twice")

    def save(self, folder: Path) -> None:
        """Writes the arrays to a folder in NumPy's format.

        Raises
        ------
        HarnessError
            The arrays are inconsistent, or a value is not finite.
        """
        self.check()
        require_finite_values(self.values, "vectors of documents")
        folder.mkdir(parents=True, exist_ok=True)
        arrays = {"ids": self.ids, "start": self.start, "values": self.values, "document": self.document}
        for name, kept in (arrays if self.context is None else arrays | {"context": self.context}).items():
            np.save(folder / f"{name}.npy", kept)

    @staticmethod
    def load(folder: Path) -> Vectors:
        """Loads vectors that `save` wrote; the values are memory-mapped.

        Raises
        ------
        HarnessError
            A file is missing or damaged.
        """
        try:
            names = ("ids", "start", "document", *(("context",) if (folder / "context.npy").exists() else ()))
            arrays = {name: np.load(folder / f"{name}.npy") for name in names}
            vectors = Vectors(values=np.load(folder / "values.npy", mmap_mode="r"), **arrays)
            vectors.check()
        except (OSError, ValueError, EOFError, HarnessError) as error:
            remedy = "delete this folder, and it is recomputed"
            raise HarnessError(f"{folder}: not the vectors of a corpus: {error}; {remedy}") from None
        return vectors


def stack(items: Iterable[tuple[str, npt.ArrayLike, int]], context: Sequence[str] | None = None) -> Vectors:
    """Builds `Vectors` from the vectors of single documents, in float32.

    Parameters
    ----------
    items : id, vectors of shape (number, dimensions), and which of them is the document's single vector (-1: none).
    context : the post of each document if the documents are formulas.

    Raises
    ------
    HarnessError
        There is no vector at all, their dimensions differ, an id occurs twice, or a value is not finite.
    """
    parts: list[Floats32] = []
    posts = iter(context or ())
    given = ((name, values, single, next(posts, "")) for name, values, single in items)
    arrays = _gathered(given, parts.append, posts=context is not None)
    vectors = Vectors(values=np.concatenate(parts), **arrays)
    vectors.check()
    return vectors


def write_vectors(items: Iterable[tuple[str, npt.ArrayLike, int, str]], folder: Path, *, posts: bool = False) -> int:
    """Writes vectors of documents as `stack` and `Vectors.save` would, with one document's vectors in memory at a time.

    Parameters
    ----------
    items : id, vectors, single vector (as in `stack`), and the post of a formula.
    posts : write the posts; documents are formulas.

    Returns
    -------
    The number of documents.

    Raises
    ------
    HarnessError
        As `stack`; or the file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    dimensions = 0
    with (folder / "values.npy").open("wb") as stream:

        def put(values: Floats32) -> None:
            nonlocal dimensions
            if not dimensions:
                dimensions = values.shape[1]
                write_header(stream, 0, dimensions)
            stream.write(values.tobytes())

        arrays = _gathered(items, put, posts=posts)
        stream.seek(0)
        write_header(stream, int(arrays["start"][-1]), dimensions)
    Vectors(values=np.load(folder / "values.npy", mmap_mode="r"), **arrays).check()
    for key, kept in arrays.items():
        np.save(folder / f"{key}.npy", kept)
    return len(arrays["ids"])


def _gathered(
    items: Iterable[tuple[str, npt.ArrayLike, int, str]], put: Callable[[Floats32], object], *, posts: bool
) -> dict[str, npt.NDArray[Any]]:
    """Hands each document's vectors to a function; returns the other arrays of `Vectors`."""
    ids: list[bytes] = []
    context: list[bytes] = []
    start, document = array("q", [0]), array("q")
    shape: tuple[int, ...] = ()
    for name, given, single, post in items:
        values = np.ascontiguousarray(given, np.float32)
        if len(values):
            if values.ndim != 2 or values.shape[1:] != (shape or values.shape[1:]):
                shapes = f"{values.shape[1:]} after {shape or 'none'}"
                raise HarnessError(f"vectors of document {name}: expected one number of dimensions, found {shapes}")
            require_finite_values(values, f"vectors of document {name}")
            shape = values.shape[1:]
            put(values)
        document.append(-1 if single < 0 else start[-1] + single)
        start.append(start[-1] + len(values))
        ids.append(name.encode())
        context.append(post.encode())
    if not start[-1]:
        raise HarnessError("vectors of documents: there is none")
    arrays = {"ids": np.array(ids, np.bytes_), "start": np.array(start), "document": np.array(document)}
    return arrays | ({"context": np.array(context, np.bytes_)} if posts else {})


def write_header(stream: BinaryIO, rows: int, dimensions: int, kind: npt.DTypeLike = np.float32) -> None:
    """Writes NumPy's header, which has room for any number of rows, so that it can be written again in place."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(kind)), "fortran_order": False}
    np.lib.format.write_array_header_1_0(stream, {**header, "shape": (rows, dimensions)})


# ---- scores -----------------------------------------------------------------------------------------------------


def scores_many(
    queries: Sequence[Floats32],
    vectors: Vectors,
    *,
    rows: Rows | None = None,
    mean: bool = False,
    dtype: npt.DTypeLike = np.float32,
) -> Scores:
    """Returns exact MaxSim scores of several queries with all documents, or with some of them.

    Parameters
    ----------
    queries : each of shape (vectors, dimensions).
    rows : documents to score; all by default.
    mean : divide by the number of the query's vectors (MathAMR+, equation 3.7).
    dtype : type of inner products and scores. In float32 the last bits depend on a document's position in its block.

    Returns
    -------
    Of type `dtype`, shape (queries, documents). Minus infinity for documents without vectors.
    """
    table, start = queries_of(queries, vectors.dimensions)
    chosen = np.arange(len(vectors)) if rows is None else rows
    first, lengths = vectors.start[chosen], vectors.start[chosen + 1] - vectors.start[chosen]
    out = np.full((len(queries), len(chosen)), -np.inf, dtype)
    chunks = [(a, b, np.ascontiguousarray(table[start[a] : start[b]].T, dtype)) for a, b in query_ranges(start, WIDTH)]
    widest = max((chunk.shape[1] for _, _, chunk in chunks), default=1)
    groups = list(blocks(lengths, max(1, PRODUCT // widest)))
    if not groups or not chunks:
        return out
    largest = max(int(lengths[group].max()) * len(group) for group in groups)
    # Allocated once: allocating memory for every group would take longer than the maximum.
    products = np.empty(largest * widest, dtype)
    for group in groups:
        at = padded(first[group], lengths[group])
        values = vectors.take(at.ravel()).astype(dtype, copy=False)
        for a, b, chunk in chunks:
            room = products[: at.size * chunk.shape[1]].reshape(at.size, -1)
            product = np.matmul(values, chunk, out=room)
            best = product.reshape(len(at), -1).max(axis=0).reshape(len(group), -1)
            out[a:b, group] = np.add.reduceat(best, start[a:b] - start[a], axis=1, dtype=np.float64).T
    if mean:
        out /= np.diff(start)[:, None]
    return out


def maxsim(query: Floats32, vectors: Vectors, *, mean: bool = False) -> Scores:
    """Returns the exact MaxSim scores of one query with all documents, shape (documents,); see `scores_many`."""
    scores: Scores = scores_many([query], vectors, mean=mean)[0]
    return scores
