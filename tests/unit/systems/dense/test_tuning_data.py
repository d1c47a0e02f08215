"""What is trained on: the leak guard, labels, sampled pairs, and corpora that lack what they need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from case_tables import literals
from refusals import refusal, refuses
from tuning_tools import SUBJECTS, Courses, courses, judged, mapping, settings, similar, threads, topic

from harness.collections.corpora import judged as judged_nowhere
from harness.collections.corpora import load_corpus
from harness.data.topics import Topic
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.experiments.produce import check_untrained
from harness.experiments.produce import make as produce
from harness.experiments.task import task
from harness.systems.base import Request
from harness.systems.build import BuiltSystem
from harness.systems.dense.training import data
from harness.systems.dense.training.data import Examples
from harness.systems.dense.training.settings import tuning

__all__ = ["courses"]  # a fixture


def made(kind: str = "cross", **changes: object) -> Examples:
    corpus = load_corpus("threads")
    return data.examples(kind, settings(kind, **changes), corpus, similar(corpus))


def judged_ids(found: Examples) -> set[tuple[str, str]]:
    return {found.ids[number] for number in [*found.train.tolist(), *found.held.tolist()]}


def all_documents(found: Examples) -> set[str]:
    return {document for _, document in found.ids}


# ---- the leak guard ---------------------------------------------------------------------------------------------


def test_posts_judged_in_any_edition_are_not_trained_on(courses: Courses) -> None:
    past = [topic(f"P{number}", SUBJECTS[number % 4], 100 + number) for number in range(8)]
    documents = threads()
    planted = [*judged(past, documents, 3), ("P7", "A5.1", 3), ("P0", "A5.1", 2)]
    planted = list({(t, d): (t, d, g) for t, d, g in planted}.values())
    courses.collection("past", past, planted)
    # Judged by `future`, in its first and in its second edition; with a guard that looks elsewhere they are there.
    courses.collection("elsewhere", [topic("E1", "prime", 999)], [("E1", "no-such", 1)])
    open_ = made(leave_out=["elsewhere"], epochs=30, additional=4, positive_ratio=0.7)
    assert {("P7", "A5.1"), ("P0", "A5.1"), ("P0", "A0.0")} <= judged_ids(open_)
    assert {"A5.1", "A0.0"} <= all_documents(open_)
    assert open_.counts["judged pairs left out"] == 0
    found = made(epochs=30, additional=4, positive_ratio=0.7)
    assert not {"A5.1", "A0.0"} & all_documents(found)
    assert found.counts["judged pairs left out"] == sum(document in ("A0.0", "A5.1") for _, document, _ in planted) >= 3
    assert found.counts["documents never sampled"] == 2
    assert judged_ids(found) == judged_ids(open_) - {(t, d) for t, d, _ in planted if d in ("A5.1", "A0.0")}


def test_topics_of_what_is_evaluated_are_not_trained_on(courses: Courses) -> None:
    past = [topic(f"P{number}", SUBJECTS[number % 4], 100 + number) for number in range(8)]
    same_id = topic("F2", "graph", 7)
    same_title = {**topic("P9", "graph", 8), "title": topic("F1", "group", 201)["title"].upper() + " ?"}
    same_body = {**topic("P10", "graph", 9), "body": "  " + topic("F3", "prime", 203)["body"].replace(" ", "\n")}
    planted = [*past, same_id, same_title, same_body]
    courses.collection("past", planted, judged(planted, threads(), 3))
    found = made()
    asked = {name for name, _ in judged_ids(found)}
    assert asked == {f"P{number}" for number in range(8)}
    assert found.counts["topics left out"] == 3
    kept = {one["body"] for one in past}
    assert not any(text in found.texts for text in (same_id["body"], same_body["body"], same_title["title"]))
    assert any(body in text for body in kept for text in found.texts)


@pytest.mark.parametrize("place", ["title", "question"])
def test_questions_that_topics_were_made_of_are_not_sampled(courses: Courses, place: str) -> None:
    asked = topic("F1", "group", 201)
    documents = threads()
    text = asked["title" if place == "title" else "body"]
    for document in documents:
        if document["question_id"] == "Q3":
            document[place] = f"{text}."
    courses.corpus("threads", documents)
    found = made(epochs=30, additional=4)
    assert not {"A3.0", "A3.1"} & all_documents(found)
    assert "Q3" not in {name for name, _ in found.ids}
    assert found.counts["documents never sampled"] == 4  # and the two that are judged
    courses.corpus("threads", threads())
    assert {"A3.0", "A3.1"} & all_documents(made(epochs=30, additional=4))


def test_a_copy_of_a_topic_is_recognised_however_its_formulas_are_written() -> None:
    text = r"Let $x^2$ be the square of a number. Is \[\frac{a}{b}\] always smaller than its square root?"
    copy = r"let $x^{2}$ be the square of a number. Is $$ {a \over b} $$  always smaller than its square root"
    found = data.GuardedTopics(frozenset(), frozenset(data.forms(text)), judged_nowhere([]))
    assert found.asks(Topic("new", "", copy))
    assert found.asks(Topic("new", copy))
    assert not found.asks(Topic("new", "", copy.replace("smaller", "larger")))
    assert not found.asks(Topic("new", "", ""))
    # Short prose is shared by many questions: its formulas count.
    short = data.GuardedTopics(frozenset(), frozenset(data.forms("How to solve $x=1$?")), judged_nowhere([]))
    assert short.asks(Topic("new", "how to solve $x = 1$"))
    assert not short.asks(Topic("new", "How to solve $x=2$?"))


def test_what_is_run_must_be_left_out(courses: Courses) -> None:
    class Tuned:
        name = "tuned"

        def trains_without(self) -> frozenset[str]:
            return settings().trains_without()

        def __call__(self, request: object) -> Any:  # noqa: ANN401
            raise AssertionError

    with pytest.raises(HarnessError, match=r"set 'system\.training\.leave_out=\[future,past\]'"):
        check_untrained(BuiltSystem(Tuned(), {"training": {"leave_out": ["future"]}}), "past")
    check_untrained(BuiltSystem(Tuned()), "future")
    assert settings(leave_out=[]).trains_without() == frozenset()


# ---- labels and the split ---------------------------------------------------------------------------------------


def test_labels(courses: Courses) -> None:
    grades = {(t, d): g for t, d, g in judged([topic(f"P{n}", SUBJECTS[n % 4], 0) for n in range(8)], threads(), 3)}
    binary, scaled = made(additional=0), made(additional=0, labels="scaled", highest=4)
    strict = made(additional=0, relevant=3)
    assert {*grades.values()} == {0, 2, 3}
    expected: list[tuple[Examples, Callable[[int], float]]] = [
        (binary, lambda grade: grade >= 2),
        (scaled, lambda grade: grade / 4),
        (strict, lambda grade: grade == 3),
    ]
    for found, label in expected:
        numbers = [*found.train.tolist(), *found.held.tolist()]
        assert [found.label[n] for n in numbers] == pytest.approx([float(label(grades[found.ids[n]])) for n in numbers])
    assert [bool(value) for value in binary.positive] == [grades[pair] >= 2 for pair in binary.ids]


def test_validation_is_by_topic_and_depends_on_the_seed(courses: Courses) -> None:
    def sides(found: Examples) -> tuple[set[str], set[str]]:
        train, held = ({found.ids[n][0] for n in part.tolist()} for part in (found.train, found.held))
        return train, held

    train, held = sides(made())
    assert not train & held
    assert len(held) == 2  # a quarter of 8
    assert len(train) == 6
    assert sides(made()) == (train, held)
    assert any(sides(made(seed=seed))[1] != held for seed in (2, 3, 4))
    more = [topic(f"O{number}", SUBJECTS[number % 4], 300 + number) for number in range(3)]
    courses.collection("other", more, judged(more, threads(), 3))
    train, held = sides(made(collections=["past", "other"], validate_on=["other"]))
    assert (train, held) == ({f"P{n}" for n in range(8)}, {"O0", "O1", "O2"})
    train, held = sides(made(collections=["past", "other"], validate_topics=["P3", "O1"]))
    assert (train, held) == ({*(f"P{n}" for n in range(8) if n != 3), "O0", "O2"}, {"P3", "O1"})
    refuses(r"validate_topics': past judges no topic 'P9'", lambda: made(validate_topics=["P3", "P9"]))
    with pytest.raises(HarnessError, match=r"'validate_on' and 'validate_topics' both say what is held out"):
        settings(validate_on=["past"], validate_topics=["P3"])
    refuses(r"key 'validate_on': future is not among 'collections'", lambda: settings(validate_on=["future"]))


def test_a_bi_encoder_learns_relevant_pairs_and_validates_on_all(courses: Courses) -> None:
    found = made("bi")
    assert found.positive[found.train].all()
    assert not found.positive[found.held].all()
    assert found.positive[found.held].any()


# ---- sampled pairs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_negatives_share_no_tag_and_are_the_most_similar(courses: Courses, seed: int) -> None:
    documents = {document["id"]: document for document in threads()}
    tags = {document["question_id"]: set(document["tags"].split()) for document in documents.values()}
    ask = {document["question_id"]: f"{document['title']} {document['question']}" for document in documents.values()}
    found = made(seed=seed, epochs=6, additional=2, negative_questions=3, negatives_per_question=4)
    for epoch in found.epochs:
        negatives = [found.ids[n] for n in epoch.tolist() if not found.positive[n]]
        assert len({question for question, _ in negatives}) <= 3
        assert negatives
        for question, name in negatives:
            assert not tags[question] & set(documents[name]["tags"].split())
            others = [
                abs(len(other["body"]) - len(ask[question]))
                for other in documents.values()
                if not tags[question] & set(other["tags"].split()) and other["id"] not in ("A0.0", "A5.1")
            ]
            assert abs(len(documents[name]["body"]) - len(ask[question])) <= sorted(others)[3]
    questions = [{found.ids[n][0] for n in epoch.tolist() if not found.positive[n]} for epoch in found.epochs]
    assert any(one != questions[0] for one in questions)


def test_as_many_as_queries_and_half_of_them_positive(courses: Courses) -> None:
    found = made(negative_questions=4)
    assert found.counts["queries trained on"] == 6
    assert found.counts["sampled positives and negatives of each epoch"] == [[3, 3]] * 3
    for epoch in found.epochs:
        assert len(set(epoch.tolist())) == 6
        for number in epoch.tolist():
            question, document = found.ids[number]
            own = document.removeprefix("A").partition(".")[0] == question.removeprefix("Q")
            assert bool(found.positive[number]) == bool(found.label[number]) == own
    each = made(additional=0.25, additional_per="judgment", positive_ratio=1)
    assert each.counts["sampled positives and negatives of each epoch"] == [[round(len(each.train) / 4), 0]] * 3
    assert made(additional=0).counts["sampled positives and negatives of each epoch"] == [[0, 0]] * 3


def test_an_epoch_is_drawn_from_seed_and_number_alone(courses: Courses) -> None:
    def pairs(found: Examples, epoch: int) -> list[tuple[str, str]]:
        return [found.ids[n] for n in found.epochs[epoch].tolist()]

    short, long = made(epochs=2), made(epochs=5)
    assert [pairs(short, epoch) for epoch in (0, 1)] == [pairs(long, epoch) for epoch in (0, 1)]
    assert pairs(long, 0) != pairs(long, 1)
    assert pairs(made(seed=2), 0) != pairs(short, 0)
    assert [text for text in short.texts if text not in long.texts] == []


@pytest.mark.parametrize(("positives", "expected"), [("thread", {"0", "1"}), ("accepted", {"0"}), ("votes", {"0"})])
def test_positives_are_of_the_kind_that_is_named(courses: Courses, positives: str, expected: set[str]) -> None:
    found = made(positives=positives, epochs=20)
    sampled = {found.ids[n][1][-1] for epoch in found.epochs for n in epoch.tolist() if found.positive[n]}
    assert sampled == expected
    assert made(positives="votes", votes=61).counts["sampled positives and negatives of each epoch"][0][0] == 0


def test_texts_are_the_fields_that_are_named(courses: Courses) -> None:
    documents = {document["id"]: document for document in threads()}
    found = made(query=["body", "tags"], document=["title", "body"])
    for number, (question, name) in enumerate(found.ids):
        document = documents[name]
        assert found.texts[found.document[number]] == f"{document['title']} {document['body']}"
        if question.startswith("Q"):
            asked = next(one for one in documents.values() if one["question_id"] == question)
            assert found.texts[found.query[number]] == f"{asked['question']} {asked['tags']}"
    assert len(set(found.texts)) == len(found.texts)


# ---- what is lacking --------------------------------------------------------------------------------------------


def one_line(**changes: object) -> str:
    return refusal(lambda: made(**changes))  # type: ignore[arg-type]


def test_a_corpus_that_does_not_say_what_is_needed_is_one_line(courses: Courses) -> None:
    courses.corpus("threads", threads(), keep="[question, question_id]")
    assert "A0.0 has no column 'score', which sampled pairs need with 'positives: votes'" in one_line(positives="votes")
    assert "has no column 'accepted'" in one_line(positives="accepted")
    made(positives="thread")
    courses.corpus("threads", threads(), keep="[question]")
    assert "has no column 'question_id'" in one_line()
    made(additional=0)
    courses.corpus("threads", threads(score="many"))
    assert "column 'score' of document A0.0 is 'many', expected a whole number" in one_line(positives="votes")
    courses.corpus("threads", threads(tags=""))
    assert "no question of the corpus has tags" in one_line()
    made(positive_ratio=1)


def test_too_little_to_train_on_is_one_line(courses: Courses) -> None:
    assert "0 topics of past" in one_line(validation=0)
    assert "would be held out, expected 1 or more: raise 'validation'" in one_line(validation=0)
    assert "0 topics of past with judged documents in corpus threads would be trained on" in one_line(validation=1)
    assert "1 topics" in one_line(kind="bi", validation=0.1)
    assert "expected 2 or more" in one_line(kind="bi", validation=0.1)
    courses.corpus("threads", threads(questions=1, answers=1))
    assert one_line() == "key 'training.collections': corpus threads holds no document judged in past"
    courses.collection("again", [topic("P1", "prime", 1)], [("P1", "A1.1", 1)])
    courses.corpus("threads", threads())
    assert "again judges topic 'P1', which is named twice" in one_line(collections=["past", "again"])


@pytest.mark.parametrize(("key", "value", "said"), literals("systems/training_faults"))
def test_settings_are_checked(courses: Courses, key: str, value: object, said: str) -> None:
    line = refusal(lambda: tuning("cross", mapping() | {key: value}))
    assert line.startswith("key 'training': ")
    assert said in line


def test_a_bi_encoder_takes_no_sampled_negatives(courses: Courses) -> None:
    with pytest.raises(HarnessError, match=r"key 'positive_ratio' is 0.5, and a bi-encoder takes its negatives from"):
        settings("bi", additional=1)
    found = made("bi", additional=1, positive_ratio=1)
    assert all(found.positive[epoch].all() for epoch in found.epochs)
    assert np.concatenate(found.epochs).size

    # Nor are there any in a batch of one.
    with pytest.raises(HarnessError, match=r"key 'training': key 'batch' is 1, and a bi-encoder takes its negatives"):
        tuning("bi", mapping("bi", batch=1))
    assert tuning("bi", mapping("bi", batch=2)).batch == 2
    assert tuning("cross", mapping("cross", batch=1)).batch == 1


@pytest.fixture
def both(courses: Courses) -> Courses:
    """Topics P0 to P3 are judged in e0, F0 and F1 in e1."""
    past = [topic(f"P{number}", SUBJECTS[number % 4], 100 + number) for number in range(4)]
    future = [topic(f"F{number}", SUBJECTS[number % 4], 200 + number) for number in range(2)]
    first = [*judged(past, threads(), 3), ("P0", "A5.1", 3)]
    first = list({(t, d): (t, d, g) for t, d, g in first}.values())
    courses.collection("both", [*past, *future], first, [("F0", "A0.0", 3), ("F1", "A5.1", 1)])
    return courses


def test_the_edition_that_is_evaluated_is_left_out(both: Courses) -> None:
    corpus = load_corpus("threads")
    found = data.examples("cross", settings(collections=["both/e0"], leave_out=["both/e1"]), corpus, similar(corpus))
    pairs = {found.ids[number] for number in [*found.train.tolist(), *found.held.tolist()]}
    assert {name for name, _ in pairs} == {"P0", "P1", "P2", "P3"}
    assert not {"A0.0", "A5.1"} & {document for _, document in found.ids}
    assert found.counts["judged pairs left out"] >= 2


@pytest.mark.parametrize(
    ("collections", "leave_out"), [("both", "both/e1"), ("both/e1", "both/e1"), ("both/e0", "both"), ("both", "both")]
)
def test_what_is_left_out_is_not_trained_on(both: Courses, collections: str, leave_out: str) -> None:
    with pytest.raises(HarnessError, match=f"'leave_out': {collections} is trained on as well"):
        settings(collections=[collections], leave_out=[leave_out])


@dataclass
class Learner:
    """Ranks the first document for every topic that it is given."""

    left_out: frozenset[str]
    name: str = "learner"

    def trains_without(self) -> frozenset[str]:
        return self.left_out

    def __call__(self, request: Request) -> Run:
        first = next(iter(request.corpus_for(self.name).ids()))
        return Run.from_dict(self.name, {topic.id: {first: 1.0} for topic in request.topics})


@pytest.mark.slow
def test_it_ranks_the_topics_of_that_edition_alone(both: Courses, tmp_path: Path) -> None:
    system = Learner(frozenset(["both/e1"]))
    made = produce(system, task("both", "threads", edition="e1"), runs=tmp_path)
    assert made.run.topics == ("F0", "F1")
    with pytest.raises(HarnessError, match="trains on posts without leaving out those judged in both"):
        produce(system, task("both", "threads", edition="e0"), runs=tmp_path)
    everything = produce(Learner(frozenset(["both"])), task("both", "threads", edition="e1"), runs=tmp_path)
    assert len(everything.run.topics) == 6
