r"""Our own parser from LaTeX to operator trees (OPT), which follows LaTeXML and Tangent-S.

LaTeX is read group by group into rows of items (`reader`, `commands`, `tables`), and each row is parsed as an
expression (`grammar`). The result is converted to a tree.

Known differences from LaTeXML: all rows of an alignment are parsed (LaTeXML's trees of the ARQMath topics contain only
its first cell); characters such as `≤` are equal to their commands, and of several to the one that has a meaning in
LaTeXML (`⟹` to `\implies`, not to `\Longrightarrow`, whose trees differ); accents are commands, too; `\lt` and `\gt`
are supported; the bars of
`a|b \land b|c` are two divisibilities (LaTeXML: an absolute value); wide spaces around a relation separate nothing;
`\genfrac` with round brackets and no line is a binomial; `\lVert` and `\rVert` make a norm; a part that cannot be
parsed becomes a node `E!` among the parsed parts (LaTeXML gives up the whole row).
"""

from __future__ import annotations

from harness.formulas.mathml.walk import DEEP, DEPTH
from harness.formulas.opt import tokens
from harness.formulas.opt.commands import COMMANDS, aligned
from harness.formulas.opt.reader import TokenReader
from harness.formulas.opt.tables import Node
from harness.formulas.trees.reading import ERROR, ParsedFormula, failed
from harness.formulas.trees.tree import Tree, argument_edge

EMPTY = "no formula"
_WIDEST = 62  # maximum arguments of an unordered operator, as in Tangent-S; one with more is split in halves


def read_latex(formula: str) -> ParsedFormula:
    """Parses LaTeX without delimiters to an operator tree; never raises an exception."""
    reader = TokenReader(tokens.tokens(formula), COMMANDS)
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
    labels: list[str] = []
    parents: list[int] = []
    edges: list[str] = []
    waiting: list[tuple[Node, int, str, int]] = [(root, -1, "", 1)]
    cut = False
    while waiting:
        (label, below), parent, edge, level = waiting.pop()
        number = len(labels)
        labels.append(label)
        parents.append(parent)
        edges.append(edge)
        if not below:
            continue
        if level == DEPTH:
            labels[number] = ERROR
            cut = True
            continue
        if len(below) > _WIDEST and label[:2] in (ERROR, "U!"):
            middle = (len(below) + 1) // 2
            below = [(label, below[:middle]), (label, below[middle:])]
        for index in range(len(below) - 1, -1, -1):
            waiting.append((below[index], number, argument_edge(index), level + 1))
    return Tree(tuple(labels), tuple(parents), tuple(edges)), cut
