"""Interface of translators, and the data class of a translated passage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Translator(Protocol):
    """Translator: an instance of the class named by `_target_` in the configuration key `translator`."""

    @property
    def name(self) -> str:
        """Name in messages, artifacts and reports."""

    @property
    def languages(self) -> Mapping[str, str]:
        """Input languages: ISO 639-3 code -> the translator's code."""

    @property
    def whole(self) -> bool:
        """Whether it translates whole texts; otherwise single sentences."""

    def missing(self) -> list[str]:
        """Returns what is not installed, one line each with the install command; reads no large file."""

    def identity(self, source: str = "", target: str = "") -> Mapping[str, Any]:
        """Returns the inputs of translations besides texts, languages and this code, such as checksums of the model.

        Parameters
        ----------
        source, target : the requested direction; by default, all directions.

        Raises
        ------
        HarnessError
            The translator does not have the direction, or is not installed.
        """

    def notes(self) -> tuple[str, ...]:
        """Returns caveats for readers of its translations."""

    def translate(self, texts: Sequence[str], source: str, target: str) -> list[str]:
        """Returns the translations in order; languages are ISO 639-3 codes.

        Raises
        ------
        HarnessError
            The translator lacks the direction, is not installed, fails, or returns a different number of texts.
        """


@dataclass(frozen=True)
class TranslatedText:
    """A text, its translation, and counts of kept, lost, duplicated and moved formulas.

    Attributes
    ----------
    original, restored : the text, and its translation with restored formulas.
    sent, received : input and output of the translator, with placeholders if formulas were masked.
    formulas : number of formulas in the original; each is kept or lost.
    kept : formulas that are unchanged in the restored text, not counting appended ones.
    duplicated, moved, altered : occurrences beyond a formula's first; minimum number of formulas that changed their
        order; placeholders in another spelling.
    appended : lost formulas that were appended at the end.
    sentences, untranslated : number of sentences, and of those that a rule excluded from translation.
    repaired : kept formulas whose placeholders were returned only in another spelling, letters or number.
    invented : placeholders without a formula, which were removed.
    """

    original: str
    sent: str
    received: str
    restored: str
    formulas: int = 0
    kept: int = 0
    duplicated: int = 0
    moved: int = 0
    altered: int = 0
    appended: int = 0
    sentences: int = 0
    untranslated: int = 0
    repaired: int = 0
    invented: int = 0

    @property
    def lost(self) -> int:
        """Number of formulas that are missing from the translation."""
        return self.formulas - self.kept
