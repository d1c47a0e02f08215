"""Translates texts with their formulas masked, and counts what became of the formulas."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial

from harness.errors import HarnessError
from harness.formulas.text.masking import PREFIX, Integrity, mask, unmask
from harness.io import checks
from harness.io.console import say
from harness.systems.crosslingual import authors, sentences
from harness.systems.crosslingual.translators import Passage, Translator

PIPELINES = ("ours", "authors", *(f"authors-{script}" for script in authors.SCRIPTS))


def translate(
    texts: Sequence[str],
    translator: Translator,
    source: str,
    target: str,
    *,
    masking: str | None = PREFIX,
    pipeline: str = "ours",
) -> list[Passage]:
    """Translates texts in order and reports how many formulas were kept, lost, duplicated or moved.

    `ours` masks each text, translates its sentences (the whole text where the translator asks for that), each
    different one once, puts the formulas back, also for placeholders that came back in other letters (see `unmask`),
    and appends those that were lost. A sentence without a letter outside its placeholders is not given to the
    translator.

    `authors` does what CrossMath's authors do with the same translator, faults included; `authors-nllb` and
    `authors-mbart` name one of their two functions for any translator: see `harness.systems.crosslingual.authors`.

    Parameters
    ----------
    source, target : languages, by their ISO 639-3 codes.
    masking : the prefix of placeholders; None gives the formulas to the translator, and repairs nothing.

    Raises
    ------
    HarnessError
        The pipeline is unknown or not the translator's, or the translator fails or returns another number of texts.
    """
    ask = partial(_asked, translator, source, target)
    if (script := script_of(pipeline, translator)) is not None:
        return authors.translate(texts, script, ask, lambda text, restored: counts(compared(text, restored)), masking)
    return _ours(texts, ask, translator.whole, masking)


def script_of(pipeline: str, translator: Translator) -> authors.Script | None:
    """Returns which function of CrossMath's authors a pipeline is, or None for `ours`.

    Raises
    ------
    HarnessError
        The pipeline is unknown, or it is `authors` and the translator is neither NLLB nor mBART.
    """
    checks.choice("pipeline", pipeline, PIPELINES)
    if pipeline == "ours":
        return None
    named = pipeline.partition("-")[2] or getattr(translator, "script", "")
    if (found := next((script for script in authors.SCRIPTS if script == named), None)) is None:
        raise HarnessError(
            f"key 'pipeline' is 'authors', which has two functions, for NLLB and for mBART, and none for "
            f"{translator.name}; expected authors-nllb or authors-mbart"
        )
    return found


def _asked(translator: Translator, source: str, target: str, texts: Iterable[str]) -> dict[str, str]:
    """Returns each different text with its translation; without texts the translator is not asked."""
    different = list(dict.fromkeys(texts))
    out: object = translator.translate(different, source, target) if different else []
    if not isinstance(out, list | tuple) or not all(isinstance(text, str) for text in out):
        raise HarnessError(f"translator {translator.name}: gave something else than a list of texts")
    if len(out) != len(different):
        raise HarnessError(f"translator {translator.name}: gave {len(out)} translations of {len(different)} texts")
    if empty := sum(bool(text.strip()) and not made.strip() for text, made in zip(different, out, strict=True)):
        say(f"translator {translator.name}: gave nothing for {empty} of {len(different)} texts")
    return dict(zip(different, out, strict=True))


# ---- ours -------------------------------------------------------------------------------------------------------


def _ours(texts: Sequence[str], ask: partial[dict[str, str]], whole: bool, masking: str | None) -> list[Passage]:
    masked = [mask(text, masking, blanks=True) if masking else None for text in texts]
    sent = [text if there is None else there.text for text, there in zip(texts, masked, strict=True)]
    units = [_whole(text) if whole else sentences.split(text) for text in sent]
    found = ask(unit for parts in units for unit, _ in parts if authors.has_words(unit, masking))
    received = ["".join(found.get(unit, unit) + blank for unit, blank in parts) for parts in units]
    passages = []
    for original, gave, got, there, parts in zip(texts, sent, received, masked, units, strict=True):
        restored, integrity = (got, compared(original, got)) if there is None else unmask(got, there, repair=True)
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
    """Returns the text as one unit, as `sentences.split` gives many."""
    core = text.strip()
    begin = text.find(core)
    return [pair for pair in (("", text[:begin]), (core, text[begin + len(core) :])) if any(pair)]


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
    """Returns what of an integrity a `Passage` tells."""
    return {
        "formulas": integrity.formulas,
        "kept": integrity.kept,
        "duplicated": integrity.duplicated,
        "moved": integrity.reordered,
        "altered": integrity.altered,
        "repaired": integrity.repaired,
    }
