"""LaTeX read into operator trees: by LaTeXML's rules, case by case; and LaTeX that is broken, deep or large.

The expected trees follow from the rules of LaTeXML's grammar and from its trees of the ARQMath topics of 2022. Letters
in them are written upright; the trees have them in italics.
"""

from __future__ import annotations

import re
import sys

import pytest
from case_tables import table
from formula_tools import check, mutated

from harness.formulas.opt import reader as latex
from harness.formulas.opt.read import COMMANDS, read_latex
from harness.formulas.opt.tables import IGNORED, ITEMS, SPACES
from harness.formulas.text.characters import styled
from harness.formulas.trees.tree import ParsedFormula, depth, tangent_string

CASES = table("formulas/operators")
_PIECES = r"""
    { } {} [ ] ( ) | || ^ _ & ' $ % \ \\ ~ é 𝔽 x 12.5 . , \left \right \left. \right| \over \begin{matrix} \end{matrix}
    \begin{cases} \end{align} \text{a} \text{ \nosuchcommand \quad \sqrt[ \of \color[rgb]{1} \mathrm{ \bf
    \substack{a\\b} &lt; \not \pmod
"""
PIECES = [*_PIECES.split(), "\n", "\x00", "\ud800", " "]


def italic(tree: str) -> str:
    """The tree with its letters in italics."""
    return re.sub(r"V!([A-Za-z])(?=[],])", lambda match: "V!" + styled(match[1], "italic"), tree)


@pytest.mark.parametrize(("formula", "tree"), CASES)
def test_conventions(formula: str, tree: str) -> None:
    reading = read_latex(formula)
    assert (tangent_string(reading.tree), reading.reason) == (italic(tree), "")
    check(reading.tree)


@pytest.mark.parametrize(
    ("formula", "tree", "reason"),
    [*table("formulas/operator_faults"), ("a\x00", "[U!times,0[V!a],1[E!]]", "a character that is not mathematical")],
)
def test_what_cannot_be_read_is_an_error_within_what_can(formula: str, tree: str, reason: str) -> None:
    reading = read_latex(formula)
    assert (tangent_string(reading.tree), reading.reason) == (italic(tree), reason)


@pytest.mark.parametrize("row", [("a % b\nc %d", "a", "c", "d"), *table("formulas/tokens")])
def test_tokens(row: tuple[str, ...]) -> None:
    formula, *tokens = row
    assert latex.tokens(formula) == tokens


def test_every_symbol_alone_is_a_leaf() -> None:
    for token in ITEMS:
        if latex.tokens(token) != [token]:
            continue  # a character that is read as another
        reading = read_latex(token)
        assert len(reading.tree) == 1, token
        assert not reading.reason, token


@pytest.mark.parametrize("seed", range(3))
def test_fuzzed(seed: int) -> None:
    pieces = [*PIECES, *ITEMS, *COMMANDS, *IGNORED, *SPACES]
    for formula in mutated([formula for formula, _ in CASES], pieces, 1000, seed):
        reading = read_latex(formula)
        check(reading.tree)
        assert depth(reading.tree) <= 200


@pytest.mark.parametrize(
    "opening",
    [r"\sqrt{", r"\sqrt", r"\frac{a}{", r"\frac a", "x^{", r"\hat", r"\substack{", r"\begin{matrix}", r"\sqrt[", *"{("],
)
def test_deeper_levels_are_an_error(opening: str) -> None:
    reading = read_latex(opening * 5000 + "x")
    assert reading.reason
    assert depth(reading.tree) <= 200


def test_long_chains_are_cut() -> None:
    reading = read_latex("a-b+" * 1000 + "c")
    assert reading.reason == "deeper than 200 levels"
    assert depth(reading.tree) == 200
    many = read_latex("+".join("x" * 1000))
    assert many.reason == ""
    assert sum(label == "V!𝑥" for label in many.tree.labels) == 1000
    assert set(many.tree.labels) == {"V!𝑥", "U!plus"}


def test_a_caller_without_frames_left_gets_a_reading() -> None:
    def read_at(level: int) -> ParsedFormula:
        return read_at(level - 1) if level else read_latex(r"\frac{1}{" * 150 + "x" + "}" * 150)

    frame, used = sys._getframe(), 0
    while frame := frame.f_back:  # type: ignore[assignment]
        used += 1
    reading = read_at(sys.getrecursionlimit() - used - 100)
    assert tangent_string(reading.tree) == "[E!]"
    assert reading.reason == "deeper than 200 levels"


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", ["|", "|a", "^", "a,=", "]a[", "1 ", r"\left.", "a&", r"\sin ", "a|b,", r"\over", "'"]
)
def test_50_kilobytes_are_read(piece: str) -> None:
    tree = read_latex(piece * (50_000 // len(piece))).tree
    check(tree)
    assert depth(tree) <= 200
