"""Puts dollar signs around the mathematics of a text by rule, without changing any other character.

SABER-Math uses a language model for this; the rule is our replacement. Formulas in other delimiters get dollar signs:
`\\(x\\)` becomes `$x$`; `\\[x\\]` and display environments become `$$..$$`. Numbers, single letters and expressions
made of them by operators get dollar signs in prose: `radius r is 5` becomes `radius $r$ is $5$`.
"""

from __future__ import annotations

import re

from harness.formulas.text.delimiters import Span, formula_spans

_DISPLAYED = (
    *("equation", "align", "alignat", "flalign", "gather", "multline", "eqnarray", "displaymath", "math"),
    *("aligned", "gathered", "split", "cases", "array", "matrix", "pmatrix", "bmatrix", "vmatrix", "smallmatrix"),
)
_ENVIRONMENT = re.compile(r"\\begin\{([A-Za-z]+)\*?\}")
# Drawings in the language Asymptote, common in contest problems, and web addresses.
_SKIPPED = re.compile(r"\[asy\].*?\[/asy\]|\\begin\{(asy|tabular|tikzpicture)\}.*?\\end\{\1\}|https?://\S+", re.DOTALL)
_LETTER = r"[B-HJ-Zb-z]"  # a letter on its own; `a`, `A` and `I` are words
_ATOM = (
    rf"(?:\d++(?:[.,]\d++)*+{_LETTER}?|{_LETTER}(?:\([^()\s$\\]{{1,20}}\))?)"
    r"(?:[_^](?:\{[^{}$\\]*\}|[A-Za-z0-9]))*+(?![\w'’({^])(?!\.\w)"
)
_JOINED = rf"{_ATOM}(?:\s*[+\-*/=<>≤≥×·]\s*{_ATOM})*+"
_BARE = re.compile(rf"(?<![\w'’.\\$@#/^]){_JOINED}")
_TOUCHING = re.compile(_JOINED)


def in_dollars(text: str, bare: bool = True) -> tuple[str, bool]:
    """Puts dollar signs around the mathematics of a text; returns the text and whether that succeeded.

    Apart from delimiters of formulas and blanks the text does not change (`without_dollars`). A text with an unpaired
    delimiter, such as a price in dollars, is returned unchanged.

    Parameters
    ----------
    bare : also wrap mathematics that is in prose without any delimiter.

    Examples
    --------
    >>> in_dollars(r"If the radius r is 5, find the area. Use \\( \\pi \\).")
    ('If the radius $r$ is $5$, find the area. Use $ \\\\pi $.', True)
    >>> in_dollars("It costs 5$, or x + 1 = 3.")
    ('It costs 5$, or x + 1 = 3.', False)
    """
    out: list[str] = []
    made: list[str] = []  # formulas with their delimiters
    at = 0
    for span in formula_spans(text):
        out.append(_prose(text, at, span.start, made) if bare else text[at : span.start])
        wrapped = _wrapped(text, span)
        if wrapped is None:
            out.append(text[span.start : span.end])
        else:
            if out[-1].endswith("$") or (not out[-1] and len(out) > 1 and out[-2].endswith("$")):
                out.append(" ")
            out.append(wrapped)
            made.append(wrapped)
        at = span.end
    out.append(_prose(text, at, len(text), made) if bare else text[at:])
    result = "".join(out)
    formulas = [result[span.start : span.end] for span in formula_spans(result) if span.kind in ("inline", "display")]
    return (result, True) if formulas == made else (text, False)


def _wrapped(text: str, span: Span) -> str | None:
    """Returns a formula between dollar signs; None for an environment of text."""
    whole = text[span.start : span.end]
    if span.kind in ("inline", "display"):
        return whole
    if span.kind == "round":
        return f"${span.latex}$"
    if span.kind == "square":
        return f"$${span.latex}$$"
    name = _ENVIRONMENT.match(whole)
    return f"$${whole}$$" if name and name[1] in _DISPLAYED else None


def _prose(text: str, start: int, end: int, made: list[str]) -> str:
    """Wraps the mathematics in the prose from `start` to `end`, between two formulas, and appends it to `made`.

    Mathematics that touches a formula stays unwrapped: `2$x$` would become `$2$$x$`.
    """

    def put(match: re.Match[str]) -> str:
        if (match.start() == start > 0) or (match.end() == end < len(text)):
            return match[0]
        made.append(f"${match[0]}$")
        return made[-1]

    out: list[str] = []
    at = start
    for skipped in (*_SKIPPED.finditer(text, start, end), None):
        stop = skipped.start() if skipped else end
        # An expression that directly follows a formula stays unwrapped as a whole.
        if at == start > 0 and text[at - 1] == "$" and (touching := _TOUCHING.match(text, at, stop)):
            out.append(touching[0])
            at = touching.end()
        # The pattern looks behind and ahead, so it searches the whole text.
        for match in _BARE.finditer(text, at, stop):
            out += [text[at : match.start()], put(match)]
            at = match.end()
        out.append(text[at:stop])
        if skipped:
            out.append(skipped[0])
            at = skipped.end()
    return "".join(out)


def without_dollars(text: str) -> str:
    """Removes delimiters of formulas and blanks; what remains must not change when dollar signs are added.

    >>> without_dollars("Use $ \\\\pi $ and \\\\(x\\\\).") == without_dollars(r"Use \\(\\pi\\) and $x$.")
    True
    """
    return "".join(re.sub(r"\\[()\[\]]|\$", "", text).split())
