"""From scores to the first k results, ties in the order that trec_eval has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness.data.topics import Topic, Topics
from harness.data.trec import Ids, Run
from harness.errors import HarnessError
from harness.store.cost import queries
from harness.systems.base import Pool
from harness.systems.lexical.postings import Offsets, Scored


@dataclass(frozen=True, eq=False)
class Ranker:
    """Documents in the order of their scores: 32-bit score descending, then id descending, as trec_eval sorts."""

    ids: Ids
    depth: int

    @cached_property
    def _place(self) -> Offsets:
        """Each document's place among the sorted ids."""
        place = np.empty(len(self.ids), np.int64)
        place[np.argsort(self.ids, kind="stable")] = np.arange(len(self.ids))
        return place

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
        score = (above[rows] + floor).astype(np.float32)
        if rows.size > self.depth:
            # All that tie with the last one stay in until they are sorted.
            stay = score >= np.partition(score, rows.size - self.depth)[rows.size - self.depth]
            rows, score = rows[stay], score[stay]
        order = np.lexsort((-self._place[rows], -score))[: self.depth]
        docs = self.ids[rows[order]].tolist()
        return {doc.decode(): value for doc, value in zip(docs, score[order].tolist(), strict=True)}


def rank(
    name: str, topics: Topics, ids: Ids, score: Callable[[Topic], Scored], depth: int, pool: Pool | None = None
) -> Run:
    """A run: the best documents of each topic by `score`."""
    ranker = Ranker(ids, depth)
    found = {
        topic.id: ranker.best(score(topic), None if pool is None else pool.get(topic.id, frozenset()))
        for topic in queries(topics)
    }
    if not any(found.values()):
        raise HarnessError(f"system {name}: no topic shares a word with the corpus")
    return Run.from_dict(name, {topic: docs for topic, docs in found.items() if docs})
