"""Inner products of queries with documents' single vectors, of one or several parts: in float32, and exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from harness.errors import HarnessError
from harness.io.checks import number
from harness.systems.dense.maxsim import Floats32, Rows, Vectors

MARGIN = 2**-23  # times the dimensions: bounds the float32 error of an inner product of unit vectors
STEP = 4096  # vectors converted to float64 at a time
Floats64 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Parts:
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
    def of(vectors: Sequence[Vectors], weights: Sequence[float] | None, combine: str) -> Parts:
        """Combines parts with their weights, 1 by default; drops parts of weight 0.

        Raises
        ------
        HarnessError
            Parts differ in documents or dimensions; or weights are negative, too few, too many, or all 0.
        """
        given = [1.0] * len(vectors) if weights is None else [number("weights", weight) for weight in weights]
        if len(given) != len(vectors) or not any(given):
            raise HarnessError(f"key 'weights' is {given}, expected one for each of {len(vectors)} parts, not all 0")
        for place, part in enumerate(vectors[1:], 2):
            if part.dimensions != vectors[0].dimensions:
                fit = f"{part.dimensions} dimensions, those of part 1 {vectors[0].dimensions}"
                raise HarnessError(f"vectors of part {place} have {fit}: they are of another model")
            if part.ids is not vectors[0].ids and not np.array_equal(part.ids, vectors[0].ids):
                raise HarnessError(f"vectors of part {place} are of other documents than those of part 1")
        kept = [(part, weight) for part, weight in zip(vectors, given, strict=True) if weight]
        return Parts(tuple(part for part, _ in kept), tuple(weight for _, weight in kept), combine)

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
            values = [_times(_values(part, rows), weight) for part, weight in pairs]
            out: Floats32 = queries @ reduce(np.add, values).T
            return out
        out = np.full((len(queries), rows.size), -np.inf, np.float32)
        for part, weight in pairs:
            products = _times(queries, weight) @ _values(part, rows).T
            products[:, part.document[rows] < 0] = -np.inf
            np.maximum(out, products, out=out)
        return out

    def exact(self, query: Floats32, rows: Rows) -> Floats64:
        """Returns float64 scores of one query, shape (rows,), independent of batching and processor."""
        out = np.full(rows.size, 0.0 if self.combine == "sum" else -np.inf)
        for part, weight in zip(self.vectors, self.weights, strict=True):
            there = np.flatnonzero(part.document[rows] >= 0)
            for begin in range(0, there.size, STEP):
                at = there[begin : begin + STEP]
                # Not a matrix product, whose order of summation depends on the block and the library.
                products = part.take(part.document[rows[at]]) * query.astype(np.float64)
                scores = weight * products.sum(axis=1)
                out[at] = out[at] + scores if self.combine == "sum" else np.maximum(out[at], scores)
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


def _times(values: Floats32, weight: float) -> Floats32:
    return values if weight == 1 else values * np.float32(weight)
