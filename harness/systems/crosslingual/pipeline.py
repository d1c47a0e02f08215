"""Texts through a translator and back: formulas masked, sentences translated, formulas put back, all of it counted."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from harness.errors import HarnessError
from harness.formulas.text.masking import PREFIX, Integrity, Masked, mask, unmask
from harness.io import checks
from harness.io.console import say
from harness.systems.crosslingual import sentences
from harness.systems.crosslingual.translators import Passage, Translator

PIPELINES = ("ours", "authors")
Reason = Literal["formula", "digit", "mark", "blank", "letter"]
_REASONS: Mapping[str, Reason] = {
    **dict.fromkeys("0123456789", "digit"),
    **dict.fromkeys("¿?.,!", "mark"),
    " ": "blank",
}


def translate(
    texts: Sequence[str],
    translator: Translator,
    source: str,
    target: str,
    *,
    masking: str | None = PREFIX,
    pipeline: str = "ours",
) -> list[Passage]:
    """The translations of texts, one for one and in order, and what became of their formulas.

    `ours` masks each text, translates its sentences (the whole text where the translator asks for that), each
    different one once, puts the formulas back and appends those that were lost. A sentence without a letter outside
    its placeholders is not given to the translator.

    `authors` does what CrossMath's scripts do, faults included: see `harness.systems.crosslingual.sentences.authors`
    and `left`. Each sentence is masked by itself; what a translator changed in a placeholder is not repaired, and the
    placeholder `QZ1` is found in `QZ12` as well; an output of mBART with a known hallucination is replaced by the
    translation of the sentence without masks.

    Parameters
    ----------
    source, target : the languages, by their ISO 639-3 codes.
    masking : the prefix of placeholders; None gives the formulas to the translator, and repairs nothing.

    Raises
    ------
    HarnessError
        The pipeline is unknown, or the translator fails or gives another number of texts.
    """
    checks.choice("pipeline", pipeline, PIPELINES)
    ask = partial(_asked, translator, source, target)
    if pipeline == "ours":
        return _ours(texts, ask, translator.whole, masking)
    return _authors(texts, ask, getattr(translator, "hallucination", ""), masking)


def _asked(translator: Translator, source: str, target: str, texts: Iterable[str]) -> dict[str, str]:
    """Each different text with its translation; without texts the translator is not asked."""
    different = list(dict.fromkeys(texts))
    out: object = translator.translate(different, source, target) if different else []
    if not isinstance(out, list | tuple) or not all(isinstance(text, str) for text in out):
        raise HarnessError(f"translator {translator.name}: gave something else than a list of texts")
    if len(out) != len(different):
        raise HarnessError(f"translator {translator.name}: gave {len(out)} translations of {len(different)} texts")
    if empty := sum(not text.strip() for text in out):
        say(f"translator {translator.name}: gave nothing for {empty} of {len(different)} texts")
    return dict(zip(different, out, strict=True))


# ---- ours -------------------------------------------------------------------------------------------------------


def _ours(texts: Sequence[str], ask: partial[dict[str, str]], whole: bool, masking: str | None) -> list[Passage]:
    masked = [mask(text, masking, blanks=True) if masking else None for text in texts]
    sent = [text if there is None else there.text for text, there in zip(texts, masked, strict=True)]
    units = [_whole(text) if whole else sentences.split(text) for text in sent]
    found = ask(unit for parts in units for unit, _ in parts if _words(unit, masking))
    received = ["".join(found.get(unit, unit) + blank for unit, blank in parts) for parts in units]
    passages = []
    for original, gave, got, there, parts in zip(texts, sent, received, masked, units, strict=True):
        restored, integrity = (got, compared(original, got)) if there is None else unmask(got, there)
        lost = () if there is None else integrity.missing
        if lost:
            restored = " ".join([*([restored.rstrip()] if restored.strip() else []), *lost])
        given = [unit for unit, _ in parts if unit]
        passages.append(
            Passage(
                original,
                gave,
                got,
                restored,
                **counts(integrity),
                appended=len(lost),
                sentences=len(given),
                untranslated=sum(unit not in found for unit in given),
            )
        )
    return passages


def _whole(text: str) -> list[tuple[str, str]]:
    """The text as one unit, as `sentences.split` gives many."""
    core = text.strip()
    begin = text.find(core)
    return [pair for pair in (("", text[:begin]), (core, text[begin + len(core) :])) if any(pair)]


def _words(text: str, masking: str | None) -> bool:
    """Whether a text has a letter outside its placeholders."""
    return any(map(str.isalpha, re.sub(rf"{masking}\d+", "", text) if masking else text))


# ---- the authors' -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Untranslated:
    """How many sentences of texts the authors' rule leaves as they are, by what they begin with.

    Attributes
    ----------
    sentences : all there are, as the authors' scripts split; empty ones do not count.
    formula, digit, mark, blank : those that begin with one; mark: one of `. , ! ?`, or two `¿`.
    letter : those whose first word begins with a letter of the placeholders' prefix, such as `Za` in Czech.
    words : of all of these, how many hold a word that would have been translated.
    """

    sentences: int = 0
    formula: int = 0
    digit: int = 0
    mark: int = 0
    blank: int = 0
    letter: int = 0
    words: int = 0

    @property
    def left(self) -> int:
        """Sentences that stay untranslated."""
        return self.formula + self.digit + self.mark + self.blank + self.letter


def untranslated(texts: Iterable[str], masking: str = PREFIX) -> Untranslated:
    """What the authors' rule leaves untranslated of texts (titles, bodies), in whichever language; see `left`.

    Examples
    --------
    >>> found = untranslated(["Is $n$ odd? $n$ is a prime! 2 is even."])
    >>> found.sentences, found.left, found.formula, found.digit, found.words
    (3, 2, 1, 1, 2)
    """
    counts: dict[str, int] = defaultdict(int)
    for text in texts:
        for there in (mask(sentence, masking) for sentence in sentences.authors(text) if sentence.strip()):
            counts["sentences"] += 1
            if reason := left(there):
                counts[reason] += 1
                counts["words"] += _words(there.text, masking)
    return Untranslated(**counts)


def left(masked: Masked) -> Reason | None:
    """Why the authors' scripts leave a sentence untranslated: what it begins with, one `¿` aside; None if they do not.

    They look at the masked sentence: a digit, a blank, one of `. , ! ? ¿`, or a letter of the prefix.
    """
    begin = 1 if re.match("¿(?!¿)", masked.text) else 0
    first = masked.text[begin : begin + 1]
    if first and first in masked.prefix:
        placeholder = re.compile(rf"{masked.prefix}(\d+)").match(masked.text, begin)
        return "formula" if placeholder and int(placeholder[1]) in masked.numbers else "letter"
    return _REASONS.get(first)


def _authors(
    texts: Sequence[str], ask: partial[dict[str, str]], hallucination: str, masking: str | None
) -> list[Passage]:
    pieces = [sentences.authors(text) for text in texts]
    masked = {
        piece: mask(piece, masking) if masking else Masked(piece, (), (), "") for parts in pieces for piece in parts
    }
    given = {piece for piece, there in masked.items() if piece and not left(there)}
    found = ask(masked[piece].text for piece in masked if piece in given)
    again = {piece for piece in given if hallucination and hallucination in found[masked[piece].text]}
    anew = ask(piece for piece in masked if piece in again)

    def came_back(piece: str) -> str:
        return anew[piece] if piece in again else found[masked[piece].text] if piece in given else masked[piece].text

    passages = []
    for original, parts in zip(texts, pieces, strict=True):
        got = [came_back(piece) for piece in parts]
        back = [
            _put_back(text, masked[piece]) if piece in given else piece for text, piece in zip(got, parts, strict=True)
        ]
        restored = " ".join(back).strip()
        there = [piece for piece in parts if piece.strip()]
        altered = sum(unmask(text, masked[piece])[1].altered for text, piece in zip(got, parts, strict=True) if masking)
        passages.append(
            Passage(
                original,
                " ".join(masked[piece].text for piece in parts),
                " ".join(got),
                restored,
                **(counts(compared(original, restored)) | {"altered": altered}),
                sentences=len(there),
                untranslated=sum(piece not in given for piece in there),
            )
        )
    return passages


def _put_back(text: str, masked: Masked) -> str:
    """The formulas put back as the authors' scripts do it: one after another, wherever a placeholder's letters are."""
    for number, formula in zip(masked.numbers, masked.formulas, strict=True):
        text = text.replace(f"{masked.prefix}{number}", formula)
    return text


# ---- both -------------------------------------------------------------------------------------------------------


def compared(original: str, restored: str) -> Integrity:
    """What became of formulas that had no placeholders: those of a text beside those found in its translation."""
    there = mask(original)
    places: dict[str, list[int]] = defaultdict(list)
    for number, formula in zip(there.numbers, there.formulas, strict=True):
        places[formula].append(number)
    first = {formula: numbers[0] for formula, numbers in places.items()}
    order = []
    for formula in mask(restored).formulas:
        if formula in places:
            order.append(places[formula].pop(0) if places[formula] else first[formula])
    return unmask(" ".join(f"{there.prefix}{number}" for number in order), there)[1]


def counts(integrity: Integrity) -> dict[str, int]:
    """What of an integrity a `Passage` tells."""
    return {
        "formulas": integrity.formulas,
        "kept": integrity.kept,
        "duplicated": integrity.duplicated,
        "moved": integrity.reordered,
        "altered": integrity.altered,
    }
