"""Ranks theorems by position: a proof most often cites results that were shown shortly before."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.data.trec import Run
from harness.errors import HarnessError
from harness.io import checks
from harness.store.cost import queries
from harness.systems.base import Request


@dataclass(frozen=True)
class Nearby(checks.Checked):
    """Ranks the documents that precede a topic in the corpus, nearest first; topics must be documents of the corpus.

    The score is log((depth + 1) / distance); the preceding document has distance 1. No text is read: fused with a text
    retriever, the score acts as a prior.

    Parameters
    ----------
    depth : documents returned per topic.

    Examples
    --------
    >>> Nearby(depth=9).score(1) > Nearby(depth=9).score(9) > 0
    True
    """

    depth: checks.Positive = 1000
    name: str = "nearby"

    def score(self, distance: int) -> float:
        """Returns the score of a document at a distance before the topic."""
        return math.log((self.depth + 1) / distance)

    def __call__(self, request: Request) -> Run:
        """Ranks by distance; a topic that is not a document of the corpus has no ranking.

        Raises
        ------
        HarnessError
            No topic is preceded by a document.
        """
        ids = [document.id for document in request.corpus_for(self.name)]
        place = {name: at for at, name in enumerate(ids)}
        rankings: dict[str, dict[str, float]] = {}
        for topic in queries(request.topics):
            at = place.get(topic.id, 0)
            pool = request.allowed(topic)
            before = ids[:at] if pool is None else [doc for doc in ids[:at] if doc in pool]
            docs = request.left(topic, before)
            best = sorted((at - place[doc], doc) for doc in docs)[: self.depth]
            rankings[topic.id] = {doc: self.score(min(distance, self.depth)) for distance, doc in best}
        if not any(rankings.values()):
            raise HarnessError(f"system {self.name}: no topic is a document of the corpus with others before it")
        return Run.from_dict(self.name, {topic: docs for topic, docs in rankings.items() if docs})
