"""Tiny random sentence encoders of the real classes, saved as sentence-transformers saves them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

WORDS = 100
SPECIAL = {"bert": ("[PAD]", "[UNK]", "[CLS]", "[SEP]"), "roberta": ("<s>", "<pad>", "</s>", "<unk>")}
LENGTH = 16
SHAPE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


def word_tokenizer(special: Sequence[str], words: Sequence[str], single: str, pair: str = "$A $B", **names: Any) -> Any:  # noqa: ANN401
    """Splits at blanks; each of the words is one piece, all others are unknown.

    `single` and `pair` are templates of one text and of two; `names` are keys of the tokenizer, such as `pad_token`.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: at for at, word in enumerate((*special, *words))}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token=names["unk_token"]))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    marks = [(token, at) for token, at in vocabulary.items() if token in single.split()]
    made.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=marks)
    make: Any = PreTrainedTokenizerFast
    return make(tokenizer_object=made, **{"model_max_length": LENGTH, **names})


def tokenizer(kind: str) -> Any:  # noqa: ANN401
    """The words w0 to w99, as BERT or as RoBERTa has them."""
    special = SPECIAL[kind]
    begin, end, pad, unknown = (special[at] for at in ((2, 3, 0, 1) if kind == "bert" else (0, 2, 1, 3)))
    names = {"cls_token": begin, "sep_token": end, "pad_token": pad, "unk_token": unknown, "eos_token": end}
    words = [f"w{n}" for n in range(WORDS)]
    return word_tokenizer(special, words, f"{begin} $A {end}", f"{begin} $A {end} $B {end}", **names)


def save(
    folder: Path,
    kind: str = "bert",
    *,
    pooling: str = "mean",
    normalise: bool = True,
    prompts: dict[str, str] | None = None,
) -> Path:
    """A model of 2 layers and 32 dimensions that reads 16 word pieces."""
    import torch
    from transformers import BertConfig, BertModel, RobertaConfig, RobertaModel

    own = tokenizer(kind)
    shape: dict[str, Any] = SHAPE | {"vocab_size": WORDS + 4, "pad_token_id": own.pad_token_id}
    model: Any
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        if kind == "bert":
            model = BertModel(BertConfig(max_position_embeddings=LENGTH, **shape))
        else:
            model = RobertaModel(RobertaConfig(max_position_embeddings=LENGTH + 2, **shape))
    model.save_pretrained(folder)
    own.save_pretrained(folder)
    modes = {"mean": "mean_tokens", "cls": "cls_token", "last": "lasttoken"}
    flags = {f"pooling_mode_{name}": name == modes[pooling] for name in modes.values()}
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), *([("2_Normalize", "Normalize")] if normalise else [])]
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32, **flags}))
    if normalise:
        (folder / "2_Normalize").mkdir()
    listed = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{name}"}
        for at, (path, name) in enumerate(modules)
    ]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": LENGTH, "do_lower_case": False}))
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts or {}}))
    return folder


def save_decoder(folder: Path, side: str) -> Path:
    """A Mistral of 2 layers, whose tokenizer begins texts but does not end them, and pads with its end token."""
    import torch
    from transformers import MistralConfig, MistralModel

    special, words = ("<unk>", "<s>", "</s>"), [f"w{n}" for n in range(WORDS)]
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>", "unk_token": "<unk>"}
    word_tokenizer(special, words, "<s> $A", padding_side=side, **names).save_pretrained(folder)
    shape: Any = SHAPE | {"vocab_size": len(special) + WORDS, "max_position_embeddings": LENGTH}
    ends: Any = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        MistralModel(MistralConfig(num_key_value_heads=2, **shape, **ends)).save_pretrained(folder)
    return folder


# ---- tokenizers that cannot be used -----------------------------------------------------------------------------


def _changed(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def _of_class(folder: Path, name: str, file: str, content: bytes) -> None:
    """Another class of tokenizers, with one file of its own."""
    (folder / "tokenizer.json").unlink()
    (folder / file).write_bytes(content)
    _changed(folder / "tokenizer_config.json", lambda said: said.update(tokenizer_class=name))


def _larger(folder: Path) -> None:
    """A word piece behind the last row of the weights."""

    def change(said: dict[str, Any]) -> None:
        vocabulary = said["model"]["vocab"]
        vocabulary["one-more"] = len(vocabulary)

    _changed(folder / "tokenizer.json", change)


# How a tokenizer is broken -> what does it to a model's folder, and what a message must say.
BROKEN: Mapping[str, tuple[Callable[[Path], object], str]] = {
    "no file": (lambda folder: (folder / "tokenizer.json").unlink(), "no tokenizer (tokenizer.json, or a vocabulary"),
    "damaged": (
        lambda folder: (folder / "tokenizer.json").write_text('{"version": "1.0", "model": {"type": "Nope"}}'),
        "tokenizer.json: cannot be loaded as a tokenizer (transformers: ",
    ),
    "no word pieces": (
        lambda folder: _of_class(folder, "BertTokenizer", "merges.txt", b""),  # the library goes on with special ones
        "special ones; expected the model's own tokenizer.json",
    ),
    "sentencepiece": (
        lambda folder: _of_class(folder, "XLMRobertaTokenizer", "sentencepiece.bpe.model", b"not one"),
        "sentencepiece.bpe.model: cannot be loaded as a tokenizer (transformers: ",
    ),
    "vocabulary": (_larger, "; expected the tokenizer that the weights were trained with"),
    "no padding": (
        lambda folder: _changed(folder / "tokenizer_config.json", lambda said: said.pop("pad_token")),
        "tokenizer_config.json: its tokenizer has no token for padding; expected 'pad_token'",
    ),
}
