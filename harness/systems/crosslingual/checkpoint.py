"""Files of a translation model: which languages it has, how much it reads, and its weights."""

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
class Reader:
    """What of a model is known before its weights are loaded.

    Attributes
    ----------
    positions : word pieces that it reads, and writes, at most.
    only : the number of the one language that it writes; None if it has a choice.
    tokenizer : of transformers.
    name : of the model.
    """

    positions: int
    only: int | None
    tokenizer: Any
    name: str

    def number(self, code: str) -> int:
        """Returns the number of a language's token.

        Raises
        ------
        HarnessError
            The tokenizer does not have it.
        """
        found = self.tokenizer.convert_tokens_to_ids(code)
        if found is None or found == self.tokenizer.unk_token_id:
            raise HarnessError(f"model {self.name}: its tokenizer does not have the language {code}")
        return int(found)

    def marks(self, codes: Iterable[str]) -> frozenset[int]:
        """Returns the numbers of what is no word: special tokens, and languages."""
        return frozenset([*self.tokenizer.all_special_ids, *self.tokenizer.convert_tokens_to_ids(list(codes))])


def architecture(folder: Path, kind: str, name: str) -> Any:  # noqa: ANN401
    """Returns a model's config.json as transformers reads it; no weights are needed.

    Raises
    ------
    HarnessError
        It is damaged, or that of another kind of model.
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


@lru_cache(maxsize=1)  # a tokenizer takes seconds to read, and is asked for with every batch of topics
def reader(folder: Path, content: str, kind: str, name: str) -> Reader:
    """Returns all of a model but its weights; `content` makes that of changed files another.

    Raises
    ------
    HarnessError
        It cannot be loaded, or is another kind of model.
    """
    import transformers

    logging: Any = importlib.import_module("transformers.utils.logging")
    logging.disable_progress_bar()
    logging.set_verbosity_error()  # it would warn of every long text; they are taken apart
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
            only = _keys(folder / file, name).get("forced_bos_token_id", only)
            if only is not None and type(only) is not int:
                raise HarnessError(f"model {name}: {file}: key 'forced_bos_token_id' is {only!r}, expected a number")
    return Reader(int(config.max_position_embeddings), only, tokenizer, name)


@lru_cache(maxsize=1)  # one model in memory
def weights(folder: Path, content: str, name: str, precision: str, device: str) -> Any:  # noqa: ANN401
    """Returns the model, ready to generate; `content` makes that of changed files another."""
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
    # Libraries fill in at random what the files lack, and go on.
    if lacking := sorted(set(report["missing_keys"]) & {key for key, _ in model.named_parameters()}):
        raise HarnessError(f"model {name}: its weights lack {lacking[0]!r}, which its config.json asks for")
    # With one such number every translation is empty or a repetition, and nothing fails.
    if damaged := next((key for key, values in model.named_parameters() if not torch.isfinite(values).all()), None):
        raise HarnessError(f"model {name}: its weights {damaged!r} have numbers that are not finite")
    return model


def missing() -> list[str]:
    """Returns what is not installed, one line each; for the key `needs` of a configuration."""
    if all(importlib.util.find_spec(module) for module in ("torch", "transformers")):
        return []
    return [f"transformers is not installed: {INSTALL}"]


def no_sentencepiece(folder: Path) -> list[str]:
    """Returns a line if the package is needed to read the tokenizer in a folder, and not installed."""
    if (folder / "tokenizer.json").is_file() or importlib.util.find_spec("sentencepiece"):
        return []
    return [f"sentencepiece is not installed, and {folder} has no tokenizer.json: {INSTALL}"]


def _keys(path: Path, name: str) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise HarnessError(f"model {name}: {path.name}: {_first_line(error)}") from None
    if not isinstance(found, dict):
        raise HarnessError(f"model {name}: {path.name}: expected keys and values")
    return found


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:150]
