"""Re-ranking by a tiny cross-encoder: orders by hand, scores by plain calls of the library, what is said and kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lexical_tools import message, rows_corpus
from pair_tools import plain, save_model

from harness.collections.corpus import Corpus
from harness.data.topics import Topic, Topics
from harness.data.trec import Run
from harness.io import config
from harness.io.files import sha256
from harness.store import artefacts
from harness.store.cost import measuring
from harness.systems.base import MARK, Request
from harness.systems.build import build_system
from harness.systems.dense.cross_encoder import CrossEncoder, _inputs, tiered, whole
from harness.systems.dense.models import find_model

COUNT = 30
TOPICS = Topics((Topic("T1", "w1 w2", "w3"), Topic("T2", "w40", "w41 w42 w43 w44"), Topic("T3", "w7")))


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model") / "tiny")


def bodies() -> dict[str, str]:
    rng = np.random.default_rng(4)
    return {f"d{n:02}": " ".join(f"w{w}" for w in rng.integers(0, 60, 3 + n)) for n in range(COUNT)}


BODIES = bodies()
# The first ranking of each topic: d00 to d29, of T2 from its end, of T3 four documents.
FIRST = {"T1": list(BODIES), "T2": list(BODIES)[::-1], "T3": ["d05", "d03", "d09", "d01"]}


def corpus(tmp_path: Path, documents: Mapping[str, str] = BODIES) -> Corpus:
    return rows_corpus(tmp_path / "made.jsonl", ({"id": name, "body": body} for name, body in documents.items()))


def run_file(tmp_path: Path, rankings: Mapping[str, Sequence[str]] = FIRST, name: str = "first") -> str:
    path = tmp_path / f"{name}.run"
    lines = [
        f"{topic} Q0 {doc} {rank} {len(docs) - rank} {name}\n"
        for topic, docs in rankings.items()
        for rank, doc in enumerate(docs)
    ]
    path.write_text("".join(lines))
    return str(path)


def request(tmp_path: Path, topics: Topics = TOPICS, **given: Any) -> Request:  # noqa: ANN401
    return Request(topics, given.pop("corpus", None) or corpus(tmp_path), tmp_path / "workspace", **given)


def order(run: Run, topic: str) -> list[str]:
    """As trec_eval sorts: score as a 32-bit float, then document, both descending."""
    docs = run.to_dict()[topic]
    return sorted(docs, key=lambda doc: (np.float32(docs[doc]), doc), reverse=True)


def asked(topic: str) -> str:
    found = TOPICS.by_id()[topic]
    return f"{found.title} {found.body}".strip()


def logits(folder: Path, topic: str, docs: Sequence[str]) -> dict[str, float]:
    return {doc: plain(folder, asked(topic), BODIES[doc])[0] for doc in docs}


# ---- orders -----------------------------------------------------------------------------------------------------


def test_tiers_by_hand() -> None:
    outputs = np.array([1, 3, 2, 0, 9, 5, 5, 8, 7], np.float32)
    # Places:          1  2  3 | 4  5 | 6  7  8  9 | 10 11
    assert tiered(outputs, [3, 5, 9], 11).tolist() == [9, 11, 10, 7, 8, 4, 4, 6, 5, 2, 1]
    assert tiered(outputs[:3], [3], 4).tolist() == [2, 4, 3, 1]
    assert tiered(outputs[:2], [3, 7], 2).tolist() == [1, 2]  # fewer documents than the first tier takes
    assert tiered(np.zeros(4, np.float32), [4], 4).tolist() == [4, 4, 4, 4]
    assert tiered(np.zeros(4, np.float32), [1, 2, 3, 4], 4).tolist() == [4, 3, 2, 1]


def test_whole_by_hand() -> None:
    assert whole(np.array([-2.5, 4, -2.5], np.float32), 5).tolist() == [-2.5, 4, -2.5, -4, -5]
    assert whole(np.array([0.5, 0.25], np.float32), 2).tolist() == [0.5, 0.25]
    assert message(lambda: whole(np.array([1e9], np.float32), 2)) == (
        "the model's output 1e+09 is too large for a score; say activation=sigmoid"
    )


def test_the_first_k_are_reranked_whole(tmp_path: Path, folder: Path) -> None:
    run = CrossEncoder("mine", str(folder), first=run_file(tmp_path), k=10)(request(tmp_path))
    assert run.name == "mine"
    for topic, docs in FIRST.items():
        expected = logits(folder, topic, docs[:10])
        scores = run.to_dict()[topic]
        assert np.allclose([scores[doc] for doc in expected], list(expected.values()), rtol=0, atol=1e-5)
        assert order(run, topic) == [*sorted(expected, key=lambda doc: -expected[doc]), *docs[10:]]
        assert len(np.unique(np.array(list(scores.values()), np.float32))) == len(docs)
    assert order(run, "T1")[:10] != FIRST["T1"][:10]


def test_tiers(tmp_path: Path, folder: Path) -> None:
    run = CrossEncoder("mine", str(folder), first=run_file(tmp_path), tiers=[3, 7, 12, 16, 20])(request(tmp_path))
    for topic, docs in FIRST.items():
        expected = logits(folder, topic, docs[:20])
        ends = [0, 3, 7, 12, 16, 20]
        slices = [sorted(docs[a:b], key=lambda doc: -expected[doc]) for a, b in pairwise(ends)]
        assert order(run, topic) == [doc for part in slices for doc in part] + docs[20:]
        assert sorted(run.to_dict()[topic].values()) == list(range(1, len(docs) + 1))


def test_ties_of_the_first_ranking_are_as_trec_eval_has_them(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "ties.run"
    path.write_text("".join(f"T3 Q0 d{n:02} 1 0.5 ties\n" for n in range(6)))
    run = CrossEncoder("mine", str(folder), first=str(path), tiers=[2, 4])(request(tmp_path))
    got = order(run, "T3")
    assert (set(got[:2]), set(got[2:4]), got[4:]) == ({"d05", "d04"}, {"d03", "d02"}, ["d01", "d00"])


# ---- what is re-ranked ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_pool_is_scored_whole(tmp_path: Path, folder: Path) -> None:
    pool = {"T1": frozenset(BODIES), "T2": frozenset({"d03", "d04"}), "T3": frozenset[str]()}
    run = CrossEncoder("mine", str(folder))(request(tmp_path, pool=pool))
    found = {topic: docs for topic, docs in run.to_dict().items() if docs}
    assert {topic: set(docs) for topic, docs in found.items()} == {"T1": set(BODIES), "T2": {"d03", "d04"}}
    for topic, docs in found.items():
        expected = logits(folder, topic, list(docs))
        assert np.allclose([docs[doc] for doc in expected], list(expected.values()), rtol=0, atol=1e-5)
    assert message(lambda: CrossEncoder("mine", str(folder))(request(tmp_path))) == (
        "system mine: has nothing to re-rank; give the key 'first', or the pool of judged documents by rerank=true"
    )


def test_a_first_ranking_within_a_pool(tmp_path: Path, folder: Path) -> None:
    pool = {"T1": frozenset({"d20", "d03", "d10", "d29"})}
    run = CrossEncoder("mine", str(folder), first=run_file(tmp_path), tiers=[1, 3])(request(tmp_path, pool=pool))
    expected = logits(folder, "T1", ["d10", "d20"])
    assert order(run, "T1") == ["d03", *sorted(expected, key=lambda doc: -expected[doc]), "d29"]
    assert not any(docs for topic, docs in run.to_dict().items() if topic != "T1")


def test_systems_come_first(tmp_path: Path, folder: Path) -> None:
    shuffled = {"_target_": "harness.systems.baselines.Shuffle", "depth": 12}
    expected = build_system(shuffled, "f")(request(tmp_path))
    for first in (shuffled, "shuffle"):
        run = CrossEncoder("mine", str(folder), first=first, tiers=[2])(request(tmp_path))
        assert order(run, "T1")[2:12] == order(expected, "T1")[2:12]
        assert set(order(run, "T1")[:2]) == set(order(expected, "T1")[:2])
    twice = {"_target_": "harness.systems.dense.cross_encoder.CrossEncoder", "name": "inner", "model": str(folder)}
    inner = {**twice, "first": shuffled, "tiers": [2]}
    run = CrossEncoder("outer", str(folder), first=inner, tiers=[1, 2])(request(tmp_path))
    assert order(run, "T1") == order(CrossEncoder("x", str(folder), first=shuffled, tiers=[2])(request(tmp_path)), "T1")


def test_what_learnt_from_test_judgments_stays_marked(tmp_path: Path, folder: Path) -> None:
    path = run_file(tmp_path, {"T3": ["d01"]}, f"learnt{MARK}")
    assert CrossEncoder("mine", str(folder), first=path)(request(tmp_path)).name == f"mine{MARK}"


def test_posts_of_formulas_are_kept(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "formulas.tsv"
    path.write_text("".join(f"T3\td{n:02}\tp{n}\t{n}\t{9 - n}\tmade\n" for n in range(4)))
    system = {"_target_": "harness.systems.baselines.External", "path": str(path), "format": "arqmath-task2"}
    run = CrossEncoder("mine", str(folder), first=system, k=2)(request(tmp_path))
    assert run.context is not None
    assert dict(zip(run.doc.tolist(), run.context.tolist(), strict=True)) == {
        f"d{n:02}".encode(): f"p{n}".encode() for n in range(4)
    }


def test_documents_that_the_corpus_lacks(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = {name: body for name, body in BODIES.items() if name not in ("d01", "d02", "d25")}
    with measuring() as meter:
        run = CrossEncoder("mine", str(folder), first=run_file(tmp_path), tiers=[2, 4])(
            request(tmp_path, corpus=corpus(tmp_path, held))
        )
    got = order(run, "T1")
    assert (set(got[:2]), set(got[2:4])) == ({"d00", "d03"}, {"d04", "d05"})
    assert got[4:] == [doc for doc in FIRST["T1"][6:] if doc != "d25"]
    said = "mine: 7 of 64 results are left out; corpus made does not hold them"
    assert said in capsys.readouterr().err.splitlines()
    assert meter.notes["mine: results left out"] == 7
    system, none = CrossEncoder("mine", str(folder), first=run_file(tmp_path)), corpus(tmp_path, {"other": "w1"})
    said = "system mine: corpus made holds no document of first"
    assert message(lambda: system(request(tmp_path, corpus=none))) == said


def test_topics_without_text(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topics = Topics((Topic("T1", ""), Topic("T2", "$x$"), Topic("T3", "w7")))
    first = run_file(tmp_path)
    run = CrossEncoder("mine", str(folder), first=first, k=5, view="text")(request(tmp_path, topics))
    assert order(run, "T1") == FIRST["T1"]
    assert order(run, "T2") == FIRST["T2"]
    said = "mine: 2 topics have no text, ordered as in the first ranking, such as T1"
    assert said in capsys.readouterr().err.splitlines()
    pool = {"T1": frozenset({"d01"}), "T3": frozenset({"d01", "d02"})}
    run = CrossEncoder("mine", str(folder))(request(tmp_path, topics, pool=pool))
    assert [topic for topic, docs in run.to_dict().items() if docs] == ["T3"]
    assert "mine: 1 topic has no text, left out, such as T1" in capsys.readouterr().err.splitlines()
    alone = Topics((Topic("T1", ""),))
    silent = CrossEncoder("mine", str(folder), first=run_file(tmp_path, {"T1": ["d01"]}))
    said = "system mine: no topic has a text in the fields title, body"
    assert message(lambda: silent(request(tmp_path, alone))) == said


def test_fields_and_views(tmp_path: Path, folder: Path) -> None:
    row = {"id": "d1", "title": "w1", "body": "w2 $w3$ w4", "question": "w5"}
    made = rows_corpus(tmp_path / "made.jsonl", [row], "id title body", "question")
    topics = Topics((Topic("T1", "w9", "w8 $w7$"),))
    pool = {"T1": frozenset({"d1"})}
    for keys, query, document in (
        ({}, "w9 w8 $w7$", "w2 $w3$ w4"),
        ({"query": ["title"], "document": ["question", "body"]}, "w9", "w5 w2 $w3$ w4"),
        ({"view": "text", "document": ["title", "body"]}, "w9 w8", "w1 w2 w4"),
    ):
        run = CrossEncoder("mine", str(folder), **keys)(request(tmp_path, topics, corpus=made, pool=pool))
        assert run.score[0] == pytest.approx(plain(folder, query, document)[0], abs=1e-5)


# ---- which output is the score ----------------------------------------------------------------------------------


def test_labels_and_activations(tmp_path: Path, folder: Path) -> None:
    three = save_model(tmp_path / "three", ("against", "neutral", "for"), seed=3)
    pool = {"T1": frozenset({"d01", "d02", "d03"})}
    values = {doc: np.array(plain(three, asked("T1"), BODIES[doc])) for doc in pool["T1"]}

    def scores(**given: Any) -> dict[str, float]:  # noqa: ANN401
        return CrossEncoder("mine", str(three), **given)(request(tmp_path, pool=pool)).to_dict()["T1"]

    for label, column in (("for", 2), ("0", 0), (1, 1)):
        assert scores(label=label) == pytest.approx({doc: value[column] for doc, value in values.items()}, abs=1e-5)
    expected = {doc: np.exp(value[2]) / np.exp(value).sum() for doc, value in values.items()}
    assert scores(label="for", activation="softmax") == pytest.approx(expected, abs=1e-5)
    single = {doc: plain(folder, asked("T1"), BODIES[doc])[0] for doc in values}
    run = CrossEncoder("mine", str(folder), activation="sigmoid")(request(tmp_path, pool=pool)).to_dict()["T1"]
    assert run == pytest.approx({doc: 1 / (1 + np.exp(-value)) for doc, value in single.items()}, abs=1e-6)
    known = f"expected a label of model {three}: 0 (against), 1 (neutral), 2 (for)"
    assert message(scores) == f"key 'label' is None, {known}"
    assert message(lambda: scores(label="pro")) == f"key 'label' is 'pro', {known}"
    given = CrossEncoder("mine", str(folder), activation="softmax")
    assert message(lambda: given(request(tmp_path, pool=pool))) == (
        f"key 'activation' is 'softmax', and model {folder} has a single label; say sigmoid"
    )


# ---- what is kept and said --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_pairs_that_were_scored_are_kept(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = save_model(tmp_path / "copy")
    first = run_file(tmp_path)
    asked_of = request(tmp_path)
    with measuring() as meter:
        before = CrossEncoder("mine", str(copy), first=first, tiers=[3, 20])(asked_of)
    cut = sum(len(asked(t).split()) + len(BODIES[d].split()) > 20 for t, docs in FIRST.items() for d in docs[:20])
    assert 0 < cut < 44
    assert meter.notes["mine: texts cut, pairs"] == {"cut": cut, "texts": 44, "word pieces": 24}
    said = f"mine: {cut} of 44 texts (pairs) are longer than the 24 word pieces read"
    assert said in capsys.readouterr().err.splitlines()
    count = len(artefacts.artefacts())
    # Weights that cannot be read any more are not asked for.
    identity = find_model(str(copy)).identity
    with measuring() as again:
        after = CrossEncoder("mine", str(copy), first=first, tiers=[3, 20])(asked_of)
        other = CrossEncoder("mine", str(copy), first=first, tiers=[5, 11, 20])(asked_of)
        flat = CrossEncoder("mine", str(copy), first=first, k=20, activation="sigmoid")(asked_of)
    assert len(artefacts.artefacts()) == count
    assert again.notes["mine: texts cut, pairs"] == meter.notes["mine: texts cut, pairs"]
    assert after.to_dict() == before.to_dict()
    assert order(other, "T1")[11:20] != order(before, "T1")[11:20]
    assert set(order(flat, "T1")[:20]) == set(FIRST["T1"][:20])
    assert find_model(str(copy)).identity == identity
    for keys in (
        {"length": 20},
        {"truncation": "only_second"},
        {"precision": "bfloat16"},
        {"view": "text", "tokens": 9},
    ):
        CrossEncoder("mine", str(copy), first=first, tiers=[3, 20], **keys)(asked_of)
        assert len(artefacts.artefacts()) == (count := count + 3)  # one a topic


def test_what_a_run_depends_on(tmp_path: Path, folder: Path) -> None:
    first = run_file(tmp_path)
    system = CrossEncoder("mine", str(folder), first=first, device="cpu")
    read = system.reads()
    assert read["first"] == {first: sha256(Path(first).read_bytes())}
    other = save_model(tmp_path / "other", seed=1)
    assert CrossEncoder("mine", str(other), first=first).reads()["model"] != read["model"]
    assert str(folder) not in json.dumps(read["model"])
    assert CrossEncoder("mine", str(folder), first="overlap").reads()["first"] == {
        "overlap": config.load("system", "overlap")[0]
    }
    assert "first" not in CrossEncoder("mine", str(folder)).reads()
    assert (system.notes(), system.trains_without()) == ((), None)


def test_the_first_system_speaks_through(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trained_systems.py").write_text(
        "class Trained:\n"
        "    def __call__(self, request): ...\n"
        "    def notes(self): return ('its numbers are odd',)\n"
        "    def trains_without(self): return frozenset({'mini-task1'})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    system = CrossEncoder("mine", str(folder), first={"_target_": "trained_systems.Trained"})
    assert system.notes() == ("its numbers are odd",)
    assert system.trains_without() == frozenset({"mini-task1"})


# ---- faults -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["torch", "transformers", "tokenizers", "sentence-transformers"])
def test_scores_are_kept_by_the_versions_of_all_libraries(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    before = _inputs("query", ["document"], {})
    assert _inputs("query", ["document"], {}) == before
    version = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "0" if name == library else version(name))
    assert _inputs("query", ["document"], {}) != before
