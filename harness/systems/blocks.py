"""Entries grouped by key, written to files in blocks and merged by ranges of keys, in bounded memory.

An inverted index is the lists of all its keys (words, or hashes of paths). `BlockFiles` takes the entries of some
documents at a time, as sorted lists, and gives the lists of all documents, some keys at a time. Only these are in
memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
import numpy.typing as npt

from harness.io.arrays import Array

Keys = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]
_BUCKETS = 20  # bits of a key by which ranges are divided
_FENCE = 1 << 10  # one of so many keys of a block is in memory, to find the others in the file


@dataclass(frozen=True, eq=False)
class Lists:
    """The lists of a range of keys.

    Attributes
    ----------
    key : uint64, shape (keys,), ascending.
    often : int64, shape (keys,). Number of entries of each key.
    columns : arrays of shape (entries,): by key, then in the order in which they were added.
    """

    key: Keys
    often: Counts
    columns: list[Array]


@dataclass
class _FileBlock:
    """One block in the files: where its next keys and entries are, and some of its keys."""

    keys: int
    at: int
    end: int
    entry: int
    fences: Keys = field(repr=False)


class BlockFiles:
    """Blocks of entries in a folder; the files are deleted at the end of the block of code.

    Parameters
    ----------
    folder : folder for the files, which is created.
    below : all keys are smaller.
    kinds : types of the columns of the entries.
    """

    def __init__(self, folder: Path, below: int, kinds: Sequence[npt.DTypeLike]) -> None:
        folder.mkdir()
        self._folder = folder
        self._shift = np.uint64(max(0, (below - 1).bit_length() - _BUCKETS))
        self._often = np.zeros((below - 1 >> int(self._shift)) + 1, np.int64)
        self._kinds = [np.dtype(kind) for kind in kinds]
        self._open = ExitStack()
        self._key, self._count, *self._columns = (
            self._open.enter_context((folder / str(number)).open("x+b")) for number in range(2 + len(kinds))
        )
        self._blocks: list[_FileBlock] = []
        self._entries = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self._open.close()
        for path in self._folder.iterdir():
            path.unlink()
        self._folder.rmdir()

    def add(self, key: Keys, often: Counts, *columns: Array) -> None:
        """Writes a block.

        Parameters
        ----------
        key : distinct keys, ascending.
        often : number of entries of each key, above 0.
        columns : the entries by key, shape (entries,).
        """
        begin = self._blocks[-1].end if self._blocks else 0
        self._blocks.append(_FileBlock(begin, begin, begin + len(key), self._entries, key[::_FENCE].copy()))
        self._entries += int(often.sum())
        np.add.at(self._often, key >> self._shift, often)
        _write_array(self._key, key.astype(np.uint64, copy=False))
        _write_array(self._count, often.astype(np.uint32))
        for stream, kind, column in zip(self._columns, self._kinds, columns, strict=True):
            _write_array(stream, column.astype(kind, copy=False))

    def merged(self, most: int) -> Iterator[Lists]:
        """Yields all lists by ascending key, once; at most `most` entries at a time if keys can be divided so.

        Keys with equal first 20 bits are not divided, so a range may have the entries of one such group.
        """
        total = np.cumsum(self._often)
        done, bucket = 0, 0
        while done < total[-1]:
            bucket = max(
                int(np.searchsorted(total, done + most, "right")), int(np.searchsorted(total, done, "right")) + 1
            )
            high = None if bucket >= len(total) else np.uint64(bucket) << self._shift
            lists = self._range(high)
            done = int(total[bucket - 1])
            yield lists

    def _range(self, high: np.uint64 | None) -> Lists:
        """Returns the lists of the keys below `high` that were not read before."""
        parts = [(block, *self._keys_below(block, high)) for block in self._blocks]
        parts = [part for part in parts if len(part[1])]
        key = parts[0][1] if len(parts) == 1 else np.unique(np.concatenate([keys for _, keys, _ in parts]))
        numbers = [np.searchsorted(key, keys) for _, keys, _ in parts]
        often = np.zeros(len(key), np.int64)
        for number, (_, _, count) in zip(numbers, parts, strict=True):
            often[number] += count
        out: list[Array] = [np.empty(int(often.sum()), kind) for kind in self._kinds]
        free = np.cumsum(often) - often  # next free position in each key's list
        for number, (block, _, count) in zip(numbers, parts, strict=True):
            entries = int(count.sum())
            to = np.arange(entries) + np.repeat(free[number] - np.cumsum(count) + count, count)
            for stream, column in zip(self._columns, out, strict=True):
                column[to] = _read_array(stream, column.dtype, block.entry, entries)
            free[number] += count
            block.entry += entries
        return Lists(key, often, out)

    def _keys_below(self, block: _FileBlock, high: np.uint64 | None) -> tuple[Keys, Counts]:
        """Reads the next keys of a block, and their numbers of entries."""
        end = block.end
        if high is not None:
            end = min(end, block.keys + _FENCE * int(np.searchsorted(block.fences, high)))
        keys = _read_array(self._key, np.dtype(np.uint64), block.at, max(0, end - block.at))
        if high is not None:
            keys = keys[: np.searchsorted(keys, high)]
        counts = _read_array(self._count, np.dtype(np.uint32), block.at, len(keys)).astype(np.int64)
        block.at += len(keys)
        return keys, counts


def _write_array(stream: IO[bytes], values: Array) -> None:
    """Writes an array to a stream as raw bytes."""
    stream.write(np.ascontiguousarray(values).data)


def _read_array(stream: IO[bytes], kind: np.dtype[Any], first: int, count: int) -> Array:
    """Reads `count` values of one kind from a stream, from the value with index `first` on."""
    stream.seek(first * kind.itemsize)
    return np.fromfile(stream, kind, count)
