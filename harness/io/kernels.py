"""Compiled kernels: functions in C that stand beside the NumPy code whose results they equal, bit by bit.

The file `X.c` lies beside the module that calls it and names it, so that it counts in the module's fingerprint. All are
compiled into one library when the package is installed (`hatch_build.py`). Where there is no compiler, or the library
was compiled from other sources, callers run their NumPy code; with `HARNESS_KERNELS=off` in the environment always.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.io.files import sha256

VARIABLE = "HARNESS_KERNELS"
ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "_kernels.so"
Kernel = Callable[..., int]
Argument = npt.NDArray[Any] | float | int


def kernel(name: str) -> Kernel | None:
    """Returns a function of the library, or None where the NumPy code has to do, such as on another processor.

    Its arguments are arrays, which must be contiguous and writable if it writes to them, whole numbers (int64) and
    floats (float64); it returns an int64. A whole number that does not fit raises OverflowError.
    """
    library = _library()[0]
    if library is None or os.environ.get(VARIABLE) == "off":
        return None
    function = getattr(library, name, None)
    if function is None:
        return None
    function.restype = ctypes.c_int64

    def call(*arguments: Argument) -> int:
        return int(function(*map(_argument, arguments)))

    return call


def state() -> tuple[str, str]:
    """Returns in words whether the kernels are used, and what would change it."""
    if os.environ.get(VARIABLE) == "off":
        return "not used", f"unset {VARIABLE}"
    return _library()[1:]


def addressed(array: npt.NDArray[Any]) -> int:
    """Returns the address of a contiguous array, which must live as long as the address is used."""
    if not array.flags.c_contiguous:
        raise ValueError("a kernel takes contiguous arrays")
    return int(array.ctypes.data)


def _argument(value: Argument) -> ctypes.c_void_p | ctypes.c_double | ctypes.c_int64:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(addressed(value))
    if isinstance(value, float):
        return ctypes.c_double(value)
    if not -(1 << 63) <= value < 1 << 63:  # ctypes would take the last 64 bits
        raise OverflowError(f"{value} does not fit 64 bits")
    return ctypes.c_int64(value)


@cache
def _library() -> tuple[ctypes.PyDLL | None, str, str]:
    try:
        library = ctypes.PyDLL(str(LIBRARY))
    except OSError:
        return None, "not compiled", "install mathir-harness again where there is a C compiler"
    library.harness_sources.restype = ctypes.c_char_p
    digest = sha256(b"".join(path.read_bytes() for path in sorted(ROOT.rglob("*.c"))))
    if library.harness_sources().decode() != digest:
        return None, "compiled from other sources", "install mathir-harness again"
    return library, "compiled", ""
