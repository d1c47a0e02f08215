"""From scores to the first k results, ties in the order that trec_eval has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harness.data.columns import Floats, Ids, Index
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.store.cost import queries

if TYPE_CHECKING:
    from harness.data.topics import Topic
    from harness.systems.base import Pool, Request

Floats32 = npt.NDArray[np.float32]
Scored = tuple[Floats, float]  # how far each document lies above an empty one, shape (documents,), and the latter


def places(ids: Ids) -> Index:
    """Each document's place among the sorted ids, shape (documents,): what ties are ordered by."""
    place = np.empty(len(ids), np.int64)
    place[np.argsort(ids, kind="stable")] = np.arange(len(ids))
    return place


def top(rows: Index, scores: Floats32, place: Index, k: int) -> tuple[Index, Floats32]:
    """The first k of some documents and their scores: score descending, then place descending.

    Parameters
    ----------
    rows : int64, shape (some,). Indices of documents, in any order.
    scores : float32, shape (some,). Theirs.
    place : int64, shape (documents,). See `places`.

    Examples
    --------
    >>> top(np.array([0, 1, 2]), np.array([1, 2, 1], np.float32), np.array([0, 1, 2]), 2)
    (array([1, 2]), array([2., 1.], dtype=float32))
    """
    if rows.size > k:
        # All that tie with the last one stay in until they are sorted.
        stay = scores >= np.partition(scores, rows.size - k)[rows.size - k]
        rows, scores = rows[stay], scores[stay]
    order = np.lexsort((-place[rows], -scores))[:k]
    return rows[order], scores[order]


@dataclass(frozen=True, eq=False)
class Ranker:
    """Documents in the order of their scores: 32-bit score descending, then id descending, as trec_eval sorts."""

    ids: Ids
    depth: int

    @cached_property
    def _place(self) -> Index:
        return places(self.ids)

    @cached_property
    def _row(self) -> dict[str, int]:
        return {name.decode(): row for row, name in enumerate(self.ids.tolist())}

    def best(self, scored: Scored, pool: frozenset[str] | None = None) -> dict[str, float]:
        """The first documents and their scores.

        Without a pool, documents that no word of the query lifts above an empty document are left out; with one,
        all documents of the pool that the corpus holds are ranked, and no others.
        """
        above, floor = scored
        if pool is None:
            rows = np.flatnonzero(above > 0)
        else:
            rows = np.array(sorted(self._row[doc] for doc in pool if doc in self._row), dtype=np.int64)
        best, scores = top(rows, (above[rows] + floor).astype(np.float32), self._place, self.depth)
        docs = self.ids[best].tolist()
        return {doc.decode(): score for doc, score in zip(docs, scores.tolist(), strict=True)}


def rank(name: str, request: Request, ids: Ids, score: Callable[[Topic], Scored], depth: int) -> Run:
    """A run: the best documents of each topic by `score`."""
    ranker = Ranker(ids, depth)
    found = {topic.id: ranker.best(score(topic), request.allowed(topic)) for topic in queries(request.topics)}
    if not any(found.values()):
        raise HarnessError(f"system {name}: no topic shares a word with the corpus")
    return Run.from_dict(name, {topic: docs for topic, docs in found.items() if docs})


def within(run: Run, pool: Pool) -> Run:
    """The results of a run that are in a pool, under the same name; without a checksum, as no file holds them."""
    docs = [pool.get(topic, frozenset()) for topic in run.topics]
    pairs = zip(run.topic.tolist(), run.doc.tolist(), strict=True)
    kept = np.array([doc.decode() in docs[topic] for topic, doc in pairs], dtype=bool)
    context = None if run.context is None else run.context[kept]
    return replace(run, topic=run.topic[kept], doc=run.doc[kept], score=run.score[kept], context=context, sha256="")
