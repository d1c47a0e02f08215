"""What renderers need of a table: its spanning headers, marks and footnotes, and cells as people read them."""

from __future__ import annotations

import re

from harness.render.model import MARKS, Cell, Column, Table


def numeral(cell: Cell, column: Column) -> str:
    """Returns the text of a cell for people: a minus sign before numbers, not a hyphen."""
    if column.kind == "text" and not cell.values:
        return cell.text
    return re.sub(r"(?<![\w.)])-(?=[\d.])", "\N{MINUS SIGN}", cell.text)


def header_groups(table: Table) -> tuple[tuple[str, int], ...]:
    """Returns the spanning headers as (title, number of columns); a column without a group spans itself."""
    spans: list[tuple[str, int]] = []
    for column in table.columns:
        if column.group and spans and spans[-1][0] == column.group:
            spans[-1] = (column.group, spans[-1][1] + 1)
        else:
            spans.append((column.group, 1))
    return tuple(spans)


def marks_used(table: Table) -> tuple[str, ...]:
    """Returns the marks that occur in a table, in the order of `MARKS`."""
    used = {mark for row in table.rows for cell in row for mark in cell.marks}
    return tuple(mark for mark in MARKS if mark in used)


def symbols(cell: Cell) -> tuple[str, ...]:
    """Returns the marks of a cell that have a symbol, in the order of `MARKS`."""
    return tuple([mark for mark in MARKS if mark in cell.marks and MARKS[mark].symbol]) if cell.marks else ()


def footnotes(table: Table) -> dict[str, str]:
    """Returns note -> letter (a, b, ..., z, aa, ...) in reading order; equal notes share a letter."""
    notes: dict[str, str] = {}
    for row in table.rows:
        for cell in row:
            if cell.note and cell.note not in notes:
                notes[cell.note] = _note_letter(len(notes))
    return notes


def _note_letter(index: int) -> str:
    return (_note_letter(index // 26 - 1) if index >= 26 else "") + chr(ord("a") + index % 26)
