"""Trees of Approach0's engine in the labels of LaTeXML's, where they say the same."""

from __future__ import annotations

import pytest

from harness.formulas.opt.read import read_latex
from harness.formulas.trees.tree import show

pytest.importorskip("pya0", reason="pya0 is not installed: pip install 'mathir-harness[approach0]'")
from bench.approach0_trees import parsed, read

ALIKE = [
    "x",
    "12",
    "2.5",
    r"\alpha",
    r"\mathbb{R}",
    r"\infty",
    "x^2+1",
    "a-b",
    "-x+y-z",
    "+1",
    "x_i^2",
    "x'",
    "f''(x)",
    "a=b=c",
    r"a\leq b",
    r"x\in A",
    r"a\to b",
    "= 2",
    r"\frac{a}{b}",
    r"\sqrt{x}",
    r"\sqrt[3]{x}",
    "n!",
    r"\binom n2",
    r"\lfloor x\rfloor",
    "|x|",
    r"\|x\|",
    r"a\mid b c",
    r"\sin x",
    r"\sin^2 x",
    r"a\log b",
    r"\gcd(a,b)",
    r"\sum x",
    r"\sum_{i=1}^n x_i y",
    r"\int x",
    r"\lim_{n\to\infty} a_n",
    "f(x)",
    "(a,b)",
    "a,b,c",
    "a=1,b=2",
    r"\forall x",
    r"A\cup B",
]
_, FOUND = parsed(ALIKE, 1)


@pytest.mark.parametrize(("latex", "found"), list(zip(ALIKE, FOUND, strict=True)))
def test_trees_that_say_the_same_are_equal(latex: str, found: tuple[str, object]) -> None:
    assert show(read(*found).tree) == show(read_latex(latex).tree)  # type: ignore[arg-type]


@pytest.mark.slow
def test_what_the_engine_cannot_parse_is_a_failure() -> None:
    ((status, node),) = parsed(["x^{"], 1)[1]
    reading = read(status, node)
    assert (show(reading.tree), reading.reason) == ("[E!]", "pya0: syntax error")
