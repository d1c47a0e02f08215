"""Candidates of several runs, aligned by topic and document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.data.columns import Bools, Floats, Ids, Index
from harness.data.trec import Qrels, Run
from harness.errors import HarnessError

DEPTH = 1000
LARGEST = 1e38  # approximately the largest float32


@dataclass(frozen=True, eq=False)
class FusionCandidates:
    """Candidates of the runs: one row per (topic, document), sorted by topic, then document.

    Attributes
    ----------
    topics, docs : distinct ids, ascending. `docs` has shape (documents,).
    topic, doc : int64, shape (pairs,). Indices into `topics` and `docs`.
    rank : float64, shape (pairs, runs). From 1; infinite where the run did not retrieve the document.
    score : float64, shape (pairs, runs). The runs' own scores; NaN where not retrieved.
    depth : results of each topic that count. In IBC, WIBC and RBC, a document that a run did not retrieve has this
        rank.
    """

    topics: tuple[str, ...]
    docs: Ids
    topic: Index
    doc: Index
    rank: Floats
    score: Floats
    depth: int

    def ratings(self) -> Floats:
        """Returns MIRMU's ratings, (depth - rank) / depth; 0 for documents not retrieved. Shape (pairs, runs)."""
        return np.asarray((self.depth - np.minimum(self.rank, self.depth)) / self.depth)

    def listed(self) -> Index:
        """Returns the last run's number of results for each candidate's topic, or the depth if 0. Shape (pairs,)."""
        count = np.bincount(self.topic, weights=np.isfinite(self.rank[:, -1]), minlength=len(self.topics))
        return np.where(count > 0, count, self.depth).astype(np.int64)[self.topic]

    def find(self, qrels: Qrels) -> Index:
        """Returns the candidate of each judgment, -1 if no run retrieved the document. Shape (judgments,)."""
        topics = {topic: index for index, topic in enumerate(self.topics)}
        docs = {doc: index for index, doc in enumerate(self.docs.tolist())}
        topic = np.array([topics.get(name, -1) for name in qrels.topics], dtype=np.int64)[qrels.topic]
        doc = np.array([docs.get(name, -1) for name in qrels.doc.tolist()], dtype=np.int64)
        pair, wanted = self.topic * len(docs) + self.doc, topic * len(docs) + doc
        row = np.minimum(np.searchsorted(pair, wanted), pair.size - 1)
        return np.where((topic >= 0) & (doc >= 0) & (pair[row] == wanted), row, -1)


Score = Callable[[FusionCandidates], Floats]


def align_results(runs: Sequence[Run], depth: int = DEPTH) -> FusionCandidates:
    """Aligns the results of several runs.

    Ranks follow trec_eval's order, as in scoring: float32 score descending, then document id descending. Results below
    `depth` are excluded. A topic missing in a run counts as one for which the run retrieved nothing.
    Raises HarnessError if all runs are empty.
    """
    if not sum(len(run) for run in runs):
        raise HarnessError("fusion: the runs to fuse hold no results")
    topics = sorted({run.topics[t] for run in runs for t in np.flatnonzero(np.bincount(run.topic))})
    docs = sorted({doc for run in runs for doc in run.doc.tolist()})
    topic_at = {name: index for index, name in enumerate(topics)}
    doc_at = {name: index for index, name in enumerate(docs)}
    columns = []
    for run in runs:
        topic = np.array([topic_at.get(name, -1) for name in run.topics], dtype=np.int64)[run.topic]
        doc = np.fromiter(map(doc_at.__getitem__, run.doc.tolist()), np.int64, len(run))
        with np.errstate(over="ignore"):
            order = np.lexsort((-doc, -run.score.astype(np.float32), topic))
        rank = positions(topic[order]) + 1
        kept = order[rank <= depth]
        columns.append((topic[kept] * len(docs) + doc[kept], rank[rank <= depth], run.score[kept]))
    pair = np.sort(np.concatenate([column[0] for column in columns]))
    pair = pair[np.concatenate(([True], pair[1:] != pair[:-1]))]
    ranks, scores = np.full((pair.size, len(runs)), np.inf), np.full((pair.size, len(runs)), np.nan)
    for index, (pairs, rank, score) in enumerate(columns):
        row = np.searchsorted(pair, pairs)
        ranks[row, index], scores[row, index] = rank, score
    names = np.array(docs, dtype=np.bytes_)
    return FusionCandidates(tuple(topics), names, pair // len(docs), pair % len(docs), ranks, scores, depth)


def to_run(candidates: FusionCandidates, score: Floats, name: str) -> Run:
    """Returns a run of the top `depth` documents of each topic, given a score for each candidate, shape (pairs,).

    Equal scores are in descending order of document ids, as in trec_eval. Different scores that would be equal in
    float32 are separated by its smallest step, so that trec_eval keeps their order. The run has no checksum, because it
    has no file, and no posts of formulas. Raises HarnessError if a score is too large.
    """
    if not (np.abs(score) < LARGEST).all():
        raise HarnessError(f"run {name}: fused scores are {LARGEST:g} or more; normalize the scores of the runs")
    # Reversed, so that the stable sort leaves equal scores in descending order of documents.
    order = score.size - 1 - np.lexsort((-score[::-1], candidates.topic[::-1]))
    order = order[positions(candidates.topic[order]) < candidates.depth]
    topic = candidates.topic[order]
    doc = candidates.docs[candidates.doc[order]]
    return Run(name, candidates.topics, topic.astype(np.int32), doc, distinct(topic, score[order]))


def fuse(runs: Sequence[Run], score: Score, name: str, depth: int = DEPTH) -> Run:
    """Fuses runs by a function of `methods`: `fuse(runs, rrf, "rrf")`, `fuse(runs, partial(rrf, k=10), "rrf10")`."""
    candidates = align_results(runs, depth)
    return to_run(candidates, score(candidates), name)


def positions(topic: Index) -> Index:
    """Returns positions from 0 within each run of equal topics."""
    new = np.concatenate(([True], topic[1:] != topic[:-1]))[: topic.size]
    heads = np.flatnonzero(new)
    return np.asarray(np.arange(topic.size) - heads[np.cumsum(new) - 1])


def distinct(topic: Index, score: Floats, below: Bools | None = None) -> Floats:
    """Makes different scores different in float32 as well; scores are sorted by topic, then descending.

    A float32 is represented by its number of steps from 0. Each score becomes the minimum of its own number and that of
    the score above it minus one.

    Parameters
    ----------
    below : shape of the scores. Whether a score must be below the one above it; None where it is lower already.

    Examples
    --------
    >>> distinct(np.array([0, 0, 0]), np.array([1.0, 1.0 - 1e-12, 0.5])).astype(np.float32).tolist()
    [1.0, 0.9999999403953552, 0.5]
    """
    bits = score.astype(np.float32).view(np.int32).astype(np.int64)
    steps = np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
    if below is None:
        below = np.concatenate(([False], score[1:] < score[:-1]))
    # An offset moves each topic below the previous one, so that one running minimum serves all topics.
    offset = np.cumsum(below) - topic * 2**34
    lowered = np.minimum.accumulate(steps + offset) - offset
    moved: npt.NDArray[np.int32] = np.where(lowered < 0, -lowered - 2**31, lowered).astype(np.int32)
    return np.where(lowered == steps, score, moved.view(np.float32).astype(np.float64))
