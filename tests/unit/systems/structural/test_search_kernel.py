"""The compiled formula search equals the NumPy code: the same trees, and scores that are equal bit by bit."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from formula_tools import random_trees
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples
from refusals import refuses
from structural_tools import indexed, repeating_trees, sums

from harness.errors import HarnessError
from harness.formulas.trees import forest
from harness.formulas.trees.tree import Tree
from harness.io import kernels
from harness.systems.structural.index import PathIndex, write_path_index
from harness.systems.structural.tree import FormulaQuery, Structural

pytestmark = pytest.mark.skipif(kernels.kernel("harness_search") is None, reason=f"kernels: {kernels.state()[0]}")
Found = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]


@contextmanager
def plain() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(kernels.VARIABLE, "off")
        yield


def both(system: Structural, tree: Tree, index: PathIndex, first: int | None = None) -> tuple[Found, Found]:
    compiled = system.search(FormulaQuery(tree, index), first)
    with plain():
        return compiled, system.search(FormulaQuery(tree, index))


def same(compiled: Found, expected: Found) -> None:
    assert compiled[0].tolist() == expected[0].tolist()
    assert compiled[1].tolist() == expected[1].tolist()


def best(found: Found, first: int) -> list[tuple[int, float]]:
    """In the order of a run: score in float32, then number."""
    trees, scores = found
    order = np.lexsort((trees, -scores.astype(np.float32)))[:first]
    return list(zip(trees[order].tolist(), scores[order].tolist(), strict=True))


@pytest.mark.slow
@given(
    seed=st.integers(0, 10**6),
    trees=st.integers(1, 60),
    height=st.integers(0, 4),
    limit=st.integers(1, 70),
    budget=st.sampled_from((1, 50, 400, 10**9)),
    credit=st.sampled_from((0.0, 0.3, 1.0)),
    repeating=st.booleans(),
)
@settings(max_examples=examples(60))
def test_all_candidates(
    seed: int, trees: int, height: int, limit: int, budget: int, credit: float, repeating: bool
) -> None:
    some = (repeating_trees if repeating else random_trees)(trees + 3, seed)
    index = indexed(forest.pack(some[3:]), height)
    system = Structural(height=height, candidates=limit, budget=budget, credit=credit)
    for tree in some[:6]:
        same(*both(system, tree, index))
        first = 1 + seed % limit
        assert best(system.search(FormulaQuery(tree, index), first), first) == best(both(system, tree, index)[1], first)


def test_a_path_more_often_than_the_index_counts() -> None:
    index = indexed(forest.pack([sums(n) for n in (2, 14, 15, 16, 17, 40)]), 2)
    for terms in (1, 15, 16, 39, 40, 41):
        same(*both(Structural(), sums(terms), index))
        compiled, expected = both(Structural(), sums(terms), index, 1)
        assert best(compiled, 1) == best(expected, 1)


def test_a_pickled_index_is_searched() -> None:
    """The addresses of its arrays are not pickled."""
    index = indexed(forest.pack(random_trees(30)), 2)
    tree = index.trees[4]
    expected = Structural().search(FormulaQuery(tree, index))
    copy = pickle.loads(pickle.dumps(index))  # noqa: S301
    assert set(vars(index)) - set(vars(copy)) >= {"given"}
    same(Structural().search(FormulaQuery(tree, copy)), expected)
    assert copy.given[0].tolist() != index.given[0].tolist()


@pytest.mark.parametrize("number", [2**63 - 1, 2**63, 2**64 + 1, 10**30])
def test_a_budget_and_a_height_above_64_bits(number: int) -> None:
    trees = random_trees(30)
    index, system = indexed(forest.pack(trees), number), Structural(height=number, budget=number)
    compiled, expected = both(system, trees[4], index)
    same(compiled, expected)
    assert len(compiled[0]) > 1


@pytest.mark.parametrize("name", ["path", "end", "blocks", "range", "size", "posting", "frequency", "weight"])
def test_arrays_of_several_dimensions_are_refused(tmp_path: Path, name: str) -> None:
    """The length of an array with two dimensions says nothing of its memory."""
    trees = forest.pack(repeating_trees(9, 0))
    write_path_index(trees, 2, tmp_path)
    array = np.load(tmp_path / f"{name}.npy")
    np.save(tmp_path / f"{name}.npy", array[:, None][:, :0])
    refuses("not an index of these trees", lambda: PathIndex.load(tmp_path, trees, 2))


def test_a_query_of_unknown_symbols_finds_nothing() -> None:
    index = indexed(forest.pack(random_trees(9)), 2)
    trees, scores = Structural().search(FormulaQuery(Tree(("T!unknown",), (-1,), ("",)), index))
    assert (trees.tolist(), scores.tolist()) == ([], [])


@pytest.mark.slow
@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(("range", "size", "posting", "blocks", "end", "frequent", "frequency")),
)
@settings(max_examples=examples(100))
def test_damaged_postings_are_refused_or_give_trees_of_the_index(seed: int, name: str) -> None:
    rng = random.Random(seed)
    index = indexed(forest.pack(random_trees(30, seed % 7) + repeating_trees(10, seed % 7)), 2)
    array: Any = getattr(index, name).copy()
    largest = np.iinfo(array.dtype).max
    for _ in range(rng.randint(1, 5)):
        array[rng.randrange(len(array))] = rng.choice((0, 1, largest, rng.randint(0, largest)))
    damaged = replace(index, **{name: array})
    for number in range(0, 40, 5):
        try:
            with np.errstate(all="ignore"):
                found = Structural().search(FormulaQuery(index.trees[number], damaged))[0]
        except HarnessError as error:
            assert "damaged" in str(error)
        else:
            assert all(0 <= tree < 40 for tree in found.tolist())
