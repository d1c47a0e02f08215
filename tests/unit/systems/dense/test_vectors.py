from __future__ import annotations

import socket
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refusal, refuses
from vector_tools import agree, documents, queries, unit

from harness.errors import HarnessError
from harness.io.files import sha256_file
from harness.store import artefacts
from harness.systems.dense import ann as adapters
from harness.systems.dense import chroma
from harness.systems.dense.bi_encoder import BiEncoder
from harness.systems.dense.maxsim import Floats32, Vectors, scores_many, stack
from harness.systems.dense.search import STRATEGIES, Hits, VectorQuery, first_stage, nearest, recall, search_vectors


@pytest.fixture(scope="module")
def corpus() -> Vectors:
    """300 documents of 0 to 20 vectors; every tenth has no single vector."""
    vectors = documents(np.random.default_rng(7).integers(0, 20, 300).tolist(), dimensions=16)
    return replace(vectors, document=np.where(np.arange(300) % 10 == 3, -1, vectors.document))


@pytest.fixture(scope="module")
def asked() -> list[VectorQuery]:
    return queries([16, 1, 5], dimensions=16)


def test_without_the_libraries(corpus: Vectors, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("faiss", "qdrant_client"):
        monkeypatch.setitem(sys.modules, name, None)
    message = r"^faiss-cpu is not installed: pip install 'mathir-harness\[ann\]'$"
    refuses(message, lambda: adapters.faiss_index(corpus))
    refuses(message, lambda: adapters.Faiss.load(tmp_path, corpus))
    refuses(r"^qdrant-client is not installed: pip install 'mathir-harness\[ann\]'$", adapters.connect)


# ---- FAISS ------------------------------------------------------------------------------------------------------


@pytest.fixture
def faiss() -> Any:  # noqa: ANN401
    return pytest.importorskip("faiss", reason="faiss is not installed")


@pytest.mark.slow
def test_graph_of_neighbours_is_the_same_every_time(corpus: Vectors, faiss: Any, tmp_path: Path) -> None:  # noqa: ANN401
    threads = faiss.omp_get_max_threads()
    for name in "ab":
        adapters.faiss_index(corpus).save(tmp_path / name)
    for file in ("every.faiss", "single.faiss"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert faiss.omp_get_max_threads() == threads


@pytest.mark.usefixtures("faiss")
def test_faiss_files(corpus: Vectors, asked: list[VectorQuery], tmp_path: Path) -> None:
    index = adapters.faiss_index(corpus)
    index.save(tmp_path)
    again = adapters.Faiss.load(tmp_path, corpus)
    assert np.array_equal(again.vectors(asked[0].values, 9, 800), index.vectors(asked[0].values, 9, 800))
    assert np.array_equal(again.documents(asked[0].values, 9, 800), index.documents(asked[0].values, 9, 800))
    refuses("an index of other vectors", lambda: adapters.Faiss.load(tmp_path, documents([2, 3], dimensions=16)))
    path = tmp_path / "every.faiss"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(HarnessError, match="not an index of vectors") as caught:
        adapters.Faiss.load(tmp_path, corpus)
    assert "\n" not in str(caught.value)
    refuses("not an index of vectors", lambda: adapters.Faiss.load(tmp_path / "none", corpus))


@pytest.mark.usefixtures("faiss")
def test_no_single_vectors(asked: list[VectorQuery]) -> None:
    vectors = documents([3, 4], dimensions=16)
    vectors = replace(vectors, document=np.full(2, -1))
    index = adapters.faiss_index(vectors)
    assert (index.documents(asked[0].values, 3, 800) == -1).all()
    assert search_vectors(asked, vectors, "single", "approximate", index=index)[0].rows.size == 0


def clustered(count: int, per: int, centres: int, seed: int = 3) -> tuple[Vectors, list[VectorQuery]]:
    """Documents of so many vectors each around some centres (0: anywhere), and queries drawn in the same way."""
    generator = np.random.default_rng(seed)
    middle = unit(generator, max(centres, 1), 16)

    def draw() -> Floats32:
        values = unit(generator, per, 16)
        if centres:
            values = middle[generator.integers(centres, size=per)] + np.float32(0.3) * values
        return np.asarray(values / np.linalg.norm(values, axis=1, keepdims=True), np.float32)

    vectors = stack((f"d{number}", draw(), 0) for number in range(count))
    return vectors, [VectorQuery(draw(), 0) for _ in range(5)]


@pytest.mark.usefixtures("faiss")
def test_ef_is_of_the_search_not_of_the_index(tmp_path: Path) -> None:
    vectors, asked = clustered(3000, 1, 0)
    adapters.faiss_index(vectors).save(tmp_path)
    loaded = adapters.Faiss.load(tmp_path, vectors)
    exact = search_vectors(asked, vectors, "single", k=5)
    shares = [
        recall(search_vectors(asked, vectors, "single", "approximate", k=5, ef=ef, index=loaded), exact).mean()
        for ef in (5, 100, 3000)
    ]
    assert shares[0] < shares[1] <= shares[2]
    assert shares[2] >= 0.999


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        (("single", 10), (1000, 128)),
        (("single", 1000), (1000, 2000)),
        (("single", 1000, 7, 9), (7, 9)),
        (("rerank", 10), (1000, 2000)),
        (("rerank", 1000, 5000), (5000, 10000)),
        (("colbert", 10), (1000, 1000)),
        (("colbert", 1000), (2000, 2000)),
        (("colbert", 1000, 20), (20, 2000)),
    ],
)
def test_first_stage_grows_with_what_is_asked_for(given: tuple[Any, ...], asked: tuple[int, int]) -> None:
    assert first_stage(*given) == asked


def test_recall_is_the_share_of_the_exact_hits() -> None:
    def hits(*rows: int) -> Hits:
        return Hits(np.array(rows, np.int64), np.zeros(len(rows), np.float32))

    found = [hits(1, 2, 9, 8), hits(), hits(3), hits(2, 1)]
    exact = [hits(1, 2, 3, 4), hits(1, 2), hits(), hits(1, 2)]
    assert recall(found, exact).tolist() == [0.5, 0, 1, 1]


# ---- Qdrant -----------------------------------------------------------------------------------------------------


def embedded() -> Any:  # noqa: ANN401
    """The client's own store in memory, which answers as a server does, always exactly."""
    return pytest.importorskip("qdrant_client", reason="qdrant-client is not installed").QdrantClient(":memory:")


@pytest.fixture(scope="module")
def collection(corpus: Vectors) -> adapters.Qdrant:
    pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
    return adapters.upload(embedded(), "posts", corpus)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["exact", "approximate"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_six_strategies(
    corpus: Vectors, asked: list[VectorQuery], collection: adapters.Qdrant, strategy: str, precision: str
) -> None:
    mean = precision == "exact"
    ours = search_vectors(asked, corpus, strategy, k=10, depth=30, mean=mean)
    theirs = adapters.qdrant_search(asked, collection, strategy, precision, k=10, depth=30, mean=mean)
    for a, b in zip(ours, theirs, strict=True):  # the embedded client is exact in both
        assert np.array_equal(a.rows, b.rows)
        assert np.allclose(a.scores, b.scores, rtol=0, atol=1e-5)


def test_search_parameters_reach_the_server(
    asked: list[VectorQuery], collection: adapters.Qdrant, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[dict[str, Any]] = []
    plain = collection.client.query_points

    def record(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        sent.append(kwargs)
        return plain(*args, **kwargs)

    monkeypatch.setattr(collection.client, "query_points", record)
    for strategy in STRATEGIES:
        for precision in ("exact", "approximate"):
            adapters.qdrant_search(asked[:1], collection, strategy, precision, k=3, depth=20, ef=77)
    first = [request["prefetch"].params if "prefetch" in request else request["search_params"] for request in sent]
    assert [(params.exact, params.hnsw_ef) for params in first] == [(True, None), (False, 77)] * 3
    assert [request["using"] for request in sent] == ["doc", "doc", "all", "all", "all", "all"]
    assert [request["prefetch"].limit for request in sent if "prefetch" in request] == [20, 20]


def test_formulas() -> None:
    pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
    generator = np.random.default_rng(2)
    parts = [(f"f{n}", unit(generator, 1, 16), 0) for n in range(90)]
    vectors = stack(parts, context=[f"p{n // 9}" for n in range(90)])
    collection = adapters.upload(embedded(), "formulas", vectors, formulas=True)
    asked = [VectorQuery(unit(generator, 1, 16), 0) for _ in range(4)]
    found = adapters.qdrant_search(asked, collection, "single", k=12)
    for query, ours, theirs in zip(asked, search_vectors(asked, vectors, "single", k=12), found, strict=True):
        agree(theirs, (vectors.values @ query.values[0]).astype(float), vectors, 12)
        assert np.array_equal(ours.rows, theirs.rows)
        assert np.allclose(scores_many([query.values], vectors)[0][theirs.rows], theirs.scores, atol=1e-6)
    (point,) = collection.client.retrieve("formulas", [31])
    assert point.payload == {"formula": "f31", "post": "p3"}
    refuses("'strategy' is 'colbert'", lambda: adapters.qdrant_search(asked, collection, "colbert"))


def test_ties_in_the_protocols_order(asked: list[VectorQuery]) -> None:
    pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
    values = unit(np.random.default_rng(0), 3, 16)
    vectors = stack((f"d{n}", values, 0) for n in (2, 0, 3, 1))
    collection = adapters.upload(embedded(), "posts", vectors)
    assert adapters.qdrant_search(asked[:1], collection)[0].rows.tolist() == [2, 0, 3, 1]


def test_vectors_that_the_server_has_are_not_uploaded_again(
    asked: list[VectorQuery], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
    client, vectors = embedded(), documents([2] * 5, dimensions=16)
    adapters.upload(client, "cut", documents([2] * 3, dimensions=16))
    assert len(adapters.qdrant_search(asked, adapters.kept_collection(client, "cut", vectors))[0].rows) == 5
    monkeypatch.setattr(client, "upload_points", None)
    assert len(adapters.qdrant_search(asked, adapters.kept_collection(client, "cut", vectors))[0].rows) == 5


@pytest.mark.slow
def test_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(HarnessError, match=f"^Qdrant at {url}: .*is it running") as caught:
            adapters.connect(url)
        assert "\n" not in str(caught.value)
        monkeypatch.setenv("HARNESS_QDRANT", url)
        refuses(f"^Qdrant at {url}: ", lambda: adapters.check("qdrant"))
    refuses(r"^Qdrant at not a url: ", lambda: adapters.connect("not a url"))
    monkeypatch.delenv("HARNESS_QDRANT")
    refuses(r"^no Qdrant server: set HARNESS_QDRANT to the address of one", adapters.connect)


def test_qdrant_refuses(corpus: Vectors, asked: list[VectorQuery], collection: adapters.Qdrant) -> None:
    with pytest.raises(HarnessError, match="one vector and a post for each formula"):
        adapters.upload(collection.client, "f", corpus, formulas=True)
    with pytest.raises(HarnessError, match="query 1 has no vector for the whole query"):
        adapters.qdrant_search([VectorQuery(asked[0].values)], collection, "rerank")
    refuses("vector of 16 dimensions", lambda: adapters.qdrant_search(queries([2], dimensions=8), collection))
    refuses("'ef' is 0", lambda: adapters.qdrant_search(asked, collection, ef=0))


# ---- chroma as a store of vectors -------------------------------------------------------------------------------


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


@pytest.mark.slow
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
