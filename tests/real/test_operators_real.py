"""The operator tree parser on real formulas: the official topics of ARQMath, and the pages of Math Stack Exchange."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.formulas import official_pairs, truth
from harness.collections.corpora import load_corpus
from harness.formulas.opt.read import read_latex
from harness.formulas.trees.tree import Tree, count, depth, parse_tangent, tangent_string, tuple_f1

pytestmark = pytest.mark.real


def official(mirror: Path, year: int) -> list[tuple[str, Tree]]:
    """LaTeX and official tree of the formulas of a year's topics, without those that hold an error."""
    return [(pair.latex, tree) for pair in official_pairs(mirror, year) if (tree := truth(pair, "OPT"))]


# The parser was developed on the topics of 2022; those of 2021 were held out.
@pytest.mark.parametrize(
    ("year", "pairs", "identical", "distinct", "f1"),
    [(2021, 814, 0.94, 0.92, 0.97), (2022, 1_032, 0.965, 0.955, 0.975)],
)
def test_official_trees(mirror: Path, year: int, pairs: int, identical: float, distinct: float, f1: float) -> None:
    formulas = official(mirror, year)
    assert len(formulas) == pairs
    readings = [read_latex(latex) for latex, _ in formulas]
    same = [reading.tree == tree for reading, (_, tree) in zip(readings, formulas, strict=True)]
    by_latex = {latex: each for (latex, _), each in zip(formulas, same, strict=True)}
    mean = sum(tuple_f1(reading.tree, tree) for reading, (_, tree) in zip(readings, formulas, strict=True)) / pairs
    assert sum(same) / pairs >= identical
    assert sum(by_latex.values()) / len(by_latex) >= distinct
    assert mean >= f1


@pytest.mark.heavy
def test_formulas_of_pages_are_read(mirror: Path) -> None:
    formulas = {
        formula.latex for document in load_corpus("mse-pages") for formula in document.formulas if formula.latex
    }
    readings = {latex: read_latex(latex) for latex in formulas}
    counts = count(readings.values())
    assert counts.read + sum(counts.failed.values()) == len(formulas) > 20_000
    assert counts.read / len(formulas) > 0.96
    for reading in readings.values():
        assert depth(reading.tree) <= 200
        assert parse_tangent(tangent_string(reading.tree)) == reading.tree
        # What cannot be read is a node of its own, and has a reason; cells that a row lacks are no fault.
        above = [reading.tree.labels[parent] for parent in reading.tree.parents[1:]]
        faults = {place for place, label in zip(above, reading.tree.labels[1:], strict=True) if label.startswith("E!")}
        assert reading.reason or (faults <= {"M!R!"} and not reading.tree.labels[0].startswith("E!"))
