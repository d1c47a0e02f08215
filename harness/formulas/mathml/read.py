"""Parsing of MathML: Presentation MathML to symbol layout trees, Content MathML to operator trees.

Labels and edges follow Tangent-S (Davila and Zanibbi 2017), as observed in its trees of the ARQMath formulas. Symbols
that Tangent-S drops (scripts of closing brackets and of adjacent matrices) are kept.

Operator trees from elements of Content MathML, with the labels of Tangent-S.

========  ==========================================================================================================
`V!` `N!`  variable, number; `C!` a constant such as `C!infinity`; `T!` text
`F!`       function: a named one (`F!sin`) or a variable applied to arguments
`U!` `O!`  operator whose arguments are unordered (`U!plus`) or ordered (`O!divide`, `O!SUP`)
`+!`       operator that is itself an expression, its first argument; named after the innermost base of its scripts
`M!`       set `M!S-n`, list `M!L-n`, vector `M!V-n`, matrix `M!M-rxc` of rows `M!R!`, in delimiters `M!D-`
`E!` `-!`  a part that was not understood, and a symbol of unknown role in it; `W!` an empty argument or blank
========  ==========================================================================================================
"""

from __future__ import annotations

import re
from pathlib import Path

from harness.formulas.mathml.walk import Element, Fault, walk
from harness.formulas.slt import rows
from harness.formulas.slt.rows import BLANK, Row, Symbol, clean
from harness.formulas.text.characters import pairs, sections
from harness.formulas.trees.tree import ERROR, ParsedFormula, Tree, argument_edge, failed, tree_of

_WIDEST = 62  # maximum arguments of an operator, as in Tangent-S; an operator with more is split in halves
_TABLES = sections(Path(__file__).with_name("content.txt"))
_FUNCTIONS, _UNORDERED, _CONSTANTS, _QUALIFIERS, _STRUCTURES = (
    frozenset(_TABLES[name]) for name in ("functions", "unordered", "constants", "qualifiers", "structures")
)
_BASE = re.compile("[2-9]|[12][0-9]|3[0-6]")
_WHOLE = re.compile("[+-]?[0-9A-Za-z]+")
_CONTENT_LEAVES = {"ci": "V!", "cn": "N!", "mtext": "T!", "cs": "T!", "cbytes": "T!"}
_TOKENS = frozenset(("mi", "mn", "mo", "ms"))  # presentation of a name
# Content dictionaries whose symbols are those of elements: `plus` of `arith1` is `<plus/>`.
_DICTIONARIES = frozenset(_TABLES["dictionaries"])
_COLLECTIONS = {"set": "S", "list": "L", "vector": "V"}
_CLOSURES = {"open": "O-O", "closed": "C-C", "open-closed": "O-C", "closed-open": "C-O"}
_NAMES = dict(pairs(_TABLES["names"]))


class ContentNode:
    """A node of an operator tree: a label and arguments."""

    __slots__ = ("label", "parts")

    def __init__(self, label: str, parts: list[ContentNode] | None = None) -> None:
        self.label = label
        self.parts: list[ContentNode] = [] if parts is None else parts


def operator_tree(root: ContentNode, most: int) -> Tree | None:
    """Returns the tree of an operator; None if it exceeds `most` nodes, as shared arguments can make it grow."""
    nodes: list[tuple[str, int, str]] = []
    waiting = [(root, -1, "")]
    while waiting:
        here, parent, edge = waiting.pop()
        if len(nodes) == most:
            return None
        waiting.extend([(part, len(nodes), argument_edge(i)) for i, part in enumerate(here.parts)][::-1])
        nodes.append((here.label, parent, edge))
    return tree_of(nodes)


class Operators:
    """Converts the elements of one formula in Content MathML to nodes.

    Attributes
    ----------
    known : the nodes of the elements with an id so far, to which `share` refers.
    """

    def __init__(self) -> None:
        self.known: dict[str, ContentNode] = {}

    def __call__(self, element: Element[ContentNode], above: list[Element[ContentNode]]) -> ContentNode:
        """Converts an element; `above` are the enclosing elements."""
        node = _shared(element, above, self.known) if element.name == "share" else _operator_node(element, above)
        if "id" in element.attributes and (name := element.attribute("id") or element.attribute("xml:id")):
            self.known.setdefault(name, ContentNode(node.label, node.parts))
        return node


def _operator_node(element: Element[ContentNode], above: list[Element[ContentNode]]) -> ContentNode:
    name, parts = element.name, element.parts
    if name == "cn":
        return _number(element)
    if name in _CONTENT_LEAVES:
        text = _name(element)
        return ContentNode(_CONTENT_LEAVES[name] + text if text else BLANK)
    if above and above[-1].name in _CONTENT_LEAVES and name in _TOKENS:
        return ContentNode(clean(element.text))
    if name in ("apply", "bind"):
        return _applied(element)
    if name == "csymbol":
        return ContentNode(_symbol_label(clean(element.text).lower(), element.attribute("cd")))
    if name in _COLLECTIONS:
        return ContentNode(f"M!{_COLLECTIONS[name]}-{len(parts)}", parts)
    if name == "interval":
        closure = _CLOSURES.get(element.attribute("closure").strip().lower(), "C-C")
        return ContentNode(f"O!interval({closure})", parts)
    if name == "matrix":
        columns = max((len(row.parts) for row in parts), default=0)
        for row in parts:
            row.parts = row.parts + [ContentNode(ERROR) for _ in range(columns - len(row.parts))]
        return ContentNode(f"M!M-{len(parts)}x{columns}", parts)
    if name == "matrixrow":
        return ContentNode("M!R!", parts)
    if name in _QUALIFIERS:
        return ContentNode(f"$!{name}", parts)
    if name == "cerror":
        return _halved(ContentNode(ERROR, _words(parts)))
    if name == "math":
        return _whole_formula(element)
    if name == "semantics":
        return _meant(element)
    if name == "annotation-xml":
        return _annotation(element, above)
    if not parts and not clean(element.text):
        return ContentNode(_operator_name(name))
    if not any(around.name in _CONTENT_LEAVES for around in above):
        element.reason = element.reason or f"unknown element {name[:20]}"
    elif name in _STRUCTURES:
        element.reason = element.reason or "a name with scripts or other structure"
    return ContentNode(ERROR, parts)


def _name(element: Element[ContentNode]) -> str:
    """Returns the name of a leaf: its own text or that of its only token; Tangent-S ignores other elements in it."""
    only = element.parts[0].label if len(element.names) == 1 and element.names[0] in _TOKENS else ""
    return clean(element.text) or only


def _number(element: Element[ContentNode]) -> ContentNode:
    """Converts a number; one whose parts are separated by `sep` to the expression that it stands for."""
    kind = "type " + element.attribute("type", "real").strip().lower()
    first = _name(element)
    others = [clean(text) for name, text in zip(element.names, element.after, strict=True) if name == "sep"]
    base = element.attribute("base", "10").strip()
    if not first and not others:
        return ContentNode(BLANK)
    if base != "10":
        try:
            first, *others = [str(_whole_number(text, base)) for text in (first, *others)]
        except ValueError:
            kind = f"base {base}"
    if not others and not kind.startswith(("type hexdouble", "base")):
        return ContentNode("N!" + first)
    numbers = [ContentNode("N!" + text) for text in (first, *others)]
    if len(numbers) == 2 and all((first, *others)):
        one, other = numbers
        if kind == "type rational":
            return ContentNode("O!divide", [one, other])
        if kind == "type e-notation" and base == "10":
            return ContentNode("U!times", [one, ContentNode("O!SUP", [ContentNode("N!10"), other])])
        if kind == "type complex-cartesian":
            return ContentNode("U!plus", [one, ContentNode("U!times", [other, ContentNode("C!imaginaryi")])])
        if kind == "type complex-polar":
            angle = ContentNode("U!times", [ContentNode("C!imaginaryi"), other])
            return ContentNode("U!times", [one, ContentNode("O!SUP", [ContentNode("O!exponentiale"), angle])])
    element.reason = element.reason or f"a number of {kind[:30]} that is not understood"
    return ContentNode(ERROR, numbers)


def _whole_number(text: str, base: str) -> int:
    """Returns the value of a whole number; raises ValueError for other text and for bases other than 2 to 36."""
    if not (_BASE.fullmatch(base) and _WHOLE.fullmatch(text)):  # `int` takes more: base 0, `1_0`, digits of any script
        raise ValueError
    return int(text, int(base))


def _operator_name(name: str) -> str:
    if name in _FUNCTIONS:
        return f"F!{name}"
    if name == "determinant":
        return "F!det"
    if name in _UNORDERED:
        return f"U!{name}"
    return f"C!{name}" if name in _CONSTANTS else f"O!{name}"


def _symbol_label(name: str, dictionary: str) -> str:
    if name.startswith("delimited-"):
        # Tangent-S removes the first character of the delimiter after it was escaped as `&lsqb;`.
        return "M!D-" + (name[10:].replace("[", "lsqb;", 1) if name[10:11] == "[" else name[11:])
    if dictionary in _DICTIONARIES:
        return _operator_name(name)
    if dictionary not in ("latexml", "ambiguous"):
        return f"-!{name}"
    return _NAMES.get(name, f"O!{name}")


def _applied(element: Element[ContentNode]) -> ContentNode:
    """Converts an application: attaches the arguments to the head."""
    if not element.parts:
        element.reason = element.reason or "an application of nothing"
        return ContentNode(ERROR)
    head, *arguments = element.parts
    if head.label.startswith("V!"):
        head.label = "F!" + head.label[2:]
    if head.parts:
        base = head.parts[0].label if head.label in ("O!SUB", "O!SUP") else ""
        return _halved(ContentNode(f"+!{base}", [head, *arguments]))
    if head.label == "O!root":
        arguments = _root_arguments(element, arguments)
    elif head.label == "O!int" and len(arguments) == 1:
        # Empty arguments for the interval and the variable, which LaTeXML never provides.
        arguments += [ContentNode(BLANK), ContentNode(BLANK)]
    head.parts = arguments
    return _halved(head)


def _root_arguments(element: Element[ContentNode], arguments: list[ContentNode]) -> list[ContentNode]:
    degrees = [part.parts[0] for part in arguments if part.label == "$!degree" and part.parts]
    operands = [part for part in arguments if part.label != "$!degree"]
    if len(operands) != 1 or len(degrees) > 1:
        element.reason = element.reason or "a root of several operands or of none"
    return operands[:1] + (degrees or [ContentNode("N!2")]) + operands[1:]


def _words(parts: list[ContentNode]) -> list[ContentNode]:
    """Returns the parts of an error; joins adjacent symbols of unknown role to text."""
    out: list[ContentNode] = []
    for part in parts:
        if out and part.label.startswith("-!") and out[-1].label[:2] in ("-!", "T!"):
            out[-1] = ContentNode("T!" + out[-1].label[2:] + part.label[2:])
        else:
            out.append(part)
    return out


def _halved(node: ContentNode) -> ContentNode:
    """Splits an error or unordered operator with too many arguments recursively into two of its kind."""
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if len(here.parts) > _WIDEST and here.label[:2] in (ERROR, "U!"):
            middle = (len(here.parts) + 1) // 2
            here.parts = [ContentNode(here.label, here.parts[:middle]), ContentNode(here.label, here.parts[middle:])]
            waiting += here.parts
    return node


def _shared(
    element: Element[ContentNode], above: list[Element[ContentNode]], known: dict[str, ContentNode]
) -> ContentNode:
    """Resolves a reference to an element before it.

    In formulas without ids, as in the official ones of ARQMath, it is a shared operand in a chain of relations: the
    last argument of the previous relation.
    """
    document, _, name = element.attribute("href").strip().partition("#")
    if not document and name in known:
        return ContentNode(known[name].label, known[name].parts)
    if not known and len(above) > 1 and len(above[-2].parts) > 1 and above[-2].parts[-1].parts:
        return above[-2].parts[-1].parts[-1]
    element.reason = element.reason or "a reference to nothing"
    return ContentNode(ERROR)


def _annotation(element: Element[ContentNode], above: list[Element[ContentNode]]) -> ContentNode:
    """Returns the content of an annotation in XML; one in Presentation MathML is no meaning."""
    if "presentation" in element.attribute("encoding").lower():
        element.name, element.reason = "annotation", ""
    elif above:
        above[-1].reason = ""  # of the presentation before it
    return element.parts[0] if element.parts else ContentNode(BLANK)


def _meant(element: Element[ContentNode]) -> ContentNode:
    """Selects the part with the meaning: the first annotation in XML, or else the first part."""
    for name, part in zip(element.names, element.parts, strict=True):
        if name == "annotation-xml":
            return part
    return element.parts[0] if element.parts else ContentNode(BLANK)


def _whole_formula(element: Element[ContentNode]) -> ContentNode:
    """Returns the formula of an element; an error node unless it has exactly one."""
    if len(element.parts) == 1:
        return element.parts[0]
    element.reason = element.reason or ("more than one formula" if element.parts else "no formula")
    return ContentNode(ERROR, element.parts)


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
