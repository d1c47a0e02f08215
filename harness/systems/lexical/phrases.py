r"""Phrases of formulas: what stands next to each other in LaTeX, without any reading of its structure."""

from __future__ import annotations

from itertools import pairwise

from harness.systems.lexical.text import latex_tokens


def latex_phrases(latex: str) -> list[str]:
    r"""Returns each two neighbouring tokens of a formula as one, and the formula as a whole without its blanks.

    For the key `formulas` of a view. A proof takes up the letters of its statement, so that `S_i` and `f : X \to Y`
    tell more of it than `S`, `f` and `X` do.

    Examples
    --------
    >>> latex_phrases("S_i \\to S")
    ['~$S$i', '~$i_i', '~_i\\to', '~\\to$S', '=S_i\\toS']
    """
    tokens = latex_tokens(latex)
    return [*(f"~{first}{second}" for first, second in pairwise(tokens)), f"={''.join(latex.split())}"]
