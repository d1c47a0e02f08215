"""Posts, graphs and training pairs of a small corpus, with a parser by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mathamr_world import Words, World, parser, row, rows, topics, world
from refusals import refusal

from harness.collections.corpora import JudgedDocuments, judged
from harness.collections.corpus import Corpus, Document
from harness.store import artefacts
from harness.systems.mathamr.graphs import data
from harness.systems.mathamr.graphs.build import read_graphs
from harness.systems.mathamr.graphs.data import PairGraphs
from harness.systems.mathamr.graphs.posts import question

__all__ = ["world"]
NOBODY = JudgedDocuments(frozenset(), frozenset())


def made(
    sources: dict[str, str], folder: Path, leave_out: JudgedDocuments = NOBODY, words: Words | None = None
) -> PairGraphs:
    return data.pair_graphs(sources, leave_out, parser(words or Words()))


def named(found: PairGraphs) -> list[tuple[str, str]]:
    """The posts of each pair; `corpus/questions/id` and `corpus/answers/id` without the part."""
    ids = ["/".join(name.split("/")[::2]) for name in found.ids]
    return [(ids[q], ids[d]) for q, d in zip(found.query, found.document, strict=True)]


def words_of(found: PairGraphs) -> set[str]:
    return {label for _, graph in found.graphs() for label in graph.labels}


# ---- posts ----------------------------------------------------------------------------------------------------------


def test_parts_of_a_corpus(world: World) -> None:
    corpus = world.corpus("qa", rows(2))
    answers = list(data.posts(corpus, "answers"))
    assert [post.id for post in answers] == ["A0.0", "A0.1", "A1.0", "A1.1"]
    assert answers[0].text.startswith("take the substitution")
    assert answers[0].at_end
    asked = list(data.posts(corpus, "questions"))
    assert [post.id for post in asked] == ["Q0", "Q1"]  # each once
    assert asked[1].text.startswith("a group why does the group number 1 need")
    assert not asked[1].at_end


def test_a_corpus_without_ids_of_questions(world: World) -> None:
    corpus = world.corpus("qa", rows(1), keep="[question]")
    assert [post.id for post in data.posts(corpus, "questions")] == ["qA0.0", "qA0.1"]
    assert data.question_id(Document("7", columns={"question_id": ""})) == "q7"


def test_formulas_of_a_page_go_to_their_posts(world: World) -> None:
    corpus = world.corpus("qa", rows(1, 1))
    found = dict(data.post_graphs(corpus, parser(Words())))
    assert [formula.id for formula in found["Q0"].formulas] == ["A0.0-1"]
    assert [formula.id for formula in found["A0.0"].formulas] == ["A0.0-2"]


# ---- graphs ---------------------------------------------------------------------------------------------------------


def test_graphs_are_made_once_and_leave_no_shards(world: World) -> None:
    corpus, words = world.corpus("qa", rows()), Words()
    first = data.graphs(corpus, "answers", parser(words))
    assert len(words.calls) == 1
    assert [artefact.kind for artefact in artefacts.artefacts()] == ["post-graphs"]
    assert data.graphs(corpus, "answers", parser(words)) == first
    assert len(words.calls) == 1
    assert [name for name, _ in read_graphs(first)] == [document["id"] for document in rows()]


@pytest.mark.slow
def test_what_graphs_are_made_of_matters(world: World) -> None:
    corpus, words = world.corpus("qa", rows()), Words()
    places = {
        data.graphs(corpus, "answers", parser(words)),
        data.graphs(corpus, "questions", parser(words)),
        data.graphs(corpus, "questions", parser(words), column="title"),
        data.graphs(corpus, "answers", data.Parser(words, {"parser": "words", "version": "2"})),
        data.graphs(world.corpus("qb", rows(11)), "answers", parser(words)),
        data.graphs(Corpus("qa", "", "", corpus.sources, (("id", "id"), ("title", "body"))), "answers", parser(words)),
    }
    assert len(places) == len(words.calls) == 6


@pytest.mark.slow
def test_a_build_that_is_killed_goes_on(world: World) -> None:
    corpus = world.corpus("qa", [row(f"A{n}", n) for n in range(300)])  # two shards
    whole = data.graphs(corpus, "answers", parser(Words()))
    expected = {path.name: path.read_bytes() for path in whole.iterdir()}
    for artefact in artefacts.collect(0):
        assert not artefact.path.exists()
    killed = Words(stop=[2])  # in the second shard
    with pytest.raises(KeyboardInterrupt):
        data.graphs(corpus, "answers", parser(killed))
    assert killed.calls == [256, 44]
    assert [artefact.kind for artefact in artefacts.artefacts()] == ["post-graphs-shard"]
    again = Words()
    found = data.graphs(corpus, "answers", parser(again))
    assert again.calls == [44]
    assert {path.name: path.read_bytes() for path in found.iterdir()} == expected
    assert [artefact.kind for artefact in artefacts.artefacts()] == ["post-graphs"]


# ---- pairs ----------------------------------------------------------------------------------------------------------


def test_pairs_of_questions_and_answers(world: World, tmp_path: Path) -> None:
    world.corpus("qa", rows(3))
    found = made({"qa": "question"}, tmp_path)
    assert named(found) == [(f"qa/Q{q}", f"qa/A{q}.{a}") for q in range(3) for a in range(2)]
    assert [number for number, _ in found.graphs()] == list(range(9))  # a question once
    assert len(found.ids) == 9
    assert found.group.tolist() == [0, 0, 1, 1, 2, 2]
    assert [len(set(found.group[i : i + 2].tolist())) for i in (0, 2, 4)] == [1, 1, 1]
    assert len(set(found.group.tolist())) == 3


def test_equal_posts_are_one_number_whatever_their_formulas_are_called(world: World, tmp_path: Path) -> None:
    same = row("B", 0)
    documents = [row("A", 0), same | {"question_id": "Q9", "question": "something else"}, row("C", 0, 1)]
    assert documents[0]["formulas"][1]["id"] != documents[1]["formulas"][1]["id"]
    world.corpus("qa", documents)
    found = made({"qa": "question"}, tmp_path)
    assert named(found) == [("qa/Q0", "qa/A"), ("qa/Q9", "qa/A"), ("qa/Q0", "qa/C")]
    assert dict(found.graphs())[int(found.document[0])].formulas[0].id == "A-2"  # the graph itself keeps its ids
    assert found.group.tolist() == [0, 0, 0]  # joined by the answer, so that it is never on both sides of a split


def test_a_question_that_two_corpora_share_is_one(world: World, tmp_path: Path) -> None:
    world.corpus("qa", rows(2, 1))
    world.corpus("qb", [row("X", 0, 1, question_id="other"), row("Y", 5)])
    found = made({"qa": "question", "qb": "question"}, tmp_path)
    assert named(found) == [("qa/Q0", "qa/A0.0"), ("qa/Q1", "qa/A1.0"), ("qa/Q0", "qb/X"), ("qb/Q5", "qb/Y")]
    assert found.group.tolist() == [0, 1, 0, 2]


def test_judged_posts_are_in_no_pair(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = rows(4)
    documents[2]["body"] += " secret"  # A1.0, judged by id
    documents[5]["body"] += " hidden"  # A2.1 holds a judged formula
    documents[6]["question"] += " whisper"  # A3.0 and A3.1: both answers of a question
    documents[7]["question"] += " whisper"
    world.corpus("qa", documents)
    world.collection("asked", ["A1.0", "A3.0", "A3.1"])
    world.collection("asked-formulas", ["vA2.1-1", "vX"], "arqmath-task2")
    everything = made({"qa": "question"}, tmp_path)
    assert {"secret", "hidden", "whisper"} <= words_of(everything)
    found = made({"qa": "question"}, tmp_path, judged(["asked", "asked-formulas"]))
    assert [document for _, document in named(found)] == ["qa/A0.0", "qa/A0.1", "qa/A1.1", "qa/A2.0"]
    assert "pairs: 4; left out as judged 4, without a graph 0" in capsys.readouterr().err
    assert not {"secret", "hidden", "whisper"} & words_of(found)
    assert not [name for name in found.ids if name.endswith("/Q3")]


def test_pairs_without_a_graph_are_counted(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = [*rows(2, 1), row("empty", 2, body=""), row("mute", 3, question="", title="")]
    world.corpus("qa", documents)
    found = made({"qa": "question"}, tmp_path)
    assert [document for _, document in named(found)] == ["qa/A0.0", "qa/A1.0"]
    assert "pairs: 2; left out as judged 0, without a graph 2" in capsys.readouterr().err


KEPT = "[question, question_id, accepted]"


def test_only_accepted_answers_where_a_corpus_says(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = rows(4)
    for document, accepted in zip(documents, ("no", "yes", "yes", "no", "no", "no", "yes", None), strict=True):
        document["accepted"] = accepted  # null is as a column that is not there: not known to be accepted
    world.corpus("qa", documents, keep=KEPT)
    world.corpus("qb", rows(2, 1))
    judge = JudgedDocuments(frozenset({"A1.0", "A1.1"}), frozenset())  # counted once, accepted or not
    found = made({"qa": "question", "qb": "question"}, tmp_path, judge)
    assert named(found) == [("qa/Q0", "qa/A0.1"), ("qa/Q3", "qa/A3.0"), ("qa/Q0", "qb/A0.0")]
    said = capsys.readouterr().err.splitlines()
    assert "pairs: 3; left out as judged 3, not accepted 4, without a graph 0" in said
    silent = [line for line in said if "does not say" in line]
    assert silent == ["corpus qb does not say which answer was accepted: all answers count"]


@pytest.mark.parametrize(
    ("documents", "column", "out", "line"),
    [
        ([each | {"accepted": "no"} for each in rows(2)], "question", "A0.0", "no pair of qa is left (1 are judged, 3"),
        ([row("A", 1, accepted=True)], "question", "", "column 'accepted' of document A is 'True', expected 'yes' or"),
        (rows(1), "question", "A0.0 A0.1", "key 'pairs': no pair of qa is left (2 are judged)"),
        (rows(1), "problem", "", "key 'pairs': no document of corpus qa has the column 'problem' of questions"),
    ],
)
def test_pairs_that_there_are_not_are_one_line(
    world: World, tmp_path: Path, documents: list[dict[str, Any]], column: str, out: str, line: str
) -> None:
    words = Words()
    world.corpus("qa", documents, keep=KEPT if "accepted" in documents[0] else "")
    assert line in refusal(
        lambda: made({"qa": column}, tmp_path, JudgedDocuments(frozenset(out.split()), frozenset()), words)
    )
    assert out or not words.calls  # what is wrong with the corpus is said before its posts are parsed


# ---- topics and pools -----------------------------------------------------------------------------------------------


def test_topics_without_a_graph_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    asked = topics("one two", "", "three")
    found = data.graphs_of([question(topic) for topic in asked], parser(Words()))
    assert {name: graph.labels for name, graph in found.items()} == {"T1": ("one", "two"), "T3": ("three",)}
    assert capsys.readouterr().err == "T2: no graph: no text: the post has no text\n"
