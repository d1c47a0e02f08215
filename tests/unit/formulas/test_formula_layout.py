"""LaTeX read into symbol layout trees, by hand-made cases, and LaTeX that is broken, deep or large."""

from __future__ import annotations

import pytest
from formula_tools import check, mutated
from hypothesis import given
from hypothesis import strategies as st

from harness.formulas.mathml.read import read_presentation
from harness.formulas.slt.commands import SYMBOLS, styled
from harness.formulas.slt.read import read_latex
from harness.formulas.trees.tree import show

CASES = [
    ("x", "[V!x]"),
    ("x^2+y_1^{n+1}", "[V!x[+[V!y,a[V!n[+[N!1]]],b[N!1]]],a[N!2]]"),
    ("2.5x", "[N!2.5[V!x]]"),
    (r"1\,000", "[N!1\u2009000]"),
    (".5", "[N!.5]"),
    ("5.", "[N!5[.]]"),
    # Without braces TeX takes one digit.
    (r"\frac12", "[O!divide,o[N!1],u[N!2]]"),
    ("x^23", "[V!x[N!3],a[N!2]]"),
    (r"\frac{a}b", "[O!divide,o[V!a],u[V!b]]"),
    (r"\sqrt[3]{x}", "[O!root,c[N!3],w[V!x]]"),
    (r"\sqrt[[a]]x", "[O!root,c[M!&lsqb;&rsqb;1x1,w[V!a]],w[V!x]]"),
    (r"\root 3 \of x", "[O!root,c[N!3],w[V!x]]"),
    (r"\binom{n}{k}", "[M!()1x1,w[O!divide,o[V!n],u[V!k]]]"),
    (r"{n \choose k}", "[M!()1x1,w[O!divide,o[V!n],u[V!k]]]"),
    (r"a{1 \over 2}b", "[V!a[O!divide[V!b],o[N!1],u[N!2]]]"),
    # Scripts.
    (r"\sum_{i=1}^n i", "[∑[V!i],o[V!n],u[V!i[=[N!1]]]]"),
    (r"\sum\limits_i x", "[∑[V!x],u[V!i]]"),
    (r"\lim_{x\to 0} f", "[lim[V!f],u[V!x[→[N!0]]]]"),
    (r"\max_i x", "[V!max[V!x],b[V!i]]"),
    (r"\max\limits_i x", "[V!max[V!x],u[V!i]]"),
    ("f''", "[V!f,a[′′]]"),
    ("f'^2", "[V!f,a[′[N!2]]]"),
    (r"f^{\prime\prime}_1", "[V!f,a[′′],b[N!1]]"),
    # Braces in a row are no part of the layout: the exponent is that of b.
    ("{ab}^2", "[V!a[V!b,a[N!2]]]"),
    ("{}^4x", "[V!x,c[N!4]]"),
    ("x{}^4", "[V!x[W!,a[N!4]]]"),
    ("(a+b)^2", "[M!()1x1,a[N!2],w[V!a[+[V!b]]]]"),
    (r"\underbrace{ab}_n", "[M!1x1,u[V!n],w[M!1x1,u[⏟],w[V!a[V!b]]]]"),
    (r"\overline{AB}", "[M!1x1,o[¯],w[V!A[V!B]]]"),
    (r"\hat x", "[V!x,o[^]]"),
    (r"A \overset{d}{=} B", "[V!A[=[V!B],o[V!d]]]"),
    (r"\xrightarrow[a]{b}", "[→,o[V!b],u[V!a]]"),
    # Brackets.
    ("f(x,y)", "[V!f[M!()1x2,w[V!x[&comma;],e[V!y]]]]"),
    (r"\left(\frac{a}{b}\right)", "[M!()1x1,w[O!divide,o[V!a],u[V!b]]]"),
    (r"\big{(}x\big)", "[M!()1x1,w[V!x]]"),
    ("[0,1)", "[M!&lsqb;)1x2,w[N!0[&comma;],e[N!1]]]"),
    ("([a)b]", "[M!()1x1[V!b[&rsqb;]],w[&lsqb;[V!a]]]"),
    ("(a", "[([V!a]]"),
    ("a)", "[V!a[)]]"),
    (r"{\{x}\}", "[M!{}1x1,w[V!x]]"),
    (r"\{x \mid x>0, y\}", "[M!{}1x1,w[V!x[∣[V!x[>[N!0[&comma;[V!y]]]]]]]]"),
    (r"\{1,2\}", "[M!{}1x2,w[N!1[&comma;],e[N!2]]]"),
    (r"\langle a,b\rangle^2", "[M!1x1,o[N!2],w[⟨[V!a[&comma;[V!b[⟩]]]]]]"),
    ("|x||y|", "[M!||1x1[M!||1x1,w[V!y]],w[V!x]]"),
    ("||x||", "[||[V!x[||]]]"),
    (r"|x+|y||", "[M!||1x1,w[V!x[+[M!||1x1,w[V!y]]]]]"),
    (r"P(A|B)", "[V!P[M!()1x1,w[V!A[|[V!B]]]]]"),
    (r"\|x\|_2", "[M!∥∥1x1,b[N!2],w[V!x]]"),
    (r"\left\{a\right.", "[{[V!a]]"),
    ("a=fg|_{x=0}", "[V!a[=[M!1x1,b[V!x[=[N!0]]],w[V!f[V!g[|]]]]]]"),
    (r"\left.x\right|_0^1", "[M!1x1,a[N!1],b[N!0],w[V!x[|]]]"),
    # Bars of divisibility enclose neither commas, relations, connectives, text nor wide spaces.
    ("r|a", "[V!r[|[V!a]]]"),
    ("r|a,s|b", "[V!r[|[V!a[&comma;[V!s[|[V!b]]]]]]]"),
    (r"a|b \land b|c", "[V!a[|[V!b[∧[V!b[|[V!c]]]]]]]"),
    (r"p|n^2 \Rightarrow p|n", "[V!p[|[V!n[⇒[V!p[|[V!n]]]],a[N!2]]]]"),
    (r"d|a\text{ and }d|b", "[V!d[|[V!a[T!and[V!d[|[V!b]]]]]]]"),
    (r"7|n \quad 7|m", "[N!7[|[V!n[N!7[|[V!m]]]]]]"),
    ("|a|b|c|", "[M!||1x1[V!b[M!||1x1,w[V!c]]],w[V!a]]"),
    ("2|x \\wedge y|", "[N!2[|[V!x[∧[V!y[|]]]]]]"),
    ("|x \\wedge y|", "[M!||1x1,w[V!x[∧[V!y]]]]"),
    ("||x|-|y||", "[M!||1x1,w[M!||1x1[-[M!||1x1,w[V!y]]],w[V!x]]]"),
    ("|a|||b||", "[M!||1x1[||[V!b[||]]],w[V!a]]"),
    # Bases of scripts.
    ("n!^2", "[M!1x1,a[N!2],w[V!n[!]]]"),
    ("(a))^2b", "[M!()1x1[)[W![V!b],a[N!2]]],w[V!a]]"),
    (r"\sqrt{}\frac{}{x}", "[O!root[O!divide,o[W!],u[V!x]],w[W!]]"),
    # Differentials.
    (r"\int f(x)\,dx", "[∫[V!f[M!()1x1[𝑑[V!x]],w[V!x]]]]"),
    (r"\int f\,\mathrm dx", "[∫[V!f[d[V!x]]]]"),
    (r"\int f\,\mathrm{d}x", "[∫[V!f[d[V!x]]]]"),
    (r"\int\sin x\,dx", "[∫[V!sin[V!x[V!d[V!x]]]]]"),
    (r"\int\sin(x)\,dx", "[∫[V!sin[M!()1x1[𝑑[V!x]],w[V!x]]]]"),
    (r"\int\sum_n x\,dx", "[∫[∑[V!x[V!d[V!x]]],u[V!n]]]"),
    (r"\int-x\,dx", "[∫[-[V!x[V!d[V!x]]]]]"),
    (r"\int\operatorname{d}x", "[∫[V!d[V!x]]]"),
    (r"\frac{dy}{dx}", "[O!divide,o[V!d[V!y]],u[V!d[V!x]]]"),
    # Names and characters.
    (r"\sin x", "[V!sin[V!x]]"),
    (r"\operatorname{lcm}(a)", "[V!lcm[M!()1x1,w[V!a]]]"),
    (r"{\rm Ord}(a)b", "[V!Ord[M!()1x1[V!b],w[V!a]]]"),
    (r"\mathbb{R}^n", "[V!ℝ,a[V!n]]"),
    (r"\mathbb Rx", "[V!ℝ[V!x]]"),
    (r"\mathbf{Set}", "[V!𝐒𝐞𝐭]"),
    (r"\mathbf{1}_A", "[N!𝟏,b[V!A]]"),
    (r"\mathcal{F}\mathfrak{g}", "[V!ℱ[V!𝔤]]"),
    (r"a \not= b \not\in c", "[V!a[≠[V!b[∉[V!c]]]]]"),
    ("a:=b", "[V!a[:=[V!b]]]"),
    ("n!!", "[V!n[!!]]"),
    (r"1,\dots,n", "[N!1[&comma;[V!…[&comma;[V!n]]]]]"),
    (r"1+\dots+n", "[N!1[+[V!⋯[+[V!n]]]]]"),
    (r"1\cdot\cdot\cdot n\dots\to", "[N!1[V!⋯[V!n[V!…[→]]]]]"),
    (r"\varprojlim X", "[V!lim[V!X],u[←]]"),
    (r"a \pmod{n}", "[V!a[M!()1x1,w[mod[V!n]]]]"),
    ("=?", "[=[V!qvar_$]]"),
    # Text.
    (r"\text{ if }x", "[T!if[V!x]]"),
    (r"\text{if $n=1$, or}", "[T!if[V!n[=[N!1[T!&comma; or]]]]]"),
    (r"\text{a {b} \% c}", "[T!a b % c]"),
    (r"\boxed{x}", "[box,w[V!x]]"),
    # Left out.
    (r"\displaystyle x\quad y % remark", "[V!x[V!y]]"),
    (r"x \tag{1} \label{a}", "[V!x]"),
    (r"\color{red}x \hspace{1cm} y \hskip 3pt z", "[V!x[V!y[V!z]]]"),
    (r"a\phantom{b}c", "[V!a[V!c]]"),
    # Matrices.
    (r"\begin{pmatrix}1&2\\3&4\\\end{pmatrix}", "[M!()2x2,w[N!1,e[N!2,e[N!3,e[N!4]]]]]"),
    (r"\left(\begin{array}{cc}1&2\end{array}\right)", "[M!()1x2,w[N!1,e[N!2]]]"),
    (r"\begin{cases}a&b\\c\end{cases}", "[{[M!2x2,w[V!a,e[V!b,e[V!c,e[W!]]]]]]"),
    (r"\begin{align*}x\end{align*}", "[V!x]"),
    (r"\begin{equation}x=y\end{equation}", "[V!x[=[V!y]]]"),
    (r"\sum_{\substack{a\\b}}", "[∑,u[M!2x1,w[V!a,e[V!b]]]]"),
    (r"\begin{matrix}\begin{matrix}a\end{matrix}&b\end{matrix}", "[M!1x2,w[M!1x1,w[V!a],e[V!b]]]"),
    (r"\begin{array}{rr}a\\b\end{array}", "[M!2x2,w[V!a,e[W!,e[V!b,e[W!]]]]]"),
    (r"\matrix{a & b \cr c & d}", "[M!2x2,w[V!a,e[V!b,e[V!c,e[V!d]]]]]"),
    (r"\pmatrix{a & b \cr c & d \crcr}", "[M!()2x2,w[V!a,e[V!b,e[V!c,e[V!d]]]]]"),
    (r"f=\cases{a & b \cr c}", "[V!f[=[{[M!2x2,w[V!a,e[V!b,e[V!c,e[W!]]]]]]]]"),
    (r"\eqalign{a &= b \cr c &= d}", "[M!2x2,w[V!a,e[=[V!b],e[V!c,e[=[V!d]]]]]]"),
    # General fractions and scripts at the sides of an operator.
    (r"\genfrac{(}{)}{0pt}{}{n}{k}", "[M!()1x1,w[O!divide,o[V!n],u[V!k]]]"),
    (r"\genfrac\{\}{0pt}{1}nk", "[M!{}1x1,w[O!divide,o[V!n],u[V!k]]]"),
    (r"\genfrac{}{}{}{0}{a}{b}c", "[O!divide[V!c],o[V!a],u[V!b]]"),
    (r"\sideset{_1^2}{_3^4}\prod", "[∏,a[N!4],b[N!3],c[N!2],d[N!1]]"),
    (r"\sideset{}{'}\sum_{k} a", "[∑[V!a],a[′],b[V!k]]"),
]


@pytest.mark.parametrize(("latex", "tree"), CASES)
def test_layout(latex: str, tree: str) -> None:
    reading = read_latex(latex)
    assert (show(reading.tree), reading.reason) == (tree, "")
    check(reading.tree)


@pytest.mark.parametrize(
    ("latex", "tree", "reason"),
    [
        ("", "[E!]", "no formula"),
        (r"\,", "[E!]", "no formula"),
        (r"a\nosuchcommand b", "[V!a[E![V!b]]]", r"unknown command \nosuchcommand"),
        ("{a", "[V!a]", "braces, brackets or environments that do not match"),
        ("a}b", "[V!a[V!b]]", "braces, brackets or environments that do not match"),
        (r"\left(a", "[([V!a]]", "braces, brackets or environments that do not match"),
        (r"a\right)", "[V!a[)]]", "braces, brackets or environments that do not match"),
        (r"\begin{pmatrix}a&b", "[M!()1x2,w[V!a,e[V!b]]]", "braces, brackets or environments that do not match"),
        (r"a\end{pmatrix}", "[V!a]", "braces, brackets or environments that do not match"),
        (r"\begin{pmatrix}a\end{bmatrix}", "[M!()1x1,w[V!a]]", "braces, brackets or environments that do not match"),
        (r"\left\nosuch a\right)", "[E![V!a[)]]]", r"unknown command \nosuch"),
        (r"\frac{a", "[O!divide,o[V!a],u[W!]]", "braces, brackets or environments that do not match"),
        (r"\matrix a", "[V!a]", "a missing argument"),
        (r"\text{a", "[T!a]", "braces, brackets or environments that do not match"),
        ("{" * 201 + "x" + "}" * 201, "[E!]", "deeper than 200 levels"),
        (r"\sqrt" * 201 + " x", "[E!]", "deeper than 200 levels"),
    ],
)
def test_what_is_not_understood_says_why(latex: str, tree: str, reason: str) -> None:
    reading = read_latex(latex)
    assert (show(reading.tree), reading.reason) == (tree, reason)


@pytest.mark.parametrize(
    "latex", [r"\frac", r"\frac{a}", "^", "_", "x^", "'", "^^", r"\left", r"\right", r"\begin", "\\"]
)
def test_commands_without_their_arguments_do_not_raise(latex: str) -> None:
    check(read_latex(latex).tree)


@pytest.mark.parametrize(
    ("latex", "markup"),
    [
        (r"\frac{a+b}{c}", "<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mi>c</mi></mfrac>"),
        ("x_1^2", "<msubsup><mi>x</mi><mn>1</mn><mn>2</mn></msubsup>"),
        ("(a,b)^2", "<msup><mrow><mo>(</mo><mi>a</mi><mo>,</mo><mi>b</mi><mo>)</mo></mrow><mn>2</mn></msup>"),
        (r"\sqrt{x}", "<msqrt><mi>x</mi></msqrt>"),
        (r"\bigl[x\bigr]", "<mrow><mo>[</mo><mi>x</mi><mo>]</mo></mrow>"),
        (r"\underset{x}{y}", "<munder><mi>y</mi><mi>x</mi></munder>"),
        (r"\begin{vmatrix}a&b\end{vmatrix}",
         "<mrow><mo>|</mo><mtable><mtr><mtd><mi>a</mi></mtd><mtd><mi>b</mi></mtd></mtr></mtable><mo>|</mo></mrow>"),
    ],
)  # fmt: skip
def test_latex_and_its_markup_give_one_tree(latex: str, markup: str) -> None:
    assert read_latex(latex).tree == read_presentation(f"<math>{markup}</math>").tree


def test_every_listed_symbol_is_one_node() -> None:
    for command in SYMBOLS:
        if not set("|{}") & set(SYMBOLS[command]):
            assert len(read_latex(f"a {command} b").tree) == 3, command


@pytest.mark.parametrize(
    ("font", "characters", "wanted"),
    [
        ("bb", "ACR1", "𝔸ℂℝ𝟙"),
        ("cal", "ABz", "𝒜ℬ𝓏"),
        ("frak", "ACz", "𝔄ℭ𝔷"),
        ("bf", "Aa0Ω", "𝐀𝐚𝟎𝛀"),
        ("bm", "aω", "𝒂𝝎"),
        ("it", "gh", "𝑔ℎ"),
        ("sf", "Az", "𝖠𝗓"),
        ("tt", "a9", "𝚊𝟿"),
        ("rm", "aé", "aé"),
    ],
)
def test_fonts(font: str, characters: str, wanted: str) -> None:
    assert "".join(styled(character, font) for character in characters) == wanted


PIECES = [
    r"\frac",
    "{",
    "}",
    "^",
    "_",
    r"\left",
    r"\right",
    "(",
    ")",
    "[",
    "]",
    "|",
    r"\|",
    "||",
    "&",
    r"\\",
    "x",
    "1",
    "$",
]
PIECES += [
    r"\begin{matrix}",
    r"\end{matrix}",
    r"\begin{cases}",
    r"\end{cases}",
    r"\sqrt",
    r"\text{",
    r"\int",
    "d",
    r"\over",
]
PIECES += [
    r"\not",
    r"\mathbb",
    r"\rm ",
    r"\root",
    r"\of",
    r"\substack",
    r"\underbrace",
    "'",
    "?",
    "\\",
    "%",
    "\n",
    "~",
    ",",
]
PIECES += [
    r"\limits",
    r"\tag",
    r"\color",
    r"\hspace",
    r"\{",
    r"\}",
    r"\langle",
    r"\rangle",
    "=",
    r"\dots",
    r"\binom",
    "\x00",
]
PIECES += [
    r"\xrightarrow",
    r"\pmatrix",
    r"\genfrac",
    r"\sideset",
    r"\stackrel",
    "\u202e",
    r"\mathop",
    r"\begin",
    r"\end",
    "12.5",
    r"\,",
    "...",
    "!",
    ":",
    "\u2029",
]


@pytest.mark.slow
def test_broken_latex_never_raises() -> None:
    for latex in mutated([latex for latex, _ in CASES], PIECES, 4_000, seed=2):
        tree = read_latex(latex).tree
        check(tree)
        # A character gives at most three nodes: its own, that of a matrix around it, a blank.
        assert len(tree) <= 3 * len(latex) + 1


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


@pytest.mark.slow
def test_a_long_formula_is_read_whole() -> None:
    assert len(read_latex("x" * 100_000).tree) == 100_000
    assert read_latex("{" * 1_000_000).reason == "deeper than 200 levels"
