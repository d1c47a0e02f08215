"""Variants of local encoders: other number formats, and several devices.

A variant's vectors differ from the plain ones by rounding, or are cut.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import HarnessError

PRECISIONS = ("float32", "float16", "bfloat16")

Together = Callable[[Sequence[str], str, int], npt.NDArray[np.float32]]  # texts, prompt, texts of a batch


def check(devices: Sequence[str] | None) -> None:
    """Checks the key `devices`.

    Raises
    ------
    HarnessError
        A value is invalid.

    Examples
    --------
    >>> check([])
    Traceback (most recent call last):
    harness.errors.HarnessError: key 'devices' is [], expected a list of devices, such as [cuda:0, cuda:1]
    """
    if devices is None:
        return
    named = isinstance(devices, list | tuple) and bool(devices) and all(isinstance(one, str) and one for one in devices)
    if not named:
        raise HarnessError(f"key 'devices' is {devices!r}, expected a list of devices, such as [cuda:0, cuda:1]")


def cut(vectors: Any, dimensions: int | None, name: str) -> Any:  # noqa: ANN401
    """Returns the first dimensions of vectors, shape (texts, dimensions), for Matryoshka models; all of them if None.

    Raises HarnessError if there are fewer.
    """
    if dimensions is None:
        return vectors
    if dimensions > vectors.shape[1]:
        raise HarnessError(f"key 'dimensions' is {dimensions}, and model {name} has {vectors.shape[1]}")
    return vectors[:, :dimensions]


def pooled(
    loaded: Any,  # noqa: ANN401
    devices: Sequence[str],
    name: str,
) -> Together:
    """Returns a function of texts, their prompt and the texts of a batch, which encodes on several devices.

    Each device has a process of its own with the model; sentence-transformers starts them.

    Raises
    ------
    HarnessError
        A device does not exist.
    """
    import torch

    for device in devices:
        try:
            torch.empty(1, device=device)
        except (RuntimeError, AssertionError):
            raise HarnessError(
                f"key 'devices' names {device!r}: this machine or this PyTorch has no such device"
            ) from None
    pool = loaded.start_multi_process_pool(list(devices))
    atexit.register(loaded.stop_multi_process_pool, pool)

    def encoded(texts: Sequence[str], prompt: str, batch: int) -> npt.NDArray[np.float32]:
        vectors = loaded.encode(list(texts), pool=pool, prompt=prompt, batch_size=batch, show_progress_bar=False)
        out = np.asarray(vectors, np.float32)
        if len(out) != len(texts):
            raise HarnessError(f"model {name}: {len(texts)} texts, and {len(out)} vectors of {len(devices)} devices")
        return out

    return encoded


def notes(precision: str, devices: Sequence[str] | None, dimensions: int | None) -> list[str]:
    """Returns a sentence for each variant, for readers of results."""
    said = {
        "float16": "Vectors are computed in float16 instead of float32, with 11 significant bits.",
        "bfloat16": "Vectors are computed in bfloat16 instead of float32, with 8 significant bits.",
    }
    out = [said[precision]] if precision in said else []
    if dimensions is not None:
        out.append(f"Vectors are cut to their first {dimensions:,} dimensions, which suits Matryoshka models only.")
    if devices is not None:
        out.append(f"Vectors are computed by {len(devices)} processes, in other batches than by one.")
    return out
