"""The cross-lingual pipelines on the topics of CrossMath, without a translation model."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from spoken import Careless, check_accounted

from harness.collections.load import load_collection
from harness.systems.crosslingual.pipeline import Untranslated, translate, untranslated

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("mirror")]

LANGUAGES = ("eng", "spa", "hrv", "ces", "pes", "hin", "npi")


@dataclass
class Identity:
    whole: bool = False
    name: str = "identity"
    languages: Mapping[str, str] = field(default_factory=dict)

    def missing(self) -> list[str]:
        return []

    def identity(self, source: str = "", target: str = "") -> dict[str, Any]:
        return {"source": source, "target": target}

    def notes(self) -> tuple[str, ...]:
        return ()

    def translate(self, texts: Sequence[str], source: str, target: str) -> list[str]:
        return list(texts)


def texts(language: str) -> list[str]:
    topics = load_collection(f"crossmath-{language}").topics()
    assert len(topics) == 298
    return [text for topic in topics for text in (topic.title, topic.body)]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("masking", ["QZ", None])
def test_an_identity_gives_every_topic_byte_for_byte(language: str, whole: bool, masking: str | None) -> None:
    originals = texts(language)
    for text, passage in zip(
        originals, translate(originals, Identity(whole), language, "eng", masking=masking), strict=True
    ):
        assert passage.original == passage.restored == text
        assert passage.kept == passage.formulas
        assert (passage.lost, passage.duplicated, passage.moved, passage.altered, passage.appended) == (0, 0, 0, 0, 0)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("whole", [False, True])
def test_whatever_is_done_to_every_topic_each_formula_is_accounted_for(language: str, whole: bool) -> None:
    for passage in translate(texts(language), Careless(whole, random.Random(language)), language, "eng"):
        check_accounted(passage)


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("eng", Untranslated(sentences=1882, formula=58, digit=0, mark=4, blank=128, letter=10, words=187)),
        ("spa", Untranslated(sentences=1882, formula=67, digit=0, mark=6, blank=5, letter=55, words=119)),
        ("hrv", Untranslated(sentences=1603, formula=68, digit=0, mark=4, blank=8, letter=78, words=148)),
        ("ces", Untranslated(sentences=1936, formula=57, digit=0, mark=1, blank=32, letter=81, words=157)),
        ("ces-paper", Untranslated(sentences=1894, formula=62, digit=0, mark=4, blank=111, letter=30, words=193)),
        ("pes", Untranslated(sentences=1722, formula=45, digit=0, mark=4, blank=10, letter=0, words=51)),
        ("hin", Untranslated(sentences=1037, formula=155, digit=4, mark=3, blank=5, letter=3, words=165)),
        ("npi", Untranslated(sentences=1033, formula=156, digit=0, mark=2, blank=5, letter=3, words=161)),
    ],
)
def test_what_the_authors_rule_leaves(language: str, expected: Untranslated) -> None:
    originals = texts(language)
    assert untranslated(originals) == expected
    passages = translate(originals, Identity(), language, "eng", pipeline="authors")
    assert sum(passage.untranslated for passage in passages) == expected.left
    assert sum(passage.sentences for passage in passages) == expected.sentences
