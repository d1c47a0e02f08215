"""Learned sparse retrieval over tiny models: weights as the library's, exact search, statistics, faults."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoder_models import save
from lexical_tools import rows_corpus
from refusals import refuses
from token_models import save_inference_free, save_splade

from harness.collections.corpus import Corpus
from harness.data.topics import Topic, Topics
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.io import kernels
from harness.store import artefacts
from harness.store.cost import measuring
from harness.systems.base import Request
from harness.systems.build import load_system
from harness.systems.dense import models, sparse_vectors
from harness.systems.dense.sparse_encoder import SparseEncoder
from harness.systems.dense.sparse_vectors import SparseSettings, load_sparse_model

if lines := sparse_vectors.missing():
    pytest.skip(lines[0], allow_module_level=True)

TOPICS = Topics((Topic("T1", "w1 w2", "w3"), Topic("T2", "w40 w41"), Topic("T3", "", "")))
ASKED = ["w1 w2 w3", "w40 w41"]


@pytest.fixture(scope="module")
def splade(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_splade(tmp_path_factory.mktemp("sparse") / "splade")


@pytest.fixture(scope="module")
def free(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_inference_free(tmp_path_factory.mktemp("sparse") / "free")


def rows(count: int = 300) -> list[dict[str, str]]:
    """Documents with repeated texts and an empty one."""
    rng = np.random.default_rng(5)
    texts = [" ".join(f"w{word}" for word in rng.integers(0, 98, rng.integers(1, 25))) for _ in range(count)]
    return [{"id": f"d{n:03}", "body": "" if n == 5 else texts[n % 250]} for n in range(count)]


def corpus_of(tmp_path: Path) -> Corpus:
    return rows_corpus(tmp_path / "made.jsonl", rows())


def run(tmp_path: Path, model: Path, *, pool: Any = None, **keys: Any) -> Run:  # noqa: ANN401
    system = SparseEncoder("sparse", str(model), device="cpu", **keys)
    return system(Request(TOPICS, corpus_of(tmp_path), tmp_path / "workspace", pool=pool))


def dense(folder: Path, texts: Sequence[str], role: str, **more: Any) -> np.ndarray[Any, Any]:  # noqa: ANN401
    """The library's vectors, shape (texts, dimensions)."""
    import sentence_transformers

    loaded = sentence_transformers.SparseEncoder(str(folder), device="cpu")
    encode = loaded.encode_query if role == "query" else loaded.encode_document
    return np.asarray(encode(list(texts), **more).to_dense().numpy())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["splade", "free"])
def test_weights_are_the_library_s(name: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(name)
    some = ["w1 w2 w3", "w0 w4", "w5 w6 " * 20, "w9 w9"]
    for role in ("query", "document"):
        found = load_sparse_model(str(folder)).encoded(some, role)
        assert found.cut.tolist() == [False, False, True, False]
        wanted = dense(folder, some, role)
        got = np.zeros_like(wanted)
        for row, (begin, end) in enumerate(zip(found.start[:-1], found.start[1:], strict=True)):
            got[row, found.dimension[begin:end]] = found.weight[begin:end]
        np.testing.assert_allclose(got, wanted, atol=1e-5)
        assert np.count_nonzero(wanted) < wanted.size * 0.9
    few = load_sparse_model(str(folder), SparseSettings(active=5)).encoded(some, "document")
    assert np.diff(few.start).tolist() == [5, 5, 5, 5]


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("name", ["splade", "free"])
def test_search_is_brute_force(
    tmp_path: Path, name: str, compiled: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first documents of an inner product with every document, ties by id."""
    folder = request.getfixturevalue(name)
    if not compiled:
        monkeypatch.setattr("harness.systems.lexical.postings.kernel", lambda _: None)
    elif kernels.kernel("harness_best") is None:
        pytest.skip("no compiled kernels")
    found = run(tmp_path, folder, depth=20).to_dict()
    index = sorted((artefacts.store_root() / "sparse-index").glob("*/doc.npy"))
    assert index
    documents = rows()
    worded = [row for row in documents if row["body"]]
    loaded = load_sparse_model(str(folder))
    read, asked = loaded.encoded([row["body"] for row in worded], "document"), loaded.encoded(ASKED, "query")
    assert found.keys() == {"T1", "T2"}
    for at, topic in enumerate(("T1", "T2")):
        query = np.zeros(loaded.dimensions)
        query[asked.dimension[asked.start[at] : asked.start[at + 1]]] = asked.weight[
            asked.start[at] : asked.start[at + 1]
        ]
        products = np.add.reduceat(query[read.dimension] * read.weight, read.start[:-1]).astype(np.float32)
        order = np.lexsort((-np.arange(len(worded)), -products))  # ids ascend with the number
        best = {worded[row]["id"]: float(products[row]) for row in order.tolist()}
        assert found[topic] == pytest.approx(dict(list(best.items())[:20]), rel=1e-5)


@pytest.mark.slow
def test_pool_statistics_and_configuration(tmp_path: Path, splade: Path) -> None:
    every = run(tmp_path, splade).to_dict()
    pool = {"T1": frozenset({"d005", "d010", "d011", "unknown"})}
    ranked = run(tmp_path, splade, pool=pool).to_dict()
    assert ranked == {"T1": {doc: every["T1"].get(doc, 0.0) for doc in ("d005", "d010", "d011")}}
    built = load_system("sparse-encoder", model=str(splade), device="cpu", depth=3, query_active=4)
    with measuring() as meter:
        found = built(Request(TOPICS, corpus_of(tmp_path), tmp_path / "workspace"))
    assert (found.name, len(found)) == ("sparse-encoder", 6)
    assert meter.notes["sparse-encoder: non-zeros of topics"] == {
        "topics": 2,
        "non-zeros": 8,
        "mean": 4.0,
        "median": 4.0,
        "most": 4,
    }
    said: Any = meter.notes["sparse-encoder: non-zeros of documents"]
    assert said["documents"] == 300
    assert said["non-zeros"] == np.count_nonzero(dense(splade, [row["body"] for row in rows() if row["body"]], "doc"))
    cut: Any = meter.notes["sparse-encoder: texts cut, documents"]
    assert cut["cut"] == sum(len(row["body"].split()) > 14 for row in rows())


def test_other_models_are_refused(tmp_path: Path, free: Path) -> None:
    single = str(save(tmp_path / "single"))
    refuses("is not a sparse encoder; expected a model of word pieces", lambda: load_sparse_model(single))
    assert models.transformer_folder(free).name == "document_0_MLMTransformer"
    with pytest.raises(HarnessError, match=r"key 'length' is 99, and model .* reads 16 word pieces at most"):
        load_sparse_model(str(free), SparseSettings(length=99))
