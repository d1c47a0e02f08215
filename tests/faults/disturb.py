"""The faults: what is done to a command, and how it must end."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from .outcome import Finished, Kept, differences, finished, kept, lost, unclear
from .world import COMMANDS, LONGEST, Done, Process, World

PAGE = 4096
STEPS = (-86400.0, -3600.0, 3600.0, 86400.0)  # seconds that a clock jumps

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
    stack : what is ended with the last case.
    """

    world: World
    calls: int = 2
    stack: ExitStack = field(default_factory=ExitStack)
    known: dict[str, Undisturbed] = field(default_factory=dict)

    @cached_property
    def slurm(self) -> Mapping[str, str]:
        """Start a SLURM cluster on this machine; the variables of its clients."""
        import slurm

        return self.stack.enter_context(slurm.cluster()).environment

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


def clock(bench: Bench, name: str, chance: random.Random) -> str:
    """A clock that jumps while the command works; every other command is killed, and its files are of another time."""
    world, usual = bench.world, bench.undisturbed(name)
    step, moment = chance.choice(STEPS), usual.seconds * chance.random()
    world.fresh(name)
    process = Process(world, world.words(name), lambda: _jumping(step, moment))
    if chance.random() < 0.5:
        process.until(usual.seconds * chance.random())
        process.kill()
        process.wait()
        for path in world.place.rglob("*"):
            then = path.lstat().st_mtime + step
            os.utime(path, (then, then), follow_symlinks=False)
        bench.repeated(name, finished(world.place))
        return SAME
    end = _ended_well(bench, name, process.wait())
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


def clusters(bench: Bench, name: str, chance: random.Random) -> str:
    """The same command twice with one store; one of them is killed, or paused."""
    world, usual = bench.world, bench.undisturbed(name)
    world.fresh(name)
    shutil.copytree(world.place / "here", world.place / "here2")
    one, two = Process(world, world.words(name)), Process(world, world.words(name), here="here2")
    deed = chance.choice(("nothing", "kill", "pause"))
    if deed != "nothing" and two.until(usual.seconds * 1.5 * chance.random()):
        if deed == "kill":
            two.kill()
        else:
            os.killpg(two.pid, signal.SIGSTOP)
            time.sleep(1.5)
            os.killpg(two.pid, signal.SIGCONT)
    ends = [one.wait(), two.wait()]
    for done, killed in zip(ends, (False, deed == "kill"), strict=True):
        if done.code and not (killed and done.code == -signal.SIGKILL):
            raise WrongError(f"{deed}: exit code {done.code}: {done.err[-600:]}")
    before = finished(world.place)
    again = Process(world, world.words(name), here="here2").wait()
    if again.code:
        raise WrongError(f"said again beside: exit code {again.code}: {again.err[-600:]}")
    if faults := lost(before, finished(world.place)):
        raise WrongError("; ".join(faults[:5]))
    found = kept(world.place)
    second = {f"here/{path[6:]}": sha for path, sha in found.items() if path.startswith("here2/")}
    wanted = {path: sha for path, sha in usual.after.items() if path.startswith("here/")}
    if faults := differences(second, wanted):
        raise WrongError(f"in the second folder: {'; '.join(faults[:5])}")
    shutil.rmtree(world.place / "here2")
    bench.repeated(name, {path: each for path, each in before.items() if not path.startswith("here2/")})
    return UNHURT if deed == "nothing" else SAME


LAUNCHERS = {
    "joblib": ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2"),
    "submitit_local": ("hydra/launcher=submitit_local",),
    "submitit_slurm": ("hydra/launcher=submitit_slurm", "hydra.launcher.mem_gb=1"),
    "ray": ("hydra/launcher=ray",),
}


def workers(bench: Bench, launcher: str, chance: random.Random) -> str:
    """Kill a worker of a launcher at a uniform moment of an experiment's runs."""
    world, name = bench.world, "experiment"
    usual = bench.undisturbed(name)
    world.fresh(name)
    words = (*world.words(name), *LAUNCHERS[launcher])
    process = Process(world, words, real=True, environment=bench.slurm if launcher == "submitit_slurm" else {})
    found: list[int] = []
    try:
        started = world.place / "here" / "runs" / "launched"
        while not process.ended() and not any(started.glob("*/*.started")):
            time.sleep(0.01)
        time.sleep(chance.random() * usual.seconds)
        while not process.ended() and not (found := _workers(process.pid, started)):
            time.sleep(0.01)
        if found:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(found), signal.SIGKILL)
    finally:
        done = process.wait()
    end = _ended_well(bench, name, done)
    if not found and end != UNHURT:
        raise WrongError(f"exit code {done.code}, and no worker was killed: {done.err[-600:]}")
    before = finished(world.place)
    _quiet(world)
    bench.repeated(name, before)
    return EARLY if not found else SAME if end == UNHURT else end


def _workers(driver: int, started: Path) -> list[int]:
    """The processes in which runs are made now, as they said when they began."""
    out = []
    for path in started.glob("*/*.started"):
        with suppress(OSError, ValueError):
            pid = int(path.read_text().split()[1])
            if pid != driver and not path.with_suffix(".ended").exists() and Path(f"/proc/{pid}").exists():
                out.append(pid)
    return sorted(set(out))


def _quiet(world: World) -> None:
    """Wait until no process works for the folder any more."""
    mark, end = f"HARNESS_CACHE={world.place / 'cache'}".encode(), time.monotonic() + LONGEST
    while time.monotonic() < end:
        left = []
        for path in Path("/proc").iterdir():
            if path.name.isdecimal():
                with suppress(OSError):
                    if mark in (path / "environ").read_bytes().split(b"\0"):
                        left.append(path.name)
        if not left:
            return
        time.sleep(0.1)


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


def unmountable() -> str:
    """Why nothing can be mounted here; empty if something can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "file systems are mounted by root"
    done = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, text=True)  # noqa: PLW1510
    return done.stderr.strip()


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


def _jumping(step: float, moment: float) -> None:
    """Make the clock of this process jump after some seconds."""
    import datetime as module

    real, real_ns, begin, old = time.time, time.time_ns, time.monotonic(), module.datetime

    def off() -> float:
        return step if time.monotonic() - begin > moment else 0.0

    class Jumping(old):  # type: ignore[misc,valid-type]
        @classmethod
        def now(cls, tz: module.tzinfo | None = None) -> module.datetime:
            return old.fromtimestamp(real() + off(), tz)

    time.time = lambda: real() + off()
    time.time_ns = lambda: real_ns() + int(off() * 1e9)
    for each in list(sys.modules.values()):
        if getattr(each, "__name__", "").startswith("harness"):
            for attribute, value in list(vars(each).items()):
                if value is old:
                    setattr(each, attribute, Jumping)
                elif value is real:
                    setattr(each, attribute, time.time)


Fault = Callable[[Bench, str, random.Random], str]
FAULTS: dict[str, Fault] = {
    "kill": kill,
    "kill at a change": kill_at,
    "workers": workers,
    "disk": disk,
    "read-only": read_only,
    "clock": clock,
    "memory": memory,
    "clusters": clusters,
}
