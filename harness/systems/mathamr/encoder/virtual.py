"""Virtual nodes and the edges at them, added to a content graph while it is encoded (MathAMR+, 3.2, 4.3.2, 4.3.3).

Edges run from the virtual node to what it stands for; the inverse ones are added when a batch is made, so that a graph
with c content edges and v virtual ones has 2(c + v) in a model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from harness.errors import HarnessError, suggestion
from harness.systems.mathamr.encoder.vocabulary import MOST, VIRTUAL, Vocabulary
from harness.systems.mathamr.graphs.graph import Graph

STRUCTURES = ("hierarchy", "none", "global")
TYPES = ("formula", "sentence", "document")  # of virtual nodes, in the order of their relations in VIRTUAL
AUXILIARY = ("none", "sequential", "circular", "full")
UNKNOWN_RELATION = (1 << 16) - 1
MOST_NODES = MOST  # of one post, virtual ones among them: their numbers are 16-bit
MOST_EDGES = 1 << 24  # of one post; auxiliary edges between all pairs grow with the square of its virtual nodes

FORMULA, SENTENCE, DOCUMENT = range(len(TYPES))

Small = npt.NDArray[np.uint16]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """One post as a model reads it.

    Attributes
    ----------
    nodes : uint16, shape (n,). Types of the content nodes in the vocabulary, then those of the virtual nodes:
        the vocabulary's size + index into TYPES.
    content : number of content nodes.
    source, relation, target : uint16, shape (e,). Forward edges, those of the content first; UNKNOWN_RELATION stands
        for a relation that the vocabulary does not have.
    content_edges : number of edges of the content.
    vectors : uint16, shape (k,). Nodes whose encodings are the post's vectors, each once, but for formulas that share a
        node: formulas in order, sentences in order, the document's (or global) node last if there is one.
    types : uint8, shape (k,). Index into TYPES of each vector.
    formulas : formula ids; the i-th formula's vector is the i-th vector.
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
    """What is added to a content graph. Virtual nodes are numbered on from the content nodes."""

    first: int  # number of the first virtual node
    relations: int  # number of the first virtual relation; the others follow in the order of VIRTUAL
    types: list[int] = field(default_factory=list)  # of the virtual nodes
    source: list[int] = field(default_factory=list)
    relation: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    vectors: list[int] = field(default_factory=list)
    vector_types: list[int] = field(default_factory=list)

    def add(self, kind: int, members: Sequence[int]) -> None:
        """A virtual node over some nodes; it is one of the vectors."""
        node = self.first + len(self.types)
        self.types.append(kind)
        self.source += [node] * len(members)
        self.relation += [self.relations + kind] * len(members)
        self.target += members
        self.vectors.append(node)
        self.vector_types.append(kind)


def encode(graph: Graph, vocabulary: Vocabulary, structure: str = "hierarchy", auxiliary: str = "none") -> Encoded:
    """Returns a content graph with virtual nodes, as numbers.

    Parameters
    ----------
    structure : `hierarchy`: one virtual node a formula over the nodes of its trees (a formula without trees: over its
        placeholder), one a sentence over its text nodes and placeholders, one for the document over the other virtual
        nodes and the graph's root. `none`: no virtual nodes; vectors are those of placeholders and of roots of
        sentences. `global`: these, and one virtual node over all nodes.
    auxiliary : edges between the virtual nodes of formulas and sentences of a hierarchy. These are taken in the order
        of the document: each sentence, then its formulas. `sequential`: each to the next; `circular`: the last to the
        first besides, from three virtual nodes on (of two, they are neighbours already, and a second edge between them
        would only weigh the same pair twice); `full`: each to all later ones.

    Raises
    ------
    HarnessError
        The graph has no nodes, a node or edge that does not exist, more nodes or edges than 16-bit numbers and
        MOST_EDGES allow, or nothing that could be a vector; an option is unknown, or does not go with the other.
    """
    check_options(structure, auxiliary)
    content = len(graph.labels)
    if not content:
        raise HarnessError("an empty graph: no nodes")
    added = len(graph.formulas) + len(graph.sentences) + 1 if structure == "hierarchy" else int(structure == "global")
    if content + added > MOST_NODES:
        raise HarnessError(f"{content:,} nodes and {added:,} virtual ones: more than {MOST_NODES:,} (16-bit numbers)")
    virtual = _Virtual(content, vocabulary.count - len(VIRTUAL))
    if structure == "hierarchy":
        _hierarchy(graph, virtual, auxiliary)
    else:
        _representatives(graph, virtual)
        if structure == "global":
            virtual.add(DOCUMENT, range(content))
    if not virtual.vectors:
        raise HarnessError(f"no formula and no sentence, which are the vectors in structure {structure!r}")
    return _encoded(graph, vocabulary, virtual)


def check_options(structure: str, auxiliary: str) -> None:
    """Raises HarnessError if an option is unknown, or auxiliary edges are wanted where nothing can be joined."""
    for what, name, known in (("structure", structure, STRUCTURES), ("auxiliary edges", auxiliary, AUXILIARY)):
        if name not in known:
            raise HarnessError(f"virtual nodes: {what} {name!r} unknown; {suggestion(name, known)}")
    if auxiliary != "none" and structure != "hierarchy":
        raise HarnessError(
            f"virtual nodes: auxiliary edges {auxiliary!r} join those of formulas and sentences, "
            f"and structure {structure!r} has none; take 'hierarchy', or auxiliary edges 'none'"
        )


def _hierarchy(graph: Graph, virtual: _Virtual, auxiliary: str) -> None:
    for formula in graph.formulas:
        virtual.add(FORMULA, [*range(*formula.opt), *range(*formula.slt)] or [formula.node])
    for number, sentence in enumerate(graph.sentences, 1):
        if not sentence:
            raise HarnessError(f"sentence {number} has no nodes")
        virtual.add(SENTENCE, sentence)
    parts = range(virtual.first, virtual.first + len(virtual.types))
    virtual.add(DOCUMENT, [*parts, graph.root])
    if auxiliary != "none" and len(parts) > 1:
        ordered = np.array([virtual.first + part for part in document_order(graph)], np.int64)
        source, target = _JOINED[auxiliary](ordered)
        virtual.source += source.tolist()
        virtual.relation += [virtual.relations + len(TYPES)] * len(source)
        virtual.target += target.tolist()


def _representatives(graph: Graph, virtual: _Virtual) -> None:
    """Vectors of a graph without a hierarchy: placeholders and roots of sentences.

    A sentence that is nothing but its placeholder, or shares its root with an earlier one, gives no second vector of
    the same node: a query would count it twice.
    """
    virtual.vectors = [formula.node for formula in graph.formulas]
    roots = dict.fromkeys(sentence[0] for sentence in graph.sentences if sentence)
    taken = set(virtual.vectors)
    virtual.vectors += [root for root in roots if root not in taken]
    sentences = len(virtual.vectors) - len(graph.formulas)
    virtual.vector_types = [FORMULA] * len(graph.formulas) + [SENTENCE] * sentences


def formula_keys(item: Encoded, vocabulary_relations: int) -> list[bytes]:
    """Returns what each formula of a hierarchy looks like: the types of its trees' nodes; empty for one without trees.

    Parameters
    ----------
    vocabulary_relations : forward relations of the vocabulary, the virtual ones among them.
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
    """Formulas and sentences in the order of the document: each sentence, then its formulas.

    A formula whose placeholder is in no sentence (the parser dropped it) follows the formula before it, since formulas
    are numbered through the document.

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


def _sequential(ordered: _Ends) -> tuple[_Ends, _Ends]:
    return ordered[:-1], ordered[1:]


def _circular(ordered: _Ends) -> tuple[_Ends, _Ends]:
    if len(ordered) < 3:
        return _sequential(ordered)
    return ordered, np.roll(ordered, -1)


def _full(ordered: _Ends) -> tuple[_Ends, _Ends]:
    pairs = len(ordered) * (len(ordered) - 1) // 2
    if pairs > MOST_EDGES:
        raise HarnessError(
            f"{pairs:,} auxiliary edges between {len(ordered):,} virtual nodes: more than {MOST_EDGES:,}"
        )
    first, second = np.triu_indices(len(ordered), 1)
    return ordered[first], ordered[second]


_JOINED: dict[str, Callable[[_Ends], tuple[_Ends, _Ends]]] = {
    "sequential": _sequential,
    "circular": _circular,
    "full": _full,
}


def _encoded(graph: Graph, vocabulary: Vocabulary, virtual: _Virtual) -> Encoded:
    content, edges = len(graph.labels), len(graph.edges)
    if edges + len(virtual.source) > MOST_EDGES:
        raise HarnessError(f"{edges + len(virtual.source):,} edges: more than {MOST_EDGES:,}")
    source, names, target = zip(*graph.edges, strict=True) if edges else ((), (), ())
    numbers = vocabulary.relation_numbers
    nodes = vocabulary.node_numbers(graph.labels, graph.kinds) + [vocabulary.size + kind for kind in virtual.types]
    for found, end in (
        (source, content),
        (target, content),
        (virtual.target, len(nodes)),
        (virtual.vectors, len(nodes)),
    ):
        if found and not (min(found) >= 0 and max(found) < end):
            raise HarnessError(f"an edge, sentence or formula at a node that does not exist: there are {content:,}")
    relation = [numbers.get(name, UNKNOWN_RELATION) for name in names]
    return Encoded(
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
