"""BM25 and TF-IDF against their formulas, written out term by term."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.collections.corpus import Corpus
from harness.collections.load import load_collection
from harness.data.topics import Topic, Topics
from harness.experiments.produce import make
from harness.experiments.task import task
from harness.systems.base import Request
from harness.systems.lexical.system import BM25, TfIdf

VIEW = {"name": "text", "lower": True, "stop": None, "stem": None}
Bags = dict[str, Counter[str]]


def world(tmp_path: Path, seed: int) -> tuple[Corpus, Bags, Topics]:
    """A corpus of random words, its bags of words, and topics with repeated and unknown words."""
    rng = random.Random(seed)
    vocabulary = [f"word{letter}" for letter in "abcdefghijklm"]
    texts = {f"d{n}": rng.choices(vocabulary, range(13, 0, -1), k=rng.randint(1, 30)) for n in range(40)}
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"id": doc, "body": " ".join(words)}) + "\n" for doc, words in texts.items()))
    corpus = Corpus("random", "Random words", "CC0", path, (("id", "id"), ("body", "body")))
    asked = [" ".join([*rng.choices(vocabulary, k=rng.randint(1, 6)), "unknown"]) for _ in range(8)]
    topics = Topics(tuple(Topic(f"T{n}", words) for n, words in enumerate(asked)))
    return corpus, {doc: Counter(words) for doc, words in texts.items()}, topics


def lucene(tf: int, df: int, n: int, norm: float) -> float:
    return math.log(1 + (n - df + 0.5) / (df + 0.5)) * tf / (tf + norm)


def atire(tf: int, df: int, n: int, norm: float) -> float:
    return math.log(n / df) * 2.5 * tf / (tf + norm)


def plus(tf: int, df: int, n: int, norm: float) -> float:
    return math.log((n + 1) / df) * (1.0 + 2.5 * tf / (tf + norm))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("variant", "part"), [("lucene", lucene), ("atire", atire), ("bm25+", plus)])
def test_bm25_is_its_formula(
    tmp_path: Path, variant: str, part: Callable[[int, int, int, float], float], seed: int
) -> None:
    """k1 = 1.5, b = .75, delta = 1; a word counts as often as it stands in the topic."""
    corpus, bags, topics = world(tmp_path, seed)
    system = BM25(variant=variant, k1=1.5, b=0.75, delta=1.0, view=VIEW, query={"title": 1}, document={"body": 1})
    found = system(Request(topics, corpus, tmp_path)).to_dict()
    df = Counter(word for bag in bags.values() for word in bag)
    mean = sum(bag.total() for bag in bags.values()) / len(bags)
    for topic in topics:
        asked = Counter(word for word in topic.title.split() if word in df)
        for doc, bag in bags.items():
            norm = 1.5 * (0.25 + 0.75 * bag.total() / mean)
            # BM25+ gives words that a document lacks their floor too, the same for all documents.
            shared = [word for word in asked if word in bag or variant == "bm25+"]
            wanted = sum(asked[word] * part(bag[word], df[word], len(bags), norm) for word in shared)
            if doc in found[topic.id]:
                assert found[topic.id][doc] == pytest.approx(wanted, rel=1e-6), (topic.id, doc)
            else:
                assert not any(word in bag for word in asked)


def test_tfidf_finds_the_document_itself(tmp_path: Path) -> None:
    """With cosine normalisation nothing is closer to a text than that text."""
    corpus, bags, _ = world(tmp_path, 2)
    texts = {doc: " ".join(bag.elements()) for doc, bag in bags.items()}
    topics = Topics(tuple(Topic(f"T{n}", texts[doc]) for n, doc in enumerate(bags)))
    system = TfIdf(smart="lnc", view=VIEW, query={"title": 1}, document={"body": 1})
    found = system(Request(topics, corpus, tmp_path)).to_dict()
    for (doc, bag), docs in zip(bags.items(), found.values(), strict=True):
        best = max(docs.values())
        assert docs[doc] == pytest.approx(best, abs=1e-9), (doc, bag)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["bm25", "bm25-plus", "bm25-l", "bm25-atire", "bm25-robertson", "tfidf-lnc", "tfidf-ltn"]
)
def test_shipped_systems_beat_the_shuffle_on_the_embedded_answers(name: str, tmp_path: Path) -> None:
    mini = load_collection("mini-task1")
    scorer = mini.scorer()
    bed = task(mini, "mini-answers")
    run, shuffle = (make(system, bed, runs=tmp_path).run for system in (name, "shuffle"))
    assert run.sha256 == make(name, bed, runs=tmp_path / "again").run.sha256
    assert scorer(run).mean("P@10") >= scorer(shuffle).mean("P@10")
    assert scorer(run).mean("Judged@10") > 5 * scorer(shuffle).mean("Judged@10")
