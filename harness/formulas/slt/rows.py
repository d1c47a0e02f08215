"""Rows of symbols, and their conversion to symbol layout trees by Tangent's rules.

A row consists of the symbols on one baseline. Symbols have scripts and contents, each again a row. In the tree, each
symbol of a row is the next (`n`) of the previous one, and each cell of a matrix is the element (`e`) of the previous
one. The rules are those of Tangent-S (Davila and Zanibbi 2017), as observed in its trees of the ARQMath formulas.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.formulas.trees.tree import Tree, tree_of

BLANK = "W!"
INVISIBLE = frozenset("\u2061\u2062\u2063\u2064")
_OPENING = frozenset("({|∥[")
_CLOSING = frozenset(")}|∥]")
_BEFORE = ("a", "b", "o", "u", "c", "d", "w")  # the order of the edges in a string, after `n`
_SIDES = frozenset("abcd")
_WHITE = str.maketrans({"\t": r"\t", "\n": r"\n", "\r": r"\r"})


class Symbol:
    """A symbol: its label, and the rows attached to it by edge; a matrix has cells instead of the edge `w`."""

    __slots__ = ("below", "cells", "label")

    def __init__(self, label: str, below: dict[str, Row] | None = None, cells: list[Row] | None = None) -> None:
        self.label = label
        self.below = below
        self.cells = cells


Row = list[Symbol]


def clean(text: str) -> str:
    """Strips white space from a name; the name of an invisible operator is empty."""
    text = text.strip()
    return "" if text in INVISIBLE else text.translate(_WHITE)


def leaf(kind: str, text: str) -> Symbol:
    """Returns a symbol of a kind (`V!`, `N!`, `T!`), or a blank if the name is empty."""
    name = clean(text)
    return Symbol(kind + name if name else BLANK)


def ignored(row: Row) -> bool:
    """Returns whether a row is empty, or a single blank or invisible operator without scripts; rows exclude these."""
    return not row or (len(row) == 1 and row[0].label in (BLANK, "") and not row[0].below and row[0].cells is None)


def is_operator(label: str) -> bool:
    """Returns whether a label has no kind: the scripts of such a symbol are over and under it, not above and below."""
    return label[1:2] != "!" and label[:1] != "?"


def scripted(base: Row, below: Row | None, above: Row | None) -> Row:
    """Adds a subscript and a superscript to a base (None: no such script); an operator with scripts at its side has
    them there, any other one over and under it."""
    over = base and is_operator(base[0].label) and not ignored(base) and not _SIDES & (base[0].below or {}).keys()
    edges = ("u", "o") if over else ("b", "a")
    return hung(base, ((edges[0], below), (edges[1], above)))


def hung(base: Row, scripts: Sequence[tuple[str, Row | None]]) -> Row:
    """Attaches rows to a base by edge; a base of several symbols, or with an occupied edge, becomes a 1x1 matrix."""
    base = base if not ignored(base) else [Symbol(BLANK)]
    taken = base[0].below or {}
    if len(base) > 1 or any(edge in taken for edge, row in scripts if row is not None):
        base = [Symbol("M!1x1", cells=[base])]
    root = base[0]
    new = {edge: row for edge, row in scripts if row}
    root.below = {**root.below, **new} if root.below else new
    return base


def fenced(parts: list[Row]) -> Row:
    """Joins parts, none of them ignored, to a row; parts in brackets become a matrix with cells separated by commas."""
    if len(parts) > 2 and parts[0][0].label in _OPENING and parts[-1][0].label in _CLOSING:
        return [_bracket_symbol(parts[0][0].label + parts[-1][0].label, parts[1:-1])]
    return [symbol for part in parts for symbol in part]


def _bracket_symbol(fences: str, parts: list[Row]) -> Symbol:
    first = parts[0][0]
    bare = first.label.startswith("M!") and first.label[2:3] not in "({|[]∥" and not first.below  # a matrix
    if len(parts) == 1 and len(parts[0]) == 1 and bare:
        first.label = "M!" + fences + first.label[2:]
        return first
    cells, separators = _split_parts([[symbol] for symbol in parts[0]] if len(parts) == 1 else parts)
    return Symbol(f"M!{fences}1x{separators + 1}", cells=cells)


def _split_parts(parts: list[Row]) -> tuple[list[Row], int]:
    """Splits a row after each comma, which remains at the end of its cell; also returns the number of commas."""
    cells: list[Row] = [[]]
    commas = 0
    after = False
    for part in parts:
        comma = part[0].label == ","
        if after and not comma:
            cells.append([])
        commas += comma
        after = comma
        cells[-1].extend(part)
    if cells[0][0].label == ",":
        cells[0].insert(0, Symbol(BLANK))
    return cells, commas


def matrix(rows: list[list[Row]]) -> Symbol:
    """Returns a matrix without brackets; empty cells become blanks."""
    cells = [cell or [Symbol(BLANK)] for row in rows for cell in row]
    return Symbol(f"M!{len(rows)}x{len(rows[0]) if rows else 0}", cells=cells)


def tree(row: Row) -> Tree:
    """Converts a non-empty row to a symbol layout tree."""
    nodes: list[tuple[str, int, str]] = []
    # Stack of pending work: a row from a position on, and the cells that follow it.
    waiting: list[tuple[Row, int, int, str, list[Row], int]] = [(row, 0, -1, "", [], 0)]
    while waiting:
        here, at, parent, edge, cells, cell = waiting.pop()
        symbol = here[at]
        number = len(nodes)
        nodes.append((symbol.label, parent, edge))
        if cell < len(cells):
            waiting.append((cells[cell], 0, number, "e", cells, cell + 1))
        if symbol.cells:
            waiting.append((symbol.cells[0], 0, number, "w", symbol.cells, 1))
        if symbol.below:
            below = symbol.below
            waiting.extend([(below[name], 0, number, name, [], 0) for name in reversed(_BEFORE) if name in below])
        if at + 1 < len(here):
            waiting.append((here, at + 1, number, "n", [], 0))
    return tree_of(nodes)
