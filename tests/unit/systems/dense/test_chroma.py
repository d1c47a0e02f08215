"""Chroma as a store of vectors: what it finds beside exact search, and what is refused."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from refusals import refusal
from vector_tools import unit

from harness.io.files import sha256_file
from harness.store import artefacts
from harness.systems.dense import chroma
from harness.systems.dense.bi_encoder import BiEncoder
from harness.systems.dense.maxsim import Vectors
from harness.systems.dense.search import nearest, recall


def vectors(count: int = 400, dimensions: int = 16, seed: int = 0) -> Vectors:
    """Single vectors of documents, of which every seventh has none."""
    there = np.arange(count) % 7 > 0
    start = np.concatenate(([0], np.cumsum(there)))
    names = np.array([f"d{number}" for number in range(count)], np.bytes_)
    values = unit(np.random.default_rng(seed), int(there.sum()), dimensions)
    return Vectors(names, start, values, np.where(there, start[:-1], -1))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("chromadb", reason="chromadb is not installed")
    folder = tmp_path_factory.mktemp("chroma")
    chroma.build(vectors(), folder)
    return folder


@pytest.mark.slow
def test_with_many_candidates_it_finds_what_exact_search_finds(store: Path) -> None:
    held, asked = vectors(), unit(np.random.default_rng(5), 12, 16)
    exact = nearest(asked, [held], k=10)
    before = {path.name: sha256_file(path) for path in store.rglob("*") if path.is_file()}
    with chroma.opened(store, held) as index:
        near = nearest(asked, [held], k=10, indexes=[index], ef=400)
        every = index.documents(asked, 500, 500)
        rows = index.vectors(asked, 5, 400)
    assert recall(near, exact).mean() >= 0.99
    for ours, best in zip(near, exact, strict=True):
        common = np.intersect1d(ours.rows, best.rows)
        assert ours.scores[np.isin(ours.rows, common)].tolist() == best.scores[np.isin(best.rows, common)].tolist()
    assert every.shape == (12, 500)
    owners = held.ids[every[0][every[0] >= 0]]
    assert len(set(owners.tolist())) == owners.size >= 300
    assert all(int(name[1:]) % 7 for name in owners.tolist())
    assert np.array_equal(held.owner(rows), every[:, :5])
    assert before == {path.name: sha256_file(path) for path in store.rglob("*") if path.is_file()}


def test_several_parts_are_searched_each_in_its_store(tmp_path: Path) -> None:
    pytest.importorskip("chromadb", reason="chromadb is not installed")
    parts, asked = [vectors(), vectors(seed=1)], unit(np.random.default_rng(6), 5, 16)
    with ExitStack() as stack:
        for number, part in enumerate(parts):
            (tmp_path / str(number)).mkdir()
            chroma.build(part, tmp_path / str(number))
        indexes = [stack.enter_context(chroma.opened(tmp_path / str(n), part)) for n, part in enumerate(parts)]
        near = nearest(asked, parts, [1, 0.5], k=5, indexes=indexes, ef=400)
    assert [hits.rows.tolist() for hits in near] == [
        hits.rows.tolist() for hits in nearest(asked, parts, [1, 0.5], k=5)
    ]


def test_a_store_of_other_vectors_is_one_line(store: Path, tmp_path: Path) -> None:
    remedy = "delete this folder, and it is recomputed"
    own = vectors()
    for other in (
        vectors(dimensions=8),
        vectors(count=399),
        vectors(seed=1),  # of another model, as many and as long
        replace(own, ids=own.ids[::-1].copy()),
        replace(own, document=np.full(400, -1)),
    ):
        made = "a store of 342 vectors of 16 dimensions, made by another model or of other documents"
        assert refusal(chroma.opened(store, other).__enter__) == f"{store}: {made}; {remedy}"
    assert refusal(chroma.opened(tmp_path, vectors()).__enter__).startswith(f"{tmp_path}: not a store of vectors: ")
    line = refusal(chroma.opened(tmp_path / "none", vectors()).__enter__)
    assert line.startswith(f"{tmp_path / 'none'}: cannot be copied to ")
    assert line.endswith("(TMPDIR may name another place): No such file or directory")
    (tmp_path / "chroma.sqlite3").write_bytes(b"no database" * 100)
    assert refusal(chroma.opened(tmp_path, vectors()).__enter__).startswith(f"{tmp_path}: ")


def test_an_index_is_kept_under_what_it_was_made_from(tmp_path: Path) -> None:
    pytest.importorskip("chromadb", reason="chromadb is not installed")
    asked, found = unit(np.random.default_rng(5), 3, 16), []
    for name in ("one", "other", "one"):
        with chroma.kept(vectors(seed=len(name)), tmp_path / name) as index:
            found.append(index.documents(asked, 5, 100).tolist())
    assert found[0] == found[2] != found[1]
    assert len(list(artefacts.store_root().glob("chroma-index/*/spec.json"))) == 2


def test_without_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "chromadb", None)
    missing = "chromadb is not installed: pip install 'mathir-harness[chroma]'"
    assert refusal(lambda: chroma.build(vectors(), tmp_path)) == missing
    assert BiEncoder("bi", "all-minilm-l6-v2", search="chroma").search == "chroma"
