"""Translators for tests, which configurations name by `spoken.CLASS`."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from harness.errors import HarnessError
from harness.formulas.text.masking import mask_formulas
from harness.systems.crosslingual.translators import TranslatedText


@dataclass(frozen=True)
class Dictionary:
    """Word by word; what it has not is left. Each batch is written to a file, if there is one, after a pause."""

    words: Mapping[str, str]
    whole: bool = True
    log: str = ""
    pause: float = 0.0
    fewer: int = 0
    crash: str = ""
    name: str = "dictionary"

    languages: ClassVar[Mapping[str, str]] = {"spa": "es", "hrv": "hr", "pes": "fa"}

    def missing(self) -> list[str]:
        return []

    def identity(self, source: str = "", target: str = "") -> Mapping[str, Any]:
        if source and source not in self.languages:
            raise HarnessError(f"translator {self.name}: no code for language {source!r}; it reads spa, hrv, pes")
        return {"words": dict(self.words)}

    def notes(self) -> tuple[str, ...]:
        return ("A dictionary of a test.",)

    def translate(self, texts: Sequence[str], source: str, target: str) -> list[str]:
        if self.crash and any(self.crash in text for text in texts):
            raise HarnessError(f"translator {self.name}: crashed at {self.crash!r}")
        if self.log:
            with Path(self.log).open("a", encoding="utf-8") as stream:
                stream.writelines(f"{text!r}\n" for text in texts)
        time.sleep(self.pause)
        out = [" ".join(self.words.get(word, word) for word in text.split(" ")) for text in texts]
        return out[self.fewer :]


@dataclass
class Careless:
    """Leaves words out, says them twice, and puts them into any order."""

    whole: bool
    draw: random.Random
    name: str = "careless"

    languages: ClassVar[Mapping[str, str]] = {}

    def missing(self) -> list[str]:
        return []

    def identity(self, source: str = "", target: str = "") -> Mapping[str, Any]:
        return {}

    def notes(self) -> tuple[str, ...]:
        return ()

    def translate(self, texts: Sequence[str], source: str, target: str) -> list[str]:
        return [self._changed(text.split()) for text in texts]

    def _changed(self, words: list[str]) -> str:
        some = [word for word in words for _ in range(self.draw.choice((0, 1, 1, 1, 2)))]
        self.draw.shuffle(some)
        return " ".join(some)


def check_accounted(passage: TranslatedText, prefix: str = "QZ") -> None:
    """Each formula of a text whose words a translator dealt with as it liked is kept or appended, and counted so."""
    there = mask_formulas(passage.original, prefix, blanks=True)
    assert passage.sent == there.text
    assert (passage.formulas, passage.appended) == (len(there.formulas), passage.lost)
    assert all(formula in passage.restored for formula in there.formulas)
    if not passage.altered:  # words that now stand beside each other may be read as a placeholder: `QZ` and `1`
        times = Counter(passage.received.split())
        stand = [times[f"{prefix}{number}"] for number in there.numbers]
        assert passage.lost == stand.count(0)
        assert passage.duplicated == sum(max(count - 1, 0) for count in stand)
        lost = [formula for formula, count in zip(there.formulas, stand, strict=True) if not count]
        assert passage.restored.endswith(" ".join(lost))
