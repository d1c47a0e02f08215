"""Calls of sentence-transformers that encoders of token vectors and of sparse vectors share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from harness.errors import HarnessError
from harness.systems.dense import word_pieces
from harness.systems.dense.engines import ROLES, batches
from harness.systems.dense.models import AvailableModel

T = TypeVar("T")


def opened(model: AvailableModel, make: Callable[[], Any], precision: str) -> Any:  # noqa: ANN401
    """Loads a model by a function, in a number format; raises HarnessError if it cannot be loaded."""
    import torch

    word_pieces.quiet()
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)  # truncated texts are counted
    try:
        return make().to(getattr(torch, precision)).eval()
    except Exception as error:  # the libraries below raise what they like
        raise HarnessError(f"model {model.name}: cannot be loaded: {word_pieces.reason(error)}") from None


def prefixes_of(given: Mapping[str, str] | None, prompts: Mapping[str, str] | None) -> dict[str, str]:
    """Returns the prefix of each role: those of a setting, or else the model's own."""
    return {role: str(((prompts or {}) if given is None else given).get(role) or "") for role in ROLES}


def word_piece_counts(loaded: Any, texts: Sequence[str], prefix: str) -> npt.NDArray[np.int64]:  # noqa: ANN401
    """Returns the number of word pieces of each text with its prefix."""
    pieces = loaded.tokenizer([prefix + text for text in texts], truncation=False)["input_ids"]
    return np.array([len(row) for row in pieces])


def in_passes(read: npt.NDArray[np.int64], most: int, encode: Callable[[list[int]], Sequence[T]], what: str) -> list[T]:
    """Returns what a function makes of each text, called with the numbers of texts of similar length.

    Parameters
    ----------
    read, most : word pieces that are read of each text, and the maximum of a pass with padding.
    what : kind of the model, for messages.

    Raises
    ------
    HarnessError
        A pass does not fit into the memory of the GPU.
    """
    import torch

    order = np.argsort(-read, kind="stable").tolist()
    out: dict[int, T] = {}
    for part in batches(order, [range(count) for count in read.tolist()], len(read), most):
        try:
            out |= zip(part, encode(part), strict=True)
        except torch.OutOfMemoryError:
            lower = "do not fit into the memory of the GPU; lower the key 'tokens'"
            raise HarnessError(f"{len(part)} texts of {what} {lower}") from None
    return [out[number] for number in range(len(read))]
