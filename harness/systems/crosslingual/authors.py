r"""Reimplements the two different translation functions of CrossMath's authors, one for NLLB and one for mBART.

Source: https://github.com/jgore077/CrossMath at commit 39db4d8, which made the archived runs: classes
`NLLBMaskedTranslationModel` and `MaskedTranslationModel` in the folder `MaskedTranslationModel`, and `LaTeXMasker` for
the placeholders. Title and body of a topic are translated separately.

Both replace formulas by `QZ1`, `QZ2`, ... and leave text untranslated that then begins with a placeholder, a digit, a
blank, one of `. , ! ?`, or one of the letters Q and Z; the test skips a single initial `¿`. `nllb` applies this to each
sentence, `mbart` to the whole text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.formulas.text import masking
from harness.formulas.text.masking import PREFIX, Masked
from harness.systems.crosslingual.translators import TranslatedText

Ask = Callable[[Iterable[str]], Mapping[str, str]]
Count = Callable[[str, str], Mapping[str, int]]
Reason = Literal["formula", "digit", "mark", "blank", "letter"]
Script = Literal["nllb", "mbart"]

NAMES: Mapping[Script, str] = {"nllb": "NLLB", "mbart": "mBART"}
SCRIPTS: tuple[Script, ...] = tuple(NAMES)
LONGER = 50  # maximum number of characters by which an output of mBART may exceed its input
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


def mask_as_authors(text: str, prefix: str = PREFIX) -> Masked:
    """Replaces formulas by placeholders as the authors' code does.

    The first formula becomes `QZ1` at all its occurrences, then the first formula of the new text becomes `QZ2`, and so
    on. Equal formulas share a number. A formula that contains an earlier formula contains its placeholder. `$$a$` is a
    formula, and so is all text from the first `\\(` to the last `\\)` without a dollar between them. A `QZ1` in the
    original text is not protected.

    Examples
    --------
    >>> mask_as_authors("If $n$ is odd and $m$ is not, $n$ is greater.").text
    'If QZ1 is odd and QZ2 is not, QZ1 is greater.'
    """
    formulas: list[str] = []
    while match := _FORMULA.search(text):
        formulas.append(match[0])
        text = text.replace(match[0], f"{prefix}{len(formulas)}")
    return Masked(text, tuple(formulas), tuple(range(1, len(formulas) + 1)), prefix)


def unmask_as_authors(text: str, masked: Masked) -> str:
    """Restores formulas by plain replacement, `QZ1` first, also inside `QZ10`.

    Examples
    --------
    >>> unmask_as_authors("QZ2 and QZ10", Masked("", ("$a$", "$b$"), (1, 2)))
    '$b$ and $a$0'
    """
    for number, formula in zip(masked.numbers, masked.formulas, strict=True):
        text = text.replace(f"{masked.prefix}{number}", formula)
    return text


def reason(masked: Masked) -> Reason | None:
    """Returns why the authors leave a masked text untranslated, or None if they translate it.

    Examples
    --------
    >>> reason(mask_as_authors("$n$ is odd")), reason(mask_as_authors("Zero")), reason(mask_as_authors("Is $n$ odd"))
    ('formula', 'letter', None)
    """
    begin = 1 if re.match("¿(?!¿)", masked.text) else 0
    first = masked.text[begin : begin + 1]
    if first and first in masked.prefix:
        placeholder = re.compile(rf"{masked.prefix}(\d+)").match(masked.text, begin)
        return "formula" if placeholder and int(placeholder[1]) in masked.numbers else "letter"
    return _REASONS.get(first)


def sentences(text: str) -> list[str]:
    """Splits a text at each `.`, `!` or `?` followed by a blank, even within formulas; drops both characters.

    Examples
    --------
    >>> sentences("Is $5 mod 8. $ odd? Why.")
    ['Is $5 mod 8', '$ odd', 'Why.']
    """
    return _SENTENCE_END.split(text)


def units(text: str, script: Script) -> list[str]:
    """Returns the units that a script translates: the sentences of a text (nllb), or the whole text (mbart)."""
    return sentences(text) if script == "nllb" else [text]


def translate_as_authors(
    texts: Sequence[str], script: Script, ask: Ask, count: Count, prefix: str | None
) -> list[TranslatedText]:
    """Translates texts with one of the two functions.

    Parameters
    ----------
    ask : translates distinct texts, empty sentences included, as the authors do.
    count : counts the formulas of a text that are kept, lost, ... in its translation.
    prefix : of placeholders; None leaves formulas in the text.

    Returns
    -------
    list of Passage
        One per text. `restored` is stripped at both ends, as in the authors' evaluation.
    """
    parts = [units(text, script) for text in texts]
    masked = {
        unit: mask_as_authors(unit, prefix) if prefix else Masked(unit, (), (), "") for of in parts for unit in of
    }
    sent = {unit: one for unit, one in masked.items() if not reason(one)}
    translations = ask(one.text for one in sent.values())
    received = {unit: translations[one.text] for unit, one in sent.items()}
    if script == "mbart":
        # An output this long is unlikely to be a translation, so the text is translated again without placeholders.
        received |= ask(unit for unit, output in received.items() if len(output) - len(unit) > LONGER)
    restored = {unit: unmask_as_authors(received[unit], one) if unit in sent else unit for unit, one in masked.items()}
    return [_joined_text(text, of, masked, received, restored, count) for text, of in zip(texts, parts, strict=True)]


def _joined_text(
    text: str,
    of: Sequence[str],
    masked: Mapping[str, Masked],
    received: Mapping[str, str],
    restored: Mapping[str, str],
    count: Count,
) -> TranslatedText:
    """Joins the units of a text again; returns it in all stages of the translation, with counts of its formulas."""
    whole = " ".join(restored[unit] for unit in of).strip()
    respelled = sum(masking.unmask_formulas(received[unit], masked[unit])[1].altered for unit in of if unit in received)
    there = [unit for unit in of if unit.strip()]
    return TranslatedText(
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
    """Counts of units that a script leaves untranslated, by their first character.

    Attributes
    ----------
    units : sentences (nllb) or whole texts (mbart); blank ones do not count.
    formula, digit, mark, blank : untranslated units that begin with one; mark: one of `. , ! ?`, or two `¿`.
    letter : untranslated units that begin with a letter of the placeholders' prefix, such as `Za` in Czech.
    words : untranslated units that contain a translatable word.
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
        """Number of untranslated units."""
        return self.formula + self.digit + self.mark + self.blank + self.letter


def untranslated(texts: Iterable[str], script: Script, prefix: str = PREFIX) -> Untranslated:
    """Counts the units of texts (titles, bodies) that a script leaves untranslated.

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
        if why := reason(one := mask_as_authors(unit, prefix)):
            counts[why] += 1
            counts["words"] += has_words(one.text, prefix)
    return Untranslated(**counts)


def leaves(text: str, script: Script, prefix: str = PREFIX) -> bool:
    """Returns whether a script leaves a whole text untranslated.

    Examples
    --------
    >>> leaves("$n$ is a prime. Why?", "mbart"), leaves("$n$ is a prime. Why?", "nllb")
    (True, False)
    """
    return all(reason(mask_as_authors(unit, prefix)) for unit in units(text, script))


def has_words(text: str, prefix: str | None = PREFIX) -> bool:
    """Returns whether a text has a letter outside its placeholders."""
    return any(map(str.isalpha, re.sub(rf"{prefix}\d+", "", text) if prefix else text))
