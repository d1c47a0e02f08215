"""The candidate stage finds the best trees by the Dice coefficient, whatever the budget and the counts of paths."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples
from structural_reference import plain_dice
from structural_tools import indexed, repeating_trees, sums

from harness.formulas.trees import forest
from harness.formulas.trees.tree import parse
from harness.io import kernels
from harness.systems.structural.tree import Query, Structural

WHOLE = 1 << 40  # a budget that reads every list


@pytest.fixture(params=["compiled", "plain"], scope="module")
def side(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(kernels.VARIABLE, "on" if request.param == "compiled" else "off")
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("side")
@given(seed=st.integers(0, 10**6), height=st.integers(0, 3), limit=st.integers(1, 30))
@settings(max_examples=examples(20))
def test_candidates_of_formulas_that_repeat_symbols_are_the_best(seed: int, height: int, limit: int) -> None:
    trees = repeating_trees(25, seed) + [sums(terms) for terms in (1, 15, 16, 17, 60, 300)]
    index = indexed(forest.pack(trees), height)
    asked = [*trees[:3], trees[-2], *repeating_trees(2, seed + 1)]
    for query, dice in zip(asked, plain_dice(asked, trees, height), strict=True):
        found = index.candidates(Query(query, index).terms, limit, WHOLE).tolist()
        assert len(found) == min(limit, sum(each > 0 for each in dice))
        least = min(dice[number] for number in found)  # weights of trees are rounded to float32
        assert all(number in found for number, each in enumerate(dice) if each > least * (1 + 1e-6))


@pytest.mark.usefixtures("side")
def test_a_long_sum_is_found_among_more_formulas_of_the_same_symbols_than_candidates() -> None:
    trees = [sums(terms) for terms in range(16, 136)]
    index = indexed(forest.pack(trees), 2)
    for terms in (16, 60, 135):
        numbers, scores = Structural(candidates=100).search(Query(sums(terms), index))
        assert len(numbers) == 100
        assert [trees[number] for number in numbers[scores == 1].tolist()] == [sums(terms)]


# Both forms of a path that begins with V!* are one path.
@pytest.mark.parametrize(("label", "most", "few"), [("V!x", 65_535, 3), ("V!*", 131_070, 6)])
def test_counts_of_the_largest_trees_are_exact(label: str, most: int, few: int) -> None:
    index = indexed(forest.pack([sums(forest.WIDEST - 1, label), sums(3, label)]), 0)
    _, tree, count = index.read(np.arange(len(index.path)))
    assert set(zip(tree.tolist(), count.tolist(), strict=True)) == {(0, 1), (1, 1), (0, most), (1, few)}


def test_a_budget_reads_the_rarest_paths_and_candidates_are_the_best() -> None:
    trees = [parse(f"[U!plus,0[V!x],1[V!{name}]]") for name in "abcdefgh"]
    index = indexed(forest.pack(trees), 2)
    query = Query(trees[2], index)
    # What only the formula itself has comes first; a list is read as a whole.
    assert index.candidates(query.terms, 10, 1).tolist() == [2]
    assert index.candidates(query.terms, 10, WHOLE).tolist() == list(range(8))
    # The others tie: the first of them.
    assert index.candidates(query.terms, 3, WHOLE).tolist() == [0, 1, 2]
    assert index.candidates(Query(parse("[O!minus,0[N!1]]"), index).terms, 10, WHOLE).tolist() == []
