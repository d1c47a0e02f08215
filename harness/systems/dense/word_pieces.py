"""Loading of models and their tokenizers, checks of tokenizers against the weights, and passes of similar length."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from harness.errors import HarnessError
from harness.systems.dense import models
from harness.systems.dense.models import AvailableModel

_FILES = ("tokenizer.json", "*.model", "vocab*", "merges.txt")
_CONFIG = "tokenizer_config.json"
ROLES = ("query", "document")
Sizes = npt.NDArray[np.int64]
T = TypeVar("T")


def quiet() -> None:
    """Silences transformers: no warning for every long text, as truncated texts are counted; no progress bars."""
    own: Any = importlib.import_module("transformers.utils.logging")
    own.disable_progress_bar()
    own.set_verbosity_error()


@contextmanager
def loading(name: str) -> Iterator[None]:
    """Turns any error of a library that loads a model into a HarnessError of one line."""
    try:
        yield
    except HarnessError:
        raise
    except Exception as error:  # the libraries below raise what they like
        raise HarnessError(f"model {name}: cannot be loaded: {reason(error)}") from None


def opened(stored: AvailableModel, make: Callable[[], Any], precision: str) -> Any:  # noqa: ANN401
    """Loads a model of sentence-transformers by a function, in a number format.

    Raises
    ------
    HarnessError
        The model cannot be loaded.
    """
    import torch

    quiet()
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)  # truncated texts are counted
    with loading(stored.name):
        return make().to(getattr(torch, precision)).eval()


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
    with loading(stored.name):
        model, report = own.from_pretrained(str(stored.folder), local_files_only=True, output_loading_info=True, **more)
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


def positions(config: Any) -> int | None:  # noqa: ANN401
    """Returns the number of positions for word pieces of a transformer; None if its configuration does not say."""
    most: int | None = getattr(config, "max_position_embeddings", None)
    # The positions of these start after the padding index.
    after = config.model_type in ("roberta", "xlm-roberta", "mpnet", "camembert")
    return most - config.pad_token_id - 1 if most is not None and after else most


def file(model: AvailableModel) -> str:
    """Returns the name of the file that a model's tokenizer is read from."""
    folder = models.transformer_folder(model.folder)
    return next((path.name for pattern in _FILES for path in sorted(folder.glob(pattern))), _CONFIG)


def reason(error: Exception) -> str:
    """Returns the first line of a library's error message, or the type of the error if the message is empty."""
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return (said.rstrip(":.") or type(error).__name__)[:150]


# ---- passes -----------------------------------------------------------------------------------------------------


def prefixes_of(given: Mapping[str, str] | None, prompts: Mapping[str, str] | None) -> dict[str, str]:
    """Returns the prefix of each role: those of a setting, or else the model's own."""
    return {role: str(((prompts or {}) if given is None else given).get(role) or "") for role in ROLES}


def word_piece_counts(loaded: Any, texts: Sequence[str], prefix: str) -> Sizes:  # noqa: ANN401
    """Returns the number of word pieces of each text with its prefix."""
    pieces = loaded.tokenizer([prefix + text for text in texts], truncation=False)["input_ids"]
    return np.array([len(row) for row in pieces])


def batches(sizes: Sizes, most: int, batch: int = 1 << 30) -> Iterator[Sizes]:
    """Yields the numbers of texts by descending length, in batches of at most `most` word pieces with padding."""
    order = np.argsort(-sizes, kind="stable")
    begin = 0
    while begin < len(order):
        count = max(1, min(batch, most // max(int(sizes[order[begin]]), 1)))
        yield order[begin : begin + count]
        begin += count


def in_passes(
    name: str,
    sizes: Sizes,
    most: int,
    encode: Callable[[Sizes], Sequence[T]],
    kind: str = "texts",
    batch: int = 1 << 30,
) -> list[T]:
    """Returns what a function makes of each text, called with the numbers of texts of similar length.

    Parameters
    ----------
    name, kind : name of the model, and kind of the texts, for messages.
    sizes, most : word pieces that are read of each text, and the maximum of a pass with padding.
    batch : maximum texts of a pass.

    Raises
    ------
    HarnessError
        A pass does not fit into the memory of the GPU.
    """
    import torch

    out: dict[int, T] = {}
    for part in batches(sizes, most, batch):
        try:
            with torch.inference_mode():
                out |= zip(part.tolist(), encode(part), strict=True)
        except torch.OutOfMemoryError:
            some = f"{len(part)} {kind} of {sizes[part[0]]} word pieces"
            lower = "do not fit into the memory of the GPU; lower the key 'tokens'"
            raise HarnessError(f"model {name}: {some} {lower}") from None
    return [out[number] for number in range(len(sizes))]
