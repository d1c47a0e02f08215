"""Splits texts losslessly into sentences, the units of translation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.formulas.text.delimiters import formula_spans

_BLANKS = re.compile(r"\s+")
# Marks that end a sentence (Latin, Arabic, Devanagari), and closing quotes or brackets after them.
_END = re.compile(r"([.!?…؟۔।॥]+)[\"'”’»)\]]*+\Z")
_DOTTED = re.compile(r"(?:\w{1,2}\.)+\w{1,3}")  # e.g i.e p.ej
_OPENING = "\"'“‘„«([¿¡"
# Abbreviations without their final dot: English, Spanish, Croatian, Czech.
_WORDS = (
    "al approx cf ch cor def defs dr eq eqs eqn eqns ex exs fig figs lem mr mrs ms nr prof prop ref refs resp sec "
    "st thm thms viz vol vs wlog wrt ec ecs ed ej pág págs prov sr sra srta teor ud uds "
    "npr odn str sl tj tzv usp čl čes např tzn apod angl kap obr odst odd pozn mj popř příp"
)
_ABBREVIATIONS = frozenset(_WORDS.split())


def split(text: str) -> list[tuple[str, str]]:
    """Splits a text into (sentence, following blanks); concatenated, they give exactly the text.

    A sentence ends at a line break, and at a blank after `.`, `!`, `?`, `…`, the Persian `؟` and `۔` or a danda, but
    not after an abbreviation or an ordinal, and not within a formula. Leading blanks follow an empty sentence.

    Examples
    --------
    >>> split("Let QZ1 be prime, e.g. 3. Is QZ2 odd?  Why")
    [('Let QZ1 be prime, e.g. 3.', ' '), ('Is QZ2 odd?', '  '), ('Why', '')]
    """
    out, begin, word = [], 0, 0
    for blank in _outside(text):
        start, end = blank.span()
        # A line break, or an end of the text; else the preceding word decides.
        if (
            blank[0].splitlines() != [blank[0]]
            or start == 0
            or end == len(text)
            or (_ends(text[word:start], text[end], first=word == begin))
        ):
            out.append((text[begin:start], blank[0]))
            begin = end
        word = end
    return [*out, (text[begin:], "")] if begin < len(text) else out


def halves_of_text(text: str) -> tuple[str, str, str] | None:
    """Splits a text at the blanks nearest to its middle: returns the part before, the blanks, and the part after.

    Returns None if there are blanks only at its ends or within formulas.

    Examples
    --------
    >>> halves_of_text("one two $a + b$")
    ('one two', ' ', '$a + b$')
    """
    inner = (blank for blank in _outside(text) if blank.start() > 0 and blank.end() < len(text))
    middle = min(inner, key=lambda blank: abs(blank.start() + blank.end() - len(text)), default=None)
    return None if middle is None else (text[: middle.start()], middle[0], text[middle.end() :])


def _outside(text: str) -> Iterator[re.Match[str]]:
    """Yields the blanks of a text outside formulas."""
    formulas = iter(formula_spans(text))
    formula = next(formulas, None)
    for blank in _BLANKS.finditer(text):
        while formula is not None and formula.end <= blank.start():
            formula = next(formulas, None)
        if formula is None or blank.start() < formula.start:
            yield blank


def _ends(word: str, following: str, *, first: bool) -> bool:
    """Returns whether a word ends a sentence.

    Parameters
    ----------
    following : the character after the blank.
    first : whether the word begins the sentence.
    """
    end = _END.search(word)
    if end is None:
        return False
    if end[1] != ".":
        return not (set(end[1]) <= {".", "…"} and following.islower())
    stem = word[: end.start()].lstrip(_OPENING)
    if stem.isdigit():  # a list number, or an ordinal
        return not (first or following.islower())
    if len(stem) == 1 and stem.islower() and following.islower():  # p. ej.
        return False
    return stem.casefold() not in _ABBREVIATIONS and not _DOTTED.fullmatch(stem)
