"""LaTeX read into symbol layout trees, by hand-made cases, and LaTeX that is broken, deep or large."""

from __future__ import annotations

import pytest
from case_tables import literals, table
from formula_tools import check
from hypothesis import given
from hypothesis import strategies as st

from harness.formulas.mathml.read import read_presentation
from harness.formulas.slt.commands import SYMBOLS, styled
from harness.formulas.slt.read import read_latex
from harness.formulas.trees.tree import tangent_string

CASES = [(r"1\,000", "[N!1\u2009000]"), *table("formulas/layout")]


@pytest.mark.parametrize(("latex", "tree"), CASES)
def test_layout(latex: str, tree: str) -> None:
    reading = read_latex(latex)
    assert (tangent_string(reading.tree), reading.reason) == (tree, "")
    check(reading.tree)


@pytest.mark.parametrize(
    ("latex", "tree", "reason"),
    [
        *table("formulas/layout_faults"),
        ("{" * 201 + "x" + "}" * 201, "[E!]", "deeper than 200 levels"),
        (r"\sqrt" * 201 + " x", "[E!]", "deeper than 200 levels"),
    ],
)
def test_what_is_not_understood_says_why(latex: str, tree: str, reason: str) -> None:
    reading = read_latex(latex)
    assert (tangent_string(reading.tree), reading.reason) == (tree, reason)


@pytest.mark.parametrize(
    "latex", [r"\frac", r"\frac{a}", "^", "_", "x^", "'", "^^", r"\left", r"\right", r"\begin", "\\"]
)
def test_commands_without_their_arguments_do_not_raise(latex: str) -> None:
    check(read_latex(latex).tree)


@pytest.mark.parametrize(
    ("latex", "markup"),
    literals("formulas/formula_layout_latex_and_its_markup_give_one_tree"),
)  # fmt: skip
def test_latex_and_its_markup_give_one_tree(latex: str, markup: str) -> None:
    assert read_latex(latex).tree == read_presentation(f"<math>{markup}</math>").tree


def test_every_listed_symbol_is_one_node() -> None:
    for command in SYMBOLS:
        if not set("|{}") & set(SYMBOLS[command]):
            assert len(read_latex(f"a {command} b").tree) == 3, command


@pytest.mark.parametrize(
    ("font", "characters", "wanted"),
    literals("formulas/formula_layout_fonts"),
)
def test_fonts(font: str, characters: str, wanted: str) -> None:
    assert "".join(styled(character, font) for character in characters) == wanted


_PIECES = r"""
    \frac { } ^ _ \left \right ( ) [ ] | \| || & \\ x 1 $ \begin{matrix} \end{matrix} \begin{cases} \end{cases} \sqrt
    \text{ \int d \over \not \mathbb \root \of \substack \underbrace ' ? \ % ~ , \limits \tag \color \hspace \{ \}
    \langle \rangle = \dots \binom \xrightarrow \pmatrix \genfrac \sideset \stackrel \mathop \begin \end 12.5 \, ... ! :
"""
PIECES = [*_PIECES.split(), r"\rm ", "\n", "\x00", "\u202e", "\u2029"]


@pytest.mark.slow
@given(st.text(max_size=40) | st.text(alphabet="\\{}[]()^_&|$%'. xd1,ab", max_size=60))
def test_any_text_is_read(text: str) -> None:
    check(read_latex(text).tree)


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", [*PIECES, "(]", "x|_1", "|x|", "x^", "{x}", "{(", r"\text{$", "[a", r"\color[", r"\\[", "x'"]
)
def test_large_input_is_read(piece: str) -> None:
    for text in (piece * 5_000, piece * 5_000 + ")]}" * 2_000):
        tree = read_latex(text).tree
        assert len(tree) <= 3 * len(text) + 1
