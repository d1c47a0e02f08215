"""A tiny cross-encoder of the real classes with random weights, and its scores by plain calls of the library."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from encoder_models import SPECIAL, word_tokenizer

LENGTH = 24  # word pieces that it reads of a pair; 4 of them are its own
WORDS = 60


def save_model(folder: Path, labels: Sequence[str] = ("score",), seed: int = 0, positions: int = LENGTH) -> Path:
    """A RoBERTa of 2 layers for sequence classification, and a tokenizer whose words are w0, w1, ..."""
    import torch
    from transformers import RobertaConfig, RobertaForSequenceClassification

    names = {"bos": "<s>", "cls": "<s>", "eos": "</s>", "sep": "</s>", "pad": "<pad>", "unk": "<unk>"}
    words = [f"w{n}" for n in range(WORDS)]
    given = {f"{name}_token": token for name, token in names.items()}
    given |= {"single": "<s> $A </s>", "pair": "<s> $A </s> </s> $B </s>"}
    word_tokenizer(SPECIAL["roberta"], words, model_max_length=LENGTH, **given).save_pretrained(folder)
    torch.manual_seed(seed)
    shape: Any = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    shape |= {"vocab_size": 4 + WORDS, "max_position_embeddings": positions + 2, "type_vocab_size": 1}
    shape |= {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "id2label": dict(enumerate(labels))}
    shape |= {"label2id": {label: number for number, label in enumerate(labels)}}
    config = RobertaConfig(initializer_range=0.3, **shape)  # so that scores differ by more than rounding
    RobertaForSequenceClassification(config).save_pretrained(folder)
    return folder


@cache
def _opened(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    classifier: Any = AutoModelForSequenceClassification
    tokenizer: Any = AutoTokenizer
    return classifier.from_pretrained(folder).eval(), tokenizer.from_pretrained(folder)


def plain(
    folder: Path, query: str, document: str, truncation: str = "longest_first", length: int = LENGTH
) -> list[float]:
    """The logits of one pair by the library alone."""
    import torch

    classifier, tokenizer = _opened(folder)
    # In lists, as an empty second text that stands alone is taken for none.
    features = tokenizer([query], [document], truncation=truncation, max_length=length, return_tensors="pt")
    with torch.no_grad():
        out: list[float] = classifier(**features).logits[0].tolist()
    return out
