"""Processes that build, read and collect in one store, killed and paused: artifacts are whole, and none is lost."""

from __future__ import annotations

import os
import random
import signal
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from harness.io import console
from harness.store import artefacts
from harness.store.artefacts import ArtefactBusy, without_waiting

KINDS, NUMBERS = ("index", "vectors"), range(3)
STEPS = 12  # of a process
LONGEST = 60.0  # seconds for processes that nobody disturbs to end


def content(kind: str, number: int) -> dict[str, bytes]:
    chance = random.Random(f"{kind} {number}")
    return {name: chance.randbytes(chance.randrange(1, 4000)) for name in ("a", "b", "part/c", "part/d")}


class Worker:
    """A process that asks for artifacts and appends what it got to a log."""

    def __init__(self, seed: str, place: Path) -> None:
        self._chance = random.Random(seed)
        self._log = os.open(place / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def work(self) -> None:
        for _ in range(STEPS):
            kind, number, deed = self._chance.choice(KINDS), self._chance.choice(NUMBERS), self._chance.random()
            if deed < 0.15:
                artefacts.collect(30)
            elif deed < 0.3:
                with without_waiting(), suppress(ArtefactBusy):
                    self.want(kind, number)
            else:
                self.want(kind, number)

    def want(self, kind: str, number: int) -> None:
        folder = artefacts.get_or_build(kind, {"number": number}, self._build(kind, number))
        status = folder.stat()
        here = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        expected = content(kind, number)
        assert here == {*expected, artefacts.SPEC}
        assert {name: (folder / name).read_bytes() for name in expected} == expected
        os.write(self._log, f"{kind} {number} {status.st_ino}-{status.st_ctime_ns}\n".encode())

    def _build(self, kind: str, number: int) -> Callable[[Path], None]:
        def build(folder: Path) -> None:
            for name, data in content(kind, number).items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)  # as many builders do
                with (folder / name).open("wb", buffering=0) as stream:
                    stream.write(data[: len(data) // 2])
                    time.sleep(self._chance.choice((0, 0.001, 0.01)))
                    stream.write(data[len(data) // 2 :])
            if kind == "vectors" and number:
                self.want("index", number)

        return build


def start(seed: str, place: Path) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            console.hide_progress()
            Worker(seed, place).work()
            code = 0
        except BaseException:
            (place / f"error {seed}").write_text(traceback.format_exc())
        finally:
            os._exit(code)
    return child


def disturb(chance: random.Random, seed: str, place: Path) -> None:
    """Kills and pauses processes; then all that live go on to their end."""
    living = [start(f"{seed} {number}", place) for number in range(3)]
    paused: set[int] = set()
    for number in range(3, chance.randrange(6, 13)):
        time.sleep(chance.choice((0.002, 0.01, 0.04, 0.1)) * chance.random())
        process = chance.choice(living)
        if process in paused:
            paused.remove(process)
            os.kill(process, signal.SIGCONT)
        elif chance.random() < 0.5:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            living[living.index(process)] = start(f"{seed} {number}", place)
        elif os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            paused.add(process)
            os.kill(process, signal.SIGSTOP)
    for process in paused:
        os.kill(process, signal.SIGCONT)
    end = time.monotonic() + LONGEST
    while living and time.monotonic() < end:
        time.sleep(0.005)
        living = [process for process in living if not os.waitpid(process, os.WNOHANG)[0]]
    for process in living:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    assert not living  # none waits for ever


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_artifacts_are_whole_and_none_is_lost(seed: int, tmp_path: Path) -> None:
    disturb(random.Random(seed), str(seed), tmp_path)
    assert [path.read_text() for path in tmp_path.glob("error *")] == []
    first: dict[tuple[str, str], str] = {}
    for line in (tmp_path / "log").read_text().splitlines():
        kind, number, which = line.split()
        assert first.setdefault((kind, number), which) == which  # what one process was given is given to all
    artefacts.collect(30)
    assert [path for path in artefacts.store_root().rglob("*") if path.name.startswith(".")] == []
    for (kind, number), which in first.items():
        folder = artefacts.folder_of(kind, {"number": int(number)})
        status = folder.stat()
        assert which == f"{status.st_ino}-{status.st_ctime_ns}"
        assert artefacts.damage(folder, kind) == ""
