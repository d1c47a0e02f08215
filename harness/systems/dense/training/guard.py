"""What must not be trained on: the topics and judged posts of the collections that are evaluated.

The code leaves it out; no configuration says otherwise. A collection is run only with a model that names it here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.collections.corpus import Document
from harness.collections.judged import Judged, judged
from harness.collections.load import load_collection
from harness.data.topics import Topic
from harness.io.files import sha256
from harness.systems.lexical.text import split_formulas

LEAST = 30  # letters and digits of a text whose prose alone tells that it is the same


@dataclass(frozen=True)
class Guard:
    """The topics and judged posts of some collections.

    Attributes
    ----------
    topics : ids.
    texts : what `forms` gives of each topic.
    judged : posts, in any edition.

    Examples
    --------
    >>> topic = Topic("T1", "Is $n^2+n$ even?")
    >>> guard = Guard(frozenset(["T1"]), frozenset(forms(topic.title)), Judged(frozenset(["d7"]), frozenset()))
    >>> guard.asks(Topic("X9", "is  $n^2 + n$ even"))
    True
    >>> guard.holds(Document("d7")), guard.holds(Document("d8"))
    (True, False)
    """

    topics: frozenset[str]
    texts: frozenset[str]
    judged: Judged

    def asks(self, topic: Topic) -> bool:
        """Returns whether a topic is one of them, by its id, its title or its body."""
        return topic.id in self.topics or not self.texts.isdisjoint(_forms(topic.title, topic.body))

    def holds(self, document: Document) -> bool:
        """Returns whether a document is judged, or belongs to a question that is judged."""
        return self.judged.holds(document) or document.columns.get("question_id") in self.judged.documents

    def comes_from(self, document: Document) -> bool:
        """Returns whether a topic was made of the question that a document answers."""
        return not self.texts.isdisjoint(_forms(document.title, document.columns.get("question", "")))

    def digest(self) -> str:
        """Returns a SHA-256 of all of it."""
        return sha256(repr((sorted(self.topics), sorted(self.texts), self.judged.digest())).encode())


def guard(names: Iterable[str]) -> Guard:
    """What the collections of these names ask and judge in all of their editions; `COLLECTION/EDITION`: in that one."""
    kept = list(names)
    topics = [topic for name in kept for topic in _asked(name)]
    texts = frozenset(form for topic in topics for form in _forms(topic.title, topic.body))
    return Guard(frozenset(topic.id for topic in topics), texts, judged(kept))


def _asked(name: str) -> Iterable[Topic]:
    called, _, edition = name.partition("/")
    collection = load_collection(called)
    if not edition:
        return collection.topics()
    of_edition = frozenset(collection.qrels(edition).topics)
    return (topic for topic in collection.topics() if topic.id in of_edition)


def forms(text: str) -> Iterator[str]:
    """Yields what two copies of a text have in common: letters and digits, and those of its prose if they are many.

    Sources write the same formula in different ways, and blanks and punctuation around it.
    """
    whole = _plain(text)
    if whole:
        yield whole
    prose = _plain(" ".join(part for part, _ in split_formulas(text)))
    if len(prose) >= LEAST:
        yield prose


def _forms(*texts: str) -> set[str]:
    return {form for text in texts for form in forms(text)}


def _plain(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())
