"""Locks between processes: one does a piece of work, the others wait for it; and what killed processes leave.

A lock is the operating system's on a file `.NAME.lock`, so it ends with its process, however that ends. Network file
systems share it between machines. Where a file system has no locks, nobody waits.

A lock saves double work. Data are protected by atomic renames: work is done under a temporary name
(`harness.io.staging_names`) and gets its final name at the end.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from harness.errors import HarnessError, os_errors, printable, shortened
from harness.io import staging_names
from harness.io.console import log_line
from harness.io.files import cache_root
from harness.io.staging_names import host_name, user

SILENT = 1.0  # seconds of waiting before a line says so
_SHORTEST, _LONGEST = 0.002, 0.5  # seconds between two looks
_MOST = 1 << 20  # bytes that are read of a lock
_HANDLES: set[int] = set()  # of the locks of this process


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock, as its file says.

    Attributes
    ----------
    machine : name of the machine; process, user : of the holder; empty if the file does not say.
    what : what the holder does, for messages.
    uses : what the holder noted by `Lock.note`, such as the artifacts that it reads.
    """

    machine: str = ""
    process: int = 0
    user: str = ""
    what: str = ""
    uses: tuple[str, ...] = ()

    def __str__(self) -> str:
        doing = f", which {self.what}" if self.what else ""
        return shortened(printable(f"{self.machine}, process {self.process}{doing}"), 300)


class HeldError(HarnessError):
    """A lock that was asked for without waiting is held by another process.

    Attributes
    ----------
    holder : the other process.
    """

    def __init__(self, folder: Path, holder: Holder) -> None:
        super().__init__(f"{folder}: in use by {holder}")
        self.folder, self.holder = folder, holder

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.folder, self.holder)


class Lock:
    """A lock of this process, made by `held`."""

    def __init__(self, handle: int) -> None:
        self._handle, self._noted = handle, set[str]()

    def note(self, *uses: str) -> None:
        """Adds lines to the lock, which other processes find in `Holder.uses`."""
        new = [use for use in uses if use not in self._noted]
        self._noted.update(new)
        if new and self._handle in _HANDLES:  # not in a forked child
            with suppress(OSError):  # a full disk
                os.write(self._handle, "".join(f"{use}\n" for use in new).encode())


@contextmanager
def held(
    folder: Path, name: str, what: str = "", *, wait: bool = True, pause: Callable[[float], object] = time.sleep
) -> Iterator[Lock]:
    """Holds the lock of a name in a folder, which is made if it is missing.

    Parameters
    ----------
    what : what the holder does, such as `makes bm25-index`, for the message of processes that wait; without it they
        wait silently.
    wait : False to raise `HeldError` instead of waiting.
    pause : function that sleeps for some seconds; its exceptions end the wait.

    Raises
    ------
    OSError
        The folder cannot be written.
    """
    path = folder / f".{name}.lock"
    begin, delay, told = time.monotonic(), _SHORTEST, not what
    while (handle := _taken(path)) is None:
        if not wait:
            raise HeldError(folder, read(path))
        if not told and time.monotonic() - begin >= SILENT:
            told = True
            log_line(f"waiting for {read(path)}")
        pause(delay)
        delay = min(1.5 * delay, _LONGEST)
    _HANDLES.add(handle)
    try:
        said = {"machine": host_name(), "process": os.getpid(), "user": user(), "what": what}
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps(said).encode() + b"\n")
        yield Lock(handle)
    finally:
        if handle in _HANDLES:
            _HANDLES.remove(handle)
            with suppress(OSError):
                path.unlink()  # before the lock ends: who gets it afterwards sees that the file is gone
            os.close(handle)


def _taken(path: Path) -> int | None:
    """Returns a handle with the lock of a file; None if another process has it."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        free = _locks(handle)
        with suppress(FileNotFoundError):
            if free and os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        os.close(handle)
        if not free:
            return None


def _locks(handle: int, how: int = fcntl.LOCK_EX) -> bool:
    """Locks an open file or folder until it is closed or the process ends; False if another one has locked it."""
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks
    return True


def is_held(path: Path) -> bool:
    """Returns whether a process holds the lock of a file."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _locks(handle, fcntl.LOCK_SH)
    finally:
        os.close(handle)


def read(path: Path) -> Holder:
    """Returns what the file of a lock says of its holder; nothing if it was released or damaged."""
    try:
        with path.open("rb") as stream:
            head, *uses = stream.read(_MOST).decode("utf-8", "replace").splitlines()
        said = json.loads(head)
        machine, user, what = (str(said[key]) for key in ("machine", "user", "what"))
        return Holder(machine, int(said["process"]), user, what, tuple(uses))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return Holder("another machine")


@contextmanager
def alone(folder: Path, others: str) -> Iterator[None]:
    """Keeps other processes out of a folder, which is made if it is missing.

    Parameters
    ----------
    others : the processes in words, for the message.

    Raises
    ------
    HarnessError
        Another process is in the folder, or it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise HarnessError(f"{error.filename or folder}: cannot be written: {error.strerror or error}") from None
    try:
        if not _locks(handle):
            raise HarnessError(f"{folder}: is in use by {others}; name another folder")
        yield
    finally:
        os.close(handle)


def _forked() -> None:
    """Leaves the locks to the parent, so that they end with it."""
    for handle in _HANDLES:
        with suppress(OSError):
            os.close(handle)
    _HANDLES.clear()


os.register_at_fork(after_in_child=_forked)


_PART = re.compile(r"\.[0-9a-f]{64}\.part")  # an interrupted download, which the next one continues
_LOCK = re.compile(r"\.(.+)\.lock")
_FETCH = "fetch"  # name of the lock of a folder that files are fetched into


@contextmanager
def fetching(folder: Path) -> Iterator[None]:
    """Keeps other processes from fetching files into a folder.

    Where nothing can be written, the block is executed without that.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(held(folder, _FETCH, f"fetches files into {folder}"))
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise
        yield


def clear_remains(limit: float) -> None:
    """Deletes remains from the cache: files and locks of killed processes, and downloads interrupted before `limit`.

    Parameters
    ----------
    limit : seconds since 1970.
    """
    for root, folders, names in os.walk(cache_root()):
        at = Path(root)
        for path in [at / name for name in (*folders, *names)]:
            with os_errors(path, "deleted"), suppress(FileNotFoundError):
                if _PART.fullmatch(path.name) and path.stat().st_mtime <= limit:
                    with suppress(HeldError), held(at, _FETCH, wait=False):
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
                elif staging_names.is_left(path):
                    staging_names.delete(path)
                elif match := _LOCK.fullmatch(path.name):
                    with suppress(HeldError), held(at, match[1], wait=False):
                        pass  # its end deletes the file
        folders[:] = [name for name in folders if not name.endswith(".staged")]
