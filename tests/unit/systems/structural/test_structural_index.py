"""Formulas and indexes of paths made in bounded memory: the same bytes for every limit, and those of the plain way."""

from __future__ import annotations

import random
import tempfile
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import structural_reference as reference
from formula_tools import random_trees
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples
from structural_reference import plain_dice
from structural_tools import indexed, repeating_trees, sums

from harness.collections.corpus import Document
from harness.data.topics import Formula
from harness.formulas.opt.read import read_latex
from harness.formulas.trees import forest
from harness.formulas.trees.reading import ERROR
from harness.formulas.trees.tree import parse_tangent, tangent_string
from harness.io import kernels
from harness.systems.structural import formulas
from harness.systems.structural import index as index_of_paths
from harness.systems.structural.formulas import Formulas
from harness.systems.structural.index import PathIndex
from harness.systems.structural.known import Digests, Recent
from harness.systems.structural.tree import FormulaQuery, Structural

LIMITS = (1, 3000, 1 << 30)  # bytes: one formula or path at a time, a few, all at once
LATEX = (
    "x",
    "y",
    "x+y",
    "y+x",
    r"\frac{x}{2}",
    "x^2",
    "x^{2}",
    "a_1",
    r"\sum_{i=1}^n i",
    "",
    "{",
    r"\unknown{",
    "(",
    "z",
)


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
    numbers: dict[str, int] = {}
    expected: dict[int, list[int]] = {}
    reasons: Counter[str] = Counter()
    for row, document in enumerate(documents):
        found = known.tree[known.start[row] : known.start[row + 1]].tolist()
        for number, formula in zip(found, document.formulas, strict=True):
            reading = read_latex(formula.latex)
            alone = reading.tree.labels == (ERROR,)
            reasons[reading.reason or (formulas.ALONE if alone else "")] += 1
            assert number == (-1 if alone else numbers.setdefault(tangent_string(reading.tree), len(numbers)))
            if not alone:
                expected.setdefault(number, []).append(row)
    assert [tangent_string(each) for each in known.trees] == list(numbers)
    assert known.counts.read == reasons.pop("", 0)
    assert known.counts.failed == reasons
    for number in range(len(known.trees)):
        assert known.document[known.first[number] : known.first[number + 1]].tolist() == expected[number]


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), height=st.integers(0, 3))
@settings(max_examples=8)
def test_every_limit_gives_the_index_of_the_plain_way(seed: int, height: int) -> None:
    trees = forest.pack(random_trees(random.Random(seed).randint(1, 25), seed) + repeating_trees(3, seed))
    expected = reference.index(trees, height)
    for limit in LIMITS:
        with tempfile.TemporaryDirectory() as name:
            index_of_paths.write_path_index(trees, height, Path(name), limit=limit)
            assert sorted(files(Path(name))) == sorted(f"{each}.npy" for each in expected)
            index = PathIndex.load(Path(name), trees, height)
            for each, array in expected.items():
                found = getattr(index, each)
                assert (found.dtype, found.tolist()) == (array.dtype, array.tolist()), (each, limit)


def test_a_forest_is_written_tree_by_tree(tmp_path: Path) -> None:
    trees = random_trees(300)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    forest.save(forest.pack(trees), tmp_path / "a")
    assert forest.write(iter(trees), tmp_path / "b") == 300
    assert files(tmp_path / "a") == files(tmp_path / "b")


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


@given(st.lists(st.binary(max_size=3)), st.sampled_from((0, 500, 10**6)))
def test_digests_number_strings_in_order(texts: list[bytes], most: int) -> None:
    digests = Digests(most)
    numbers: dict[bytes, int] = {}
    for text in texts:
        assert digests.number(text) == numbers.setdefault(text, len(numbers))
    assert len(digests) == len(numbers)


@given(st.lists(st.integers(0, 20)), st.sampled_from((0, 2000, 10**6)))
def test_recent_entries_are_right_and_few(keys: list[int], most: int) -> None:
    recent: Recent[str, int] = Recent(most)
    for key in keys:
        found = recent.get(str(key))
        assert found in (None, key)
        if found is None:
            recent.put(str(key), key)
        assert recent.get(str(key)) == key
        assert len(recent._young) + len(recent._old) <= most // 260 + 4
    if most == 10**6:
        assert [recent.get(str(key)) for key in keys] == keys


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


@pytest.mark.slow
def test_memory_of_an_index_grows_with_trees_only(tmp_path: Path) -> None:
    trees = forest.pack(random_trees(4000))

    def peak(limit: int) -> int:
        (tmp_path / str(limit)).mkdir()
        tracemalloc.start()
        index_of_paths.write_path_index(trees, 2, tmp_path / str(limit), limit=limit)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    buckets = 3 * 8 << 20  # of the 20 bits by which keys are divided
    small, large = peak(2 << 20), peak(1 << 30)
    assert small < (2 << 20) + buckets + (2 << 20)
    assert large > small + (10 << 20)
    assert files(tmp_path / str(2 << 20)) == files(tmp_path / str(1 << 30))


# ---- candidates


WHOLE = 1 << 40  # a budget that reads every list


@pytest.fixture(params=["compiled", "plain"], scope="module")
def side(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(kernels.VARIABLE, "on" if request.param == "compiled" else "off")
        yield


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), height=st.integers(0, 3), limit=st.integers(1, 30))
@settings(max_examples=examples(20))
def test_candidates_of_formulas_that_repeat_symbols_are_the_best(seed: int, height: int, limit: int) -> None:
    trees = repeating_trees(25, seed) + [sums(terms) for terms in (1, 15, 16, 17, 60, 300)]
    index = indexed(forest.pack(trees), height)
    asked = [*trees[:3], trees[-2], *repeating_trees(2, seed + 1)]
    for query, dice in zip(asked, plain_dice(asked, trees, height), strict=True):
        found = index.candidates(FormulaQuery(query, index).terms, limit, WHOLE).tolist()
        assert len(found) == min(limit, sum(each > 0 for each in dice))
        least = min(dice[number] for number in found)  # weights of trees are rounded to float32
        assert all(number in found for number, each in enumerate(dice) if each > least * (1 + 1e-6))


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
