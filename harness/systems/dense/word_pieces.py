"""Loading of transformers' models and their tokenizers, and checks of tokenizers against the weights."""

from __future__ import annotations

import importlib
from typing import Any

from harness.errors import HarnessError
from harness.systems.dense import models
from harness.systems.dense.models import AvailableModel

_FILES = ("tokenizer.json", "*.model", "vocab*", "merges.txt")
_CONFIG = "tokenizer_config.json"


def quiet() -> None:
    """Silences transformers: no warning for every long text, as truncated texts are counted; no progress bars."""
    logging: Any = importlib.import_module("transformers.utils.logging")
    logging.disable_progress_bar()
    logging.set_verbosity_error()


def pretrained(stored: AvailableModel, kind: str, **more: object) -> tuple[Any, Any, dict[str, Any]]:
    """Loads a model with a class of transformers; returns it, its tokenizer, and the library's report of its weights.

    The library initialises missing weights at random without an error; they are in the report.

    Raises
    ------
    HarnessError
        The model or its tokenizer cannot be loaded.
    """
    import transformers

    quiet()
    tokenizer, own = load(stored), getattr(transformers, kind)
    try:
        model, report = own.from_pretrained(str(stored.folder), local_files_only=True, output_loading_info=True, **more)
    except Exception as error:  # the libraries below raise what they like
        raise HarnessError(f"model {stored.name}: cannot be loaded: {reason(error)}") from None
    return model, tokenizer, report


def lacking(model: Any, report: dict[str, Any]) -> str | None:  # noqa: ANN401
    """Returns the name of a parameter that the file of a model lacks, if any."""
    named = {name for name, _ in model.named_parameters()}
    return min(named & set(report["missing_keys"]), default=None)


def load(model: AvailableModel) -> Any:  # noqa: ANN401
    """Loads the tokenizer of a model with transformers.

    Raises
    ------
    HarnessError
        The tokenizer cannot be loaded; the message names its file.
    """
    from transformers import AutoTokenizer

    folder = models.transformer_folder(model.folder)
    try:
        return AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:  # the libraries below raise what they like
        raise HarnessError(
            f"model {model.name}: {file(model)}: cannot be loaded as a tokenizer (transformers: {reason(error)}); "
            f"expected the model's own tokenizer.json, or a vocabulary that the class in {_CONFIG} reads"
        ) from None


def check(tokenizer: Any, model: Any, stored: AvailableModel) -> None:  # noqa: ANN401
    """Checks that a tokenizer has word pieces, that the weights have a row for each, and that it can pad.

    A model that does not say its padding token, as many decoders, gets the tokenizer's.

    Parameters
    ----------
    model : a transformers model, with `get_input_embeddings`.
    stored : the model's name and files, for messages.

    Raises
    ------
    HarnessError
        A check fails; the message names the file and what was expected.
    """
    start = f"model {stored.name}: {file(stored)}"
    pieces = 1 + max(tokenizer.get_vocab().values(), default=-1)
    if (count := len(tokenizer)) <= len(set(tokenizer.all_special_ids)):
        raise HarnessError(
            f"{start}: has no word pieces beside {count} special ones; expected the model's own tokenizer.json, or all "
            f"files that the class in {_CONFIG} reads"
        )
    if pieces > (rows := int(model.get_input_embeddings().num_embeddings)):
        raise HarnessError(
            f"{start}: its tokenizer has {pieces} word pieces, its weights {rows}; expected the tokenizer that the "
            "weights were trained with"
        )
    if tokenizer.pad_token_id is None:
        raise HarnessError(
            f"model {stored.name}: {_CONFIG}: its tokenizer has no token for padding; expected 'pad_token'"
        )
    if getattr(model.config, "pad_token_id", None) is None:
        model.config.pad_token_id = tokenizer.pad_token_id


def file(model: AvailableModel) -> str:
    """Returns the name of the file that a model's tokenizer is read from."""
    folder = models.transformer_folder(model.folder)
    return next((path.name for pattern in _FILES for path in sorted(folder.glob(pattern))), _CONFIG)


def reason(error: Exception) -> str:
    """Returns the first line of a library's error message, or the type of the error if the message is empty."""
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return (said.rstrip(":.") or type(error).__name__)[:150]
