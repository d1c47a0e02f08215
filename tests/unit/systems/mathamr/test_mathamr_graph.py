"""The content graph: modes, JSON, checks."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from mathamr_tools import graphs
from refusals import refuses

from harness.systems.mathamr.graphs import graph as g
from harness.systems.mathamr.graphs.graph import FormulaNodes, Graph

# "solve x, y": multi-sentence -> solve -> FORMULA_0 (OPT of two nodes, SLT of one), FORMULA_1 (no trees)
SMALL = Graph(
    ("multi-sentence", "solve-01", "FORMULA_0", "FORMULA_1", "O!minus", "V!x", "V!x"),
    bytes([0, 0, 1, 1, 2, 2, 3]),
    ((0, ":snt1", 1), (1, ":ARG1", 2), (0, ":math", 3), (2, ":opt", 4), (4, ":opt_0", 5), (2, ":slt", 6)),
    0,
    ((1, 2),),
    (FormulaNodes("7", 2, (4, 6), (6, 7)), FormulaNodes("", 3, (0, 0), (0, 0))),
)


def test_modes_drop_trees_and_renumber() -> None:
    assert g.restrict_graph(SMALL, "both") is SMALL
    opt = g.restrict_graph(SMALL, "opt")
    assert opt.labels == SMALL.labels[:6]
    assert opt.formulas[0] == FormulaNodes("7", 2, (4, 6), (0, 0))
    slt = g.restrict_graph(SMALL, "slt")
    assert slt.labels == (*SMALL.labels[:4], "V!x")
    assert slt.edges == ((0, ":snt1", 1), (1, ":ARG1", 2), (0, ":math", 3), (2, ":slt", 4))
    assert slt.formulas[0] == FormulaNodes("7", 2, (0, 0), (4, 5))
    none = g.restrict_graph(SMALL, "none")
    assert none == Graph(("multi-sentence", "solve-01"), b"\0\0", ((0, ":snt1", 1),), 0, ((1,),), ())
    for mode in g.MODES:
        g.check_graph(g.restrict_graph(SMALL, mode))


def test_without_formulas_something_is_left() -> None:
    only = Graph(
        ("FORMULA_0", "V!x"), bytes([1, 3]), ((0, ":slt", 1),), 0, ((0,),), (FormulaNodes("", 0, (0, 0), (1, 2)),)
    )
    assert g.restrict_graph(only, "none") == Graph(("multi-sentence",), b"\0", (), 0, (), ())


def test_the_root_moves_when_it_is_a_placeholder() -> None:
    start = Graph(
        ("FORMULA_0", "hold"), bytes([1, 0]), ((0, ":dep", 1),), 0, ((0, 1),), (FormulaNodes("", 0, (0, 0), (0, 0)),)
    )
    assert g.restrict_graph(start, "none") == Graph(("hold",), b"\0", (), 0, ((0,),), ())


@given(graphs())
def test_json_gives_the_graph_back(graph: Graph) -> None:
    assert g.from_mapping(json.loads(g.as_json(graph))) == graph
    assert "\n" not in g.as_json(graph)


@pytest.mark.parametrize("text", ["[]", "{}", '{"labels":["a"]}', g.as_json(SMALL).replace('":math"', '":math*"')])
def test_what_is_no_graph_is_one_line(text: str) -> None:
    refuses(r"^shard:3: ", lambda: g.from_mapping(json.loads(text), "shard:3"))


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (replace(SMALL, labels=(), kinds=b""), "no nodes"),
        (replace(SMALL, kinds=bytes(6)), "6 kinds for 7 nodes"),
        (replace(SMALL, kinds=bytes([0, 0, 1, 1, 2, 2, 4])), "kinds"),
        (replace(SMALL, root=7), "root 7"),
        (replace(SMALL, edges=((0, ":mod", 7),)), "leaves the 7 nodes"),
        (replace(SMALL, edges=((0, ":ARG0-of", 1),)), "forward relation"),
        (replace(SMALL, edges=((0, ":ARG0*", 1),)), "forward relation"),
        (replace(SMALL, sentences=((1, 4),)), "node 4 of a sentence"),
        (replace(SMALL, sentences=((),)), "a sentence has no nodes"),
        (replace(SMALL, formulas=(FormulaNodes("", 1, (0, 0), (0, 0)),)), "node 1 of a formula is not a placeholder"),
        (replace(SMALL, formulas=(FormulaNodes("", 2, (4, 7), (0, 0)),)), "are not an OPT"),
    ],
)
def test_faults_are_told(broken: Graph, reason: str) -> None:
    refuses(reason, lambda: g.check_graph(broken, "post 5"))
