"""Documents of many vectors for tests, and MaxSim by its definition in float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from harness.systems.dense.maxsim import Floats32, Vectors, stack
from harness.systems.dense.search import Hits, VectorQuery

LENGTHS = st.lists(st.integers(0, 40), min_size=1, max_size=30).filter(any)
COUNTS = st.lists(st.integers(1, 9), min_size=1, max_size=6)


def unit(generator: np.random.Generator, count: int, dimensions: int) -> Floats32:
    """Random vectors of length 1."""
    values = generator.standard_normal((count, dimensions))
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    return values.astype(np.float32)


def documents(lengths: Sequence[int], dimensions: int = 8, seed: int = 0) -> Vectors:
    """Documents d0, d1, ... with so many vectors each; the last is the document's single vector."""
    generator = np.random.default_rng(seed)
    return stack((f"d{n}", unit(generator, length, dimensions), length - 1) for n, length in enumerate(lengths))


def queries(lengths: Sequence[int], dimensions: int = 8, seed: int = 1) -> list[VectorQuery]:
    """Queries with so many vectors each; the last is the query's single vector."""
    generator = np.random.default_rng(seed)
    return [VectorQuery(unit(generator, length, dimensions), length - 1) for length in lengths]


def reference(query: Floats32, vectors: Vectors) -> npt.NDArray[np.float64]:
    """MaxSim by its definition, document by document, in float64; minus infinity without vectors."""
    out = np.full(len(vectors), -np.inf)
    for row, (begin, end) in enumerate(zip(vectors.start[:-1], vectors.start[1:], strict=True)):
        if begin < end:
            values = vectors.take(np.arange(begin, end)).astype(np.float64)
            out[row] = sum(max(float(np.dot(q, v)) for v in values) for q in query.astype(np.float64))
    return out


def sorted_rows(scores: npt.NDArray[np.floating], vectors: Vectors, k: int) -> list[int]:
    """The first k documents as a protocol sorts: score as float32 descending, then id descending."""
    ids = vectors.ids.tolist()
    rows = [row for row in range(len(ids)) if scores[row] > -np.inf]
    rows.sort(key=lambda row: ids[row], reverse=True)
    rows.sort(key=lambda row: np.float32(scores[row]), reverse=True)
    return rows[:k]


def agree(a: Hits, scores: npt.NDArray[np.floating], vectors: Vectors, k: int, within: float = 1e-5) -> None:
    """The hits are the first k by the scores, but for documents nearer to each other than `within`."""
    best = sorted_rows(scores, vectors, k)
    assert len(a.rows) == len(best) == len(set(a.rows.tolist()))
    assert np.allclose(a.scores, scores[best], rtol=0, atol=within)
    assert np.allclose(scores[a.rows], scores[best], rtol=0, atol=within)
