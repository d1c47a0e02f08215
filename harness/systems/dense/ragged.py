"""Ragged multi-vector data: vectors of several documents or queries concatenated, grouped, padded and checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import HarnessError

Floats32 = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]
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
