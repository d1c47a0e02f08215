"""Which topics ask the same: by id, text, cluster, relevant documents, and through a third."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from harness.collections.collection import Collection
from harness.collections.load import load_collection
from harness.collections.same_topics import shared, topic_groups, topic_marks
from harness.data.topics import Topic, Topics
from harness.data.trec import Qrels

LONG = "Show that every finite integral domain is a field"


def marks(
    monkeypatch: pytest.MonkeyPatch, topics: list[Topic], judged: dict[str, dict[str, int]], **changes: str
) -> dict[str, set[object]]:
    collection = replace(load_collection("mini-task1"), **changes)  # type: ignore[arg-type]
    monkeypatch.setattr(Collection, "topics", lambda _: Topics(tuple(topics)))
    monkeypatch.setattr(Collection, "qrels", lambda _, edition=None: Qrels.from_dict(edition or "e", judged))
    return topic_marks(collection)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Topic("1", "", LONG), Topic("1", "", "another"), True),  # one id
        (Topic("1", "", LONG), Topic("2", "", LONG.upper() + "!"), True),
        (Topic("1", LONG), Topic("2", "", LONG), True),  # as title or as body
        (Topic("1", "$x_2$"), Topic("2", "$x^2$"), False),  # signs count in short texts
        (Topic("1", "$x^2$"), Topic("2", "$x ^ 2$"), True),
        (Topic("1", ""), Topic("2", ""), False),  # without text
        (Topic("1", "a", attributes={"item": "T"}), Topic("2", "b", attributes={"item": "T"}), True),
        (Topic("1", "a", attributes={"item": "T"}), Topic("2", "b", attributes={"item": "U"}), False),
    ],
)
def test_topics_are_the_same(monkeypatch: pytest.MonkeyPatch, one: Topic, other: Topic, same: bool) -> None:
    cluster = {"cluster": "item"} if one.attributes else {}
    sides = [marks(monkeypatch, [each], {each.id: {f"d{n}": 1}}, **cluster) for n, each in enumerate((one, other))]
    assert shared(*sides) == ({one.id: other.id} if same else {})


def test_equal_relevant_documents_make_topics_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = [Topic(name, f"text of {name}") for name in ("1", "2", "3", "4", "5", "unjudged")]
    judged = {"1": {"a": 1, "b": 2}, "2": {"b": 1, "a": 1, "c": 0}, "3": {"a": 1}, "4": {"x": 0}, "5": {"x": 0}}
    (group,) = topic_groups(marks(monkeypatch, topics, judged))
    assert group == {
        "1": 0,
        "2": 0,
        "3": 1,
        "4": 2,
        "5": 3,
    }  # grades above 0 count, and no documents are not equal ones


def test_the_same_through_a_third() -> None:
    one, other = {"A": ["x"], "B": ["y"], "C": []}, {"D": ["x", "z"], "E": ["z", "y"], "A": ["w"]}
    assert topic_groups(one, other) == [{"A": 0, "B": 0, "C": 1}, {"D": 0, "E": 0, "A": 2}]
    assert shared(one, other) == {"A": "D", "B": "D"}


def test_queries_of_one_declaration_are_the_same() -> None:
    (group,) = topic_groups(topic_marks("mini-theorems"))
    assert Counter(Counter(group.values()).values()) == {4: 10}
