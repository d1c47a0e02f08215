"""Processes of two machines (two names of a host) build, read and collect in one store, at random.

They are killed and paused at random moments, also for longer than a lease lasts, and others take their places. Then all
that still run go on to their end, and the store is looked at:

- no process found an artefact that differs from what was written, failed, or waits for ever;
- an artefact that one process was given is the one that all are given from then on: nothing finished is lost or
  replaced (but where processes are told to delete all);
- after one collection by a third machine, nothing is left but whole artefacts, and they are found without being built.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from harness.io import console
from harness.store import artefacts

from .worker import ARTEFACTS, KINDS, Worker, content, run, spec

HOSTS = ("one", "two")
LEASE = 0.4  # seconds
STEPS = 12  # of a process
LONGEST = 60.0  # seconds for processes that nobody disturbs to end


class Case:
    """One interleaving, in a folder of its own."""

    def __init__(self, place: Path, number: int, seed: int) -> None:
        self.chance = random.Random(f"{seed} {number}")
        self.place, self.name = place, f"{seed} {number}"
        self.all_of_it = number % 4 == 3
        self.counts: Counter[str] = Counter()
        self._children: dict[int, str] = {}  # process -> host
        self._paused: set[int] = set()
        self._started = 0
        os.environ["HARNESS_CACHE"] = str(place / "cache")
        os.environ["HARNESS_LEASE_SECONDS"] = str(LEASE)

    def run(self) -> list[str]:
        """What is wrong; nothing, if nothing is."""
        try:
            for host in (*HOSTS, self.chance.choice(HOSTS)):
                self._start(host)
            for _ in range(self.chance.randrange(3, 10)):
                time.sleep(self.chance.choice((0.001, 0.005, 0.02, 0.05)) * self.chance.random() * 2)
                self._disturb()
                self._reap()
            for process in self._paused:
                os.kill(process, signal.SIGCONT)
            if not self._ended():
                return ["a process waits for ever"]
        finally:
            for process in self._children:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
        return self._errors() + self._lost() + self._left()

    def _start(self, host: str) -> None:
        self._started += 1
        worker = Worker(f"{self.name} {self._started}", self.place / "log", STEPS, self.all_of_it)
        child = os.fork()
        if child == 0:
            os.environ["HARNESS_HOST"] = host
            run(worker, self.place / "errors")
        self._children[child] = host

    def _disturb(self) -> None:
        if not self._children:
            return
        process = self.chance.choice(sorted(self._children))
        deed = self.chance.random()
        if process in self._paused:
            self._paused.discard(process)
            os.kill(process, signal.SIGCONT)
        elif deed < 0.4:
            self.counts["killed"] += 1
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            self._start(self._children.pop(process))
        else:
            self.counts["paused"] += 1
            os.kill(process, signal.SIGSTOP)
            self._paused.add(process)
            if deed > 0.85:  # longer than its leases last
                time.sleep(1.3 * LEASE)

    def _reap(self) -> None:
        for process in list(self._children):
            if os.waitpid(process, os.WNOHANG)[0]:
                del self._children[process]
                self._paused.discard(process)

    def _ended(self) -> bool:
        end = time.monotonic() + LONGEST
        while self._children and time.monotonic() < end:
            time.sleep(0.005)
            self._reap()
        return not self._children

    def _errors(self) -> list[str]:
        path = self.place / "errors"
        return [path.read_text()] if path.exists() else []

    def _events(self) -> list[list[str]]:
        path = self.place / "log"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line)[2:] for line in lines]

    def _lost(self) -> list[str]:
        first: dict[tuple[str, str], str] = {}
        faults = []
        for event, *what in self._events():
            self.counts[event] += 1
            if event == "found":
                kind, number, which = what
                if first.setdefault((kind, number), which) != which and not self.all_of_it:
                    faults.append(f"{kind} {number} was replaced")
            elif event == "begun" and tuple(what) in first and not self.all_of_it:
                self.counts["begun though it was there"] += 1  # by a process that was paused after its look
        if not self.all_of_it:
            for (kind, number), which in first.items():
                folder = artefacts.store_root() / kind / artefacts.key(spec(int(number)))
                status = folder.stat() if folder.exists() else None
                if status is None or which != f"{status.st_ino}-{status.st_ctime_ns}":
                    faults.append(f"{kind} {number} is lost")
        return faults

    def _left(self) -> list[str]:
        os.environ["HARNESS_HOST"] = "three"
        artefacts.collect(30)
        root, faults = artefacts.store_root(), []
        for path in root.rglob("*"):
            if path.name.startswith("."):
                faults.append(f"{path.relative_to(root)} is left")
        before = {found.path for found in artefacts.artefacts()}
        built: list[Path] = []
        for kind in KINDS:
            for number in range(ARTEFACTS):
                folder = root / kind / artefacts.key(spec(number))
                if folder in before:
                    artefacts.get_or_build(kind, spec(number), built.append)
                    files = {folder / name: data for name, data in content(kind, number).items()}
                    if any(not path.is_file() or path.read_bytes() != data for path, data in files.items()):
                        faults.append(f"{folder} is damaged")
        return faults + [f"{path} was built again" for path in built]


def case(root: Path, number: int, seed: int) -> tuple[list[str], Counter[str]]:
    """Run one case below a folder, which is deleted if nothing is wrong; what is wrong, and counts of events."""
    place = root / f"{seed}-{number}"
    place.mkdir(parents=True)
    before = {name: os.environ.get(name) for name in ("HARNESS_HOST", "HARNESS_CACHE", "HARNESS_LEASE_SECONDS")}
    made = Case(place, number, seed)
    try:
        faults = made.run()
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
    if not faults:
        shutil.rmtree(place)
    return faults, made.counts


def main() -> int:
    """Run the cases; 1 if anything was wrong in any of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.interleavings", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of a case: it alone")
    chosen = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="interleavings-"))
    console.hide_progress()
    counts: Counter[str] = Counter()
    bad = 0
    begin = time.monotonic()
    numbers = range(chosen.cases) if chosen.only is None else [chosen.only]
    for number in numbers:
        faults, seen = case(root, number, chosen.seed)
        counts += seen
        if faults:
            bad += 1
            sys.stdout.write(f"case {number}, in {root}: {'; '.join(faults)}\n")
            sys.stdout.flush()
    if not bad:
        shutil.rmtree(root)
    for event, count in sorted(counts.items()):
        sys.stdout.write(f"{count:7} {event}\n")
    sys.stdout.write(f"{bad} of {len(numbers)} cases ended badly, {time.monotonic() - begin:.0f} s\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
