"""Leases of other machines, and a clock for those who wait for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Clock:
    """A clock that only sleeping moves; `during` is called at each sleep."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.during: Callable[[], object] = lambda: None

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.during()


@contextmanager
def on(host: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_HOST", host)
        yield


def foreign(folder: Path, number: int = 1, name: str = "a", **changed: object) -> Path:
    """A lease of another machine; the path of its file."""
    said = {"host": "far", "machine": "far", "process": 7, "start": "1", "user": "ann", "what": "makes x", "every": 10}
    path = folder / f".{name}.{number}.lease" / f"{number:016x}"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(said | changed) + "\n")
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def tick(path: Path) -> None:
    with path.open("a") as stream:
        stream.write(".\n")
