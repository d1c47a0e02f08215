"""The device that models compute on, and what of it decides their numbers."""

from __future__ import annotations

import importlib.util
import os
from importlib import metadata

from harness.errors import HarnessError

DEVICES = ("auto", "cpu", "cuda")


def device(name: str) -> str:
    """Returns `cpu` or `cuda`; `auto` is the latter if there is one.

    Raises
    ------
    HarnessError
        There is no GPU, and one was asked for; torch is not installed.
    """
    if importlib.util.find_spec("torch") is None and name != "cuda":
        return "cpu"  # of what computes without torch; what needs it says so itself
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
    """Returns what numbers are computed with: the type of the device, and the precision; other ones give other numbers.

    Parameters
    ----------
    half : whether bfloat16 is used where torch allows it.
    """
    return [device, "bfloat16" if half else "float32"]


def torch_version() -> str:
    """Of the installed torch, without the build's name."""
    try:
        return metadata.version("torch").partition("+")[0]
    except metadata.PackageNotFoundError:
        return ""


def cores() -> int:
    """Returns how many processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
