"""Folders that files are fetched into, and remains of killed processes in the cache."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from harness.errors import os_errors
from harness.io import staging_names
from harness.io.files import cache_root
from harness.io.locks import HeldError, held

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


def clear(limit: float) -> None:
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
