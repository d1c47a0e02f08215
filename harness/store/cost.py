"""What a system's work costs: seconds of its phases, latency of each query, size of what it keeps on disk.

A system says `with phase("index"):` and `for topic in queries(topics):`. What that costs is noted in the meter of
whoever asked for it (`measuring`); nobody has to ask, and the system's run is the same either way.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from harness.io.console import progress, track


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


Asked = TypeVar("Asked", bound=_HasId)


@dataclass
class Meter:
    """What was noted.

    Attributes
    ----------
    phases : name -> seconds; phases of one name add up.
    latency : topic -> seconds; those of several systems within one add up.
    artefacts : folder of the store -> bytes.
    notes : what the work says of itself, by name; values that YAML can hold.
    total : seconds from the first to the last line of the `with` block.
    """

    phases: dict[str, float] = field(default_factory=dict)
    latency: dict[str, float] = field(default_factory=dict)
    artefacts: dict[str, int] = field(default_factory=dict)
    notes: dict[str, object] = field(default_factory=dict)
    total: float = 0.0


_METER: ContextVar[Meter | None] = ContextVar("meter", default=None)


@contextmanager
def measuring() -> Iterator[Meter]:
    """A meter that notes what is done inside the block."""
    meter = Meter()
    token = _METER.set(meter)
    begin = time.perf_counter()
    try:
        yield meter
    finally:
        meter.total = time.perf_counter() - begin
        _METER.reset(token)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """The time of a part of the work, such as `index`; who waits is shown that it goes on."""
    begin = time.perf_counter()
    try:
        with progress(name):
            yield
    finally:
        if (meter := _METER.get()) is not None:
            meter.phases[name] = meter.phases.get(name, 0.0) + time.perf_counter() - begin


def queries(topics: Iterable[Asked]) -> Iterator[Asked]:
    """The topics, one by one; what happens between one and the next is the latency of the one."""
    for topic in track(topics, "searching, topics"):
        begin = time.perf_counter()
        yield topic
        if (meter := _METER.get()) is not None:
            meter.latency[topic.id] = meter.latency.get(topic.id, 0.0) + time.perf_counter() - begin


def answered(latency: dict[str, float]) -> None:
    """Latencies that a program outside this process has measured: topic -> seconds."""
    if (meter := _METER.get()) is not None:
        for topic, seconds in latency.items():
            meter.latency[topic] = meter.latency.get(topic, 0.0) + seconds


def note(name: str, value: object) -> None:
    """Something measured that belongs into the side file of the run."""
    if (meter := _METER.get()) is not None:
        meter.notes[name] = value


def artefact(folder: Path) -> None:
    """A folder of the store that the work used."""
    if (meter := _METER.get()) is not None:
        meter.artefacts[str(folder)] = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def peak_memory() -> int:
    """The most memory that this process, or one that it started and waited for, has held so far; bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
