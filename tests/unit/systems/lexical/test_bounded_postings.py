"""Tokens, counts and postings made in bounded memory: the same bytes for every limit, and those of the plain way."""

from __future__ import annotations

import random
import tempfile
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import lexical_reference as reference
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lexical_tools import field_corpus
from refusals import refuses

from harness.collections.corpus import Corpus
from harness.data.topics import Topic, Topics
from harness.errors import HarnessError
from harness.store import artefacts
from harness.systems.base import Request
from harness.systems.lexical import postings, tokens, weighting
from harness.systems.lexical.postings import Postings, WordCounts
from harness.systems.lexical.system import BM25
from harness.systems.lexical.tokens import CorpusTokens
from harness.systems.theorems.declarations import Declarations

FIELDS = ("body", "title")
LIMITS = (1, 80 * 7, 80 * 50, 1 << 30)  # bytes: one word or document at a time, a few, all at once
VIEW = {"name": "whitespace", "lower": False}
Texts = list[dict[str, list[str]]]


def texts_of(seed: int, most: int = 30) -> Texts:
    """Documents of some frequent and many rare words, some without any."""
    rng = random.Random(seed)
    names = [f"w{n}" for n in range(rng.randint(1, 25))]
    share = [1 / (n + 1) for n in range(len(names))]
    found = [
        {name: rng.choices(names, share, k=rng.choice((0, 1, 3, 12))) for name in FIELDS}
        for _ in range(rng.randint(1, most))
    ]
    found[-1]["body"].append("last")
    return found


def corpus_of(folder: Path, texts: Texts) -> Corpus:
    return field_corpus(folder, *({name: " ".join(words) for name, words in text.items()} for text in texts))


def tokens_of(folder: Path, texts: Texts, fields: Iterable[str] = FIELDS) -> CorpusTokens:
    (folder / "tokens").mkdir()
    tokens.write_tokens(corpus_of(folder, texts), sorted(fields), str.split, folder / "tokens")
    return CorpusTokens.load(folder / "tokens")


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def equal(found: Postings, expected: reference.Expected) -> None:
    assert list(found.words) == expected.words
    assert [found.start.tolist(), found.doc.tolist()] == [expected.start, expected.doc]
    assert found.weight.tolist() == expected.weight
    assert found.floor.tolist() == expected.floor


@contextmanager
def folders() -> Iterator[Callable[[], Path]]:
    """A function that makes a new folder at each call."""
    with tempfile.TemporaryDirectory() as name:
        numbers = iter(range(10**6))

        def new() -> Path:
            path = Path(name) / str(next(numbers))
            path.mkdir()
            return path

        yield new


@pytest.mark.slow
@given(
    seed=st.integers(0, 10**6),
    weights=st.fixed_dictionaries({"body": st.integers(1, 3)}, optional={"title": st.integers(1, 2)}),
    least=st.integers(0, 3),
    share=st.sampled_from((1.0, 0.5)),
    variant=st.sampled_from(weighting.VARIANTS),
    letters=st.tuples(*(st.sampled_from(each) for each in ("nbldaL", "nftp", "nc"))).map("".join),
)
@settings(max_examples=10)
def test_every_limit_gives_the_bytes_of_the_plain_way(
    seed: int, weights: dict[str, int], least: int, share: float, variant: str, letters: str
) -> None:
    texts = texts_of(seed)
    words, docs = reference.bags(texts, weights, least, share)
    written = []
    with folders() as new:
        known = tokens_of(new(), texts, weights)
        for limit in LIMITS:
            first, second, third = new(), new(), new()
            if not words:
                with pytest.raises(HarnessError, match="no word is left"):
                    postings.count(known, weights, first, min_count=least, max_share=share, limit=limit)
                continue
            postings.count(known, weights, first, min_count=least, max_share=share, limit=limit)
            counts = WordCounts.load(first, known.ids)
            assert counts.lengths.tolist() == [len(doc) for doc in docs]
            weighting.BM25Weights(variant, 1.2, 0.75, 0.5).write(counts, second, limit)
            equal(Postings.load(second, counts), reference.bm25(words, docs, variant, 1.2, 0.75, 0.5))
            weighting.tfidf(counts, letters, third, limit)
            equal(Postings.load(third, counts), reference.tfidf(words, docs, letters))
            written.append([files(place) for place in (first, second, third)])
    assert all(each == written[0] for each in written)


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), b=st.floats(0, 1), k1=st.floats(0, 3), weight=st.floats(0.1, 4))
@settings(max_examples=8)
def test_bm25f_in_parts(seed: int, b: float, k1: float, weight: float) -> None:
    texts = texts_of(seed)
    weights, lengths = {"title": weight, "body": 1.0}, {"title": b, "body": 0.75}
    expected = reference.bm25f(texts, weights, lengths, k1)
    with folders() as new:
        known = tokens_of(new(), texts)
        for limit in LIMITS:
            fields, places = {}, {name: new() for name in weights}
            for name, place in places.items():
                postings.count(known, {name: 1}, place, limit=limit)
                fields[name] = WordCounts.load(place, known.ids)
            written = new()
            weighting.bm25f(fields, weights, lengths, k1, written, limit)
            equal(Postings.load(written, fields["body"]), expected)


def test_tokens_are_the_words_in_order(tmp_path: Path) -> None:
    texts = texts_of(5)
    known = tokens_of(tmp_path, texts)
    assert known.ids.tolist() == [f"d{n}".encode() for n in range(len(texts))]
    assert list(known.words) == reference.vocabulary(texts, FIELDS)
    for name, field in known.fields.items():
        bounds = field.start.tolist()
        found = [[known.words[n] for n in field.token[a:z].tolist()] for a, z in pairwise(bounds)]
        assert found == [text[name] for text in texts]


@pytest.mark.parametrize("variant", weighting.VARIANTS)
def test_queries_are_answered_from_the_files(tmp_path: Path, variant: str) -> None:
    """A second system of other parameters shares the counts; a second run builds nothing."""
    corpus = corpus_of(tmp_path, texts_of(3))
    asked = Request(Topics((Topic("T", "w0 w1 last last"),)), corpus, tmp_path)
    how = {"view": VIEW, "query": {"title": 1}, "document": {"body": 1, "title": 2}, "variant": variant}
    runs = [BM25(k1=k1, **how)(asked).to_dict() for k1 in (0.9, 0.9, 1.5)]  # type: ignore[arg-type]
    assert runs[0] == runs[1] != runs[2]
    kinds = sorted(artefact.kind for artefact in artefacts.artefacts())
    assert kinds == ["counts", "postings", "postings", "tokens"]


def test_parts_of_a_system_without_fingerprint_are_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = corpus_of(tmp_path, texts_of(3))
    asked = Request(Topics((Topic("T", "w0 w1 last last"),)), corpus, tmp_path)
    system = BM25(view=VIEW, query={"title": 1}, document={"body": 1})
    stored = system(asked).to_dict()
    before = len(artefacts.artefacts())
    monkeypatch.setattr("harness.systems.lexical.text.version", lambda view: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    there = set(tmp_path.iterdir())
    assert system(asked).to_dict() == stored
    assert len(artefacts.artefacts()) == before
    assert set(tmp_path.iterdir()) == there


class Stopped(BaseException):
    """Stands for an interrupt."""


@pytest.mark.parametrize("at", ["_counted", "ArrayFile"])
def test_what_is_interrupted_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    corpus = corpus_of(tmp_path, texts_of(3))
    asked = Request(Topics((Topic("T", "w0 w1 last last"),)), corpus, tmp_path)
    system = BM25(view=VIEW, query={"title": 1}, document={"body": 1})

    def stop(*_: object) -> None:
        raise Stopped

    with monkeypatch.context() as broken:
        broken.setattr(postings, at, stop)
        with pytest.raises(Stopped):
            system(asked)
    root = artefacts.store_root()
    assert [path.relative_to(root).parts[0] for path in root.rglob("*") if path.is_file()].count("counts") == 0
    assert system(asked).to_dict()


def test_damaged_files_are_one_line(tmp_path: Path) -> None:
    known = tokens_of(tmp_path, texts_of(3))
    (tmp_path / "counts").mkdir()
    postings.count(known, {"body": 1}, tmp_path / "counts")
    (tmp_path / "counts" / "tf.npy").write_bytes(b"?")
    refuses("not the counts of words", lambda: WordCounts.load(tmp_path / "counts", known.ids))


def test_declarations_with_an_empty_field(tmp_path: Path) -> None:
    """A field in which no document has a word does not stop the others."""
    corpus = corpus_of(tmp_path, [{"body": ["a", "b"], "title": []}, {"body": ["b"], "title": []}])
    system = Declarations(view=VIEW, fields={"body": 1, "title": 2}, prior=0, query={"title": 1})
    run = system(Request(Topics((Topic("T", "a b"),)), corpus, tmp_path))
    assert run.doc.tolist() == [b"d0", b"d1"]
    assert np.all(np.diff(run.score) < 0)


@pytest.mark.slow
def test_memory_grows_with_documents_and_words_only(tmp_path: Path) -> None:
    """With a small limit, two million tokens need the limit, and some bytes for each document and each word."""
    rng = np.random.default_rng(1)
    count, words, length = 20_000, 5000, 100
    start = np.arange(0, count * length + 1, length)
    token = rng.integers(0, words, count * length).astype(np.int32)
    ids = np.array([b"d%d" % number for number in range(count)])
    known = CorpusTokens(
        ids, tuple(f"w{number}" for number in range(words)), {"body": tokens.FieldTokens(start, token)}
    )

    def peak(limit: int) -> int:
        folder = tmp_path / str(limit)
        (folder / "weights").mkdir(parents=True)
        tracemalloc.start()
        postings.count(known, {"body": 1}, folder, limit=limit)
        weighting.BM25Weights("lucene", 1.2, 0.75, 1.0).write(WordCounts.load(folder, ids), folder / "weights", limit)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    small, large = peak(4 << 20), peak(1 << 30)
    assert small < (4 << 20) + 40 * (count + words) + (4 << 20)
    assert large > 5 * small
    assert files(tmp_path / str(4 << 20) / "weights") == files(tmp_path / str(1 << 30) / "weights")
