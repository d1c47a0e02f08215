"""Tables of a report as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.io.console import out, out_table

if TYPE_CHECKING:
    from harness.render.model import Table


def print_table(table: Table) -> None:
    """Returns a table as lines: caption, aligned columns with marks, and notes."""
    from harness.render.model import MARKS

    out(table.caption)
    rows = [[cell.text + "".join(MARKS[mark].symbol for mark in cell.marks) for cell in row] for row in table.rows]
    out_table([[column.full_title for column in table.columns], *rows])
    for note in (*table.notes, *dict.fromkeys(cell.note for row in table.rows for cell in row if cell.note)):
        out(note)
