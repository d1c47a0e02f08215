"""Formulas in texts that anyone may have written: found, turned into MathML, and never anything but MathML."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from case_tables import literals
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples

from harness.render import formulas
from harness.render.formulas import ATTRIBUTES, ELEMENTS, RenderedFormula, segments, to_mathml

TOKENS = (
    *("{", "}", "^", "_", "&", "$", "'", "[", "]", "<", ">", '"', "\\", "\\\\", "a", "12", "é", "𝔽", "\u202e", "\x00"),
    *("\\frac", "\\sqrt", "\\left(", "\\right)", "\\middle|", "\\text{", "\\over", "\\limits", "\\href", "\\style"),
    *("\\class{x}", "\\unicode{", "\\color{red}", "\\hspace{9999em}", "\\begin{matrix}", "\\end{matrix}", "\\mathbb"),
    *(
        "\\begin{cases}",
        "\\end{cases}",
        "\\operatorname{",
        "\\binom",
        "\\sum",
        "<script>",
        "javascript:",
        "]]>",
        "<!--",
    ),
)


def shown(latex: str, display: bool = False) -> str | None:
    element = to_mathml(latex, display)
    return None if element is None else ElementTree.tostring(element, encoding="unicode")


def assert_harmless(element: ElementTree.Element) -> None:
    for part in element.iter():
        assert part.tag in ELEMENTS
        assert set(part.attrib) <= set(ATTRIBUTES)
        assert not any(":" in value or ";" in value for value in part.attrib.values())


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        ("x", "<mi>x</mi>"),
        ("x^2", "<msup><mi>x</mi><mn>2</mn></msup>"),
        (r"\frac{a}{b}", "<mfrac><mi>a</mi><mi>b</mi></mfrac>"),
        (r"\sqrt{2}", "<msqrt><mn>2</mn></msqrt>"),
        (r"\sqrt[3]{x}", "<mroot><mi>x</mi><mn>3</mn></mroot>"),
        (r"\mathbb{R}", "<mi>ℝ</mi>"),
        (r"\alpha_1", "<msub><mi>α</mi><mn>1</mn></msub>"),
        (r"a \le b", "<mrow><mi>a</mi><mo>≤</mo><mi>b</mi></mrow>"),
        (r"\text{if } x", "<mrow><mtext>if\u00a0</mtext><mi>x</mi></mrow>"),
    ],
)
def test_simple_formulas_become_the_mathml_one_would_write(latex: str, expected: str) -> None:
    assert shown(latex) == f"<math>{expected}</math>"


def test_displayed_sums_and_limits_have_their_bounds_above_and_below() -> None:
    assert "<munderover>" in (shown(r"\sum_{k=0}^n k", display=True) or "")
    assert "<msubsup>" in (shown(r"\sum_{k=0}^n k") or "")
    assert "<munder><mo" in (shown(r"\lim_{x \to 0} f", display=True) or "")


@pytest.mark.parametrize(
    ("latex", "letters"),
    [
        (r"\mathbf{x1}", "𝐱𝟏"),
        (r"\boldsymbol{\alpha}", "𝜶"),
        (r"\mathscr{L}", "ℒ"),
        (r"\mathscr{A}", "𝒜"),
        (r"\Bbb{Z}", "ℤ"),
        (r"\mathfrak{C}", "ℭ"),
        (r"\mathbf{+é}", "+é"),
    ],
)
def test_alphabets_are_letters_because_browsers_do_not_draw_the_attribute(latex: str, letters: str) -> None:
    element = to_mathml(latex)
    assert element is not None
    assert "".join(element.itertext()) == letters
    assert not any("mathvariant" in part.attrib for part in element.iter())


def test_functions_and_bars_have_the_space_that_tex_gives_them() -> None:
    assert '<mo lspace="0.167em" rspace="0.167em">log</mo>' in (shown(r"2\log x") or "")
    assert '<mo lspace="0" rspace="0">gcd</mo>' in (shown(r"\gcd(r, s)") or "")
    assert (shown("|a|=r") or "").count('lspace="0" rspace="0">|<') == 2


def test_equations_are_not_numbered() -> None:
    made = shown(r"\begin{align}a&=b\\c&=d\end{align}", display=True) or ""
    assert made.count("<mtr>") == 2
    assert "(1)" not in made


@pytest.mark.parametrize(
    "latex", ["<script>alert(1)</script>", r"\text{<b>x</b>}", '" onclick="x', r"a &lt; b", r"\unicode{x3c}"]
)
def test_markup_in_a_formula_is_text_or_the_formula_is_not_converted(latex: str) -> None:
    element = to_mathml(latex)
    if element is not None:
        assert_harmless(element)


@pytest.mark.parametrize("latex", [r"\unicode{x0}", r"\begin{cases} 0", " ", "^"])
def test_what_cannot_be_converted_gives_nothing(latex: str) -> None:
    assert to_mathml(latex) is None


@pytest.mark.parametrize("text", ["</mtext><script>alert(1)</script>", "if $x<4$", 'a > "b"'])
def test_text_in_a_formula_is_text(text: str) -> None:
    element = to_mathml(rf"\text{{{text}}}")
    assert element is not None
    assert_harmless(element)
    assert [part.tag for part in element.iter()] == ["math", "mtext"]
    assert "".join(element.itertext()).replace("\u00a0", " ") == text


CELLS = "a &= b \\\\ c &= d"
SPLIT = shown(rf"\begin{{split}}{CELLS}\end{{split}}", display=True)
ARRAY = shown(rf"\begin{{array}}{{rcl}}{CELLS}\end{{array}}", display=True)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        *(
            (name, SPLIT)
            for name in ("aligned", "align", "align*", "flalign", "alignedat{1}", "alignat*{1}", "aligned[t]")
        ),
        *(
            (name, ARRAY)
            for name in ("eqnarray", "eqnarray*", "IEEEeqnarray{rCl}", "array[t]{@{}rcl@{}}", "darray{rcl}")
        ),
        *(
            (name, shown(rf"\displaylines{{{CELLS}}}", display=True))
            for name in ("gather", "gathered", "gather*", "multline", "multlined")
        ),
        ("pmatrix*[r]", shown(rf"\begin{{pmatrix}}{CELLS}\end{{pmatrix}}", display=True)),
        ("dcases", shown(rf"\begin{{cases}}{CELLS}\end{{cases}}", display=True)),
        ("rcases", shown(rf"\left.\begin{{matrix}}{CELLS}\end{{matrix}}\right\}}", display=True)),
        ("psmallmatrix", shown(rf"\left(\begin{{smallmatrix}}{CELLS}\end{{smallmatrix}}\right)", display=True)),
    ],
)
def test_environments_become_tables(environment: str, expected: str) -> None:
    name = re.split(r"[\[{]", environment)[0]
    made = shown(rf"\begin{{{name}}}{environment[len(name) :]}{CELLS}\end{{{name}}}", display=True)
    assert made == expected
    assert made is not None
    assert (made.count("<mtr>"), made.count("<mtd")) == (2, 4)


def test_environments_within_formulas_keep_what_is_around_them() -> None:
    made = shown(
        r"x=\left\{\begin{aligned}a&\color{red}{=}b\\c&=\begin{gathered}d\\e\end{gathered}\end{aligned}\right."
    )
    assert made is not None
    assert [made.count(part) for part in ("<mtable", "<mtr>", "<mi>e</mi>", "<mi>x</mi>")] == [2, 4, 1, 1]
    assert shown(r"\begin{equation}\label{a}x^2\end{equation}") == shown("x^2")


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        (r"\genfrac{(}{)}{0pt}{0}{n}{k}", r"\genfrac(){0}{0}{n}{k}"),
        (r"\genfrac{(}{)}{0pt}{}{n}{k}", r"\genfrac(){0}{1}{n}{k}"),
        (r"\genfrac{}{}{0pt}{1}{n}{k}", r"\genfrac..{0}{1}{n}{k}"),
        (r"\genfrac\{\}{}{1}{n}{k}", r"\genfrac\{\}{1pt}{1}{n}{k}"),
    ],
)
def test_general_fractions_have_brackets_and_a_line_or_none(latex: str, expected: str) -> None:
    made = shown(latex)
    assert made == shown(expected)
    assert made is not None
    assert ('linethickness="0"' in made) == ("0pt" in latex)


def test_characters_that_hide_or_turn_text_are_shown_by_their_codes() -> None:
    element = to_mathml("a\u202eb\u200bc")
    assert element is not None
    text = "".join(element.itertext())
    assert text == "a[U+202E]b[U+200B]c"


@pytest.mark.parametrize("nest", ["{%s}", r"\sqrt{%s}", "x^{%s}", r"\frac{1}{%s}", r"\left(%s\right)"])
def test_deep_formulas_are_converted_up_to_a_limit_and_refused_beyond(nest: str) -> None:
    def deep(n: int) -> str:
        return nest.replace("%s", "\0").split("\0")[0] * n + "x" + nest.replace("%s", "\0").split("\0")[1] * n

    assert to_mathml(deep(50)) is not None
    assert to_mathml(deep(formulas.DEEPEST + 1)) is None


@pytest.mark.parametrize("latex", [r"\sqrt" * 900 + "x", r"\mathbf" * 900 + "x", "x" + "^x" * 900])
def test_depth_without_braces_is_no_way_round_the_limit(latex: str) -> None:
    element = to_mathml(latex)
    if element is not None:
        ElementTree.tostring(element)  # recursive: fails on what is too deep


def test_long_formulas_are_refused() -> None:
    assert to_mathml("x" * formulas.LONGEST) is not None
    assert to_mathml("x" * (formulas.LONGEST + 1)) is None


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.sampled_from(TOKENS), max_size=60).map("".join) | st.text(max_size=80), st.booleans())
def test_whatever_is_written_gives_harmless_mathml_or_nothing(latex: str, display: bool) -> None:
    element = to_mathml(latex, display)
    if element is not None:
        assert_harmless(element)
        assert ElementTree.fromstring(ElementTree.tostring(element)).tag == "math"  # noqa: S314 - our own
        assert not set("\u202e\u200b\x00") & set("".join(element.itertext()))


@pytest.mark.parametrize(("text", "expected"), literals("render/formulas_in_text"))
def test_formulas_are_found_as_mathjax_finds_them(text: str, expected: tuple[object, ...]) -> None:
    parts = tuple(RenderedFormula(*part) if isinstance(part, tuple) else part for part in expected)
    assert segments(text) == parts


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.sampled_from((*TOKENS, "$$", "\\(", "\\)", "\\[", "\\]", " ")), max_size=60).map("".join))
def test_no_text_outside_formulas_is_lost(text: str) -> None:
    at = 0
    for part in segments(text):
        words = part if isinstance(part, str) else part.latex
        found = text.find(words, at)
        assert found >= 0
        # Between parts stand delimiters and blanks only.
        assert set(text[at:found]) <= set("$\\()[] ")
        at = found + len(words)
    assert set(text[at:]) <= set("$\\()[] ")
