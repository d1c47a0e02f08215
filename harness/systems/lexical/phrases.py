r"""Phrases of formulas: adjacent LaTeX tokens, without parsing the structure."""

from __future__ import annotations

from itertools import pairwise

from harness.systems.lexical.text import latex_tokens


def latex_phrases(latex: str) -> list[str]:
    r"""Returns the token bigrams of a formula, and the whole formula without whitespace, each as one token.

    For the key `formulas` of a view. A proof reuses the notation of its statement, so `S_i` and `f : X \to Y` identify
    the statement better than `S`, `f` and `X` alone.

    Examples
    --------
    >>> latex_phrases("S_i \\to S")
    ['~$S$i', '~$i_i', '~_i\\to', '~\\to$S', '=S_i\\toS']
    """
    tokens = latex_tokens(latex)
    return [*(f"~{first}{second}" for first, second in pairwise(tokens)), f"={''.join(latex.split())}"]
