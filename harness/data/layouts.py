"""Layouts of run files: detection, and reading of columns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harness.data.columns import Floats, integers, line_ends, pieces, split, strings, words_of
from harness.data.tables import Faults, Groups, IdColumn, LineNumbers, Table, refuse_binary, tables
from harness.errors import HarnessError, format_error, suggestion
from harness.io.ids import LONGEST_ID

FORMATS: Mapping[str, tuple[str, ...]] = {
    "trec": ("topic", "Q0", "document", "rank", "score", "tag"),
    "arqmath-task1": ("topic", "post", "rank", "score", "tag"),
    "arqmath-task2": ("topic", "formula", "post", "rank", "score", "tag"),
}
ITERATIONS = (b"Q0", b"0", b"_")  # valid values of column 2 in a TREC run
FORMAT_SAMPLE = 1 << 14  # bytes


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
        raise format_error(path, int(lines.line[lines.count == usual][0]), f"{usual} columns, expected {expected}")
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


class Columns:
    """Columns of a run while it is read: preallocated for all lines, filled block by block.

    `strict`: column 2 of a TREC run is validated.
    """

    def __init__(self, lines: int, names: tuple[str, ...], *, strict: bool) -> None:
        self.names, self.strict = names, strict
        self.topic, self.doc = Groups(lines), IdColumn(lines)
        self.context = IdColumn(lines) if "formula" in names else None
        self.score: Floats = np.empty(lines)
        self.rank, self.line = np.empty(lines, dtype=np.int32), LineNumbers()
        self.rows = 0
        self.tag = ""

    def put(self, table: Table) -> None:
        """Adds the columns of one block; faults are added to those of the table."""
        names, at = self.names, slice(self.rows, self.rows + len(table.line))
        if not self.rows:
            self.tag = table.text(0, len(names) - 1)
        self.line.put(self.rows, table.line)
        doc_column = 1 if "Q0" not in names else 2
        self.topic.put(self.rows, table.ids(0, "topic"))
        self.doc.put(self.rows, table.ids(doc_column, names[doc_column]))
        if self.context is not None:
            self.context.put(self.rows, table.ids(2, "post"))
        self.score[at] = table.numbers(names.index("score"), "score")
        rank_column, tag_column = names.index("rank"), names.index("tag")
        rank, whole = integers(table.source, table.start[rank_column], table.length[rank_column])
        table.each(~whole, lambda row: f"rank {table.text(row, rank_column)!r} is not a whole number of 1 to 8 digits")
        self.rank[at] = rank
        if self.strict and doc_column == 2:
            first = table.text(0, 1).encode()
            if first not in ITERATIONS or not table.equals(1, first).all():
                odd = ~np.isin(strings(table.words(1)), ITERATIONS)
                table.each(odd, lambda row: f"column 2 is {table.text(row, 1)!r}, expected Q0, 0 or _")
        other = ~table.equals(tag_column, self.tag.encode())
        table.each(
            other,
            lambda row: f"run tag {table.text(row, tag_column)!r} differs from line {self.line[0]}'s {self.tag!r}",
        )
        self.rows += len(table.line)


def read_columns(data: bytes, names: tuple[str, ...], faults: Faults, *, strict: bool) -> Columns:
    """Reads the columns of a run's text, in a layout with these names; faults of lines are added to `faults`."""
    columns = Columns(line_ends(data) + 1, names, strict=strict)
    for table in tables(data, names, faults):
        columns.put(table)
    return columns
