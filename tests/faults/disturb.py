"""The faults: what is done to a command, and how it must end."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from .outcome import Finished, Kept, differences, finished, kept, lost, unclear
from .world import COMMANDS, Done, Process, World

PAGE = 4096

# How a case ended well.
SAME = "same bytes after the fault"
EARLY = "ended before the fault"
UNHURT = "same bytes in spite of it"
LINE = "one clear line, then the same bytes"
SIGNAL = "ended by a signal, then the same bytes"
ENDS = (SAME, UNHURT, LINE, EARLY, SIGNAL)


class WrongError(Exception):
    """A case that ended badly: what is wrong."""


@dataclass(frozen=True)
class Undisturbed:
    """How a command ends if nothing happens: seconds, files before and after it, changes of files and folders."""

    seconds: float
    before: Kept
    after: Kept
    bytes_before: int
    bytes_after: int
    changes: int


@dataclass
class Bench:
    """The world, and what each command gives undisturbed.

    Attributes
    ----------
    calls : how often a command runs undisturbed; only the second call and later ones do not import modules.
    """

    world: World
    calls: int = 2
    known: dict[str, Undisturbed] = field(default_factory=dict)

    def undisturbed(self, name: str) -> Undisturbed:
        """Run a command undisturbed, twice: the results must be the same, so that the cases can be compared."""
        if name not in self.known:
            found = [self._run(name) for _ in range(self.calls)]
            if faults := differences(found[-1].after, found[0].after):
                raise SystemExit(f"{name}: two undisturbed calls differ: {'; '.join(faults)}")
            self.known[name] = found[-1]
        return self.known[name]

    def _run(self, name: str) -> Undisturbed:
        import importlib

        world = self.world
        world.fresh(name)
        before, size = kept(world.place), _pages(world.place)
        modules = world.root / "modules"
        changes = world.root / "changes"
        changes.touch()
        told = {"FAULTS_MODULES": str(modules)}
        done = Process(world, world.words(name), lambda: _counting(world.place, changes), environment=told).wait()
        if done.code:
            raise SystemExit(f"{name}: exit code {done.code}, undisturbed:\n{done.err}")
        for module in modules.read_text().split():  # loaded here once, not in every child
            if module != "__main__":
                with suppress(Exception):
                    importlib.import_module(module)
        used = _pages(world.place)
        self.collect()
        return Undisturbed(done.seconds, before, kept(world.place), size, used, int(changes.read_text()))

    def collect(self) -> None:
        """Delete what killed processes left, as a user does."""
        self.world.good(("store", "gc", "--days", "30"))

    def repeated(self, name: str, before: Finished, words: tuple[str, ...] = ()) -> None:
        """Say a command again, which nobody disturbs; raises WrongError unless all is as if it had never been."""
        world, command = self.world, COMMANDS[name]
        done = world.run(words or world.words(name))
        said = command.done and command.done in done.err and any("lab/journal.jsonl:2" in each for each in before)
        if done.code and not (done.code == 2 and said and not unclear(done)):
            raise WrongError(f"said again: exit code {done.code}: {done.err[-600:]}")
        if faults := lost(before, finished(world.place)):
            raise WrongError("; ".join(faults[:5]))
        self.collect()
        if faults := differences(kept(world.place), self.undisturbed(name).after):
            raise WrongError("; ".join(faults[:5]))


def _pages(place: Path) -> int:
    """Bytes that the files of a folder take, in whole pages."""
    files = [path for path in place.rglob("*") if not path.is_symlink()]
    return sum(PAGE if path.is_dir() else -(-path.stat().st_size // PAGE) * PAGE for path in files)


def _ended_well(bench: Bench, name: str, done: Done) -> str:
    """What a command gave that had to live with a fault: all of it, or a line; raises WrongError otherwise."""
    if (said := unclear(done, several=name in ("experiment", "sweep"))) and done.code >= 0:
        raise WrongError(f"{said}: {done.err[-1500:]}")
    if done.code < 0:
        return SIGNAL
    if done.code:
        return LINE
    mine = {path: sha for path, sha in kept(bench.world.place).items() if path.startswith("here/")}
    wanted = {path: sha for path, sha in bench.undisturbed(name).after.items() if path.startswith("here/")}
    if faults := [each for each in differences(mine, wanted) if not each.endswith(" is left")]:
        raise WrongError(f"exit code 0, but {'; '.join(faults[:5])}")
    return UNHURT


# ---- faults -----------------------------------------------------------------------------------------------------


def kill(bench: Bench, name: str, chance: random.Random) -> str:
    """Kill a command and its children at a uniform moment."""
    world, moment = bench.world, bench.undisturbed(name).seconds * chance.random()
    world.fresh(name)
    process = Process(world, world.words(name))
    runs = process.until(moment)
    process.kill()
    done = process.wait()
    if not runs and done.code:
        raise WrongError(f"exit code {done.code} before the kill: {done.err[-600:]}")
    bench.repeated(name, finished(world.place))
    return SAME if runs else EARLY


def kill_at(bench: Bench, name: str, chance: random.Random) -> str:
    """Kill a command before one of the moments at which it makes, renames or deletes a file or folder."""
    world, changes = bench.world, bench.undisturbed(name).changes
    world.fresh(name)
    at = chance.randrange(changes) + 1
    done = Process(world, world.words(name), lambda: _counting(world.place, None, at)).wait()
    if done.code not in (0, -signal.SIGKILL):
        raise WrongError(f"exit code {done.code} before the kill: {done.err[-600:]}")
    try:
        bench.repeated(name, finished(world.place))
    except WrongError as error:
        raise WrongError(f"killed at change {at} of {changes}: {error}") from None
    return SAME if done.code else EARLY


def disk(bench: Bench, name: str, chance: random.Random) -> str:
    """A disk that has room for a part of what the command writes."""
    usual, world = bench.undisturbed(name), bench.world
    room = usual.bytes_before + 4 * PAGE + int((usual.bytes_after - usual.bytes_before) * 1.1 * chance.random())
    with mounted(world, "-t", "tmpfs", "-o", f"size={room}", "tmpfs", str(world.place)):
        world.fresh(name)
        end = _ended_well(bench, name, world.run(world.words(name)))
        before = finished(world.place)
        _mount("-o", "remount,size=2g", str(world.place))
        bench.repeated(name, before)
    return end


def read_only(bench: Bench, name: str, chance: random.Random) -> str:
    """A folder that cannot be written."""
    world, usual = bench.world, bench.undisturbed(name)
    folders = [path for path, sha in usual.after.items() if sha == "folder" and path.count("/") < 3]
    target = world.place / chance.choice([path for path in folders if not path.startswith(("tmp", "home"))])
    world.fresh(name)
    target.mkdir(parents=True, exist_ok=True)
    with mounted(world, "--bind", str(target), str(target), at=target):
        _mount("-o", "remount,bind,ro", str(target))
        end = _ended_well(bench, name, world.run(world.words(name)))
    bench.repeated(name, finished(world.place))
    return end


def memory(bench: Bench, name: str, chance: random.Random) -> str:
    """Less memory than the command needs, or a little more."""
    world, room = bench.world, int(2 ** chance.uniform(18, 27))
    bench.undisturbed(name)
    world.fresh(name)
    end = _ended_well(bench, name, world.run(world.words(name), lambda: _limited(room)))
    bench.repeated(name, finished(world.place))
    return end


# ---- tools ------------------------------------------------------------------------------------------------------


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True)


@contextmanager
def mounted(world: World, *words: str, at: Path | None = None) -> Iterator[None]:
    """Mount something for the block; the folder of the command is empty before and after, unless `at` is in it."""
    if at is None:
        world.clear()
        world.place.mkdir()
    _mount(*words)
    try:
        yield
    finally:
        subprocess.run(["umount", str(at or world.place)], check=True)


CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def _counting(place: Path, total: Path | None, at: int = 0) -> None:
    """Count the changes of files in this process; kill its group before the one with a number, or say how many."""
    import atexit

    seen, below = 0, str(place)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        if event == "open":
            flags = arguments[2]
            writes = isinstance(flags, int) and flags & _WRITES and str(arguments[0]).startswith(below)
        else:
            writes = event in CHANGES
        if writes:
            seen += 1
            if seen == at:
                os.killpg(os.getpgrp(), signal.SIGKILL)

    sys.addaudithook(hook)
    if total is not None:
        atexit.register(lambda: total.write_text(str(seen)))


def _limited(room: int) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + room, used + room))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


Fault = Callable[[Bench, str, random.Random], str]
FAULTS: dict[str, Fault] = {
    "kill": kill,
    "kill at a change": kill_at,
    "disk": disk,
    "read-only": read_only,
    "memory": memory,
}
