r"""Tables of LaTeX symbols in operator trees: the grammatical role and the label of each.

The roles, and their assignment to symbols in `symbols.txt`, follow LaTeXML's grammar of mathematics; the labels are
Tangent's (see `harness.formulas.mathml.read`). A symbol without a meaning of its own is a variable named by its
character (`V!⋅`).
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import TypeAlias

from harness.formulas.text.characters import pairs, sections, styled

Node: TypeAlias = "tuple[str, Sequence[Node]]"  # label and arguments
Item: TypeAlias = tuple[int, Node]  # grammatical role, and the node of a symbol or parsed part
Rows: TypeAlias = list[Item]


class Role(IntEnum):
    """Grammatical role of an item in a row. Roles up to `FLOAT` can begin a factor."""

    ATOM = 0  # letters, constants, fractions, groups
    NUMBER = 1
    FENCED = 2  # content of brackets
    FUNCTION = 3  # takes the factors that follow, up to a bracket
    TRIGONOMETRIC = 4  # like FUNCTION, but takes no other trigonometric function
    OPERATOR = 5
    BIG = 6  # sums, limits, quantifiers: take the rest of the term
    INTEGRAL = 7  # like BIG, and `d x` in it is a differential
    DIFFERENTIAL = 8  # takes one factor
    ARGUMENTS = 9  # brackets after a function
    BAR = 10
    FLOAT = 11  # a script before its base
    ADD = 12
    MULTIPLY = 13
    RELATION = 14
    META = 15  # relation between formulas
    PUNCTUATION = 16
    PERIOD = 17
    MODIFIER = 18
    MODIFY = 19
    OPEN = 20
    CLOSE = 21
    POSTFIX = 22
    PRIME = 23
    OVER = 24  # the items before `\over`


FACTORS = frozenset(range(Role.FLOAT + 1)) - {Role.ARGUMENTS.value}  # what may begin a factor
TAKERS = frozenset(range(Role.FUNCTION, Role.DIFFERENTIAL + 1))
# Roles that may begin a factor, by the role of the function that takes it without brackets; -1: in a term.
ARGUMENT = FACTORS & {Role.ATOM, Role.NUMBER, Role.FUNCTION, Role.TRIGONOMETRIC, Role.BAR, Role.FLOAT}
TAKES: Mapping[int, frozenset[int]] = {
    -1: FACTORS,
    **dict.fromkeys((Role.BIG, Role.INTEGRAL, Role.DIFFERENTIAL), FACTORS),
    **dict.fromkeys((Role.FUNCTION, Role.OPERATOR), ARGUMENT),
    Role.TRIGONOMETRIC: ARGUMENT - {Role.TRIGONOMETRIC},
}


# Widths of spaces in points; spaces of ten points or more separate like a comma.
SPACES: Mapping[str, float] = {
    **dict.fromkeys(("\\,", "\\thinspace"), 1.67),
    **dict.fromkeys(("\\:", "\\>", "\\medspace"), 2.22),
    **dict.fromkeys(("\\;", "\\thickspace"), 2.78),
    **dict.fromkeys(("\\ ", "\\\n", "\\\t", "~", "\\space"), 3.33),
    **dict.fromkeys(("\\enspace", "\\enskip"), 5.0),
    **{"\\!": -1.67, "\\quad": 10.0, "\\qquad": 20.0},
}
# Commands that set the alphabet up to the end of the group.
SWITCHES = frozenset(("\\cal", "\\scr", "\\frak", "\\goth", "\\bf", "\\rm", "\\sf", "\\tt", "\\it"))
WORDS = frozenset(("upright", "bold", "sans", "monospace", "italic"))  # adjacent letters form one name


def leaf(label: str) -> Node:
    """Returns a node without arguments."""
    return (label, ())


def _command_items() -> dict[str, Item]:
    items: dict[str, Item] = {}
    for role in Role:
        for name, label in pairs(_TABLES.get(role.name.lower(), ())):
            command = "\\" + name if name.isalpha() and name.isascii() else name
            items[command] = (role.value, leaf(label if label[1:2] == "!" else "V!" + label))
    for letter in string.ascii_letters:
        items[letter] = (Role.ATOM.value, leaf("V!" + styled(letter, "italic")))
    return items


_TABLES = sections(Path(__file__).with_name("symbols.txt"))
ITEMS: Mapping[str, Item] = _command_items()
ACCENTS: Mapping[str, str] = {"\\" + name: "F!" + sign for name, sign in pairs(_TABLES["accents"])}
STYLES: Mapping[str, str] = {"\\" + name: style for name, style in pairs(_TABLES["styles"])}
# Names of negated relations and quantifiers, where these are not `not-` and the name of the relation.
NEGATED: Mapping[str, str] = dict(pairs(_TABLES["negated"]))
REVERSED: Mapping[str, str] = dict(pairs(_TABLES["reversed"]))  # relations whose sides Content MathML swaps
IGNORED = frozenset(_TABLES["ignored"])  # affect only the layout, or set the size of the following bracket
# Infix fractions, written between numerator and denominator.
OVERS = {"\\over": "O!divide", "\\choose": "O!binomial", "\\atop": "F!FRACOP", "\\brace": "F!FRACOP"}


ABSENT = leaf("W!")
_SCRIPTS = ("O!SUB", "O!SUP")


def error(parts: Sequence[Node]) -> Node:
    """Returns an error node for a part that could not be parsed, with its parsed parts."""
    return ("E!", parts)


def apply(operator: Node, arguments: list[Node]) -> Node:
    """Applies an operator to arguments; one with scripts becomes the first argument of a node named after its base."""
    label, scripts = operator
    if scripts:
        base = scripts[0][0] if label in _SCRIPTS else ""
        return ("+!" + base, [operator, *arguments])
    if label == "O!int" and len(arguments) == 1:
        arguments += [ABSENT, ABSENT]
    elif label == "O!root":
        arguments.append(leaf("N!2"))
    return ("F!" + label[2:] if label[0] == "V" else label, arguments)


def unscripted(node: Node) -> tuple[Node, list[tuple[str, Node]]]:
    """Returns the base of a node and its scripts as (operator, script), innermost first."""
    scripts = []
    while node[0] in _SCRIPTS and len(node[1]) > 1:
        scripts.append((node[0], node[1][1]))
        node = node[1][0]
    return node, scripts[::-1]


def scripted(node: Node, scripts: Sequence[tuple[str, Node]]) -> Node:
    """Adds scripts to a node, innermost first."""
    for operator, script in scripts:
        node = (operator, [node, script])
    return node


def relations(parts: list[Node]) -> Node:
    """Joins expressions by the relations between them: a single relation, or a conjunction of several."""
    if len(parts) == 1:
        return parts[0]
    pairs = []
    for place in range(1, len(parts) - 1, 2):
        relation = parts[place]
        sides = [parts[0], parts[2]] if place == 1 else [parts[place + 1]]
        if relation[0] in REVERSED and len(parts) == 3:
            relation = leaf(REVERSED[relation[0]])
            sides.reverse()
        pairs.append(apply(relation, sides))
    return pairs[0] if len(pairs) == 1 else ("U!and", pairs)


def listed(parts: list[Node]) -> Node:
    """Joins expressions that are separated by punctuation."""
    return parts[0] if len(parts) == 1 else (f"M!L-{len(parts)}", parts)


def sequence(parts: list[Node]) -> Node:
    """Joins formulas that are separated by punctuation."""
    return parts[0] if len(parts) == 1 else ("O!form-seq", parts)
