"""Files of translation models: identity and damage."""

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
from harness.systems.crosslingual.seq2seq import MBart, Nllb, Seq2Seq

pytest_plugins = ["translation_models"]


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
