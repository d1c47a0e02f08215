"""Ranking of documents by score, with ties in trec_eval's order."""

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
Best = tuple[Index, Floats32]  # some documents and their scores
Scored = tuple[Floats, float]  # each document's score minus that of an empty document, and the latter score


def positions_by_id(ids: Ids) -> Index:
    """Returns each document's position among the sorted ids, shape (documents,), by which ties are broken."""
    place = np.empty(len(ids), np.int64)
    place[np.argsort(ids, kind="stable")] = np.arange(len(ids))
    return place


def top(rows: Index, scores: Floats32, place: Index, k: int) -> tuple[Index, Floats32]:
    """Returns the top k of some documents and their scores: score descending, then place descending.

    Parameters
    ----------
    rows : int64, shape (some,). Indices of documents, in any order.
    scores : float32, shape (some,). Scores of these documents.
    place : int64, shape (documents,). See `positions_by_id`.

    Examples
    --------
    >>> top(np.array([0, 1, 2]), np.array([1, 2, 1], np.float32), np.array([0, 1, 2]), 2)
    (array([1, 2]), array([2., 1.], dtype=float32))
    """
    if rows.size > k:
        # Keep all documents that tie at the cutoff until they are sorted.
        stay = scores >= np.partition(scores, rows.size - k)[rows.size - k]
        rows, scores = rows[stay], scores[stay]
    order = np.lexsort((-place[rows], -scores))[:k]
    return rows[order], scores[order]


@dataclass(frozen=True, eq=False)
class Ranker:
    """Ranks documents in trec_eval's order: float32 score descending, then id descending."""

    ids: Ids
    depth: int

    @cached_property
    def place(self) -> Index:
        """Each document's position among the sorted ids, see `positions_by_id`."""
        return positions_by_id(self.ids)

    @cached_property
    def _row(self) -> dict[str, int]:
        return {name.decode(): row for row, name in enumerate(self.ids.tolist())}

    def best(self, scored: Scored, pool: frozenset[str] | None = None, out: Bools | None = None) -> Best:
        """Returns the top documents and their scores.

        Without a pool, only documents that score above an empty document are ranked; with a pool, all its documents
        that the corpus holds.

        Parameters
        ----------
        out : shape (documents,). Documents to exclude.
        """
        above, floor = scored
        if pool is None:
            rows = np.flatnonzero(above > 0)
        else:
            rows = np.array(sorted(self._row[doc] for doc in pool if doc in self._row), dtype=np.int64)
        if out is not None:
            rows = rows[~out[rows]]
        return top(rows, (above[rows] + floor).astype(np.float32), self.place, self.depth)


def rank(
    name: str,
    request: Request,
    ids: Ids,
    score: Callable[[Topic], Scored],
    depth: int,
    shared: str = "a word",
    best: Callable[[Topic, Ranker], Best] | None = None,
) -> Run:
    """Returns a run of the top documents of each topic by `score`.

    Raises HarnessError if no topic shares anything with the corpus; `shared` says in the message what is compared.

    Parameters
    ----------
    best : returns the same top documents without the scores of all, if none are excluded and there is no pool.
    """
    ranker = Ranker(ids, depth)
    among = None if request.excluded is None else request.excluded.among(ids)
    rankings: dict[str, Best] = {}
    left_out = 0
    for topic in queries(request.topics):
        pool = request.allowed(topic)
        if best is not None and pool is None and among is None:
            rankings[topic.id] = best(topic, ranker)
            continue
        scored, out = score(topic), None if among is None else among(topic.id)
        left_out += 0 if out is None else int(np.count_nonzero(out & (scored[0] > 0)))
        rankings[topic.id] = ranker.best(scored, pool, out)
    if among is not None:
        note(f"{name}: excluded documents left out before the depth cut", left_out)
    rankings = {topic: found for topic, found in rankings.items() if found[0].size}
    if not rankings:
        raise HarnessError(f"system {name}: no topic shares {shared} with the corpus")
    rows, scores = (np.concatenate(column) for column in zip(*rankings.values(), strict=True))
    if not np.isfinite(scores).all():
        raise HarnessError(f"system {name}: a score is not a finite number")
    topics = np.repeat(np.arange(len(rankings), dtype=np.int32), [len(found) for found, _ in rankings.values()])
    return Run(name, tuple(rankings), topics, ids[rows], scores.astype(np.float64))


def within(run: Run, pool: Pool) -> Run:
    """Restricts a run to a pool."""
    docs = [pool.get(topic, frozenset()) for topic in run.topics]
    pairs = zip(run.topic.tolist(), run.doc.tolist(), strict=True)
    return only(run, np.array([doc.decode() in docs[topic] for topic, doc in pairs], dtype=bool))


def permitted(run: Run, request: Request) -> Run:
    """Restricts a run to the documents that a request allows: in its pool, if there is one, and not excluded."""
    if request.excluded is not None:
        out = request.excluded.out(run.topics, run.topic, run.doc)
        run = only(run, ~out) if out.any() else run
    return run if request.pool is None else within(run, request.pool)


def only(run: Run, kept: Bools) -> Run:
    """Restricts a run to some of its lines; keeps its name but not its checksum, because no file holds the result."""
    context = None if run.context is None else run.context[kept]
    return replace(run, topic=run.topic[kept], doc=run.doc[kept], score=run.score[kept], context=context, sha256="")
