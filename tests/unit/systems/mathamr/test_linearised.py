"""Linearised graphs: their order by hand, what holds for all graphs, and runs with a sentence encoder by hand."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from case_tables import literals
from hypothesis import given
from mathamr_tools import POST, graphs
from mathamr_world import THEMES, Words, World, parser, row, rows, topics, world
from refusals import refusal, refuses

from harness.collections.corpus import Corpus
from harness.data.topics import Formula, Topic, Topics
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.store import artefacts
from harness.systems import hardware
from harness.systems.base import Request
from harness.systems.dense import encoder, models
from harness.systems.dense.engines import EncodedTexts, Matrix, TextEncoder
from harness.systems.dense.models import AvailableModel
from harness.systems.mathamr.graphs import parsers
from harness.systems.mathamr.graphs.graph import TEXT, Graph, restrict_graph
from harness.systems.mathamr.linearised import Linearised, linearise, linearise_formula

__all__ = ["world"]


def text_graph(labels: str, edges: Sequence[tuple[int, int]], root: int = 0) -> Graph:
    words = tuple(labels.split())
    return Graph(words, bytes([TEXT] * len(words)), tuple((a, ":r", b) for a, b in edges), root, (), ())


@pytest.mark.parametrize(
    ("graph", "text"),
    [
        # Children in the order of the edges, each with all that is below it.
        (text_graph("a b c d e", [(0, 1), (0, 2), (1, 3), (2, 4)]), "a b d c e"),
        (text_graph("a b c d e", [(0, 2), (0, 1), (1, 3), (2, 4)]), "a c e b d"),
        # d is below both b and c (re-entrancy): where it is met first.
        (text_graph("a b c d", [(0, 1), (0, 2), (1, 3), (2, 3)]), "a b d c"),
        # c is another child of a, and reached earlier through b.
        (text_graph("a b c", [(0, 1), (0, 2), (1, 2)]), "a b c"),
        # Against the direction of an edge, after those along it.
        (text_graph("a b c", [(1, 0), (0, 2)]), "a c b"),
        (text_graph("a b c d", [(0, 1), (2, 1), (2, 3)]), "a b c d"),
        # The root is not the first node; nothing joins d and e to it.
        (text_graph("a b c d e", [(2, 0), (0, 1), (4, 3)], root=2), "c a b d e"),
        (text_graph("a b", [(0, 1), (1, 0)]), "a b"),
        (text_graph("a", [(0, 0)]), "a"),
    ],
)
def test_order_by_hand(graph: Graph, text: str) -> None:
    assert linearise(graph) == text


def test_a_post_by_hand() -> None:
    assert linearise(POST) == "solve-01 plus x 2 x + 2 add-02 twice"
    assert linearise(restrict_graph(POST, "opt")) == "solve-01 plus x 2 add-02 twice"
    assert linearise(restrict_graph(POST, "slt")) == "solve-01 x + 2 add-02 twice"
    assert linearise(restrict_graph(POST, "none")) == "solve-01 add-02 twice"


@pytest.mark.parametrize(("label", "kind", "token"), literals("systems/mathamr_tokens"))
def test_kinds_of_labels_are_stripped(label: str, kind: int, token: str) -> None:
    assert linearise(Graph((label,), bytes([kind]), (), 0, (), ())) == token


@given(graphs())
def test_every_label_stands_once(graph: Graph) -> None:
    alone = [
        linearise(Graph((label,), bytes([kind]), (), 0, (), ()))
        for label, kind in zip(graph.labels, graph.kinds, strict=True)
    ]
    assert Counter(linearise(graph).split()) == Counter(token for token in alone if token)


def test_a_long_row_does_not_exhaust_the_stack() -> None:
    words = [f"w{number}" for number in range(20_000)]
    graph = text_graph(" ".join(words), [(number, number + 1) for number in range(19_999)])
    assert linearise(graph).split() == words


# ---- runs -----------------------------------------------------------------------------------------------------------


def encode(texts: Sequence[str]) -> Matrix:
    """Words as directions: two texts are the more alike the more words they share."""
    out = np.zeros((len(texts), 64), np.float32)
    for number, text in enumerate(texts):
        for word in text.split():
            out[number, int(hashlib.sha256(word.encode()).hexdigest(), 16) % 64] += 1
    unit: Matrix = out / np.linalg.norm(out, axis=1, keepdims=True)
    return unit


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> Words:
    """A parser and an encoder by hand."""
    found = Words()
    encoded: list[Sequence[str]] = []

    def counted(texts: Sequence[str]) -> Matrix:
        encoded.append(texts)
        return encode(texts)

    monkeypatch.setattr(parsers, "load", lambda name: parser(found))
    monkeypatch.setattr(hardware, "device", lambda name: "cpu")
    made = TextEncoder("words", 0, 64, lambda texts, role: EncodedTexts(counted(texts), np.zeros(len(texts), bool)))
    monkeypatch.setattr(encoder, "load", lambda model, device: made)
    monkeypatch.setattr(
        models, "find_model", lambda name: AvailableModel(name, Path(name), "transformers", {"model": name})
    )
    return found


def run(
    corpus: Corpus, folder: Path, *texts: str, pool: dict[str, frozenset[str]] | None = None, **keys: object
) -> Run:
    system = Linearised("lin", **keys)  # type: ignore[arg-type]
    return system(Request(topics(*texts), corpus, folder / "workspace", pool=pool))


@pytest.mark.usefixtures("words")
def test_a_run_ranks_by_shared_words(world: World, tmp_path: Path) -> None:
    corpus = world.corpus("qa", [*rows(), row("B", 5)])
    found = run(corpus, tmp_path, "take the subgroup and the coset to see $a b = b a$ of 5", "").to_dict()
    assert list(found) == ["T1"]  # the second topic has no text
    best, score = max(found["T1"].items(), key=lambda entry: entry[1])
    assert best == "B"  # of equal posts the one with the highest id is first
    assert score == pytest.approx(1, abs=1e-6)
    assert {doc for doc, value in found["T1"].items() if value == score} == {"A5.0", "B"}
    assert len(found["T1"]) == 25


@pytest.mark.usefixtures("words")
def test_documents_by_the_graphs_of_their_questions(world: World, tmp_path: Path) -> None:
    corpus = world.corpus("qa", rows())
    found = run(corpus, tmp_path, "a graph why does the graph number 2 need $K_5$", of="questions").to_dict()["T1"]
    best = max(found.values())
    assert best == pytest.approx(1, abs=1e-6)
    assert {doc for doc, score in found.items() if score == best} == {"A2.0", "A2.1"}  # both answers of the question
    assert len(found) == 24
    assert run(corpus, tmp_path, "a graph why does the graph number 2 need $K_5$").to_dict()["T1"] != found
    with pytest.raises(HarnessError, match="key 'of' is 'questions', and task 'formulas' ranks formulas"):
        Linearised("lin", of="questions", task="formulas", posts="qa")


@pytest.mark.usefixtures("words")
def test_only_the_pool_is_ranked(world: World, tmp_path: Path) -> None:
    corpus = world.corpus("qa", rows())
    pool = {"T1": frozenset({"A1.0", "A2.1", "elsewhere"}), "T2": frozenset({"elsewhere"})}
    found = run(corpus, tmp_path, "the subgroup", "the vertex", pool=pool)
    assert {topic: set(docs) for topic, docs in found.to_dict().items()} == {"T1": {"A1.0", "A2.1"}}
    every = run(corpus, tmp_path, "the subgroup").to_dict()["T1"]
    assert found.to_dict()["T1"] == {doc: every[doc] for doc in ("A1.0", "A2.1")}


@pytest.mark.usefixtures("words")
def test_parser_weights_and_device_decide_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = {"files": "a"}
    monkeypatch.setattr(
        models, "find_model", lambda name: AvailableModel(name, tmp_path, "transformers", dict(weights))
    )
    system = Linearised("lin", model=str(tmp_path))
    first = system.reads()
    assert system.reads() == first
    weights["files"] = "b"
    second = system.reads()
    assert second != first
    monkeypatch.setattr(hardware, "device", lambda name: "cuda")
    assert system.reads() != second


@pytest.mark.slow
def test_vectors_are_made_once_for_each_setting(world: World, words: Words, tmp_path: Path) -> None:
    corpus = world.corpus("qa", rows())
    first = run(corpus, tmp_path, "the subgroup")
    after = len(words.calls)
    second = run(corpus, tmp_path, "the subgroup")
    assert len(words.calls) == after + 1  # the topic
    assert second.sha256 == first.sha256
    assert not list((tmp_path / "workspace").iterdir())
    run(corpus, tmp_path, "the subgroup", formulas="none")
    assert len(words.calls) == after + 2  # the same graphs
    kinds = {path.parent.parent.name for path in artefacts.store_root().glob("*/*/spec.json")}
    assert kinds == {"post-graphs", "linearised-vectors"}
    assert len(list(artefacts.store_root().glob("linearised-vectors/*/spec.json"))) == 2


@pytest.mark.usefixtures("words")
def test_posts_without_a_word_are_left_out_and_said(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = [*rows(3), row("empty", 1, body=""), row("bare", 1, body="$x$")]
    corpus = world.corpus("qa", documents)
    found = run(corpus, tmp_path, "the subgroup", "$y$", formulas="none").to_dict()
    assert list(found) == ["T1"]
    assert set(found["T1"]) == {document["id"] for document in rows(3)}
    said = capsys.readouterr().err
    assert "left out: 1 graphs without a word, such as bare's" in said
    assert "left out: 1 graphs without a word, such as T2's" in said
    assert "no text" in said
    # With its tree the formula has words.
    assert "bare" in run(corpus, tmp_path, "the subgroup").to_dict()["T1"]


def test_parsers_by_name() -> None:
    assert refusal(lambda: parsers.load("dependancy")) == "key 'parser' is 'dependancy'; did you mean 'dependency'?"
    assert refusal(lambda: parsers.load("amrlib")).startswith("key 'parser' is 'amrlib', expected amrlib:FOLDER")


# ---- formulas -------------------------------------------------------------------------------------------------------


def test_a_formula_in_its_sentence_by_hand() -> None:
    # "Solve FORMULA_0. Add FORMULA_1 twice." FORMULA_0 has trees, FORMULA_1 has none, FORMULA_2 is in no sentence.
    assert linearise_formula(POST, 0) == "solve-01 plus x 2 x + 2"
    assert linearise_formula(restrict_graph(POST, "opt"), 0) == "solve-01 plus x 2"
    assert linearise_formula(POST, 1) == "add-02 twice"
    assert linearise_formula(POST, 2) == ""


@pytest.mark.usefixtures("words")
def test_formulas_are_ranked_with_their_posts(world: World, tmp_path: Path) -> None:
    documents = rows(8, 1)
    world.corpus("qa", documents)
    columns = [
        {"id": f["id"], "latex": f["latex"], "post": d["id"] if f["id"].endswith("2") else d["question_id"]}
        for d in documents
        for f in d["formulas"]
    ]
    formulas = world.corpus("formulas", columns, "{id: id, latex: [body, latex]}", "[post]")
    system = Linearised("lin", task="formulas", posts="qa")
    asked = Topics(
        (Topic("T1", "of cosets", "take the subgroup to see $a b = b a$", formulas=(Formula("q_1", "a b = b a"),)),)
    )
    found = system(Request(asked, formulas, tmp_path / "workspace"))
    assert found.context is not None
    best, post = found.doc[0].decode(), found.context[0].decode()
    assert best.endswith("-2")  # an answer's: its sentence shares the most words
    assert post == best.removesuffix("-2")
    assert THEMES[int(post.removeprefix("A").partition(".")[0]) % len(THEMES)][1] == "subgroup"
    assert set(found.doc.tolist()) == {row["id"].encode() for row in columns}


def test_formulas_need_the_corpus_of_their_posts() -> None:
    refuses("key 'posts' is missing", lambda: Linearised("lin", task="formulas"))
    with pytest.raises(HarnessError, match="key 'formulas' is 'none', and task 'formulas' ranks them"):
        Linearised("lin", task="formulas", posts="mse-pages", formulas="none")
