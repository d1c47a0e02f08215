"""A common type for symbol layout trees (SLT) and operator trees (OPT), and its string format from Tangent.

    [U!eq,0[V!x],1[O!SUP,0[V!y],1[N!2]]]        OPT: label, then each argument with its position before it
    [V!x[=[V!y,a[N!2]]]]                        SLT: the next symbol to the right (edge `n`) follows without a comma

Labels contain characters unescaped; in strings, comma, brackets and question mark are `&comma;`, `&lsqb;`, `&rsqb;` and
`&quest;`. Edges of an SLT: `n` next, `a` above, `b` below, `c` and `d` the same before a symbol, `o` over, `u` under,
`w` within, `e` element of a matrix. Edges of an OPT: the position of the argument, see `argument_edge`. Arguments of
unordered operators (`U!`) have positions too, so that a string survives parsing unchanged; comparisons must ignore
these.

Symbol tuples of trees: pairs of an ancestor and a descendant with the path between them.

A tuple is (label of the ancestor, label of the descendant, edges between them), as in Tangent (Davila and Zanibbi
2017). All edges below unordered operators (`U!`) are `0`, so that `a+b` and `b+a` have the same tuples.

Results of parsing formulas, with counts of failures, so that no failed formula is dropped silently.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.errors import HarnessError

_NODE = re.compile(r"(?:,([^\[\],]+))?\[([^\[\],]*)|(\])")
_ENTITIES = {",": "&comma;", "[": "&lsqb;", "]": "&rsqb;", "?": "&quest;"}
_CHARACTERS = {entity: character for character, entity in _ENTITIES.items()}
# An entity that is literal text in a label is escaped by one more `amp;`, so that it is not parsed as the character.
_ESCAPED = re.compile(r"[,\[\]?]|&(?=(?:amp;)*(?:comma|lsqb|rsqb|quest);)")
_UNESCAPED = re.compile(r"&(?:(?:comma|lsqb|rsqb|quest);|amp;(?=(?:amp;)*(?:comma|lsqb|rsqb|quest);))")
_PLACES = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Tree:
    """The tree of one formula. Nodes are in preorder; each tuple has one entry for each node.

    Attributes
    ----------
    labels : kind and name in Tangent's convention, such as `V!x`, `N!2`, `O!divide`, `U!plus`, `M!()2x1`, `E!`; in an
        SLT an operator has no kind (`=`).
    parents : number of the parent, -1 for the root; `parents[i] < i`.
    edges : label of the edge from the parent, "" for the root.
    """

    labels: tuple[str, ...]
    parents: tuple[int, ...]
    edges: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)


def argument_edge(number: int) -> str:
    """Returns the OPT edge of argument `number` (from 0): one digit or letter, or the number itself from 62 on."""
    return _PLACES[number] if number < len(_PLACES) else str(number)


def tree_of(nodes: Iterable[tuple[str, int, str]]) -> Tree:
    """Builds a tree from the label, the parent and the edge of each node, in preorder."""
    return Tree(*zip(*nodes, strict=True))


def parse_tangent(text: str) -> Tree:
    """Parses a Tangent string.

    Raises
    ------
    HarnessError
        Brackets do not match, an argument has no position, or text follows the tree.
    """
    labels: list[str] = []
    parents: list[int] = []
    edges: list[str] = []
    above = -1
    at = 0
    for match in _NODE.finditer(text):
        edge, label, close = match.groups()
        if match.start() != at or (above < 0 and (at > 0 or edge is not None or close)):
            break
        at = match.end()
        if close:
            above = parents[above]
            continue
        edges.append(edge if edge is not None else ("n" if labels else ""))
        parents.append(above)
        above = len(labels)
        labels.append(_UNESCAPED.sub(lambda found: _CHARACTERS.get(found[0], "&"), label) if "&" in label else label)
    if above >= 0 or at != len(text) or not labels:
        wanted = "expected [label,edge[child],...]"
        raise HarnessError(f"not a formula tree at character {at + 1} of {len(text)}: {text[at : at + 20]!r}; {wanted}")
    return Tree(tuple(labels), tuple(parents), tuple(edges))


def tangent_string(tree: Tree) -> str:
    """Returns the Tangent string of a tree; `parse_tangent(tangent_string(tree)) == tree`."""
    out: list[str] = []
    path: list[int] = []
    for number, (label, parent, edge) in enumerate(zip(tree.labels, tree.parents, tree.edges, strict=True)):
        while path and path[-1] != parent:
            path.pop()
            out.append("]")
        # The next symbol to the right comes first and without a comma.
        if number and (edge != "n" or parent != number - 1):
            out.append(f",{edge}")
        out.append("[" + escape_label(label))
        path.append(number)
    return "".join(out) + "]" * len(path)


def escape_label(label: str) -> str:
    """Returns a label as it stands in a Tangent string."""
    return _ESCAPED.sub(lambda found: _ENTITIES.get(found[0], "&amp;"), label)


def children(tree: Tree) -> list[list[int]]:
    """Returns the numbers of each node's children, in order."""
    out: list[list[int]] = [[] for _ in tree.labels]
    for number, parent in enumerate(tree.parents[1:], 1):
        out[parent].append(number)
    return out


def subtree_sizes(tree: Tree) -> list[int]:
    """Returns the sizes of subtrees; node i's subtree is the nodes i to i + sizes[i] - 1."""
    out = [1] * len(tree.labels)
    for number in range(len(out) - 1, 0, -1):
        out[tree.parents[number]] += out[number]
    return out


def depth(tree: Tree) -> int:
    """Returns the number of nodes on the longest path from the root to a leaf."""
    levels: list[int] = []
    for parent in tree.parents:
        levels.append(levels[parent] + 1 if parent >= 0 else 1)
    return max(levels)


Tuple = tuple[str, str, str]
END = "0!"  # optional end mark below each leaf, so that formulas of one symbol have a tuple


def tuples(tree: Tree, window: int | None = None, ends: bool = False) -> list[Tuple]:
    """Returns the tuples of pairs at most `window` edges apart (None: any distance), in the order of the descendant.

    With `ends` each leaf also has a tuple with the end mark `0!` and the edge "". Time and number of tuples grow with
    nodes times window, or nodes times depth.
    """
    labels, parents = tree.labels, tree.parents
    edges = [
        "0" if parent >= 0 and labels[parent].startswith("U!") else edge
        for parent, edge in zip(parents, tree.edges, strict=True)
    ]
    out: list[Tuple] = []
    for number, label in enumerate(labels):
        path = edges[number]
        above = parents[number]
        left = len(labels) if window is None else window
        while above >= 0 and left > 0:
            out.append((labels[above], label, path))
            path = edges[above] + path
            above = parents[above]
            left -= 1
        if ends and (number + 1 == len(labels) or parents[number + 1] != number):
            out.append((label, END, ""))
    return out


def tuple_f1(tree: Tree, truth: Tree, window: int | None = None) -> float:
    """Returns the F1 score of a tree's tuples against those of the true tree."""
    actual, wanted = (Counter(tuples(each, window, ends=True)) for each in (tree, truth))
    return 2 * (actual & wanted).total() / (actual.total() + wanted.total())


ERROR = "E!"


@dataclass(frozen=True, slots=True)
class ParsedFormula:
    """Result of parsing a formula.

    Attributes
    ----------
    tree : the tree, even after a failure; a part that could not be parsed is a node `E!`.
    reason : why the formula could not be parsed wholly or in part, in the same words for all such formulas; "" if it
        was parsed completely.
    """

    tree: Tree
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ParseCounts:
    """Numbers of formulas parsed completely, and of failures by reason."""

    read: int
    failed: Mapping[str, int]


def failed(reason: str) -> ParsedFormula:
    """Returns the result for a formula that could not be parsed at all."""
    return ParsedFormula(Tree((ERROR,), (-1,), ("",)), reason)


def count(readings: Iterable[ParsedFormula]) -> ParseCounts:
    """Counts the formulas that were parsed completely, and failures by reason (most frequent first)."""
    reasons = Counter(reading.reason for reading in readings)
    read = reasons.pop("", 0)
    return ParseCounts(read, dict(reasons.most_common()))
