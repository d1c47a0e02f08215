"""Positions of the formulas in a text, by the four kinds of delimiters of CrossMath's masker (section 3).

`\\(..\\)`, `$..$` and `$$..$$`, `\\[..\\]`, `\\begin{name}..\\end{name}`. The rules:

- A backslash and the next character form one sign: `\\$` is not a delimiter, `\\\\(` is a line break and a parenthesis.
- The leftmost delimiter that is closed begins a formula; delimiters within a formula begin no other one. A delimiter
  that is never closed is text, including both dollars of `$$`, and the search continues right after it.
- A formula ends at the next closing delimiter of its kind. Delimiters in the braces of a text command are skipped
  (`$\\text{if $n$ is odd}$`) if they are paired within these braces.
- An environment ends at its matching `\\end`; nested environments of the same name are counted.
- An empty formula is text (`\\(\\)`, `$$$$`, `\\begin{a}\\end{a}`).

Time and memory are linear in the length of the text.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Kind = Literal["inline", "display", "round", "square", "environment"]

_SETS_TEXT = r"\\(?:text[a-z]*+|[mhf]box|tag\*?+)\s*+\{"
_DELIMITER = r"\\[()\[\]]|\\(?:begin|end)\{[A-Za-z]++\*?\}"
# Text without signs, followed by a sign or by the end of the text; possessive quantifiers prevent backtracking.
_SIGN = re.compile(rf"(?:[^\\$]++|(?!{_DELIMITER})\\(?s:.?))*+({_DELIMITER}|\$|\Z)")
_SIGN_OR_BRACE = re.compile(
    rf"(?:[^\\${{}}]++|(?!{_DELIMITER}|{_SETS_TEXT})\\(?s:.?))*+({_DELIMITER}|{_SETS_TEXT}|[${{}}]|\Z)"
)
_COMMAND = re.compile(_SETS_TEXT)
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


def spans(text: str) -> list[Span]:
    """Returns the formulas of a text, in order; they do not overlap."""
    if "$" not in text and "\\" not in text:
        return []
    signs = _read(text)
    starts, texts, _ = signs
    ends = _environments(texts)
    closing = {close: _following(signs, close) for close in ("$", "$$", r"\)", r"\]") if close in text}
    found: list[Span] = []
    at, last = 0, len(texts)
    while at < last:
        sign, close, kind, width = texts[at], last, _OPENING.get(texts[at], ("environment", ""))[0], 1
        if at in ends:
            close = ends[at]
        elif sign == "$" and _doubled(signs, at):
            close, kind, width = closing["$$"][at + 2], "display", 2
        elif sign in _OPENING and (wanted := _OPENING[sign][1]) in closing:
            close = closing[wanted][at + 1]
        if close == last:
            at += width
            continue
        start, stop = starts[at] + len(sign) * width, starts[close]
        if start < stop:
            found.append(Span(starts[at], stop + len(texts[close]) * width, kind, text[start:stop]))
        at = close + width
    return found


def _read(text: str) -> _Signs:
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
    found = [count] * (count + 2)
    for at in range(count - 1, -1, -1):
        if at in signs.beyond:
            found[at] = found[signs.beyond[at]]
        elif signs.texts[at] == wanted[:2] or (wanted == "$$" and signs.texts[at] == "$" and _doubled(signs, at)):
            found[at] = at
        else:
            found[at] = found[at + 1]
    return found


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
