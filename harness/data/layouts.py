"""Layouts of run files: detection, and reading of columns."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from harness.data.columns import (
    BOM,
    WIDE,
    Floats,
    TextBlock,
    integers,
    pieces,
    smaller_blocks,
    split,
    strings,
    words_of,
)
from harness.data.plain import Scratch, plain_rows, put_topics, roles, tag_of
from harness.data.tables import BlockTable, Faults, Groups, IdColumn, LineNumbers, refuse_binary, table_of
from harness.errors import HarnessError, counted_text, format_error, suggestion
from harness.io.ids import LONGEST_ID

FORMATS: Mapping[str, tuple[str, ...]] = {
    "trec": ("topic", "Q0", "document", "rank", "score", "tag"),
    "arqmath-task1": ("topic", "post", "rank", "score", "tag"),
    "arqmath-task2": ("topic", "formula", "post", "rank", "score", "tag"),
}
JUDGMENTS = ("topic", "iteration", "document", "grade")
LARGEST_GRADE = 1 << 53  # whole numbers are exact up to here, and no sum of gains is infinite
ITERATIONS = (b"Q0", b"0", b"_")  # valid values of column 2 in a TREC run
FORMAT_SAMPLE = 1 << 14  # bytes
_COMMENT = re.compile(rb"^#[^\n]*", re.MULTILINE)


def run_format(data: bytes, asked: str | None, path: str) -> str:
    """Detects which of the three layouts a run has from the columns of its first lines."""
    if asked is not None:
        if asked not in FORMATS:
            raise HarnessError(f"--format {asked}: no such format; {suggestion(asked, FORMATS)}")
        return asked
    parts = ((piece, split(piece)) for piece in pieces(data, FORMAT_SAMPLE))
    source, lines = next((piece, lines) for piece, lines in parts if lines.line.size or lines.controls.size)
    refuse_binary(source, lines, path)
    usual = int(np.bincount(lines.count).argmax())
    if usual not in (5, 6):
        expected = "; ".join(f"{len(names)} for {name} ({' '.join(names)})" for name, names in FORMATS.items())
        line = int(lines.line[lines.count == usual][0])
        raise format_error(path, line, f"{counted_text(usual, 'column')}, expected {expected}")
    rows = lines.first[lines.count == usual] + 1
    fields = strings(words_of(source, lines.start[rows], np.minimum(lines.length[rows], LONGEST_ID)))
    second = set(fields[:1].tolist() if (fields == fields[0]).all() else fields.tolist())
    if usual == 5:
        if second <= set(ITERATIONS):
            trec = " ".join(FORMATS["trec"])
            raise format_error(
                path,
                0,
                f"5 columns like a TREC run ({trec}) that lacks one; if column 2 is a post, say --format arqmath-task1",
            )
        return "arqmath-task1"
    if second & set(ITERATIONS):
        return "trec"
    if len(second) == 1:
        constant = second.pop().decode("utf-8", "backslashreplace")
        say = "say which it is with --format trec or --format arqmath-task2"
        raise format_error(path, 0, f"column 2 is {constant!r} on every line, neither Q0, 0, _ nor formula ids; {say}")
    return "arqmath-task2"


class LineColumns:
    """Columns of a run or of judgments while they are read: preallocated for all lines, filled block by block.

    Parameters
    ----------
    names : the file's columns, those of `FORMATS` or `JUDGMENTS`, or of a header.
    strict : column 2 of a TREC run is validated.
    """

    def __init__(self, lines: int, names: tuple[str, ...], *, strict: bool = False) -> None:
        self.names, self.strict = names, strict
        self.topic, self.doc = Groups(lines), IdColumn(lines)
        self.context = IdColumn(lines) if "formula" in names else None
        self.value: Floats = np.empty(lines)  # scores or grades
        self.rank, self.line = np.empty(lines if "rank" in names else 0, dtype=np.int32), LineNumbers()
        self.rows = 0
        self.tag = ""
        self._roles, self._scratch = roles(names, strict=strict), Scratch()

    def put_plain(self, source: TextBlock) -> bool:
        """Adds a block by the kernel, if all of its lines are plain; else returns False, and nothing is added."""
        at, scratch, tag = self.rows, self._scratch, self.tag.encode()
        columns = (self.doc, self.context, self.value, self.rank)
        rows = plain_rows(source, at, self._roles, *columns, tag if self.rows else b"", scratch)
        if not rows or ("grade" in self.names and (self.value[at : at + rows] > LARGEST_GRADE).any()):
            return False
        if not at and "tag" in self.names:
            self.tag = tag_of(source, scratch)
        put_topics(self.topic, source, at, rows, scratch)
        self.line.put_range(at, source.line + 1, rows)
        self.rows += rows
        return True

    def put(self, table: BlockTable) -> None:
        """Adds the columns of one block; faults are added to those of the table."""
        names, at = self.names, slice(self.rows, self.rows + len(table.line))
        self.line.put(self.rows, table.line)
        doc = next(name for name in ("document", "formula", "post") if name in names)
        self.topic.put(self.rows, table.ids(names.index("topic"), "topic"))
        self.doc.put(self.rows, table.ids(names.index(doc), doc))
        if self.context is not None:
            self.context.put(self.rows, table.ids(2, "post"))
        if "grade" in names:
            column = names.index("grade")
            self.value[at] = grade = table.numbers(column, "grade")
            table.each(grade > LARGEST_GRADE, lambda row: f"grade {table.text(row, column)} is above {LARGEST_GRADE:,}")
        else:
            self.value[at] = table.numbers(names.index("score"), "score")
            self._put_rank(table, at)
            self._check_constants(table)
        self.rows += len(table.line)

    def _put_rank(self, table: BlockTable, at: slice) -> None:
        column = self.names.index("rank")
        rank, whole = integers(table.source, table.start[column], table.length[column])
        table.each(~whole, lambda row: f"rank {table.text(row, column)!r} is not a whole number of 1 to 8 digits")
        self.rank[at] = rank

    def _check_constants(self, table: BlockTable) -> None:
        """Checks column 2 of a TREC run, and that all lines have one tag."""
        column = self.names.index("tag")
        if not self.rows:
            self.tag = table.text(0, column)
        if self.strict and "Q0" in self.names:
            first = table.text(0, 1).encode()
            if first not in ITERATIONS or not table.equals(1, first).all():
                odd = ~np.isin(strings(table.words(1)), ITERATIONS)
                table.each(odd, lambda row: f"column 2 is {table.text(row, 1)!r}, expected Q0, 0 or _")
        table.each(
            ~table.equals(column, self.tag.encode()),
            lambda row: f"run tag {table.text(row, column)!r} differs from line {self.line[0]}'s {self.tag!r}",
        )


def without_comments(data: bytes) -> bytes:
    """Returns a file with blank lines in place of comments, lines that begin with `#`, as trec_eval 10 reads it.

    Examples
    --------
    >>> without_comments(b"# topic iteration document grade\\n1 0 d1 2\\n")
    b'\\n1 0 d1 2\\n'
    """
    body = data.removeprefix(BOM)
    if b"#" not in body or (not body.startswith(b"#") and b"\n#" not in body):  # one byte is found much faster than two
        return data
    return _COMMENT.sub(b"", body)


def line_numbers(data: bytes) -> list[int]:
    """Returns the number of each line that is neither blank nor a comment, from 1."""
    content = without_comments(data).removeprefix(BOM).split(b"\n")
    return [number for number, line in enumerate(content, 1) if line.strip()]


def read_columns(data: bytes, names: tuple[str, ...], faults: Faults, *, strict: bool = False) -> LineColumns:
    """Reads the columns of a run or of judgments with these names; faults of lines are added to `faults`."""
    blocks = list(pieces(data, WIDE))  # which counts their lines
    lines = blocks[-1].line_of(blocks[-1].size)
    columns = LineColumns(lines, names, strict=strict)
    for wide in blocks:
        if columns.put_plain(wide):
            continue
        for source in smaller_blocks(wide):
            if not columns.put_plain(source) and (table := table_of(source, names, faults)) is not None:
                columns.put(table)
    return columns
