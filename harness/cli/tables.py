"""Tables of a report as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.io.console import out_table, out_wrapped, print_line

if TYPE_CHECKING:
    from harness.render.model import Table


def print_table(table: Table) -> None:
    """Prints a table: caption, aligned columns with marks, and notes; a cell's note follows the cell's text."""
    from harness.render.model import MARKS

    print_line(table.caption)
    rows = [[cell.text + "".join(MARKS[mark].symbol for mark in cell.marks) for cell in row] for row in table.rows]
    out_table([[column.full_title for column in table.columns], *rows])
    for note in table.notes:
        out_wrapped(note)
    for cell in (cell for row in table.rows for cell in row if cell.note):
        out_wrapped(f"{cell.text}: {cell.note}")
