"""LaTeX read into operator trees: by LaTeXML's rules, case by case; and LaTeX that is broken, deep or large.

The expected trees follow from the rules of LaTeXML's grammar and from its trees of the ARQMath topics of 2022. Letters
in them are written upright; the trees have them in italics.
"""

from __future__ import annotations

import re
import sys
import unicodedata

import pytest
from formula_tools import check, mutated
from hypothesis import given
from hypothesis import strategies as st

from harness.formulas.opt import tokens as latex
from harness.formulas.opt.commands import COMMANDS
from harness.formulas.opt.read import read_latex
from harness.formulas.opt.tables import IGNORED, ITEMS, SPACES, styled
from harness.formulas.trees.reading import Reading
from harness.formulas.trees.tree import depth, show

MISMATCH = "braces, brackets or environments that do not match"
CASES = [
    ("x", "[V!x]"),
    ("2.5x", "[U!times,0[N!2.5],1[V!x]]"),
    ("x^2+y_1^{n+1}", "[U!plus,0[O!SUP,0[V!x],1[N!2]],1[O!SUP,0[O!SUB,0[V!y],1[N!1]],1[U!plus,0[V!n],1[N!1]]]]"),
    (r"\frac12", "[O!divide,0[N!1],1[N!2]]"),
    (r"\frac{a}b", "[O!divide,0[V!a],1[V!b]]"),
    ("x^23", "[U!times,0[O!SUP,0[V!x],1[N!2]],1[N!3]]"),
    ("f'", "[O!SUP,0[V!f],1[V!′]]"),
    ("f''^2", "[O!SUP,0[V!f],1[M!L-2,0[V!′′],1[N!2]]]"),
    (r"f^{\prime\prime}", "[O!SUP,0[V!f],1[V!′′]]"),
    (r"\sqrt x", "[O!root,0[V!x],1[N!2]]"),
    (r"\sqrt[3]{x}", "[O!root,0[V!x],1[N!3]]"),
    (r"\root 3 \of x", "[O!root,0[V!x],1[N!3]]"),
    (r"{a \over b+c}d", "[U!times,0[O!divide,0[V!a],1[U!plus,0[V!b],1[V!c]]],1[V!d]]"),
    (r"\binom{n}{k}", "[O!binomial,0[V!n],1[V!k]]"),
    ("n!", "[O!factorial,0[V!n]]"),
    ("a+b+c", "[U!plus,0[V!a],1[V!b],2[V!c]]"),
    ("a-b-c", "[O!minus,0[V!a],1[V!b],2[V!c]]"),
    ("a-b+c", "[U!plus,0[O!minus,0[V!a],1[V!b]],1[V!c]]"),
    ("-a+b", "[U!plus,0[O!minus,0[V!a]],1[V!b]]"),
    ("(a+b)+c", "[U!plus,0[U!plus,0[V!a],1[V!b]],1[V!c]]"),
    ("abc", "[U!times,0[V!a],1[V!b],2[V!c]]"),
    ("a(bc)", "[U!times,0[V!a],1[U!times,0[V!b],1[V!c]]]"),
    ("a/bc", "[U!times,0[O!divide,0[V!a],1[V!b]],1[V!c]]"),
    ("a/b/c", "[O!divide,0[V!a],1[V!b],2[V!c]]"),
    (r"a\cdot b\times c", "[U!times,0[F!⋅,0[V!a],1[V!b]],1[V!c]]"),
    (r"ab\times c", "[U!times,0[U!times,0[V!a],1[V!b]],1[V!c]]"),
    ("f(x)", "[U!times,0[V!f],1[V!x]]"),
    ("f(x,y)", "[U!times,0[V!f],1[O!interval(O-O),0[V!x],1[V!y]]]"),
    (r"\sin x", "[F!sin,0[V!x]]"),
    (r"\sin 2x(y+1)", "[U!times,0[F!sin,0[U!times,0[N!2],1[V!x]]],1[U!plus,0[V!y],1[N!1]]]"),
    (r"\sin x\cos y", "[U!times,0[F!sin,0[V!x]],1[F!cos,0[V!y]]]"),
    (r"\sin^2 x", "[+!F!sin,0[O!SUP,0[F!sin],1[N!2]],1[V!x]]"),
    (r"\sin(x)^2", "[O!SUP,0[F!sin,0[V!x]],1[N!2]]"),
    (r"\gcd(a,n)=1", "[U!eq,0[F!gcd,0[V!a],1[V!n]],1[N!1]]"),
    (r"\log\sin x", "[F!log,0[F!sin,0[V!x]]]"),
    (r"\operatorname{ord}_n(a)", "[+!V!ord,0[O!SUB,0[V!ord],1[V!n]],1[V!a]]"),
    (r"\max\{a,b\}", "[F!max,0[V!a],1[V!b]]"),
    (r"\nabla f", "[F!∇,0[V!f]]"),
    (r"\nabla\cdot F", "[F!⋅,0[V!∇],1[V!F]]"),
    (r"\partial u v", "[U!times,0[O!partialdiff,0[V!u]],1[V!v]]"),
    (
        r"\sum_{i=1}^n i x + 1",
        "[U!plus,0[+!O!SUB,0[O!SUP,0[O!SUB,0[O!sum],1[U!eq,0[V!i],1[N!1]]],1[V!n]],1[U!times,0[V!i],1[V!x]]],1[N!1]]",
    ),
    (r"\int f(x)\,dx", "[O!int,0[U!times,0[V!f],1[V!x],2[F!d,0[V!x]]],1[W!],2[W!]]"),
    (
        r"\int_0^1 x\,\mathrm{d}x",
        "[+!O!SUB,0[O!SUP,0[O!SUB,0[O!int],1[N!0]],1[N!1]],1[U!times,0[V!x],1[F!d,0[V!x]]]]",
    ),
    (
        r"\lim_{x\to 0^+} f(x)",
        "[+!O!limit,0[O!SUB,0[O!limit],1[F!→,0[V!x],1[O!SUP,0[N!0],1[U!plus]]]],1[U!times,0[V!f],1[V!x]]]",
    ),
    (r"\forall x\in X", "[O!in,0[O!forall,0[V!x]],1[V!X]]"),
    (
        r"\prod_i a_i \sum_j b_j",
        "[+!O!product,0[O!SUB,0[O!product],1[V!i]],1[U!times,0[O!SUB,0[V!a],1[V!i]],1[+!O!sum,0[O!SUB,"
        "0[O!sum],1[V!j]],1[O!SUB,0[V!b],1[V!j]]]]]",
    ),
    ("a=b", "[U!eq,0[V!a],1[V!b]]"),
    ("a=b=c", "[U!and,0[U!eq,0[V!a],1[V!b]],1[U!eq,0[V!c]]]"),
    (r"a<b\le c", "[U!and,0[O!lt,0[V!a],1[V!b]],1[O!leq,0[V!c]]]"),
    ("=b", "[U!eq,0[W!],1[V!b]]"),
    ("a=", "[U!eq,0[V!a],1[W!]]"),
    (r"A\supseteq B", "[O!subset,0[V!B],1[V!A]]"),
    (r"x\ni y", "[O!in,0[V!y],1[V!x]]"),
    (r"a\to b\Rightarrow c", "[U!and,0[F!→,0[V!a],1[V!b]],1[F!⇒,0[V!c]]]"),
    (r"f:A\to B", "[F!:,0[V!f],1[F!→,0[V!A],1[V!B]]]"),
    (r"p\iff q\iff r", "[U!and,0[O!iff,0[V!p],1[V!q]],1[O!iff,0[V!r]]]"),
    ("a,b,c", "[M!L-3,0[V!a],1[V!b],2[V!c]]"),
    (r"a,b\in C", "[O!in,0[M!L-2,0[V!a],1[V!b]],1[V!C]]"),
    ("a=b,c", "[U!eq,0[V!a],1[M!L-2,0[V!b],1[V!c]]]"),
    ("a=b,c=d", "[O!form-seq,0[U!eq,0[V!a],1[V!b]],1[U!eq,0[V!c],1[V!d]]]"),
    ("a=b<c,d=e", "[O!form-seq,0[U!and,0[U!eq,0[V!a],1[V!b]],1[O!lt,0[V!c]]],1[U!eq,0[V!d],1[V!e]]]"),
    (r"a=b,\quad c", "[U!eq,0[V!a],1[M!L-2,0[V!b],1[V!c]]]"),
    ("|x|", "[F!abs,0[V!x]]"),
    ("|x|^2", "[O!SUP,0[F!abs,0[V!x]],1[N!2]]"),
    ("||x||", "[O!norm,0[V!x]]"),
    ("||x|-|y||", "[F!abs,0[O!minus,0[F!abs,0[V!x]],1[F!abs,0[V!y]]]]"),
    (r"\|x\|_2", "[O!SUB,0[O!norm,0[V!x]],1[N!2]]"),
    ("|a||b|", "[U!times,0[F!abs,0[V!a]],1[F!abs,0[V!b]]]"),
    ("|a|b|c|", "[U!times,0[F!abs,0[V!a]],1[V!b],2[F!abs,0[V!c]]]"),
    ("2|x|", "[U!times,0[N!2],1[F!abs,0[V!x]]]"),
    (r"\ln|x|", "[F!ln,0[F!abs,0[V!x]]]"),
    ("P(A|B)", "[U!times,0[V!P],1[O!conditional,0[V!A],1[V!B]]]"),
    ("P(A|B,C)", "[U!times,0[V!P],1[O!conditional,0[V!A],1[M!L-2,0[V!B],1[V!C]]]]"),
    (r"n\mid rs", "[O!conditional,0[V!n],1[U!times,0[V!r],1[V!s]]]"),
    (r"a\mid b\mid c", "[O!conditional,0[O!conditional,0[V!a],1[V!b]],1[V!c]]"),
    ("f|_{x=0}", "[O!evaluated-at,0[V!f],1[U!eq,0[V!x],1[N!0]]]"),
    (r"\left.f\right|_a^b", "[O!evaluated-at,0[V!f],1[V!a],2[V!b]]"),
    (r"\left|x\right|", "[F!abs,0[V!x]]"),
    (r"\lfloor x\rfloor", "[F!floor,0[V!x]]"),
    (r"\lceil x\rceil", "[F!ceiling,0[V!x]]"),
    ("[0,1)", "[O!interval(C-O),0[N!0],1[N!1]]"),
    ("]0,1[", "[O!interval(O-O),0[N!0],1[N!1]]"),
    ("[0,1[", "[O!interval(C-O),0[N!0],1[N!1]]"),
    ("(a,b,c)", "[M!V-3,0[V!a],1[V!b],2[V!c]]"),
    ("(a;b)", "[M!L-2,0[V!a],1[V!b]]"),
    ("[x]", "[M!D-lsqb;&rsqb;,0[V!x]]"),
    (r"\{a\}", "[M!S-1,0[V!a]]"),
    (r"\{a,b\}", "[M!S-2,0[V!a],1[V!b]]"),
    (r"\{x\mid x>0\}", "[O!conditional-set,0[V!x],1[O!gt,0[V!x],1[N!0]]]"),
    (
        r"\{x\in A : x>0, x<1\}",
        "[O!conditional-set,0[O!in,0[V!x],1[V!A]],1[O!form-seq,0[O!gt,0[V!x],1[N!0]],1[O!lt,0[V!x],1[N!1]]]]",
    ),
    (r"\langle a,b\rangle", "[M!L-2,0[V!a],1[V!b]]"),
    (r"\langle a|b\rangle", "[O!inner-product,0[V!a],1[V!b]]"),
    (r"\langle a|H|b\rangle", "[O!quantum-operator-product,0[V!a],1[V!H],2[V!b]]"),
    ("()", "[M!L-0]"),
    ("(G,+)", "[O!interval(O-O),0[V!G],1[U!plus]]"),
    (r"1\pmod n", "[O!annotated,0[N!1],1[F!pmod,0[V!n]]]"),
    (r"7\bmod 3", "[O!rem,0[N!7],1[N!3]]"),
    (r"x(\bmod 3)", "[O!annotated,0[V!x],1[O!rem,0[W!],1[N!3]]]"),
    (r"\begin{pmatrix}1&2\\3&4\\\end{pmatrix}", "[O!matrix,0[M!M-2x2,0[M!R!,0[N!1],1[N!2]],1[M!R!,0[N!3],1[N!4]]]]"),
    (r"\begin{vmatrix}a\end{vmatrix}", "[F!det,0[O!matrix,0[M!M-1x1,0[M!R!,0[V!a]]]]]"),
    (
        r"\left[\begin{array}{c|c}a&b\\c\end{array}\right]",
        "[M!D-lsqb;&rsqb;,0[M!M-2x2,0[M!R!,0[V!a],1[V!b]],1[M!R!,0[V!c],1[E!]]]]",
    ),
    (r"\begin{cases}a&b\\c\end{cases}", "[O!cases,0[V!a],1[V!b],2[V!c],3[W!]]"),
    (r"\left\{\begin{array}{l}a\\b\end{array}\right.", "[O!cases,0[V!a],1[V!b]]"),
    (r"\sum_{\substack{a\\b}}", "[O!SUB,0[O!sum],1[M!M-2x1,0[M!R!,0[V!a]],1[M!R!,0[V!b]]]]"),
    (
        r"\begin{align*}a&=b\\&=c+d\\&+e\\x&<y\end{align*}",
        "[O!form-seq,0[U!and,0[U!eq,0[V!a],1[V!b]],1[U!eq,0[U!plus,0[V!c],1[V!d],2[V!e]]]],1[O!lt,0[V!x],1[V!y]]]",
    ),
    (r"a=b\\=c", "[U!and,0[U!eq,0[V!a],1[V!b]],1[U!eq,0[V!c]]]"),
    (r"\mathbb{R}^n", "[O!SUP,0[V!ℝ],1[V!n]]"),
    (r"\mathbb Rx", "[U!times,0[V!ℝ],1[V!x]]"),
    (r"\mathrm{lcm}(a)", "[U!times,0[V!lcm],1[V!a]]"),
    (r"{\rm Ord}x", "[U!times,0[V!Ord],1[V!x]]"),
    (r"\mathbf{Set}", "[V!𝐒𝐞𝐭]"),
    (r"\mathbf x", "[V!𝐱]"),
    (r"\boldsymbol\alpha", "[V!𝜶]"),
    (r"\mathcal{F}\mathfrak{g}", "[U!times,0[V!ℱ],1[V!𝔤]]"),
    (r"\text{if $x$ }y", "[U!times,0[W!],1[V!y]]"),
    (r"x\text{ is \{ odd\}}", "[U!times,0[V!x],1[W!]]"),
    (r"\overline{x+y}", "[F!¯,0[U!plus,0[V!x],1[V!y]]]"),
    (r"\hat x_i", "[O!SUB,0[F!^,0[V!x]],1[V!i]]"),
    (r"\vec{a}", "[F!→,0[V!a]]"),
    (r"\stackrel{d}{=}", "[O!SUP,0[U!eq],1[V!d]]"),
    (r"A\overset{d}{=}B", "[+!U!eq,0[O!SUP,0[U!eq],1[V!d]],1[V!A],2[V!B]]"),
    (r"\xrightarrow[a]{b}", "[O!SUB,0[O!SUP,0[V!→],1[V!b]],1[V!a]]"),
    (r"a\not\in B", "[O!notin,0[V!a],1[V!B]]"),
    (r"a\not= b", "[U!neq,0[V!a],1[V!b]]"),
    (r"a\not\equiv b", "[O!not-equivalent-to,0[V!a],1[V!b]]"),
    (r"x\tag{1}\label{a}", "[V!x]"),
    (r"\color{red}x\color[rgb]{0,1,0}{y}", "[U!times,0[V!x],1[V!y]]"),
    (r"\textcolor{red}{x}", "[V!x]"),
    (r"a\phantom{b}c", "[U!times,0[V!a],1[V!c]]"),
    ("{}^4x", "[O!SUP,0[V!x],1[N!4]]"),
    ("{}_a^bx", "[O!SUB,0[O!SUP,0[V!x],1[V!b]],1[V!a]]"),
    ("x^{*}", "[O!SUP,0[V!x],1[U!times]]"),
    (r"x^{\ge 0}", "[O!SUP,0[V!x],1[O!geq,0[W!],1[N!0]]]"),
    ("x_{i,j}", "[O!SUB,0[V!x],1[M!L-2,0[V!i],1[V!j]]]"),
    ("x_{ij}", "[O!SUB,0[V!x],1[U!times,0[V!i],1[V!j]]]"),
    (r"1,\dots,n", "[M!L-3,0[N!1],1[V!…],2[V!n]]"),
    ("1+. . .+n", "[U!plus,0[N!1],1[V!…],2[V!n]]"),
    ("a <= b", "[O!leq,0[V!a],1[V!b]]"),
    (r"1\,000+10{,}000+1 0", "[U!plus,0[N!1000],1[N!10000],2[N!10]]"),
    ("0&lt;x", "[O!lt,0[N!0],1[V!x]]"),
    (r"\big{(}x\big{)}", "[V!x]"),
    ("{a+b}c", "[U!plus,0[V!a],1[U!times,0[V!b],1[V!c]]]"),
    ("a{}b", "[U!times,0[V!a],1[V!b]]"),
    ("x(>0)", "[O!annotated,0[V!x],1[O!gt,0[W!],1[N!0]]]"),
    ("a+", "[O!limit-from,0[V!a],1[U!plus]]"),
    (r"\neg p\wedge\neg(q)", "[U!and,0[U!times,0[O!not],1[V!p]],1[O!not,0[V!q]]]"),
    # Bars of divisibility.
    ("r|a", "[O!conditional,0[V!r],1[V!a]]"),
    ("r|a,s|b", "[M!L-2,0[O!conditional,0[V!r],1[V!a]],1[O!conditional,0[V!s],1[V!b]]]"),
    (r"a|b\land b|c", "[U!and,0[O!conditional,0[V!a],1[V!b]],1[O!conditional,0[V!b],1[V!c]]]"),
    (r"a\mid b\lor b\mid c", "[U!or,0[O!conditional,0[V!a],1[V!b]],1[O!conditional,0[V!b],1[V!c]]]"),
    (r"d|a\text{ and }d|b", "[M!L-2,0[O!conditional,0[V!d],1[V!a]],1[O!conditional,0[V!d],1[V!b]]]"),
    (r"P(A|B\land C)", "[U!times,0[V!P],1[O!conditional,0[V!A],1[U!and,0[V!B],1[V!C]]]]"),
    ("|a|b|c|", "[U!times,0[F!abs,0[V!a]],1[V!b],2[F!abs,0[V!c]]]"),
    (r"\text{if }|x\land y|", "[U!times,0[W!],1[F!abs,0[U!and,0[V!x],1[V!y]]]]"),
    (r"\{x|x>0\}", "[O!conditional-set,0[V!x],1[O!gt,0[V!x],1[N!0]]]"),
    (r"\{2|x|:x\in A\}", "[O!conditional-set,0[U!times,0[N!2],1[F!abs,0[V!x]]],1[O!in,0[V!x],1[V!A]]]"),
    (r"\{x|f(x)|n\}", "[O!conditional-set,0[V!x],1[O!conditional,0[U!times,0[V!f],1[V!x]],1[V!n]]]"),
    ("f|_A", "[O!evaluated-at,0[V!f],1[V!A]]"),
    # Plain TeX, general fractions, scripts at the sides of an operator.
    (r"\pmatrix{a & b \cr c & d \crcr}", "[O!matrix,0[M!M-2x2,0[M!R!,0[V!a],1[V!b]],1[M!R!,0[V!c],1[V!d]]]]"),
    (r"\cases{a & b \cr c}", "[O!cases,0[V!a],1[V!b],2[V!c],3[W!]]"),
    (r"\eqalign{a &= b \cr &= c}", "[U!and,0[U!eq,0[V!a],1[V!b]],1[U!eq,0[V!c]]]"),
    (r"\genfrac{(}{)}{0pt}{}{n}{k}", "[O!binomial,0[V!n],1[V!k]]"),
    (r"\genfrac[]{0pt}{1}nk", "[F!FRACOP,0[V!n],1[V!k]]"),
    (r"\genfrac{}{}{}{0}{a}{b}", "[O!divide,0[V!a],1[V!b]]"),
    (r"\sideset{_1^2}{_3}\prod", "[O!SUB,0[O!SUB,0[O!SUP,0[O!product],1[N!2]],1[N!1]],1[N!3]]"),
    # Numbers, moduli, ellipses and spaces.
    (r"2\frac13", "[U!plus,0[N!2],1[O!divide,0[N!1],1[N!3]]]"),
    (r"2/3", "[O!divide,0[N!2],1[N!3]]"),
    ("n!!", "[O!double-factorial,0[V!n]]"),
    ("(n!)!", "[O!factorial,0[O!factorial,0[V!n]]]"),
    (r"5\mod 47", "[O!rem,0[N!5],1[N!47]]"),
    (r"a+\dots+b", "[U!plus,0[V!a],1[V!⋯],2[V!b]]"),
    (r"a\hskip -3.5pt b\hspace{1em}c", "[U!times,0[V!a],1[V!b],2[V!c]]"),
    (r"a=b\quad\implies\quad c=d", "[U!and,0[U!eq,0[V!a],1[V!b]],1[O!implies,0[V!c]],2[U!eq,0[V!d]]]"),
    (r"\mathop{\sum}\limits_i a", "[+!O!sum,0[O!SUB,0[O!sum],1[V!i]],1[V!a]]"),
    (r"f^{\prime 2}", "[O!SUP,0[V!f],1[M!L-2,0[V!′],1[N!2]]]"),
    ("x^{{}^2}", "[O!SUP,0[V!x],1[N!2]]"),
    (r"A\supseteq B=C", "[U!and,0[O!superset-of-or-equals,0[V!A],1[V!B]],1[U!eq,0[V!C]]]"),
    (r"\cos{(x)}", "[F!cos,0[V!x]]"),
    (r"\sin\frac{a}{b}", "[F!sin,0[O!divide,0[V!a],1[V!b]]]"),
    (r"e^\frac12", "[O!SUP,0[V!e],1[O!divide,0[N!1],1[N!2]]]"),
    (r"f\colon A\to B", "[F!:,0[V!f],1[F!→,0[V!A],1[V!B]]]"),
    ("A:=B", "[O!assign,0[V!A],1[V!B]]"),
    (r"\int{f\,\mathrm{d}x}", "[O!int,0[U!times,0[V!f],1[F!d,0[V!x]]],1[W!],2[W!]]"),
    (r"\iint f", "[O!double-integral,0[V!f]]"),
]
PIECES = [
    *("{", "}", "{}", "[", "]", "(", ")", "|", "||", "^", "_", "&", "'", "$", "%", "\\", "\\\\", "~", "\n", "\x00"),
    *(
        "\ud800",
        "é",
        "𝔽",
        "x",
        "12.5",
        ".",
        ",",
        "\\left",
        "\\right",
        "\\left.",
        "\\right|",
        "\\over",
        "\\begin{matrix}",
    ),
    *("\\end{matrix}", "\\begin{cases}", "\\end{align}", "\\text{a}", "\\text{", "\\nosuchcommand", "\\quad", " "),
    *("\\sqrt[", "\\of", "\\color[rgb]{1}", "\\mathrm{", "\\bf", "\\substack{a\\\\b}", "&lt;", "\\not", "\\pmod"),
]


def italic(tree: str) -> str:
    """The tree with its letters in italics."""
    return re.sub(r"V!([A-Za-z])(?=[],])", lambda match: "V!" + styled(match[1], "italic"), tree)


@pytest.mark.parametrize(("formula", "tree"), CASES)
def test_conventions(formula: str, tree: str) -> None:
    reading = read_latex(formula)
    assert (show(reading.tree), reading.reason) == (italic(tree), "")
    check(reading.tree)


@pytest.mark.parametrize(
    ("formula", "tree", "reason"),
    [
        ("", "[E!]", "no formula"),
        (r"\,", "[E!]", "no formula"),
        (r"a\nosuch b", r"[U!times,0[V!a],1[E!\nosuch],2[V!b]]", r"unknown command \nosuch"),
        ("(a+b", "[E!,0[U!plus,0[V!a],1[V!b]]]", MISMATCH),
        (
            r"A=\{x\in B",
            "[U!eq,0[V!A],1[E!,0[O!in,0[V!x],1[V!B]]]]",
            MISMATCH,
        ),
        ("a)=b", "[U!eq,0[U!times,0[V!a],1[E!]],1[V!b]]", MISMATCH),
        (r"\frac{a}{b", "[O!divide,0[V!a],1[V!b]]", MISMATCH),
        ("a}b", "[U!times,0[V!a],1[V!b]]", MISMATCH),
        (
            r"\begin{pmatrix}a",
            "[O!matrix,0[M!M-1x1,0[M!R!,0[V!a]]]]",
            MISMATCH,
        ),
        (r"a\end{pmatrix}", "[V!a]", MISMATCH),
        (r"\left(a", "[E!,0[V!a]]", MISMATCH),
        (r"\frac a", "[O!divide,0[V!a],1[W!]]", "a missing argument"),
        ("x^", "[O!SUP,0[V!x],1[W!]]", "a missing argument"),
        ("a=*b", "[E!,0[V!a],1[M!L-2,0[U!eq],1[U!times]],2[V!b]]", "a part that does not fit"),
        ("|a", "[E!,0[V!|],1[V!a]]", "a part that does not fit"),
        ("a\x00", "[U!times,0[V!a],1[E!]]", "a character that is not mathematical"),
    ],
)
def test_what_cannot_be_read_is_an_error_within_what_can(formula: str, tree: str, reason: str) -> None:
    reading = read_latex(formula)
    assert (show(reading.tree), reading.reason) == (italic(tree), reason)


@pytest.mark.parametrize(
    ("formula", "tokens"),
    [
        (r"\text{if $x$ \} a}b", [r"\text{if $x$ \} a}", "b"]),
        (r"\text{a{b}}", [r"\text", "{", "a", "{", "b", "}", "}"]),
        (r"\textcolor{red}x", [r"\textcolor", "{", "r", "e", "d", "}", "x"]),
        ("12.5x.5 2.", ["12.5", "x", ".5", "2", "."]),
        ("x''=...", ["x", "''", "=", r"\ldots"]),
        (r"1{,}000{,}00", ["1{,}000", "{", ",", "}", "00"]),
        (r"\operatorname*{a}\alpha*", [r"\operatorname*", "{", "a", "}", r"\alpha", "*"]),
        ("a % b\nc %d", ["a", "c", "d"]),
        (r"\{\\ \ ", [r"\{", r"\\", r"\ "]),
        ("a\\", ["a", "\\ "]),
        ("&amp;&#39;&", ["&", "'", "&"]),
    ],
)
def test_tokens(formula: str, tokens: list[str]) -> None:
    assert latex.tokens(formula) == tokens


def test_every_symbol_alone_is_a_leaf() -> None:
    for token in ITEMS:
        if latex.tokens(token) != [token]:
            continue  # a character that is read as another
        reading = read_latex(token)
        assert len(reading.tree) == 1, token
        assert not reading.reason, token


def test_styled_letters_are_the_letters() -> None:
    for style in (
        "bold",
        "bold-italic",
        "italic",
        "script",
        "fraktur",
        "double-struck",
        "sans",
        "monospace",
        "upright",
    ):
        for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz":
            assert unicodedata.normalize("NFKC", styled(letter, style)) == letter
            assert unicodedata.name(styled(letter, style), "")


@pytest.mark.parametrize("formula", [formula for formula, _ in CASES])
def test_braces_around_all_blanks_and_a_full_stop_behind_change_nothing(formula: str) -> None:
    tree = read_latex(formula).tree
    assert read_latex("{" + formula + "}").tree == tree
    assert read_latex(r" \displaystyle " + formula + " ").tree == tree
    if not formula.startswith((r"\stackrel", r"\xrightarrow")):
        assert read_latex(formula + ".").tree == tree


@given(st.text(max_size=60) | st.lists(st.sampled_from([*PIECES, *ITEMS, *COMMANDS, *IGNORED, *SPACES])).map(" ".join))
def test_any_text_gives_a_tree(formula: str) -> None:
    reading = read_latex(formula)
    check(reading.tree)
    assert depth(reading.tree) <= 200
    # Cells that a row of a matrix lacks are no fault.
    above = [reading.tree.labels[parent] for parent in reading.tree.parents[1:]]
    faults = {place for place, label in zip(above, reading.tree.labels[1:], strict=True) if label.startswith("E!")}
    assert reading.reason or (faults <= {"M!R!"} and not reading.tree.labels[0].startswith("E!"))


@pytest.mark.parametrize("seed", range(3))
def test_fuzzed(seed: int) -> None:
    pieces = [*PIECES, *ITEMS, *COMMANDS, *IGNORED, *SPACES]
    for formula in mutated([formula for formula, _ in CASES], pieces, 1000, seed):
        reading = read_latex(formula)
        check(reading.tree)
        assert depth(reading.tree) <= 200


@pytest.mark.parametrize(
    "opening", [r"\sqrt{", "{", r"\frac{a}{", "x^{", r"\left(", "(", r"\{", r"\hat{", r"\text{a}_{"]
)
def test_150_levels_are_read(opening: str) -> None:
    closing = {r"\left(": r"\right)", "(": ")", r"\{": r"\}"}.get(opening, "}")
    reading = read_latex(opening * 150 + "x" + closing * 150)
    assert reading.reason == ""
    assert "V!𝑥" in reading.tree.labels


@pytest.mark.parametrize(
    "opening",
    [
        r"\sqrt{",
        r"\sqrt",
        r"\frac{a}{",
        r"\frac a",
        "x^{",
        r"\hat",
        r"\substack{",
        r"\begin{matrix}",
        r"\sqrt[",
        "{",
        "(",
    ],
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
    def read_at(level: int) -> Reading:
        return read_at(level - 1) if level else read_latex(r"\frac{1}{" * 150 + "x" + "}" * 150)

    frame, used = sys._getframe(), 0
    while frame := frame.f_back:  # type: ignore[assignment]
        used += 1
    reading = read_at(sys.getrecursionlimit() - used - 100)
    assert show(reading.tree) == "[E!]"
    assert reading.reason == "deeper than 200 levels"


@pytest.mark.parametrize(
    "piece",
    ["{", r"\text{", r"\frac{", "%", *(pytest.param(piece, marks=pytest.mark.slow) for piece in ("x ", r"\left("))],
)
def test_a_megabyte_is_read(piece: str) -> None:
    tree = read_latex(piece * (1_000_000 // len(piece))).tree
    assert len(tree.labels) == len(tree.parents) == len(tree.edges)
    assert depth(tree) <= 200


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", ["|", "|a", "^", "a,=", "]a[", "1 ", r"\left.", "a&", r"\sin ", "a|b,", r"\over", "'"]
)
def test_50_kilobytes_are_read(piece: str) -> None:
    tree = read_latex(piece * (50_000 // len(piece))).tree
    check(tree)
    assert depth(tree) <= 200
