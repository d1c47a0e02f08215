"""NumPy files (`.npy`) written piece by piece and memory-mapped, for arrays that do not fit into memory."""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
PIECE = 1 << 18  # values that are collected before they are written


class ArrayFile:
    """A one-dimensional array in a file; the file is complete, and the same as that of `numpy.save`, after the block.

    Parameters
    ----------
    path : file to be created.
    kind : type of the values.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with ArrayFile(Path(folder) / "a.npy", np.int32) as column:
    ...         column.add([1, 2])
    ...         column.add([3])
    ...     np.load(Path(folder) / "a.npy").tolist()
    [1, 2, 3]
    """

    def __init__(self, path: Path, kind: npt.DTypeLike) -> None:
        self.kind = np.dtype(kind)
        self._length = 0
        self._waiting = array(self.kind.char) if self.kind.char in "BHIbhilqQ" else None
        self._stream = path.open("xb")
        self._write_header()

    def __len__(self) -> int:
        return self._length + (len(self._waiting) if self._waiting is not None else 0)

    def add(self, values: npt.ArrayLike) -> None:
        """Appends values."""
        self._flush()
        self._write(np.asarray(values, self.kind))

    def extend(self, values: Iterable[int]) -> None:
        """Appends a few whole numbers, which are collected before they are written; faster than `add` for few."""
        if self._waiting is None:
            raise TypeError(f"a column of {self.kind} takes no whole numbers")
        self._waiting.extend(values)
        if len(self._waiting) >= PIECE:
            self._flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self._flush()
                self._write_header()
        finally:
            self._stream.close()

    def _flush(self) -> None:
        if self._waiting:
            self._write(np.frombuffer(self._waiting, self.kind))
            self._waiting = array(self._waiting.typecode)

    def _write(self, values: Array) -> None:
        self._stream.write(np.ascontiguousarray(values).data)
        self._length += len(values)

    def _write_header(self) -> None:
        # NumPy pads the header of a file, so that a larger number of values needs no more bytes.
        description = np.lib.format.dtype_to_descr(self.kind)
        content = {"descr": description, "fortran_order": False, "shape": (self._length,)}
        self._stream.seek(0)
        np.lib.format.write_array_header_1_0(self._stream, content)


class Texts:
    """Byte strings in a file, as a NumPy array of the width of the longest; complete after the block.

    Until then, the strings are in two files beside it.

    Attributes
    ----------
    width : length of the longest string.
    """

    def __init__(self, path: Path) -> None:
        self.width = 0
        self._path = path
        self._length = ArrayFile(path.with_suffix(".lengths"), np.int32)
        self._stream = path.with_suffix(".bytes").open("xb")

    def add(self, text: bytes) -> None:
        """Appends a string."""
        self.extend((text,))

    def extend(self, texts: Sequence[bytes]) -> None:
        """Appends strings; faster than `add` for many."""
        lengths = [*map(len, texts)]
        self._length.extend(lengths)
        self._stream.write(b"".join(texts))
        self.width = max(self.width, *lengths, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self._stream.close()
        self._length.__exit__(kind, value, trace)
        lengths, content = self._path.with_suffix(".lengths"), self._path.with_suffix(".bytes")
        if kind is None:
            self._join(np.load(lengths, mmap_mode="r"), content)
        lengths.unlink()
        content.unlink()

    def _join(self, lengths: Array, content: Path) -> None:
        width = max(self.width, 1)
        with ArrayFile(self._path, f"S{width}") as column, content.open("rb") as stream:
            for begin in range(0, len(lengths), PIECE):
                column.add([stream.read(length) for length in lengths[begin : begin + PIECE].tolist()])


def mapped(path: Path) -> Array:
    """Returns the memory-mapped array of a file.

    Raises
    ------
    OSError, ValueError, EOFError
        The file is missing or damaged.
    """
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))  # plain arrays are faster than `memmap`


def release(*arrays: Array) -> None:
    """Gives the memory of mapped arrays back, which were read once; they are read from the file when used again."""
    for each in arrays:
        base: Any = each
        while isinstance(base, np.ndarray):
            base = base.base
        if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            base.madvise(mmap.MADV_DONTNEED)


def ranges(start: npt.NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Divides groups of entries into consecutive ranges of at most `most` entries, and at least one group.

    Parameters
    ----------
    start : shape (groups + 1,). Where each group's entries begin, and the end.

    Yields the first group of each range, and the one behind its last.

    Examples
    --------
    >>> list(ranges(np.array([0, 2, 3, 9, 9, 10]), 3))
    [(0, 2), (2, 3), (3, 5)]
    """
    groups, first = len(start) - 1, 0
    while first < groups:
        last = max(first + 1, int(np.searchsorted(start, start[first] + most, "right")) - 1)
        yield first, last
        first = last
