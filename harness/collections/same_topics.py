"""Which topics ask the same, so that what is chosen or learnt on one topic is not reported on another.

Two topics are the same if they share their id, their text (but for case, blanks and, in longer texts, punctuation),
their cluster, or all their relevant documents in one corpus; and so are two topics that are the same as a third.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

import numpy as np

from harness.collections.collection import Collection
from harness.collections.load import load_collection
from harness.data.topics import Topic
from harness.data.trec import Qrels

LEAST = 30  # letters and digits of a text from which punctuation does not count

Marks = Mapping[str, Iterable[Hashable]]


def letters_and_digits(text: str) -> str:
    """Returns the letters and digits of a text, without case.

    >>> letters_and_digits("Is $n^2 + n$ even?")
    'isn2neven'
    """
    return "".join(character for character in text.casefold() if character.isalnum())


def topic_marks(collection: Collection | str, edition: str | None = None) -> dict[str, set[Hashable]]:
    """Returns judged topic -> what makes other topics the same; all topics if the judgments are withheld.

    Parameters
    ----------
    collection : a collection, or `NAME` or `NAME/EDITION`.

    Examples
    --------
    >>> sorted(topic_marks("mini-task1"))[:2]
    ['M.1', 'M.10']
    """
    if isinstance(collection, str):
        name, _, of_name = collection.partition("/")
        collection, edition = load_collection(name), of_name or edition
    relevant = {} if collection.withheld(edition) else _relevant(collection.qrels(edition).judged())
    clusters = collection.clusters() or {}
    marks_of: dict[str, set[Hashable]] = {}
    for topic in collection.topics():
        if relevant and topic.id not in relevant:
            continue
        marks = marks_of.setdefault(topic.id, {("id", topic.id)})
        marks |= {("text", text) for text in [_compared_text(topic)] if text}
        marks |= {("cluster", collection.cluster, cluster) for cluster in [clusters.get(topic.id)] if cluster}
        documents = relevant.get(topic.id)
        marks |= {("relevant", collection.corpus or collection.name, documents)} if documents else set()
    return marks_of


def topic_groups(*sets: Marks) -> list[dict[str, int]]:
    """Returns for each set topic -> number of its group of topics that are the same, within and across the sets.

    Groups are numbered from 0 in the order of their first topics.

    Examples
    --------
    >>> topic_groups({"A.1": ["x"], "A.2": ["y"]}, {"B.1": ["x", "z"], "B.2": ["z"], "B.3": []})
    [{'A.1': 0, 'A.2': 1}, {'B.1': 0, 'B.2': 0, 'B.3': 2}]
    """
    above: list[int] = []

    def root(number: int) -> int:
        while above[number] != number:
            number = above[number]
        return number

    first: dict[Hashable, int] = {}
    numbers: list[dict[str, int]] = []
    for topics in sets:
        numbers.append({})
        for topic, marks in topics.items():
            numbers[-1][topic] = here = len(above)
            above.append(here)
            for mark in marks:
                one, other = sorted((root(here), root(first.setdefault(mark, here))))
                above[other] = one
    order = {number: place for place, number in enumerate(n for n in range(len(above)) if above[n] == n)}
    return [{topic: order[root(number)] for topic, number in of.items()} for of in numbers]


def shared(reported: Marks, other: Marks) -> dict[str, str]:
    """Returns reported topic -> a topic of the other set that is the same; only those that have one.

    Examples
    --------
    >>> shared({"A.1": ["x"], "A.2": ["y"]}, {"B.1": ["x"]})
    {'A.1': 'B.1'}
    """
    ours, theirs = topic_groups(reported, other)
    of_group = {group: topic for topic, group in reversed(theirs.items())}
    # A topic that both sets have is named by itself.
    return {
        topic: topic if theirs.get(topic) == group else of_group[group]
        for topic, group in ours.items()
        if group in of_group
    }


def in_words(same: Mapping[str, str]) -> str:
    """Describes the first topic of the other set that `shared` found.

    >>> in_words({"A.2": "A.2", "A.1": "A.1"}), in_words({"A.1": "B.1"})
    ("topic 'A.1'", "topic 'B.1', the same by text, cluster or relevant documents as 'A.1'")
    """
    topic = min(same)
    other = same[topic]
    alike = "" if other == topic else f", the same by text, cluster or relevant documents as {topic!r}"
    return f"topic {other!r}{alike}"


def _compared_text(topic: Topic) -> str:
    text = f"{topic.title} {topic.body}"
    letters = letters_and_digits(text)
    return letters if len(letters) >= LEAST else "".join(text.casefold().split())


def _relevant(qrels: Qrels) -> dict[str, frozenset[bytes]]:
    """Returns judged topic -> its relevant documents."""
    order = np.argsort(qrels.topic, kind="stable")
    parts = np.split(order, np.searchsorted(qrels.topic[order], np.arange(1, len(qrels.topics))))
    return {
        name: frozenset(qrels.doc[part][qrels.grade[part] > 0].tolist())
        for name, part in zip(qrels.topics, parts, strict=True)
    }
