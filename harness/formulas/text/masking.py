"""Formulas kept from a translation: placeholders in their stead, and what became of them (CrossMath, section 3).

`mask` puts `QZ1`, `QZ2`, ... where formulas stand, `unmask` puts the formulas back into the translated text, letter by
letter as they were, and counts. Without a translation between them nothing changes: `unmask(m.text, m)[0]` is the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import count

from harness.errors import HarnessError
from harness.formulas.text.delimiters import spans

PREFIX = "QZ"
# What a translation may put between the signs of a placeholder: up to two blanks (also of no width), dashes or `_`.
_BETWEEN = r"[\s\u200b-\u200f\u2060\ufeff_\-\u2010-\u2015\u2212]{0,2}+"
_DIGITS = re.compile(r"\d*+")


@dataclass(frozen=True)
class Masked:
    """A text with placeholders for its formulas.

    Attributes
    ----------
    text : with a placeholder, the prefix and a number, in each formula's place.
    formulas : with their delimiters, in the order of the text. Digits right after a formula belong to it, since they
        would go on the number of its placeholder.
    numbers : of each formula's placeholder, ascending from 1; those that the text has already are left out.
    prefix : of the placeholders.
    """

    text: str
    formulas: tuple[str, ...]
    numbers: tuple[int, ...]
    prefix: str = PREFIX


@dataclass(frozen=True)
class Integrity:
    """What a translation made of the placeholders.

    Attributes
    ----------
    formulas : how many were masked. Each is either kept or lost.
    kept : formulas that stand in the unmasked text, at least once.
    missing : the formulas that do not, in their order.
    duplicated : places beyond the first one where a formula stands.
    reordered : the fewest kept formulas that must move for all to stand in their first order; only the first place of
        each formula counts.
    altered : placeholders in another spelling (`qz1`, `QZ 1`, `ＱＺ１`, `QZ۱`), whether repaired or not.
    unrepaired : those of them that were left as text, because the same number stands elsewhere as it should.
    unknown : placeholders left as text whose number is neither a formula's nor in the masked text.
    """

    formulas: int
    kept: int
    missing: tuple[str, ...]
    duplicated: int
    reordered: int
    altered: int
    unrepaired: int
    unknown: int

    @property
    def lost(self) -> int:
        """Formulas that the translation lost."""
        return len(self.missing)

    @property
    def intact(self) -> bool:
        """Whether every placeholder came back once, as it was and in its order."""
        return self.kept == self.formulas and not (self.duplicated or self.reordered or self.altered or self.unknown)


def mask(text: str, prefix: str = PREFIX) -> Masked:
    """Placeholders for the formulas of a text; which these are, `harness.formulas.text.delimiters` says.

    Raises
    ------
    HarnessError
        The prefix is not made of capital letters A to Z.
    """
    if not re.fullmatch("[A-Z]+", prefix):
        raise HarnessError(f"prefix of placeholders is {prefix!r}, expected capital letters A to Z such as {PREFIX!r}")
    prose, formulas, at = [], [], 0
    for start, end, _, _ in spans(text):
        prose.append(text[at:start])
        at = end + len(_DIGITS.match(text, end)[0])  # type: ignore[index]  # it matches nothing, too
        formulas.append(text[start:at])
    prose.append(text[at:])
    used = {int(found[1]) for part in prose for found in _any_spelling(prefix).finditer(part)}
    free = (number for number in count(1) if number not in used)
    numbers = tuple(next(free) for _ in formulas)
    pieces = [f"{before}{prefix}{number}" for before, number in zip(prose, numbers, strict=False)]
    return Masked("".join([*pieces, prose[-1]]), tuple(formulas), numbers, prefix)


def unmask(translated: str, masked: Masked) -> tuple[str, Integrity]:
    """The translated text with the formulas in place of their placeholders, and what became of these.

    Every placeholder with a formula's number becomes that formula. One in another spelling does so only if no other
    one has the number as it should: else it may be another formula's, damaged, and is left as text.
    """
    spelling = _any_spelling(masked.prefix)
    formula = dict(zip(masked.numbers, masked.formulas, strict=True))
    found = [(int(match[1]), _exact(match, masked.prefix)) for match in spelling.finditer(translated)]
    exact = {number for number, as_it_was in found if as_it_was}

    def back(match: re.Match[str]) -> str:
        number = int(match[1])
        if number not in formula or (number in exact and not _exact(match, masked.prefix)):
            return match[0]
        return formula[number]

    foreign = {int(match[1]) for match in spelling.finditer(masked.text)} - formula.keys()
    ours = [(number, as_it_was) for number, as_it_was in found if number in formula]
    times = Counter(number for number, as_it_was in ours if as_it_was or number not in exact)
    integrity = Integrity(
        formulas=len(formula),
        kept=len(times),
        missing=tuple(latex for number, latex in formula.items() if number not in times),
        duplicated=times.total() - len(times),
        reordered=len(times) - _longest_ascent(times),
        altered=sum(not as_it_was for _, as_it_was in ours),
        unrepaired=sum(number in exact and not as_it_was for number, as_it_was in ours),
        unknown=sum(number not in formula and number not in foreign for number, _ in found),
    )
    return spelling.sub(back, translated), integrity


@cache
def _any_spelling(prefix: str) -> re.Pattern[str]:
    """A placeholder however it is written; the group is its number, in the digits of any script.

    A number ends where the digits end, so that `QZ1` is never found in `QZ12`; one of ten digits is none of ours.
    """
    letters = _BETWEEN.join(f"[{letter}{chr(ord(letter) + 0xFEE0)}]" for letter in prefix)  # or its full-width form
    return re.compile(rf"{letters}{_BETWEEN}(\d{{1,9}}+)(?!\d)", re.IGNORECASE)


def _exact(match: re.Match[str], prefix: str) -> bool:
    return match[0] == f"{prefix}{int(match[1])}"


def _longest_ascent(numbers: Iterable[int]) -> int:
    """How many numbers the longest ascending subsequence has."""
    lasts: list[int] = []  # of the ascents of each length, the smallest last number
    for number in numbers:
        at = bisect_left(lasts, number)
        lasts[at : at + 1] = [number]
    return len(lasts)
