"""Temporary files in the cache: locked while their process runs, so that those of killed processes can be deleted."""

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
    """Creates a temporary file in a folder; deletes it at the end of the block unless it was moved.

    It is locked in the block, so that `clear` can distinguish it from files of killed processes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        path = folder / f".{secrets.token_hex(8)}.tmp"
        with path.open("xb") as stream:
            lock(stream.fileno())
            if not os.fstat(stream.fileno()).st_nlink:
                continue  # `clear` deleted it before it was locked
            try:
                yield path, stream
            finally:
                path.unlink(missing_ok=True)
            return


def lock(handle: int, wait: bool = True) -> bool:
    """Locks an open file or folder until it is closed or the process ends; returns False if it is locked already.

    Without file-system locks, processes do not wait; concurrent downloads then fail their checksum and are discarded.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return wait
    return True


def clear(limit: float) -> None:
    """Deletes temporary files of killed processes, and downloads interrupted before `limit`, from the cache.

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
                # Downloads and unpacked folders are covered by a lock of their target folder, other files by their own.
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
