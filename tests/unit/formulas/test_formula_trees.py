"""Formula trees: Tangent strings, tuples, packed stores."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from formula_tools import check, random_trees, trees
from hypothesis import given

from harness.errors import HarnessError
from harness.formulas.trees import forest
from harness.formulas.trees import tree as formula_tree
from harness.formulas.trees.tree import Tree, parse_tangent, tangent_string

# x = [y^2], z as Tangent-S writes it; then a + b as an operator tree.
LAYOUT = "[V!x[=[M!&lsqb;&rsqb;1x1[&comma;[V!z]],w[V!y,a[N!2]]]]]"
OPERATORS = "[U!plus,0[V!a],1[O!SUP,0[V!b],1[N!2]]]"


def test_a_layout_tree_is_read() -> None:
    assert parse_tangent(LAYOUT) == Tree(
        ("V!x", "=", "M![]1x1", ",", "V!z", "V!y", "N!2"), (-1, 0, 1, 2, 3, 2, 5), ("", "n", "n", "n", "n", "w", "a")
    )


def test_an_operator_tree_is_read() -> None:
    tree = parse_tangent(OPERATORS)
    assert tree == Tree(("U!plus", "V!a", "O!SUP", "V!b", "N!2"), (-1, 0, 0, 2, 2), ("", "0", "1", "0", "1"))
    assert formula_tree.children(tree) == [[1, 2], [], [3, 4], [], []]
    assert formula_tree.subtree_sizes(tree) == [5, 1, 3, 1, 1]
    assert formula_tree.depth(tree) == 3


@pytest.mark.parametrize(
    "text", [LAYOUT, OPERATORS, "[V!x]", "[W!]", "[]", "[V!x[[V!y]]]", "[V!&amp;comma;]", "[V!&lt;]"]
)
def test_a_string_comes_back_as_it_was(text: str) -> None:
    assert tangent_string(parse_tangent(text)) == text


@given(trees())
def test_a_tree_comes_back_as_it_was(tree: Tree) -> None:
    check(tree)


def test_an_entity_that_is_text_stays_text() -> None:
    assert tangent_string(Tree(("V!&comma;",), (-1,), ("",))) == "[V!&amp;comma;]"
    assert parse_tangent("[V!&comma;]").labels == ("V!,",)
    assert parse_tangent("[V!&amp;comma;]").labels == ("V!&comma;",)


@pytest.mark.parametrize(
    "text",
    ["", "[", "]", "[V!x", "[V!x]]", "[V!x][V!y]", "[V!x,[V!y]]", ",0[V!x]", "[V!x,0]", "V!x", " [V!x]", "[V!x] "],
)
def test_what_is_no_tree_is_refused(text: str) -> None:
    with pytest.raises(HarnessError, match="not a formula tree at character") as caught:
        parse_tangent(text)
    assert "\n" not in str(caught.value)


def test_places_are_those_of_tangent() -> None:
    assert [formula_tree.argument_edge(number) for number in (0, 9, 10, 35, 36, 61, 62)] == [
        "0",
        "9",
        "A",
        "Z",
        "a",
        "z",
        "62",
    ]


# ---- tuples -----------------------------------------------------------------------------------------------------


def test_tuples_by_hand() -> None:
    tree = parse_tangent("[V!x[=[V!y]],a[N!2]]")  # x^2 = y
    assert formula_tree.tuples(tree) == [
        ("V!x", "=", "n"),
        ("=", "V!y", "n"),
        ("V!x", "V!y", "nn"),
        ("V!x", "N!2", "a"),
    ]
    assert formula_tree.tuples(tree, window=1) == [("V!x", "=", "n"), ("=", "V!y", "n"), ("V!x", "N!2", "a")]
    assert formula_tree.tuples(parse_tangent("[V!x]"), ends=True) == [("V!x", formula_tree.END, "")]
    assert len(formula_tree.tuples(parse_tangent("[V!a[V!b[V!c[V!d]]]]"), window=2)) == 3 + 2  # one edge apart, and two
    assert formula_tree.tuples(parse_tangent("[U!plus,0[V!x],1[V!y]]")) == [
        ("U!plus", "V!x", "0"),
        ("U!plus", "V!y", "0"),
    ]


def test_f1_of_tuples_by_hand() -> None:
    # x^2 against x^3: no tuple in common, as the end is below the exponent.
    assert formula_tree.tuple_f1(parse_tangent("[V!x,a[N!2]]"), parse_tangent("[V!x,a[N!2]]")) == 1
    assert formula_tree.tuple_f1(parse_tangent("[V!x,a[N!2]]"), parse_tangent("[V!x,a[N!3]]")) == 0
    # x=y against x=z: of (x = n), (= y n), (x y nn), (y end) only the first is common: 2 * 1 / (4 + 4).
    assert formula_tree.tuple_f1(parse_tangent("[V!x[=[V!y]]]"), parse_tangent("[V!x[=[V!z]]]")) == pytest.approx(0.25)


# ---- stores -----------------------------------------------------------------------------------------------------


def test_a_forest_gives_its_trees_back(tmp_path: Path) -> None:
    made = random_trees(200)
    packed = forest.pack(made)
    assert list(packed) == made
    nodes = sum(map(len, made))
    assert packed.size == 7 * nodes + 8 * (len(made) + 1)
    assert forest.write(iter(made), tmp_path) == 200
    again = forest.load(tmp_path)
    assert list(again) == made
    assert again.size == packed.size
    with pytest.raises(IndexError, match="tree 200 of 200"):
        again[200]


def test_an_empty_forest(tmp_path: Path) -> None:
    forest.write([], tmp_path)
    assert list(forest.load(tmp_path)) == []


def test_what_the_numbers_cannot_hold_is_refused() -> None:
    wide = 1 << 16
    star = Tree(("V!x",) * wide, (-1, *(0,) * (wide - 1)), ("", *("0",) * (wide - 1)))
    assert forest.pack([star])[0] == star
    wider = Tree((*star.labels, "V!y"), (*star.parents, 0), (*star.edges, "0"))
    with pytest.raises(HarnessError, match=r"tree 1: 65,537 nodes, at most 65,536 can be stored"):
        forest.pack([star, wider])
    edges = [str(number) for number in range(256)]
    with pytest.raises(HarnessError, match="tree 0: more than 256 distinct edges"):
        forest.pack([Tree(("V!x",) * 257, (-1, *(0,) * 256), ("", *edges))])


@pytest.mark.parametrize(
    ("name", "change", "wanted"),
    [
        ("offsets", lambda a: a[:-1], "expected rising numbers from 0 to"),
        ("offsets", lambda a: a + 1, "expected rising numbers from 0 to"),
        # Differences that wrap around in 64 bits.
        ("offsets", lambda a: np.array([0, 2**63 - 1, -(2**63), -1, a[-1]]), "expected rising numbers from 0 to"),
        ("labels", lambda a: a + 100, "numbers below"),
        ("labels", lambda a: a[:-1], "expected rising numbers"),
        ("edges", lambda a: a[1:], "numbers below"),
        ("parents", lambda a: a + 100, "earlier nodes of the same tree"),
        ("parents", lambda a: a[1:], "expected"),
        ("edges", lambda a: a.astype(np.int64), "expected one dimension of uint8"),
    ],
)
def test_a_damaged_forest_is_refused(tmp_path: Path, name: str, change: object, wanted: str) -> None:
    forest.write(random_trees(5), tmp_path)
    path = tmp_path / f"{name}.npy"
    np.save(path, change(np.load(path)))  # type: ignore[operator]
    with pytest.raises(HarnessError, match=wanted):
        forest.load(tmp_path)


def test_a_forest_with_a_file_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="no array of a forest"):
        forest.load(tmp_path)
    forest.write(random_trees(5), tmp_path)
    (tmp_path / forest.NAMES).write_text(json.dumps({"labels": []}))
    with pytest.raises(HarnessError, match="no names of a forest"):
        forest.load(tmp_path)
