"""From scores to the first k results, ties in the order that trec_eval has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harness.data.columns import Bools, Floats, Ids, Index
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.store.cost import note, queries

if TYPE_CHECKING:
    from harness.data.topics import Topic
    from harness.systems.base import Pool, Request

Floats32 = npt.NDArray[np.float32]
Scored = tuple[Floats, float]  # how far each document lies above an empty one, shape (documents,), and the latter


def places(ids: Ids) -> Index:
    """Returns each document's place among the sorted ids, shape (documents,): what ties are ordered by."""
    place = np.empty(len(ids), np.int64)
    place[np.argsort(ids, kind="stable")] = np.arange(len(ids))
    return place


def top(rows: Index, scores: Floats32, place: Index, k: int) -> tuple[Index, Floats32]:
    """Returns the first k of some documents and their scores: score descending, then place descending.

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

    def best(self, scored: Scored, pool: frozenset[str] | None = None, out: Bools | None = None) -> dict[str, float]:
        """Returns the first documents and their scores, without those that are out, shape (documents,).

        Without a pool, documents that no word of the query lifts above an empty document are left out; with one,
        all documents of the pool that the corpus holds are ranked, and no others.
        """
        above, floor = scored
        if pool is None:
            rows = np.flatnonzero(above > 0)
        else:
            rows = np.array(sorted(self._row[doc] for doc in pool if doc in self._row), dtype=np.int64)
        if out is not None:
            rows = rows[~out[rows]]
        best, scores = top(rows, (above[rows] + floor).astype(np.float32), self._place, self.depth)
        docs = self.ids[best].tolist()
        return {doc.decode(): score for doc, score in zip(docs, scores.tolist(), strict=True)}


def rank(
    name: str, request: Request, ids: Ids, score: Callable[[Topic], Scored], depth: int, shared: str = "a word"
) -> Run:
    """A run: the best documents of each topic by `score`, refused if no topic shares a word (`shared`) with one."""
    ranker = Ranker(ids, depth)
    among = None if request.excluded is None else request.excluded.among(ids)
    found = {}
    left_out = 0
    for topic in queries(request.topics):
        scored, out = score(topic), None if among is None else among(topic.id)
        left_out += 0 if out is None else int(np.count_nonzero(out & (scored[0] > 0)))
        found[topic.id] = ranker.best(scored, request.allowed(topic), out)
    if among is not None:
        note(f"{name}: excluded documents left out before the depth cut", left_out)
    if not any(found.values()):
        raise HarnessError(f"system {name}: no topic shares {shared} with the corpus")
    return Run.from_dict(name, {topic: docs for topic, docs in found.items() if docs})


def within(run: Run, pool: Pool) -> Run:
    """The results of a run that are in a pool, under the same name; without a checksum, as no file holds them."""
    docs = [pool.get(topic, frozenset()) for topic in run.topics]
    pairs = zip(run.topic.tolist(), run.doc.tolist(), strict=True)
    return _only(run, np.array([doc.decode() in docs[topic] for topic, doc in pairs], dtype=bool))


def permitted(run: Run, request: Request) -> Run:
    """Returns the results of a run that a request lets be ranked: of its pool, if there is one, and not excluded."""
    if request.excluded is not None:
        out = request.excluded.out(run.topics, run.topic, run.doc)
        run = _only(run, ~out) if out.any() else run
    return run if request.pool is None else within(run, request.pool)


def _only(run: Run, kept: Bools) -> Run:
    context = None if run.context is None else run.context[kept]
    return replace(run, topic=run.topic[kept], doc=run.doc[kept], score=run.score[kept], context=context, sha256="")
