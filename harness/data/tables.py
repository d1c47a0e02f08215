"""Readers of text tables that collect all faults of a file and report them together.

Reads blocks of plain lines by the kernel `plain.c`, with the results of the NumPy code, which reads all others.

Plain are lines with the expected columns, valid ids, numbers and ranks, and the tag of the first line. Where a block
has any other line, or there is no kernel, nothing is read here: messages come from one place, `Columns.put`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from harness.data.columns import (
    BOM,
    Bools,
    Floats,
    Index,
    Lines,
    TextBlock,
    Words,
    equals,
    parse_decimals,
    parse_number,
    pieces,
    split,
    strings,
    words_of,
)
from harness.errors import FormatError, InputFault, counted_text, format_error
from harness.io.kernels import kernel
from harness.io.names import LONGEST_ID

PROBLEM_LIMIT = 20  # problems of a file that are shown
MOST_ALIKE = 5  # problems of one kind that are shown one by one
_DETAILS = re.compile(r"'[^']*'|\"[^\"]*\"|-?[0-9][0-9.,e+-]*")  # parts of messages that differ within a kind


class Faults:
    """Collects the problems of one file; `close` raises if there were any."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._kinds: dict[str, list[InputFault]] = {}
        self._counts: Counter[str] = Counter()

    def add(self, line: int, reason: str) -> None:
        """Records one fault of one line."""
        self._add_kind([InputFault(self.path, line, reason)], 1)

    def each(self, rows: Bools, lines: Index, reason: Callable[[int], str]) -> None:
        """Records one kind of problem for every marked row; all are counted, the first ones kept."""
        marked = np.flatnonzero(rows)
        first = [InputFault(self.path, int(lines[row]), reason(int(row))) for row in marked[:PROBLEM_LIMIT]]
        if first:
            self._add_kind(first, marked.size)

    def _add_kind(self, problems: list[InputFault], count: int) -> None:
        kind = _DETAILS.sub("", problems[0].reason)
        self._kinds.setdefault(kind, []).extend(problems)
        self._counts[kind] += count

    def close(self) -> None:
        """Raises FormatError if anything was added; problems of one kind on many lines become one."""
        shown: list[InputFault] = []
        for kind, problems in self._kinds.items():
            ordered = sorted(problems, key=lambda problem: problem.line)
            if (count := self._counts[kind]) > MOST_ALIKE:
                first = ordered[0]
                lines = ", ".join(str(problem.line) for problem in ordered[1 : MOST_ALIKE + 1])
                ordered = [InputFault(self.path, first.line, f"{first.reason} (and {count - 1:,} more: {lines}, ...)")]
            shown += ordered
        if not shown:
            return
        shown.sort(key=lambda problem: problem.line)
        if (more := len(shown) - PROBLEM_LIMIT) > 0:
            shown[PROBLEM_LIMIT:] = [InputFault(self.path, 0, f"and {counted_text(more, 'more problem')}")]
        raise FormatError(shown)


def check_text(data: bytes, path: str) -> None:
    """Raises FormatError if the content of a text table is empty or not UTF-8 text."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise format_error(path, 0, "is UTF-16 text, expected UTF-8")
    if not data[: 1 << 16].removeprefix(BOM).strip() and not data.removeprefix(BOM).strip():
        raise format_error(path, 0, "empty file, expected at least one line")
    zero = data.find(b"\0")
    if zero >= 0:
        at = data.count(b"\n", 0, zero) + 1
        raise format_error(path, at, "binary file: byte 0x00, expected a text table")
    if not data.isascii():
        faults = Faults(path)
        for piece in pieces(data):
            content = piece.cut(0, piece.size)
            try:
                content.decode()
            except UnicodeDecodeError:
                _report_lines_not_text(content, piece.line, faults)
        faults.close()


def _report_lines_not_text(content: bytes, before: int, faults: Faults) -> None:
    for number, line in enumerate(content.split(b"\n"), before + 1):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            faults.add(number, f"byte 0x{line[error.start]:02x} is not UTF-8 text")


@dataclass(frozen=True)
class BlockTable:
    """Lines of a block with the expected number of columns.

    start, length : int64, shape (columns, rows); line : int64, shape (rows,).
    """

    source: TextBlock
    start: Index
    length: Index
    line: Index
    faults: Faults

    def text(self, row: int, column: int) -> str:
        """Returns one field, for a message."""
        return self.source.field(int(self.start[column, row]), int(self.length[column, row]))

    def words(self, column: int) -> Words:
        """Returns a column as words; fields longer than `LONGEST_ID` are truncated."""
        return words_of(self.source, self.start[column], np.minimum(self.length[column], LONGEST_ID))

    def equals(self, column: int, value: bytes) -> Bools:
        """Returns which fields of a column are exactly `value`."""
        return equals(self.source, self.start[column], self.length[column], value)

    def ids(self, column: int, what: str) -> Words:
        """Returns a column of ids as words."""
        length = self.length[column]
        self.each(length > LONGEST_ID, lambda row: f"{what} id of {length[row]} bytes, at most {LONGEST_ID}")
        return self.words(column)

    def numbers(self, column: int, what: str) -> Floats:
        """Returns a column of finite numbers."""
        values, ok = parse_decimals(self.source, self.start[column], self.length[column])
        self.each(~ok, lambda row: f"{what} {self.text(row, column)!r} is not a finite number")
        values[~ok] = np.nan  # avoids a second problem for the same field
        return values

    def each(self, rows: Bools, reason: Callable[[int], str]) -> None:
        """Records a problem for every marked row."""
        if rows.any():
            self.faults.each(rows, self.line, reason)


def table_of(source: TextBlock, names: tuple[str, ...], faults: Faults) -> BlockTable | None:
    """Returns the table of a block, None without rows; reports lines with another number of columns."""
    lines = split(source)
    refuse_binary(source, lines, faults.path)
    right = lines.count == len(names)
    if not right.all():
        _report_columns(source, faults, lines, names)
    if not right.any():
        return None
    # Transposed, so that each column is contiguous in memory.
    if right.all():
        start, length = (part.reshape(-1, len(names)).T.copy() for part in (lines.start, lines.length))
        return BlockTable(source, start, length, lines.line, faults)
    grid = np.arange(len(names))[:, None] + lines.first[right]
    return BlockTable(source, lines.start[grid], lines.length[grid], lines.line[right], faults)


def refuse_binary(source: TextBlock, lines: Lines, path: str) -> None:
    """Raises FormatError if a block has control characters that are invalid in a text table."""
    if lines.controls.size:
        at = int(lines.controls[0])
        raise format_error(
            path, source.line_of(at), f"binary file: byte 0x{source.bytes_[at]:02x}, expected a text table"
        )


def _report_columns(source: TextBlock, faults: Faults, lines: Lines, names: tuple[str, ...]) -> None:
    expected = f"expected {len(names)} ({' '.join(names)})"

    def reason(row: int) -> str:
        first = int(lines.first[row])
        commas = lines.count[row] == 1 and "," in source.field(int(lines.start[first]), int(lines.length[first]))
        remedy = ", separated by blanks or tabs, not commas" if commas else ""
        return f"{counted_text(lines.count[row], 'column')}, {expected}{remedy}"

    faults.each(lines.count != len(names), lines.line, reason)


class IdColumn:
    """Column of ids, filled block by block, as wide as the longest id."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.words: Words = np.zeros((rows, 1), dtype=np.uint64)

    @property
    def width(self) -> int:
        """Words of an id."""
        return int(self.words.shape[1])

    def widen(self, at: int, width: int) -> None:
        """Makes room for ids of so many words; those before row `at` are kept."""
        if width > self.width:
            kept = self.words[:at].copy()
            del self.words  # before there is memory for more
            self.words = np.zeros((self.rows, width), dtype=np.uint64)
            self.words[:at, : kept.shape[1]] = kept

    def put(self, at: int, part: Words) -> None:
        """Puts the ids of one block at a row."""
        self.widen(at, part.shape[1])
        rows = self.words[at : at + len(part)]
        rows[:, : part.shape[1]] = part
        rows[:, part.shape[1] :] = 0  # a kernel that gave up may have left something


class LineNumbers:
    """Line number of each row, stored by block; consecutive lines are stored as a range."""

    def __init__(self) -> None:
        self._first: list[int] = []
        self._lines: list[range | npt.NDArray[np.int32]] = []

    def put(self, at: int, line: Index) -> None:
        """Puts the lines of one block, which is not empty, at a row."""
        begin, size = int(line[0]), len(line)
        whole = int(line[-1]) == begin + size - 1
        self._first.append(at)
        self._lines.append(range(begin, begin + size) if whole else line.astype(np.int32))

    def put_range(self, at: int, first: int, rows: int) -> None:
        """Puts so many consecutive lines at a row."""
        self._first.append(at)
        self._lines.append(range(first, first + rows))

    def __getitem__(self, row: int) -> int:
        """Returns the line of one row."""
        block = bisect_right(self._first, row) - 1
        return int(self._lines[block][row - self._first[block]])


class Groups:
    """Column of repeated ids, stored as indices into the distinct ids in order of first appearance."""

    def __init__(self, rows: int) -> None:
        self.index: npt.NDArray[np.int32] = np.zeros(rows, dtype=np.int32)
        self._known: dict[bytes, int] = {}

    def put(self, at: int, part: Words) -> None:
        """Puts the ids of one block at a row."""
        ids = strings(part)
        heads = np.flatnonzero(np.concatenate(([True], (part[1:] != part[:-1]).any(axis=1))))
        self.put_heads(at, heads, ids[heads].tolist(), ids.size)

    def put_heads(self, at: int, heads: Index, ids: Sequence[bytes], rows: int) -> None:
        """Puts so many rows: stretches of equal ids, which begin at `heads`."""
        known = self._known
        index = np.array([known.setdefault(head, len(known)) for head in ids], dtype=np.int32)
        self.index[at : at + rows] = np.repeat(index, np.diff(np.append(heads, rows)))

    def names(self) -> tuple[str, ...]:
        """Returns the distinct ids."""
        return tuple(name.decode("utf-8", "replace") for name in self._known)


_ROLES = ("topic", "document", "context", "number", "rank", "iteration", "tag", "other")  # as in plain.c
_HEADS, _SLOW, _TAG_START, _TAG_LENGTH, _DOC_LONGEST, _CONTEXT_LONGEST = range(6)
_IRREGULAR, _WIDER = -1, -2
MOST_SLOW = 1 << 12  # numbers of a block that Python converts; the NumPy code reads blocks that have more
_NO_WORDS = np.empty((0, 0), dtype=np.uint64)


@dataclass
class Scratch:
    """Working memory of the kernel, as large as the largest block needs.

    Attributes
    ----------
    heads : int32, shape (rows, 3). Row, start and length of the first topic of each stretch of equal ones.
    slow : int32, shape (`MOST_SLOW`, 3). The same of numbers that need Python's own conversion.
    info : int64, shape (6,). Counts and positions, see `plain.c`.
    """

    heads: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty((0, 3), dtype=np.int32))
    slow: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty((MOST_SLOW, 3), dtype=np.int32))
    info: Index = field(default_factory=lambda: np.zeros(6, dtype=np.int64))

    def fit(self, rows: int) -> None:
        """Makes room for a block of so many rows."""
        if len(self.heads) < rows:
            self.heads = np.empty((rows, 3), dtype=np.int32)


def roles(names: tuple[str, ...], *, strict: bool) -> Index:
    """Returns the role of each column for the kernel, int64, shape (columns,); `strict`: column `Q0` is validated."""
    doc = next(name for name in ("document", "formula", "post") if name in names)
    of = {"topic": "topic", "rank": "rank", "score": "number", "grade": "number", "tag": "tag", "post": "context"}
    of |= {doc: "document", "Q0": "iteration" if strict else "other"}
    return np.array([_ROLES.index(of.get(name, "other")) for name in names], dtype=np.int64)


def plain_rows(
    source: TextBlock,
    at: int,
    roles: Index,
    doc: IdColumn,
    context: IdColumn | None,
    values: Floats,
    ranks: npt.NDArray[np.int32],
    tag: bytes,
    scratch: Scratch,
) -> int | None:
    """Reads a block into the columns from row `at` on, and notes its topics and its tag in `scratch`.

    Parameters
    ----------
    roles : of `roles`.
    values : float64, shape (rows of the file,). Scores or grades.
    ranks : int32, shape (rows of the file,) or (0,) without a column of ranks.
    tag : the tag of all lines; empty for the first block.

    Returns
    -------
    The number of rows; None if a line is not plain, or without the kernel.
    """
    read = kernel("harness_plain_rows")
    if read is None:
        return None
    scratch.fit(source.size // (2 * roles.size) + 1)
    info, tag_bytes = scratch.info, np.frombuffer(tag, dtype=np.uint8)
    rows = _WIDER
    while rows == _WIDER:
        contexts = _NO_WORDS if context is None else context.words[at:]
        arrays = (doc.words[at:], doc.width, contexts, 0 if context is None else context.width, values[at:], ranks[at:])
        rows = read(
            source.bytes_, source.size, source.bytes_.size, roles, roles.size, *arrays, doc.rows - at, tag_bytes,
            tag_bytes.size, scratch.heads, len(scratch.heads), scratch.slow, len(scratch.slow), info,
        )  # fmt: skip
        del arrays, contexts  # which would keep the memory of the narrower columns
        if rows == _WIDER:
            doc.widen(at, -(-int(info[_DOC_LONGEST]) // 8))
            if context is not None:
                context.widen(at, -(-int(info[_CONTEXT_LONGEST]) // 8))
    if rows == _IRREGULAR:
        return None
    for row, start, length in scratch.slow[: info[_SLOW]].tolist():
        value = parse_number(source.cut(start, length))
        if value is None:
            return None
        values[at + row] = value
    return rows


def put_topics(topics: Groups, source: TextBlock, at: int, rows: int, scratch: Scratch) -> None:
    """Adds the topics of the rows that `plain_rows` has read."""
    heads = scratch.heads[: scratch.info[_HEADS]]
    ids = [source.cut(start, length) for start, length in heads[:, 1:].tolist()]
    topics.put_heads(at, heads[:, 0].astype(np.int64), ids, rows)


def tag_of(source: TextBlock, scratch: Scratch) -> str:
    """Returns the tag of the rows that `plain_rows` has read."""
    return source.field(int(scratch.info[_TAG_START]), int(scratch.info[_TAG_LENGTH]))
