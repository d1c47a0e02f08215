r"""The two translation functions of CrossMath's authors, which differ: one for NLLB, one for mBART.

Source: https://github.com/jgore077/CrossMath at commit 39db4d8, that of the archived runs: `NLLBMaskedTranslationModel`
and `MaskedTranslationModel` of the folder `MaskedTranslationModel`, `LaTeXMasker` for the placeholders. Each is given a
topic's title and body separately.

Both replace formulas by `QZ1`, `QZ2`, ... and leave untranslated what then begins with a placeholder, a digit, a blank,
one of `. , ! ?`, or one of the letters Q and Z; a single `¿` at the beginning is skipped by the test. `nllb` applies
this to each sentence, `mbart` to the whole text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.formulas.text import masking
from harness.formulas.text.masking import PREFIX, Masked
from harness.systems.crosslingual.translators import Passage

Ask = Callable[[Iterable[str]], Mapping[str, str]]
Count = Callable[[str, str], Mapping[str, int]]
Reason = Literal["formula", "digit", "mark", "blank", "letter"]
Script = Literal["nllb", "mbart"]

NAMES: Mapping[Script, str] = {"nllb": "NLLB", "mbart": "mBART"}
SCRIPTS: tuple[Script, ...] = tuple(NAMES)
LONGER = 50  # characters by which an output of mBART may be longer than its text
_SENTENCE_END = re.compile("[.!?] ")
_FORMULA = re.compile(
    r"\\\([^$]*\\\)"  # \( ... \)
    r"|\$\$?[^$]*\$\$?"
    r"|\\\[[^$]*\\\]"  # \[ ... \]
    r"|\\begin\{.*\}[^$]*\\end\{.*\}"
)
_REASONS: Mapping[str, Reason] = {
    **dict.fromkeys("0123456789", "digit"),
    **dict.fromkeys("¿?.,!", "mark"),
    " ": "blank",
}


def mask(text: str, prefix: str = PREFIX) -> Masked:
    """Replaces formulas by placeholders, as the authors do.

    The first formula of the text as it stands becomes `QZ1` wherever it occurs, then the first one of the new text
    becomes `QZ2`, and so on. Equal formulas share a number. A formula that contains an earlier one holds that one's
    placeholder. `$$a$` is a formula, and so is everything from the first `\\(` to the last `\\)` if no dollar stands
    between. Nothing protects a `QZ1` that the text had before.

    Examples
    --------
    >>> mask("If $n$ is odd and $m$ is not, $n$ is greater.").text
    'If QZ1 is odd and QZ2 is not, QZ1 is greater.'
    """
    formulas: list[str] = []
    while found := _FORMULA.search(text):
        formulas.append(found[0])
        text = text.replace(found[0], f"{prefix}{len(formulas)}")
    return Masked(text, tuple(formulas), tuple(range(1, len(formulas) + 1)), prefix)


def unmask(text: str, masked: Masked) -> str:
    """Puts formulas back, `QZ1` first, wherever its letters occur: also inside `QZ10`.

    Examples
    --------
    >>> unmask("QZ2 and QZ10", Masked("", ("$a$", "$b$"), (1, 2)))
    '$b$ and $a$0'
    """
    for number, formula in zip(masked.numbers, masked.formulas, strict=True):
        text = text.replace(f"{masked.prefix}{number}", formula)
    return text


def reason(masked: Masked) -> Reason | None:
    """Returns why the authors leave a masked text untranslated, or None if they translate it.

    Examples
    --------
    >>> reason(mask("$n$ is odd")), reason(mask("Zero")), reason(mask("Is $n$ odd"))
    ('formula', 'letter', None)
    """
    begin = 1 if re.match("¿(?!¿)", masked.text) else 0
    first = masked.text[begin : begin + 1]
    if first and first in masked.prefix:
        placeholder = re.compile(rf"{masked.prefix}(\d+)").match(masked.text, begin)
        return "formula" if placeholder and int(placeholder[1]) in masked.numbers else "letter"
    return _REASONS.get(first)


def sentences(text: str) -> list[str]:
    """Splits a text after each `.`, `!` or `?` that a blank follows; both are lost, and formulas are no obstacle.

    Examples
    --------
    >>> sentences("Is $5 mod 8. $ odd? Why.")
    ['Is $5 mod 8', '$ odd', 'Why.']
    """
    return _SENTENCE_END.split(text)


def units(text: str, script: Script) -> list[str]:
    """Returns what a script masks and translates at a time: the sentences of a text (nllb), or all of it (mbart)."""
    return sentences(text) if script == "nllb" else [text]


def translate(texts: Sequence[str], script: Script, ask: Ask, count: Count, prefix: str | None) -> list[Passage]:
    """Translates texts by one of the two functions.

    Parameters
    ----------
    ask : translates different texts. Each is asked once, and an empty sentence too, as the authors do.
    count : compares the formulas of a text with those of its translation.
    prefix : of placeholders; None leaves formulas in the text.

    Returns
    -------
    list of Passage
        One for each text. `restored` is stripped at both ends, as the authors' evaluation does.
    """
    parts = [units(text, script) for text in texts]
    masked = {unit: mask(unit, prefix) if prefix else Masked(unit, (), (), "") for of in parts for unit in of}
    sent = {unit: one for unit, one in masked.items() if not reason(one)}
    found = ask(one.text for one in sent.values())
    received = {unit: found[one.text] for unit, one in sent.items()}
    if script == "mbart":
        # An output this long is unlikely to be a translation: the text is tried again without placeholders.
        received |= ask(unit for unit, output in received.items() if len(output) - len(unit) > LONGER)
    restored = {unit: unmask(received[unit], one) if unit in sent else unit for unit, one in masked.items()}
    return [_passage(text, of, masked, received, restored, count) for text, of in zip(texts, parts, strict=True)]


def _passage(
    text: str,
    of: Sequence[str],
    masked: Mapping[str, Masked],
    received: Mapping[str, str],
    restored: Mapping[str, str],
    count: Count,
) -> Passage:
    whole = " ".join(restored[unit] for unit in of).strip()
    respelled = sum(masking.unmask(received[unit], masked[unit])[1].altered for unit in of if unit in received)
    there = [unit for unit in of if unit.strip()]
    return Passage(
        text,
        " ".join(masked[unit].text for unit in of),
        " ".join(received.get(unit, masked[unit].text) for unit in of),
        whole,
        **{**count(text, whole), "altered": respelled},
        sentences=len(there),
        untranslated=sum(unit not in received for unit in there),
    )


@dataclass(frozen=True)
class Untranslated:
    """How much of some texts a script leaves untranslated, by what it begins with.

    Attributes
    ----------
    units : sentences (nllb) or whole texts (mbart); blank ones do not count.
    formula, digit, mark, blank : units that begin with one; mark: one of `. , ! ?`, or two `¿`.
    letter : units that begin with a letter of the placeholders' prefix, such as `Za` in Czech.
    words : of all these, how many hold a word that a translator could have translated.
    """

    units: int = 0
    formula: int = 0
    digit: int = 0
    mark: int = 0
    blank: int = 0
    letter: int = 0
    words: int = 0

    @property
    def left(self) -> int:
        """Units that stay untranslated."""
        return self.formula + self.digit + self.mark + self.blank + self.letter


def untranslated(texts: Iterable[str], script: Script, prefix: str = PREFIX) -> Untranslated:
    """Counts what a script leaves untranslated of texts (titles, bodies), whichever their language.

    Examples
    --------
    >>> texts = ["Is $n$ odd? $n$ is a prime! 2 is even."]
    >>> nllb, mbart = untranslated(texts, "nllb"), untranslated(texts, "mbart")
    >>> (nllb.units, nllb.left, nllb.formula, nllb.digit, nllb.words), (mbart.units, mbart.left)
    ((3, 2, 1, 1, 2), (1, 0))
    """
    counts: Counter[str] = Counter()
    for unit in (unit for text in texts for unit in units(text, script) if unit.strip()):
        counts["units"] += 1
        if why := reason(one := mask(unit, prefix)):
            counts[why] += 1
            counts["words"] += has_words(one.text, prefix)
    return Untranslated(**counts)


def leaves(text: str, script: Script, prefix: str = PREFIX) -> bool:
    """Returns whether a script returns a whole text as it is.

    Examples
    --------
    >>> leaves("$n$ is a prime. Why?", "mbart"), leaves("$n$ is a prime. Why?", "nllb")
    (True, False)
    """
    return all(reason(mask(unit, prefix)) for unit in units(text, script))


def has_words(text: str, prefix: str | None = PREFIX) -> bool:
    """Returns whether a text has a letter outside its placeholders."""
    return any(map(str.isalpha, re.sub(rf"{prefix}\d+", "", text) if prefix else text))
