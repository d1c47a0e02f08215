"""Locks for folders that several machines share, without file-system locks and without comparing clocks.

A lease is a folder `.NAME.N.lease` that holds one file. The file is named by a random owner and describes its process;
the owner's process appends a line to it every few seconds (a beat). The folder is prepared under another name and then
renamed, which fails if a lease of the same number is there: of two processes that try, one succeeds, and no process
finds a lease without its owner. Whoever finds only leases whose owners are gone makes the one with the next number.

An owner is gone if its process on this machine has ended, or if there was no beat for `HARNESS_LEASE_SECONDS` by the
clock of the process that waits. Only the owner's own file, which has a unique name, is deleted with a lease, so that a
process that was paused for minutes cannot end the lease of another one.

A lease saves double work. It cannot protect data, because a paused owner does not know that its lease was taken over.
Work is therefore done in a folder named by the owner, which gets its final name at the end.
"""

from __future__ import annotations

import errno
import json
import os
import random
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread

from harness.errors import HarnessError
from harness.io import holders, processes
from harness.io.console import say
from harness.io.holders import Holder

SILENT = 1.0  # seconds of waiting before a line says so
_SHORTEST = 0.002  # seconds before the second look at a lease of another process
_TRIES = 10
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR)  # of renaming a folder to a name that is in use


class HeldError(HarnessError):
    """A lease that was asked for without waiting is held by another owner.

    Attributes
    ----------
    holder : the lease.
    """

    def __init__(self, holder: Holder) -> None:
        super().__init__(f"{holder.path.parent}: in use by {holder}")
        self.holder = holder

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.holder,)


class Lease:
    """A lease of this process, made by `held` or `marked`.

    Parameters
    ----------
    name : what the lease is for, in its folder; None for a name of its own.

    Attributes
    ----------
    owner : random name of the owner, 16 hexadecimal digits.
    path : folder of the lease, once it is held.
    every : seconds between two beats.
    """

    def __init__(self, folder: Path, name: str | None, what: str = "") -> None:
        self.owner = secrets.token_hex(8)
        self.folder, self.name, self.what = folder, self.owner if name is None else name, what
        self.path: Path | None = None
        self.every = holders.lease_seconds() / holders.BEATS
        self._prepared = folder / f".{self.name}.{self.owner}.new"
        self._process = os.getpid()

    def holds(self) -> bool:
        """Returns whether the lease is still there; False after another process took over."""
        try:
            os.close(os.open((self.path or self._prepared) / self.owner, os.O_RDONLY))
        except OSError as error:
            return error.errno not in holders.VANISHED
        return True

    def is_ours(self) -> bool:
        """Returns whether this process made the lease; False in a forked child."""
        return self._process == os.getpid()

    def note(self, *uses: str) -> None:
        """Adds lines to the lease, which other processes find in `Holder.uses`."""
        if uses:
            self._append("".join(f"use {use}\n" for use in uses))

    def beat(self) -> None:
        """Shows other processes that the owner runs."""
        self._append(".\n")

    def claim(self, number: int) -> bool:
        """Takes the lease with a number; returns False if that failed because of another process.

        Raises
        ------
        OSError
            The lease cannot be written.
        """
        self._prepare()
        self.path = self.folder / f".{self.name}.{number}.lease"
        try:
            self._prepared.rename(self.path)
        except OSError as error:
            if error.errno not in (*_TAKEN, *holders.VANISHED):
                raise
        # Asked even after an error: a network file system may repeat a request that was done already.
        if (self.path / self.owner).exists():
            return True
        self.path = None
        return False

    def drop(self) -> None:
        """Ends the lease, if this process is the one that made it."""
        if self.is_ours():
            for path in filter(None, (self._prepared, self.path)):
                with suppress(OSError):
                    (path / self.owner).unlink()
                    path.rmdir()
            self.path = None

    def abandon(self) -> None:
        """Makes a forked child forget the lease of its parent."""
        self._process = -1

    def _prepare(self) -> None:
        if (self._prepared / self.owner).exists():
            return
        process = os.getpid()
        said = {
            "host": processes.host(),
            "machine": processes.host_name(),
            "process": process,
            "start": processes.started(process),
            "user": processes.user(),
            "what": self.what,
            "every": self.every,
        }
        for tries in range(_TRIES):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._prepared.mkdir(exist_ok=True)
            try:
                (self._prepared / self.owner).write_bytes(json.dumps(said).encode() + b"\n")
                break
            except FileNotFoundError:  # deleted while it was empty
                if tries == _TRIES - 1:
                    raise
        mode = self.folder.stat().st_mode & 0o777
        if mode & 0o022:  # whoever may write to the folder may delete leases of processes that are gone
            self._prepared.chmod(mode)

    def _append(self, line: str) -> None:
        path = self.path
        if path is None or not self.is_ours():
            return
        try:
            handle = os.open(path / self.owner, os.O_WRONLY | os.O_APPEND)
            try:
                os.write(handle, line.encode())
            finally:
                os.close(handle)
        except OSError as error:
            if error.errno not in holders.VANISHED:
                with suppress(OSError):  # a full disk still has room for another time
                    os.utime(path / self.owner)


@contextmanager
def held(
    folder: Path,
    name: str,
    what: str = "",
    *,
    wait: bool = True,
    pause: Callable[[float], object] | None = None,
    bury: Callable[[str], object] | None = None,
) -> Iterator[Lease]:
    """Holds the lease of a name in a folder; waits while another owner has it, on any machine.

    Parameters
    ----------
    what : what the owner does, such as `makes bm25-index`, for the message of processes that wait; without it they wait
        silently.
    wait : False to raise `HeldError` instead of waiting.
    pause : function that sleeps for some seconds; its exceptions end the wait.
    bury : called with each former owner whose process on this machine has ended, before its lease is deleted.

    Raises
    ------
    OSError
        The lease cannot be written.
    """
    with _listed(Lease(folder, name, what)) as lease:
        _take(lease, wait, pause or holders.sleep, bury)
        yield lease


@contextmanager
def marked(folder: Path) -> Iterator[Lease]:
    """Holds a lease under the name of its owner, which no other process asks for."""
    with _listed(Lease(folder, None)) as lease:
        while not lease.claim(1):
            pass  # its prepared folder was deleted
        yield lease


@contextmanager
def _listed(lease: Lease) -> Iterator[Lease]:
    _register(lease)  # before it can be seen, so that no thread takes it for a remain
    try:
        yield lease
    finally:
        lease.drop()
        with _LOCK:
            _HELD.pop(lease.owner, None)
            holders.OURS.discard(lease.owner)


def _take(lease: Lease, wait: bool, pause: Callable[[float], object], bury: Callable[[str], object] | None) -> None:
    delay, begin, told = _SHORTEST, holders.clock(), False
    while True:
        found, _ = holders.numbered(lease.folder, lease.name)
        living = [holder for holder in found.values() if not holders.is_dead(holder)]
        if living:
            if not wait:
                raise HeldError(living[-1])
            if not told and holders.clock() - begin >= SILENT and lease.what:
                told = True
                say(f"waiting for {living[-1]}")
            pause(delay)
        elif lease.claim(max(found, default=0) + 1):
            # Two processes may have taken different numbers. The later one, at least, finds the other and withdraws.
            found, remains = holders.numbered(lease.folder, lease.name)
            others = [holder for holder in found.values() if holder.owner != lease.owner]
            if all(map(holders.is_dead, others)):
                _clear(others, remains, bury)
                return
            lease.drop()
            pause(random.uniform(0, delay))  # noqa: S311
        delay = min(1.5 * delay, holders.LOOK)


def clear_remains(folder: Path, names: Collection[str]) -> None:
    """Deletes what killed processes of this machine left of the leases of some names, also of prepared ones."""
    with suppress(OSError):
        found = [(each, holders.FOLDER.fullmatch(each)) for each in os.listdir(folder)]  # noqa: PTH208
        _clear((), [folder / each for each, match in found if match and match[1] in names], None)


def _clear(dead: Iterable[Holder], remains: Iterable[Path], bury: Callable[[str], object] | None) -> None:
    """Deletes leases of owners that are gone, and those of the remains that have no owner or one that is gone."""
    for holder in dead:
        if bury and holder.state() == "gone":
            bury(holder.owner)
        holders.remove(holder)
    for path in remains:
        if (found := holders.read(path)) is None:
            with suppress(OSError):
                path.rmdir()
        elif found.state() == "gone":
            holders.remove(found)


# ---- beats ------------------------------------------------------------------------------------------------------

_HELD: dict[str, Lease] = {}  # by owner, those that are waited for included
_LOCK = Lock()
_SOONER = Event()  # a lease with a shorter interval was added
_BEATING: list[Thread] = []
_EVERY = [0.0]  # seconds for which the thread waits


def _register(lease: Lease) -> None:
    with _LOCK:
        holders.OURS.add(lease.owner)
        _HELD[lease.owner] = lease
        if not _BEATING:
            # A daemon, so that it does not keep the process alive.
            _BEATING[:] = [Thread(target=_beat, name="leases", daemon=True)]
            _EVERY[0] = lease.every
            _BEATING[0].start()
        elif lease.every < _EVERY[0]:
            _SOONER.set()


def _beat() -> None:
    """Beats for all leases of this process; ends when there was none for an interval."""
    while True:
        with _LOCK:
            leases = list(_HELD.values())
            if not leases:
                _BEATING.clear()
                return
            every = _EVERY[0] = min(lease.every for lease in leases)
            _SOONER.clear()
        if not _SOONER.wait(every):
            for lease in leases:
                lease.beat()


def _forked() -> None:
    """Leaves the leases to the parent: a child neither beats nor releases them."""
    global _LOCK, _SOONER
    _LOCK, _SOONER = Lock(), Event()  # another thread of the parent may have held their locks
    for lease in _HELD.values():
        lease.abandon()
    _HELD.clear()
    _BEATING.clear()
    holders.OURS.clear()


os.register_at_fork(after_in_child=_forked)
