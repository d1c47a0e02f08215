"""Graphs of real posts and the published graphs of ARQMath's topics."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.collections.load import load_collection
from harness.sources.catalogue import source_files
from harness.sources.fetch import fetch_resources
from harness.systems.mathamr.graphs import amr, parsers
from harness.systems.mathamr.graphs.graph import Failure, Graph, check_graph, connected

pytestmark = pytest.mark.real


@pytest.mark.slow
def test_published_topics_decode_but_for_one(mirror: Path) -> None:
    pytest.importorskip("penman", reason="penman is not installed")
    (path,) = fetch_resources(source_files("mathamr"))
    found = dict(amr.read_topics(path))
    failures = {name: each for name, each in found.items() if isinstance(each, Failure)}
    assert (len(found), list(failures)) == (285, ["B.40"])
    assert str(failures["B.40"]).startswith(f"{path}: graph 33 (B.40): Expected: ROLE at line 44")
    graphs = [graph for graph in found.values() if isinstance(graph, Graph)]
    relations = {relation for graph in graphs for _, relation, _ in graph.edges}
    assert ":consist-of" in relations
    assert {":arg0", ":arg1", ":manner"} <= relations
    assert not any(relation.endswith("-of") and relation != ":consist-of" for relation in relations)
    for graph in graphs:
        assert connected(check_graph(graph))
    assert sum(len(graph.formulas) for graph in graphs) / len(graphs) == pytest.approx(3.3, abs=0.05)


@pytest.mark.slow
def test_graphs_of_formula_topics_are_those_of_the_posts_they_stand_in(mirror: Path) -> None:
    """Topics A.n and B.n of all years are one post, so that the published graphs serve Task 1 as well."""
    pytest.importorskip("penman", reason="penman is not installed")
    (path,) = fetch_resources(source_files("mathamr"))
    given = parsers.penman(path)
    assert len(given) == 2 * 284
    shared = with_graph = 0
    for year in (1, 2, 3):
        answers = {topic.id[2:]: topic for topic in load_collection(f"arqmath-{year}-task1").topics()}
        formulas = {topic.id[2:]: topic for topic in load_collection(f"arqmath-{year}-task2").topics()}
        for number in answers.keys() & formulas.keys():
            one, two = answers[number], formulas[number]
            assert (one.title, one.body) == (two.title, two.body)
            shared += 1
            with_graph += one.id in given
    assert (shared, with_graph) == (285, 284)  # but for B.40
