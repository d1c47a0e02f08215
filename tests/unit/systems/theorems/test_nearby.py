from __future__ import annotations

from pathlib import Path

import pytest
from lexical_tools import rows_corpus
from refusals import refuses

from harness.collections.corpus import Corpus
from harness.data.topics import Topic, Topics
from harness.scoring.protocol import Exclusions
from harness.systems.base import Request
from harness.systems.theorems.nearby import Nearby

IDS = ("d", "a", "c", "b", "e")
WORK = Path("unused")


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return rows_corpus(tmp_path / "mine.jsonl", ({"id": name} for name in IDS), "id")


def topics(*names: str) -> Topics:
    return Topics(tuple(Topic(name, "anything") for name in names))


def order(corpus: Corpus, *names: str, depth: int = 9, **more: object) -> dict[str, list[str]]:
    run = Nearby(depth=depth)(Request(topics(*names), corpus, WORK, **more))  # type: ignore[arg-type]
    return {name: sorted(docs, key=lambda doc: -docs[doc]) for name, docs in run.to_dict().items()}


def test_what_stands_before_comes_nearest_first(corpus: Corpus) -> None:
    assert order(corpus, "b", "d", "other") == {"b": ["c", "a", "d"]}
    assert order(corpus, "e", depth=2) == {"e": ["b", "c"]}


def test_pool_and_exclusions_hold_before_the_depth(corpus: Corpus) -> None:
    assert order(corpus, "e", depth=2, pool={"e": frozenset("dae")}) == {"e": ["a", "d"]}
    out = Exclusions(("listed",), listed={"e": frozenset("bc")})
    assert order(corpus, "e", depth=2, excluded=out) == {"e": ["a", "d"]}


def test_scores_are_above_nothing_and_fall(corpus: Corpus) -> None:
    run = Nearby(depth=4)(Request(topics("e"), corpus, WORK)).to_dict()["e"]
    values = [run[name] for name in ("b", "c", "a", "d")]
    assert values == sorted(values, reverse=True) and min(values) > 0
    assert len(set(values)) == 4


def test_topics_that_stand_nowhere_are_refused(corpus: Corpus) -> None:
    refuses("no topic is a document of the corpus with others before it", lambda: order(corpus, "d", "other"))
