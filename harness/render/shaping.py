"""The order and the joined forms in which a line of text is drawn, for scripts that a font alone does not set right.

Arabic letters get the form of their place in the word, by the presentation forms of Unicode; text that is written from
right to left is turned round inside a line that runs from left to right, by the rules of implicit levels (Unicode
Standard Annex 9, without explicit embeddings, which reports show as codes).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

_MIRRORED = dict(pairwise("()(")) | dict(pairwise("[][")) | dict(pairwise("{}{")) | dict(pairwise("<><"))
_LAM, _JOINERS = "\u0644", ("\u200d", "\u0640")

Piece = tuple[str, str]  # what is drawn, and the text that it stands for


def drawn(text: str) -> list[Piece]:
    """The characters of a line from left to right, as they are drawn, each with what was written."""
    levels = _levels(text)
    pieces = _joined(text)
    order = [index for index, piece in enumerate(pieces) if piece is not None]
    for level in range(max(levels, default=0), 0, -1):
        start = 0
        while start < len(order):
            end = start
            while end < len(order) and levels[order[end]] >= level:
                end += 1
            order[start:end] = reversed(order[start:end])
            start = max(end, start + 1)
    out = []
    for index in order:
        shown, written = pieces[index] or ("", "")
        out.append((_MIRRORED.get(shown, shown) if levels[index] == 1 else shown, written))
    return out


def _levels(text: str) -> list[int]:
    """0 for what runs from left to right, 1 from right to left, 2 for numbers inside of that."""
    levels: list[int] = []
    strong = 0
    for char in text:
        kind = unicodedata.bidirectional(char)
        if kind in ("R", "AL"):
            strong = 1
        elif kind == "L":
            strong = 0
        levels.append(strong if kind in ("R", "AL", "L") else 2 * strong if kind in ("EN", "AN") else -1)
    # What has no direction takes that of both its neighbours, else that of the line.
    place = 0
    while place < len(levels):
        end = place
        while end < len(levels) and levels[end] == -1:
            end += 1
        if end > place:
            before, after = levels[place - 1] if place else 0, levels[end] if end < len(levels) else 0
            levels[place:end] = [1 if before and after else 0] * (end - place)
        place = end + 1
    for index in range(1, len(text)):  # a mark belongs to its letter
        if unicodedata.bidirectional(text[index]) == "NSM":
            levels[index] = levels[index - 1]
    return levels


@cache
def _forms() -> dict[str, dict[str, str]]:
    """Letters -> `isolated`, `initial`, `medial`, `final` -> the character for that; lam with alef are two letters."""
    found: dict[str, dict[str, str]] = {}
    for code in (*range(0xFB50, 0xFE00), *range(0xFE70, 0xFF00)):
        kind, *letters = unicodedata.decomposition(chr(code)).split() or [""]
        base = "".join(chr(int(letter, 16)) for letter in letters)
        if len(base) == 1 or (len(base) == 2 and base[0] == _LAM and base[1] in "\u0622\u0623\u0625\u0627"):
            found.setdefault(base, {}).setdefault(kind.strip("<>"), chr(code))
    return found


def _joined(text: str) -> Sequence[Piece | None]:
    """Each character in the form of its place; None for what is not drawn or is part of the character before."""
    forms = _forms()
    marks = {index for index, char in enumerate(text) if unicodedata.category(char) == "Mn"}
    letters = [index for index in range(len(text)) if index not in marks]
    out: list[Piece | None] = [(char, char) for char in text]

    def joins(index: int, side: str) -> bool:
        char = text[letters[index]] if 0 <= index < len(letters) else " "
        return char in _JOINERS or side in forms.get(char, {})

    skipped = -1
    for index, place in enumerate(letters):
        char = text[place]
        if unicodedata.category(char) == "Cf":
            out[place] = None
        if index == skipped or char not in forms:
            continue
        pair = char + text[letters[index + 1]] if index + 1 < len(letters) else ""
        before = joins(index - 1, "initial") and "final" in forms[char]
        if pair in forms:
            skipped = index + 1
            out[place] = (forms[pair]["final" if before else "isolated"], pair)
            out[letters[skipped]] = None
            continue
        after = joins(index + 1, "final") and "initial" in forms[char]
        kind = ("medial" if after else "final") if before else ("initial" if after else "isolated")
        out[place] = (forms[char].get(kind, char), char)
    return out
