"""The content graph of a post: concepts or words, formula placeholders, and formula trees.

Virtual nodes and inverse edges are added later (`virtual`, `batch`). Relation names start with a colon:

    :ARG0, :nsubj ...        between text nodes and placeholders, from the sentence parser
    :snt1, :snt2 ...         from the root `multi-sentence` to the roots of sentences
    :math                    from the root to a placeholder that the parser dropped
    :opt, :slt               from a placeholder to the roots of its trees
    :opt_0, :opt_1 ...       within an operator tree: position of the argument, always 0 for an unordered operator
    :slt_n, :slt_a ...       within a layout tree: Tangent's edge label

The inverse of a relation is written with a trailing `*` and is never stored. Source: MathAMR+ thesis, section 3.1.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from harness.errors import HarnessError

KINDS = ("text", "formula", "opt", "slt")
TEXT, FORMULA, OPT, SLT = range(4)
MODES = ("both", "opt", "slt", "none")
ROOT = "multi-sentence"  # label of a root that stands for no word
# Relations that end in -of but are not inverse: AMR's own, and prepositions that end in -of themselves.
_PREPOSITIONS = "ahead because in-case in-front in-spite in-terms instead on-behalf on-top out"
NOT_INVERSE = frozenset({":consist-of", *(f":prep-{name}-of" for name in _PREPOSITIONS.split())})

Edge = tuple[int, str, int]


@dataclass(frozen=True, slots=True)
class Sentence:
    """Parse of one sentence, or of several sentences in one graph, without formula trees.

    Attributes
    ----------
    labels : one per node; a placeholder is `FORMULA_n`.
    edges : (source, relation, target), no inverse relations.
    root : index of the root node.
    parts : the nodes of each sentence, its root first; empty means that all nodes form one sentence. A node shared by
        two sentences is in both; a root above sentences is in none.
    """

    labels: tuple[str, ...]
    edges: tuple[Edge, ...]
    root: int
    parts: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """A post or AMR that could not be converted to a graph.

    Attributes
    ----------
    where : the file and the graph, or the post.
    kind : category of the failure, in a few words; failures are counted by kind.
    reason : full description.
    """

    where: str
    kind: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


@dataclass(frozen=True, slots=True)
class FormulaNodes:
    """Nodes of a formula in a graph.

    Attributes
    ----------
    id : the collection's formula id, "" if unknown.
    node : the placeholder's node.
    opt, slt : nodes of its operator or layout tree, as first (the root; nodes are in preorder) and one past the last;
        (0, 0) without a tree.
    """

    id: str
    node: int
    opt: tuple[int, int]
    slt: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Graph:
    """The content graph of one post: no virtual nodes, no inverse edges.

    Attributes
    ----------
    labels : one per node: a concept or word, `FORMULA_n`, or Tangent's label such as `V!x`.
    kinds : index into `KINDS`, one byte per node.
    edges : (source, relation, target).
    root : index of the root node.
    sentences : the text and placeholder nodes of each sentence, its root first.
    formulas : in the order of `FORMULA_n`.
    """

    labels: tuple[str, ...]
    kinds: bytes
    edges: tuple[Edge, ...]
    root: int
    sentences: tuple[tuple[int, ...], ...]
    formulas: tuple[FormulaNodes, ...]

    def __len__(self) -> int:
        return len(self.labels)


def is_inverse(relation: str) -> bool:
    """Returns whether a Penman relation is the inverse of another one: `:ARG0-of` is, `:consist-of` is not."""
    return relation.endswith("-of") and relation.lower() not in NOT_INVERSE


def restrict_graph(graph: Graph, mode: str) -> Graph:
    """Restricts a graph to the formula trees of a mode; drops edges of removed nodes and renumbers the others in order.

    `both` keeps all nodes, `opt` and `slt` one kind of tree, `none` neither trees nor placeholders (`formulas` is
    empty). A sentence without its root starts with its next node; a sentence without nodes is dropped. If the root is
    removed, the first remaining node replaces it. A graph without nodes becomes a single node `multi-sentence`.
    """
    if mode == "both":
        return graph
    dropped = {"opt": {SLT}, "slt": {OPT}, "none": {FORMULA, OPT, SLT}}[mode]
    kept = [node for node, kind in enumerate(graph.kinds) if kind not in dropped]
    if not kept:
        return Graph((ROOT,), bytes([TEXT]), (), 0, (), ())
    number = {node: new for new, node in enumerate(kept)}
    edges = tuple((number[s], r, number[t]) for s, r, t in graph.edges if s in number and t in number)
    sentences = (tuple(number[node] for node in sentence if node in number) for sentence in graph.sentences)
    formulas: Iterable[FormulaNodes] = ()
    if mode != "none":
        formulas = (
            FormulaNodes(f.id, number[f.node], _moved(f.opt, number), _moved(f.slt, number)) for f in graph.formulas
        )
    return Graph(
        tuple(graph.labels[node] for node in kept),
        bytes(graph.kinds[node] for node in kept),
        edges,
        number.get(graph.root, 0),
        tuple(sentence for sentence in sentences if sentence),
        tuple(formulas),
    )


def _moved(span: tuple[int, int], number: Mapping[int, int]) -> tuple[int, int]:
    """Returns a span of nodes in new numbers; (0, 0) if it is empty or was removed."""
    first, end = span
    if first == end or first not in number:
        return (0, 0)
    return (number[first], number[first] + end - first)


def connected(graph: Graph) -> bool:
    """Returns whether every node is reachable from the root, following edges in either direction.

    >>> connected(Graph(("a", "b", "c"), bytes(3), ((0, ":r", 1),), 0, (), ()))
    False
    """
    near: list[list[int]] = [[] for _ in graph.labels]
    for source, _, target in graph.edges:
        near[source].append(target)
        near[target].append(source)
    seen, waiting = {graph.root}, [graph.root]
    while waiting:
        neighbours = [node for node in near[waiting.pop()] if node not in seen]
        seen.update(neighbours)
        waiting += neighbours
    return len(seen) == len(graph)


def check_graph(graph: Graph, where: str = "graph") -> Graph:
    """Validates a graph and returns it.

    Raises
    ------
    HarnessError
        The graph has no nodes, refers to a missing node, has a wrong kind, or has an inverse relation. The message
        starts with `where`.
    """
    reason = _graph_fault(graph)
    if reason:
        raise HarnessError(f"{where}: {reason}")
    return graph


def _graph_fault(graph: Graph) -> str:
    count = len(graph.labels)
    if not count:
        return "no nodes"
    if len(graph.kinds) != count or max(graph.kinds) >= len(KINDS):
        return f"{len(graph.kinds)} kinds for {count} nodes, expected one of 0 to {len(KINDS) - 1} for each"
    if not 0 <= graph.root < count:
        return f"root {graph.root} is not one of the {count} nodes"
    for source, relation, target in graph.edges:
        if not (0 <= source < count and 0 <= target < count):
            return f"edge {source} {relation} {target} leaves the {count} nodes"
        if not relation.startswith(":") or relation.endswith("*") or is_inverse(relation):
            return f"edge {source} {relation} {target}: expected a forward relation such as ':ARG0'"
    for sentence in graph.sentences:
        if not sentence:
            return "a sentence has no nodes"
        for node in sentence:
            if not (0 <= node < count and graph.kinds[node] in (TEXT, FORMULA)):
                return f"node {node} of a sentence is neither a text node nor a placeholder"
    for formula in graph.formulas:
        if not (0 <= formula.node < count and graph.kinds[formula.node] == FORMULA):
            return f"node {formula.node} of a formula is not a placeholder"
        for kind, (first, end) in ((OPT, formula.opt), (SLT, formula.slt)):
            if not 0 <= first <= end <= count or any(node_kind != kind for node_kind in graph.kinds[first:end]):
                return f"nodes {first} to {end} are not an {KINDS[kind].upper()}"
    return ""


def as_mapping(graph: Graph) -> dict[str, Any]:
    """Returns the graph as JSON-compatible values; the inverse of `from_mapping`."""
    return {
        "labels": graph.labels,
        "kinds": "".join(map(str, graph.kinds)),
        "edges": graph.edges,
        "root": graph.root,
        "sentences": graph.sentences,
        "formulas": [(f.id, f.node, *f.opt, *f.slt) for f in graph.formulas],
    }


def as_json(graph: Graph) -> str:
    """Returns the graph as one line of JSON, in the format of `as_mapping`."""
    return json.dumps(as_mapping(graph), ensure_ascii=False, separators=(",", ":"))


def from_mapping(row: object, where: str = "graph") -> Graph:
    """Returns a graph from the values of `as_mapping`.

    Raises
    ------
    HarnessError
        The values are not a valid graph; the message starts with `where`.
    """
    try:
        given = cast("Mapping[str, Any]", row)
        formulas = (
            FormulaNodes(str(name), int(node), (int(a), int(b)), (int(c), int(d)))
            for name, node, a, b, c, d in given["formulas"]
        )
        graph = Graph(
            tuple(map(str, given["labels"])),
            bytes(map(int, given["kinds"])),
            tuple((int(source), str(relation), int(target)) for source, relation, target in given["edges"]),
            int(given["root"]),
            tuple(tuple(map(int, sentence)) for sentence in given["sentences"]),
            tuple(formulas),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise HarnessError(f"{where}: not a graph: {type(error).__name__}: {error}") from None
    return check_graph(graph, where)
