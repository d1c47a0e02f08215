"""Formulas and indexes of paths made in bounded memory: the same bytes for every limit."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from formula_tools import random_trees
from hypothesis import given, settings
from hypothesis import strategies as st
from structural_tools import indexed, repeating_trees, sums

from harness.collections.corpus import Document
from harness.data.topics import Formula
from harness.formulas.trees import forest
from harness.formulas.trees.tree import parse_tangent
from harness.io import kernels
from harness.systems.structural import formulas
from harness.systems.structural import index as index_of_paths
from harness.systems.structural.formulas import Formulas
from harness.systems.structural.tree import FormulaQuery, Structural

LIMITS = (1, 3000, 1 << 30)  # bytes: one formula or path at a time, a few, all at once
LATEX = ("x", "y", "x+y", "y+x", r"\frac{x}{2}", "x^2", "x^{2}", "a_1", r"\sum_{i=1}^n i", "", "{", r"\unknown{", "(")


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def documents_of(seed: int, posts: bool) -> list[Document]:
    """Documents of no, one or several formulas, most of which occur several times."""
    rng = random.Random(seed)
    found = []
    for number in range(rng.randint(1, 25)):
        latex = rng.choices(LATEX, k=rng.choice((0, 1, 1, 4)))
        columns = {"post": f"p{number // 3}"} if posts else {}
        parts = tuple(Formula(f"{number}.{n}", text) for n, text in enumerate(latex))
        found.append(Document(f"d{number}", formulas=parts, columns=columns))
    return [*found, Document("last", formulas=(Formula("f", "x"),), columns={"post": "p"} if posts else {})]


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), posts=st.booleans())
@settings(max_examples=20)
def test_every_limit_gives_the_same_formulas(seed: int, posts: bool) -> None:
    documents = documents_of(seed, posts)
    written = []
    for limit in LIMITS:
        with tempfile.TemporaryDirectory() as name:
            formulas.write(documents, "opt", Path(name), limit=limit)
            written.append(files(Path(name)))
            known = Formulas.load(Path(name))
    assert all(each == written[0] for each in written)
    assert known.ids.tolist() == [document.id.encode() for document in documents]
    assert (known.posts is not None) == posts


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), height=st.integers(0, 3))
@settings(max_examples=8)
def test_every_limit_gives_the_same_index(seed: int, height: int) -> None:
    trees = forest.pack(random_trees(random.Random(seed).randint(1, 25), seed) + repeating_trees(3, seed))
    written = []
    for limit in LIMITS:
        with tempfile.TemporaryDirectory() as name:
            index_of_paths.write_path_index(trees, height, Path(name), limit=limit)
            written.append(files(Path(name)))
    assert all(each == written[0] for each in written)


class Stopped(BaseException):
    """Stands for an interrupt."""


@pytest.mark.parametrize("what", [formulas.write, index_of_paths.write_path_index])
def test_what_is_interrupted_leaves_no_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: Callable[..., None]
) -> None:
    def stop(*_: object) -> None:
        raise Stopped

    monkeypatch.setattr(index_of_paths, "encoded", stop)
    monkeypatch.setattr(formulas, "tangent_string", stop)
    with pytest.raises(Stopped):
        if what is index_of_paths.write_path_index:
            index_of_paths.write_path_index(forest.pack(random_trees(9)), 2, tmp_path)
        else:
            formulas.write(documents_of(1, True), "opt", tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert not left & {"entries", "document-ids.lengths", "document-ids.bytes", "weight.npy", "counts.json"}


def test_documents_of_trees_are_scored_from_the_files(tmp_path: Path) -> None:
    formulas.write(documents_of(7, True), "opt", tmp_path, limit=1)
    known = Formulas.load(tmp_path)
    trees = np.arange(0, len(known.trees), 2)
    scores = np.arange(1.0, len(trees) + 1)
    worth = dict(zip(trees.tolist(), scores.tolist(), strict=True))
    rows = [known.tree[known.start[row] : known.start[row + 1]].tolist() for row in range(len(known.ids))]
    best = [max((worth.get(number, 0.0) for number in row), default=0.0) for row in rows]
    total = [sum(worth.get(number, 0.0) for number in row) for row in rows]
    assert known.documents(trees, scores).tolist() == best
    assert known.documents(trees, scores, "sum").tolist() == total


# ---- candidates


WHOLE = 1 << 40  # a budget that reads every list


@pytest.fixture(params=["compiled", "plain"], scope="module")
def side(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(kernels.VARIABLE, "on" if request.param == "compiled" else "off")
        yield


@pytest.mark.usefixtures("side")
def test_a_long_sum_is_found_among_more_formulas_of_the_same_symbols_than_candidates() -> None:
    trees = [sums(terms) for terms in range(16, 136)]
    index = indexed(forest.pack(trees), 2)
    for terms in (16, 60, 135):
        numbers, scores = Structural(candidates=100).search(FormulaQuery(sums(terms), index))
        assert len(numbers) == 100
        assert [trees[number] for number in numbers[scores == 1].tolist()] == [sums(terms)]


# Both forms of a path that begins with V!* are one path.
@pytest.mark.parametrize(("label", "most", "few"), [("V!x", 65_535, 3), ("V!*", 131_070, 6)])
def test_counts_of_the_largest_trees_are_exact(label: str, most: int, few: int) -> None:
    index = indexed(forest.pack([sums(forest.WIDEST - 1, label), sums(3, label)]), 0)
    _, tree, count = index.read(np.arange(len(index.path)))
    assert set(zip(tree.tolist(), count.tolist(), strict=True)) == {(0, 1), (1, 1), (0, most), (1, few)}


def test_a_budget_reads_the_rarest_paths_and_candidates_are_the_best() -> None:
    trees = [parse_tangent(f"[U!plus,0[V!x],1[V!{name}]]") for name in "abcdefgh"]
    index = indexed(forest.pack(trees), 2)
    query = FormulaQuery(trees[2], index)
    # What only the formula itself has comes first; a list is read as a whole.
    assert index.candidates(query.terms, 10, 1).tolist() == [2]
    assert index.candidates(query.terms, 10, WHOLE).tolist() == list(range(8))
    # The others tie: the first of them.
    assert index.candidates(query.terms, 3, WHOLE).tolist() == [0, 1, 2]
    assert index.candidates(FormulaQuery(parse_tangent("[O!minus,0[N!1]]"), index).terms, 10, WHOLE).tolist() == []
