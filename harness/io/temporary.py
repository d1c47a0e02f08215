"""Temporary files of the cache: locked while their process lives, so that those of killed ones can be deleted."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from harness.errors import HarnessError
from harness.io.files import cache_root

_LEFT = re.compile(r"\.(?:[0-9a-f]{16}\.tmp|[0-9a-f]{64}\.part)")


@contextmanager
def new_file(folder: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """A temporary file in a folder, to be moved to its place before the block ends; else it is deleted then.

    It is locked until then, so that `clear` can tell it from those of killed processes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        path = folder / f".{secrets.token_hex(8)}.tmp"
        with path.open("xb") as stream:
            lock(stream.fileno())
            if not os.fstat(stream.fileno()).st_nlink:
                continue  # `clear` came between
            try:
                yield path, stream
            finally:
                path.unlink(missing_ok=True)
            return


def lock(handle: int, wait: bool = True) -> bool:
    """Locks an open file or folder until it is closed or the process ends; False if another one has it.

    Where a file system has no locks, nobody waits, and two downloads that meet fail their checksum and are thrown away.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return wait
    return True


def clear(limit: float) -> None:
    """Delete from the cache the temporary files of processes that were killed, and downloads broken off before `limit`.

    Parameters
    ----------
    limit : seconds since 1970.
    """
    for root, folders, names in os.walk(cache_root()):
        for name in filter(_LEFT.fullmatch, (*folders, *names)):
            path = Path(root, name)
            with _deleting(path):
                if path.suffix == ".part" and path.stat().st_mtime > limit:
                    continue
                # Downloads, and folders that are unpacked, lock the folder that they go to; other files are locked.
                own = path.suffix == ".tmp" and not path.is_dir()
                handle = os.open(path if own else path.parent, os.O_RDONLY)
                try:
                    if lock(handle, wait=False):
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
                finally:
                    os.close(handle)


@contextmanager
def _deleting(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        pass
    except OSError as error:
        raise HarnessError(f"{path}: cannot be deleted: {error.strerror or error}") from None
