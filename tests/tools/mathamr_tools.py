"""What the tests of MathAMR+'s vocabulary, virtual nodes and packs share: graphs by hand and drawn ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from harness.errors import HarnessError
from harness.systems.mathamr.encoder.virtual import EncodedGraph
from harness.systems.mathamr.graphs.graph import FORMULA, OPT, SLT, TEXT, FormulaNodes, Graph, check_graph

# "Solve FORMULA_0. Add FORMULA_1 twice." with an operator tree and a layout tree for the first formula only, and
# FORMULA_2, which the parser dropped.
POST = Graph(
    labels=(
        *("multi-sentence", "solve-01", "FORMULA_0", "add-02", "FORMULA_1", "twice", "FORMULA_2"),
        *("U!plus", "V!x", "N!2", "V!x", "+", "N!2"),
    ),
    kinds=bytes([TEXT, TEXT, FORMULA, TEXT, FORMULA, TEXT, FORMULA, OPT, OPT, OPT, SLT, SLT, SLT]),
    edges=(
        (0, ":snt1", 1),
        (1, ":ARG1", 2),
        (0, ":snt2", 3),
        (3, ":ARG1", 4),
        (3, ":frequency", 5),
        (0, ":math", 6),
        (2, ":opt", 7),
        (7, ":opt_0", 8),
        (7, ":opt_0", 9),
        (2, ":slt", 10),
        (10, ":slt_n", 11),
        (11, ":slt_n", 12),
    ),
    root=0,
    sentences=((1, 2), (3, 4, 5)),
    formulas=(
        FormulaNodes("f10", 2, (7, 10), (10, 13)),
        FormulaNodes("", 4, (0, 0), (0, 0)),
        FormulaNodes("f12", 6, (0, 0), (0, 0)),
    ),
)


def message(error: pytest.ExceptionInfo[HarnessError]) -> str:
    """Its one line."""
    assert "\n" not in str(error.value)
    return str(error.value)


def text_graph(labels: tuple[str, ...], kind: int = TEXT) -> Graph:
    """Nodes of one kind in a row; text nodes are one sentence."""
    edges = tuple((node, ":r", node + 1) for node in range(len(labels) - 1))
    sentences = (tuple(range(len(labels))),) if kind == TEXT else ()
    return Graph(labels, bytes([kind] * len(labels)), edges, 0, sentences, ())


WORDS = st.sampled_from(["prove-01", "equations", "2", "3/4", "0.5", '"Alice"', "http://a.b", "½", "ring", "MASK"])
SIGNS = st.sampled_from(["V!x", "U!plus", "N!2", "N!3.14", "T!if"])
RELATIONS = st.sampled_from([":ARG0", ":ARG1", ":mod", ":time", ":op1"])
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Sentences of words and placeholders, trees (none of them, one or both) behind, and a root over all."""
    labels, kinds, edges = ["multi-sentence"], [TEXT], []
    sentences: list[tuple[int, ...]] = []
    places: list[int] = []

    def node(label: str, kind: int, above: int, relation: str) -> int:
        edges.append((above, relation, len(labels)))
        labels.append(label)
        kinds.append(kind)
        return len(labels) - 1

    for number in range(draw(st.integers(0, 4))):
        words = draw(st.lists(st.one_of(WORDS, st.none()), min_size=1, max_size=5))
        own: list[int] = []
        for word in words:
            above, relation = (own[0], draw(RELATIONS)) if own else (0, f":snt{number + 1}")
            if word is None:
                places.append(node(f"FORMULA_{len(places)}", FORMULA, above, relation))
            own.append(places[-1] if word is None else node(word, TEXT, above, relation))
        sentences.append(tuple(own))
    for _ in range(draw(st.integers(0, 2))):  # dropped by the parser
        places.append(node(f"FORMULA_{len(places)}", FORMULA, 0, ":math"))
    formulas = []
    for place in places:
        spans = []
        for kind, relation in ((OPT, ":opt"), (SLT, ":slt")):
            signs = draw(st.lists(SIGNS, max_size=4))
            first = len(labels)
            for sign in signs:
                node(sign, kind, len(labels) - 1 if len(labels) > first else place, relation)
            spans.append((first, len(labels)) if signs else (0, 0))
        formulas.append(FormulaNodes(draw(NAMES), place, spans[0], spans[1]))
    return check_graph(Graph(tuple(labels), bytes(kinds), tuple(edges), 0, tuple(sentences), tuple(formulas)))


def same(one: EncodedGraph, other: EncodedGraph) -> bool:
    """Whether two posts are equal in every value."""
    arrays = ("nodes", "source", "relation", "target", "vectors", "types")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays) and (
        (one.content, one.content_edges, one.formulas) == (other.content, other.content_edges, other.formulas)
    )
