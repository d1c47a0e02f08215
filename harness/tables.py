"""Text tables, line by line checked: every fault of a file is collected, then shown together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.columns import Bools, Floats, Index, Lines, Text, Words, blocks, decimals, equals, text, words_of
from harness.errors import FormatError, Problem, format_error
from harness.ids import LONGEST_ID

PROBLEM_LIMIT = 20


class Faults:
    """Collects the problems of one file; `close` raises if there were any."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self.hidden = 0  # faults counted but not shown

    def add(self, line: int, reason: str) -> None:
        """One fault of one line."""
        self.problems.append(Problem(self.path, line, reason))

    def each(self, rows: Bools, lines: Index, reason: Callable[[int], str]) -> None:
        """One problem for every marked row (no more than are shown, but all are counted)."""
        marked = np.flatnonzero(rows)
        self.problems += [Problem(self.path, int(lines[row]), reason(int(row))) for row in marked[:PROBLEM_LIMIT]]
        self.hidden += max(0, marked.size - PROBLEM_LIMIT)

    def close(self) -> None:
        """Raise FormatError if anything was added."""
        if not self.problems:
            return
        ordered = sorted(self.problems, key=lambda problem: problem.line)
        shown = ordered[:PROBLEM_LIMIT]
        more = len(ordered) - len(shown) + self.hidden
        if more:
            shown.append(Problem(self.path, 0, f"and {more} more problem{'s' if more > 1 else ''}"))
        raise FormatError(shown)


def load(data: bytes, path: str) -> Text:
    """A text table's bytes, checked to be text and not empty."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise format_error(path, 0, "is UTF-16 text, expected UTF-8")
    source = text(data)
    if not source.data[: 1 << 16].strip() and not source.data.strip():
        raise format_error(path, 0, "empty file, expected at least one line")
    zero = source.data.find(b"\0")
    if zero >= 0:
        at = source.data.count(b"\n", 0, zero) + 1
        raise format_error(path, at, "binary file: byte 0x00, expected a text table")
    if not source.data.isascii():
        faults = Faults(path)
        for number, line in enumerate(source.data.split(b"\n"), 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                faults.add(number, f"byte 0x{line[error.start]:02x} is not UTF-8 text")
        faults.close()
    return source


@dataclass(frozen=True)
class Table:
    """The lines of a block that have the right number of columns.

    start, length : int64, shape (columns, rows); line : int64, shape (rows,).
    """

    source: Text
    start: Index
    length: Index
    line: Index
    faults: Faults

    def text(self, row: int, column: int) -> str:
        """One field, for a message."""
        return self.source.field(int(self.start[column, row]), int(self.length[column, row]))

    def words(self, column: int) -> Words:
        """A column as words; fields longer than `LONGEST_ID` are cut."""
        return words_of(self.source, self.start[column], np.minimum(self.length[column], LONGEST_ID))

    def equals(self, column: int, value: bytes) -> Bools:
        """Which fields of a column are exactly `value`."""
        return equals(self.source, self.start[column], self.length[column], value)

    def ids(self, column: int, what: str) -> Words:
        """A column of ids as words."""
        length = self.length[column]
        self.each(length > LONGEST_ID, lambda row: f"{what} id of {length[row]} bytes, at most {LONGEST_ID}")
        return self.words(column)

    def numbers(self, column: int, what: str) -> Floats:
        """A column of finite numbers."""
        values, ok = decimals(self.source, self.start[column], self.length[column])
        self.each(~ok, lambda row: f"{what} {self.text(row, column)!r} is not a finite number")
        values[~ok] = np.nan  # whatever they were read as, it is no reason for a second problem
        return values

    def each(self, rows: Bools, reason: Callable[[int], str]) -> None:
        """One problem for every marked row."""
        if rows.any():
            self.faults.each(rows, self.line, reason)


def tables(source: Text, names: tuple[str, ...], faults: Faults) -> Iterator[Table]:
    """The text block by block; lines with another number of columns are problems."""
    for lines in blocks(source):
        refuse_binary(source, lines, faults.path)
        right = lines.count == len(names)
        if not right.all():
            _report_columns(faults, lines, names)
        # Column by column, so that each is one stretch of memory.
        if right.all():
            start, length = (part.reshape(-1, len(names)).T.copy() for part in (lines.start, lines.length))
            yield Table(source, start, length, lines.line, faults)
        else:
            grid = np.arange(len(names))[:, None] + lines.first[right]
            yield Table(source, lines.start[grid], lines.length[grid], lines.line[right], faults)


def refuse_binary(source: Text, lines: Lines, path: str) -> None:
    """Raise FormatError if a block has control characters that have no place in a text table."""
    if lines.controls.size:
        at = int(lines.controls[0])
        line = source.data.count(b"\n", 0, at) + 1
        raise format_error(path, line, f"binary file: byte 0x{source.data[at]:02x}, expected a text table")


def _report_columns(faults: Faults, lines: Lines, names: tuple[str, ...]) -> None:
    expected = f"expected {len(names)} ({' '.join(names)})"
    faults.each(lines.count != len(names), lines.line, lambda row: f"{lines.count[row]} columns, {expected}")


def stack(parts: Sequence[Words]) -> Words:
    """Columns of words one below the other, the narrower ones padded with zeros."""
    width = max((part.shape[1] for part in parts), default=1)
    padded = [np.pad(part, ((0, 0), (0, width - part.shape[1]))) if part.shape[1] < width else part for part in parts]
    return np.concatenate(padded) if padded else np.zeros((0, 1), dtype=np.uint64)
