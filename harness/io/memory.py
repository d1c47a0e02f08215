"""The memory that building an index may use: a quarter of what the machine, or the configuration, gives a run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

SHARE = 4  # an index is built in one part of so many; the others are for the documents being read, and for the system
LEAST = 1 << 26  # bytes; smaller limits would only make more blocks
_CGROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))  # versions 2 and 1
_GIVEN: ContextVar[int | None] = ContextVar("memory given to a run", default=None)


def available() -> int:
    """Returns the memory of this machine in bytes, or the limit of this process's control group if that is smaller."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CGROUPS:
        try:
            text = path.read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue
        if text.isdigit():  # `max`: no limit
            sizes.append(int(text))
    return min(sizes)


def limit() -> int:
    """Returns the bytes that building an index may use: a quarter of those given to the run, or of `available`.

    Examples
    --------
    >>> with given(8):
    ...     limit()
    2000000000
    """
    own = _GIVEN.get()
    return max((available() if own is None else own) // SHARE, LEAST)


@contextmanager
def given(gigabytes: int | None) -> Iterator[None]:
    """Gives the runs made in the block so much memory; None changes nothing."""
    token = _GIVEN.set(_GIVEN.get() if gigabytes is None else gigabytes * 10**9)
    try:
        yield
    finally:
        _GIVEN.reset(token)
