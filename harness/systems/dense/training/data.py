"""Training data: judged pairs of topics outside the evaluation, and additional pairs sampled for each epoch.

The pairs of all epochs are sampled at once, each epoch seeded with (seed, epoch), so that every text is read and
tokenised once. The corpus may not fit in memory, so one pass collects ids and tags, and a later pass reads only the
texts that are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.collections.corpora import JudgedDocuments, judged
from harness.collections.corpus import Corpus, Document
from harness.collections.load import load_collection
from harness.collections.same_topics import LEAST, letters_and_digits
from harness.data.topics import Topic
from harness.errors import HarnessError
from harness.formulas.text.delimiters import split_formulas
from harness.io.console import log_line
from harness.io.files import sha256
from harness.systems.dense import texts
from harness.systems.dense.training.settings import Tuning


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


Ints = npt.NDArray[np.int64]
Similar = Callable[[Sequence[str]], Iterable[npt.NDArray[np.float32]]]
_SPLIT, _POSITIVES, _NEGATIVES = 0xD1, 0xB0, 0xE6  # one random stream for each kind of draw


@dataclass(frozen=True, eq=False)
class Examples:
    """Pairs of a query and a document with their labels.

    Attributes
    ----------
    texts : distinct texts of queries and documents.
    query, document : int64, shape (pairs,). Indices into `texts`.
    label : float32, shape (pairs,). From 0 to 1.
    positive : shape (pairs,). Whether the document is relevant.
    train, held : indices of judged pairs: those trained on in every epoch, and those held out for validation.
    epochs : for each epoch, the indices of the sampled pairs added to it.
    ids : (query id, document id) of each pair.
    counts : numbers of training pairs, queries and excluded items, for the model card.
    """

    texts: tuple[str, ...]
    query: Ints
    document: Ints
    label: npt.NDArray[np.float32]
    positive: npt.NDArray[np.bool_]
    train: Ints
    held: Ints
    epochs: tuple[Ints, ...]
    ids: tuple[tuple[str, str], ...]
    counts: dict[str, Any]


@dataclass
class _DocumentFields:
    """Fields of all documents, as columns in corpus order."""

    ids: list[str] = field(default_factory=list)
    question: list[str] = field(default_factory=list)
    tags: dict[str, list[int]] = field(default_factory=dict)  # tag -> positions of its documents
    tagged: list[bool] = field(default_factory=list)
    positive: list[bool] = field(default_factory=list)
    free: list[bool] = field(default_factory=list)  # neither judged in an evaluated collection nor one of its topics
    threads: dict[str, tuple[str, ...]] = field(default_factory=dict)  # question of a free document -> its tags


_Key = tuple[str, int]  # a topic ("topic:ID") or question ("question:ID"), and the position of a document


class _Pairs(dict[tuple[_Key, float, bool], int]):
    """Distinct pairs, numbered in the order in which they were added."""

    def add(self, key: _Key, label: float, positive: bool) -> int:
        return self.setdefault((key, label, positive), len(self))


def examples(kind: str, tuning: Tuning, corpus: Corpus, similar: Similar) -> Examples:
    """Returns the training and validation pairs, without topics and judged posts of the evaluated collections.

    Parameters
    ----------
    kind : `cross`: trains on all judged pairs and on sampled ones. `bi`: trains on relevant pairs and sampled
        positives. Validation always takes all judged pairs of the held-out topics.
    similar : question texts -> for each, its similarity to every document in corpus order; minus infinity for
        documents without text.

    Raises
    ------
    HarnessError
        The corpus holds too few judged documents, or lacks a column that pair sampling requires.
    """
    barred = guard(tuning.leave_out)
    fields_of_documents = _read_fields(corpus, tuning, barred)
    counts: dict[str, Any] = {}
    topics, judged = _judged(tuning, corpus.name, fields_of_documents, barred, counts)
    if strange := [name for name in tuning.validate_topics if f"topic:{name}" not in topics]:
        names = ", ".join(tuning.collections)
        raise HarnessError(f"key 'training.validate_topics': {names} judges no topic {strange[0]!r}")
    pairs = _Pairs()
    train, held = _divided(kind, tuning, corpus.name, judged, pairs, counts)
    unit = counts["queries trained on"] if tuning.additional_per == "query" else len(train)
    wanted = round(tuning.additional * unit)
    epochs = _sampled(tuning, corpus, fields_of_documents, similar, wanted, pairs) if wanted else [[]] * tuning.epochs
    sampled = [positive for _, _, positive in pairs]
    counts["sampled positives and negatives of each epoch"] = [
        [sum(sampled[n] for n in epoch), sum(not sampled[n] for n in epoch)] for epoch in epochs
    ]
    if short := [n for n, epoch in enumerate(epochs, 1) if len(epoch) < wanted]:
        log_line(f"{len(short)} epochs have fewer than {wanted:,} sampled pairs, such as epoch {short[0]}")
    asked = {name: texts.of_topic(topic, tuning.query, tuning.view) for name, topic in topics.items()}
    return _with_texts_read(tuning, corpus, fields_of_documents, asked, pairs, (train, held, epochs), counts)


def _read_fields(corpus: Corpus, tuning: Tuning, barred: GuardedTopics) -> _DocumentFields:
    """Reads the fields of all documents that sampling needs, without their texts."""
    out = _DocumentFields()
    for place, document in enumerate(corpus):
        free = not (barred.holds(document) or barred.comes_from(document))
        question = document.columns.get("question_id", "")
        out.ids.append(document.id)
        out.question.append(question)
        out.tagged.append(bool(document.tags))
        out.positive.append(bool(tuning.additional) and _is_positive(document, tuning, corpus.name))
        out.free.append(free)
        for tag in document.tags:
            out.tags.setdefault(tag, []).append(place)
        if free and question:
            out.threads.setdefault(question, document.tags)
    return out


def _is_positive(document: Document, tuning: Tuning, corpus: str) -> bool:
    """Returns whether a document counts as a positive for its question, by the setting `positives`."""
    need = {"votes": "score", "accepted": "accepted", "thread": "question"}[tuning.positives]
    for name in ("question", "question_id", need):
        if name not in document.columns:
            raise HarnessError(
                f"corpus {corpus}: document {document.id} has no column {name!r}, which sampled pairs need with "
                f"'positives: {tuning.positives}'; take other positives, or 'additional: 0'"
            )
    if not document.columns["question_id"] or not (document.title or document.columns["question"]):
        return False  # the corpus lacks its question
    if tuning.positives == "votes":
        try:
            return int(document.columns["score"]) >= tuning.votes
        except ValueError:
            value = document.columns["score"]
            raise HarnessError(
                f"corpus {corpus}: column 'score' of document {document.id} is {value!r:.40}, expected a whole number"
            ) from None
    return tuning.positives == "thread" or document.columns["accepted"] == "yes"


# ---- judged pairs -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Judgment:
    topic: str
    collection: str
    place: int  # position of the document in the corpus
    grade: float


def _judged(
    tuning: Tuning, corpus: str, documents: _DocumentFields, barred: GuardedTopics, counts: dict[str, Any]
) -> tuple[dict[str, Topic], list[_Judgment]]:
    """Returns the judged topics by key, and the judgments to use: of documents in the corpus that are not evaluated."""
    place = {name: number for number, name in enumerate(documents.ids)}
    topics: dict[str, Topic] = {}
    out: list[_Judgment] = []
    absent = without = 0
    left: set[str] = set()
    for name in tuning.collections:
        collection, _, edition = name.partition("/")
        loaded = load_collection(collection)
        known = loaded.topics().by_id()
        for topic, grades in loaded.qrels(edition or None).judged().to_dict().items():
            key = f"topic:{topic}"
            if key in topics:
                raise HarnessError(f"key 'training': {name} judges topic {topic!r}, which is named twice; leave it out")
            topics[key] = known[topic]
            if barred.asks(known[topic]):
                left.add(topic)
            for document, grade in grades.items():
                number = place.get(document)
                absent += number is None
                if number is None:
                    continue
                if topic in left or not documents.free[number]:
                    without += 1
                else:
                    out.append(_Judgment(key, name, number, float(grade)))
    closed = documents.free.count(False)
    log_line(
        f"judgments of {', '.join(tuning.collections)}: {len(out):,} pairs are in corpus {corpus}; left out as "
        f"evaluated: {len(left):,} topics, {without:,} judged pairs; not sampled: {closed:,} documents"
    )
    counts |= {"topics left out": len(left), "judged pairs left out": without}
    counts |= {"documents never sampled": closed, "judged pairs that the corpus lacks": absent}
    return topics, out


def _divided(
    kind: str, tuning: Tuning, corpus: str, judged: Sequence[_Judgment], pairs: _Pairs, counts: dict[str, Any]
) -> tuple[list[int], list[int]]:
    """Splits the judged pairs by topic; returns the indices of training pairs and of held-out pairs."""
    useful = [one for one in judged if kind == "cross" or one.grade >= tuning.relevant]
    named = list(dict.fromkeys(one.topic for one in useful))
    if tuning.validate_on:
        held_topics = {one.topic for one in useful if one.collection in tuning.validate_on}
    elif tuning.validate_topics:
        held_topics = {f"topic:{name}" for name in tuning.validate_topics} & set(named)
    else:
        order = np.random.default_rng([tuning.seed, _SPLIT]).permutation(len(named))
        held_topics = {named[i] for i in order[: round(tuning.validation * len(named))]}
    if not named:
        grade = f" of grade {tuning.relevant:g} or more" if kind == "bi" else ""
        names = ", ".join(tuning.collections)
        raise HarnessError(f"key 'training.collections': corpus {corpus} holds no document judged in {names}{grade}")
    least = 2 if kind == "bi" else 1  # a ranking loss needs documents of another query as negatives
    for what, count, way in (
        ("held out", len(held_topics), "raise"),
        ("trained on", len(named) - len(held_topics), "lower"),
    ):
        if count < least:
            raise HarnessError(
                f"key 'training': {count} topics of {', '.join(tuning.collections)} with judged documents in corpus "
                f"{corpus} would be {what}, expected {least} or more: {way} 'validation', or name more in 'collections'"
            )

    def number(one: _Judgment) -> int:
        positive = one.grade >= tuning.relevant
        label = float(positive) if tuning.labels == "binary" else min(max(one.grade / tuning.highest, 0.0), 1.0)
        return pairs.add((one.topic, one.place), label, positive)

    train = [number(one) for one in useful if one.topic not in held_topics]
    held = [number(one) for one in judged if one.topic in held_topics]
    counts |= {"queries trained on": len(named) - len(held_topics), "queries held out": len(held_topics)}
    counts |= {"judged pairs trained on": len(train), "judged pairs held out": len(held)}
    return train, held


# ---- sampled pairs ----------------------------------------------------------------------------------------------


def _sampled(
    tuning: Tuning, corpus: Corpus, documents: _DocumentFields, similar: Similar, wanted: int, pairs: _Pairs
) -> list[list[int]]:
    """Samples pairs for each epoch and returns their indices; fewer than wanted where the corpus has not enough."""
    good = np.flatnonzero(np.array(documents.positive, bool) & np.array(documents.free, bool))
    positives = round(tuning.positive_ratio * wanted)
    negatives = wanted - positives
    drawn = [_drawn(tuning, documents, epoch) for epoch in range(tuning.epochs)] if negatives else []
    near = _nearest(tuning, corpus, documents, similar, sorted({name for part in drawn for name in part}))
    out = []
    for epoch in range(tuning.epochs):
        chosen = np.random.default_rng([tuning.seed, epoch, _POSITIVES]).permutation(good)[:positives].tolist()
        numbers = [pairs.add((f"question:{documents.question[place]}", place), 1.0, True) for place in chosen]
        if negatives:
            keys = [(f"question:{name}", place) for name in drawn[epoch] for place in near[name]]
            order = np.random.default_rng([tuning.seed, epoch, _NEGATIVES]).permutation(len(keys))[:negatives]
            numbers += [pairs.add(keys[i], 0.0, False) for i in order.tolist()]
        out.append(numbers)
    return out


def _drawn(tuning: Tuning, documents: _DocumentFields, epoch: int) -> list[str]:
    """Draws the questions for which an epoch samples negatives."""
    names = [name for name, tags in documents.threads.items() if tags]
    if not names:
        raise HarnessError(
            "key 'training': no question of the corpus has tags, which tell what may be a negative; say "
            "'positive_ratio: 1', or 'additional: 0'"
        )
    order = np.random.default_rng([tuning.seed, epoch]).permutation(len(names))
    return [names[i] for i in order[: tuning.negative_questions].tolist()]


def _nearest(
    tuning: Tuning, corpus: Corpus, documents: _DocumentFields, similar: Similar, names: Sequence[str]
) -> dict[str, list[int]]:
    """Returns, for each question, the most similar documents that share no tag with the question, best first."""
    if not names:
        return {}
    asked, _ = _found_texts(replace(tuning, view=tuning.retriever_view), corpus, set(names), frozenset())
    sampled = np.array(documents.free, bool) & np.array(documents.tagged, bool)
    out: dict[str, list[int]] = {}
    for name, scores in zip(names, similar([asked[name] for name in names]), strict=True):
        may = sampled & (scores > -np.inf)
        for tag in documents.threads[name]:
            may[documents.tags[tag]] = False
        places = np.flatnonzero(may)
        best = np.argsort(-scores[places], kind="stable")[: tuning.negatives_per_question]
        out[name] = places[best].tolist()
    return out


# ---- texts ------------------------------------------------------------------------------------------------------


def question_text(document: Document, tuning: Tuning) -> str:
    """Returns the text of the question that a document answers, built from the same fields as a topic's text."""
    topic = Topic("", document.title, document.columns.get("question", ""), document.tags)
    return texts.of_topic(topic, tuning.query, tuning.view)


def _found_texts(
    tuning: Tuning, corpus: Corpus, questions: set[str], documents: frozenset[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Reads the texts of some questions, each from the first document of its thread, and of some documents."""
    asked: dict[str, str] = {}
    answered: dict[str, str] = {}
    for document in corpus:
        name = document.columns.get("question_id", "")
        if name in questions and name not in asked:
            asked[name] = question_text(document, tuning)
        if document.id in documents:
            answered[document.id] = texts.of_document(document, tuning.document, tuning.view)
    return asked, answered


def _with_texts_read(
    tuning: Tuning,
    corpus: Corpus,
    documents: _DocumentFields,
    asked: dict[str, str],
    pairs: _Pairs,
    chosen: tuple[list[int], list[int], list[list[int]]],
    counts: dict[str, Any],
) -> Examples:
    """Reads the texts of the chosen pairs and returns the examples with numbered texts."""
    keys = [key for key, _, _ in pairs]
    questions = {query.removeprefix("question:") for query, _ in keys if query.startswith("question:")}
    of_questions, of_documents = _found_texts(
        tuning, corpus, questions, frozenset(documents.ids[place] for _, place in keys)
    )
    asked = asked | {f"question:{name}": text for name, text in of_questions.items()}
    number: dict[str, int] = {}
    query = [number.setdefault(asked[name], len(number)) for name, _ in keys]
    document = [number.setdefault(of_documents[documents.ids[place]], len(number)) for _, place in keys]
    train, held, epochs = chosen
    return Examples(
        tuple(number),
        np.array(query, np.int64),
        np.array(document, np.int64),
        np.array([label for _, label, _ in pairs], np.float32),
        np.array([positive for _, _, positive in pairs], bool),
        np.array(train, np.int64),
        np.array(held, np.int64),
        tuple(np.array(epoch, np.int64) for epoch in epochs),
        tuple((name.partition(":")[2], documents.ids[place]) for name, place in keys),
        counts,
    )
