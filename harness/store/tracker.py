"""Resources of the work by the package tirex-tracker, where it is installed: energy, memory, time, as ir_metadata.

Energy comes from the counters of processors, memory and GPUs, which many machines do not let a user read; such a value
is left out. `HARNESS_TIREX=off` turns the tracker off. It takes about half a second to start.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any

VARIABLE = "HARNESS_TIREX"
INTERVAL = 500  # milliseconds between two readings
# Name of a measure -> where it stands in `resources`, its unit, and which part of a series is kept.
_MEASURES: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "TIME_ELAPSED_WALL_CLOCK_MS": (("runtime", "wallclock"), "ms", ""),
    "TIME_ELAPSED_USER_MS": (("runtime", "user"), "ms", ""),
    "TIME_ELAPSED_SYSTEM_MS": (("runtime", "system"), "ms", ""),
    "CPU_ENERGY_SYSTEM_JOULES": (("cpu", "energy used system"), "J", ""),
    "RAM_ENERGY_SYSTEM_JOULES": (("ram", "energy used system"), "J", ""),
    "GPU_ENERGY_SYSTEM_JOULES": (("gpu", "energy used system"), "J", ""),
    "RAM_USED_PROCESS_KB": (("ram", "used process"), "kB", "max"),
    "GPU_VRAM_USED_PROCESS_MB": (("gpu", "vram used process"), "MB", "max"),
}


def installed() -> bool:
    """Returns whether the tracker is installed and not turned off."""
    return os.environ.get(VARIABLE, "").lower() not in ("off", "0") and find_spec("tirex_tracker") is not None


@contextmanager
def tracking(into: dict[str, Any]) -> Iterator[None]:
    """Tracks the work of the block, and puts its resources into a mapping; nothing without the package.

    A tracker that cannot be started or read never stops the work.
    """
    if not installed():
        yield
        return
    handle = None
    with suppress(Exception):  # of native code, which may not load
        library: Any = import_module("tirex_tracker")
        wanted = [getattr(library.Measure, name) for name in _MEASURES if hasattr(library.Measure, name)]
        handle = library.start_tracking(wanted, poll_intervall_ms=INTERVAL)
    try:
        yield
    finally:
        if handle is not None:
            with suppress(Exception):
                measures = library.stop_tracking(handle)
                into.update(resources({measure.name: entry.value for measure, entry in measures.items()}))


def resources(entries: Mapping[str, bytes | str]) -> dict[str, Any]:
    """Returns readings, name of the measure -> JSON, as `resources` of ir_metadata; unknown values are left out.

    Examples
    --------
    >>> resources({"TIME_ELAPSED_USER_MS": b"170", "CPU_ENERGY_SYSTEM_JOULES": b"null"})
    {'runtime': {'user': '170 ms'}}
    """
    out: dict[str, Any] = {}
    for name, (path, unit, part) in _MEASURES.items():
        value = _number(entries.get(name), part)
        if value is not None:
            said = f"{value:g} {unit}" if isinstance(value, float) else f"{value} {unit}"
            out.setdefault(path[0], {})[path[1]] = {part: said} if part else said
    return out


def _number(text: bytes | str | None, part: str) -> int | float | None:
    try:
        value = json.loads(text) if text else None
    except ValueError:
        return None
    if part:
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value
