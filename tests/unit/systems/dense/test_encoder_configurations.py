"""A model's own configuration decides: vectors and rankings are those of sentence-transformers' own functions."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import encoder_models
import numpy as np
import pytest

from harness.errors import HarnessError
from harness.systems.dense import encoder
from harness.systems.dense.engines import Settings

pytest.importorskip("sentence_transformers")
TEXTS = [f"w{n} w{(7 * n) % 50} w{(3 * n + 1) % 90}" for n in range(24)] + ["w1"]
QUERIES = [f"w{n} w{(5 * n) % 70}" for n in range(6)]
PROMPTS = {"query": "w90 w91 ", "document": "w92 "}


def configured(folder: Path, **more: object) -> Path:
    path = folder / "config_sentence_transformers.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | more))
    return folder


def routed(tmp_path: Path, documents: str = "transformer") -> Path:
    """A model of two transformers, or of a transformer for documents and word vectors for queries."""
    from sentence_transformers import SentenceTransformer

    models: Any = importlib.import_module("sentence_transformers.models")
    sides = [encoder_models.save(tmp_path / kind, kind) for kind in ("bert", "roberta")]
    one, other = (SentenceTransformer(str(side), device="cpu") for side in sides)
    query: list[Any] = list(one)
    if documents == "static":
        words = models.StaticEmbedding(encoder_models.tokenizer("bert").backend_tokenizer, embedding_dim=32)
        query = [words]
    SentenceTransformer(modules=[models.Router.for_query_document(query, list(other))]).save(str(tmp_path / "routed"))
    return tmp_path / "routed"


def dense(tmp_path: Path) -> Path:
    from sentence_transformers import SentenceTransformer

    models: Any = importlib.import_module("sentence_transformers.models")
    base = SentenceTransformer(str(encoder_models.save(tmp_path / "base", normalise=False)), device="cpu")
    SentenceTransformer(modules=[*base, models.Dense(32, 8)]).save(str(tmp_path / "dense"))
    return tmp_path / "dense"


MODELS: dict[str, Any] = {
    "cosine by default": lambda at: encoder_models.save(at / "m", normalise=False),
    "cosine, normalised": lambda at: encoder_models.save(at / "m"),
    "cosine, said": lambda at: configured(encoder_models.save(at / "m", normalise=False), similarity_fn_name="cosine"),
    "dot": lambda at: configured(encoder_models.save(at / "m", normalise=False), similarity_fn_name="dot"),
    "dot of unit vectors": lambda at: configured(encoder_models.save(at / "m"), similarity_fn_name="dot"),
    "first dimensions": lambda at: configured(encoder_models.save(at / "m"), truncate_dim=12),
    "first dimensions, dot": lambda at: configured(
        encoder_models.save(at / "m", normalise=False), truncate_dim=12, similarity_fn_name="dot"
    ),
    "prompts": lambda at: encoder_models.save(at / "m", "roberta", prompts=PROMPTS),
    "an empty prompt beside a default": lambda at: configured(
        encoder_models.save(at / "m"), prompts={"query": "w90 ", "document": ""}, default_prompt_name="query"
    ),
    "passages": lambda at: encoder_models.save(at / "m", prompts={"query": "w90 ", "passage": "w91 "}),
    "pooling of the first piece": lambda at: encoder_models.save(at / "m", pooling="cls", normalise=False),
    "a dense layer": dense,
    "a router": routed,
    "a router of words and a transformer": lambda at: routed(at, "static"),
}


@pytest.mark.parametrize("kind", MODELS)
def test_vectors_and_ranking_are_the_librarys(tmp_path: Path, kind: str) -> None:
    from sentence_transformers import SentenceTransformer

    folder = MODELS[kind](tmp_path)
    library = SentenceTransformer(str(folder), device="cpu")
    ours = encoder.load(str(folder))
    sides = [(QUERIES, "query", library.encode_query), (TEXTS, "document", library.encode_document)]
    found, expected = [], []
    for texts, role, encode in sides:
        found.append(ours.encode(texts, role))
        expected.append(encode(texts))
        cosines = (expected[-1] * found[-1]).sum(1) / np.linalg.norm(expected[-1], axis=1)
        scale = np.linalg.norm(found[-1], axis=1)
        assert found[-1].shape == expected[-1].shape
        np.testing.assert_allclose(cosines / scale, 1, atol=2e-6)
        if library.similarity_fn_name == "dot":
            np.testing.assert_allclose(found[-1], expected[-1], atol=3e-6)
    similar = library.similarity(expected[0], expected[1]).numpy()
    np.testing.assert_allclose(found[0] @ found[1].T, similar, atol=1e-5)
    assert ours.described["dimensions"] == found[0].shape[1]
    assert ours.described["prefixes"] == {
        role: (library.prompts.get(name) or "")
        for role, name in (("query", "query"), ("document", "document" if "document" in library.prompts else "passage"))
    }


@pytest.mark.parametrize("similarity", ["euclidean", "manhattan"])
def test_a_distance_is_refused_unless_it_is_replaced(tmp_path: Path, similarity: str) -> None:
    folder = configured(encoder_models.save(tmp_path / "m", normalise=False), similarity_fn_name=similarity)
    with pytest.raises(HarnessError, match=f"its files say similarity '{similarity}', .* set the key 'normalise'"):
        encoder.load(str(folder))
    assert np.linalg.norm(encoder.load(str(folder), Settings(normalise=True)).encode(TEXTS)[0]) == pytest.approx(1)


@pytest.mark.parametrize("settings", [{"pooling": "cls"}, {"length": 8}, {"windows": True}, {"eos": True}])
def test_what_a_router_decides_is_not_overridden(tmp_path: Path, settings: dict[str, Any]) -> None:
    folder = routed(tmp_path)
    with pytest.raises(HarnessError, match=f"key '{next(iter(settings))}': model .* has its own, by its module Router"):
        encoder.load(str(folder), Settings(**settings))
