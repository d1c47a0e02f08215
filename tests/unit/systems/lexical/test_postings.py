"""Tokens, counts and postings: the same bytes for every limit of memory, and with kernels as with NumPy."""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples
from lexical_tools import field_corpus
from refusals import refuses

from harness.collections.corpus import Corpus
from harness.data.topics import Topic, Topics
from harness.io.kernels import VARIABLE
from harness.store import artefacts
from harness.systems.base import Request
from harness.systems.lexical import postings, text, tokens, weighting
from harness.systems.lexical.numbering import Numbering
from harness.systems.lexical.postings import Postings, WordCounts
from harness.systems.lexical.system import BM25
from harness.systems.lexical.tokens import CorpusTokens
from harness.systems.ranking import Best
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


@pytest.mark.slow
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


# ---- the kernels of lexical systems give the results of the NumPy code ------------------------------------------


BLANKS = [character for character in map(chr, range(sys.maxunicode + 1)) if character.isspace()]


def both(make: Callable[[], Any]) -> tuple[Any, Any]:
    """What a function returns with the kernels, and without."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(VARIABLE, raising=False)
        fast = make()
        patch.setenv(VARIABLE, "off")
        return fast, make()


# ---- search -----------------------------------------------------------------------------------------------------


def made(rng: np.random.Generator, documents: int, words: int, *, levels: int = 0) -> Postings:
    """Postings of words that are in few or nearly all documents; weights of a few levels, with many ties, or any."""
    share = rng.random(words) ** 4
    lists = [np.flatnonzero(rng.random(documents) < each).astype(np.int32) for each in share]
    start = np.concatenate(([0], np.cumsum([len(each) for each in lists])))
    weight = rng.random(start[-1])
    if levels:
        weight = np.ceil(weight * levels) / 8
    weight *= np.repeat(rng.random(words) * -np.log(share), np.diff(start)) if not levels else 1
    most = np.array([max(weight[a:z], default=0.0) for a, z in pairwise(start)])
    ids = np.array([f"d{n}".encode() for n in range(documents)])
    names = tuple(f"w{n}" for n in range(words))
    return Postings(ids, names, start, np.concatenate(lists), weight, np.zeros(words), most)


def asked(rng: np.random.Generator, words: int, most: int = 8) -> dict[str, float]:
    """A query, with words that no document has."""
    chosen = rng.choice(words + 2, rng.integers(1, min(most, words) + 1), replace=False)
    return {f"w{n}": float(rng.integers(1, 4)) for n in chosen.tolist()}


def same(found: tuple[Best, Best]) -> None:
    (rows, scores), (expected, values) = found
    assert rows.tolist() == expected.tolist()
    assert scores.dtype == values.dtype == np.float32
    assert scores.tobytes() == values.tobytes()


@pytest.mark.slow
@given(
    seed=st.integers(0, 2**32),
    documents=st.sampled_from((1, 7, 8, 9, 100, 8191, 8192, 8193, 30_000)),
    levels=st.sampled_from((0, 1, 3)),
    change=st.sampled_from(("none", "floor", "negative", "not a number", "infinite", "zero", "subtract")),
)
@settings(max_examples=examples(150), deadline=None)
def test_any_weights_and_ties(seed: int, documents: int, levels: int, change: str) -> None:
    rng = np.random.default_rng(seed)
    words = int(rng.integers(1, 30))
    index, place = made(rng, documents, words, levels=levels), rng.permutation(documents)
    value = {"negative": -0.5, "not a number": np.nan, "infinite": np.inf, "zero": 0.0}.get(change)
    if value is not None:
        changed = rng.random(len(index.weight)) < 0.1
        weight = np.where(changed, value, index.weight)
        number = np.repeat(np.arange(words), np.diff(index.start))
        most = np.zeros(words)
        np.maximum.at(most, number, np.where(weight >= 0, weight, np.inf))
        index = replace(index, weight=weight, most=most)
    if change == "floor":
        index = replace(index, floor=rng.random(words))
    for k in (1, 2, 10, 1000, documents):
        query = asked(rng, words)
        if change == "subtract":
            query = {word: weight * rng.choice((-1.0, 0.0, 0.3)) for word, weight in query.items()}
        same(both(partial(index.best, query, place, k)))


def test_a_score_that_rounds_to_zero_is_above_that_of_an_empty_document() -> None:
    index = made(np.random.default_rng(0), 4, 1, levels=1)
    index = replace(index, start=np.array([0, 4]), doc=np.arange(4, dtype=np.int32), weight=np.full(4, 1e-60))
    found = both(lambda: index.best({"w0": 1}, np.arange(4), 3))
    same(found)
    assert found[0][0].tolist() == [3, 2, 1]


@pytest.mark.parametrize("doc", [[0, 5], [0, -9], [3, 1], [2**31 - 1, 0]])
def test_damaged_documents_never_reach_beyond_the_sums(doc: list[int]) -> None:
    index = made(np.random.default_rng(0), 4, 1)
    index = replace(index, start=np.array([0, 2]), doc=np.array(doc, np.int32), weight=np.ones(2), most=np.ones(1))

    def outcome() -> object:
        try:
            return [each.tolist() for each in index.best({"w0": 1}, np.arange(4), 3)]
        except IndexError as error:
            return str(error)

    fast, plain = both(outcome)
    assert fast == plain


@pytest.mark.parametrize("start", [[0, 9], [-3, 2], [2, 1]])
def test_lists_beyond_the_entries(start: list[int]) -> None:
    index = made(np.random.default_rng(0), 4, 1)
    index = replace(index, start=np.array(start), doc=np.arange(2, dtype=np.int32), weight=np.ones(2))
    same(both(lambda: index.best({"w0": 1}, np.arange(4), 3)))


def test_entries_of_two_dimensions_are_not_given_to_the_kernel() -> None:
    index = made(np.random.default_rng(0), 4, 1)
    index = replace(index, start=np.array([0, 2]), doc=np.empty((2, 0), np.int32), weight=np.empty((2, 0)))
    assert index._searched(lambda *_: pytest.fail("called"), {"w0": 1}, np.arange(4), 3) is None


@pytest.mark.parametrize("variant", weighting.VARIANTS)
def test_bounds_are_the_largest_weights(variant: str, tmp_path: Path) -> None:
    rng = random.Random(3)
    texts = [" ".join(rng.choices("abcdefgh", range(1, 9), k=rng.randint(1, 30))) for _ in range(50)]
    for name in "tcp":
        (tmp_path / name).mkdir()
    tokens.write_tokens(
        field_corpus(tmp_path, *({"body": each, "title": ""} for each in texts)), ["body"], str.split, tmp_path / "t"
    )
    known = tokens.CorpusTokens.load(tmp_path / "t")
    postings.count(known, {"body": 1}, tmp_path / "c")
    counts = WordCounts.load(tmp_path / "c", known.ids)
    weighting.BM25Weights(variant, 1.2, 0.75, 0.5).write(counts, tmp_path / "p")
    index = Postings.load(tmp_path / "p", counts)
    lists = [index.weight[a:z].tolist() for a, z in pairwise(index.start)]
    assert index.most.tolist() == [max(each) for each in lists]


@pytest.mark.parametrize("words", [1, 5, 400])
def test_counts_of_words(words: int) -> None:
    rng = np.random.default_rng(words)
    start = np.concatenate(([0], np.cumsum(rng.integers(0, 9, 50))))
    token = rng.integers(0, words, start[-1]).astype(np.int32)
    fast, plain = both(lambda: [(each.tolist(), each.dtype) for each in postings._counted(start, token, words)])
    assert fast == plain
    counted = Counter((word, doc) for doc in range(50) for word in token[start[doc] : start[doc + 1]].tolist())
    (df, _), (docs, _), (tfs, _) = fast
    assert list(zip(np.repeat(np.arange(words), df).tolist(), docs, tfs, strict=True)) == [
        (word, doc, count) for (word, doc), count in sorted(counted.items())
    ]


@pytest.mark.parametrize("token", [-1, 3])
def test_numbers_that_are_no_words_are_left_to_numpy(token: int) -> None:
    """Of a damaged file: the kernel would write beyond its arrays."""
    damaged = np.array([0, token], np.int32)

    def outcome() -> object:
        try:
            return len(postings._counted(np.array([0, 2]), damaged, 3)[0])
        except ValueError:
            return "refused"

    fast, plain = both(outcome)
    assert fast == plain != 3


# ---- tokens -----------------------------------------------------------------------------------------------------


VIEWS: list[dict[str, Any]] = [
    {"name": "whitespace", "lower": False},
    {"name": "whitespace", "stop": "english"},
    {"name": "msm", "stem": "porter"},
    {"name": "declarations", "whole": True, "emphasis": True},
    {"name": "text", "stop": "english", "stem": "porter"},
    {"name": "latex"},
]
CHARACTERS = st.one_of(
    st.sampled_from([*BLANKS, *"ab.$\\_*-'", "\ud800", "\u2081", "\u00c2", "\u200b", "\u180e", "\ufeff"]),
    st.characters(),
)


@given(texts=st.lists(st.lists(st.text(CHARACTERS, max_size=40), max_size=6), max_size=5))
@settings(max_examples=examples(150), deadline=None)
@pytest.mark.parametrize("view", VIEWS, ids=lambda view: "-".join(map(str, view.values())))
def test_numbers_in_order_of_first_appearance(view: dict[str, Any], texts: list[list[str]]) -> None:
    tokenise = text.configured(view)
    numbers: dict[str, int] = {}
    plain = [[[numbers.setdefault(t, len(numbers)) for t in tokenise(each)] for each in some] for some in texts]

    def made() -> object:
        numbering, out = Numbering(tokenise), []
        for some in texts:
            token, count = numbering.take(some)
            ends = np.cumsum(count).tolist()
            out.append([token[end - size : end].tolist() for end, size in zip(ends, count.tolist(), strict=True)])
        return out, list(numbering.words)

    fast, slow = both(made)
    assert fast == slow == (plain, list(numbers))


@pytest.mark.slow
def test_blanks_are_those_of_split() -> None:
    view = text.configured({"name": "whitespace", "lower": False})
    letters = "".join(f"a{chr(code)}b" for code in range(sys.maxunicode + 1))
    near = 3 * 0x3100  # all blanks are below; further characters are taken many at a time
    every = [letters[at : at + 3] for at in range(0, near, 3)]
    every += [letters[at : at + 300] for at in range(near, len(letters), 300)]
    fast, slow = both(lambda: [Numbering(view).take(every)[1].tolist()])
    assert fast == slow == [[len(each.split()) for each in every]]


@pytest.mark.parametrize("size", [1, 5000])
def test_many_units(size: int) -> None:
    view = text.configured({"name": "whitespace", "lower": False})
    rng = random.Random(size)
    texts = [" ".join(str(rng.randrange(10**6)) for _ in range(size)) for _ in range(20_000 // size + 3)]

    def made() -> object:
        numbering = Numbering(view)
        parts = [numbering.take(texts[at : at + 7])[0].tolist() for at in range(0, len(texts), 7)]
        return parts, list(numbering.words)

    fast, slow = both(made)
    assert fast == slow
