"""Virtual nodes of MathAMR+: posts by hand, and what is refused."""

from __future__ import annotations

from itertools import combinations

import pytest
from mathamr_tools import POST, text_graph
from refusals import refuses

from harness.systems.mathamr.encoder import virtual
from harness.systems.mathamr.encoder.virtual import encode
from harness.systems.mathamr.encoder.vocabulary import UNK, NodeVocabulary
from harness.systems.mathamr.graphs.graph import FORMULA, OPT, TEXT, FormulaNodes, Graph

VOCABULARY = NodeVocabulary.learn([POST], size=500)


def virtual_edges(item: virtual.EncodedGraph) -> list[tuple[int, str, int]]:
    at = item.content_edges
    triples = zip(item.source[at:].tolist(), item.relation[at:].tolist(), item.target[at:].tolist(), strict=True)
    return [(source, VOCABULARY.relations[relation], target) for source, relation, target in triples]


def auxiliary_pairs(graph: Graph, auxiliary: str) -> list[tuple[int, int]]:
    edges = virtual_edges(encode(graph, VOCABULARY, auxiliary=auxiliary))
    return [(source, target) for source, relation, target in edges if relation == ":auxiliary_vn"]


def test_the_hierarchy_of_a_post_by_hand() -> None:
    item = encode(POST, VOCABULARY)
    assert (item.content, item.content_edges) == (13, 12)
    assert item.nodes[13:].tolist() == [500, 500, 500, 501, 501, 502]
    named = [VOCABULARY.nodes[number] for number in item.nodes[:13]]
    assert named[:7] == ["multi-sent", "solve-01", "FORMULA", "add-02", "FORMULA", "twice", "FORMULA"]
    assert named[7:] == ["U!plus", "V!x", "[UNKNUM_INT]", "V!x", "+", "[UNKNUM_INT]"]
    content = zip(item.source[:12].tolist(), item.relation[:12].tolist(), item.target[:12].tolist(), strict=True)
    assert [(s, VOCABULARY.relations[r], t) for s, r, t in content] == list(POST.edges)
    assert sorted(virtual_edges(item)) == sorted(
        [(13, ":virtual_formula", node) for node in range(7, 13)]  # both trees
        + [(14, ":virtual_formula", 4), (15, ":virtual_formula", 6)]  # no trees: the placeholder
        + [(16, ":virtual_sentence", 1), (16, ":virtual_sentence", 2)]
        + [(17, ":virtual_sentence", node) for node in (3, 4, 5)]
        + [(18, ":virtual_document", node) for node in (13, 14, 15, 16, 17, 0)]
    )
    assert item.vectors.tolist() == [13, 14, 15, 16, 17, 18]
    assert [virtual.TYPES[kind] for kind in item.types] == ["formula"] * 3 + ["sentence"] * 2 + ["document"]
    assert item.formulas == ("f10", "", "f12")
    arrays = (item.nodes, item.source, item.relation, item.target, item.vectors, item.types)
    assert [part.dtype.name for part in arrays] == ["uint16"] * 5 + ["uint8"]


def test_no_virtual_nodes_and_a_global_one() -> None:
    plain = encode(POST, VOCABULARY, "none")
    assert (len(plain.nodes), len(plain.source)) == (13, 12)
    assert plain.vectors.tolist() == [2, 4, 6, 1, 3]
    assert [virtual.TYPES[kind] for kind in plain.types] == ["formula"] * 3 + ["sentence"] * 2
    whole = encode(POST, VOCABULARY, "global")
    assert whole.nodes[13:].tolist() == [502]
    assert virtual_edges(whole) == [(13, ":virtual_document", node) for node in range(13)]
    assert whole.vectors.tolist() == [2, 4, 6, 1, 3, 13]
    assert virtual.TYPES[whole.types[-1]] == "document"
    assert whole.formulas == plain.formulas == ("f10", "", "f12")


def test_a_sentence_that_is_its_placeholder_gives_one_vector() -> None:
    graph = Graph(
        ("FORMULA_0", "V!x"),
        bytes([FORMULA, OPT]),
        ((0, ":opt", 1),),
        0,
        ((0,),),
        (FormulaNodes("f", 0, (1, 2), (0, 0)),),
    )
    assert encode(graph, VOCABULARY, "none").vectors.tolist() == [0]
    assert encode(graph, VOCABULARY, "global").vectors.tolist() == [0, 2]
    assert encode(graph, VOCABULARY).vectors.tolist() == [2, 3, 4]


def test_auxiliary_edges_follow_the_document() -> None:
    # Virtual nodes: formulas 13, 14, 15, sentences 16, 17. The dropped formula comes after the one before it.
    assert virtual.document_order(POST) == [3, 0, 4, 1, 2]
    chain = [(16, 13), (13, 17), (17, 14), (14, 15)]
    assert auxiliary_pairs(POST, "none") == []
    assert auxiliary_pairs(POST, "sequential") == chain
    assert auxiliary_pairs(POST, "circular") == [*chain, (15, 16)]
    assert sorted(auxiliary_pairs(POST, "full")) == sorted(combinations([16, 13, 17, 14, 15], 2))


def test_a_dropped_formula_before_all_others_comes_first_and_one_between_them_stays_there() -> None:
    graph = Graph(
        ("root", "a", "FORMULA_1", "b", "FORMULA_3", "FORMULA_0", "FORMULA_2"),
        bytes([TEXT, TEXT, FORMULA, TEXT, FORMULA, FORMULA, FORMULA]),
        (),
        0,
        ((1, 2), (3, 4)),
        tuple(FormulaNodes("", node, (0, 0), (0, 0)) for node in (5, 2, 6, 4)),
    )
    assert virtual.document_order(graph) == [0, 4, 1, 2, 5, 3]


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_circles_of_few_virtual_nodes(count: int) -> None:
    graph = Graph(("a",) * (count + 1), bytes(count + 1), (), 0, tuple((node,) for node in range(count)), ())
    first = count + 1
    pairs = {0: [], 1: [], 2: [(first, first + 1)], 3: [(first, first + 1), (first + 1, first + 2), (first + 2, first)]}
    assert auxiliary_pairs(graph, "circular") == pairs[count]
    assert auxiliary_pairs(graph, "sequential") == pairs[count][: max(0, count - 1)]


def test_what_the_vocabulary_does_not_know() -> None:
    graph = Graph(("unseen", "solve-01"), bytes(2), ((0, ":unseen", 1), (1, ":virtual-of-old", 0)), 0, ((0, 1),), ())
    item = encode(graph, VOCABULARY)
    assert item.nodes[0] == UNK
    assert item.relation[:2].tolist() == [virtual.UNKNOWN_RELATION] * 2
    assert virtual.UNKNOWN_RELATION not in item.relation[2:]


def test_a_post_of_the_most_nodes_is_encoded_and_one_more_refused() -> None:
    item = encode(text_graph(("a",) * (virtual.MOST_NODES - 2)), VOCABULARY)
    assert len(item.nodes) == virtual.MOST_NODES
    assert item.vectors.tolist() == [virtual.MOST_NODES - 2, virtual.MOST_NODES - 1]
    assert item.target[: item.content_edges].tolist() == list(range(1, virtual.MOST_NODES - 2))
    for nodes, structure in ((virtual.MOST_NODES - 1, "hierarchy"), (virtual.MOST_NODES, "global"), (70_000, "none")):
        refuses("more than 65,532", lambda: encode(text_graph(("a",) * nodes), VOCABULARY, structure))  # noqa: B023


def test_auxiliary_edges_that_would_fill_the_memory_are_refused() -> None:
    graph = Graph(("a",) * 6000, bytes(6000), (), 0, tuple((node,) for node in range(6000)), ())
    refuses("17,997,000 auxiliary edges", lambda: encode(graph, VOCABULARY, auxiliary="full"))
    assert len(encode(graph, VOCABULARY, auxiliary="circular").nodes) == 12_001
