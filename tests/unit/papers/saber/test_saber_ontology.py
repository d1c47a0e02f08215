"""Lin's similarity and Best-Match Average: hand-computed cases, an independent reference, invariants."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples
from refusals import refusal

from harness.errors import HarnessError
from harness.papers.saber.ontology import Ontology, ancestors, information, most_specific

PART = st.sampled_from("abc")
NODE = st.lists(PART, min_size=1, max_size=4).map("/".join)
TAGS = st.lists(st.lists(NODE, max_size=5), min_size=1, max_size=12)


def below(node: str, tag: str) -> bool:
    return node in ("", tag) or tag.startswith(f"{node}/")


def slow_lin(corpus: list[list[str]], one: str, other: str) -> float:
    """From the definition, without any table: every count is made anew."""
    every = [tag for tags in corpus for tag in tags]

    def content(node: str) -> float:
        return -math.log(sum(below(node, tag) for tag in every) / len(every))

    if one == other:
        return 1.0
    shared = [node for node in ["", *ancestors(one)] if below(node, other)]
    both = content(one) + content(other)
    return 2 * max(map(content, shared)) / both if both else 0.0


@pytest.mark.slow
@given(TAGS)
@settings(max_examples=examples(60), deadline=None)
def test_lin_is_a_likeness_and_equals_its_definition(corpus: list[list[str]]) -> None:
    info = information(corpus)
    nodes = sorted(info.frequency)
    matrix = info.lins(nodes)
    for i, a in enumerate(nodes):
        for j, b in enumerate(nodes):
            value = info.lin(a, b)
            assert 0.0 <= value <= 1.0
            assert value == info.lin(b, a)
            assert value == matrix[i, j]
            assert value == pytest.approx(slow_lin(corpus, a, b), abs=1e-12)
        assert info.lin(a, a) == 1.0


@pytest.mark.slow
@given(TAGS)
@settings(max_examples=40, deadline=None)
def test_best_match_is_symmetric_and_no_matter_of_order(corpus: list[list[str]]) -> None:
    info = information(corpus)
    for one in corpus:
        for other in corpus:
            value = info.best_match(one, other)
            assert 0.0 <= value <= 1.0
            assert value == info.best_match(other, one)
            assert value == info.best_match([*one[::-1], *one], other)
        assert info.best_match(one, one) == (1.0 if one else 0.0)


def test_content_and_similarities_by_hand() -> None:
    corpus = [["Algebra/Roots"], ["Algebra/Roots"], ["Algebra/Sums"], ["Geometry"], []]
    info = information(corpus)
    assert info.tags == 4
    assert info.frequency == {"Algebra": 3, "Algebra/Roots": 2, "Algebra/Sums": 1, "Geometry": 1}
    assert info.content("Algebra") == pytest.approx(math.log(4 / 3))
    lin = 2 * math.log(4 / 3) / (math.log(2) + math.log(4))
    assert info.lin("Algebra/Roots", "Algebra/Sums") == pytest.approx(lin)
    assert info.lin("Algebra/Roots", "Geometry") == 0.0
    found = info.best_match(["Algebra/Roots", "Geometry"], ["Algebra/Sums"])
    assert found == pytest.approx((lin + 0 + lin) / 3)
    with pytest.raises(HarnessError, match="topic 'Topology': no problem has it"):
        info.content("Topology")


def test_the_most_specific_tags() -> None:
    """Besides those of the docstring."""
    for tags, kept in (("A/x/y A A/z B", "A/x/y A/z B"), ("A AB A/x", "A/x AB"), ("A/x A/x", "A/x"), ("", "")):
        assert list(most_specific(tags.split())) == kept.split()


def test_what_every_problem_has_tells_nothing() -> None:
    info = information([["A/x"], ["A/y"]])
    assert str(info.content("A")) == "0.0"
    assert info.lin("A", "A/x") == 0.0
    assert information([["A/x"]]).lin("A", "A/x") == 0.0


def node(title: str, *links: Mapping[str, object]) -> dict[str, object]:
    return {"title": title, "links": list(links)}


def test_nodes_are_paths_and_equal_siblings_are_one() -> None:
    tree = Ontology.of(node("M", node("A", node("x")), node("B", node("x")), node("A", node("y"))))
    assert tree.children == {"": ("A", "B"), "A": ("A/x", "A/y"), "A/x": (), "B": ("B/x",), "B/x": (), "A/y": ()}
    names = list(tree.children)
    assert all(names.index(child) > names.index(name) for name, below in tree.children.items() for child in below)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "expected an object with 'title' and a list 'links'"),
        ('{"links": [{"title": "a/b"}]}', "title 'a/b': expected text without slashes"),
        ('{"links": [{"title": 7}]}', "title 7: expected text without slashes"),
        ('{"links": [{"title": "a", "links": 3}]}', "node 'a': expected an object"),
        ('{"links": ', "not valid JSON"),
        ("{}", "holds no topics"),
        ('{"title": "M", "links": []}', "holds no topics"),
        ('{"links": [' * 200 + "]}" * 200, "levels"),
    ],
)
def test_a_file_that_is_no_tree_is_one_line(content: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "tree.json"
    path.write_text(content.replace('{"links": [' * 200, '{"title": "t", "links": [' * 200))
    line = refusal(lambda: Ontology.read(path))
    assert str(path) in line
    assert said in line
