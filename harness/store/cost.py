"""Cost of running a system: seconds per phase, latency of each query, bytes on disk.

A system uses `with phase("index"):` and `for topic in queries(topics):`. Costs are recorded in the meter of the
enclosing `measuring` block, if any; the run is the same with or without it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import math
import os
import resource
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, Protocol, TypeVar

from harness.io.console import progress, track


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


Asked = TypeVar("Asked", bound=_HasId)

# Keys of costs in metadata files. Systems record them with `note`; the cost table of an experiment reads them. The cost
# of training comes from the record of the training, because the model may be from the store.
PARAMETERS = "parameters"  # whole number: what the training can change
PAIRS = "pairs trained on"  # whole number
EPOCHS = "seconds of each epoch"  # list of numbers, without the untrained model's validation
LOG = "training log"  # list of mappings, one an epoch: `epoch`, and numbers such as `training loss`
STEPS = "losses of steps"  # list of [step, loss], possibly subsampled
TRAINING_MEMORY = "peak memory of the training in bytes"
TRAINING_GPU_MEMORY = "peak memory of the training on the GPU in bytes"
VECTORS = "vectors"  # whole number: those that are searched
INDEX = "bytes of the index"  # whole number; default: total size of the artifacts that the run used
TOGETHER = "topics searched at one time"  # whole number; each has an equal share of the time as its latency
RATE = "queries a second"  # of a system that searches several topics at a time; without it: 1 / mean latency
PARTS = "parts"  # mapping: system of a fusion -> what it notes under the names above and below
SIMILARITIES = "similarities of vectors"  # list of mappings: `topic`, `document`, `rows`, `columns`, `values`
# Keys that each system of a fusion may record; other keys include the name of their system.
_OF_ONE_SYSTEM = frozenset(
    {PARAMETERS, PAIRS, EPOCHS, LOG, STEPS, TRAINING_MEMORY, TRAINING_GPU_MEMORY, VECTORS, INDEX, TOGETHER, RATE}
    | {SIMILARITIES, PARTS}
)
# These are measured here.
LATENCY = "latency of each query in seconds"
STORED = "bytes of indexes"
MEMORY = "peak memory of the run in bytes"
GPU_MEMORY = "peak memory of the run on the GPU in bytes"


@dataclass
class Meter:
    """Costs noted so far.

    Attributes
    ----------
    phases : name -> seconds; phases of one name add up.
    latency : topic -> seconds; those of several systems within one add up.
    partial : whether a part of the work, such as a system of a fusion, has no latency, so that the sum is unknown.
    artifacts : folder of the store -> bytes.
    notes : key -> value recorded by the work; values must be valid in YAML.
    total : seconds spent in the `with` block.
    memory : peak memory in bytes of this process in the block, or of a child process that ended in the block; None if
        the operating system cannot reset the peak. If an earlier child was larger, its peak is used.
    gpu_memory : peak memory allocated by torch on one GPU; None without a GPU.
    resources : energy, memory and time as in ir_metadata, by the package tirex-tracker; empty without it.
    """

    phases: dict[str, float] = field(default_factory=dict)
    latency: dict[str, float] = field(default_factory=dict)
    partial: bool = False
    artefacts: dict[str, int] = field(default_factory=dict)
    notes: dict[str, object] = field(default_factory=dict)
    total: float = 0.0
    memory: int | None = None
    gpu_memory: int | None = None
    resources: dict[str, Any] = field(default_factory=dict)


_MEASUREMENTS = count()  # of this process
_METER: ContextVar[Meter | None] = ContextVar("meter", default=None)


@contextmanager
def measuring() -> Iterator[Meter]:
    """Records the costs of the work inside the block in a meter."""
    meter = Meter()
    token = _METER.set(meter)
    own, children = _forget_peak(), resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    try:
        with tracking(meter.resources):
            begin = time.perf_counter()
            yield meter
    finally:
        meter.total = time.perf_counter() - begin
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        meter.memory = own_peak() if own else None
        if meter.memory is not None and ended != children:
            meter.memory = max(meter.memory, 1024 * ended.ru_maxrss)  # Linux counts in KiB
        if (cuda := _cuda()) is not None:
            meter.gpu_memory = max(cuda.max_memory_allocated(number) for number in range(cuda.device_count()))
        _METER.reset(token)


def _forget_peak() -> bool:
    """Resets the memory peaks; returns False if the operating system cannot reset that of the process."""
    if (cuda := _cuda()) is not None:
        for number in range(cuda.device_count()):
            cuda.reset_peak_memory_stats(number)
    # Of the first measurement, all that was made since the last collection: the oldest generation takes longer than a
    # small run. Later ones would count what earlier work of the process left there.
    gc.collect(2 if next(_MEASUREMENTS) else 1)
    with suppress(OSError, AttributeError):  # returns freed memory to the system, which would count otherwise
        ctypes.CDLL(None).malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # Linux: "5" resets the peak, nothing else
    except OSError:
        return False
    return True


def _cuda() -> Any | None:  # noqa: ANN401
    """Returns torch.cuda, if this process has initialised it."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Measures a part of the work, such as `index`, and shows its progress."""
    begin = time.perf_counter()
    try:
        with progress(name):
            yield
    finally:
        if (meter := _METER.get()) is not None:
            meter.phases[name] = meter.phases.get(name, 0.0) + time.perf_counter() - begin


def queries(topics: Iterable[Asked]) -> Iterator[Asked]:
    """Yields the topics; the time until the next one is requested is the latency of each."""
    for topic in track(topics, "searching, topics"):
        begin = time.perf_counter()
        yield topic
        if (meter := _METER.get()) is not None:
            meter.latency[topic.id] = meter.latency.get(topic.id, 0.0) + time.perf_counter() - begin


def answered(latency: dict[str, float]) -> None:
    """Records latencies measured by a program outside this process: topic -> seconds."""
    if (meter := _METER.get()) is not None:
        for topic, seconds in latency.items():
            meter.latency[topic] = meter.latency.get(topic, 0.0) + seconds


def note(name: str, value: object) -> None:
    """Records a measurement for the metadata file of the run."""
    if (meter := _METER.get()) is not None:
        meter.notes[name] = value


@contextmanager
def part(system: str) -> Iterator[None]:
    """Records the notes of one system of a fusion separately, under `PARTS`, and whether it records latencies."""
    meter = _METER.get()
    if meter is None:
        yield
        return
    whole, meter.notes = meter.notes, {}
    before = dict(meter.latency)
    try:
        yield
    finally:
        meter.partial = meter.partial or meter.latency == before
        noted, meter.notes = meter.notes, whole
        own = {name: value for name, value in noted.items() if name in _OF_ONE_SYSTEM}
        whole |= {name: value for name, value in noted.items() if name not in own}
        if own:
            whole[PARTS] = {**whole.get(PARTS, {}), system: own}  # type: ignore[dict-item]


def artefact(folder: Path) -> None:
    """Records a folder of the store that the work used."""
    if (meter := _METER.get()) is not None:
        meter.artefacts[str(folder)] = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def own_peak() -> int:
    """Returns the peak memory of this process in bytes; on Linux, since `measuring` last began.

    On Linux, the peak of `getrusage` may be inherited from the parent process.
    """
    with suppress(OSError):
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        for line in status.splitlines():  # some sandboxes have the file without the line
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


# ---- resources by the package tirex-tracker ---------------------------------------------------------------------
#
# Energy comes from the counters of processors, memory and GPUs, which many machines do not let a user read; such a
# value is left out. The tracker takes about half a second to start.

VARIABLE = "HARNESS_TIREX"  # `off` turns the tracker off
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
