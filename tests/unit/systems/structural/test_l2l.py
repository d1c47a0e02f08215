"""L2L: paths between leaves against a reading node by node, sequences, and what the ranking must keep to."""

from __future__ import annotations

import random
from collections.abc import Hashable
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from formula_tools import random_trees
from hypothesis import given, settings
from hypothesis import strategies as st
from lexical_tools import found
from structural_tools import formula_corpus, formula_topics
from test_tangent import LATEX, dice, operator_trees, shuffled

from harness.collections.corpus import Corpus
from harness.formulas.trees import forest
from harness.formulas.trees.tree import Tree, parse_tangent
from harness.systems.structural.l2l import L2L, leaf_paths, sequences
from harness.systems.structural.tangent import Dice, Features, nodes

EVERY = 10**9


@pytest.fixture
def latex_corpus(tmp_path: Path) -> Corpus:
    return formula_corpus(tmp_path, LATEX)


def paths(tree: Tree, arm: int | None = None) -> list[Hashable]:
    """The paths between leaves: labels up to the highest node, that node, labels of the other arm."""
    inner = set(tree.parents)
    leaves = [node for node in range(len(tree)) if node not in inner]

    def up(node: int) -> list[int]:
        out = [node]
        while tree.parents[out[-1]] >= 0:
            out.append(tree.parents[out[-1]])
        return out

    if len(leaves) == 1:
        return [tuple(tree.labels[node] for node in up(leaves[0]))]
    out: list[Hashable] = []
    for one, two in combinations(leaves, 2):
        left, right = up(one), up(two)
        top = next(node for node in left if node in right)
        arms = [tuple(tree.labels[node] for node in way[: way.index(top)]) for way in (left, right)]
        if arm is None or max(map(len, arms)) <= arm:
            out.append((tree.labels[top], *(sorted(arms) if tree.labels[top].startswith("U!") else arms)))
    return out


def features(some: list[Tree], most: int = EVERY) -> Features:
    packed = forest.pack(some)
    return leaf_paths(packed, nodes(packed), most)


def numbers(found: Features, trees: int) -> list[list[int]]:
    """The features of each tree."""
    return [sorted(found[1][found[0] == tree].tolist()) for tree in range(trees)]


def test_paths_of_many_trees() -> None:
    some = random_trees(40, seed=1) + operator_trees(40, seed=2)
    index, bags = Dice.of(features(some), len(some)), [paths(tree) for tree in some]
    for tree in some[::5]:
        np.testing.assert_allclose(index.score(features([tree])), dice(paths(tree), bags), atol=1e-12)


def test_a_large_sum_without_neighbouring_leaves_has_paths() -> None:
    tree = parse_tangent("[U!plus" + "".join(f",{place}[O!sin,0[V!x]]" for place in "0123456789") + "]")
    assert len(features([tree], most=5)[0]) == 45


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_the_order_of_unordered_arguments_changes_nothing(seed: int) -> None:
    some, rng = operator_trees(8, seed), random.Random(seed)
    mixed = [shuffled(tree, rng) for tree in some]
    for most in (4, EVERY):
        assert numbers(features(some, most), 8) == numbers(features(mixed, most), 8)


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_sequences_are_the_runs_of_labels(length: int) -> None:
    some = random_trees(40, seed=5)

    def runs(tree: Tree) -> list[Hashable]:
        row = ["<"] * (length - 1) + list(tree.labels) + [">"] * (length - 1)
        return [tuple(row[at : at + length]) for at in range(len(row) - length + 1)]

    index = Dice.of(sequences(nodes(forest.pack(some)), length), len(some))
    bags = [runs(tree) for tree in some]
    for tree in some[::4]:
        scores = index.score(sequences(nodes(forest.pack([tree])), length))
        np.testing.assert_allclose(scores, dice(runs(tree), bags), atol=1e-12)


def test_names_of_variables_on_paths(latex_corpus: Corpus, tmp_path: Path) -> None:
    """Without names the formula in other letters has the same paths; with them it has not."""
    for names, best in ((False, {"a", "b"}), (True, {"b"})):
        run = found(L2L(weights={"paths": 1}, names=names), formula_topics(A=[LATEX["b"]]), latex_corpus, tmp_path)["A"]
        assert {doc for doc, score in run.items() if score == 1} == best


def test_a_run(latex_corpus: Corpus, tmp_path: Path) -> None:
    topics = formula_topics(**{f"T{name}": [latex] for name, latex in LATEX.items()})
    run = found(L2L(), topics, latex_corpus, tmp_path)
    assert {topic[1:] for topic in run} == set(LATEX)
    for topic, docs in run.items():
        assert next(iter(docs)) == topic[1:]
        assert docs[topic[1:]] == pytest.approx(1)
        assert sum(score == 1 for score in docs.values()) == 1
    assert set(list(run["Ta"])[:3]) == {"a", "b", "e"}
    assert found(L2L(), topics, latex_corpus, tmp_path) == run
