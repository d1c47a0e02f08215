"""Formulas and trees that were seen before, in bounded memory."""

from __future__ import annotations

import hashlib
import sys
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

K = TypeVar("K")
V = TypeVar("V")
_ENTRY = 260  # bytes of an entry of a dictionary besides its key: its place, and a small value
_DIGEST = 160  # bytes of a digest and its number in a dictionary


class Recent(Generic[K, V]):
    """The entries of a dictionary that were used last.

    Entries are in two generations. When the younger one is full, the older one is forgotten; what is used of it before
    belongs to the younger one again.

    Parameters
    ----------
    most : bytes of memory, roughly.

    Examples
    --------
    >>> recent = Recent(0)
    >>> for number, name in enumerate("abc"):
    ...     recent.put(name, number)
    >>> recent.get("a"), recent.get("c")
    (None, 2)
    """

    def __init__(self, most: int) -> None:
        self._most = most // 2
        self._size = 0
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """Returns the value of a key; None if it is not known, or no more."""
        value = self._young.get(key)
        if value is None and (value := self._old.get(key)) is not None:
            self.put(key, value)
        return value

    def put(self, key: K, value: V) -> None:
        """Adds a key that is not among the entries of the younger generation."""
        if self._size > self._most:
            self._young, self._old, self._size = {}, self._young, 0
        self._young[key] = value
        parts = key if isinstance(key, tuple) else (key,)
        self._size += _ENTRY + sum(map(sys.getsizeof, parts))


class Digests:
    """Numbers of distinct byte strings, in order of first appearance; strings are compared by 128-bit digests.

    The digests of the strings added last are in a dictionary, the others in sorted arrays of 20 bytes a string.

    Parameters
    ----------
    most : bytes of memory for the dictionary, roughly.

    Examples
    --------
    >>> digests = Digests(0)
    >>> [digests.number(text) for text in (b"x", b"y", b"x", b"z")]
    [0, 1, 0, 2]
    """

    def __init__(self, most: int) -> None:
        self._most = most // _DIGEST
        self._young: dict[bytes, int] = {}
        self._high: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
        self._low: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
        self._number: npt.NDArray[np.int32] = np.empty(0, np.int32)

    def __len__(self) -> int:
        return len(self._number) + len(self._young)

    def number(self, text: bytes) -> int:
        """Returns the number of a string; a new one gets the next number."""
        digest = hashlib.blake2b(text, digest_size=16).digest()
        known = self._young.get(digest)
        if known is None:
            known = self._number_in_arrays(digest) if len(self._number) else None
        if known is None:
            if len(self._young) > self._most:
                self._move_to_arrays()
            known = self._young[digest] = len(self)
        return known

    def _number_in_arrays(self, digest: bytes) -> int | None:
        """Returns the number of a digest in the sorted arrays; None if they lack it."""
        high, low = np.frombuffer(digest, "<u8")
        at = int(np.searchsorted(self._high, high))
        while at < len(self._high) and self._high[at] == high:
            if self._low[at] == low:
                return int(self._number[at])
            at += 1
        return None

    def _move_to_arrays(self) -> None:
        """Merges the numbers of recent strings into the sorted arrays, which take less memory."""
        digests = np.frombuffer(b"".join(self._young), "<u8").reshape(-1, 2)
        high = np.concatenate((self._high, digests[:, 0]))
        order = np.argsort(high, kind="stable")
        self._high = high[order]
        self._low = np.concatenate((self._low, digests[:, 1]))[order]
        numbers = np.fromiter(self._young.values(), np.int32, len(self._young))
        self._number = np.concatenate((self._number, numbers))[order]
        self._young.clear()
