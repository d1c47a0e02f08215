"""Construction of operator tree nodes, as in LaTeXML and Tangent-S."""

from __future__ import annotations

from collections.abc import Sequence

from harness.formulas.opt.tables import REVERSED, Node, leaf

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
