"""A process of one of the machines: builds, reads, collects, and writes what it saw into a log."""

from __future__ import annotations

import json
import os
import random
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from harness.errors import HarnessError
from harness.io import console
from harness.store import artefacts
from harness.store.leases import ArtefactBusy, without_waiting

KINDS = ("index", "vectors")
ARTEFACTS = 3  # of each kind


class WrongError(Exception):
    """The store gave something that nobody wrote."""


def spec(number: int) -> dict[str, int]:
    """The inputs of an artefact."""
    return {"number": number}


def content(kind: str, number: int) -> dict[str, bytes]:
    """The files of an artefact."""
    chance = random.Random(f"{kind} {number}")
    return {name: chance.randbytes(chance.randrange(1, 4000)) for name in ("a", "b", "part/c", "part/d")}


class Worker:
    """A process that asks for artefacts.

    Parameters
    ----------
    all_of_it : whether `collect` may delete what is not used, so that what was made may be gone.
    """

    def __init__(self, seed: str, log: Path, steps: int, all_of_it: bool) -> None:
        self._chance, self._steps, self._all = random.Random(seed), steps, all_of_it
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

    def work(self) -> None:
        """Do some steps at random."""
        for _ in range(self._steps):
            kind, number = self._chance.choice(KINDS), self._chance.randrange(ARTEFACTS)
            deed = self._chance.random()
            if deed < 0.15:
                artefacts.collect(0 if self._all and self._chance.random() < 0.5 else 30)
                self._say("collected")
            elif deed < 0.3:
                with without_waiting():
                    try:
                        self.want(kind, number)
                    except ArtefactBusy:
                        self._say("busy")
            else:
                self.want(kind, number)

    def want(self, kind: str, number: int) -> None:
        """Ask for an artefact, and compare what it holds with what it should."""
        for _ in range(20):
            folder = artefacts.get_or_build(kind, spec(number), self._build(kind, number))
            try:
                status = folder.stat()
                found = {name: (folder / name).read_bytes() for name in content(kind, number)}
                here = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
            except FileNotFoundError:
                if not self._all:
                    raise
                continue  # collected by another process after it was found: deleting all is what the user said
            if found != content(kind, number) or here - found.keys() - {artefacts.SPEC}:
                raise WrongError(f"{folder}: {sorted(here)}")
            self._say("found", kind, number, f"{status.st_ino}-{status.st_ctime_ns}")
            return
        raise WrongError(f"{kind} {number}: collected 20 times in a row")

    def _build(self, kind: str, number: int) -> Callable[[Path], None]:
        def build(folder: Path) -> None:
            self._say("begun", kind, number)
            for name, data in content(kind, number).items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)  # as many builders do
                with path.open("wb", buffering=0) as stream:
                    stream.write(data[: len(data) // 2])
                    time.sleep(self._chance.choice((0, 0.001, 0.01)))
                    stream.write(data[len(data) // 2 :])
            if kind == "vectors" and number:
                self.want("index", number)
            self._say("built", kind, number)

        return build

    def _say(self, *what: object) -> None:
        os.write(self._log, (json.dumps([os.environ["HARNESS_HOST"], os.getpid(), *what]) + "\n").encode())


def run(worker: Worker, errors: Path) -> None:
    """Work in a forked process, and never return."""
    code = 1
    try:
        console.hide_progress()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        worker.work()
        code = 0
    except (Exception, HarnessError):
        with errors.open("a") as stream:
            stream.write(f"{os.environ['HARNESS_HOST']} {os.getpid()}: {traceback.format_exc()}\n")
    finally:
        sys.stdout.flush()
        os._exit(code)
