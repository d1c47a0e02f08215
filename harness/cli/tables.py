"""Tables of a report as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.io.console import out_table, out_wrapped, print_line

if TYPE_CHECKING:
    from harness.render.model import Cell, Table


def marks_text(cell: Cell) -> str:
    """Returns the symbols of a cell's marks."""
    from harness.render.model import MARKS

    return "".join(MARKS[mark].symbol for mark in cell.marks)


def table_lines(table: Table) -> list[list[str]]:
    """Returns the titles of a table's columns, then its rows, with the symbols of marks after the values."""
    rows = [[cell.text + marks_text(cell) for cell in row] for row in table.rows]
    return [[column.full_title for column in table.columns], *rows]


def print_table(table: Table) -> None:
    """Prints a table: caption, aligned columns with marks, and notes; a cell's note follows the cell's text."""
    print_line(table.caption)
    out_table(table_lines(table))
    for note in table.notes:
        out_wrapped(note)
    for cell in (cell for row in table.rows for cell in row if cell.note):
        out_wrapped(f"{cell.text}: {cell.note}")
