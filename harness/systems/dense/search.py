"""Search of documents of many vectors by six strategies: by single vectors or MaxSim, exact or over candidates.

Scores are made in float32, where the last bits depend on what else is scored in the same product; those of the first
documents are then made again in float64 and rounded to float32. Equal documents tie, and a run does not depend on the
processor or on which queries are asked together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from harness.data.trec import Run
from harness.errors import HarnessError
from harness.io.checks import choice, whole
from harness.systems.dense.maxsim import Floats32, Rows, Scores, Vectors, scores_many, single_scores
from harness.systems.dense.ragged import queries_of
from harness.systems.ranking import top

STRATEGIES = ("single", "rerank", "colbert")
SEARCHES = ("exact", "approximate")
CANDIDATES = 1000  # of the first stage, at least
EF = 128  # candidates of an approximate search, at least: what the thesis had
MARGIN = 2**-23  # times the dimensions: more than float32 can be wrong in an inner product of unit vectors
QUERIES = 32  # queries that share a pass over the documents


@dataclass(frozen=True, eq=False)
class Query:
    """The vectors of a query.

    Attributes
    ----------
    values : float32, shape (vectors, dimensions). L2-normalised; at least one.
    document : the row of the vector for the whole query; -1 if there is none.
    """

    values: Floats32
    document: int = -1


@dataclass(frozen=True, eq=False)
class Hits:
    """The best documents of a query: score descending, then id descending, as a protocol sorts.

    Attributes
    ----------
    rows : int64, shape (found,). Indices into the documents.
    scores : float32, shape (found,).
    """

    rows: Rows
    scores: Floats32

    @staticmethod
    def best(rows: Rows, scores: Scores, place: Rows, k: int) -> Hits:
        """The first k of some documents by scores in float32; those with minus infinity are left out.

        Parameters
        ----------
        rows, scores : shape (some,). Documents, and theirs.
        place : shape (documents,). See `harness.systems.ranking.places`.
        """
        some = scores > -np.inf
        if not some.all():
            rows, scores = rows[some], scores[some]
        return Hits(*top(rows, scores.astype(np.float32, copy=False), place, k))


class Index(Protocol):
    """What finds candidates without looking at every vector."""

    def documents(self, queries: Floats32, k: int, ef: int) -> Rows:
        """Documents whose single vectors are near, shape (queries, k); -1 where fewer were found."""

    def vectors(self, queries: Floats32, k: int, ef: int) -> Rows:
        """Rows of all vectors that are near, shape (queries, k); -1 where fewer were found."""


def first_stage(strategy: str, k: int, depth: int | None = None, ef: int | None = None) -> tuple[int, int]:
    """How many documents or vectors the first stage of a search for k documents asks for, and its `ef`.

    What is not given grows with k. To ask a graph of neighbours for 1,000 found .23 to .88 of the nearest with `ef`
    128, .98 to 1 with 1,000 and .999 to 1 with 2,000 (20,000 to 32,000 vectors of 32 dimensions, random or in 20 or
    200 clusters). The 1,000 vectors nearest to each of a query's own led to .85 to .92 of the 1,000 best of 20,000
    documents by MaxSim, 2,000 of them to .98 to 1.
    """
    for key, value in (("depth", depth), ("ef", ef)):
        if value is not None:
            whole(key, value, low=1)
    asked = depth or (max(CANDIDATES, 2 * k) if strategy == "colbert" else CANDIDATES)
    wanted = asked if strategy == "rerank" else k
    return asked, ef or max(EF, 2 * wanted, asked if strategy == "colbert" else 0)


def search(
    queries: Sequence[Query],
    vectors: Vectors,
    strategy: str = "colbert",
    precision: str = "exact",
    *,
    k: int = 1000,
    depth: int | None = None,
    ef: int | None = None,
    index: Index | None = None,
    mean: bool = False,
    workers: int = 1,
) -> list[Hits]:
    """The best documents of each query by one of six strategies (MathAMR+, 3.5.2).

    Parameters
    ----------
    strategy : `single`: the inner product of single vectors. `rerank`: the first `depth` documents by single vectors,
        ordered by exact MaxSim. `colbert`: exact MaxSim, of all documents (`exact`), or of those that own one of the
        `depth` vectors nearest to one of the query's (`approximate`).
    precision : of the first stage; `approximate` asks `index`. Scores are exact in all strategies.
    k : documents of a query; fewer where the first stage finds fewer, or documents have no vectors.
    depth : candidates of the first stage: documents (`rerank`), or vectors for each of the query's (`colbert`).
    ef : candidates that an approximate first stage holds while it looks for these. For the defaults of both see
        `first_stage`.
    mean : divide MaxSim by the number of the query's vectors.

    Raises
    ------
    HarnessError
        An argument is out of its range, or a query has no single vector where the strategy needs one.
    """
    choice("strategy", strategy, STRATEGIES)
    choice("precision", precision, SEARCHES)
    whole("k", k, low=1)
    depth, ef = first_stage(strategy, k, depth, ef)
    if precision == "approximate" and index is None:
        raise HarnessError("key 'precision' is 'approximate': needs an index of the vectors")
    near = index if precision == "approximate" else None
    found: list[Hits] = []
    for begin in range(0, len(queries), QUERIES):
        part = queries[begin : begin + QUERIES]
        if strategy == "colbert" and near is None:
            every = scores_many([query.values for query in part], vectors, mean=mean, workers=workers)
            rows = np.arange(len(vectors))
            found += [
                _settled(query, vectors, rows, scores, k, strategy, mean)
                for query, scores in zip(part, every, strict=True)
            ]
            continue
        if strategy == "colbert" and near is not None:
            candidates = _owners(part, vectors, depth, ef, near)
        else:
            firsts = _singles(part, vectors, depth if strategy == "rerank" else k, ef, near)
            if strategy == "single":
                found += firsts
                continue
            candidates = [first.rows for first in firsts]
        found += [best_among(query, vectors, rows, k, mean=mean) for query, rows in zip(part, candidates, strict=True)]
    return found


def best_among(
    query: Query, vectors: Vectors, rows: Rows, k: int, strategy: str = "colbert", *, mean: bool = False
) -> Hits:
    """The best of some documents, a pool say: by their single vectors (`single`), else by exact MaxSim."""
    return _settled(query, vectors, rows, _scores(query, vectors, rows, strategy, mean), k, strategy, mean)


def _scores(
    query: Query, vectors: Vectors, rows: Rows, strategy: str, mean: bool, dtype: npt.DTypeLike = np.float32
) -> Scores:
    if strategy == "single":
        scores = single_scores(singles_of([query], vectors.dimensions), vectors, rows, dtype)
    else:
        scores = scores_many([query.values], vectors, rows=rows, mean=mean, dtype=dtype)
    only: Scores = scores[0]
    return only


def _settled(query: Query, vectors: Vectors, rows: Rows, rough: Scores, k: int, strategy: str, mean: bool) -> Hits:
    """The best of some documents, whose scores in float32 are known, by scores in float64."""
    if rows.size > k:
        last = np.partition(rough, rows.size - k)[rows.size - k]
        margin = MARGIN * vectors.dimensions
        rows = rows[rough >= last - (margin if mean or strategy == "single" else margin * len(query.values))]
    return Hits.best(rows, _scores(query, vectors, rows, strategy, mean, np.float64), vectors.place, k)


def singles_of(queries: Sequence[Query], dimensions: int) -> Floats32:
    """The queries' single vectors, shape (queries, dimensions); HarnessError if a query has none."""
    queries_of([query.values for query in queries], dimensions)
    for number, query in enumerate(queries, 1):
        if not 0 <= query.document < len(query.values):
            raise HarnessError(f"query {number} has no vector for the whole query; strategy colbert needs none")
    return np.array([query.values[query.document] for query in queries], np.float32)


def _singles(queries: Sequence[Query], vectors: Vectors, k: int, ef: int, index: Index | None) -> list[Hits]:
    asked = singles_of(queries, vectors.dimensions)
    if index is None:
        every, rows = single_scores(asked, vectors), np.arange(len(vectors))
        return [
            _settled(query, vectors, rows, scores, k, "single", mean=False)
            for query, scores in zip(queries, every, strict=True)
        ]
    out = []
    for query, near in zip(queries, index.documents(asked, k, ef), strict=True):
        out.append(best_among(query, vectors, np.unique(near[near >= 0]), k, "single"))
    return out


def _owners(queries: Sequence[Query], vectors: Vectors, depth: int, ef: int, index: Index) -> list[Rows]:
    """For each query the documents that own a vector near to one of its own."""
    table, start = queries_of([query.values for query in queries], vectors.dimensions)
    near = index.vectors(table, depth, ef)
    parts = (near[begin:end].ravel() for begin, end in pairwise(start.tolist()))
    return [np.unique(vectors.owner(part[part >= 0])) for part in parts]


def recall(found: Sequence[Hits], exact: Sequence[Hits]) -> npt.NDArray[np.float64]:
    """The share of each query's exact hits that were found, shape (queries,); 1 where there is none to find."""
    return np.array(
        [
            len(np.intersect1d(ours.rows, best.rows)) / best.rows.size if best.rows.size else 1.0
            for ours, best in zip(found, exact, strict=True)
        ]
    )


def as_run(name: str, topics: Sequence[str], found: Sequence[Hits], vectors: Vectors) -> Run:
    """A run of the hits, with the posts of formulas; topics without hits are left out."""
    docs = [vectors.ids[hits.rows].tolist() for hits in found]
    rankings = {
        topic: {doc.decode(): score for doc, score in zip(ids, hits.scores.tolist(), strict=True)}
        for topic, ids, hits in zip(topics, docs, found, strict=True)
        if ids
    }
    if not rankings:
        raise HarnessError(f"system {name}: no document was found for any topic")
    run = Run.from_dict(name, rankings)
    if vectors.context is None:
        return run
    return replace(run, context=vectors.context[np.concatenate([hits.rows for hits in found])])
