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
        ("b&#62;0&#x3c;c&nbsp;", "b>0<c"),
        ("x=\\sqrt{y}\\", r"x=\sqrt{y}"),
        (
            "a≢b, a≡\u0338b, a=\u0338b, A⊄B, a≉b",
            r"a\not\equiv b, a\not\equiv b, a\neq b, A\not\subset B, a\not\approx b",
        ),
        ("a⟹b⟸c", r"a\implies b\impliedby c"),
        ("a⇔b", r"a\iff b"),
        ("a⇒b⟺c", r"a\Rightarrow b\Longleftrightarrow c"),
        ("x\u0304+x\u0302_1^2+ẋ+ẍ", r"\bar{x}+\hat{x}_1^2+\dot{x}+\ddot{x}"),
        ("x\u0303+x\u20d7+x\u0305+x\u030c+x\u0306", r"\tilde{x}+\vec{x}+\overline{x}+\check{x}+\breve{x}"),
        ("x\u0301+x\u0300+x\u030a+x\u0332", r"\acute{x}+\grave{x}+\mathring{x}+\underline{x}"),
        ("x\u20db+x\u20d6+x\u20e1", r"\dddot{x}+\overleftarrow{x}+\overleftrightarrow{x}"),
        ("x\u0302\u0304, ᾱ, 𝐱\u0304", r"\bar{\hat{x}}, \bar\alpha, \bar{\mathbf{x}}"),
        ("\\theta\u0304, \\mathbf{x}\u0304", r"\bar\theta, \bar{\mathbf{x}}"),
        ("ñ+n\u0303", r"\tilde{n}+\tilde{n}"),
        ("90°, 90º, 5°30′, 25℃", r"90^\circ, 90^{\circ}, 5^\circ30', 25^\circ C"),
        ("90^°+90^{°}+2^{30°}", r"90^\circ+90^\circ+2^{30^\circ}"),
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
        assert set(differ) <= {"⊥", "′", "√", "°"}  # the relation, not the constant; a script; `\\sqrt`; `^\\circ`
        assert [char for char in characters if parse(f"a {char} b").reason.startswith("unknown")] == []


@pytest.mark.parametrize(
    ("latex", "wanted"),
    [
        (r"\text{a≤b} ≤", r"\text{a≤b} \leq "),
        (r"\mbox{if $x{≤}y$}", r"\mbox{if $x{≤}y$}"),
        ("ç 中 ⊰ \u0304", "ç 中 ⊰ \u0304"),
        ("\\text{é 90°}", "\\text{é 90°}"),
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
