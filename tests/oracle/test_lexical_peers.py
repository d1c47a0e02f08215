"""BM25 against rank_bm25 and TF-IDF against Gensim: the libraries that the MSM team's runs were made with.

Scores are compared as the index gives them, in 64 bits; runs hold them in 32.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from harness.collections.corpus import Corpus
from harness.data.columns import Floats
from harness.systems.lexical.system import BM25, Lexical, TfIdf

rank_bm25 = pytest.importorskip("rank_bm25", reason="rank-bm25 is not installed")
models = pytest.importorskip("gensim.models", reason="gensim is not installed")
corpora = pytest.importorskip("gensim.corpora", reason="gensim is not installed")

SEEDS = range(3)
TF, DF, NORM = "btnaldL", "xnftp", "xnc"  # Gensim's, with its aliases; not its pivoted normalisations u and b
PLAIN = {"name": "whitespace", "lower": False}
Texts = list[list[str]]


def world(seed: int) -> tuple[Texts, Texts]:
    """Documents and queries; words repeat in both, some words of the queries are in no document."""
    rng = random.Random(seed)
    words = [f"w{n}" for n in range(20)]
    queries = [[*rng.choices(words, k=rng.randint(1, 8)), "unknown"] for _ in range(10)]
    return [rng.choices(words, range(20, 0, -1), k=rng.randint(1, 30)) for _ in range(60)], queries


def ours(system: Lexical, documents: Texts, queries: Texts, folder: Path) -> Floats:
    """Scores, shape (queries, documents)."""
    rows = [{"id": f"d{n}", "body": " ".join(words)} for n, words in enumerate(documents)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    index = system.index(Corpus("c", "C", "CC0", folder / "corpus.jsonl", (("id", "id"), ("body", "body"))))
    assert [name.decode() for name in index.ids.tolist()] == [f"d{n}" for n in range(len(documents))]
    scored = [index.score(Counter(query)) for query in queries]
    return np.array([above + floor for above, floor in scored])


def bm25(variant: str, **parameters: float) -> BM25:
    return BM25(variant=variant, view=PLAIN, document={"body": 1}, **parameters)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("k1", "b", "delta"), [(1.5, 0.75, 1.0), (0.9, 0.4, 0.5), (2.0, 0.0, 0.0), (0.5, 1.0, 1.5)])
def test_bm25_plus_is_rank_bm25s(tmp_path: Path, seed: int, k1: float, b: float, delta: float) -> None:
    """The first parameters are rank_bm25's defaults, and MSM's."""
    documents, queries = world(seed)
    peer = rank_bm25.BM25Plus(documents, k1=k1, b=b, delta=delta)
    expected = np.array([peer.get_scores(query) for query in queries])
    found = ours(bm25("bm25+", k1=k1, b=b, delta=delta), documents, queries, tmp_path)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    assert np.ptp(expected) > 0.1


def test_the_defaults_of_rank_bm25_are_those_of_the_shipped_system(tmp_path: Path) -> None:
    from harness.systems.build import load_system

    system, peer = load_system("msm-bm25").system, rank_bm25.BM25Plus([["a"]])
    assert isinstance(system, BM25)
    assert (system.variant, system.k1, system.b, system.delta) == ("bm25+", peer.k1, peer.b, peer.delta)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("variant", "scale", "idf"),
    [
        ("atire", 1.0, lambda n, df: np.log(n / df)),
        ("lucene", 2.5, lambda n, df: np.log(1 + (n - df + 0.5) / (df + 0.5))),
        ("robertson", 2.5, lambda n, df: max(0.0, np.log((n - df + 0.5) / (df + 0.5)))),
    ],
)
def test_bm25_is_rank_bm25s_but_for_the_idf(tmp_path: Path, variant: str, scale: float, idf: object, seed: int) -> None:
    """rank_bm25's Okapi gives words of more than half of the documents a share of the mean idf, which no variant
    here does; with the variant's idf put in its place the scores are the same, for two variants up to k1 + 1.
    """
    documents, queries = world(seed)
    peer = rank_bm25.BM25Okapi(documents, k1=1.5, b=0.75)
    df = Counter(word for words in documents for word in set(words))
    peer.idf = {word: idf(len(documents), count) for word, count in df.items()}  # type: ignore[operator]
    expected = np.array([peer.get_scores(query) for query in queries])
    found = ours(bm25(variant, k1=1.5, b=0.75), documents, queries, tmp_path)
    np.testing.assert_allclose(scale * found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_bm25l_is_rank_bm25s_without_its_slip(tmp_path: Path, seed: int) -> None:
    """rank_bm25 0.2.2 multiplies BM25L's part of each word by its frequency once more, and so gives documents
    without the word nothing; divided by it, word by word, the scores are the same.
    """
    documents, _ = world(seed)
    words = sorted({word for document in documents for word in document})
    peer = rank_bm25.BM25L(documents, k1=1.5, b=0.75, delta=0.5)
    found = ours(bm25("bm25l", k1=1.5, b=0.75, delta=0.5), documents, [[word] for word in words], tmp_path)
    for word, scores in zip(words, found, strict=True):
        tf = np.array([document.count(word) for document in documents])
        there = tf > 0
        np.testing.assert_allclose(scores[there], peer.get_scores([word])[there] / tf[there], rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_tfidf_is_gensims_for_all_letters(tmp_path: Path, seed: int) -> None:
    """Products of the vectors of queries and documents; each pair of notations once, by turns."""
    documents, queries = world(seed)
    dictionary = corpora.Dictionary(documents)
    bags = [dictionary.doc2bow(document) for document in documents]
    asked = [dictionary.doc2bow(query) for query in queries]

    def vectors(letters: str, texts: list[list[tuple[int, int]]]) -> Floats:
        model = models.TfidfModel(bags, smartirs=letters)
        out = np.zeros((len(texts), len(dictionary)))
        for row, text in enumerate(texts):
            for word, weight in model[text]:
                out[row, word] = weight
        return out

    notations = ["".join(letters) for letters in itertools.product(TF, DF, NORM)]
    others = random.Random(seed).sample(notations, len(notations))
    for ddd, qqq in [*zip(notations, others, strict=True), *zip(notations[::7], notations[::7], strict=True)]:
        expected = vectors(qqq, asked) @ vectors(ddd, bags).T
        smart = ddd if ddd == qqq else f"{ddd}.{qqq}"
        found = ours(TfIdf(smart=smart, view=PLAIN, document={"body": 1}), documents, queries, tmp_path)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9, err_msg=smart)
        assert np.ptp(expected) > 0
