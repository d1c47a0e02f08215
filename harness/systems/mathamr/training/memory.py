"""The memory allocator during training."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# Parameters of mallopt, from malloc.h; the values are the largest that glibc takes, and chooses, by itself.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST_MMAP = 32 << 20
_LARGEST_TRIM = 2 * _LARGEST_MMAP
_NEVER = (1 << 31) - 1


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Keeps freed memory in the process inside the block, and returns it to the system afterwards.

    Each step frees what it allocated. Without this, glibc returns most of it to the system, and the next step spends up
    to a fifth of its time in faults of new pages. Has no effect with other allocators, and none on results.
    """
    libc = ctypes.CDLL(None)
    with suppress(AttributeError):  # not glibc
        libc.mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP)
        libc.mallopt(_TRIM_THRESHOLD, _NEVER)
    try:
        yield
    finally:
        with suppress(AttributeError):
            libc.mallopt(_TRIM_THRESHOLD, _LARGEST_TRIM)
            libc.malloc_trim(0)
