"""Parsing of MathML: Presentation MathML to symbol layout trees, Content MathML to operator trees.

Labels and edges follow Tangent-S (Davila and Zanibbi 2017), as observed in its trees of the ARQMath formulas. Symbols
that Tangent-S drops (scripts of closing brackets and of adjacent matrices) are kept.
"""

from __future__ import annotations

from harness.formulas.mathml.content import Operators, operator_tree
from harness.formulas.mathml.walk import Element, Fault, walk
from harness.formulas.slt import rows
from harness.formulas.slt.rows import BLANK, Row, Symbol
from harness.formulas.trees.reading import ERROR, ParsedFormula, failed

EMPTY = "no formula"
SOURCE = "marked as an error by its source"
_LEAVES = {"mi": "V!", "mn": "N!", "mtext": "T!", "ms": "T!"}
_BLANKS = frozenset(("mspace", "none", "mprescripts", "mphantom", "malignmark", "maligngroup"))
_ROWS = frozenset(("math", "mrow", "mpadded", "mstyle"))
_FIRST = frozenset(("semantics", "maction"))
_ASIDE = frozenset(("annotation", "annotation-xml"))
_SCRIPTS = {"msub": 2, "msup": 2, "msubsup": 3, "munder": 2, "mover": 2, "munderover": 3, "mfrac": 2, "mroot": 2}


def read_presentation(markup: str) -> ParsedFormula:
    """Parses Presentation MathML to a symbol layout tree; never raises an exception."""
    try:
        row, reason = walk(markup, _layout_row)
    except Fault as fault:
        return failed(str(fault))
    return ParsedFormula(rows.tree(row), reason) if row else failed(reason or EMPTY)


def read_content(markup: str) -> ParsedFormula:
    """Parses Content MathML to an operator tree; never raises an exception."""
    try:
        root, reason = walk(markup, Operators())
    except Fault as fault:
        return failed(str(fault))
    tree = operator_tree(root, len(markup))
    return ParsedFormula(tree, reason) if tree else failed("references that repeat themselves")


def _layout_row(element: Element[Row], above: list[Element[Row]]) -> Row:
    name, parts = element.name, element.parts
    if name in _LEAVES:
        return [rows.leaf(_LEAVES[name], element.text)]
    if name == "mo":
        return [Symbol(rows.clean(element.text))]
    if name in _ROWS:
        return rows.fenced([part for part in parts if not rows.ignored(part)])
    if name in _SCRIPTS and len(parts) == _SCRIPTS[name]:
        return _structure_row(name, parts)
    if name == "msqrt":
        return [Symbol("O!root", {"w": row})] if (row := _joined(parts)) else [Symbol("O!root" if parts else BLANK)]
    if name == "mtd":
        return _joined([part for part in parts if not rows.ignored(part)]) or [Symbol(BLANK)]
    if name in ("mtr", "mlabeledtr"):
        return [rows.matrix([parts or [[]]])]
    if name == "mtable":
        return [rows.matrix([_cells(kind, part) for kind, part in zip(element.names, parts, strict=True)])]
    if name in _BLANKS:
        return [Symbol(BLANK)]
    if name == "mfenced":
        return _fenced_row(element)
    if name == "menclose":
        row = _joined(parts)
        return [Symbol(element.attribute("notation", "longdiv"), {"w": row} if row else None)]
    if name == "mmultiscripts" and parts:
        return _multiscripts(element)
    if name in _FIRST:
        return parts[0] if parts else []
    if name in _ASIDE:
        return []
    if name == "merror":
        element.reason = element.reason or SOURCE
        return [Symbol(ERROR + rows.clean(element.text))]
    if name not in _SCRIPTS and name != "mmultiscripts":
        element.reason = element.reason or f"unknown element {name[:20]}"
        return [Symbol(ERROR, {"w": row} if (row := _joined(parts)) else None)]
    # Wrong number of scripts: put all parts in one row.
    return _joined([part for part in parts if not rows.ignored(part)])


def _joined(parts: list[Row]) -> Row:
    """Returns the symbols of all rows as one row."""
    return [symbol for part in parts for symbol in part]


def _structure_row(name: str, parts: list[Row]) -> Row:
    """Returns a fraction, a root, or a base with scripts or with marks above and below it."""
    base = parts[0]
    if name == "mfrac":
        return [Symbol("O!divide", {edge: row for edge, row in zip("ou", parts, strict=True) if row})]
    if name == "mroot":
        return [Symbol("O!root", {edge: row for edge, row in zip("wc", parts, strict=True) if row})]
    if name == "msub":
        return rows.scripted(base, parts[1], None)
    if name == "msup":
        return rows.scripted(base, None, parts[1])
    if name == "msubsup":
        return rows.scripted(base, parts[1], parts[2])
    edges = {"munder": "u", "mover": "o", "munderover": "uo"}[name]
    return rows.hung(base, list(zip(edges, parts[1:], strict=True)))


def _cells(kind: str, part: Row) -> list[Row]:
    """Returns the cells of a table row; any other part of a table counts as a row of one cell."""
    return part[0].cells or [] if kind in ("mtr", "mlabeledtr") else [part]


def _fenced_row(element: Element[Row]) -> Row:
    separators = element.attribute("separators", ",").split() or [""]
    row: list[Row] = [[Symbol(rows.clean(element.attribute("open", "(")))]]
    for number, part in enumerate(part for part in element.parts if not rows.ignored(part)):
        if number:
            row.append([Symbol(separators[min(number, len(separators)) - 1])])
        row.append(part)
    row.append([Symbol(rows.clean(element.attribute("close", ")")))])
    return rows.fenced([part for part in row if not rows.ignored(part)])


def _multiscripts(element: Element[Row]) -> Row:
    """Converts base, pairs of subscript and superscript, and prescripts after `mprescripts`; ignores blanks."""
    names, parts = element.names, element.parts
    before = names.index("mprescripts") if "mprescripts" in names else len(parts)
    scripts: list[tuple[str, Row | None]] = []
    for edge, first, end in (("b", 1, before), ("a", 2, before), ("d", before + 1, None), ("c", before + 2, None)):
        row = _joined([part for part in parts[first:end:2] if not rows.ignored(part)])
        scripts.append((edge, row or None))
    return rows.hung(parts[0], scripts)
