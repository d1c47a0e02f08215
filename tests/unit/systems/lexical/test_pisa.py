"""PISA: its rankings beside those of our BM25, ties at the cutoff, and what is refused."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lexical_tools import PLAIN, corpus_of, found, marked, message, random_texts, topics_of

from harness.cli import findings
from harness.data.topics import Topic, Topics
from harness.io.files import sha256_file
from harness.store import artefacts
from harness.systems.base import Request
from harness.systems.build import load_system
from harness.systems.lexical import pisa_engine
from harness.systems.lexical import tokens as token_files
from harness.systems.lexical.pisa import Pisa
from harness.systems.lexical.system import BM25
from harness.systems.lexical.text import configured
from harness.systems.lexical.tokens import CorpusTokens

MISSING = "pyterrier-pisa is not installed: pip install 'mathir-harness[pisa]'"


with_pisa = marked(pytest.mark.slow, pytest.mark.skipif(bool(pisa_engine.missing()), reason=MISSING))


Rankings = dict[str, dict[str, float]]


def pisa(**how: object) -> Pisa:
    return Pisa(**({"view": PLAIN, "document": {"body": 1}} | how))  # type: ignore[arg-type]


def robertson(**how: object) -> BM25:
    return BM25(**({"view": PLAIN, "document": {"body": 1}, "variant": "robertson"} | how))  # type: ignore[arg-type]


def texts(count: int, seed: int = 0) -> dict[str, str]:
    """Documents of random words, in an order that is not that of their ids; one of them is empty."""
    drawn = random_texts(random.Random(seed), count, words=60)
    names = random.Random(seed).sample(range(count), count)
    return {f"d{name}": " ".join(words) for name, words in zip(names, [[], *drawn[1:]], strict=True)}


def agree(ours: Rankings, theirs: Rankings, k1: float) -> None:
    """The same documents by the same scores, but for PISA's factor and precision."""
    assert ours.keys() == theirs.keys()
    for topic, docs in theirs.items():
        scores = {doc: score / (k1 + 1) for doc, score in docs.items()}
        assert list(scores.values()) == pytest.approx(list(ours[topic].values()), rel=1e-5)
        last = min(scores.values()) * (1 + 1e-5)
        sure = {doc: score for doc, score in scores.items() if score > last}  # others may tie at the cutoff
        assert sure == pytest.approx({doc: ours[topic][doc] for doc in sure}, rel=1e-5)


@with_pisa
@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (0.9, 0.4), (0.0, 0.0), (2.5, 1.0)])
def test_it_ranks_as_our_bm25_does(tmp_path: Path, k1: float, b: float) -> None:
    corpus = corpus_of(tmp_path, texts(400))
    topics = topics_of(A="w58 w40", B="w59", C="w30 w30 w30 w45 unknown", D="w50 w51 w52 w53 w54 w55 w20 w21 w22 w23")
    for depth in (10, 1000):
        ours = found(robertson(k1=k1, b=b, depth=depth), topics, corpus, tmp_path)
        assert any(len(docs) == depth for docs in ours.values()) == (depth == 10)
        agree(ours, found(pisa(k1=k1, b=b, depth=depth), topics, corpus, tmp_path), k1)


@with_pisa
def test_all_algorithms_give_the_same_ranking(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, texts(2000))
    rng = random.Random(3)
    topics = topics_of(**{f"T{n}": " ".join(rng.choices([f"w{w}" for w in range(30, 60)], k=6)) for n in range(20)})
    ours = found(robertson(depth=20), topics, corpus, tmp_path)
    for algorithm in pisa_engine.ALGORITHMS:
        agree(ours, found(pisa(depth=20, algorithm=algorithm), topics, corpus, tmp_path), 1.2)


@with_pisa
def test_topics_searched_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = corpus_of(tmp_path, texts(500))
    topics = topics_of(**{f"T{n}": f"w{n} w{n + 1}" for n in range(30, 50)})
    expected = found(pisa(depth=7), topics, corpus, tmp_path)
    assert found(pisa(depth=7, threads=2), topics, corpus, tmp_path) == expected
    # As many processes as the bound on their hits demands.
    begun: list[str] = []
    process = pisa_engine._process

    def noted(command: str, folder: Path, job: Mapping[str, Any]) -> None:
        begun.append(command)
        process(command, folder, job)

    monkeypatch.setattr(pisa_engine, "_process", noted)
    monkeypatch.setattr(pisa_engine, "MOST_HITS", 70)
    assert found(pisa(depth=7), topics, corpus, tmp_path) == expected
    assert begun == ["search"] * 2


@with_pisa
def test_ties_at_the_cutoff_are_those_of_the_largest_ids(tmp_path: Path) -> None:
    """PISA returns any of them."""
    documents = {f"d{n:03}": "a b" for n in range(200)} | {"e": "a a b b", "f": "z", "g": "z y"}
    corpus = corpus_of(tmp_path, documents | {f"x{n}": "filler" for n in range(400)})
    for algorithm in ("block_max_wand", "ranked_or"):
        ranked = found(pisa(depth=5, algorithm=algorithm), topics_of(T="a", U="z"), corpus, tmp_path)
        assert list(ranked["T"]) == ["e", "d199", "d198", "d197", "d196"]
        assert list(ranked["U"]) == ["f", "g"]


@with_pisa
def test_fields_words_and_ids_are_taken_as_they_are(tmp_path: Path) -> None:
    documents = {
        'q"#é': "$X \\frac even",
        "d2": "$x even",
        "d3": "EVEN é",
        "d4": "odd",
        "d5": "odd",
        "d6": "odd",
        "d7": "",
    }
    corpus = corpus_of(tmp_path, documents, extra={"d2": "rare", "d4": "é"})
    ranked = found(pisa(), topics_of(A="$X", B="$x", C="é EVEN", D="rare \\frac"), corpus, tmp_path)
    assert {topic: list(docs) for topic, docs in ranked.items()} == {
        "A": ['q"#é'],
        "B": ["d2"],
        "C": ["d3"],
        "D": ['q"#é'],
    }
    weights = {"extra": 3, "body": 1}
    topics = topics_of(A="é even", B="rare rare odd")
    ours, theirs = (found(make(document=weights), topics, corpus, tmp_path) for make in (robertson, pisa))
    agree(ours, theirs, 1.2)
    said = message(lambda: found(pisa(document={"extr": 1}), topics, corpus, tmp_path))
    assert said == "corpus c: no document has the field 'extr'; did you mean 'extra'?"


@with_pisa
def test_a_pool_and_excluded_documents(tmp_path: Path) -> None:
    class Without:
        def out(self, *_: object) -> np.ndarray:
            raise AssertionError

        def among(self, docs: np.ndarray) -> object:
            return lambda topic: np.isin(docs, [b"d3", b"d2"]) if topic == "T" else np.zeros(len(docs), bool)

    documents = {"d1": "a b", "d2": "a a b", "d3": "a a a", "d4": "c", "d5": "c", "d6": "c", "d7": "c"}
    corpus, topics = corpus_of(tmp_path, documents), topics_of(T="a", U="a")
    pool = {"T": frozenset({"d4", "d1", "d3", "absent"}), "U": frozenset({"d5"})}
    pooled = found(pisa(), topics, corpus, tmp_path, pool)
    assert {topic: list(docs) for topic, docs in pooled.items()} == {"T": ["d3", "d1", "d4"], "U": ["d5"]}
    assert pooled["T"]["d4"] == pooled["U"]["d5"] == 0
    request = Request(topics, corpus, tmp_path, excluded=Without())  # type: ignore[arg-type]
    run = pisa(depth=1)(request).to_dict()
    assert {topic: list(docs) for topic, docs in run.items()} == {"T": ["d1"], "U": ["d3"]}


@with_pisa
def test_topics_without_words(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, {"d1": "a b", "d2": "c", "d3": "d"})
    topics = Topics((Topic("T1", "a"), Topic("T2", ""), Topic("T3", "unknown"), Topic("T4", " ", "", ("b",))))
    assert list(found(pisa(), topics, corpus, tmp_path)) == ["T1", "T4"]
    said = message(lambda: found(pisa(), Topics(topics.topics[1:3]), corpus, tmp_path))
    assert said == "system pisa: no topic shares a word with the corpus"


@with_pisa
def test_an_index_is_kept_and_a_damaged_one_is_made_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, topics = corpus_of(tmp_path, texts(50)), topics_of(T="w50 w51")
    monkeypatch.setattr("harness.store.artefacts.VERIFIED", set())
    before = found(pisa(), topics, corpus, tmp_path)
    (index,) = (artefact for artefact in artefacts.artefacts() if artefact.kind == "pisa-index")
    files = {path.name: sha256_file(path) for path in index.path.iterdir()}
    postings = "bm25.k1-1.2.b-0.75.q0.bmw.64"
    assert files.keys() == {
        "fwd.doclex", "fwd.termlex", "ids.npy", "words.npy", "spec.json", postings, f"{postings}.block_simdbp",
    }  # fmt: skip
    assert capfd.readouterr().out == ""  # PISA prints there
    assert found(pisa(), topics, corpus, tmp_path) == before
    assert "rebuilding" not in capfd.readouterr().err
    (index.path / f"{postings}.block_simdbp").write_bytes(b"damaged")
    assert found(pisa(), topics, corpus, tmp_path) == before
    assert "rebuilding it" in capfd.readouterr().err
    assert {path.name: sha256_file(path) for path in index.path.iterdir()} == files
    found(pisa(k1=0.5), topics, corpus, tmp_path)
    found(pisa(algorithm="maxscore", depth=3), topics, corpus, tmp_path)
    assert len([artefact for artefact in artefacts.artefacts() if artefact.kind == "pisa-index"]) == 2


def test_postings_are_the_same_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = corpus_of(tmp_path, texts(60), extra={"d3": "w1 w1 new"})
    (tmp_path / "tokens").mkdir()
    token_files.write_tokens(corpus, ["body", "extra"], configured(PLAIN), tmp_path / "tokens")
    tokens = CorpusTokens.load(tmp_path / "tokens")
    made = []
    for most in (1 << 20, 50, 1):
        monkeypatch.setattr(pisa_engine, "_TOGETHER", most)
        folder = tmp_path / str(most)
        folder.mkdir()
        pisa_engine._invert(tokens, {"body": 1, "extra": 2}, folder)
        made.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert made[0] == made[1] == made[2]
    docs, freqs = (np.frombuffer(made[0][f"inv.{name}"], np.uint32).tolist() for name in ("docs", "freqs"))
    number, row = tokens.words.index("new"), [*tokens.ids.tolist()].index(b"d3")
    assert docs[:2] == [1, 60]
    held: list[dict[int, int]] = []
    at = 0
    while at < len(freqs):
        end = at + 1 + freqs[at]
        assert docs[2 + at] == freqs[at]
        held.append(dict(zip(docs[3 + at : 2 + end], freqs[at + 1 : end], strict=True)))
        at = end
    assert len(held) == len(tokens.words)
    assert held[number] == {row: 2}
    lengths = np.frombuffer(made[0]["inv.sizes"], np.uint32)[1:]
    assert lengths.tolist() == [sum(postings.get(doc, 0) for postings in held) for doc in range(60)]


@with_pisa
def test_a_process_that_breaks_off_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    index = pisa_engine.PisaIndex(tmp_path / "empty", np.array([b"d1"]), {"a": 0}, 1.2, 0.75)
    assert message(lambda: pisa_engine.search(index, [{"a": 1}], [1])).startswith("PISA: search failed: ")
    broken = tmp_path / "module.so"
    broken.write_bytes(b"nothing")
    monkeypatch.setattr(pisa_engine, "native", lambda: broken)
    said = message(lambda: pisa_engine.search(index, [{"a": 1}], [1]))
    assert said.startswith("PISA: search failed: ImportError: ")
    tokens = CorpusTokens(np.array([b"d1"]), (), {})
    (tmp_path / "index").mkdir()
    monkeypatch.setattr(pisa_engine, "_invert", lambda *_: None)
    said = message(lambda: pisa_engine.build(tokens, {"body": 1}, tmp_path / "index", k1=1, b=0))
    assert said.startswith("PISA: index failed: ImportError: ")


@pytest.mark.slow
def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyterrier_pisa", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: None)
    assert pisa_engine.missing() == (MISSING,)
    corpus = corpus_of(tmp_path, {"d1": "a"})
    assert message(lambda: found(pisa(), topics_of(T="a"), corpus, tmp_path)) == MISSING
    assert [row[1:] for row in findings.findings() if row[0] == "system pisa-bm25"] == [MISSING.split(": ")]


def test_the_shipped_configuration_has_the_tokens_and_parameters_of_bm25() -> None:
    ours, theirs = (load_system(name).system for name in ("bm25", "pisa-bm25"))
    for name in ("view", "query", "document", "k1", "b", "depth"):
        assert getattr(ours, name) == getattr(theirs, name), name
