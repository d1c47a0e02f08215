"""Sentences of a text, of which nothing is lost: what a translator is given one at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.formulas.text.delimiters import spans

_BLANKS = re.compile(r"\s+")
# The marks that end a sentence (Latin, Arabic, Devanagari), and what may close after them.
_END = re.compile(r"([.!?…؟۔।॥]+)[\"'”’»)\]]*+\Z")
_DOTTED = re.compile(r"(?:\w{1,2}\.)+\w{1,3}")  # e.g i.e p.ej
_OPENING = "\"'“‘„«([¿¡"
# Words that end with a dot within a sentence, without it: English, Spanish, Croatian, Czech.
_WORDS = (
    "al approx cf ch cor def defs dr eq eqs eqn eqns ex exs fig figs lem mr mrs ms nr prof prop ref refs resp sec "
    "st thm thms viz vol vs wlog wrt ec ecs ed ej pág págs prov sr sra srta teor ud uds "
    "npr odn str sl tj tzv usp čl čes např tzn apod angl kap obr odst odd pozn mj popř příp"
)
_ABBREVIATIONS = frozenset(_WORDS.split())


def split(text: str) -> list[tuple[str, str]]:
    """Returns the sentences of a text and the blanks after each: put together, they are the text, letter by letter.

    A sentence ends at a line break, and at a blank after `.`, `!`, `?`, `…`, the Persian `؟` and `۔` or a danda; not
    after an abbreviation or an ordinal, and not within a formula. Blanks that a text begins with come after an empty
    sentence.

    Examples
    --------
    >>> split("Let QZ1 be prime, e.g. 3. Is QZ2 odd?  Why")
    [('Let QZ1 be prime, e.g. 3.', ' '), ('Is QZ2 odd?', '  '), ('Why', '')]
    """
    out, begin, word = [], 0, 0
    for blank in _outside(text):
        start, end = blank.span()
        # A line break, or either end of the text; else it depends on the word before.
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


def halves(text: str) -> tuple[str, str, str] | None:
    """Returns a text taken apart at the blanks nearest to its middle: what is before, the blanks, what is after.

    None if it has no blanks but at its ends and within formulas.

    Examples
    --------
    >>> halves("one two $a + b$")
    ('one two', ' ', '$a + b$')
    """
    inner = (blank for blank in _outside(text) if blank.start() > 0 and blank.end() < len(text))
    found = min(inner, key=lambda blank: abs(blank.start() + blank.end() - len(text)), default=None)
    return None if found is None else (text[: found.start()], found[0], text[found.end() :])


def _outside(text: str) -> Iterator[re.Match[str]]:
    """Yields the blanks of a text that are not within its formulas."""
    formulas = iter(spans(text))
    formula = next(formulas, None)
    for blank in _BLANKS.finditer(text):
        while formula is not None and formula.end <= blank.start():
            formula = next(formulas, None)
        if formula is None or blank.start() < formula.start:
            yield blank


def _ends(word: str, following: str, *, first: bool) -> bool:
    """Returns whether a word, up to the blank after it, ends a sentence.

    Parameters
    ----------
    following : the character after the blank.
    first : whether the word begins the sentence.
    """
    found = _END.search(word)
    if found is None:
        return False
    if found[1] != ".":
        return not (set(found[1]) <= {".", "…"} and following.islower())
    stem = word[: found.start()].lstrip(_OPENING)
    if stem.isdigit():  # of a list, or an ordinal
        return not (first or following.islower())
    if len(stem) == 1 and stem.islower() and following.islower():  # p. ej.
        return False
    return stem.casefold() not in _ABBREVIATIONS and not _DOTTED.fullmatch(stem)
