"""The cross-lingual pipelines on the topics of CrossMath, without a translation model."""

from __future__ import annotations

import json
import lzma
import random
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import pytest
from case_tables import literals
from spoken import Careless, check_accounted

from harness.collections.load import load_collection
from harness.systems.crosslingual.authors import SCRIPTS, untranslated
from harness.systems.crosslingual.pipeline import translate_texts

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


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("whole", [False, True])
def test_whatever_is_done_to_every_topic_each_formula_is_accounted_for(language: str, whole: bool) -> None:
    for passage in translate_texts(texts(language), Careless(whole, random.Random(language)), language, "eng"):
        check_accounted(passage)


@dataclass
class Recorder(Identity):
    """Puts marks around each text, and may make every output longer."""

    tail: str = ""
    asked: list[str] = field(default_factory=list)

    def translate(self, texts: Sequence[str], source: str, target: str) -> list[str]:
        self.asked += texts
        return [f"<{text}>{self.tail}" for text in texts]


GOLDEN = "derived/crossmath-authors-masking.jsonl.xz"
# Of the archived runs; Czech as it was then.
COLLECTIONS = {"eng_Latn": "crossmath-eng", "ces_Latn": "crossmath-ces-paper", "spa_Latn": "crossmath-spa"}


@pytest.mark.slow
def test_the_authors_functions_record_for_record(mirror: Path) -> None:
    """What they ask of a translator and return, recorded with the marks of `Recorder` in place of a model."""
    if not (mirror / GOLDEN).is_file():
        pytest.skip(f"the mirror has no {GOLDEN}")
    topics = {language: load_collection(name).topics().by_id() for language, name in COLLECTIONS.items()}
    with lzma.open(mirror / GOLDEN, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    assert len(records) == 5364
    for record in records:
        topic = topics[record["language"]][record["topic"]]
        script, _, longer = record["script"].partition(", ")
        recorder = Recorder(tail="~" * 60 if longer else "")
        text = topic.title if record["field"] == "title" else topic.body
        (passage,) = translate_texts([text], recorder, topic.language, "eng", pipeline=f"authors-{script}")
        # A sentence that comes twice is asked for once; the second attempt may be with the same text.
        expected = list(dict.fromkeys(record["asked"])) if script == "nllb" else record["asked"]
        assert (recorder.asked, passage.restored) == (expected, record["result"].strip()), record


@pytest.mark.slow
@pytest.mark.parametrize(("language", "nllb", "mbart"), literals("papers/authors_untranslated"))
def test_what_the_authors_rule_leaves(language: str, nllb: tuple[int, ...], mbart: tuple[int, ...]) -> None:
    originals = texts(language)
    for script, expected in zip(SCRIPTS, (nllb, mbart), strict=True):
        found = untranslated(originals, script)
        assert astuple(found) == expected
        passages = translate_texts(originals, Identity(), language, "eng", pipeline=f"authors-{script}")
        assert sum(passage.untranslated for passage in passages) == found.left
        assert sum(passage.sentences for passage in passages) == found.units
