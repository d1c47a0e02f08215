"""Translates texts with masked formulas, and counts kept, lost, duplicated and moved formulas."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial

from harness.errors import HarnessError
from harness.formulas.text.delimiters import Dollars
from harness.formulas.text.masking import PREFIX, Integrity, mask_formulas, unmask_formulas
from harness.io import checks
from harness.io.console import log_line
from harness.systems.crosslingual import authors, sentences
from harness.systems.crosslingual.translators import TranslatedText, Translator

PIPELINES = ("ours", "authors", *(f"authors-{script}" for script in authors.SCRIPTS))


def translate_texts(
    texts: Sequence[str],
    translator: Translator,
    source: str,
    target: str,
    *,
    masking: str | None = PREFIX,
    pipeline: str = "ours",
    dollars: Dollars = "pairs",
) -> list[TranslatedText]:
    """Translates texts in order and reports how many formulas were kept, lost, duplicated or moved.

    `ours` masks each text, translates its distinct sentences (or the whole text, if the translator takes whole texts),
    restores the formulas, also for altered placeholders (see `unmask`), and appends lost formulas. Sentences without a
    letter outside placeholders are not translated.

    `authors` reproduces the code of CrossMath's authors for the same translator, faults included; `authors-nllb` and
    `authors-mbart` apply one of their two functions to any translator: see `harness.systems.crosslingual.authors`.

    Parameters
    ----------
    source, target : languages, by their ISO 639-3 codes.
    masking : prefix of placeholders; None passes formulas to the translator, without repair.
    dollars : which dollar signs of the texts enclose formulas; `authors` takes any two.

    Raises
    ------
    HarnessError
        The pipeline is unknown or does not fit the translator, or the translator fails or returns a different number of
        texts.
    """
    ask = partial(_asked, translator, source, target)
    if (script := script_of(pipeline, translator)) is not None:
        return authors.translate_as_authors(
            texts, script, ask, lambda text, restored: counts(compared(text, restored)), masking
        )
    return _translate_sentences(texts, ask, translator.whole, masking, dollars)


def script_of(pipeline: str, translator: Translator) -> authors.Script | None:
    """Returns the function of CrossMath's authors that a pipeline uses, or None for `ours`.

    Raises
    ------
    HarnessError
        The pipeline is unknown, or it is `authors` and the translator is neither NLLB nor mBART.
    """
    checks.choice("pipeline", pipeline, PIPELINES)
    if pipeline == "ours":
        return None
    named = pipeline.partition("-")[2] or getattr(translator, "script", "")
    if (script_name := next((script for script in authors.SCRIPTS if script == named), None)) is None:
        raise HarnessError(
            f"key 'pipeline' is 'authors', which has two functions, for NLLB and for mBART, and none for "
            f"{translator.name}; expected authors-nllb or authors-mbart"
        )
    return script_name


def _asked(translator: Translator, source: str, target: str, texts: Iterable[str]) -> dict[str, str]:
    """Returns distinct text -> translation; without texts, the translator is not called."""
    different = list(dict.fromkeys(texts))
    out: object = translator.translate(different, source, target) if different else []
    if not isinstance(out, list | tuple) or not all(isinstance(text, str) for text in out):
        raise HarnessError(f"translator {translator.name}: gave something else than a list of texts")
    if len(out) != len(different):
        raise HarnessError(f"translator {translator.name}: gave {len(out)} translations of {len(different)} texts")
    if empty := sum(bool(text.strip()) and not made.strip() for text, made in zip(different, out, strict=True)):
        log_line(f"translator {translator.name}: gave nothing for {empty} of {len(different)} texts")
    return dict(zip(different, out, strict=True))


# ---- ours -------------------------------------------------------------------------------------------------------


def _translate_sentences(
    texts: Sequence[str], ask: partial[dict[str, str]], whole: bool, masking: str | None, dollars: Dollars
) -> list[TranslatedText]:
    """Translates texts sentence by sentence (or `whole`), with formulas masked if `masking` says how."""
    masked = [mask_formulas(text, masking, blanks=True, dollars=dollars) if masking else None for text in texts]
    sent = [text if there is None else there.text for text, there in zip(texts, masked, strict=True)]
    units = [_whole(text) if whole else sentences.split(text) for text in sent]
    translations = ask(unit for parts in units for unit, _ in parts if authors.has_words(unit, masking))
    received = ["".join(translations.get(unit, unit) + blank for unit, blank in parts) for parts in units]
    passages = []
    for original, gave, got, there, parts in zip(texts, sent, received, masked, units, strict=True):
        restored, integrity = (
            (got, compared(original, got, dollars)) if there is None else unmask_formulas(got, there, repair=True)
        )
        lost = () if there is None else integrity.missing
        if lost:
            restored = " ".join([*([restored.rstrip()] if restored.strip() else []), *lost])
        given = [unit for unit, _ in parts if unit]
        passages.append(
            TranslatedText(
                original,
                gave,
                got,
                restored,
                **counts(integrity),
                appended=len(lost),
                sentences=len(given),
                untranslated=sum(unit not in translations for unit in given),
            )
        )
    return passages


def _whole(text: str) -> list[tuple[str, str]]:
    """Returns the whole text as one unit, in the format of `sentences.split`."""
    core = text.strip()
    begin = text.find(core)
    return [pair for pair in (("", text[:begin]), (core, text[begin + len(core) :])) if any(pair)]


# ---- both -------------------------------------------------------------------------------------------------------


def compared(original: str, restored: str, dollars: Dollars = "pairs") -> Integrity:
    """Compares the formulas of a text with those of its translation, for texts translated without placeholders."""
    there = mask_formulas(original, dollars=dollars)
    places: dict[str, list[int]] = defaultdict(list)
    for number, formula in zip(there.numbers, there.formulas, strict=True):
        places[formula].append(number)
    first = {formula: numbers[0] for formula, numbers in places.items()}
    order = []
    for formula in mask_formulas(restored, dollars=dollars).formulas:
        if formula in places:
            order.append(places[formula].pop(0) if places[formula] else first[formula])
    return unmask_formulas(" ".join(f"{there.prefix}{number}" for number in order), there)[1]


def counts(integrity: Integrity) -> dict[str, int]:
    """Returns the counts of an `Integrity` as arguments of `TranslatedText`."""
    return {
        "formulas": integrity.formulas,
        "kept": integrity.kept,
        "duplicated": integrity.duplicated,
        "moved": integrity.reordered,
        "altered": integrity.altered,
        "repaired": integrity.repaired,
        "invented": integrity.unknown,
    }
