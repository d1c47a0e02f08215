"""CrossMath's translated topics: what became of them in translation."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from harness.topics import Topics

_FORMULA = re.compile(r"\$\$.*?\$\$|\$.*?\$|\\\(.*?\\\)|\\\[.*?\\\]|\\begin\{(\w+\*?)\}.*?\\end\{\1\}", re.DOTALL)


@dataclass(frozen=True)
class Translation:
    """What a check of translated topics against the English ones found.

    Attributes
    ----------
    language, title : ISO 639-3 code and name of the language.
    checked : ids of the topics compared, in order.
    missing : topics that the translation lacks.
    english_bodies : topics whose body outside formulas is letter by letter the English one.
    """

    language: str
    title: str
    checked: tuple[str, ...]
    missing: tuple[str, ...]
    english_bodies: tuple[str, ...]


def words_only(text: str) -> str:
    """The letters and digits of a text outside its formulas, in lower case: what a translation must change."""
    return re.sub(r"[\W_]+", "", _FORMULA.sub(" ", text)).lower()


def check_translation(
    language: str, title: str, translated: Topics, english: Topics, wanted: Collection[str]
) -> Translation:
    """Compare translated topics with the English ones, for the topics in `wanted`.

    A body without any letter outside formulas cannot be told apart and is not counted as English.
    """
    here, there = translated.by_id(), english.by_id()
    order = [topic.id for topic in english if topic.id in wanted]
    same = []
    for topic in order:
        if topic in here:
            mine = words_only(here[topic].body)
            if mine and mine == words_only(there[topic].body):
                same.append(topic)
    missing = tuple(topic for topic in order if topic not in here)
    return Translation(language, title, tuple(order), missing, tuple(same))
