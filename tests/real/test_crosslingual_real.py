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
@pytest.mark.parametrize(
    ("language", "nllb", "mbart"),  # units, left by formula, digit, mark, blank, letter; left with words
    [
        ("eng", (1882, 66, 0, 4, 128, 11, 196), (596, 13, 0, 0, 0, 7, 16)),
        ("spa", (1882, 75, 0, 6, 5, 56, 128), (596, 16, 0, 0, 1, 29, 42)),
        ("hrv", (1603, 76, 0, 4, 8, 80, 158), (595, 28, 0, 0, 1, 35, 60)),
        ("ces", (1936, 66, 0, 1, 32, 82, 167), (596, 16, 0, 0, 0, 22, 34)),
        ("ces-paper", (1894, 70, 0, 4, 111, 31, 202), (596, 15, 0, 0, 0, 18, 29)),
        ("pes", (1722, 53, 0, 4, 10, 0, 58), (593, 16, 0, 0, 0, 0, 11)),
        ("hin", (1037, 155, 4, 3, 5, 11, 173), (596, 121, 4, 0, 0, 3, 124)),
        ("npi", (1033, 157, 0, 2, 5, 11, 170), (596, 117, 0, 0, 0, 3, 116)),
    ],
)
def test_what_the_authors_rule_leaves(language: str, nllb: tuple[int, ...], mbart: tuple[int, ...]) -> None:
    originals = texts(language)
    for script, expected in zip(SCRIPTS, (nllb, mbart), strict=True):
        found = untranslated(originals, script)
        assert astuple(found) == expected
        passages = translate_texts(originals, Identity(), language, "eng", pipeline=f"authors-{script}")
        assert sum(passage.untranslated for passage in passages) == found.left
        assert sum(passage.sentences for passage in passages) == found.units
