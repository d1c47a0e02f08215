"""Tiny random translation models of the real classes, saved as transformers saves them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.io.checks import typed
from harness.systems.crosslingual.seq2seq import MBart, Nllb, Seq2Seq

KINDS: dict[str, type[Seq2Seq]] = {"nllb": Nllb, "mbart": MBart}
LENGTH = 24
TEXTS = ["w1 w2 w3", "w4", "w5 w6 w7 w8 w9 w10 w11 w12 w13 w14 w15", "w16 w17 w18 w19 w20 w21", "w22 w23"]


WORDS = 60
POSITIONS = 64


def word(number: int) -> str:
    return f"w{number}"


def save(
    folder: Path, kind: str, *, seed: int = 7, only: str | None = None, generation: dict[str, Any] | None = None
) -> Path:
    """A model of 2 + 2 layers and 32 dimensions for the words w0 to w59, a word piece each; others are unknown.

    Parameters
    ----------
    kind : `nllb` or `mbart`.
    only : the language that its files force, as those of mBART-50's many-to-one do.
    generation : what its generation_config.json says besides.
    """
    import torch
    from transformers import M2M100Config, M2M100ForConditionalGeneration, MBartConfig, MBartForConditionalGeneration

    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = nllb_tokenizer() if kind == "nllb" else mbart_tokenizer()
    config: Any = M2M100Config if kind == "nllb" else MBartConfig
    make: Any = M2M100ForConditionalGeneration if kind == "nllb" else MBartForConditionalGeneration
    shape = {f"{part}_{key}": size for part in ("encoder", "decoder") for key, size in _SIZES.items()}
    shape |= {"vocab_size": len(tokenizer), "max_position_embeddings": POSITIONS}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = make(config(d_model=32, decoder_start_token_id=2, init_std=0.6, scale_embedding=True, **shape))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if only:
        edit(folder / "config.json", forced_bos_token_id=tokenizer.convert_tokens_to_ids(only))
    edit(folder / "generation_config.json", **(generation or {}))
    return folder


_SIZES = {"layers": 2, "attention_heads": 4, "ffn_dim": 64}


def edit(path: Path, **keys: object) -> None:
    """Change keys of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **keys}), encoding="utf-8")


def nllb_tokenizer() -> Any:  # noqa: ANN401
    """The real class, with a vocabulary that has no merges but those of the words."""
    from transformers import NllbTokenizer

    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", "w", *"0123456789", "▁w"]
    merges = [("▁", "w")]
    for number in range(WORDS):
        before = "▁w"
        for digit in str(number):
            if before + digit not in pieces:
                pieces.append(before + digit)
                merges.append((before, digit))
            before += digit
    make: Any = NllbTokenizer
    return make(vocab={piece: at for at, piece in enumerate(pieces)}, merges=merges)


def mbart_tokenizer() -> Any:  # noqa: ANN401
    from transformers import MBart50Tokenizer

    # As a sentencepiece model has them: three marks, then the pieces with their logarithmic probabilities.
    pieces = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), ("▁", -9.0)]
    make: Any = MBart50Tokenizer
    return make(vocab=[*pieces, *((f"▁{word(number)}", -1.0 - number / 100) for number in range(WORDS))])


def save_with_sentencepiece(folder: Path) -> Path:
    """A tiny mBART-50 with the files of the published ones: sentencepiece's model and no tokenizer.json."""
    import sentencepiece
    import torch
    from transformers import MBartConfig, MBartForConditionalGeneration

    folder.mkdir(parents=True)
    words = ["sea", "primo", "número", "QZ1", "QZ2", "par", "es", "un"]
    lines = (" ".join(words[number % 8 :] + words[: number % 5]) for number in range(200))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=lines, model_prefix=str(folder / "made"), vocab_size=24, minloglevel=2
    )
    (folder / "made.model").rename(folder / "sentencepiece.bpe.model")
    (folder / "made.vocab").unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MBart50Tokenizer"}))
    shape = {f"{part}_{key}": size for part in ("encoder", "decoder") for key, size in _SIZES.items()}
    make: Any = MBartConfig
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        # sentencepiece's pieces and one more, 52 languages, a mask.
        config = make(vocab_size=24 + 1 + 52 + 1, d_model=32, init_std=0.6, decoder_start_token_id=2, **shape)
        model: Any = MBartForConditionalGeneration(config)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("tiny")
    return {kind: save(base / kind, kind) for kind in KINDS}


@pytest.fixture(params=sorted(KINDS))
def make(request: pytest.FixtureRequest, folders: dict[str, Path]) -> Callable[..., Seq2Seq]:
    def made(**settings: Any) -> Seq2Seq:  # noqa: ANN401
        given = {"model": str(folders[request.param]), "device": "cpu", "beams": 1, "length": LENGTH, **settings}
        return typed(KINDS[request.param], {"overlong": "cut", **given}, "key 'translator'")

    return made


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, Any], Any]]:
    """What the models' own search was given and gave, call by call."""
    from transformers import M2M100ForConditionalGeneration, MBartForConditionalGeneration

    calls: list[tuple[dict[str, Any], Any]] = []
    for cls in (M2M100ForConditionalGeneration, MBartForConditionalGeneration):
        own: Any = cls.generate

        def generate(self: Any, *, own: Any = own, **given: Any) -> Any:  # noqa: ANN401
            calls.append((given, out := own(self, **given)))
            return out

        monkeypatch.setattr(cls, "generate", generate)
    return calls
