"""Search over multi-vector documents by six strategies: single vectors, re-ranking or MaxSim, exact or approximate.

Scores are first computed in float32, whose last bits depend on the other documents and queries of the same matrix
product. The scores of the top documents are then recomputed in float64 and rounded to float32. Equal documents
therefore tie, and a run does not depend on the processor or on how queries are batched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from harness.data.columns import Bools
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.io.checks import check_whole_number, choice
from harness.io.console import log_line
from harness.store.cost import note, phase
from harness.systems.dense.maxsim import Floats32, Rows, Scores, Vectors, queries_of, scores_many
from harness.systems.dense.single_vectors import MARGIN, DocumentParts, Scan, grouped
from harness.systems.ranking import top

STRATEGIES = ("single", "rerank", "colbert")
SEARCHES = ("exact", "approximate")
COMBINATIONS = ("sum", "max")  # ways to combine the inner products of a document's parts
CANDIDATES = 1000  # minimum candidates of the first stage
EF = 128  # minimum `ef` of an approximate search, as in the thesis
QUERIES = 32  # queries that share a pass over the documents in exact MaxSim, at most
SCORES = 1 << 28  # scores of a pass in exact MaxSim: 1 GiB in float32, or those of a single query
TOGETHER = 256  # queries that share a pass in exact search by single vectors
BLOCK = 4096  # documents in one matrix product of exact search by single vectors
FEW = 256  # documents in the first one
SAMPLE = 20  # maximum number of topics on which the recall of approximate search is measured
POOL = 1 << 14  # a pool of at most so many documents is scored in float64 at once
Rough = Callable[[Sequence[Floats32]], Scores]  # queries -> float32 scores with all documents


@dataclass(frozen=True, eq=False)
class VectorQuery:
    """The vectors of a query.

    Attributes
    ----------
    values : float32, shape (vectors, dimensions). L2-normalised; at least one.
    document : row of the query's single vector in `values`; -1 if there is none.
    """

    values: Floats32
    document: int = -1


@dataclass(frozen=True, eq=False)
class Hits:
    """The best documents of a query in the order of the protocol: score descending, then id descending.

    Attributes
    ----------
    rows : int64, shape (found,). Rows of the documents.
    scores : float32, shape (found,).
    """

    rows: Rows
    scores: Floats32

    @staticmethod
    def best(rows: Rows, scores: Scores, place: Rows, k: int) -> Hits:
        """Returns the top k of some documents by float32 score; documents with minus infinity are excluded.

        Parameters
        ----------
        rows, scores : shape (some,). Documents and their scores.
        place : shape (documents,). See `harness.systems.ranking.positions_by_id`.
        """
        some = scores > -np.inf
        if not some.all():
            rows, scores = rows[some], scores[some]
        return Hits(*top(rows, scores.astype(np.float32, copy=False), place, k))

    def without(self, gone: Bools, k: int) -> Hits:
        """Removes documents, given by a mask of shape (documents,), and returns the top k of the others."""
        stay = np.flatnonzero(~gone[self.rows])[:k]
        return Hits(self.rows[stay], self.scores[stay])

    def by_doc(self, vectors: Vectors) -> dict[bytes, float]:
        """Returns id -> score of the documents."""
        return dict(zip(vectors.ids[self.rows].tolist(), self.scores.tolist(), strict=True))


class NeighbourIndex(Protocol):
    """An index that finds candidates without reading every vector."""

    def documents(self, queries: Floats32, k: int, ef: int) -> Rows:
        """Returns documents with near single vectors, shape (queries, k); -1 where fewer were found."""

    def vectors(self, queries: Floats32, k: int, ef: int) -> Rows:
        """Returns the rows of near vectors of any kind, shape (queries, k); -1 where fewer were found."""


def first_stage(strategy: str, k: int, depth: int | None = None, ef: int | None = None) -> tuple[int, int]:
    """Returns the number of candidates of a first stage for the top k documents, and its `ef`.

    Defaults grow with k. An HNSW graph asked for 1,000 vectors had a recall of 0.98 to 1 with `ef` 1,000, the minimum,
    and of 0.999 to 1 with 2,000 (20,000 to 32,000 vectors of 32 dimensions, random or in 20 or 200 clusters). For
    MaxSim over 20,000 documents, candidates from the 1,000 vectors nearest to each query vector had a recall of 0.85 to
    0.92 of the top 1,000 documents; from 2,000 vectors it was 0.98 to 1.
    """
    for key, value in (("depth", depth), ("ef", ef)):
        if value is not None:
            check_whole_number(key, value, low=1)
    asked = depth or (max(CANDIDATES, 2 * k) if strategy == "colbert" else CANDIDATES)
    wanted = asked if strategy == "rerank" else k
    return asked, ef or max(EF, 2 * wanted, asked if strategy == "colbert" else 0)


def search_vectors(
    queries: Sequence[VectorQuery],
    vectors: Vectors,
    strategy: str = "colbert",
    precision: str = "exact",
    *,
    k: int = 1000,
    depth: int | None = None,
    ef: int | None = None,
    index: NeighbourIndex | None = None,
    mean: bool = False,
    rough: Rough | None = None,
) -> list[Hits]:
    """Returns the best documents of each query by one of six strategies (MathAMR+, 3.5.2).

    Parameters
    ----------
    strategy : `single`: inner product of single vectors. `rerank`: the top `depth` documents by single vectors,
        re-ranked by exact MaxSim. `colbert`: exact MaxSim over all documents (`exact`), or over documents with a vector
        among the `depth` nearest to any query vector (`approximate`).
    precision : precision of the first stage; `approximate` uses `index`. Final scores are exact in all strategies.
    k : documents of a query; fewer if the first stage finds fewer or documents have no vectors.
    depth : candidates of the first stage: documents (`rerank`), or vectors for each query vector (`colbert`).
    ef : size of the candidate list of an approximate first stage, at least the number of candidates. For the defaults
        of `depth` and `ef` see `first_stage`.
    mean : divide MaxSim by the number of the query's vectors.
    rough : function that computes float32 scores of queries with all documents, shape (queries, documents), in place of
        NumPy, such as `maxsim_torch.rough`. It does not change the results.

    Raises
    ------
    HarnessError
        An argument is out of range, or a query lacks the single vector that the strategy needs.
    """
    choice("strategy", strategy, STRATEGIES)
    choice("precision", precision, SEARCHES)
    check_whole_number("k", k, low=1)
    depth, ef = first_stage(strategy, k, depth, ef)
    if precision == "approximate" and index is None:
        raise HarnessError("key 'precision' is 'approximate': needs an index of the vectors")
    near = index if precision == "approximate" else None
    if strategy != "colbert":
        asked, indexes = singles_of(queries, vectors.dimensions), None if near is None else [near]
        firsts = nearest(asked, [vectors], k=depth if strategy == "rerank" else k, indexes=indexes, ef=ef)
        if strategy == "single":
            return firsts
        pairs = zip(queries, firsts, strict=True)
        return [best_among(query, vectors, first.rows, k, mean=mean) for query, first in pairs]
    ranked: list[Hits] = []
    size = min(QUERIES, max(1, SCORES // max(len(vectors), 1)))
    for begin in range(0, len(queries), size):
        part = queries[begin : begin + size]
        if near is None:
            values = [query.values for query in part]
            every = rough(values) if rough else scores_many(values, vectors, mean=mean)
            rows = np.arange(len(vectors))
            ranked += [
                _settled(query, vectors, rows, scores, k, mean) for query, scores in zip(part, every, strict=True)
            ]
            continue
        candidates = _owners(part, vectors, depth, ef, near)
        ranked += [best_among(query, vectors, rows, k, mean=mean) for query, rows in zip(part, candidates, strict=True)]
    return ranked


def nearest(
    queries: Floats32,
    parts: Sequence[Vectors],
    weights: Sequence[float] | None = None,
    combine: str = "sum",
    *,
    k: int = 1000,
    rows: Rows | None = None,
    indexes: Sequence[NeighbourIndex] | None = None,
    depth: int | None = None,
    ef: int | None = None,
    out: Callable[[int], Bools] | None = None,
) -> list[Hits]:
    """Returns the documents with the highest inner products of single vectors, of one part or of several combined.

    Memory grows with the number of queries in a pass and with k, not with the number of documents. Vectors need not be
    normalised.

    Parameters
    ----------
    queries : shape (queries, dimensions).
    parts : single vectors of the same documents, such as those of answers and those of titles. A document may lack
        some parts; one that lacks all is excluded.
    weights : weights of the parts, not negative; 1 by default. Parts of weight 0 are ignored.
    combine : `sum` of the weighted inner products, in which a missing part counts 0; or `max` over the existing parts.
    k : documents of a query.
    rows : distinct documents to score, all of them and without the indexes. By default the whole corpus is searched.
    indexes : one index for each part; only their candidates are scored.
    depth, ef : candidates of each index, and its `ef`. By default `depth` is k with one part, and more with several,
        because the best document overall may be outside the top k of every single part.
    out : index of a query -> mask of the documents excluded for it, shape (documents,). Indexes then return up to twice
        as many candidates, and a query left with fewer than k is searched exactly.

    Raises
    ------
    HarnessError
        An argument is out of range, the parts differ in their documents or dimensions, or vectors are so long that
        scores do not fit float32.

    Examples
    --------
    >>> from harness.systems.dense.maxsim import stack
    >>> answers = stack([("a", [[1.0, 0.0]], 0), ("b", [[0.0, 1.0]], 0)])
    >>> titles = stack([("a", [[0.0, 1.0]], -1), ("b", [[1.0, 0.0]], 0)])
    >>> (hits,) = nearest(np.array([[2.0, 1.0]], np.float32), [answers, titles], [1, 0.25])
    >>> answers.ids[hits.rows].tolist(), hits.scores.tolist()
    ([b'a', b'b'], [2.0, 1.5])
    """
    choice("combine", combine, COMBINATIONS)
    for key, value in (("k", k), ("depth", depth), ("ef", ef)):
        if value is not None:
            check_whole_number(key, value, low=1)
    chosen, place = DocumentParts.of(parts, weights, combine), parts[0].place
    queries_of([query[None] for query in queries], chosen.dimensions)
    queries = np.ascontiguousarray(queries, np.float32)
    if rows is None and indexes is not None:
        depth = depth or (k if len(parts) == 1 else max(CANDIDATES, 2 * k))
        if out is not None:
            depth += min(depth, max((int(np.count_nonzero(out(n))) for n in range(len(queries))), default=0))
        near = np.hstack([index.documents(queries, depth, ef or max(EF, 2 * depth)) for index in indexes])
        among = _without_excluded(out, [chosen.some(np.unique(pool[pool >= 0])) for pool in near])
        if out is not None and (short := [number for number, pool in enumerate(among) if pool.size < k]):
            gone = out
            again = nearest(queries[short], parts, weights, combine, k=k, out=lambda number: gone(short[number]))
            for number, hits in zip(short, again, strict=True):
                among[number] = hits.rows
    elif rows is not None and rows.size <= POOL:
        among = _without_excluded(out, [chosen.some(rows)] * len(queries))
    else:
        there = chosen.some(rows)
        passes = (np.arange(begin, min(begin + TOGETHER, len(queries))) for begin in range(0, len(queries), TOGETHER))
        among = [
            pool
            for part in passes
            for pool in _candidates(
                queries[part],
                chosen,
                there,
                place,
                k,
                None if out is None else np.array([out(n) for n in part.tolist()]),
            )
        ]
    some = (slice(begin, begin + TOGETHER) for begin in range(0, len(queries), TOGETHER))
    return [hits for each in some for hits in _by_exact_scores(queries[each], among[each], chosen, place, k)]


def _by_exact_scores(
    queries: Floats32, among: Sequence[Rows], parts: DocumentParts, place: Rows, k: int
) -> Iterator[Hits]:
    """Yields the top k of each query's candidates by float64 scores, which are computed document by document."""
    rows, sizes = np.concatenate(among), [pool.size for pool in among]
    order = np.argsort(rows)
    scores = np.empty(rows.size)
    scores[order] = parts.exact(queries, np.repeat(np.arange(len(among)), sizes)[order], rows[order])
    for pool, own in zip(among, np.split(scores, np.cumsum(sizes)[:-1]), strict=True):
        yield Hits.best(pool, own, place, k)


def _without_excluded(out: Callable[[int], Bools] | None, among: list[Rows]) -> list[Rows]:
    """Removes the excluded documents from each query's candidates."""
    return among if out is None else [rows[~out(number)[rows]] for number, rows in enumerate(among)]


def _candidates(
    queries: Floats32, parts: DocumentParts, rows: Rows, place: Rows, k: int, out: Bools | None = None
) -> list[Rows]:
    """Returns each query's top k documents, and those below that float32 cannot separate from them.

    Parameters
    ----------
    out : shape (queries, documents). Documents to exclude.
    """
    if not len(queries):
        return []
    wrong = parts.wrong(queries)
    floor = np.full(len(queries), -np.inf, np.float32)  # minimum float32 score of a candidate
    scan = Scan(parts, queries, BLOCK, out)
    held = [(np.zeros(0, np.uint16), np.zeros(0, np.int64), np.zeros(0, np.float32))]  # queries, documents, scores
    begin = size = limit = 0

    def cut() -> list[Rows]:
        """Raises the floor, drops candidates below it, and returns the remaining documents of each query."""
        asked, every, values = (np.concatenate(column) for column in zip(*held, strict=True))
        docs, scores = grouped(asked, every, values, len(queries))
        for query, (mine, own) in enumerate(zip(docs, scores, strict=True)):
            if mine.size <= k:
                continue
            last = np.partition(own, mine.size - k)[mine.size - k]
            floor[query] = max(floor[query], last - 2 * wrong[query])
            good = np.flatnonzero(own >= floor[query])
            if good.size > 2 * k + BLOCK:  # bounds the memory if many documents have nearly equal scores
                exact = parts.exact(queries[[query]], np.zeros(good.size, np.int64), mine[good])
                good = good[Hits.best(np.arange(good.size), exact, place[mine[good]], k).rows]
            docs[query], scores[query] = mine[good], own[good]
        asked = np.repeat(np.arange(len(queries), dtype=np.uint16), [mine.size for mine in docs])
        held[:] = [(asked, np.concatenate(docs), np.concatenate(scores))]
        return docs

    while begin < rows.size:
        # Few at first: without a floor, all are candidates.
        block = rows[begin : begin + min(scan.most, max(begin, FEW))]
        begin += block.size
        held.append(scan(block, floor))
        size += held[-1][0].size
        if size > limit:
            cut()
            size = held[0][0].size
            limit = 4 * size + 64 * len(queries)
    return cut()


def best_among(
    query: VectorQuery, vectors: Vectors, rows: Rows, k: int, strategy: str = "colbert", *, mean: bool = False
) -> Hits:
    """Returns the top k of some documents, such as a pool, by single vectors (`single`) or by exact MaxSim."""
    if strategy == "single":
        return nearest(singles_of([query], vectors.dimensions), [vectors], k=k, rows=rows)[0]
    rough: Scores = scores_many([query.values], vectors, rows=rows, mean=mean)[0]
    return _settled(query, vectors, rows, rough, k, mean)


def _settled(query: VectorQuery, vectors: Vectors, rows: Rows, rough: Scores, k: int, mean: bool) -> Hits:
    """Returns the top k of some documents by MaxSim in float64, given their float32 scores."""
    if rows.size > k:
        last = np.partition(rough, rows.size - k)[rows.size - k]
        margin = MARGIN * vectors.dimensions
        rows = rows[rough >= last - (margin if mean else margin * len(query.values))]
    scores = scores_many([query.values], vectors, rows=rows, mean=mean, dtype=np.float64)[0]
    return Hits.best(rows, scores, vectors.place, k)


def singles_of(queries: Sequence[VectorQuery], dimensions: int) -> Floats32:
    """Returns the queries' single vectors, shape (queries, dimensions); raises HarnessError if a query has none."""
    queries_of([query.values for query in queries], dimensions)
    for number, query in enumerate(queries, 1):
        if not 0 <= query.document < len(query.values):
            raise HarnessError(f"query {number} has no vector for the whole query; strategy colbert needs none")
    singles = [query.values[query.document] for query in queries]
    return np.array(singles, np.float32).reshape(len(queries), dimensions)


def _owners(queries: Sequence[VectorQuery], vectors: Vectors, depth: int, ef: int, index: NeighbourIndex) -> list[Rows]:
    """Returns, for each query, the documents with a vector near any of the query's vectors."""
    table, start = queries_of([query.values for query in queries], vectors.dimensions)
    near = index.vectors(table, depth, ef)
    parts = (near[begin:end].ravel() for begin, end in pairwise(start.tolist()))
    return [np.unique(vectors.owner(part[part >= 0])) for part in parts]


def recall(rough: Sequence[Hits], exact: Sequence[Hits]) -> npt.NDArray[np.float64]:
    """Returns the share of each query's exact hits that were found, shape (queries,); 1 if there are no exact hits."""
    return np.array(
        [
            len(np.intersect1d(ours.rows, best.rows)) / best.rows.size if best.rows.size else 1.0
            for ours, best in zip(rough, exact, strict=True)
        ]
    )


def note_recall(
    name: str, precision: str, rough: Sequence[Hits], exact: Callable[[list[int]], Sequence[Hits]], k: int
) -> None:
    """Prints and records the recall of approximate search against exact search, on a sample of the topics.

    Parameters
    ----------
    name, precision : name of the run, and kind of its search.
    rough : the top k of each topic by approximate search.
    exact : indices of topics -> their hits by exact search.
    """
    with phase("recall"):
        sample = list(range(0, len(rough), -(-len(rough) // SAMPLE) or 1))
        shares = recall([rough[number] for number in sample], exact(sample))
    if not len(shares):
        return
    numbers = {"mean": round(float(shares.mean()), 4), "least": round(float(shares.min()), 4)}
    note(f"recall of {name}, {precision} against exact", numbers | {"topics": len(shares), "first documents": k})
    log_line(
        f"{name}: {precision} search found {shares.mean():.4f} of the exact first {k:,} documents "
        f"({len(shares)} topics, least {shares.min():.4f})"
    )


def as_run(name: str, topics: Sequence[str], ranked: Sequence[Hits], vectors: Vectors) -> Run:
    """Returns a run of the hits, with the posts of formulas; topics without hits are excluded."""
    docs = [vectors.ids[hits.rows].tolist() for hits in ranked]
    rankings = {
        topic: {doc.decode(): score for doc, score in zip(ids, hits.scores.tolist(), strict=True)}
        for topic, ids, hits in zip(topics, docs, ranked, strict=True)
        if ids
    }
    if not rankings:
        raise HarnessError(f"system {name}: no document was found for any topic")
    run = Run.from_dict(name, rankings)
    if vectors.context is None:
        return run
    return replace(run, context=vectors.context[np.concatenate([hits.rows for hits in ranked])])
