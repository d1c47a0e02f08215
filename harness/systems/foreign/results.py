"""Results of other libraries, checked and made a run whose ties are explicit."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.collections.corpus import Corpus
from harness.data.columns import Bools, Floats
from harness.data.trec import Run
from harness.errors import HarnessError, suggestion
from harness.store.cost import note
from harness.systems.fusion.candidates import LARGEST, distinct
from harness.systems.ranking import only

TIES = ("id", "order")
_UNFIT = re.compile("^$|^\ufeff|[\0\t-\r \ud800-\udfff]")  # what an id in a run file cannot hold


@dataclass(frozen=True, eq=False)
class ForeignResults:
    """Results of a system, in any order of topics.

    Attributes
    ----------
    topic, doc : ids, one for each result.
    score : numbers, higher is better.
    place : position of each result among those of its topic, by which `run_of` orders equal scores if it is asked to;
        None for the order of the results.
    """

    topic: Sequence[Any]
    doc: Sequence[Any]
    score: Sequence[Any]
    place: Sequence[Any] | None = None

    @staticmethod
    def of(rankings: Mapping[str, Iterable[tuple[str, float]]]) -> ForeignResults:
        """Returns the results of topic -> pairs of document and score."""
        rows = [(topic, doc, score) for topic, pairs in rankings.items() for doc, score in pairs]
        topic, doc, score = zip(*rows, strict=True) if rows else ((), (), ())
        return ForeignResults(topic, doc, score)


def run_of(
    name: str,
    results: ForeignResults,
    topics: Sequence[str],
    *,
    depth: int | None = None,
    given: Mapping[str, Collection[str]] | None = None,
    corpus: Corpus | None = None,
    ties: str = "id",
) -> Run:
    """Checks results and returns them as a run, by topic, then score descending.

    Scores that differ stay different as float32, in which trec_eval compares them: they are separated by its smallest
    step where that is needed.

    Parameters
    ----------
    name : name of the run and of the system, for messages.
    topics : the topics that were asked, in the order of the run.
    depth : most results of a topic; None for any number.
    given : topic -> the documents that may be ranked for it; None for any.
    corpus : corpus that must hold all documents; it is read once. None: documents are not checked.
    ties : order of equal scores. `id`: descending ids, the order of trec_eval; scores stay equal. `order`: that of the
        results; scores are separated.

    Raises
    ------
    HarnessError
        There is no result; a topic was not asked; a document has no valid id, is unknown, was not given, or occurs
        twice for a topic; a score or a place is not a finite number, or a score is 1e38 or more; a topic has more
        results than `depth`; or the places contradict the scores.

    Examples
    --------
    >>> found = ForeignResults.of({"T1": [("d1", 2.0), ("d2", 2.0)]})
    >>> [run_of("x", found, ["T1"], ties=ties).doc.tolist() for ties in TIES]
    [[b'd2', b'd1'], [b'd1', b'd2']]
    >>> run_of("x", found, ["T1"], depth=1)
    Traceback (most recent call last):
    harness.errors.HarnessError: system x: returns 2 results for topic 'T1', more than its depth of 1
    """
    where = f"system {name}"
    number = {topic: index for index, topic in enumerate(topics)}
    for topic in results.topic:
        if not isinstance(topic, str) or topic not in number:
            raise HarnessError(
                f"{where}: returns topic {topic!r}, which was not asked; {suggestion(str(topic), topics)}"
            )
    if not len(results.topic):
        raise HarnessError(f"{where}: returns no results")
    places = results.place if results.place is not None and ties == "order" else [0] * len(results.topic)
    pairs: set[tuple[Any, Any]] = set()
    for topic, doc, score, place in zip(results.topic, results.doc, results.score, places, strict=True):
        at = f"{where}: topic {topic!r}"
        if not isinstance(doc, str):
            raise HarnessError(f"{at}: document id is {doc!r}, expected text")
        if _UNFIT.search(doc):
            raise HarnessError(f"{at}: document id is {doc!r}, expected text without blanks")
        for what, value in (("score", score), ("place", place)):
            if not _finite(value):
                raise HarnessError(f"{at}: {what} of document {doc!r} is {value!r:.40}, expected a finite number")
        if abs(score) >= LARGEST:
            said = f"expected a number between -{LARGEST:g} and {LARGEST:g}, as 32-bit numbers are"
            raise HarnessError(f"{at}: score of document {doc!r} is {score!r:.40}, {said}")
        if (topic, doc) in pairs:
            raise HarnessError(f"{at}: document {doc!r} is returned twice")
        if given is not None and doc not in given.get(topic, ()):
            raise HarnessError(f"{at}: document {doc!r} is returned, but was not among those to rank")
        pairs.add((topic, doc))
    if corpus is not None:
        _check_known(where, results, corpus)
    return _ordered_run(name, results, topics, number, depth, ties)


def _finite(score: object) -> bool:
    try:
        return not isinstance(score, bool | str) and math.isfinite(score)  # type: ignore[arg-type]
    except (TypeError, OverflowError):  # the latter: a whole number that no float can hold
        return False


def _check_known(where: str, results: ForeignResults, corpus: Corpus) -> None:
    unknown = set(results.doc)
    unknown.difference_update(corpus.ids())
    if unknown:
        topic, doc = next(pair for pair in zip(results.topic, results.doc, strict=True) if pair[1] in unknown)
        more = f" (and {len(unknown) - 1:,} others)" if unknown - {doc} else ""
        raise HarnessError(f"{where}: topic {topic!r}: document {doc!r}{more} is not in corpus {corpus.name}")


def _ordered_run(
    name: str, results: ForeignResults, topics: Sequence[str], number: Mapping[str, int], depth: int | None, ties: str
) -> Run:
    topic = np.array([number[each] for each in results.topic], dtype=np.int64)
    doc = np.array([each.encode() for each in results.doc], dtype=np.bytes_)
    score = np.array([float(each) for each in results.score], dtype=np.float64)
    count = np.bincount(topic, minlength=len(topics))
    if depth is not None and count.max() > depth:
        at = int(count.argmax())
        lines = f"returns {count[at]:,} results for topic {topics[at]!r}, more than its depth of {depth:,}"
        raise HarnessError(f"system {name}: {lines}")
    if ties == "order":
        place = np.arange(topic.size) if results.place is None else np.array(results.place, dtype=np.float64)
    else:
        place = np.empty(topic.size, np.int64)  # descending ids
        place[np.argsort(doc, kind="stable")[::-1]] = np.arange(topic.size)
    order = np.lexsort((place, -score, topic))
    topic, doc, score, place = topic[order], doc[order], score[order], place[order]
    same = topic[1:] == topic[:-1]
    wrong = np.flatnonzero(same & (place[1:] < place[:-1]))
    if ties == "order" and results.place is not None and wrong.size:
        at = int(wrong[0])
        first, second = (doc[at + step].decode() for step in (0, 1))
        said = f"document {first!r} has a higher score than {second!r}, but a lower place"
        raise HarnessError(f"system {name}: topic {topics[topic[at]]!r}: {said}; set ties=id")
    equal: Bools = same & (score[1:] == score[:-1])
    note(f"{name}: results with the score of another", int(np.count_nonzero(equal)))
    below: Bools | None = np.concatenate(([False], same)) if ties == "order" else None
    spread: Floats = distinct(topic, score, below)
    here = np.flatnonzero(count)  # a run lists topics with results only
    renumbered = np.searchsorted(here, topic).astype(np.int32)
    return Run(name, tuple(topics[index] for index in here.tolist()), renumbered, doc, spread)


def cut(run: Run, depth: int) -> Run:
    """Returns the first lines of each topic of a run that is sorted by topic, such as one of `run_of`."""
    start = np.searchsorted(run.topic, np.arange(len(run.topics)))
    kept = np.arange(len(run)) - start[run.topic] < depth
    return only(run, kept)
