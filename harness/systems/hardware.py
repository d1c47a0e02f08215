"""The device that models run on, and its properties that affect their results."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from functools import partial
from importlib import metadata
from typing import Annotated

from harness.errors import HarnessError
from harness.io import checks

DEVICES = ("auto", "cpu", "cuda")
Device = Annotated[str, partial(checks.choice, known=DEVICES)]
LIBRARIES = ("torch", "transformers", "tokenizers", "sentence-transformers")  # of models


def device(name: str) -> str:
    """Returns `cpu` or `cuda`; `auto` selects `cuda` if there is a GPU.

    Raises
    ------
    HarnessError
        `cuda` is requested, and there is no GPU or torch is not installed.
    """
    if importlib.util.find_spec("torch") is None and name != "cuda":
        return "cpu"  # some models run without torch; those that need it report that it is missing
    if importlib.util.find_spec("torch") is None:
        raise HarnessError("torch is not installed: pip install 'mathir-harness[sentences]'")
    import torch

    here = torch.cuda.is_available()
    if name == "cuda" and not here:
        raise HarnessError("key 'device' is 'cuda', and torch finds no GPU here; say cpu or auto")
    return "cuda" if here and name != "cpu" else "cpu"


def gpu() -> bool:
    """Returns whether torch is installed and finds a GPU."""
    return importlib.util.find_spec("torch") is not None and device("auto") == "cuda"


def arithmetic(device: str, half: bool = False) -> list[str]:
    """Returns the device and the number format of a computation; results differ between them.

    Parameters
    ----------
    half : whether bfloat16 is used where torch allows it.
    """
    return [device, "bfloat16" if half else "float32"]


def library_versions(libraries: Sequence[str] = LIBRARIES) -> dict[str, str]:
    """Returns the versions of libraries that decide what models compute, "" of those that are not installed.

    The name of a build, such as `+cu128`, is left out.
    """
    return {name: _version(name) for name in libraries}


def _version(name: str) -> str:
    try:
        return metadata.version(name).partition("+")[0]
    except metadata.PackageNotFoundError:
        return ""


def cores() -> int:
    """Returns the number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
