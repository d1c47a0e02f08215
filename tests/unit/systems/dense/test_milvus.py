"""Milvus Lite as a store of vectors: what it finds beside exact search, and what is refused."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from vector_tools import unit

from harness.errors import HarnessError
from harness.io.files import sha256_file
from harness.store import artefacts
from harness.systems.dense import ann, milvus
from harness.systems.dense.bi_encoder import BiEncoder
from harness.systems.dense.maxsim import Vectors
from harness.systems.dense.search import nearest, recall

NONE = f"milvus-lite is not installed: {milvus.GET}"


def vectors(count: int = 400, dimensions: int = 16, seed: int = 0) -> Vectors:
    """Single vectors of documents, of which every fifth has none."""
    there = np.arange(count) % 5 > 0
    start = np.concatenate(([0], np.cumsum(there)))
    values = unit(np.random.default_rng(seed), int(there.sum()), dimensions)
    names = np.array([f"d{number}" for number in range(count)], np.bytes_)
    return Vectors(names, start, values, np.where(there, start[:-1], -1))


def asked(count: int = 12, dimensions: int = 16) -> np.ndarray:
    return unit(np.random.default_rng(5), count, dimensions)


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): sha256_file(path) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("milvus_lite", reason=NONE)
    folder = tmp_path_factory.mktemp("milvus")
    milvus.build(vectors(), folder)
    return folder


def line(error: pytest.ExceptionInfo[HarnessError]) -> str:
    (found,) = error.value.lines
    return found


@pytest.mark.slow
def test_with_many_candidates_it_finds_what_exact_search_finds(store: Path) -> None:
    held, before = vectors(), files(store)
    exact = nearest(asked(), [held], k=10)
    with milvus.opened(store, held) as index, milvus.opened(store, held) as again:
        near = nearest(asked(), [held], k=10, indexes=[index], ef=400)
        every, few = index.documents(asked(), 500, 500), index.documents(asked(), 7, 1)
        rows = index.vectors(asked(), 5, 400)
        assert np.array_equal(again.documents(asked(), 500, 500), every)
    assert recall(near, exact).mean() >= 0.99
    for ours, best in zip(near, exact, strict=True):
        common = np.intersect1d(ours.rows, best.rows)
        assert ours.scores[np.isin(ours.rows, common)].tolist() == best.scores[np.isin(best.rows, common)].tolist()
    assert every.shape == (12, 500)
    assert (few >= 0).all()  # with fewer candidates than hits
    owners = every[0][every[0] >= 0]
    assert np.unique(owners).size == owners.size >= 300
    assert (owners % 5).all()
    assert np.array_equal(held.owner(rows), every[:, :5])
    assert files(store) == before


def test_a_store_in_several_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made twice, it is the same."""
    pytest.importorskip("milvus_lite", reason=NONE)
    held = vectors(900, 8)
    monkeypatch.setattr(milvus, "_SEGMENT", 1)
    monkeypatch.setattr(milvus, "_INSERTED", 300)
    made = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        milvus.build(held, tmp_path / name)
        made.append(files(tmp_path / name))
    assert made[0] == made[1]
    assert len([name for name in made[0] if name.endswith(".parquet")]) > 1
    with milvus.opened(tmp_path / "one", held) as index:
        near = nearest(asked(5, 8), [held], k=10, indexes=[index], ef=900)
    assert recall(near, nearest(asked(5, 8), [held], k=10)).mean() >= 0.99


@pytest.mark.slow
def test_the_graph_has_its_parameters(tmp_path: Path) -> None:
    """Few candidates and neighbours find less."""
    pytest.importorskip("milvus_lite", reason=NONE)
    held, queries = vectors(1500, 128), asked(40, 128)
    exact = nearest(queries, [held], k=10)
    found = {}
    for neighbours in (2, 16):
        (tmp_path / str(neighbours)).mkdir()
        milvus.build(held, tmp_path / str(neighbours), neighbours=neighbours, construction=neighbours * 10)
        with milvus.opened(tmp_path / str(neighbours), held) as index:
            for ef in (10, 1500):
                found[neighbours, ef] = recall(nearest(queries, [held], k=10, indexes=[index], ef=ef), exact).mean()
    assert found[16, 1500] > 0.99
    assert found[16, 10] < 0.9
    assert found[2, 10] < found[16, 10]
    for wrong in ({"neighbours": 1}, {"construction": 0}):
        with pytest.raises(HarnessError) as error:
            milvus.build(held, tmp_path, **wrong)
        assert line(error).startswith(f"key '{next(iter(wrong))}' is ")


def test_several_parts_are_searched_each_in_its_store(tmp_path: Path) -> None:
    pytest.importorskip("milvus_lite", reason=NONE)
    parts = [vectors(), vectors(seed=1)]
    with ExitStack() as stack:
        indexes = [stack.enter_context(milvus.kept(part, tmp_path / f"of{n}")) for n, part in enumerate(parts)]
        near = nearest(asked(), parts, [1, 0.5], k=5, indexes=indexes, ef=400)
    expected = nearest(asked(), parts, [1, 0.5], k=5)
    assert [hits.rows.tolist() for hits in near] == [hits.rows.tolist() for hits in expected]


def test_documents_without_vectors(tmp_path: Path) -> None:
    pytest.importorskip("milvus_lite", reason=NONE)
    none = replace(vectors(), document=np.full(400, -1))
    milvus.build(none, tmp_path)
    with milvus.opened(tmp_path, none) as index:
        assert (index.documents(asked(), 5, 10) == -1).all()


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
        with pytest.raises(HarnessError) as error, milvus.opened(store, other):
            pass
        made = "made by another model or of other documents"
        assert line(error) == f"{store}: a store of vectors of 16 dimensions, {made}; {remedy}"
    for broken in ("", "{"):
        (tmp_path / "about.json").write_text(broken)
        with pytest.raises(HarnessError) as error, milvus.opened(tmp_path, own):
            pass
        assert line(error).startswith(f"{tmp_path}: not a store of vectors: ")
    with pytest.raises(HarnessError) as error, milvus.opened(tmp_path / "none", own):
        pass
    assert line(error).startswith(f"{tmp_path / 'none'}: not a store of vectors: ")


def test_an_index_is_kept_and_a_damaged_one_is_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("milvus_lite", reason=NONE)
    found = []
    for name in ("one", "other", "one"):
        with milvus.kept(vectors(seed=len(name)), tmp_path / name) as index:
            found.append(index.documents(asked(), 5, 100).tolist())
    assert found[0] == found[2] != found[1]
    made = [artefact for artefact in artefacts.artefacts() if artefact.kind == "milvus-index"]
    assert len(made) == 2
    for artefact in made:
        (graph,) = artefact.path.rglob("*.idx")
        graph.write_bytes(b"damaged")
    with milvus.kept(vectors(seed=3), tmp_path / "one") as index:
        assert index.documents(asked(), 5, 100).tolist() == found[0]
    assert "rebuilding it" in capsys.readouterr().err


def test_a_damaged_store_outside_of_the_store(tmp_path: Path) -> None:
    pytest.importorskip("milvus_lite", reason=NONE)
    milvus.build(vectors(), tmp_path)
    (data,) = tmp_path.rglob("*.parquet")
    data.write_bytes(b"damaged")
    with pytest.raises(HarnessError) as error, milvus.opened(tmp_path, vectors()):
        pass
    assert line(error).startswith(f"{tmp_path}: ")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "milvus_lite", None)
    expected = "milvus-lite is not installed: pip install 'mathir-harness[milvus]'"
    with pytest.raises(HarnessError) as error:
        milvus.build(vectors(), tmp_path)
    assert line(error) == expected
    with pytest.raises(HarnessError) as error:
        ann.check("milvus")
    assert line(error) == expected
    with pytest.raises(HarnessError) as error, milvus.kept(vectors(), tmp_path):
        pass
    assert line(error) == expected
    assert BiEncoder("bi", "all-minilm-l6-v2", search="milvus").search == "milvus"
