from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples
from refusals import refusal
from vector_tools import sorted_rows, unit

from harness.systems.dense import ann, search
from harness.systems.dense.maxsim import Floats32, Vectors
from harness.systems.dense.search import Hits, nearest, recall

DIMENSIONS = 8


@dataclass(frozen=True)
class Case:
    """A search, and what its order is drawn from."""

    queries: Floats32
    parts: list[Vectors]
    weights: list[float]
    combine: str
    k: int
    rows: npt.NDArray[np.int64] | None

    def search(self, queries: Floats32 | None = None) -> list[Hits]:
        asked = self.queries if queries is None else queries
        return nearest(asked, self.parts, self.weights, self.combine, k=self.k, rows=self.rows)


def part(values: npt.ArrayLike, document: Sequence[int] | None = None, ids: Sequence[str] | None = None) -> Vectors:
    """Single vectors of documents d0, d1, ...: of each one, or (-1) none."""
    held = np.asarray(values)
    held = held if held.dtype == np.float16 else held.astype(np.float32)
    document = range(len(held)) if document is None else document
    names = [f"d{n}" for n in range(len(document))] if ids is None else ids
    start = np.cumsum([0, *(row >= 0 for row in document)])
    out = Vectors(np.array(names, np.bytes_), start, held, np.array(document, np.int64))
    out.check()
    return out


def lengthened(values: Floats32, generator: np.random.Generator, spread: float) -> Floats32:
    """Vectors of lengths from 10 ** -spread to 10 ** spread."""
    factor = 10.0 ** generator.uniform(-spread, spread, (len(values), 1))
    return np.asarray(values * factor, np.float32)


def drawn(seed: int) -> Case:
    """Documents of which many are the same, some lack vectors and some have vectors of zeros."""
    generator = np.random.default_rng(seed)
    count, kinds = int(generator.integers(1, 120)), int(generator.integers(1, 60))
    names = [f"d{n}" for n in generator.permutation(count)]
    spread = float(generator.choice([0, 0, 3]))
    parts = []
    for _ in range(int(generator.integers(1, 4))):
        values = lengthened(unit(generator, kinds, DIMENSIONS), generator, spread)
        values[generator.random(kinds) < 0.1] = 0
        values = values.astype(generator.choice(["float32", "float16"]))
        there = generator.random(count) < generator.choice([1, 0.7, 0.1])
        document = np.where(there, np.cumsum(there) - 1, -1)
        parts.append(part(values[generator.integers(kinds, size=int(there.sum()))], document.tolist(), names))
    queries = lengthened(unit(generator, int(generator.integers(1, 6)), DIMENSIONS), generator, spread)
    queries[generator.random(len(queries)) < 0.2] = 0
    weights = [1.0, *generator.choice([0, 0.5, 2], len(parts) - 1).tolist()]
    pool = generator.permutation(count)[: int(generator.integers(0, count + 1))] if generator.random() < 0.5 else None
    return Case(queries, parts, weights, str(generator.choice(["sum", "max"])), int(generator.integers(1, 150)), pool)


def reference(case: Case, query: Floats32) -> npt.NDArray[np.float64]:
    """Scores of all documents by the definition, in float64; minus infinity where there is none."""
    out = np.full(len(case.parts[0]), -np.inf)
    for row in range(out.size) if case.rows is None else case.rows.tolist():
        scores = [
            weight
            * sum(a * b for a, b in zip(query.tolist(), vectors.values[vectors.document[row]].tolist(), strict=True))
            for vectors, weight in zip(case.parts, case.weights, strict=True)
            if weight and vectors.document[row] >= 0
        ]
        if scores:
            out[row] = sum(scores) if case.combine == "sum" else max(scores)
    return out


def same(one: Sequence[Hits], other: Sequence[Hits]) -> None:
    """The same documents and the same bytes of scores."""
    for a, b in zip(one, other, strict=True):
        assert a.rows.tolist() == b.rows.tolist()
        assert a.scores.tobytes() == b.scores.tobytes()


# ---- against the definition -------------------------------------------------------------------------------------


def check(case: Case) -> None:
    """The scores are those of the definition to the last bit of float32 or the one before, and so is their order."""
    for query, hits in zip(case.queries, case.search(), strict=True):
        exact = reference(case, query)
        wanted = sorted_rows(exact, case.parts[0], case.k)
        assert len(hits.rows) == len(wanted) == len(set(hits.rows.tolist()))
        scale = np.abs(exact[np.isfinite(exact)]).max(initial=0)
        assert np.allclose(hits.scores, exact[wanted], rtol=1e-7, atol=1e-13 * scale)
        assert np.allclose(exact[hits.rows], exact[wanted], rtol=1e-7, atol=1e-13 * scale)
        order = np.lexsort((-case.parts[0].place[hits.rows], -hits.scores))
        assert order.tolist() == list(range(len(order)))


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(200))
@given(st.integers(0, 2**32))
def test_random_cases(seed: int) -> None:
    check(drawn(seed))


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(100))
@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 3), st.integers(0, 50))
def test_neither_blocks_nor_company_change_a_byte(seed: int, block: int, together: int, pool: int) -> None:
    case = drawn(seed)
    whole = case.search()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "BLOCK", block)
        patch.setattr(search, "TOGETHER", together)
        patch.setattr(search, "POOL", pool)
        same(case.search(), whole)
        same([hits for query in case.queries for hits in case.search(query[None])], whole)


@pytest.mark.parametrize("values", [np.zeros((9000, 4)), np.ones((9000, 4))])
def test_documents_that_are_all_alike(values: npt.NDArray[np.float64], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "BLOCK", 64)
    names = [f"{n:05d}" for n in np.random.default_rng(0).permutation(len(values))]
    vectors = part(values.astype(np.float32), ids=names)
    (hits,) = nearest(np.full((1, 4), 0.5, np.float32), [vectors], k=5)
    assert vectors.ids[hits.rows].tolist() == [b"08999", b"08998", b"08997", b"08996", b"08995"]
    assert hits.scores.tolist() == (values[:5].sum(axis=1) / 2).tolist()


@pytest.mark.parametrize("length", [1e-6, 1, 1e6])
def test_documents_that_float32_confuses(length: float) -> None:
    """They differ by less than an inner product in float32 is wrong by, which grows with the vectors' lengths."""
    generator = np.random.default_rng(1)
    noise = np.exp2(-24) * generator.standard_normal((2000, 256))
    values = (length * (unit(generator, 1, 256) + noise)).astype(np.float32)
    queries = np.asarray(length * unit(generator, 3, 256), np.float32)
    rough = np.argsort(-(queries @ values.T), axis=1)[:, :10]
    for query, confused, hits in zip(queries, rough, nearest(queries, [part(values)], k=10), strict=True):
        best = sorted_rows(values.astype(np.float64) @ query.astype(np.float64), part(values), 10)
        assert set(hits.rows.tolist()) == set(best) != set(confused.tolist())


# ---- parts ------------------------------------------------------------------------------------------------------


def test_parts_by_hand() -> None:
    one = part([[1.0, 0.0], [0.0, 1.0], [3.0, 4.0]], [0, 1, -1, 2])
    two = part([[2.0, 2.0], [-1.0, -1.0]], [-1, 0, -1, 1])
    query = np.array([[1, 2]], np.float32)

    def scores(combine: str, *weights: float) -> dict[str, float]:
        (hits,) = nearest(query, [one, two], weights, combine)
        return dict(zip((one.ids[row].decode() for row in hits.rows), hits.scores.tolist(), strict=True))

    assert scores("sum", 1, 1) == {"d0": 1, "d1": 8, "d3": 8}
    assert scores("sum", 1, 0.5) == {"d0": 1, "d1": 5, "d3": 9.5}
    assert scores("max", 1, 0.5) == {"d0": 1, "d1": 3, "d3": 11}
    assert scores("max", 0.125, 1) == {"d0": 0.125, "d1": 6, "d3": 1.375}
    assert scores("sum", 0, 1) == {"d1": 6, "d3": -3}  # a part of weight 0 brings no document in
    assert scores("max", 0, 1) == {"d1": 6, "d3": -3}


def test_negative_scores_of_a_maximum_are_not_those_of_missing_parts() -> None:
    one, two = part([[-1.0, 0]], [0, -1]), part([[-2.0, 0], [-0.5, 0]], [0, 1])
    (hits,) = nearest(np.array([[1, 0]], np.float32), [one, two], combine="max")
    assert (hits.rows.tolist(), hits.scores.tolist()) == ([1, 0], [-0.5, -1])


# ---- bounds and faults ------------------------------------------------------------------------------------------


def test_nothing_to_find() -> None:
    vectors, query = part([[1.0, 2]]), np.ones((1, 2), np.float32)
    assert nearest(query[:0], [vectors]) == []
    assert nearest(query, [vectors], rows=np.zeros(0, np.int64))[0].rows.size == 0
    assert nearest(query, [replace(vectors, document=np.array([-1]))])[0].rows.size == 0
    (only,) = nearest(query, [vectors], k=5)
    assert (only.rows.tolist(), only.scores.tolist()) == ([0], [3])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, "key 'k' is 0, expected a whole number from 1 up"),
        ({"depth": 0}, "key 'depth' is 0, expected a whole number from 1 up"),
        ({"ef": 1.5}, "key 'ef' is 1.5, expected a whole number from 1 up"),
        ({"combine": "mean"}, "key 'combine' is 'mean'; known: max, sum"),
        ({"weights": [1, -0.5]}, "key 'weights' is -0.5, expected a number from 0 up"),
        ({"weights": [1]}, "key 'weights' is [1.0], expected one for each of 2 parts, not all 0"),
        ({"weights": [0, 0]}, "key 'weights' is [0.0, 0.0], expected one for each of 2 parts, not all 0"),
        ({"parts": []}, "key 'weights' is [], expected one for each of 0 parts, not all 0"),
        (
            {"parts": [part([[1.0, 2]]), part([[1.0, 2, 3]])]},
            "vectors of part 2 have 3 dimensions, those of part 1 2: they are of another model",
        ),
        (
            {"parts": [part([[1.0, 2]]), part([[1.0, 2]], ids=["x"])]},
            "vectors of part 2 are of other documents than those of part 1",
        ),
        (
            {"queries": np.ones((2, 3), np.float32)},
            "query 1 has vectors of shape (1, 3), expected at least one vector of 2 dimensions",
        ),
        ({"queries": np.array([[1, 2], [np.nan, 1]], np.float32)}, "query 2: a value is infinite or not a number"),
        (
            {"queries": np.full((1, 2), 1e21, np.float32), "parts": [part([[1e18, 1e18]])]},
            "vectors are up to 1.42e+18 long: their inner products do not fit 32 bits",
        ),
    ],
)
def test_faults(change: dict[str, Any], message: str) -> None:
    given_: dict[str, Any] = {"queries": np.ones((1, 2), np.float32), "parts": [part([[1.0, 2]]), part([[3.0, 4]])]}
    assert refusal(lambda: nearest(**(given_ | change))) == message


# ---- candidates of an index -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two() -> list[Vectors]:
    generator = np.random.default_rng(5)
    names = [f"d{n:03d}" for n in range(400)]
    lacking = [n if n < 9 else -1 if n == 9 else n - 1 for n in range(400)]
    return [part(unit(generator, 400, DIMENSIONS), ids=names), part(unit(generator, 399, DIMENSIONS), lacking, names)]


@pytest.mark.parametrize("combine", ["sum", "max"])
def test_faiss_finds_candidates_of_each_part(two: list[Vectors], combine: str) -> None:
    pytest.importorskip("faiss", reason="faiss is not installed")
    indexes = [ann.faiss_index(vectors) for vectors in two]
    queries = unit(np.random.default_rng(6), 10, DIMENSIONS)
    exact = nearest(queries, two, [1, 0.5], combine, k=20)
    found = nearest(queries, two, [1, 0.5], combine, k=20, indexes=indexes)
    assert recall(found, exact).mean() >= 0.99
    few = nearest(queries, two, [1, 0.5], combine, k=20, indexes=indexes, depth=2)
    assert all(hits.rows.size <= 4 for hits in few)
    for hits, best in zip(few, exact, strict=True):  # what is found has its exact score
        known = dict(zip(best.rows.tolist(), best.scores.tolist(), strict=True))
        assert all(
            known[row] == score
            for row, score in zip(hits.rows.tolist(), hits.scores.tolist(), strict=True)
            if row in known
        )
    pool = np.arange(0, 400, 7)
    same(
        nearest(queries, two, [1, 0.5], combine, k=20, rows=pool, indexes=indexes),
        nearest(queries, two, [1, 0.5], combine, k=20, rows=pool),
    )


class Counted:
    """An index that finds what is nearest, and notes how many candidates it was asked for."""

    def __init__(self, vectors: Vectors) -> None:
        self.vectors_, self.asked = vectors, list[int]()

    def documents(self, queries: Floats32, k: int, ef: int) -> npt.NDArray[np.int64]:
        self.asked.append(k)
        near = [hits.rows for hits in nearest(queries, [self.vectors_], k=k)]
        return np.array([np.pad(rows, (0, k - rows.size), constant_values=-1) for rows in near])

    vectors = documents


@pytest.mark.parametrize("gone", [1, 15, 200, 399])
def test_excluded_documents_leave_no_gaps_among_the_candidates_of_an_index(two: list[Vectors], gone: int) -> None:
    queries = unit(np.random.default_rng(6), 6, DIMENSIONS)
    first = [hits.rows for hits in nearest(queries, two[:1], k=400)]
    out = np.zeros((6, 400), bool)
    for number in (0, 3):  # the documents that are nearest to these
        out[number, first[number][:gone]] = True
    index = Counted(two[0])
    found = nearest(queries, two[:1], k=20, indexes=[index], out=lambda number: out[number])
    same(found, nearest(queries, two[:1], k=20, out=lambda number: out[number]))
    assert [hits.rows.size for hits in found] == [min(20, 400 - int(row.sum())) for row in out]
    assert index.asked == [20 + min(gone, 20)]
