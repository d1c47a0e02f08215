r"""Our own parser from LaTeX to operator trees (OPT), which follows LaTeXML and Tangent-S.

LaTeX is read group by group into rows of items (`reader`, `tables`), and each row is parsed as an
expression (`grammar`). The result is converted to a tree.

Known differences from LaTeXML: all rows of an alignment are parsed (LaTeXML's trees of the ARQMath topics contain only
its first cell); characters such as `≤` are equal to their commands, and of several to the one that has a meaning in
LaTeXML (`⟹` to `\implies`, not to `\Longrightarrow`, whose trees differ); accents are commands, too; `\lt` and `\gt`
are supported; the bars of
`a|b \land b|c` are two divisibilities (LaTeXML: an absolute value); wide spaces around a relation separate nothing;
`\genfrac` with round brackets and no line is a binomial; `\lVert` and `\rVert` make a norm; a part that cannot be
parsed becomes a node `E!` among the parsed parts (LaTeXML gives up the whole row).

Commands with arguments, and environments, as items of a row.

A command is a function of the reader, its own name, the row to which it adds items, the depth of the enclosing groups,
and the current alphabet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from harness.formulas.mathml.walk import DEEP, DEPTH
from harness.formulas.opt import tables
from harness.formulas.opt.brackets import UNMATCHED
from harness.formulas.opt.reader import TEXT, Command, TokenReader, is_number, tokens
from harness.formulas.opt.tables import ABSENT, Node, Role, Rows, error, leaf, scripted, sequence
from harness.formulas.trees.tree import ERROR, ParsedFormula, Tree, argument_edge, failed, tree_of

_ATOM = Role.ATOM.value
_STACKED = {"\\stackrel": "O!SUP", "\\overset": "O!SUP", "\\underset": "O!SUB"}
_ARROWS = {"\\xrightarrow": "→", "\\xleftarrow": "←", "\\xRightarrow": "⇒", "\\xLeftarrow": "⇐", "\\xmapsto": "↦"}
_MODULI = {"\\pmod": "F!pmod", "\\pod": "F!pod"}
_MATRICES = {
    **dict.fromkeys(("matrix", "pmatrix", "bmatrix", "Bmatrix", "smallmatrix"), "O!matrix"),
    "vmatrix": "F!det",
    "Vmatrix": "O!norm",
}
_ARRAYS = frozenset(("array", "tabular", "subarray", "darray"))
_CASES = frozenset(("cases", "dcases", "rcases", "cases*", "dcases*"))
_TABLES = {
    **{"\\matrix": "matrix", "\\pmatrix": "pmatrix", "\\cases": "cases", "\\substack": "subarray"},
    **{"\\bordermatrix": "matrix", "\\eqalign": "aligned", "\\eqalignno": "aligned", "\\displaylines": "gathered"},
}
_UNITS = frozenset(("pt", "em", "ex", "cm", "mm", "in", "mu", "bp", "pc", "sp", "dd", "cc"))
_NO_LINE = re.compile(r"0*\.?0*\s*[a-z]*")  # the thickness of a fraction without a line
_WITH_COLUMNS = _ARRAYS | {"alignat", "alignat*", "alignedat"}


def _add_node(row: Rows, node: Node, role: int = _ATOM) -> None:
    row.append((role, node))


def _read_fraction(reader: TokenReader, unit: str, row: Rows, depth: int, style: str) -> None:
    above = reader.argument(depth, style)
    _add_node(row, ("O!binomial" if unit.endswith("binom") else "O!divide", [above, reader.argument(depth, style)]))


def _general_fraction(reader: TokenReader, unit: str, row: Rows, depth: int, style: str) -> None:
    """Parses `\\genfrac`: brackets, thickness of the line, style, numerator and denominator."""
    opening, closing, thickness, _ = (reader.skip() for _ in range(4))
    above = reader.argument(depth, style)
    stacked = "O!binomial" if opening + closing == "()" else "F!FRACOP"
    label = stacked if thickness and _NO_LINE.fullmatch(thickness) else "O!divide"
    _add_node(row, (label, [above, reader.argument(depth, style)]))


def _side_scripts(reader: TokenReader, unit: str, row: Rows, depth: int, style: str) -> None:
    """Parses `\\sideset`: scripts before an operator, scripts after it, and the operator."""
    before, after = reader.items(depth, style), reader.items(depth, style)
    scripts = [node for role, node in before[::-1] + after if role == Role.FLOAT]
    base = reader.argument(depth, style)
    _add_node(row, scripted(base, [(label, arguments[0]) for label, arguments in scripts]))


def _read_continued_fraction(reader: TokenReader, unit: str, row: Rows, depth: int, style: str) -> None:
    reader.skip_optional()
    above = reader.argument(depth, style)
    _add_node(row, ("O!continued-fraction", [above, reader.argument(depth, style)]))


def _read_root(reader: TokenReader, unit: str, row: Rows, depth: int, style: str) -> None:
    degree = reader.optional(depth)
    _add_node(row, ("O!root", [reader.argument(depth, style), degree or leaf("N!2")]))


def _read_old_root(reader: TokenReader, unit: str, row: Rows, depth: int, style: str) -> None:
    """Reads Plain TeX's root, `\\root DEGREE \\of RADICAND`."""
    degree = reader.read(reader.row("\\of", depth + 1, style))
    _add_node(row, ("O!root", [reader.argument(depth, style), degree]))


def _read_accent(reader: TokenReader, unit: str, row: Rows, depth: int, style: str) -> None:
    _add_node(row, (tables.ACCENTS[unit], [reader.argument(depth, style)]))


def _read_styled(reader: TokenReader, unit: str, row: Rows, depth: int, style: str) -> None:
    row += reader.items(depth, tables.STYLES[unit])


def _read_operator_name(reader: TokenReader, unit: str, row: Rows, depth: int, style: str) -> None:
    _add_node(row, reader.argument(depth, "upright"), Role.FUNCTION.value)


def _read_argument(reader: TokenReader, unit: str, row: Rows, depth: int, style: str) -> None:
    """Reads a command whose last argument alone counts, after an optional one."""
    reader.skip_optional()
    _add_node(row, reader.argument(depth, style))


def _operator(reader: TokenReader, unit: str, row: Rows, depth: int, style: str) -> None:
    """Parses `\\mathop`: a single symbol keeps its role."""
    items = reader.items(depth, style)
    if len(items) == 1:
        row += items
    else:
        _add_node(row, reader.read(items) if items else ABSENT)


def _space(reader: TokenReader, unit: str, row: Rows, depth: int, style: str) -> None:
    """Drops a space with its width in braces or as a dimension of TeX, such as `-3pt`."""
    while reader.at < len(reader.tokens) and reader.tokens[reader.at] in ("-", "+"):
        reader.at += 1
    width = reader.skip()
    if is_number(width or " ") and "".join(reader.tokens[reader.at : reader.at + 2]) in _UNITS:
        reader.at += 2


def _read_second_argument(reader: TokenReader, unit: str, row: Rows, depth: int, style: str) -> None:
    reader.skip_optional()
    reader.skip()
    row += reader.items(depth, style)


def _skip_argument(reader: TokenReader, unit: str, row: Rows, depth: int, style: str) -> None:
    reader.skip_optional()
    reader.skip()


def _skip_definition(reader: TokenReader, unit: str, row: Rows, depth: int, style: str) -> None:
    reader.skip()
    reader.skip_optional()
    reader.skip()


def _skip_text(reader: TokenReader, unit: str, row: Rows, depth: int, style: str) -> None:
    reader.skip()
    _add_node(row, ABSENT)


def _read_stacked(reader: TokenReader, unit: str, row: Rows, depth: int, style: str) -> None:
    script = reader.argument(depth, style)
    items = reader.items(depth, style)
    base = reader.read(items) if items else ABSENT
    role = items[0][0] if len(items) == 1 and items[0][0] <= Role.META else _ATOM
    _add_node(row, (_STACKED[unit], [base, script]), role)


def _read_arrow(reader: TokenReader, unit: str, row: Rows, depth: int, style: str) -> None:
    below = reader.optional(depth)
    arrow: Node = ("O!SUP", [leaf("V!" + _ARROWS[unit]), reader.argument(depth, style)])
    _add_node(row, ("O!SUB", [arrow, below]) if below else arrow, Role.RELATION.value)


def _read_modulo(reader: TokenReader, unit: str, row: Rows, depth: int, style: str) -> None:
    _add_node(row, (_MODULI[unit], [reader.argument(depth, style)]), Role.MODIFIER.value)


def _negation(reader: TokenReader, unit: str, row: Rows, depth: int, style: str) -> None:
    """Parses `\\neg`: like LaTeXML, as a function only of what is in brackets."""
    called = reader.tokens[reader.at : reader.at + 1] in (["("], ["["], ["\\left"])
    _add_node(row, leaf("O!not"), (Role.FUNCTION if called else Role.ATOM).value)


def _read_related(reader: TokenReader, unit: str, row: Rows, depth: int, style: str) -> None:
    role = Role.RELATION if unit == "\\mathrel" else Role.MULTIPLY
    _add_node(row, reader.argument(depth, style), role.value)


def _read_negation(reader: TokenReader, unit: str, row: Rows, depth: int, style: str) -> None:
    items = reader.items(depth, style)
    if len(items) != 1:
        _add_node(row, ("O!not", [reader.read(items)] if items else []))
        return
    role, node = items[0]
    label = node[0]
    if not node[1] and role != Role.BAR:
        negated = f"{label}\u0338" if label.startswith("V!") else "O!not-" + label[2:]
        node = leaf(tables.NEGATED.get(label, negated))
    _add_node(row, node, role)


# ---- environments -----------------------------------------------------------------------------------------------


def _read_environment(reader: TokenReader, unit: str, row: Rows, depth: int, style: str) -> None:
    name = reader.skip()
    reader.skip_optional()
    if name in _WITH_COLUMNS:
        reader.skip()
    lines, closed = _lines(reader, "\\end", depth, style)
    if closed:
        reader.skip()
    _add_node(row, _table(reader, name, lines))


def _plain_table(reader: TokenReader, unit: str, row: Rows, depth: int, style: str) -> None:
    """Parses a command with rows of cells in braces, such as `\\matrix{a & b \\cr c & d}`."""
    if reader.at >= len(reader.tokens) or reader.tokens[reader.at] != "{":
        row += reader.items(depth, style)
        return
    reader.at += 1
    lines, _ = _lines(reader, "}", depth, style)
    _add_node(row, _table(reader, _TABLES[unit], lines))


def _lines(reader: TokenReader, stop: str, depth: int, style: str) -> tuple[list[list[Rows]], bool]:
    """Reads lines of cells up to `stop`, and returns whether it was found; an empty last line is dropped."""
    if depth >= DEPTH:
        reader.fault(DEEP)
        return [[[(_ATOM, error([]))]]], False
    lines: list[list[Rows]] = [[reader.row("", depth + 1, style)]]
    closed = False
    while reader.at < len(reader.tokens):
        unit = reader.tokens[reader.at]
        if unit == stop:
            closed = True
            reader.at += 1
            break
        if unit in ("}", "\\end"):
            break
        reader.at += 1
        if unit != "&":
            reader.skip_optional()
            lines.append([])
        lines[-1].append(reader.row("", depth + 1, style))
    if not closed:
        reader.fault(UNMATCHED)
    if not any(lines[-1]):
        lines.pop()
    return lines, closed


def _table(reader: TokenReader, name: str, lines: list[list[Rows]]) -> Node:
    """Returns a matrix, cases as alternating values and conditions, or the formulas of an alignment."""
    if not (name in _MATRICES or name in _ARRAYS or name in _CASES):
        return aligned(reader, [[item for cell in line for item in cell] for line in lines])
    cells = [[reader.read(cell) if cell else ABSENT for cell in line] for line in lines]
    if name in _CASES:
        return ("O!cases", [node for line in cells for node in (line if len(line) > 1 else [*line, ABSENT])])
    columns = max((len(line) for line in cells), default=0)
    rows = [("M!R!", line + [leaf(ERROR)] * (columns - len(line))) for line in cells]
    matrix: Node = (f"M!M-{len(rows)}x{columns}", rows)
    if name not in _MATRICES:
        return matrix
    matrix = ("O!matrix", [matrix])
    return matrix if _MATRICES[name] == "O!matrix" else (_MATRICES[name], [matrix])


def aligned(reader: TokenReader, lines: list[Rows]) -> Node:
    """Parses the lines of an alignment; a line that begins with a relation or operator continues the previous one."""
    rows: list[Rows] = []
    for items in lines:
        if rows and items and items[0][0] in (Role.RELATION, Role.ADD, Role.MULTIPLY):
            rows[-1] += items
        elif items:
            rows.append(items)
    return sequence([reader.read(items) for items in rows]) if rows else ABSENT


_PLAIN: Mapping[Command, str] = {
    _read_fraction: r"\frac \dfrac \tfrac \sfrac \nicefrac \binom \dbinom \tbinom",
    _read_continued_fraction: r"\cfrac",
    _read_root: r"\sqrt",
    _read_old_root: r"\root",
    _read_operator_name: r"\operatorname \operatorname*",
    _read_argument: r"\boxed \fbox \cancel \bcancel \xcancel \sout \bbox",
    _read_second_argument: r"\textcolor \colorbox \href \cssId \style \class \raise",
    _skip_argument: r"""\tag \tag* \label \ref \eqref \color \phantom \hphantom \vphantom \cline \require
        \noalign""",
    _operator: r"\mathop",
    _space: r"\hspace \hspace* \vspace \vspace* \mspace \hskip \vskip \mskip \mkern \kern",
    _skip_definition: r"\newcommand \renewcommand \def \DeclareMathOperator",
    _read_related: r"\mathrel \mathbin",
    _read_negation: r"\not",
    _negation: r"\neg \lnot",
    _read_environment: r"\begin",
    _plain_table: " ".join(_TABLES),
    _general_fraction: r"\genfrac",
    _side_scripts: r"\sideset",
}
COMMANDS: Mapping[str, Command] = {
    **{name: command for command, names in _PLAIN.items() for name in names.split()},
    **dict.fromkeys(tables.ACCENTS, _read_accent),
    **dict.fromkeys((name for name in tables.STYLES if name not in tables.SWITCHES), _read_styled),
    **dict.fromkeys(TEXT, _skip_text),
    **dict.fromkeys(_STACKED, _read_stacked),
    **dict.fromkeys(_ARROWS, _read_arrow),
    **dict.fromkeys(_MODULI, _read_modulo),
}


EMPTY = "no formula"
_WIDEST = 62  # maximum arguments of an unordered operator, as in Tangent-S; one with more is split in halves


def read_latex(formula: str) -> ParsedFormula:
    """Parses LaTeX without delimiters to an operator tree; never raises an exception."""
    reader = TokenReader(tokens(formula), COMMANDS)
    try:
        node = reader.formula(aligned)
    except RecursionError:
        # The depth limit prevents this, unless the caller's own recursion is deep.
        return failed(DEEP)
    if node is None:
        return failed(reader.reason or EMPTY)
    tree, cut = _tree(node)
    return ParsedFormula(tree, reader.reason or (DEEP if cut else ""))


def _tree(root: Node) -> tuple[Tree, bool]:
    """Converts a node to a tree; also returns whether it was cut at `DEPTH` levels."""
    nodes: list[tuple[str, int, str]] = []
    waiting: list[tuple[Node, int, str, int]] = [(root, -1, "", 1)]
    cut = False
    while waiting:
        (label, below), parent, edge, level = waiting.pop()
        if below and level == DEPTH:
            label, below, cut = ERROR, (), True
        if len(below) > _WIDEST and label[:2] in (ERROR, "U!"):
            middle = (len(below) + 1) // 2
            below = [(label, below[:middle]), (label, below[middle:])]
        waiting.extend([(part, len(nodes), argument_edge(i), level + 1) for i, part in enumerate(below)][::-1])
        nodes.append((label, parent, edge))
    return tree_of(nodes), cut
