"""Files of translation models: identity, damage, and the shapes of the published checkpoints."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import translation_models as tiny
from lexical_tools import message
from refusals import refuses
from translation_models import KINDS, LENGTH, TEXTS

from harness.errors import HarnessError
from harness.io import config
from harness.systems import states
from harness.systems.crosslingual import checkpoint
from harness.systems.crosslingual.seq2seq import MBart, Nllb, Seq2Seq

pytest_plugins = ["translation_fixtures"]


def test_identity_is_by_content_and_settings(make: Callable[..., Seq2Seq], tmp_path: Path) -> None:
    translator = make()
    identity = translator.identity()
    assert json.loads(json.dumps(identity)) == identity
    assert identity["files"]
    assert identity["arithmetic"] == ["cpu", "float32"]
    assert identity["versions"]["transformers"]
    assert make(batch=1, tokens=5).identity() == identity
    for change in ({"beams": 2}, {"length": 30}, {"overlong": "apart"}, {"precision": "bfloat16"}):
        assert make(**change).identity() != identity
    kind = next(kind for kind, cls in KINDS.items() if isinstance(translator, cls))
    other = tiny.save(tmp_path / "other", kind, seed=8)
    assert make(model=str(other)).identity()["files"] != identity["files"]
    again = tiny.save(tmp_path / "again", kind)
    assert make(model=str(again)).identity() == identity


@pytest.mark.slow
def test_a_model_is_read_once(make: Callable[..., Seq2Seq], monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of topics come one after another; each has the language of its own."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    first = [make().translate(TEXTS, source, "eng") for source in ("hrv", "ces")]
    for auto in (AutoTokenizer, AutoModelForSeq2SeqLM):
        monkeypatch.setattr(auto, "from_pretrained", lambda *_, **__: pytest.fail("is read again"))
    assert [make().translate(TEXTS, source, "eng") for source in ("hrv", "ces")] == first


def test_what_is_not_installed(make: Callable[..., Seq2Seq], monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "transformers" else find(name))
    line = "transformers is not installed: pip install 'mathir-harness[translation]'"
    assert make().missing() == [line]
    for name in ("cross-lingual-nllb", "cross-lingual-mbart"):
        assert states.missing_modules(states.nested_configurations(config.load("system", name)[0])) == line
    refuses(r"^transformers is not installed: pip install", lambda: make().translate(["w1"], "hrv", "eng"))


def test_another_kind_of_model_is_refused(folders: dict[str, Path]) -> None:
    for cls, kind, found, wanted in ((Nllb, "mbart", "mbart", "m2m_100"), (MBart, "nllb", "m2m_100", "mbart")):
        translator = cls(model=str(folders[kind]), length=12, device="cpu")
        line = message(lambda: translator.translate(["w1"], "hrv", "eng"))  # noqa: B023
        assert line == f"model {folders[kind]}: its config.json says {found!r}, expected {wanted!r}"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("model.decoder.layers.0.fc1.weight", "its weights lack '{}', which its config.json asks for"),
        ("model.decoder.layers.1.fc2.weight", "its weights '{}' have numbers that are not finite$"),
    ],
)
def test_weights_that_lack_something_or_are_no_numbers_are_refused(tmp_path: Path, name: str, said: str) -> None:
    from safetensors.torch import load_file, save_file

    folder = tiny.save(tmp_path / "damaged", "nllb")
    tensors = load_file(folder / "model.safetensors")
    if "lack" in said:
        del tensors[name]
    else:
        tensors[name][3, 5] = float("nan")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    refuses(said.format(name), lambda: Nllb(model=str(folder), length=12, device="cpu").translate(["w1"], "hrv", "eng"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", r"generation_config.json: Expecting property name"),
        ("[]", r"generation_config.json: expected keys and values$"),
        ('{"forced_bos_token_id": "en"}', r"key 'forced_bos_token_id' is 'en', expected a number$"),
    ],
)
def test_a_damaged_configuration_of_the_search_is_one_line(tmp_path: Path, content: str, said: str) -> None:
    folder = tiny.save(tmp_path / "damaged", "nllb")
    (folder / "generation_config.json").write_text(content, encoding="utf-8")
    translator = Nllb(model=str(folder), length=12, device="cpu")
    refuses(said, lambda: translator.translate(["w1"], "hrv", "eng"))


@pytest.mark.slow
@pytest.mark.parametrize("keys", [{"max_new_tokens": 2}, {"num_return_sequences": 2, "num_beams": 2}])
def test_a_model_s_own_file_has_no_say_in_lengths_and_numbers(tmp_path: Path, keys: dict[str, Any]) -> None:
    settings: dict[str, Any] = {"length": LENGTH, "beams": 2, "device": "cpu"}
    plain, other = tiny.save(tmp_path / "plain", "nllb"), tiny.save(tmp_path / "other", "nllb", generation=keys)
    expected = Nllb(model=str(plain), **settings).translate(TEXTS, "hrv", "eng")
    assert any(expected)
    assert Nllb(model=str(other), **settings).translate(TEXTS, "hrv", "eng") == expected


def test_a_length_beyond_the_positions_is_refused(make: Callable[..., Seq2Seq]) -> None:
    with pytest.raises(HarnessError, match=r"key 'length' is 65, and model .* writes 64 word pieces at most"):
        make(length=65).translate(["w1"], "hrv", "eng")


def test_a_model_that_is_not_here() -> None:
    translator = Nllb(model="nobody/nothing-here")
    assert translator.missing() == ["needs the model nobody/nothing-here: harness fetch nobody/nothing-here"]
    refuses(r"^needs the model nobody/nothing-here", lambda: translator.translate(["w1"], "hrv", "eng"))


def test_a_tokenizer_that_needs_sentencepiece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny.save(tmp_path / "pieces", "mbart")
    (folder / "tokenizer.json").rename(folder / "sentencepiece.bpe.model")
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "sentencepiece" else find(name))
    line = (
        f"sentencepiece is not installed, and {folder} has no tokenizer.json: pip install 'mathir-harness[translation]'"
    )
    assert MBart(model=str(folder)).missing() == [line]
    with pytest.raises(HarnessError, match=r"^sentencepiece is not installed"):
        MBart(model=str(folder), length=12, device="cpu").translate(["w1"], "hrv", "eng")


def test_memory_that_is_not_enough(make: Callable[..., Seq2Seq], monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from transformers import M2M100ForConditionalGeneration, MBartForConditionalGeneration

    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate")

    for cls in (M2M100ForConditionalGeneration, MBartForConditionalGeneration):
        monkeypatch.setattr(cls, "generate", full)
    line = message(lambda: make(beams=2).translate(["w1", "w2 w3"], "hrv", "eng"))
    assert "2 texts of " in line
    assert line.endswith(
        "word pieces with 2 beams do not fit into the memory of the device cpu; lower the key 'tokens'"
    )


PUBLISHED = {
    "nllb-200-distilled-600M": (1024, 12, 4096, 615_073_792),
    "nllb-200-distilled-1.3B": (1024, 24, 8192, 1_370_638_336),
    "nllb-200-1.3B": (1024, 24, 8192, 1_370_638_336),
    "nllb-200-3.3B": (2048, 24, 8192, 3_344_863_232),
    "mbart-large-50-many-to-many-mmt": (1024, 12, 4096, 610_879_488),
    "mbart-large-50-many-to-one-mmt": (1024, 12, 4096, 610_879_488),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_config_of_each_published_size_is_accepted(name: str, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForSeq2SeqLM

    width, layers, inner, parameters = PUBLISHED[name]
    cls: type[Seq2Seq] = MBart if name.startswith("mbart") else Nllb
    classes = "MBartForConditionalGeneration" if cls is MBart else "M2M100ForConditionalGeneration"
    sides = ("encoder", "decoder")
    config = {
        **{"architectures": [classes], "model_type": cls.kind, "vocab_size": 250054 if cls is MBart else 256206},
        **{"d_model": width, "num_hidden_layers": layers, "max_position_embeddings": 1024, "max_length": 200},
        **{f"{side}_layers": layers for side in sides},
        **{f"{side}_ffn_dim": inner for side in sides},
        **{f"{side}_attention_heads": 16 for side in sides},
        **{"activation_function": "relu", "scale_embedding": True, "is_encoder_decoder": True},
        **{"tie_word_embeddings": True, "torch_dtype": "float32", "decoder_start_token_id": 2},
        **{"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2},
        **({"num_beams": 5, "early_stopping": True, "forced_eos_token_id": 2} if cls is MBart else {}),
        **({"forced_bos_token_id": 250004} if "many-to-one" in name else {}),
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    accepted = checkpoint.architecture(tmp_path, cls.kind, name)
    assert cls(model=name).length <= accepted.max_position_embeddings
    auto: Any = AutoModelForSeq2SeqLM
    with torch.device("meta"):
        model = auto.from_config(accepted)
    assert type(model).__name__ == classes
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
