"""NLLB-200 and mBART-50: tiny models of the real classes, and the shapes of the real checkpoints."""

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
from harness.io.checks import typed
from harness.systems import states
from harness.systems.crosslingual import seq2seq
from harness.systems.crosslingual.seq2seq import MBart, Nllb, Seq2Seq

pytest_plugins = ["translation_models"]


def tokenizer(translator: Seq2Seq) -> Any:  # noqa: ANN401
    from transformers import AutoTokenizer

    auto: Any = AutoTokenizer
    return auto.from_pretrained(translator.model)


# ---- one model --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("beams", [1, 4])
def test_a_translation_is_that_of_the_library_alone(make: Callable[..., Seq2Seq], beams: int) -> None:
    """Text by text, without padding, with the library's own calls."""
    from transformers import AutoModelForSeq2SeqLM

    translator = make(beams=beams)
    auto: Any = AutoModelForSeq2SeqLM
    model, own = auto.from_pretrained(translator.model).eval(), tokenizer(translator)
    own.src_lang = translator.languages["hrv"]
    target = own.convert_tokens_to_ids(translator.languages["eng"])
    expected = []
    for text in TEXTS:
        ids = model.generate(
            **own(text, return_tensors="pt"), forced_bos_token_id=target, num_beams=beams, max_length=LENGTH
        )
        expected += own.batch_decode(ids, skip_special_tokens=True)
    assert translator.translate(TEXTS, "hrv", "eng") == expected
    assert len(set(expected)) > 1


@pytest.mark.slow
def test_the_first_word_piece_is_the_targets_and_the_source_stands_before_the_text(
    make: Callable[..., Seq2Seq], generated: list[tuple[dict[str, Any], Any]]
) -> None:
    translator = make(beams=3)
    own = tokenizer(translator)
    outputs = []
    for source, target in (("hrv", "eng"), ("ces", "eng"), ("eng", "pes")):
        generated.clear()
        outputs.append(translator.translate(TEXTS[:2], source, target))
        ((given, out),) = generated
        assert given["num_beams"] == 3
        codes = own.convert_ids_to_tokens(out[:, 1].tolist())
        assert codes == [translator.languages[target]] * 2
        assert own.convert_ids_to_tokens(given["input_ids"][:, 0].tolist()) == [translator.languages[source]] * 2
        assert {own.eos_token_id} <= set(given["input_ids"][0].tolist())
    assert outputs[0] != outputs[1] != outputs[2] != outputs[0]


def test_blank_texts_and_texts_that_come_twice(
    make: Callable[..., Seq2Seq], generated: list[tuple[dict[str, Any], Any]]
) -> None:
    translator = make()
    assert translator.translate([], "hrv", "eng") == []
    assert generated == []
    out = translator.translate(["w1", "", "w2", "w1"], "hrv", "eng")
    assert out[0] == out[3]
    assert generated[0][0]["input_ids"].shape[0] == 3  # an empty text is asked for too, as any other


# ---- long texts -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_long_text_is_taken_apart_at_blanks(
    make: Callable[..., Seq2Seq], generated: list[tuple[dict[str, Any], Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """More than the model has positions for; every word is given, in its order, and no formula or word is cut."""
    translator = make(overlong="apart", length=tiny.POSITIONS)
    text = " ".join([*(tiny.word(number % tiny.WORDS) for number in range(200)), "$w1 + w2$  QZ1"])
    own = tokenizer(translator)
    (out,) = translator.translate([text], "hrv", "eng")
    first = own(text, add_special_tokens=False)["input_ids"]
    assert len(first) > 3 * tiny.POSITIONS
    assert all(given["input_ids"].shape[1] <= tiny.POSITIONS for given, _ in generated)
    assert out
    assert "positions" not in capsys.readouterr().err
    parts = [own.decode(row, skip_special_tokens=True) for given, _ in generated for row in given["input_ids"].tolist()]
    words = {word for part in parts for word in part.split()}
    assert {tiny.word(number) for number in range(tiny.WORDS)} <= words
    # The parts of a text are translated as texts of their own.
    before, blank, after = "w1 w2 w3 w4", "  ", "w5 w6 w7 w8"
    short = make(overlong="apart", length=9)
    assert short.translate([before + blank + after], "hrv", "eng") == [
        short.translate([before], "hrv", "eng")[0] + blank + short.translate([after], "hrv", "eng")[0]
    ]


def test_what_cannot_be_taken_apart_is_left_and_told(
    make: Callable[..., Seq2Seq], capsys: pytest.CaptureFixture[str], generated: list[tuple[dict[str, Any], Any]]
) -> None:
    translator = make(overlong="apart", length=16)
    formula = "$" + "w1 " * 40 + "$"
    assert translator.translate([formula], "hrv", "eng") == [formula]
    assert generated == []
    line = "1 text of more than 16 word pieces without a blank, and left untranslated"
    assert line in capsys.readouterr().err


def test_a_text_may_be_cut_as_the_library_cuts(
    make: Callable[..., Seq2Seq], capsys: pytest.CaptureFixture[str], generated: list[tuple[dict[str, Any], Any]]
) -> None:
    translator = make(length=12)
    text = " ".join(tiny.word(number % tiny.WORDS) for number in range(200))
    translator.translate([text], "hrv", "eng")
    ((given, out),) = generated
    own = tokenizer(translator)
    row = given["input_ids"][0].tolist()
    own.src_lang = translator.languages["hrv"]
    assert row == [*own(text)["input_ids"][: tiny.POSITIONS - 1], own.eos_token_id]
    assert len(row) == tiny.POSITIONS
    assert out.shape[1] <= 12
    said = capsys.readouterr().err
    assert f"1 text longer than the {tiny.POSITIONS} word pieces that it reads, and cut" in said


def test_a_translation_without_an_end_is_told(make: Callable[..., Seq2Seq], capsys: pytest.CaptureFixture[str]) -> None:
    translator = make(length=8)
    translator.translate(TEXTS, "hrv", "eng")
    assert "with a translation that does not end within 8 word pieces" in capsys.readouterr().err


# ---- languages --------------------------------------------------------------------------------------------------


def test_an_unknown_language_names_the_known_ones(make: Callable[..., Seq2Seq]) -> None:
    translator = make()
    for source, target, verb in (("xxx", "eng", "reads"), ("eng", "xxx", "writes")):
        line = message(lambda: translator.translate(["w1"], source, target))  # noqa: B023
        assert line.startswith(f"translator {translator.name}: {verb} no language 'xxx'; known: afr, ")
        assert ", hrv, " in line


def test_codes_of_the_papers_languages() -> None:
    papers = ("eng", "spa", "hrv", "ces", "pes", "hin", "npi")
    assert [Nllb().languages[code] for code in papers] == [
        "eng_Latn", "spa_Latn", "hrv_Latn", "ces_Latn", "pes_Arab", "hin_Deva", "npi_Deva",
    ]  # fmt: skip
    assert [MBart().languages[code] for code in papers] == [
        "en_XX", "es_XX", "hr_HR", "cs_CZ", "fa_IR", "hi_IN", "ne_NP",
    ]  # fmt: skip


def test_every_code_is_one_of_the_real_tokenizers() -> None:
    from transformers.models.mbart50 import tokenization_mbart50
    from transformers.models.nllb import tokenization_nllb

    theirs: Any = tokenization_nllb
    assert set(Nllb().languages.values()) <= set(theirs.FAIRSEQ_LANGUAGE_CODES)
    theirs = tokenization_mbart50
    assert set(MBart().languages.values()) == set(theirs.FAIRSEQ_LANGUAGE_CODES)


def test_related_languages_are_read_and_not_written(folders: dict[str, Path]) -> None:
    translator = MBart(model=str(folders["mbart"]), beams=1, length=12, overlong="cut", device="cpu")
    assert translator.translate(TEXTS, "slk", "eng") == translator.translate(TEXTS, "ces", "eng")
    assert translator.identity()["related"] == {"cat": "es_XX", "kan": "hi_IN", "pan": "hi_IN", "slk": "cs_CZ"}
    assert "slk as cs_CZ" in translator.notes()[0]
    assert Nllb(model=str(folders["nllb"])).notes() == ()
    refuses("writes no language 'slk'", lambda: translator.translate(TEXTS, "ces", "slk"))


def test_many_to_one_writes_english_alone(tmp_path: Path, generated: list[tuple[dict[str, Any], Any]]) -> None:
    folder = tiny.save(tmp_path / "many-to-one", "mbart", only="en_XX")
    translator = MBart(model=str(folder), beams=1, length=12, overlong="cut", device="cpu")
    with pytest.raises(HarnessError) as caught:
        translator.translate(["w1"], "eng", "hrv")
    assert list(caught.value.lines) == [
        f"model {folder} writes en_XX alone, and 'hrv' is hr_HR; take a model that writes many languages, such as "
        "mbart-large-50-many-to-many-mmt"
    ]
    assert generated == []
    translator.translate(["w1"], "hrv", "eng")
    assert tokenizer(translator).convert_ids_to_tokens(generated[0][1][0, :3].tolist())[:2] == ["</s>", "en_XX"]


def test_languages_are_no_words_of_a_translation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a tokenizer does not know that they are special, as one that is read from sentencepiece's file."""
    import torch
    from transformers import MBartForConditionalGeneration

    folder = tiny.save(tmp_path / "plain", "mbart")
    listed = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    added = [token for token in listed["added_tokens"] if token["content"] not in MBart().languages.values()]
    tiny.edit(folder / "tokenizer.json", added_tokens=added)
    tiny.edit(folder / "tokenizer_config.json", extra_special_tokens=[])
    own = seq2seq.reader(folder, "as edited", "mbart", "plain").tokenizer
    row = own.convert_tokens_to_ids(["</s>", "en_XX", "▁w1", "hr_HR", "▁w2", "</s>", "<pad>"])
    assert "hr_HR" in own.decode(row, skip_special_tokens=True)
    monkeypatch.setattr(MBartForConditionalGeneration, "generate", lambda *_, **__: torch.tensor([row]))
    translator = MBart(model=str(folder), length=12, device="cpu")
    assert translator.translate(["w1"], "hrv", "eng") == ["w1 w2"]


def test_a_tokenizer_of_sentencepiece(tmp_path: Path, generated: list[tuple[dict[str, Any], Any]]) -> None:
    """As mBART-50 is published: without a tokenizer.json; numbers are sentencepiece's plus one, then the languages."""
    pieces = pytest.importorskip(
        "sentencepiece", reason="needs sentencepiece: pip install 'mathir-harness[translation]'"
    )
    folder = tiny.save_with_sentencepiece(tmp_path / "pieces")
    translator = MBart(model=str(folder), beams=1, length=12, overlong="cut", device="cpu")
    assert translator.missing() == []
    text = "sea QZ1 un primo"
    (out,) = translator.translate([text], "spa", "eng")
    ((given, ids),) = generated
    own = pieces.SentencePieceProcessor(model_file=str(folder / "sentencepiece.bpe.model"))
    size = own.get_piece_size()
    assert given["input_ids"].tolist() == [[size + 5, *(number + 1 for number in own.encode(text)), 2]]
    assert ids[0, :2].tolist() == [2, size + 4]
    assert not any(code in out for code in translator.languages.values())


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_search_may_be_the_models_own(
    kind: str, tmp_path: Path, generated: list[tuple[dict[str, Any], Any]]
) -> None:
    folder = tiny.save(tmp_path / kind, kind, generation={"num_beams": 3, "max_length": 12})
    given = {"model": str(folder), "device": "cpu", "beams": None, "length": None, "overlong": "cut"}
    typed(KINDS[kind], given, "key 'translator'").translate(TEXTS[:2], "hrv", "eng")
    typed(KINDS[kind], {**given, "beams": 2, "length": 9}, "key 'translator'").translate(TEXTS[:2], "hrv", "eng")
    assert [(call["num_beams"], call["max_length"]) for call, _ in generated] == [(3, 12), (2, 9)]
    tiny.save(tmp_path / "new", kind, generation={"num_beams": 3, "max_new_tokens": 7})
    typed(KINDS[kind], {**given, "model": str(tmp_path / "new")}, "key 'translator'").translate(["w1"], "hrv", "eng")
    assert generated[-1][0]["max_length"] == 8
    tiny.save(tmp_path / "none", kind, generation={"max_length": None, "max_new_tokens": None})
    translator = typed(KINDS[kind], {**given, "model": str(tmp_path / "none")}, "key 'translator'")
    with pytest.raises(HarnessError, match=r"generation_config.json has no max_length; set the key 'length'$"):
        translator.translate(["w1"], "hrv", "eng")


@pytest.mark.parametrize("clean_up", [None, True, False])
def test_blanks_before_punctuation(
    make: Callable[..., Seq2Seq], clean_up: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = type(tokenizer(make()))
    asked: list[object] = []
    decode = own.batch_decode

    def recorded(self: object, *args: object, **keys: object) -> object:
        asked.append(keys["clean_up_tokenization_spaces"])
        return decode(self, *args, **keys)

    monkeypatch.setattr(own, "batch_decode", recorded)
    make(clean_up=clean_up).translate(["w1"], "hrv", "eng")
    assert asked == [clean_up]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"beams": 0}, "key 'beams' is 0, expected a whole number from 1 up"),
        ({"precision": "int8"}, "key 'precision' is 'int8'"),
        ({"overlong": "truncate"}, "key 'overlong' is 'truncate'"),
        ({"beam": 2}, "key 'beam' is unknown"),
    ],
)
def test_wrong_settings(settings: dict[str, object], said: str) -> None:
    for cls in KINDS.values():
        refuses(said, lambda: typed(cls, settings, "key 'translator'"))  # noqa: B023


# Width, layers of encoder and of decoder, feed-forward width -> parameters.


# ---- files of translation models --------------------------------------------------------------------------------


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
