"""Formulas of real collections: Tangent's trees, the official formulas of topics, the pages of Math Stack Exchange."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.formulas import YEARS, Pair, official_pairs, truth
from harness.collections.corpora import load_corpus
from harness.formulas.mathml.read import read_content, read_presentation
from harness.formulas.slt.read import read_latex
from harness.formulas.trees import forest
from harness.formulas.trees.tree import ParseCounts, Tree, count, tangent_string, tuple_f1

pytestmark = pytest.mark.real
SOURCE = "marked as an error by its source"


@pytest.fixture(scope="module")
def tangent(mirror: Path) -> dict[str, dict[str, str]]:
    """Visual id -> the strings `opt` and `slt` of the judged formulas."""
    return {document.id: dict(document.columns) for document in load_corpus("arqmath1-formulas")}


@pytest.fixture(scope="module")
def official(mirror: Path) -> dict[int, list[Pair]]:
    return {year: official_pairs(mirror, year) for year in YEARS}


@pytest.fixture(scope="module")
def pages(mirror: Path) -> list[tuple[str, str]]:
    """Visual id and Presentation MathML of each formula of the corpus `mse-pages`; "" where the page has none."""
    corpus = load_corpus("mse-pages")
    wanted = [formula.id for document in corpus for formula in document.formulas]
    span = re.compile(r'<span class="math-container" id="(\d+)" visual_id="(\d+)">(<math\b.*?</math>)', re.DOTALL)
    found: dict[str, tuple[str, str]] = {}
    for path in sorted(corpus.path.iterdir()):
        for match in span.finditer(path.read_text(encoding="utf-8")):
            found[match[1]] = (match[2], match[3])
    assert len(wanted) == 67_597
    return [found.get(name, ("", "")) for name in wanted]


@pytest.mark.slow
def test_official_formulas_are_read(official: dict[int, list[Pair]]) -> None:
    assert {year: len(pairs) for year, pairs in official.items()} == {2020: 1_007, 2021: 843, 2022: 1_050}
    unreadable = "the markup cannot be read"  # two formulas of 2022 that are nothing but white space
    for year, layouts, operators in (
        (2020, ParseCounts(840, {SOURCE: 165, "no formula": 2}), ParseCounts(1_007, {})),
        (2021, ParseCounts(838, {SOURCE: 5}), ParseCounts(843, {})),
        (2022, ParseCounts(1_046, {SOURCE: 2, unreadable: 2}), ParseCounts(1_048, {unreadable: 2})),
    ):
        assert count(read_presentation(pair.presentation) for pair in official[year]) == layouts
        assert count(read_content(pair.content) for pair in official[year]) == operators


@pytest.mark.heavy
def test_formulas_of_pages_are_read(pages: list[tuple[str, str]]) -> None:
    markups = [markup for _, markup in pages if markup]
    assert len(pages) - len(markups) == 357
    made = {markup: read_presentation(markup) for markup in set(markups)}
    counts = count(made[markup] for markup in markups)
    assert counts.read == 66_110
    # Tags of HTML stand in the markup of two formulas, where the organisers took text for a formula.
    assert counts.failed == {SOURCE: 1_025, "no formula": 103, "unknown element td": 1, "unknown element span": 1}
    assert len(forest.pack(reading.tree for reading in made.values())) == len(made)


@pytest.mark.slow
def test_our_reader_gives_tangents_own_trees(pages: list[tuple[str, str]], tangent: dict[str, dict[str, str]]) -> None:
    """The nine that differ were made from other LaTeX: `&lt;` taken letter by letter, a prime as `&#39;`."""
    ours: dict[str, set[str]] = {}
    for visual_id, markup in pages:
        if "slt" in tangent.get(visual_id, {}):
            ours.setdefault(visual_id, set()).add(tangent_string(read_presentation(markup).tree))
    differ = [name for name, found in ours.items() if tangent[name]["slt"] not in found]
    assert (len(ours), len(differ)) == (443, 9)


def layouts(pairs: list[Pair]) -> Iterator[tuple[Tree, Tree]]:
    """Our trees and the official ones, in which characters beyond ASCII are variables, unlike here."""
    for pair in pairs:
        tree = truth(pair, "SLT")
        if tree is not None and pair.latex.isascii():
            yield read_latex(pair.latex).tree, tree


@pytest.mark.parametrize(("year", "identical", "f1"), [(2021, 0.98, 0.99), (2022, 0.98, 0.98)])
def test_latex_gives_the_official_layout_trees(
    official: dict[int, list[Pair]], year: int, identical: float, f1: float
) -> None:
    pairs = list(layouts(official[year]))
    assert len(pairs) == {2021: 829, 2022: 1_038}[year]
    assert sum(ours == theirs for ours, theirs in pairs) / len(pairs) >= identical
    assert sum(tuple_f1(ours, theirs) for ours, theirs in pairs) / len(pairs) >= f1


def test_latex_of_every_topic_formula_is_read(official: dict[int, list[Pair]]) -> None:
    reasons = {pair.latex.strip(): read_latex(pair.latex).reason for pairs in official.values() for pair in pairs}
    # White space and a line break.
    assert {latex: why for latex, why in reasons.items() if why} == {"": "no formula", "\\\\": "no formula"}
