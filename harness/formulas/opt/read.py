r"""LaTeX to operator trees (OPT), as LaTeXML and Tangent-S make them, with a parser of our own.

The LaTeX is read group by group into rows of items (`reader`, `commands`, `tables`), each row is read as an expression
(`grammar`), and the whole is written out as a tree.

Known to be otherwise than LaTeXML: all rows of an alignment are read (LaTeXML's trees of the ARQMath topics hold its
first cell); characters such as `≤` are what their commands are; `\lt` and `\gt` are known; what cannot be read is a
node `E!` within what can (LaTeXML gives up the whole row).
"""

from __future__ import annotations

from harness.formulas.mathml.walk import DEEP, DEPTH
from harness.formulas.opt import tokens
from harness.formulas.opt.commands import COMMANDS, aligned
from harness.formulas.opt.reader import Reader
from harness.formulas.opt.tables import Node
from harness.formulas.trees.reading import ERROR, Reading, failed
from harness.formulas.trees.tree import Tree, place

EMPTY = "no formula"
_WIDEST = 62  # arguments of an unordered operator; more are halved, as Tangent-S has no more places


def read_latex(formula: str) -> Reading:
    """Returns the operator tree of a formula in LaTeX, without its delimiters; never an exception."""
    reader = Reader(tokens.tokens(formula), COMMANDS)
    try:
        node = reader.formula(aligned)
    except RecursionError:
        # Within the limit of depth only if the caller has used up the interpreter's own.
        return failed(DEEP)
    if node is None:
        return failed(reader.reason or EMPTY)
    tree, cut = _tree(node)
    return Reading(tree, reader.reason or (DEEP if cut else ""))


def _tree(root: Node) -> tuple[Tree, bool]:
    """Returns the tree of a node, and whether it was cut at `DEPTH` levels."""
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
            waiting.append((below[index], number, place(index), level + 1))
    return Tree(tuple(labels), tuple(parents), tuple(edges)), cut
