"""What a translator is, and what became of a text that was translated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Translator(Protocol):
    """What translates: an object of a class that a configuration's key `translator` names by `_target_`."""

    @property
    def name(self) -> str:
        """What messages, artefacts and reports call it."""
        ...

    @property
    def languages(self) -> Mapping[str, str]:
        """ISO 639-3 code -> its own code, of the languages that it reads."""
        ...

    @property
    def whole(self) -> bool:
        """Whether it is given whole texts; else sentences, one at a time."""
        ...

    def missing(self) -> list[str]:
        """Returns what it lacks on this machine, a line each with the command that brings it; reads no big file."""
        ...

    def identity(self, source: str = "", target: str = "") -> Mapping[str, Any]:
        """Returns what decides its translations besides texts, languages and our code: model and programs by content.

        Parameters
        ----------
        source, target : of the direction that is asked for; without them, of all that it has.

        Raises
        ------
        HarnessError
            It does not know the direction, or is not installed.
        """
        ...

    def notes(self) -> tuple[str, ...]:
        """Sentences that a reader of its translations must know."""
        ...

    def translate(self, texts: Sequence[str], source: str, target: str) -> list[str]:
        """Returns the translations, one for one and in order; languages by their ISO 639-3 codes.

        Raises
        ------
        HarnessError
            It does not know the language or direction, is not installed, crashes, or gives another number of texts.
        """
        ...


@dataclass(frozen=True)
class Passage:
    """A text, its translation, and what became of its formulas on the way.

    Attributes
    ----------
    original, restored : the text, and its translation with the formulas put back.
    sent, received : what the translator was given and gave, with placeholders if formulas were masked.
    formulas : how many the original has. Each is kept, or lost.
    kept : those that stand in the restored text as they were, appended ones not counted.
    duplicated, moved, altered : places beyond a formula's first; the fewest formulas out of their order;
        placeholders in another spelling.
    appended : lost formulas that were put at the end.
    sentences, untranslated : how many there were, and how many were not given to the translator by a rule.
    repaired : kept formulas whose placeholders came back only in another spelling or in other letters.
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

    @property
    def lost(self) -> int:
        """Formulas that did not come back by themselves."""
        return self.formulas - self.kept
