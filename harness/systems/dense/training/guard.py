"""Guard against training on evaluation data: the topics and judged posts of the evaluated collections.

The guard cannot be configured away. A fine-tuned model may only be evaluated on a collection that its training left
out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.collections.corpora import JudgedDocuments, judged
from harness.collections.corpus import Document
from harness.collections.load import load_collection
from harness.collections.same_topics import LEAST, letters_and_digits
from harness.data.topics import Topic
from harness.formulas.text.delimiters import split_formulas
from harness.io.files import sha256


@dataclass(frozen=True)
class GuardedTopics:
    """The topics and judged posts of some collections.

    Attributes
    ----------
    topics : ids of the topics.
    texts : normalised forms of the topics' titles and bodies, see `forms`.
    judged : judged posts, of any edition.

    Examples
    --------
    >>> topic = Topic("T1", "Is $n^2+n$ even?")
    >>> judged = JudgedDocuments(frozenset(["d7"]), frozenset())
    >>> guard = GuardedTopics(frozenset(["T1"]), frozenset(forms(topic.title)), judged)
    >>> guard.asks(Topic("X9", "is  $n^2 + n$ even"))
    True
    >>> guard.holds(Document("d7")), guard.holds(Document("d8"))
    (True, False)
    """

    topics: frozenset[str]
    texts: frozenset[str]
    judged: JudgedDocuments

    def asks(self, topic: Topic) -> bool:
        """Returns whether a topic is one of the guarded topics: by its id, its title or its body."""
        return topic.id in self.topics or not self.texts.isdisjoint(_text_forms(topic.title, topic.body))

    def holds(self, document: Document) -> bool:
        """Returns whether a document or its question is judged."""
        return self.judged.holds(document) or document.columns.get("question_id") in self.judged.documents

    def comes_from(self, document: Document) -> bool:
        """Returns whether the question that a document answers has the text of a guarded topic."""
        return not self.texts.isdisjoint(_text_forms(document.title, document.columns.get("question", "")))

    def digest(self) -> str:
        """Returns a SHA-256 of the topics, their texts and the judged posts."""
        return sha256(repr((sorted(self.topics), sorted(self.texts), self.judged.digest())).encode())


def guard(names: Iterable[str]) -> GuardedTopics:
    """Returns a guard for collections in all their editions, or in a single edition (`COLLECTION/EDITION`)."""
    kept = list(names)
    topics = [topic for name in kept for topic in _topics_named(name)]
    texts = frozenset(form for topic in topics for form in _text_forms(topic.title, topic.body))
    return GuardedTopics(frozenset(topic.id for topic in topics), texts, judged(kept))


def _topics_named(name: str) -> Iterable[Topic]:
    """Returns the topics of `COLLECTION`, or those judged in `COLLECTION/EDITION`."""
    called, _, edition = name.partition("/")
    collection = load_collection(called)
    if not edition:
        return collection.topics()
    of_edition = frozenset(collection.qrels(edition).topics)
    return (topic for topic in collection.topics() if topic.id in of_edition)


def forms(text: str) -> Iterator[str]:
    """Yields normalised forms of a text for recognising copies: its letters and digits, and those of its prose alone.

    Sources differ in how they write a formula and in the spaces and punctuation around it. The prose counts alone only
    if it has at least `LEAST` letters and digits.
    """
    whole = letters_and_digits(text)
    if whole:
        yield whole
    prose = letters_and_digits(" ".join(part for part, _ in split_formulas(text)))
    if len(prose) >= LEAST:
        yield prose


def _text_forms(*texts: str) -> set[str]:
    """Returns the spellings by which any of some texts is recognised."""
    return {form for text in texts for form in forms(text)}
