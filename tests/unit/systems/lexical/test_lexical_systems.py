"""Lexical systems as a whole: examples by hand, what holds of any corpus, faults."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from lexical_tools import PLAIN, corpus_of, found, message, random_texts, topics_of

from harness.collections.corpus import Corpus
from harness.data.topics import Topic, Topics
from harness.systems.base import Request
from harness.systems.build import build_system
from harness.systems.lexical.system import BM25, Lexical, Sum, TfIdf

LEXICAL = "harness.systems.lexical.system"
BODY: dict[str, object] = {"view": PLAIN, "document": {"body": 1}}
# Lengths 4, 2, 2, 4: their mean is 3.
DOCUMENTS = {"d1": "a a b c", "d2": "a b", "d3": "c d", "d4": "d d d e"}


def bm25(**how: object) -> BM25:
    return BM25(**(BODY | how))  # type: ignore[arg-type]


def tfidf(smart: str, **how: object) -> TfIdf:
    return TfIdf(smart=smart, **(BODY | how))  # type: ignore[arg-type]


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return corpus_of(tmp_path, DOCUMENTS)


@pytest.fixture
def world(tmp_path: Path) -> tuple[Corpus, Topics]:
    """40 documents of random words and topics with repeated and unknown words."""
    rng = random.Random(5)
    texts = {f"d{n:02}": " ".join(words) for n, words in enumerate(random_texts(rng, 40))}
    asked = [Topic(f"T{n}", " ".join([*words, "unknown"])) for n, words in enumerate(random_texts(rng, 8, length=6))]
    return corpus_of(tmp_path, texts), Topics(tuple(asked))


# ---- examples by hand


def test_bm25_by_hand(corpus: Corpus, tmp_path: Path) -> None:
    """k1 = 1, b = .5: the norm of a document of 4 words is .5 + .5 * 4/3 = 7/6, of 2 words 5/6.

    Lucene's idf of a word in two of four documents is log(1 + 2.5/2.5) = log 2, in one log(1 + 3.5/1.5) = log(10/3).
    """
    ranked = found(bm25(k1=1, b=0.5), topics_of(T1="a", T2="a e", T3="zzz", T4="b b"), corpus, tmp_path)
    two, one = math.log(2), math.log(10 / 3)
    assert ranked == {
        "T1": pytest.approx({"d1": two * 2 / (2 + 7 / 6), "d2": two * 1 / (1 + 5 / 6)}),
        "T2": pytest.approx({"d4": one * 1 / (1 + 7 / 6), "d1": two * 2 / (2 + 7 / 6), "d2": two * 1 / (1 + 5 / 6)}),
        "T4": pytest.approx({"d2": 2 * two * 1 / (1 + 5 / 6), "d1": 2 * two * 1 / (1 + 7 / 6)}),
    }
    assert {topic: list(docs) for topic, docs in ranked.items()} == {
        "T1": ["d1", "d2"], "T2": ["d4", "d1", "d2"], "T4": ["d2", "d1"],
    }  # fmt: skip


def test_bm25_plus_adds_its_delta_to_every_document(corpus: Corpus, tmp_path: Path) -> None:
    """Its idf of a word in two of four documents is log(5/2); what a document without the word gets shows in a pool."""
    pool = {"T": frozenset({"d1", "d3"})}
    ranked = found(bm25(variant="bm25+", k1=1, b=0.5, delta=0.25), topics_of(T="a"), corpus, tmp_path, pool)
    idf = math.log(5 / 2)
    assert ranked["T"] == pytest.approx({"d1": idf * (0.25 + 2 * 2 / (2 + 7 / 6)), "d3": idf * 0.25})


def test_tfidf_by_hand(corpus: Corpus, tmp_path: Path) -> None:
    """ltn: (1 + log2 tf) * log2(5 / df); nnc: counts over the vector's length."""
    idf = math.log2(5 / 2)
    ranked = found(tfidf("ltn"), topics_of(T="a a c"), corpus, tmp_path)
    asked = {"a": 2 * idf, "c": idf}
    assert ranked["T"] == pytest.approx(
        {"d1": asked["a"] * 2 * idf + asked["c"] * idf, "d2": asked["a"] * idf, "d3": asked["c"] * idf}
    )
    ranked = found(tfidf("nnc"), topics_of(T="d e"), corpus, tmp_path)
    assert ranked["T"] == pytest.approx(
        {"d4": (3 + 1) / math.sqrt(10) / math.sqrt(2), "d3": 1 / math.sqrt(2) / math.sqrt(2)}
    )


def test_equal_scores_stand_in_descending_order_of_their_ids(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, {"b": "x y", "d": "y x", "a": "x z", "c": "q r"})
    assert list(found(bm25(), topics_of(T="x"), corpus, tmp_path)["T"]) == ["d", "b", "a"]
    assert list(found(bm25(depth=2), topics_of(T="x"), corpus, tmp_path)["T"]) == ["d", "b"]


def test_fields_count_as_often_as_their_weights_say(tmp_path: Path) -> None:
    """Weights repeat the text: the same scores as of a corpus where it stands so often."""
    once = corpus_of(tmp_path, {"d1": "a b", "d2": "c"}, title_={"d1": "c", "d2": "a a"})
    weighted = bm25(document={"body": 2, "title_": 1}, query={"title": 1, "body": 3, "tags": 1})
    asked = Topics((Topic("T", "a", "b c", ("c",)),))
    ranked = found(weighted, asked, once, tmp_path)
    (tmp_path / "written").mkdir()
    out = corpus_of(tmp_path / "written", {"d1": "a b a b c", "d2": "c c a a"})
    assert ranked == found(bm25(), topics_of(T="a b c b c b c c"), out, tmp_path)


# ---- the sum

PARTS = {
    "bm25": {"_target_": f"{LEXICAL}.BM25", "variant": "bm25+", **BODY},
    "tfidf": {"_target_": f"{LEXICAL}.TfIdf", "smart": "ltn", **BODY},
}


@pytest.mark.parametrize("weights", [{}, {"bm25": 0.5}, {"bm25": 2.0, "tfidf": 0.0}])
def test_a_sum_is_the_sum_of_its_parts(world: tuple[Corpus, Topics], tmp_path: Path, weights: dict[str, float]) -> None:
    corpus, topics = world
    pool = {topic.id: frozenset(corpus.ids()) for topic in topics}
    parts = {name: found(build_system(part, name), topics, corpus, tmp_path, pool) for name, part in PARTS.items()}
    total = found(Sum(PARTS, weights), topics, corpus, tmp_path, pool)
    for topic, docs in total.items():
        assert len(docs) == 40
        for doc, score in docs.items():
            wanted = sum(weights.get(name, 1.0) * ranking[topic][doc] for name, ranking in parts.items())
            assert score == pytest.approx(wanted, rel=1e-6)
    # Without a pool only documents that share a word are there; those of both have the same scores.
    free = found(Sum(PARTS, weights), topics, corpus, tmp_path)
    assert all(set(docs.items()) <= set(total[topic].items()) for topic, docs in free.items())


# ---- what holds of any corpus

SYSTEMS: Mapping[str, Lexical | Sum] = {
    **{variant: bm25(variant=variant) for variant in ("lucene", "atire", "bm25l", "bm25+")},
    "ltn": tfidf("ltn"),
    "lnc.ltc": tfidf("lnc.ltc"),
    "sum": Sum(PARTS),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_depth_cuts_the_ranking_and_changes_nothing_else(
    world: tuple[Corpus, Topics], tmp_path: Path, name: str
) -> None:
    corpus, topics = world
    system = SYSTEMS[name]
    whole = found(system, topics, corpus, tmp_path)
    for depth in (1, 7, 39):
        cut = found(replace(system, depth=depth), topics, corpus, tmp_path)
        assert cut == {topic: dict(list(docs.items())[:depth]) for topic, docs in whole.items()}
        assert all(list(docs) == list(whole[topic])[:depth] for topic, docs in cut.items())


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_pool_is_ranked_whole_and_alone(world: tuple[Corpus, Topics], tmp_path: Path, name: str) -> None:
    corpus, topics = world
    rng = random.Random(name)
    ids = list(corpus.ids())
    pool = {topic.id: frozenset([*rng.sample(ids, 12), "absent"]) for topic in list(topics)[1:]}
    free, pooled = (found(SYSTEMS[name], topics, corpus, tmp_path, how) for how in (None, pool))
    assert list(pooled) == list(pool)
    for topic, docs in pooled.items():
        assert set(docs) == pool[topic] - {"absent"}
        assert {doc: score for doc, score in docs.items() if doc in free[topic]}.items() <= free[topic].items()
        assert list(docs.values()) == sorted(docs.values(), reverse=True)


# ---- frequency cut-offs


@pytest.mark.slow
def test_rare_and_frequent_words_are_left_out(tmp_path: Path) -> None:
    """`min_count` counts occurrences in the corpus, `max_share` documents."""
    texts = {"d1": "a a b c", "d2": "a b d", "d3": "a c e e", "d4": "a f"}
    corpus = corpus_of(tmp_path, texts)
    counts = Counter(word for body in texts.values() for word in body.split())
    share = {word: sum(word in body.split() for body in texts.values()) / 4 for word in counts}
    for min_count, max_share in ((0, 1.0), (1, 1.0), (2, 1.0), (3, 1.0), (0, 0.5), (2, 0.5), (2, 0.99), (0, 0.25)):
        kept = {word for word in counts if counts[word] >= min_count and share[word] <= max_share}
        bags = bm25(min_count=min_count, max_share=max_share).counts(corpus).value
        assert set(bags.words) == kept
        lengths = [sum(word in kept for word in body.split()) for body in texts.values()]
        assert bags.lengths.tolist() == lengths
        # What is left is scored as if nothing else had stood there.
        (tmp_path / "left").mkdir(exist_ok=True)
        left = {doc: " ".join(word for word in body.split() if word in kept) for doc, body in texts.items()}
        asked = topics_of(T="a b c d e f")
        cut = found(bm25(min_count=min_count, max_share=max_share), asked, corpus, tmp_path)
        assert cut == found(bm25(), asked, corpus_of(tmp_path / "left", left), tmp_path)
    said = message(lambda: found(bm25(min_count=6), topics_of(T="a"), corpus, tmp_path))
    assert said == "no word is left with min_count=6 and max_share=1"


# ---- faults


def test_what_a_system_says_of_a_corpus(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, DOCUMENTS, kept={"d1": "x"})
    system = bm25(document={"kept_": 1})
    said = message(lambda: found(system, topics_of(T="a"), corpus, tmp_path))
    assert said == "corpus c: no document has the field 'kept_'; did you mean 'kept'?"
    said = message(lambda: system(Request(topics_of(T="a"), None, tmp_path)))
    assert said.startswith("system bm25: needs a corpus; name one with corpus=NAME (known: ")
    said = message(lambda: found(bm25(), topics_of(T="zzz"), corpus, tmp_path))
    assert said == "system bm25: no topic shares a word with the corpus"
    corpus.path.write_text("")
    assert message(lambda: found(bm25(), topics_of(T="a"), corpus, tmp_path)) == "corpus c: has no documents"
    corpus.path.write_text(json.dumps({"id": "d1", "body": " ", "kept": ""}))
    assert message(lambda: found(bm25(), topics_of(T="a"), corpus, tmp_path)) == (
        "corpus c: its fields body hold no tokens"
    )
