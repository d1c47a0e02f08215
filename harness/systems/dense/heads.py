"""What systems of encoders share: texts of topics, the top documents of a first ranking, and notes on truncation."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from harness.collections.corpus import Corpus, Document
from harness.data.columns import Floats, Index
from harness.data.topics import Topic
from harness.data.trec import Run
from harness.errors import HarnessError, counted_text
from harness.io import checks
from harness.io.console import log_line
from harness.store.cost import note, phase, queries
from harness.systems.base import MARK, Request
from harness.systems.build import BuiltSystem
from harness.systems.dense import texts
from harness.systems.ranking import only, permitted, positions_by_id
from harness.systems.rerank import another, reads_of

K = 100  # documents re-ranked for each topic, by default
T = TypeVar("T")


class OverFirst(checks.Checked):
    """Base of systems that may re-rank a first ranking: the system of their key `first`, or None.

    Inputs, notes and the collections left out of training are those of the system and of its first system.
    """

    name: str
    first: str | Mapping[str, Any] | None
    k: int | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k is not None and self.first is None:
            raise HarnessError("key 'k' cuts a first ranking; give the key 'first' as well")
        if self.first is not None and (search := getattr(self, "search", "exact")) != "exact":
            raise HarnessError(f"key 'search' is {search!r}, and documents of a first ranking are all scored")
        self._first  # noqa: B018  (validates it at once)

    @cached_property
    def _first(self) -> BuiltSystem | None:
        """The system whose run is re-ranked (key `first`); None without one."""
        return None if self.first is None else another("first", self.first, files=True)

    def ranking(self, request: Request) -> Run:
        """Returns the run to re-rank: the first ranking, or the pool in arbitrary order; only permitted documents.

        Raises
        ------
        HarnessError
            There is neither a first ranking nor a pool.
        """
        if self._first is not None:
            return permitted(self._first(request), request)
        if request.pool is None:
            lacking = "has nothing to re-rank; give the key 'first', or the pool of judged documents by rerank=true"
            raise HarnessError(f"system {self.name}: {lacking}")
        pool = {topic.id: request.left(topic, request.allowed(topic) or ()) for topic in request.topics}
        return Run.from_dict("pool", {topic: dict.fromkeys(sorted(docs), 0.0) for topic, docs in pool.items() if docs})

    def read(self, request: Request, depth: int | None, text: Callable[[Document], T]) -> tuple[Run, dict[bytes, T]]:
        """Returns the run to re-rank, without documents that the corpus lacks, and the texts of its top documents.

        Parameters
        ----------
        depth : documents read for each topic; None for all.
        text : document -> its text.

        Raises
        ------
        HarnessError
            There is nothing to re-rank, or the corpus holds no document of the run.
        """
        run = self.ranking(request)
        with phase("read documents"):
            return _read(self.name, run, request.corpus_for(self.name), depth, text)

    def _reads(self) -> dict[str, Any]:
        """Returns what a run depends on besides the configuration and the first ranking."""
        raise NotImplementedError

    def _notes(self) -> tuple[str, ...]:
        """Returns sentences for a run's metadata."""
        return ()

    def _left_out(self) -> frozenset[str] | None:
        """Returns the collections whose topics the training left out; None if nothing was trained."""
        return None

    def reads(self) -> dict[str, Any]:
        """Returns the inputs of a run besides corpus and code: the model's files, the device, and the first system."""
        own = self._reads()
        return own if self.first is None or self._first is None else {**own, "first": reads_of(self.first, self._first)}

    def notes(self) -> tuple[str, ...]:
        """Returns the notes on the model, followed by those of the first system."""
        return self._notes() + (() if self._first is None else self._first.notes())

    def trains_without(self) -> frozenset[str] | None:
        """Returns the collections that both the model and the first system left out of training; None if untuned."""
        own = self._left_out()
        first = None if self._first is None else self._first.trains_without()
        return own if first is None else first if own is None else own & first


def _read(
    name: str, run: Run, corpus: Corpus, depth: int | None, text: Callable[[Document], T]
) -> tuple[Run, dict[bytes, T]]:
    """Returns a run without the documents that the corpus lacks, and the texts of its top documents."""
    texts: dict[bytes, T] = {}
    here: set[bytes] = set()
    asked, count = set(run.doc.tolist()), len(run)
    wanted = _top_documents(run, depth)
    while wanted:  # a second pass reads documents that move up when others are missing
        for document in corpus:
            if (doc := document.id.encode()) in asked:
                here.add(doc)
            if doc in wanted:
                texts[doc] = text(document)
        run = only(run, np.array([doc in here for doc in run.doc.tolist()], dtype=bool))
        wanted = _top_documents(run, depth) - texts.keys()
    if not len(run):
        raise HarnessError(f"system {name}: corpus {corpus.name} holds no document of {run.name}")
    if lost := count - len(run):
        note(f"{name}: results left out", lost)
        log_line(f"{name}: {lost:,} of {count:,} results are left out; corpus {corpus.name} does not hold them")
    return run, texts


def _top_documents(run: Run, depth: int | None) -> set[bytes]:
    """Returns the distinct documents in the first `depth` ranks of a run."""
    return {doc for rows in ranked(run).values() for doc in run.doc[rows[:depth]].tolist()}


def ranked(run: Run) -> dict[str, Index]:
    """Maps each topic to its lines in trec_eval's order: float32 score descending, then document id descending."""
    with np.errstate(over="ignore"):
        order = np.lexsort((-positions_by_id(run.doc), -run.score.astype(np.float32), run.topic))
    parts = np.split(order, np.searchsorted(run.topic[order], np.arange(1, len(run.topics))))
    return {topic: rows for topic, rows in zip(run.topics, parts, strict=False) if rows.size}


def rescored(
    name: str,
    run: Run,
    topics: Sequence[Topic],
    asked: Container[str],
    k: int,
    scores: Callable[[str, Sequence[bytes]], Mapping[bytes, float]],
) -> Run:
    """Returns a run whose top documents have new scores; the others keep their order below them.

    Parameters
    ----------
    name : name of the new run.
    asked : topics that are re-ranked; others keep their order.
    k : number of documents re-ranked for each topic.
    scores : topic, its top documents -> new scores; a document without one is ranked with the others.
    """
    rows_of, score = ranked(run), np.full(len(run), np.nan)
    for topic in queries([topic for topic in topics if topic.id in rows_of]):
        lines = rows_of[topic.id]
        new = np.full(lines.size, np.nan)
        if topic.id in asked:
            docs = run.doc[lines[:k]].tolist()
            score_of = scores(topic.id, docs)
            new[: len(docs)] = [score_of.get(doc, np.nan) for doc in docs]
        score[lines] = filled(new)
    run = replace(run, score=score, name=name + MARK * run.name.endswith(MARK))
    return only(run, ~np.isnan(score))


def filled(scores: Floats) -> Floats:
    """Replaces the NaN scores of a topic's documents by decreasing scores below all others, keeping their order.

    The scores differ as float32, too, in which runs are compared.

    Examples
    --------
    >>> filled(np.array([0.5, np.nan, 2.25, np.nan])).tolist()
    [0.5, -1.0, 2.25, -2.0]
    """
    lacking = np.isnan(scores)
    count = int(lacking.sum())
    low = np.floor(scores[~lacking].min(initial=0))
    # Below -2^24, whole numbers are further apart than 1 as float32.
    step = max(1.0, 2.0 * float(np.spacing(np.float32(2 * abs(low) + count))))
    out = scores.copy()
    out[lacking] = low - step * np.arange(1, count + 1)
    return out


# ---- topics -----------------------------------------------------------------------------------------------------


def worded(
    name: str, topics: Iterable[Topic], text: Callable[[Topic], str], fields: Sequence[str], *, reranks: bool = False
) -> list[tuple[Topic, str]]:
    """Returns the topics that have a text, with their texts; prints how many have none.

    Parameters
    ----------
    name : name of the system, for messages.
    fields : fields of a topic that are read, for messages.
    reranks : whether topics without a text keep the order of a first ranking instead of being left out.

    Raises
    ------
    HarnessError
        No topic has a text.
    """
    read = [(topic, text(topic)) for topic in topics]
    if without := [topic.id for topic, topic_text in read if not topic_text.strip()]:
        note(f"{name}: topics without text", len(without))
        fate = "ordered as in the first ranking" if reranks else "left out"
        log_line(
            f"{name}: {counted_text(len(without), 'topic has', 'topics have')} no text, {fate}, such as {without[0]}"
        )
    if len(without) == len(read):
        raise HarnessError(f"system {name}: no topic has a text in the fields {', '.join(fields)}")
    return [(topic, topic_text) for topic, topic_text in read if topic_text.strip()]


class TopicTexts:
    """Base of systems that read a text of each topic, by their keys `query` and `view`."""

    name: str
    query: Sequence[str]
    view: str

    def _asked(self, topic: Topic) -> str:
        """Returns the text of a topic that is encoded."""
        text = texts.of_topic(topic, self.query, self.view)
        return text if self.view == "mathberta" else text.strip()  # MathBERTa's formula token includes the space before

    def _worded(self, topics: Iterable[Topic]) -> list[tuple[Topic, str]]:
        """Returns the topics that have a text, with their texts."""
        reranks = getattr(self, "first", None) is not None
        return worded(self.name, topics, self._asked, self.query, reranks=reranks)


def note_cut(name: str, what: str, cut: int, count: int, limits: Mapping[str, int]) -> None:
    """Prints and records how many texts are truncated.

    Parameters
    ----------
    name, what : name of the system, and kind of the texts.
    limits : unit -> maximum of a text in it, such as `word pieces`; 0 for no limit.
    """
    said: dict[str, Any] = {"word pieces": limits.get("word pieces") or "all"}
    said |= {key: value for key, value in limits.items() if value}
    note(f"{name}: texts cut, {what}", {"cut": cut, "texts": count} | said)
    if cut:
        read = " and ".join(f"{value:,} {key}" for key, value in limits.items() if value)
        log_line(f"{name}: {cut:,} of {count:,} texts ({what}) are longer than the {read} read")
