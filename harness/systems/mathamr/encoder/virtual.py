"""Virtual nodes and their edges, added to a content graph when it is encoded (MathAMR+, 3.2, 4.3.2, 4.3.3).

Edges run from a virtual node to the nodes that it represents. Inverse edges are added when a batch is made, so a graph
with c content edges and v virtual edges has 2(c + v) edges in the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from harness.errors import HarnessError
from harness.systems.mathamr.encoder.vocabulary import MOST, VIRTUAL, NodeVocabulary
from harness.systems.mathamr.graphs.graph import Graph

STRUCTURES = ("hierarchy", "none", "global")
TYPES = ("formula", "sentence", "document")  # types of virtual nodes, in the order of their relations in VIRTUAL
AUXILIARY = ("none", "sequential", "circular", "full")
UNKNOWN_RELATION = (1 << 16) - 1
MOST_NODES = MOST  # limit per post, virtual nodes included: node numbers are 16-bit
MOST_EDGES = 1 << 24  # limit per post; `full` auxiliary edges grow with the square of the number of virtual nodes

FORMULA, SENTENCE, DOCUMENT = range(len(TYPES))

Small = npt.NDArray[np.uint16]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class EncodedGraph:
    """An encoded post: the graph as numbers, ready for the model.

    Attributes
    ----------
    nodes : uint16, shape (n,). Types of the content nodes in the vocabulary, then those of the virtual nodes:
        the vocabulary's size + index into TYPES.
    content : number of content nodes.
    source, relation, target : uint16, shape (e,). Forward edges, content edges first; UNKNOWN_RELATION stands for a
        relation that is not in the vocabulary.
    content_edges : number of content edges.
    vectors : uint16, shape (k,). Nodes whose encodings are the post's vectors: formulas in order, sentences in order,
        then the document (or global) node if there is one. Nodes are distinct, except that formulas may share one.
    types : uint8, shape (k,). Index into TYPES of each vector.
    formulas : formula ids; formula i has the i-th vector.
    """

    nodes: Small
    content: int
    source: Small
    relation: Small
    target: Small
    content_edges: int
    vectors: Small
    types: Bytes
    formulas: tuple[str, ...]


@dataclass(slots=True)
class _Virtual:
    """Virtual nodes and edges of a content graph, numbered after the content nodes."""

    first: int  # number of the first virtual node
    relations: int  # number of the first virtual relation; the others follow in the order of VIRTUAL
    types: list[int] = field(default_factory=list)  # types of the virtual nodes
    source: list[int] = field(default_factory=list)
    relation: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    vectors: list[int] = field(default_factory=list)
    vector_types: list[int] = field(default_factory=list)

    def add(self, kind: int, members: Sequence[int]) -> None:
        """Adds a virtual node that represents some nodes and gives one vector."""
        node = self.first + len(self.types)
        self.types.append(kind)
        self.source += [node] * len(members)
        self.relation += [self.relations + kind] * len(members)
        self.target += members
        self.vectors.append(node)
        self.vector_types.append(kind)


def encode(
    graph: Graph, vocabulary: NodeVocabulary, structure: str = "hierarchy", auxiliary: str = "none"
) -> EncodedGraph:
    """Adds virtual nodes to a content graph and encodes it as numbers.

    Parameters
    ----------
    structure : `hierarchy`: one virtual node per formula over the nodes of its trees (or over its placeholder, without
        trees), one per sentence over its text nodes and placeholders, and one for the document over the other virtual
        nodes and the graph's root. `none`: no virtual nodes; placeholders and roots of sentences give the vectors.
        `global`: as `none`, plus one virtual node over all nodes.
    auxiliary : edges between the virtual nodes of formulas and sentences of a hierarchy, which are ordered as in the
        document: each sentence, then its formulas. `sequential`: each to the next. `circular`: also the last to the
        first, with three virtual nodes or more (two are neighbours already, and a second edge would only double the
        weight of the pair). `full`: each to all later ones.

    Raises
    ------
    HarnessError
        The graph has more than MOST_NODES nodes or MOST_EDGES edges, or nothing that gives a vector.
    """
    content = len(graph.labels)
    added = len(graph.formulas) + len(graph.sentences) + 1 if structure == "hierarchy" else int(structure == "global")
    if content + added > MOST_NODES:
        raise HarnessError(f"{content:,} nodes and {added:,} virtual ones: more than {MOST_NODES:,} (16-bit numbers)")
    virtual = _Virtual(content, vocabulary.count - len(VIRTUAL))
    if structure == "hierarchy":
        _add_hierarchy(graph, virtual, auxiliary)
    else:
        _representatives(graph, virtual)
        if structure == "global":
            virtual.add(DOCUMENT, range(content))
    if not virtual.vectors:
        raise HarnessError(f"no formula and no sentence, which are the vectors in structure {structure!r}")
    return _as_numbers(graph, vocabulary, virtual)


def _add_hierarchy(graph: Graph, virtual: _Virtual, auxiliary: str) -> None:
    """Adds virtual nodes for formulas, sentences and the document, and the auxiliary edges between them."""
    for formula in graph.formulas:
        virtual.add(FORMULA, [*range(*formula.opt), *range(*formula.slt)] or [formula.node])
    for sentence in graph.sentences:
        virtual.add(SENTENCE, sentence)
    parts = range(virtual.first, virtual.first + len(virtual.types))
    virtual.add(DOCUMENT, [*parts, graph.root])
    if auxiliary != "none" and len(parts) > 1:
        ordered = np.array([virtual.first + part for part in document_order(graph)], np.int64)
        source, target = _joined(ordered, auxiliary)
        virtual.source += source.tolist()
        virtual.relation += [virtual.relations + len(TYPES)] * len(source)
        virtual.target += target.tolist()


def _representatives(graph: Graph, virtual: _Virtual) -> None:
    """Selects the vectors of a graph without a hierarchy: placeholders and roots of sentences.

    A sentence whose root already has a vector (its root is a placeholder or the root of an earlier sentence) gives no
    second one: a query would count the node twice.
    """
    virtual.vectors = [formula.node for formula in graph.formulas]
    roots = dict.fromkeys(sentence[0] for sentence in graph.sentences if sentence)
    taken = set(virtual.vectors)
    virtual.vectors += [root for root in roots if root not in taken]
    sentences = len(virtual.vectors) - len(graph.formulas)
    virtual.vector_types = [FORMULA] * len(graph.formulas) + [SENTENCE] * sentences


def formula_keys(item: EncodedGraph, vocabulary_relations: int) -> list[bytes]:
    """Returns a key of each formula in a hierarchy: the node types of its trees; empty for a formula without trees.

    Parameters
    ----------
    vocabulary_relations : number of forward relations in the vocabulary, including the virtual ones.
    """
    virtual = slice(item.content_edges, None)
    own = item.relation[virtual] == vocabulary_relations - len(VIRTUAL) + FORMULA
    source, target = item.source[virtual][own], item.target[virtual][own]
    out = []
    for node in item.vectors[: len(item.formulas)]:
        members = target[source == node]
        out.append(item.nodes[members].tobytes() if members.size > 1 else b"")
    return out


def document_order(graph: Graph) -> list[int]:
    """Returns formulas and sentences in the order of the document: each sentence, then its formulas.

    A formula whose placeholder is in no sentence, because the parser dropped it, follows the preceding formula:
    formulas are numbered in document order.

    Returns
    -------
    list[int]
        Numbers of virtual nodes: formulas from 0, sentences from len(graph.formulas).
    """
    formulas = len(graph.formulas)
    order = [(number, -1, formulas + number) for number in range(len(graph.sentences))]
    of_node: dict[int, int] = {}
    for number, sentence in enumerate(graph.sentences):
        for node in sentence:
            of_node.setdefault(node, number)
    before = -1
    for number, formula in enumerate(graph.formulas):
        before = of_node.get(formula.node, before)
        order.append((before, number, number))
    return [part for _, _, part in sorted(order)]


_Ends = npt.NDArray[np.int64]


def _joined(ordered: _Ends, auxiliary: str) -> tuple[_Ends, _Ends]:
    """Returns the ends of the auxiliary edges between virtual nodes."""
    if auxiliary == "sequential" or (auxiliary == "circular" and len(ordered) < 3):
        return ordered[:-1], ordered[1:]
    if auxiliary == "circular":
        return ordered, np.roll(ordered, -1)
    pairs = len(ordered) * (len(ordered) - 1) // 2
    if pairs > MOST_EDGES:
        raise HarnessError(
            f"{pairs:,} auxiliary edges between {len(ordered):,} virtual nodes: more than {MOST_EDGES:,}"
        )
    first, second = np.triu_indices(len(ordered), 1)
    return ordered[first], ordered[second]


def _as_numbers(graph: Graph, vocabulary: NodeVocabulary, virtual: _Virtual) -> EncodedGraph:
    """Returns a graph with its virtual nodes as numbers of the vocabulary."""
    content, edges = len(graph.labels), len(graph.edges)
    if edges + len(virtual.source) > MOST_EDGES:
        raise HarnessError(f"{edges + len(virtual.source):,} edges: more than {MOST_EDGES:,}")
    source, names, target = zip(*graph.edges, strict=True) if edges else ((), (), ())
    numbers = vocabulary.relation_numbers
    nodes = vocabulary.node_numbers(graph.labels, graph.kinds) + [vocabulary.size + kind for kind in virtual.types]
    relation = [numbers.get(name, UNKNOWN_RELATION) for name in names]
    return EncodedGraph(
        np.array(nodes, np.uint16),
        content,
        np.array([*source, *virtual.source], np.uint16),
        np.array(relation + virtual.relation, np.uint16),
        np.array([*target, *virtual.target], np.uint16),
        edges,
        np.array(virtual.vectors, np.uint16),
        np.array(virtual.vector_types, np.uint8),
        tuple(formula.id for formula in graph.formulas),
    )
