"""Positions of the formulas in a text, by the four kinds of delimiters of CrossMath's masker (section 3).

`\\(..\\)`, `$..$` and `$$..$$`, `\\[..\\]`, `\\begin{name}..\\end{name}`. The rules:

- A backslash and the next character form one sign: `\\$` is not a delimiter, `\\\\(` is a line break and a parenthesis.
- The leftmost delimiter that is closed begins a formula; delimiters within a formula begin no other one. A delimiter
  that is never closed is text, including both dollars of `$$`, and the search continues right after it.
- A formula ends at the next closing delimiter of its kind. Delimiters in the braces of a text command are skipped
  (`$\\text{if $n$ is odd}$`) if they are paired within these braces.
- An environment ends at its matching `\\end`; nested environments of the same name are counted.
- An empty formula is text (`\\(\\)`, `$$$$`, `\\begin{a}\\end{a}`).

Texts other than those of mathematics sites also hold amounts of money. The rule `pandoc` is that of pandoc's extension
`tex_math_dollars`: a formula in single dollars has no blank right after the opening dollar and none right before the
closing one, and no digit follows it (`$5 or $10` is text); there is no blank line in a formula in dollars. The next
dollar that is not escaped closes the formula, or nothing does; `$$` that is never closed may begin a formula with its
second dollar. The other delimiters are the same.

Time and memory are linear in the length of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

Dollars = Literal["pairs", "pandoc"]
DOLLARS: tuple[Dollars, ...] = get_args(Dollars)
Kind = Literal["inline", "display", "round", "square", "environment"]

_SETS_TEXT = r"\\(?:text[a-z]*+|[mhf]box|tag\*?+)\s*+\{"
_DELIMITER = r"\\[()\[\]]|\\(?:begin|end)\{[A-Za-z]++\*?\}"
# Text without signs, followed by a sign or by the end of the text; possessive quantifiers prevent backtracking.
_SIGN = re.compile(rf"(?:[^\\$]++|(?!{_DELIMITER})\\(?s:.?))*+({_DELIMITER}|\$|\Z)")
_SIGN_OR_BRACE = re.compile(
    rf"(?:[^\\${{}}]++|(?!{_DELIMITER}|{_SETS_TEXT})\\(?s:.?))*+({_DELIMITER}|{_SETS_TEXT}|[${{}}]|\Z)"
)
_COMMAND = re.compile(_SETS_TEXT)
_BLANK_LINE = re.compile(r"(?>\r\n|[\r\n])[^\S\r\n]*+[\r\n]")
_LONE = re.compile(r"\\.|(\$)", re.DOTALL)
_OPENING: dict[str, tuple[Kind, str]] = {"$": ("inline", "$"), r"\(": ("round", r"\)"), r"\[": ("square", r"\]")}
_OPENED_BY = {r"\)": r"\(", r"\]": r"\["}


class Span(NamedTuple):
    """A formula in a text: `text[start:end]` with its delimiters, `latex` without them."""

    start: int
    end: int
    kind: Kind
    latex: str


class _Signs(NamedTuple):
    """The delimiters of a text in order, braces excluded."""

    starts: list[int]
    texts: list[str]
    beyond: dict[int, int]  # first sign within the braces of a text command -> the sign after them, if they are paired


def formula_spans(text: str, dollars: Dollars = "pairs") -> list[Span]:
    """Returns the formulas of a text, in order; they do not overlap.

    Parameters
    ----------
    dollars : `pairs`: any two dollars enclose a formula, as on mathematics sites. `pandoc`: pandoc's rule (see above).

    Examples
    --------
    >>> text = "It costs $5 to find $x^2$ and $10 to find $y$."
    >>> [span.latex for span in formula_spans(text)], [span.latex for span in formula_spans(text, "pandoc")]
    (['5 to find ', ' and ', 'y'], ['x^2', 'y'])
    """
    if "$" not in text and "\\" not in text:
        return []
    signs = _find_signs(text)
    starts, texts, _ = signs
    ends = _environments(texts)
    closing = {close: _following(signs, close) for close in ("$", "$$", r"\)", r"\]") if close in text}
    pandoc = dollars == "pandoc"
    breaks = [blank_line.start() for blank_line in _BLANK_LINE.finditer(text)] if pandoc else []
    spans: list[Span] = []
    at, last = 0, len(texts)
    while at < last:
        sign, close, kind, width = texts[at], last, _OPENING.get(texts[at], ("environment", ""))[0], 1
        if at in ends:
            close = ends[at]
        elif sign == "$" and _doubled(signs, at):
            close, kind, width = closing["$$"][at + 2], "display", 2
        elif sign in _OPENING and (wanted := _OPENING[sign][1]) in closing:
            close = closing[wanted][at + 1]
        start = starts[at] + len(sign) * width
        stop = starts[close] if close < last else start
        if close == last or (pandoc and sign == "$" and _is_money(text, start, stop, width, breaks)):
            at += 1 if pandoc else width
            continue
        if start < stop:
            spans.append(Span(starts[at], stop + len(texts[close]) * width, kind, text[start:stop]))
        at = close + width
    return spans


def _is_money(text: str, start: int, stop: int, width: int, breaks: list[int]) -> bool:
    """Returns whether pandoc's rule forbids a formula `text[start:stop]` between dollars, 1 or 2 on either side.

    `breaks` are the positions of the blank lines of the text.
    """
    after = bisect_left(breaks, start)
    if after < len(breaks) and breaks[after] < stop:
        return True
    return width == 1 and (text[start].isspace() or text[stop - 1].isspace() or text[stop + 1 : stop + 2].isdecimal())


def split_formulas(text: str, dollars: Dollars = "pairs") -> Iterator[tuple[str, str]]:
    """Yields the text as pairs of prose and the LaTeX that follows it; the last pair has no LaTeX."""
    at = 0
    for start, end, _, latex in formula_spans(text, dollars):
        yield text[at:start], latex
        at = end
    yield text[at:], ""


def lone_dollars(text: str, dollars: Dollars = "pairs") -> int:
    """Counts the dollars of a text that are in no formula, escaped ones excluded.

    Examples
    --------
    >>> lone_dollars("It costs $5, $x$ or US$10.", "pandoc")
    2
    """
    return sum(bool(match[1]) for prose, _ in split_formulas(text, dollars) for match in _LONE.finditer(prose))


def _find_signs(text: str) -> _Signs:
    signs = _Signs([], [], {})
    starts, texts, beyond = signs
    depths = {"$": 0, r"\(": 0, r"\[": 0}
    # For each open brace of a text command, the first sign in it and the depths before it; None for other braces.
    braces: list[tuple[int, list[int]] | None] = []
    for match in (_SIGN_OR_BRACE if _COMMAND.search(text) else _SIGN).finditer(text):
        sign = match[1]
        if sign[-1:] == "{":
            braces.append((len(texts), list(depths.values())) if len(sign) > 1 else None)
        elif sign == "}":
            opened = braces.pop() if braces else None
            if opened and opened[0] < len(texts):
                dollars, *others = (now - then for now, then in zip(depths.values(), opened[1], strict=True))
                if dollars % 2 == 0 and not any(others):
                    beyond[opened[0]] = len(texts)
        elif sign:
            starts.append(match.start(1))
            texts.append(sign)
            if sign in depths:
                depths[sign] += 1
            elif sign in _OPENED_BY:
                depths[_OPENED_BY[sign]] -= 1
    return signs


def _doubled(signs: _Signs, at: int) -> bool:
    """Returns whether the dollar at this sign and the next sign are `$$`."""
    return at + 1 < len(signs.texts) and signs.texts[at + 1] == "$" and signs.starts[at + 1] == signs.starts[at] + 1


def _following(signs: _Signs, wanted: str) -> list[int]:
    """Returns, for each sign, the next one that can close a formula of its kind; the number of signs if none can."""
    count = len(signs.texts)
    following = [count] * (count + 2)
    for at in range(count - 1, -1, -1):
        if at in signs.beyond:
            following[at] = following[signs.beyond[at]]
        elif signs.texts[at] == wanted[:2] or (wanted == "$$" and signs.texts[at] == "$" and _doubled(signs, at)):
            following[at] = at
        else:
            following[at] = following[at + 1]
    return following


def _environments(texts: list[str]) -> dict[int, int]:
    """Maps the sign of each closed environment's `\\begin` to that of its `\\end`."""
    ends: dict[int, int] = {}
    opened: dict[str, list[int]] = {}
    for at, sign in enumerate(texts):
        if sign.startswith(r"\begin"):
            opened.setdefault(sign[len(r"\begin") :], []).append(at)
        elif sign.startswith(r"\end") and opened.get(name := sign[len(r"\end") :]):
            ends[opened[name].pop()] = at
    return ends
