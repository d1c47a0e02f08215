"""The kernels of exact dense search give what the NumPy code beside them gives, byte by byte."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples

from harness.io.kernels import kernel
from harness.systems.dense import search
from harness.systems.dense.maxsim import Vectors
from harness.systems.dense.search import Hits, nearest
from harness.systems.dense.single_vectors import DocumentParts, Scan

pytestmark = pytest.mark.skipif(kernel("harness_dense_exact") is None, reason="kernels are not compiled")


def both(work: object) -> Iterator[object]:
    """What a function returns with the kernels, and without them."""
    for setting in ("", "off"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HARNESS_KERNELS", setting)
            yield work()  # type: ignore[operator]


def vectors(generator: np.random.Generator, count: int, dimensions: int, kind: str) -> Vectors:
    """Documents in any order of rows; some have no vector, many are the same, some are zero, of either sign."""
    made = generator.standard_normal((max(1, count // 2), dimensions)) * 10.0 ** generator.integers(-4, 4)
    made[generator.random(len(made)) < 0.1] = -0.0
    values = made[generator.integers(len(made), size=count)].astype(np.float32)
    if kind == "float16":
        values = np.clip(values, -60000, 60000)
    there = generator.random(count) < 0.9
    document = np.where(there, np.cumsum(there) - 1, -1)
    start = np.concatenate(([0], np.cumsum(there)))
    ids = np.array([f"d{n}" for n in generator.permutation(count)], np.bytes_)
    return Vectors(ids, start, values[: int(there.sum())].astype(kind), document)


def asked(generator: np.random.Generator, count: int, dimensions: int) -> npt.NDArray[np.float32]:
    queries = generator.standard_normal((count, dimensions)).astype(np.float32)
    queries[generator.random(count) < 0.1] = 0
    return queries


CASE = (st.integers(0, 2**32), st.integers(1, 400), st.integers(1, 300), st.sampled_from(["float32", "float16"]))


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(120))
@given(*CASE, st.integers(1, 40), st.integers(1, 60), st.integers(1, 5))
def test_search(seed: int, count: int, dimensions: int, kind: str, queries: int, k: int, threads: int) -> None:
    generator = np.random.default_rng(seed)
    held, wanted = vectors(generator, count, dimensions, kind), asked(generator, queries, dimensions)
    gone = generator.random((queries, count)) < 0.3 if generator.random() < 0.5 else None
    out = None if gone is None else gone.__getitem__
    rows = np.sort(generator.permutation(count)[: count // 2]) if generator.random() < 0.3 else None

    def found() -> list[Hits]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OPENBLAS_NUM_THREADS", str(threads))
            patch.setattr(search, "POOL", 0)
            patch.setattr(search, "BLOCK", int(generator.integers(1, 200)))
            patch.setattr(search, "FEW", int(generator.integers(1, 50)))
            return nearest(wanted, [held], k=k, rows=rows, out=out)

    compiled, plain = both(found)
    for one, other in zip(compiled, plain, strict=True):  # type: ignore[call-overload]
        assert one.rows.tolist() == other.rows.tolist()
        assert one.scores.tobytes() == other.scores.tobytes()


@settings(deadline=None, max_examples=examples(150))
@given(*CASE, st.sampled_from(["sum", "max"]))
def test_exact_scores(seed: int, count: int, dimensions: int, kind: str, combine: str) -> None:
    generator = np.random.default_rng(seed)
    parts = DocumentParts((vectors(generator, count, dimensions, kind),), (float(generator.choice([1, 0.3])),), combine)
    wanted = asked(generator, 3, dimensions)
    rows, query = generator.integers((count, 3), size=(int(generator.integers(0, 50)), 2)).T
    compiled, plain = both(lambda: parts.exact(wanted, query, rows).tobytes())
    assert compiled == plain
    alone = [parts.exact(wanted[[n]], np.zeros(1, np.int64), row[None]) for n, row in zip(query, rows, strict=True)]
    assert b"".join(score.tobytes() for score in alone) == plain, "a score does not depend on the others"


@settings(deadline=None, max_examples=examples(80))
@given(*CASE, st.integers(1, 40))
def test_a_scan_keeps_what_reaches_the_floor(seed: int, count: int, dimensions: int, kind: str, queries: int) -> None:
    """Scores are those of float64 within the bound, and no pair is lost that reaches the floor by more than it."""
    generator = np.random.default_rng(seed)
    held, wanted = vectors(generator, count, dimensions, kind), asked(generator, queries, dimensions)
    parts = DocumentParts((held,), (1.0,), "sum")
    rows, wrong = parts.some(), parts.wrong(wanted)
    exact = np.array([parts.exact(wanted, np.full(rows.size, n), rows) for n in range(len(wanted))])
    floor = np.array([generator.choice([-np.inf, np.median(row) if row.size else 0]) for row in exact], np.float32)
    query, found, scores = Scan(parts, wanted, max(1, rows.size))(rows, floor)
    at = np.searchsorted(rows, found)
    assert (np.abs(scores - exact[query, at]) <= wrong[query]).all()
    assert (scores >= floor[query]).all()
    sure = {(q, rows[n]) for q, n in zip(*np.nonzero(exact >= floor[:, None] + wrong[:, None]), strict=True)}
    pairs = list(zip(query.tolist(), found.tolist(), strict=True))
    assert sure <= set(pairs)
    assert len(pairs) == len(set(pairs))


def test_each_number_of_16_bits_is_made_wide_as_by_numpy() -> None:
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(-1, 8)
    count = len(values)
    held = Vectors(np.zeros(count, "S1"), np.arange(count + 1), values, np.arange(count))
    compiled, plain = both(lambda: held.take(np.arange(count)))
    assert np.array_equal(compiled, plain, equal_nan=True)  # type: ignore[arg-type]
    signed = ~np.isnan(plain)  # type: ignore[call-overload]
    assert np.array_equal(np.signbit(compiled)[signed], np.signbit(plain)[signed])  # type: ignore[call-overload]


def test_rows_outside_the_array_are_refused() -> None:
    held = Vectors(np.array([b"a", b"b"]), np.array([0, 1, 1]), np.ones((1, 4), np.float32), np.array([0, 7]))
    parts = DocumentParts((held,), (1.0,), "sum")
    query = np.ones((1, 4), np.float32)
    with pytest.raises(ValueError, match="outside"):
        parts.exact(query, np.zeros(2, np.int64), np.array([0, 1]))
    with pytest.raises(ValueError, match="outside"):
        parts.exact(query, np.ones(1, np.int64), np.array([0]))
    able = kernel("harness_dense_able")
    if able is not None and able():
        with pytest.raises(ValueError, match="outside"):
            Scan(parts, query, 10)(np.array([0, 1]), np.zeros(1, np.float32))
