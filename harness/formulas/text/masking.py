"""Masking of formulas for translation: replaces formulas by placeholders and restores them (CrossMath, section 3).

`mask_formulas` replaces formulas by `QZ1`, `QZ2`, ...; `unmask_formulas` restores the original formulas in the
translated text and counts what happened to the placeholders. Without a translation the text is unchanged, with or
without spaces around placeholders: `unmask_formulas(m.text, m)[0]` equals the text.
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
from harness.formulas.text.delimiters import Dollars, formula_spans

PREFIX = "QZ"
# Characters that a translation may insert into a placeholder: up to two spaces (also zero-width), dashes or `_`.
_BETWEEN = r"[\s\u200b-\u200f\u2060\ufeff_\-\u2010-\u2015\u2212]{0,2}+"
_DIGITS = re.compile(r"\d*+")
# Cyrillic and Greek letters that look like a Latin letter or are its transliteration.
_ALIKE = {
    **{"A": "АΑ", "B": "ВБΒ", "C": "СЦϹ", "D": "ДΔ", "E": "ЕЭΕ", "F": "ФΦ", "G": "ГΓ", "H": "НХΗ", "I": "ІИΙ"},
    **{"J": "ЈЙ", "K": "КΚ", "L": "ЛΛ", "M": "МΜ", "N": "НΝ", "O": "ОΟ", "P": "РПΡΠ", "Q": "КЌҚԚϘ", "R": "РΡ"},
    **{"S": "ЅСΣ", "T": "ТΤ", "U": "УΥ", "V": "ВѴ", "W": "ԜВ", "X": "ХΧ", "Y": "УҮΥ", "Z": "ЗΖ"},
}


@dataclass(frozen=True)
class Masked:
    """A text with placeholders for its formulas.

    Attributes
    ----------
    text : the text with a placeholder, prefix and number, in place of each formula.
    formulas : formulas with their delimiters, in the order of the text. Digits right after a formula belong to it,
        because they would otherwise continue the number of its placeholder.
    numbers : number of each formula's placeholder, ascending from 1 without those that already occur in the text.
    prefix : prefix of the placeholders.
    beside : for each formula, the characters before and after it that a space separates from its placeholder; empty
        where no space was inserted.
    """

    text: str
    formulas: tuple[str, ...]
    numbers: tuple[int, ...]
    prefix: str = PREFIX
    beside: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Integrity:
    """Numbers of placeholders that a translation kept, altered, lost, duplicated or moved.

    Attributes
    ----------
    formulas : number of masked formulas. Each is either kept or lost.
    kept : formulas that occur in the unmasked text at least once.
    missing : formulas that do not, in their original order.
    duplicated : occurrences of formulas beyond the first one.
    reordered : the minimum number of kept formulas that must move to restore the original order; only the first
        occurrence of each formula counts.
    altered : placeholders in another spelling (`qz1`, `QZ 1`, `ＱＺ１`, `QZ۱`) and, with `repair`, in other letters
        (`ZQ1`, `КЗ1`), whether repaired or not.
    repaired : kept formulas whose only placeholders are altered ones.
    unrepaired : altered placeholders left as text, because their number occurs elsewhere or they are ambiguous.
    unknown : placeholders whose number belongs to no formula and does not occur in the masked text; with `repair` they
        are removed, else left as text.
    """

    formulas: int
    kept: int
    missing: tuple[str, ...]
    duplicated: int
    reordered: int
    altered: int
    repaired: int
    unrepaired: int
    unknown: int

    @property
    def lost(self) -> int:
        """Number of formulas that the translation lost."""
        return len(self.missing)

    @property
    def intact(self) -> bool:
        """Whether every placeholder occurs exactly once, unchanged and in the original order."""
        return self.kept == self.formulas and not (self.duplicated or self.reordered or self.altered or self.unknown)


def mask_formulas(text: str, prefix: str = PREFIX, *, blanks: bool = False, dollars: Dollars = "pairs") -> Masked:
    """Replaces the formulas of a text by placeholders; `harness.formulas.text.delimiters` defines the formulas.

    Parameters
    ----------
    blanks : whether to separate placeholders from adjacent text by a space, so that each is a word.
    dollars : which dollar signs enclose formulas.

    Raises
    ------
    HarnessError
        The prefix is not made of capital letters A to Z.
    """
    if not re.fullmatch("[A-Z]+", prefix):
        raise HarnessError(f"prefix of placeholders is {prefix!r}, expected capital letters A to Z such as {PREFIX!r}")
    prose, formulas, at = [], [], 0
    for start, end, _, _ in formula_spans(text, dollars):
        prose.append(text[at:start])
        at = end + len(_DIGITS.match(text, end)[0])  # type: ignore[index]  # it matches nothing, too
        formulas.append(text[start:at])
    prose.append(text[at:])
    used = {int(placeholder[1]) for part in prose for placeholder in _any_spelling(prefix).finditer(part)}
    free = (number for number in count(1) if number not in used)
    numbers = tuple(next(free) for _ in formulas)
    pieces = [prose[0]]
    beside: list[tuple[str, str]] = []
    for number, behind in zip(numbers, prose[1:], strict=True):
        following = behind or prefix * (len(beside) + 1 < len(numbers))
        touched = (pieces[-1][-1:], following[:1]) if blanks else ("", "")
        before, after = ("" if sign.isspace() else sign for sign in touched)
        made = (" " * bool(before), f"{prefix}{number}", " " * bool(after), behind)
        pieces += [piece for piece in made if piece]
        beside.append((before, after))
    return Masked("".join(pieces), tuple(formulas), numbers, prefix, tuple(beside))


def unmask_formulas(translated: str, masked: Masked, *, repair: bool = False) -> tuple[str, Integrity]:
    """Restores the formulas in a translated text; returns the text and counts of what happened to the placeholders.

    A placeholder with the number of a formula is replaced by this formula. A placeholder in another spelling is
    replaced only if no correctly spelled one has its number; otherwise it may be a damaged placeholder of another
    formula, and is left as text.

    Parameters
    ----------
    repair : whether to recognise placeholders in other letters: with two adjacent letters swapped (`ZQ1`), or in
        Cyrillic or Greek (`КЗ1`). Such a placeholder is replaced only if no other one, in the right or in other
        letters, has its number; not if the masked text itself contains such letters, for example `ZQ`. And what to do
        with placeholders of numbers that the translator invented (`QZ11` for `QZ1`): a single one stands for the
        formula if a single formula is missing; all others are removed.

    Examples
    --------
    >>> masked = mask_formulas("Sea $x$ un primo.")
    >>> unmask_formulas("Let ZQ1 be a prime.", masked)[0]
    'Let ZQ1 be a prime.'
    >>> text, found = unmask_formulas("Let ZQ1 be a prime.", masked, repair=True)
    >>> text, found.kept, found.repaired
    ('Let $x$ be a prime.', 1, 1)
    """
    prefix, spelling = masked.prefix, _any_spelling(masked.prefix)
    formula = dict(zip(masked.numbers, masked.formulas, strict=True))
    placeholders = [(match, int(match[1])) for match in spelling.finditer(translated)]
    exact = {number for match, number in placeholders if _is_exact(match, prefix)}
    ours = [(match, number) for match, number in placeholders if number in formula]
    places = [(match, number) for match, number in ours if _is_exact(match, prefix) or number not in exact]
    if repair and not _in_other_letters(masked.text, prefix):
        candidates = ((match, int(match[1] or -1)) for match in _in_other_letters(translated, prefix))
        other = [(match, number) for match, number in candidates if number in formula]
        seen = Counter(number for _, number in (*ours, *other))
        ours += other
        places = sorted((*places, *(each for each in other if seen[each[1]] == 1)), key=lambda each: each[0].start())

    foreign = {int(match[1]) for match in spelling.finditer(masked.text)} - formula.keys()
    invented = [match for match, number in placeholders if number not in formula and number not in foreign]
    missing = formula.keys() - {number for _, number in places}
    if repair and len(invented) == len(missing) == 1:
        ours.append((invented[0], next(iter(missing))))
        places = sorted([*places, ours[-1]], key=lambda each: each[0].start())
        invented = []

    touched = dict(zip(masked.numbers, masked.beside or [("", "")] * len(formula), strict=True))
    pieces, at = [], 0
    cut = [(each, -1) for each in invented if repair and formula]
    for match, number in sorted([*places, *cut], key=lambda each: each[0].start()):
        before, after = touched.get(number, ("", ""))
        start, end = match.span()
        # Remove an inserted space if it is still between the same characters.
        if before and start - 1 >= at and translated[max(start - 2, 0) : start] == f"{before} ":
            start -= 1
        if after and translated[end : end + 2] == f" {after}":
            end += 1
        pieces += [translated[at:start], formula.get(number, "")]
        at = end

    times = Counter(number for _, number in places)
    integrity = Integrity(
        formulas=len(formula),
        kept=len(times),
        missing=tuple(latex for number, latex in formula.items() if number not in times),
        duplicated=times.total() - len(times),
        reordered=len(times) - _longest_ascent(times),
        altered=sum(match[0] != f"{prefix}{number}" for match, number in ours),
        repaired=len(times.keys() - exact),
        unrepaired=len(ours) - len(places),
        unknown=len(invented),
    )
    return "".join([*pieces, translated[at:]]), integrity


@cache
def _any_spelling(prefix: str) -> re.Pattern[str]:
    """Returns a pattern for placeholders in any spelling; its group is the number, in digits of any script.

    The number includes all following digits, so that `QZ1` does not match in `QZ12`; it has at most nine digits.
    """
    letters = _BETWEEN.join(f"[{letter}{chr(ord(letter) + 0xFEE0)}]" for letter in prefix)  # or its full-width form
    return re.compile(rf"{letters}{_BETWEEN}(\d{{1,9}}+)(?!\d)", re.IGNORECASE)


@cache
def _other_letters(prefix: str) -> re.Pattern[str]:
    """Returns a pattern for the prefix as a word, perhaps with swapped or foreign letters; its group is the number."""
    swapped = [prefix[:at] + prefix[at + 1] + prefix[at] + prefix[at + 2 :] for at in range(len(prefix) - 1)]
    orders = ("".join(f"[{letter}{_ALIKE[letter]}]" for letter in order) for order in (prefix, *swapped))
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(orders)})(?:{_BETWEEN}(\d{{1,9}}+)(?!\d)|(?![^\W_]))", re.IGNORECASE)


def _in_other_letters(text: str, prefix: str) -> list[re.Match[str]]:
    """Finds variants of the prefix in other letters in a text, with or without a number."""
    matches = _other_letters(prefix).finditer(text)
    return [match for match in matches if not _any_spelling(prefix).fullmatch(match[0] + "1" * (match[1] is None))]


def _is_exact(match: re.Match[str], prefix: str) -> bool:
    return match[0] == f"{prefix}{int(match[1])}"


def _longest_ascent(numbers: Iterable[int]) -> int:
    """Returns the length of the longest ascending subsequence."""
    lasts: list[int] = []  # of the ascents of each length, the smallest last number
    for number in numbers:
        at = bisect_left(lasts, number)
        lasts[at : at + 1] = [number]
    return len(lasts)
