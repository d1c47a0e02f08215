"""Tokens, counts and postings made in bounded memory: the same bytes for every limit."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lexical_tools import field_corpus
from refusals import refuses

from harness.collections.corpus import Corpus
from harness.data.topics import Topic, Topics
from harness.store import artefacts
from harness.systems.base import Request
from harness.systems.lexical import postings, tokens, weighting
from harness.systems.lexical.postings import WordCounts
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


@given(
    seed=st.integers(0, 10**6),
    weights=st.fixed_dictionaries({"body": st.integers(1, 3)}, optional={"title": st.integers(1, 2)}),
    variant=st.sampled_from(weighting.VARIANTS),
    letters=st.tuples(*(st.sampled_from(each) for each in ("nbldaL", "nftp", "nc"))).map("".join),
)
@settings(max_examples=10)
def test_every_limit_gives_the_same_bytes(seed: int, weights: dict[str, int], variant: str, letters: str) -> None:
    """The values themselves are those of other libraries (`oracle/test_lexical_peers.py`)."""
    texts = texts_of(seed)
    written = []
    with folders() as new:
        known = tokens_of(new(), texts)
        for limit in LIMITS:
            places = [new() for _ in range(4)]
            postings.count(known, weights, places[0], max_share=0.9 if len(texts) > 9 else 1.0, limit=limit)
            counts = WordCounts.load(places[0], known.ids)
            weighting.BM25Weights(variant, 1.2, 0.75, 0.5).write(counts, places[1], limit)
            weighting.tfidf(counts, letters, places[2], limit)
            fields = {}
            for name in FIELDS:
                postings.count(known, {name: 1}, place := new(), limit=limit)
                fields[name] = WordCounts.load(place, known.ids)
            weighting.bm25f(fields, {"title": 2.5, "body": 1.0}, {"title": 0.5, "body": 0.75}, 1.2, places[3], limit)
            written.append([files(place) for place in places])
    assert all(each == written[0] for each in written)


def test_tokens_are_the_words_in_order(tmp_path: Path) -> None:
    texts = texts_of(5)
    known = tokens_of(tmp_path, texts)
    assert known.ids.tolist() == [f"d{n}".encode() for n in range(len(texts))]
    every = (word for text in texts for name in FIELDS for word in text[name])
    assert list(known.words) == list(dict.fromkeys(every))
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
