"""Temporary files in the cache, with leases, so that those of killed processes can be told apart and deleted."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from harness.errors import HarnessError
from harness.io import holders, staged
from harness.io.files import cache_root
from harness.io.leases import HeldError, held, marked

_LEFT = re.compile(r"\.(?:[0-9a-f]{16}\.tmp|[0-9a-f]{64}\.part)")
_FETCH = "fetch"  # name of the lease of a folder that files are fetched into


@contextmanager
def new_file(folder: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """Creates a temporary file in a folder; deletes it at the end of the block unless it was moved.

    It has a lease in the block, so that `clear` can distinguish it from files of killed processes.
    """
    with marked(folder) as lease:
        path = folder / f".{lease.owner}.tmp"
        with path.open("xb") as stream:
            try:
                yield path, stream
            finally:
                path.unlink(missing_ok=True)


@contextmanager
def fetching(folder: Path) -> Iterator[None]:
    """Keeps other processes, also of other machines, from fetching files into a folder.

    Where nothing can be written, the block is executed without that.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(held(folder, _FETCH, f"fetches files into {folder}"))
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise
        yield


def lock(handle: int, wait: bool = True) -> bool:
    """Locks an open file or folder of this machine until it is closed or the process ends; False if it is locked.

    Without file-system locks, processes do not wait.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return wait
    return True


@contextmanager
def alone(folder: Path, others: str) -> Iterator[None]:
    """Keeps other processes of this machine out of a folder, which is made if it is missing.

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
        if not lock(handle, wait=False):
            raise HarnessError(f"{folder}: is in use by {others}; name another folder")
        yield
    finally:
        os.close(handle)


def clear(limit: float) -> None:
    """Deletes remains from the cache: files and leases of killed processes, and downloads interrupted before `limit`.

    Parameters
    ----------
    limit : seconds since 1970.
    """
    left: list[Path] = []
    unfinished: list[Path] = []
    leases: list[Path] = []
    for root, folders, names in os.walk(cache_root()):
        left += [Path(root, name) for name in (*folders, *names) if _LEFT.fullmatch(name)]
        unfinished += [Path(root, name) for name in (*folders, *names) if name.endswith(".staged")]
        leases += [Path(root, name) for name in (*folders, *names) if holders.FOLDER.fullmatch(name)]
        folders[:] = [name for name in folders if not holders.FOLDER.fullmatch(name)]
    holders.settle(leases)
    for path in left:
        with _deleting(path):
            if path.suffix == ".part" and path.stat().st_mtime > limit:
                continue
            # Downloads and unpacked folders are covered by the lease of their target folder, other files by their own.
            if path.suffix == ".tmp" and not path.is_dir():
                holder = holders.read(path.with_suffix(".1.lease"))
                if holder is None or holders.is_dead(holder):
                    path.unlink()
                continue
            with suppress(HeldError), held(path.parent, _FETCH, wait=False):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in filter(staged.is_left, unfinished):
        with _deleting(path):
            staged.delete(path)
    for path in leases:
        holder = holders.read(path)
        if holder is None:
            with suppress(OSError):
                path.rmdir()
        elif holders.is_dead(holder):
            holders.remove(holder)


@contextmanager
def _deleting(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        pass
    except OSError as error:
        raise HarnessError(f"{path}: cannot be deleted: {error.strerror or error}") from None
