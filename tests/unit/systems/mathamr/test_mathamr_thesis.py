"""What makes the thesis' configurations those of the thesis: relations, chunks, failures, samples, the Task 2 index."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mathamr_tools import text_graph
from mathamr_world import ASKED, SHORT, TINY, Place, asking, kept, parser, place, row, rows, world
from refusals import refusal, refuses

from harness.collections.corpora import judged, load_corpus
from harness.data.topics import Topics
from harness.errors import HarnessError
from harness.io import config
from harness.papers.paper import load_paper
from harness.store import cost
from harness.store.cost import measuring
from harness.systems.base import Request
from harness.systems.build import build_system
from harness.systems.mathamr.encoder.vocabulary import VIRTUAL, NodeVocabulary
from harness.systems.mathamr.graphs import build, data, parsers
from harness.systems.mathamr.graphs.graph import Failure, Graph, Sentence
from harness.systems.mathamr.graphs.posts import Post, assemble, by_chunks, merge
from harness.systems.mathamr.system import MathAMR

torch = pytest.importorskip("torch", reason="torch is not installed (extra graphs)")

from harness.systems.dense.training import loop  # noqa: E402
from harness.systems.mathamr.encoder.model import GraphEncoder  # noqa: E402
from harness.systems.mathamr.training import trainer as training  # noqa: E402

__all__ = ["place", "world"]


# ---- configurations -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "bases"), [("mathamr-plus-experiments", 64), ("mathamr-plus", 256)])
def test_the_configured_models_have_the_parameters_that_the_report_tells(name: str, bases: int) -> None:
    """532 relations in each; their other settings are rows of `data/systems/settings.tsv`."""
    system = build_system(config.load("system", name)[0], name).system
    assert isinstance(system, MathAMR)
    with torch.device("meta"):
        model = GraphEncoder(system.settings(20_000, 100))
    layer = bases * 64 * 64 + 532 * bases + 64 * 64 + 64 + 2 * 64
    head = 64 * 64 + 64 + 2 * 64 + 64 * 32 + 32 + 2 * 32
    expected = 20_000 * 64 + 3 * 64 + 532 * 64 + 4 * layer + head + 1
    assert sum(each.numel() for each in model.parameters()) == expected
    # Which is what the report says of the thesis' own numbers.
    assert f"{expected / 1e6:.3f}" in load_paper("mathamr-plus").config.table_notes["4.20"][0]


@pytest.mark.slow
def test_rarer_relations_than_the_model_has_are_unknown(place: Place) -> None:
    graphs = [Graph(("a", "b"), bytes(2), ((0, f":r{min(n, 3)}", 1),), 0, ((0, 1),), ()) for n in range(9)]
    assert NodeVocabulary.learn(graphs, 20, 1, 6).relations == (":r3", ":r0", *VIRTUAL)
    assert NodeVocabulary.learn(graphs, 20, 1).count == 4 + 4
    place.run(model=TINY | {"relations": 266, "reserved": False})
    (folder,) = kept("mathamr-model")
    content = loop.read_checkpoint(folder / "best.pt")
    assert content["settings"]["relations"] == 266
    assert content["model"]["layers.0.conv.comp"].shape == (532, 2)
    few = place.run(model=TINY | {"relations": 5, "reserved": False})
    assert len(few.to_dict()) == 3
    assert "key 'model.relations' is 4" in refusal(lambda: place.system(model=TINY | {"relations": 4}))


# ---- graphs ---------------------------------------------------------------------------------------------------------


def sentence(*labels: str) -> Sentence:
    return Sentence(labels, tuple((n, ":next", n + 1) for n in range(len(labels) - 1)), 0)


def test_one_snt_node_a_chunk() -> None:
    found = [sentence("a", "b"), sentence("c"), sentence("d", "e", "f"), sentence("g", "h", "i", "j", "k")]
    chunked = by_chunks(found, 3)
    assert [each.labels for each in chunked] == [
        ("multi-sentence", "a", "b", "c"),
        ("d", "e", "f"),
        ("g", "h", "i", "j", "k"),  # longer than a chunk
    ]
    graph = assemble(chunked, ())
    assert [(r, graph.labels[t]) for s, r, t in graph.edges if s == graph.root] == [
        (":snt1", "multi-sentence"),
        (":snt2", "d"),
        (":snt3", "g"),
    ]
    # Sentences stay what they were, and are vectors of their own.
    words = [[graph.labels[node] for node in part] for part in graph.sentences]
    assert words == [["a", "b"], ["c"], ["d", "e", "f"], ["g", "h", "i", "j", "k"]]
    assert by_chunks(found, 100) == found
    assert assemble(by_chunks(found[:2], 100), ()) == assemble([merge(found[:2])], ())


def torn(texts: Sequence[str]) -> list[list[Sentence]]:
    """Two words that nothing joins, if a text says so."""
    return [[Sentence(("a", "b"), () if "torn" in text else ((0, ":r", 1),), 0)] for text in texts]


def test_disconnected_graphs_are_failures_or_kept(tmp_path: Path) -> None:
    posts = [Post("one", "whole"), Post("two", "torn"), Post("three", "torn")]
    built, _ = build.build_graphs(posts, torn, tmp_path, "graphs/dropped", keep=False)
    assert (built.graphs, built.failures) == (1, {"disconnected graph": 2})
    assert build.build_graphs(posts, torn, tmp_path, "graphs/kept", keep=True)[0].graphs == 3
    found = dict(build.graphs(posts, torn, keep=False))
    assert isinstance(found["two"], Failure)
    assert isinstance(found["one"], Graph)


def test_disconnected_graphs_are_kept_by_a_key(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    assert place.system().sentences.keep is False
    assert place.system(disconnected="keep").sentences.keep is True
    assert place.system().reads() != place.system(disconnected="keep").reads()
    refuses("key 'disconnected' is 'drop'", lambda: place.system(disconnected="drop"))
    monkeypatch.setattr(parsers, "load", lambda name: data.Parser(torn, {"parser": "torn"}))
    place.world.corpus("torn", [row("A1", 0), row("A2", 1) | {"body": "torn"}])
    spent = data.graphs(load_corpus("torn"), "answers", data.Parser(torn, {"parser": "torn"}))
    assert [name for name, _ in build.read_graphs(spent)] == ["A1"]


# ---- pairs ----------------------------------------------------------------------------------------------------------


def test_samples_are_nested_and_of_a_seed(place: Place) -> None:
    found = data.pair_graphs({"qa": "question"}, place.system().unseen, parser(place.words))

    def pairs(some: data.PairGraphs) -> set[tuple[str, str]]:
        return {(some.ids[q], some.ids[d]) for q, d in zip(some.query, some.document, strict=True)}

    small, large, other = found.sampled(5, 1), found.sampled(12, 1), found.sampled(5, 2)
    assert len(pairs(small)) == 5
    assert pairs(small) < pairs(large) < pairs(found)
    assert pairs(other) != pairs(small)
    assert {name for pair in pairs(small) for name in pair} == set(small.ids)
    assert [name for name in found.ids if name in set(small.ids)] == small.ids
    assert dict(small.graphs()).keys() == set(range(len(small.ids)))
    refuses("key 'sample' is 23, and there are 22 pairs; lower it", lambda: found.sampled(23, 1))


@pytest.mark.slow
def test_a_sample_is_trained_on_by_keys(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.run(sample=12, sample_seed=3)
    said = capsys.readouterr().err
    (line,) = (line for line in said.splitlines() if line.startswith("training on "))
    trained, held = int(line.split()[2]), int(line.split()[4])
    assert trained + held == 12
    changed = [place.system(sample=12), place.system(sample=11), place.system(sample=12, sample_seed=1), place.system()]
    assert len({json.dumps(system.reads()) for system in changed}) == 4


def test_pairs_of_a_chapter_are_held_out_together(place: Place) -> None:
    documents = [document | {"chapter": f"c{number // 6}"} for number, document in enumerate(rows(18, 1))]
    place.world.corpus("book", [*documents[:12], *(row(f"B{n}", n + 30) for n in range(6))],
                       keep="[question, question_id, chapter]")  # fmt: skip
    found = data.pair_graphs({"book": "question"}, judged(()), parser(place.words))
    blocks = list(dict.fromkeys(found.block.tolist()))
    assert [blocks.index(each) for each in found.block.tolist()] == [0] * 6 + [1] * 6 + [2, 3, 4, 5, 6, 7]
    assert len(set(found.group.tolist())) == 18  # and are negatives of each other
    pairs = training.QuestionAnswerPairs(found.query, found.document, found.group, found.block)
    for seed in range(5):
        train, held = training.split(pairs, 0.25, seed)
        assert train.block is not None
        assert held.block is not None
        assert not set(train.block.tolist()) & set(held.block.tolist())
        assert len(set(held.block.tolist())) == 2
    assert not training.excluded(pairs.take(np.arange(6))).any()


def test_an_answer_of_several_chapters_is_no_answer(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """It joined all chapters into one block, so that next to nothing of the corpus could be held out."""
    documents = [document | {"chapter": f"c{number // 6}"} for number, document in enumerate(rows(18, 1))]
    for number in (1, 7, 13):
        documents[number]["body"] = "it is omitted here"
    for number in (3, 4):
        documents[number]["body"] = "by the same reason"
    place.world.corpus("book", documents, keep="[question, question_id, chapter]")
    found = data.pair_graphs({"book": "question"}, judged(()), parser(place.words))
    assert "pairs: 15; left out as judged 0, with an answer of several chapters 3, without" in capsys.readouterr().err
    assert np.unique(found.block, return_counts=True)[1].tolist() == [5, 5, 5]
    assert len(set(found.group.tolist())) == 14


# ---- the index of Task 2 --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_formulas_of_questions_without_answers_are_found(place: Place) -> None:
    asked = {"id": "Q99", "title": "a lone $q_9$", "body": "is it $q_9 + 1$",
             "formulas": [{"id": "q-1", "latex": "q_9"}, {"id": "q-2", "latex": "q_9 + 1"}]}  # fmt: skip
    place.world.corpus("lonely", [asked], keep="[]")
    documents = [{"id": "q-2", "latex": "q_9 + 1", "post": ""}, {"id": "A1.0-2", "latex": "a b = b a", "post": ""}]
    corpus = place.world.corpus("formulas", documents, "{id: id, latex: [body, latex]}", "[post]")
    topics = Topics((asking("F1", "is it $q_9 + 1$", "q_9 + 1", "f"),))
    keys: dict[str, Any] = {"task": "formulas", "posts": "qa"}
    without = place.run(topics, corpus, **keys)
    assert set(without.to_dict()["F1"]) == {"A1.0-2"}
    found = place.run(topics, corpus, unanswered="lonely", **keys)
    assert set(found.to_dict()["F1"]) == {"A1.0-2", "q-2"}
    assert found.context is not None
    posts = dict(zip(found.doc.tolist(), found.context.tolist(), strict=True))
    assert posts[b"q-2"] == b"Q99"
    assert place.system(**keys).reads() != place.system(unanswered="lonely", **keys).reads()
    refuses("key 'unanswered': corpus 'nowhere' is unknown", lambda: place.system(unanswered="nowhere", **keys))


# ---- search and cost ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["single", "rerank", "colbert"])
def test_topics_searched_together_are_found_the_same(place: Place, strategy: str) -> None:
    runs, latencies = [], []
    for together in (1, 2, 32):
        with measuring() as meter:
            runs.append(place.run(strategy=strategy, together=together).sha256)
        latencies.append(meter.latency)
        assert meter.notes[cost.TOGETHER] == together
        assert float(str(meter.notes[cost.RATE])) > 0
    assert len(set(runs)) == 1
    assert all(list(latency) == ["T1", "T2", "T4"] for latency in latencies)
    assert len(set(latencies[2].values())) == 1  # equal shares of one search
    assert latencies[1]["T1"] == latencies[1]["T2"] != latencies[1]["T4"]


@pytest.mark.slow
def test_a_run_notes_what_its_training_cost(place: Place) -> None:
    schedule = SHORT | {"epochs": 2, "every": 2}
    with measuring() as first:
        place.run(training=schedule)
    with measuring() as again:  # whose model is in the store
        place.run(training=schedule, strategy="single")
    for name in (cost.PARAMETERS, cost.PAIRS, cost.EPOCHS, cost.LOG, cost.STEPS, cost.TRAINING_MEMORY, cost.VECTORS):
        assert first.notes[name] == again.notes[name]
    notes: dict[str, Any] = dict(first.notes)
    assert notes[cost.PAIRS] == 18
    assert len(notes[cost.EPOCHS]) == 2
    assert [entry["epoch"] for entry in notes[cost.LOG]] == [0, 1, 2]
    assert [step for step, _ in notes[cost.STEPS]] == [2, 4, 5, 7, 9, 10]  # five steps an epoch
    mean = sum(value * count for (_, value), count in zip(notes[cost.STEPS], (2, 2, 1), strict=False)) / 5
    assert mean == pytest.approx(notes[cost.LOG][1]["training loss"], abs=1e-5)
    assert notes[cost.VECTORS] == 24 * 3  # a formula, a sentence and the whole of each
    (folder,) = kept("mathamr-model")
    content = loop.read_checkpoint(folder / "best.pt")["model"]
    assert notes[cost.PARAMETERS] == sum(value.numel() for value in content.values())
    with measuring() as untrained:
        place.run(training=None)
    assert cost.EPOCHS not in untrained.notes  # what a run does not have is not 0
    assert cost.PARAMETERS in untrained.notes


@pytest.mark.slow
def test_similarities_of_a_pair_are_noted(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    with measuring() as meter:
        place.run(pictured={"T1": "A0.0", "T2": "nowhere", "T3": "A0.0"})
    every: Any = meter.notes[cost.SIMILARITIES]
    (noted,) = every
    assert (noted["topic"], noted["document"]) == ("T1", "A0.0")
    assert (noted["rows"], noted["columns"]) == (["F1", "S1", "D"], ["F1", "S1", "D"])
    values = np.array(noted["values"])
    score = place.run().to_dict()["T1"]["A0.0"]
    assert values.max(axis=1).mean() == pytest.approx(score, abs=1e-4)  # MaxSim is the mean of the rows' maxima
    said = capsys.readouterr().err
    assert "topic T2 and document nowhere cannot be pictured" in said
    assert "topic T3 and document A0.0 cannot be pictured" in said
    refuses("key 'pictured'", lambda: place.system(pictured={"T1": 3}))


# ---- graphs of topics from a file -----------------------------------------------------------------------------------


def test_topics_have_the_graphs_of_a_file(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if lines := parsers.missing():
        pytest.skip(lines[0])
    monkeypatch.undo()  # the parser by hand
    path = place.folder / "topics.tsv"
    amr = '"(w / why :arg1 (i / integral :mod (s / substitution)))"'
    path.write_text(f'B.1\t{amr}\nB.2\t"(a / broken"\n', encoding="utf-8")
    found = parsers.load(f"penman-file:{path}")
    graphs = found.given()
    assert set(graphs) == {"A.1", "B.1"}
    assert graphs["A.1"] is graphs["B.1"]
    assert graphs["B.1"].labels == ("why", "integral", "substitution")
    plain = parsers.load("dependency")
    assert (found.identity, found.parse) == (plain.identity, plain.parse)  # documents' graphs are the same ones
    assert found.given_by["graphs of topics"] == "topics.tsv"
    asked = Topics(tuple(asking(name, "text", "x", "f") for name in ("A.1", "A.2")))
    assert data.graphs_of([data.asked(topic, "posts") for topic in asked], found) == {"A.1": graphs["A.1"]}
    assert "topics.tsv: none of 1 topics, such as A.2" in capsys.readouterr().err
    refuses("no such file; expected topics' graphs", lambda: parsers.load("penman-file:nowhere.tsv"))


def test_published_graphs_of_topics_are_fetched_when_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by a dry run, which asks only what a run depends on."""
    if lines := parsers.missing():
        pytest.skip(lines[0])
    monkeypatch.undo()  # the parser by hand
    asked: list[object] = []

    def fetch(resources: list[object]) -> list[Path]:
        asked.extend(resources)
        raise HarnessError("no network")

    monkeypatch.setattr(parsers, "fetch_resources", fetch)
    found = parsers.load("penman-file")
    assert found.given_by["graphs of topics"] == "mathamr_topics.tsv"
    assert re.fullmatch("[0-9a-f]{64}", found.given_by["sha256"])
    assert not asked
    refuses("no network", found.given)
    assert len(asked) == 1


@pytest.mark.slow
def test_a_run_of_given_topics(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = {"T1": text_graph(("integral", "substitution", "limits")), "T4": text_graph(("vertex",))}
    own = data.Parser(
        place.words, {"parser": "words in a row"}, given=lambda: graphs, given_by={"graphs of topics": "f"}
    )
    plain = place.run()
    monkeypatch.setattr(parsers, "load", lambda name: own)
    calls = len(place.words.calls)
    found = place.system()(Request(ASKED, place.corpus, place.folder / "workspace"))
    assert list(found.to_dict()) == ["T1", "T4"]
    assert found.to_dict()["T1"] != plain.to_dict()["T1"]
    assert len(place.words.calls) == calls  # no topic was parsed, no graph made again, and no model trained
    assert len(kept("mathamr-model")) == 1
    assert "topics" in place.system().reads()
