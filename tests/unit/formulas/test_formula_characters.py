"""Normalised LaTeX: characters beyond ASCII, dots and entities, for both parsers."""

from __future__ import annotations

import pytest

from harness.formulas.opt import read as operators
from harness.formulas.slt import read as layout
from harness.formulas.text.characters import OPERATORS, VARIABLES, commands, normalise_latex

PARSERS = (operators.read_latex, layout.read_latex)


@pytest.mark.parametrize(
    ("typed", "latex"),
    [
        ("a≤b", r"a\leq b"),
        ("x∈A×B", r"x\in A\times B"),
        ("f:X→Y", r"f:X\to Y"),
        ("∑_n^∞ √n", r"\sum_n^\infty \sqrt n"),
        ("√12x+√(α+1)-∛8", r"\sqrt{12}x+\sqrt{\alpha+1}-\sqrt[3]{8}"),
        ("xᵢ+aₙ₊₁+xᵀ+eⁱᶿ", r"x_i+a_{n+1}+x^T+e^{i\theta}"),
        ("a−b–c", "a-b-c"),
        ("α+Ω·ϕ", r"\alpha+\Omega\cdot\phi"),
        ("ℝ∪ℕ", r"\mathbb{R}\cup\mathbb{N}"),
        ("𝐀𝑥=𝔤+𝓁", r"\mathbf{A}x=\mathfrak{g}+\mathcal{l}"),
        ("f′+g″", "f'+g''"),
        ("x²+y⁻¹+z₁₂", "x^{2}+y^{-1}+z_{12}"),
        ("½x", r"\frac{1}{2}x"),
        ("1,…,n", r"1,\ldots,n"),
        ("⌊x⌋≠⟨y⟩", r"\lfloor x\rfloor\neq\langle y\rangle"),
        ("¬p∨q", r"\neg p\vee q"),
        (r"\left⟨x\right⟩", r"\left\langle x\right\rangle"),
        ("d∣n, ‖x‖", r"d\mid n, \|x\|"),
        ("(x，y)", "(x,y)"),
        ("b&gt;0", "b>0"),
        ("x=\\sqrt{y}\\", r"x=\sqrt{y}"),
    ],
)
def test_characters_are_read_as_their_commands(typed: str, latex: str) -> None:
    for parse in PARSERS:
        assert parse(typed) == parse(latex)
        assert parse(typed).reason == ""


def test_all_characters_of_the_table_are_read_as_their_first_command() -> None:
    first = {text: command for command, text in reversed(commands(VARIABLES + OPERATORS).items()) if len(text) == 1}
    characters = {character: command for character, command in first.items() if not character.isascii()}
    assert len(characters) > 200
    for parse in PARSERS:
        differ = [char for char, command in characters.items() if parse(f"a {char} b") != parse(rf"a {command} b")]
        assert set(differ) <= {"⊥", "′", "√"}  # the relation, not the constant; a script; `\\sqrt`
        assert [char for char in characters if parse(f"a {char} b").reason.startswith("unknown")] == []


@pytest.mark.parametrize(
    ("latex", "wanted"),
    [
        (r"\text{a≤b} ≤", r"\text{a≤b} \leq "),
        (r"\mbox{if $x{≤}y$}", r"\mbox{if $x{≤}y$}"),
        ("é 中 ⊰", "é 中 ⊰"),
        ("ﬁ", "fi"),
        (r"a+\dots+b,\dots,\dotsb", r"a+\cdots +b,\ldots ,\dotsb"),
        (r"\dots", r"\ldots "),
        (r"\cdot\cdot \cdot \cdot", r"\cdots \cdot"),
        ("a\\\\", "a\\\\"),
        ("a\\", "a\\ "),
        ("a &amp; b &#39;", "a & b '"),
    ],
)
def test_normalised(latex: str, wanted: str) -> None:
    assert normalise_latex(latex) == wanted
    assert normalise_latex(wanted) == wanted
