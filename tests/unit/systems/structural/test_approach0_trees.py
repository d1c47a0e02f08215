"""Trees of Approach0's engine in the labels of LaTeXML's, where they say the same."""

from __future__ import annotations

import pytest
from case_tables import table

from harness.formulas.opt.read import read_latex
from harness.formulas.trees.tree import show

pytest.importorskip("pya0", reason="pya0 is not installed: pip install 'mathir-harness[approach0]'")
from bench.approach0_trees import parsed, read

ALIKE = [latex for (latex,) in table("formulas/approach0")]
_, FOUND = parsed(ALIKE, 1)


@pytest.mark.parametrize(("latex", "found"), list(zip(ALIKE, FOUND, strict=True)))
def test_trees_that_say_the_same_are_equal(latex: str, found: tuple[str, object]) -> None:
    assert show(read(*found).tree) == show(read_latex(latex).tree)  # type: ignore[arg-type]


@pytest.mark.slow
def test_what_the_engine_cannot_parse_is_a_failure() -> None:
    ((status, node),) = parsed(["x^{"], 1)[1]
    reading = read(status, node)
    assert (show(reading.tree), reading.reason) == ("[E!]", "pya0: syntax error")
