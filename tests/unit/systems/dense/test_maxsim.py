from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples
from refusals import refuses
from vector_tools import COUNTS, LENGTHS, agree, documents, queries, reference, sorted_rows, unit

from harness.errors import HarnessError
from harness.systems.dense import maxsim
from harness.systems.dense.maxsim import Rows, Vectors, scores_many, stack, write_vectors
from harness.systems.dense.search import STRATEGIES, Hits, VectorQuery, best_among, search_vectors


class Everything:
    """An index that finds all there is: approximate strategies become exact ones."""

    def __init__(self, vectors: Vectors) -> None:
        self.held = vectors

    def documents(self, queries: maxsim.Floats32, k: int, ef: int) -> Rows:
        return np.tile(np.append(np.flatnonzero(self.held.document >= 0), -1), (len(queries), 1))

    def vectors(self, queries: maxsim.Floats32, k: int, ef: int) -> Rows:
        return np.tile(np.append(np.arange(len(self.held.values)), -1), (len(queries), 1))


# ---- scores -----------------------------------------------------------------------------------------------------


def test_by_hand() -> None:
    vectors = stack([("a", np.array([[1, 0], [0, 1]]), 1), ("b", np.array([[-1, 0]]), 0), ("c", np.zeros((0, 2)), -1)])
    query = np.array([[0.6, 0.8], [-1, 0]], np.float32)
    # a: max(.6, .8) + max(-1, 0); b: -.6 + 1; c has no vectors.
    assert maxsim.maxsim(query, vectors).tolist() == pytest.approx([0.8, 0.4, -np.inf])
    assert maxsim.maxsim(query, vectors, mean=True).tolist() == pytest.approx([0.4, 0.2, -np.inf])


@settings(deadline=None, max_examples=examples(60))
@given(LENGTHS, COUNTS, st.integers(0, 2**32), st.sampled_from([1 << 20, 300, 1]), st.sampled_from([512, 5]))
def test_reference(lengths: list[int], counts: list[int], seed: int, product: int, width: int) -> None:
    vectors = documents(lengths, seed=seed)
    asked = [query.values for query in queries(counts, seed=seed + 1)]
    with pytest.MonkeyPatch.context() as patch:  # blocks of every size, and queries in several products
        patch.setattr(maxsim, "PRODUCT", product)
        patch.setattr(maxsim, "WIDTH", width)
        scores = scores_many(asked, vectors)
    expected = np.array([reference(query, vectors) for query in asked])
    assert scores.dtype == np.float32
    assert np.allclose(scores, expected, rtol=0, atol=1e-5)
    assert np.array_equal(scores == -np.inf, np.tile(np.array(lengths) == 0, (len(asked), 1)))


# ---- the order of hits ------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([-np.inf, -1.5, -1.0, 0.0, 0.25, 0.5]), min_size=1, max_size=40), st.integers(1, 45))
def test_top_as_the_protocol_sorts(values: list[float], k: int) -> None:
    ids = np.array([str(n).encode() for n in np.random.default_rng(0).permutation(len(values))])
    vectors = SimpleNamespace(ids=ids)
    place = np.argsort(np.argsort(ids))
    scores = np.array(values, np.float32)
    hits = Hits.best(np.arange(len(values)), scores, place, k)
    expected = sorted_rows(scores, vectors, k)  # type: ignore[arg-type]
    assert hits.rows.tolist() == expected
    assert np.array_equal(hits.scores, scores[expected])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_hits_are_the_same_in_any_company(corpus: Vectors, strategy: str) -> None:
    asked = queries([3, 4, 7, 1, 8])
    for query, together in zip(asked, search_vectors(asked, corpus, strategy, k=30), strict=True):
        alone = search_vectors([query], corpus, strategy, k=30)[0]
        assert np.array_equal(alone.rows, together.rows)
        assert np.array_equal(alone.scores, together.scores)


def test_scores_of_hits_are_those_of_float64(corpus: Vectors) -> None:
    query = queries([9])[0]
    hits = search_vectors([query], corpus, k=50)[0]
    exact = reference(query.values, corpus)
    assert hits.rows.tolist() == sorted_rows(exact, corpus, 50)
    assert np.array_equal(hits.scores, exact[hits.rows].astype(np.float32))


# ---- strategies -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def corpus() -> Vectors:
    vectors = documents(np.random.default_rng(7).integers(0, 20, 120).tolist())
    return replace(vectors, document=np.where(np.arange(120) % 10 == 3, -1, vectors.document))


def test_single(corpus: Vectors) -> None:
    for query, hits in zip(asked := queries([3, 8]), search_vectors(asked, corpus, "single", k=15), strict=True):
        there = corpus.document >= 0
        scores = np.full(len(corpus), -np.inf)
        scores[there] = corpus.values[corpus.document[there]].astype(float) @ query.values[-1].astype(float)
        agree(hits, scores, corpus, 15)


def test_rerank(corpus: Vectors) -> None:
    asked = queries([3, 8])
    first = search_vectors(asked, corpus, "single", k=12)
    for query, candidates, hits in zip(
        asked, first, search_vectors(asked, corpus, "rerank", depth=12, k=5), strict=True
    ):
        scores = reference(query.values, corpus)
        scores[np.setdiff1d(np.arange(len(corpus)), candidates.rows)] = -np.inf
        agree(hits, scores, corpus, 5)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_index_that_finds_all_is_exact(corpus: Vectors, strategy: str) -> None:
    asked = queries([3, 8, 1])
    exact = search_vectors(asked, corpus, strategy, k=20)
    near = search_vectors(asked, corpus, strategy, "approximate", k=20, index=Everything(corpus))
    for a, b in zip(exact, near, strict=True):
        assert np.allclose(a.scores, b.scores, atol=1e-6)
        assert len(set(a.rows.tolist()) & set(b.rows.tolist())) == 20


@pytest.mark.slow
def test_colbert(corpus: Vectors) -> None:
    asked = queries([3, 8] * 40)  # more than one pass
    for query, hits in zip(asked, search_vectors(asked, corpus, "colbert", k=10), strict=True):
        agree(hits, reference(query.values, corpus), corpus, 10)


def test_colbert_approximate_scores_only_owners(corpus: Vectors) -> None:
    class Few(Everything):
        def vectors(self, queries: maxsim.Floats32, k: int, ef: int) -> Rows:
            return np.full((len(queries), k), corpus.start[4])

    hits = search_vectors(queries([3]), corpus, "colbert", "approximate", depth=2, index=Few(corpus))[0]
    assert hits.rows.tolist() == corpus.owner(corpus.start[4:5]).tolist()
    assert hits.scores[0] == pytest.approx(reference(queries([3])[0].values, corpus)[hits.rows[0]], abs=1e-5)


@pytest.mark.parametrize("strategy", ["single", "colbert"])
def test_a_pool(corpus: Vectors, strategy: str) -> None:
    query = queries([3])[0]
    every = search_vectors([query], corpus, strategy, k=len(corpus))[0]
    pool = np.arange(0, len(corpus), 7)
    hits = best_among(query, corpus, pool, 50, strategy)
    assert hits.rows.tolist() == [row for row in every.rows.tolist() if row % 7 == 0]
    none = best_among(query, corpus, pool[:0], 50, strategy)
    assert none.rows.size == none.scores.size == 0


def test_no_queries(corpus: Vectors) -> None:
    assert search_vectors([], corpus) == []
    assert scores_many([], corpus).shape == (0, len(corpus))


# ---- files and faults -------------------------------------------------------------------------------------------


def test_save_and_load(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    parts = [("a", unit(generator, 3, 4), 2), ("b", unit(generator, 1, 4), -1)]
    vectors = stack(parts, context=["p", "q"])
    vectors.save(tmp_path / "vectors")
    again = Vectors.load(tmp_path / "vectors")
    for name in ("ids", "start", "values", "document", "context"):
        assert np.array_equal(getattr(again, name), getattr(vectors, name)), name
        assert getattr(again, name).dtype == getattr(vectors, name).dtype
    assert isinstance(again.values, np.memmap)
    query = queries([2], dimensions=4)[0].values
    assert np.array_equal(maxsim.maxsim(query, again), maxsim.maxsim(query, vectors))


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: os.truncate(folder / "values.npy", (folder / "values.npy").stat().st_size - 5),
        lambda folder: (folder / "start.npy").unlink(),
        lambda folder: np.save(folder / "document.npy", np.zeros(7, np.int64)),
    ],
)
def test_damaged_files(tmp_path: Path, damage: Any) -> None:  # noqa: ANN401
    documents([3, 1]).save(tmp_path)
    damage(tmp_path)
    refuses("not the vectors of a corpus", lambda: Vectors.load(tmp_path))


def test_values_that_are_not_finite(tmp_path: Path) -> None:
    vectors = documents([3, 1])
    vectors.values[1, 2] = np.nan
    refuses("infinite or not a number", lambda: vectors.save(tmp_path / "x"))
    assert not (tmp_path / "x").exists()
    refuses("infinite or not a number", lambda: stack([("a", vectors.values, -1)]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"document": np.array([2, 0])}, "document d1: its single vector is not one of its vectors"),
        ({"ids": np.array([b"x", b"x"])}, "an id occurs twice"),
        ({"start": np.array([0, 3, 9])}, "do not fit"),
        ({"start": np.array([0, 5, 4])}, "do not fit"),
        ({"values": np.zeros((4, 8), np.int8)}, "do not fit"),
        ({"values": np.zeros((4, 8), np.float64)}, "do not fit"),
        ({"context": np.array([b"p"])}, "do not fit"),
    ],
)
def test_arrays_that_contradict_each_other(changes: dict[str, Any], message: str) -> None:
    refuses(message, lambda: replace(documents([3, 1]), **changes).check())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"strategy": "colbret"}, "did you mean 'colbert'"),
        ({"precision": "roughly"}, "'precision' is 'roughly'"),
        ({"precision": "approximate"}, "needs an index"),
        ({"k": 0}, "'k' is 0"),
        ({"depth": 0}, "'depth' is 0"),
    ],
)
def test_arguments_that_are_refused(arguments: dict[str, Any], message: str) -> None:
    refuses(message, lambda: search_vectors(queries([2]), documents([2]), **arguments))


@pytest.mark.parametrize("strategy", ["single", "rerank"])
def test_query_without_a_single_vector(strategy: str) -> None:
    with pytest.raises(HarnessError, match="query 2 has no vector for the whole query"):
        search_vectors([*queries([2]), VectorQuery(queries([2])[0].values)], documents([2]), strategy)


Item = tuple[str, Any, int, str]


def written_items(count: int) -> Iterator[Item]:
    generator = np.random.default_rng(0)
    for number in range(count):
        values = generator.standard_normal((number % 4, 8), np.float32)
        yield f"d{number}", values, len(values) - 1, f"post{number}"


@pytest.mark.parametrize("posts", [False, True])
def test_files_are_those_of_a_stack(tmp_path: Path, posts: bool) -> None:
    context = [post for _, _, _, post in written_items(30)] if posts else None
    stack(((name, values, single) for name, values, single, _ in written_items(30)), context).save(tmp_path / "stacked")
    assert write_vectors(written_items(30), tmp_path / "written", posts=posts) == 30
    names = sorted(path.name for path in (tmp_path / "stacked").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "written").iterdir())
    assert len(names) == 4 + posts
    for name in names:
        assert (tmp_path / "stacked" / name).read_bytes() == (tmp_path / "written" / name).read_bytes(), name


@pytest.mark.parametrize(
    ("items", "fault"),
    [
        ([], "there is none"),
        ([("a", np.zeros((0, 2)), -1, "")], "there is none"),
        ([("a", np.ones((1, 2)), 0, ""), ("b", np.ones((1, 3)), 0, "")], r"document b: .* found \(3,\) after \(2,\)"),
        ([("a", np.ones(2), 0, "")], "document a: .*one number of dimensions"),
        ([("a", np.ones((1, 2)), 0, ""), ("a", np.ones((1, 2)), 0, "")], "an id occurs twice"),
        ([("a", np.full((1, 2), np.nan), 0, "")], "document a: a value is infinite or not a number"),
        ([("a", np.ones((1, 2)), 1, "")], "document a: its single vector is not one of its vectors"),
    ],
)
def test_what_a_stack_refuses_is_refused(tmp_path: Path, items: list[Item], fault: str) -> None:
    refuses(fault, lambda: write_vectors(items, tmp_path / "vectors"))


# ---- maxSim by PyTorch is that by NumPy, and finds the same -----------------------------------------------------


@settings(deadline=None, max_examples=30)
@given(LENGTHS, COUNTS, st.integers(0, 2**32), st.integers(1, 12), st.booleans())
def test_what_is_found_is_the_same_by_torch(
    lengths: list[int], counts: list[int], seed: int, k: int, mean: bool
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from harness.systems.dense import maxsim_torch

    vectors, asked = documents(lengths, seed=seed), queries(counts, seed=seed + 1)
    rough = maxsim_torch.rough(vectors, "cpu", mean=mean)
    by_torch = search_vectors(asked, vectors, k=k, mean=mean, rough=rough)
    for found, expected in zip(by_torch, search_vectors(asked, vectors, k=k, mean=mean), strict=True):
        assert found.rows.tolist() == expected.rows.tolist()
        assert found.scores.tolist() == expected.scores.tolist()


def test_torch_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from harness.systems.dense import maxsim_torch

    refuses("'device' is 'cudaa'", lambda: maxsim_torch.resident(documents([2]), "cudaa"))
    held = maxsim_torch.resident(documents([2]), "cpu")
    refuses("vector of 8 dimensions", lambda: maxsim_torch.scores([np.ones((1, 3), np.float32)], held))

    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 20 GiB")

    monkeypatch.setattr(torch, "full", full)
    refuses("not enough memory", lambda: maxsim_torch.scores([np.ones((1, 8), np.float32)], held))
