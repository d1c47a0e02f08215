"""Loads translation models: configuration, tokenizer, languages, limits, and weights."""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from harness.errors import HarnessError

INSTALL = "pip install 'mathir-harness[translation]'"


@dataclass(frozen=True, eq=False)
class CheckpointProperties:
    """Properties of a model that are known before its weights are loaded.

    Attributes
    ----------
    positions : maximum number of word pieces in the input, and in the output.
    only : token id of the only output language; None if there are several.
    tokenizer : tokenizer of transformers.
    name : name of the model.
    """

    positions: int
    only: int | None
    tokenizer: Any
    name: str

    def number(self, code: str) -> int:
        """Returns the token id of a language.

        Raises
        ------
        HarnessError
            The tokenizer does not have it.
        """
        token_id = self.tokenizer.convert_tokens_to_ids(code)
        if token_id is None or token_id == self.tokenizer.unk_token_id:
            raise HarnessError(f"model {self.name}: its tokenizer does not have the language {code}")
        return int(token_id)

    def marks(self, codes: Iterable[str]) -> frozenset[int]:
        """Returns the ids of tokens that are not words: special tokens, and languages."""
        return frozenset([*self.tokenizer.all_special_ids, *self.tokenizer.convert_tokens_to_ids(list(codes))])


def architecture(folder: Path, kind: str, name: str) -> Any:  # noqa: ANN401
    """Returns a model's config.json as read by transformers; needs no weights.

    Raises
    ------
    HarnessError
        The file is damaged, or describes another kind of model.
    """
    import transformers

    auto: Any = transformers.AutoConfig
    try:
        config = auto.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:  # the libraries below raise what they like
        raise HarnessError(f"model {name}: cannot be loaded: {_first_line(error)}") from None
    if config.model_type != kind:
        raise HarnessError(f"model {name}: its config.json says {config.model_type!r}, expected {kind!r}")
    return config


@lru_cache(maxsize=1)  # a tokenizer takes seconds to load, and is needed for every batch of topics
def reader(folder: Path, content: str, kind: str, name: str) -> CheckpointProperties:
    """Loads a model without its weights; `content` identifies the files, so that changed files are loaded again.

    Raises
    ------
    HarnessError
        The model cannot be loaded, or is of another kind.
    """
    import transformers

    logging: Any = importlib.import_module("transformers.utils.logging")
    logging.disable_progress_bar()
    logging.set_verbosity_error()  # it would warn of every long text; these are split later
    config = architecture(folder, kind, name)
    if lines := no_sentencepiece(folder):
        raise HarnessError(lines[0])
    auto: Any = transformers.AutoTokenizer
    try:
        tokenizer: Any = auto.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:  # the libraries below raise what they like
        raise HarnessError(f"model {name}: cannot be loaded: {_first_line(error)}") from None
    if tokenizer.pad_token_id is None or not hasattr(tokenizer, "src_lang"):
        raise HarnessError(f"model {name}: its tokenizer knows no languages, or no padding")
    only = None
    for file in ("config.json", "generation_config.json"):
        if (folder / file).is_file():
            only = _read_json_object(folder / file, name).get("forced_bos_token_id", only)
            if only is not None and type(only) is not int:
                raise HarnessError(f"model {name}: {file}: key 'forced_bos_token_id' is {only!r}, expected a number")
    return CheckpointProperties(int(config.max_position_embeddings), only, tokenizer, name)


@lru_cache(maxsize=1)  # one model in memory
def weights(folder: Path, content: str, name: str, precision: str, device: str) -> Any:  # noqa: ANN401
    """Loads the model for generation; `content` identifies the files, so that changed files are loaded again."""
    import torch
    import transformers

    auto: Any = transformers.AutoModelForSeq2SeqLM
    try:
        model, report = auto.from_pretrained(
            str(folder), local_files_only=True, output_loading_info=True, dtype=getattr(torch, precision)
        )
        model = model.to(device).eval()
    except (torch.OutOfMemoryError, MemoryError):
        raise HarnessError(f"model {name}: does not fit into the memory of the device {device}") from None
    except Exception as error:  # the libraries below raise what they like
        raise HarnessError(f"model {name}: cannot be loaded: {_first_line(error)}") from None
    # transformers initialises missing weights at random without an error.
    if lacking := sorted(set(report["missing_keys"]) & {key for key, _ in model.named_parameters()}):
        raise HarnessError(f"model {name}: its weights lack {lacking[0]!r}, which its config.json asks for")
    # A single non-finite weight makes all translations empty or repetitive, without an error.
    if damaged := next((key for key, values in model.named_parameters() if not torch.isfinite(values).all()), None):
        raise HarnessError(f"model {name}: its weights {damaged!r} have numbers that are not finite")
    return model


def missing() -> list[str]:
    """Returns what is not installed, one line each; for the key `needs` of a configuration."""
    if all(importlib.util.find_spec(module) for module in ("torch", "transformers")):
        return []
    return [f"transformers is not installed: {INSTALL}"]


def no_sentencepiece(folder: Path) -> list[str]:
    """Returns an install instruction if sentencepiece is missing but needed for the tokenizer in a folder."""
    if (folder / "tokenizer.json").is_file() or importlib.util.find_spec("sentencepiece"):
        return []
    return [f"sentencepiece is not installed, and {folder} has no tokenizer.json: {INSTALL}"]


def _read_json_object(path: Path, name: str) -> dict[str, Any]:
    try:
        mapping = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise HarnessError(f"model {name}: {path.name}: {_first_line(error)}") from None
    if not isinstance(mapping, dict):
        raise HarnessError(f"model {name}: {path.name}: expected keys and values")
    return mapping


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:150]
