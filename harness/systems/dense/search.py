"""Search of documents of many vectors by six strategies: by single vectors or MaxSim, exact or over candidates.

Scores are made in float32, where the last bits depend on what else is scored in the same product; those of the first
documents are then made again in float64 and rounded to float32. Equal documents tie, and a run does not depend on the
processor or on which queries are asked together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from harness.data.columns import Bools
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.io.checks import choice, whole
from harness.io.console import say
from harness.store.cost import note, phase
from harness.systems.dense.maxsim import Floats32, Rows, Scores, Vectors, scores_many
from harness.systems.dense.ragged import queries_of
from harness.systems.dense.singles import MARGIN, Parts
from harness.systems.ranking import top

STRATEGIES = ("single", "rerank", "colbert")
SEARCHES = ("exact", "approximate")
COMBINATIONS = ("sum", "max")  # of a document's inner products
CANDIDATES = 1000  # of the first stage, at least
EF = 128  # candidates of an approximate search, at least: what the thesis had
QUERIES = 32  # queries that share a pass over the documents in exact MaxSim
TOGETHER = 256  # and in exact search by single vectors
BLOCK = 4096  # documents of a matrix product with these
SAMPLE = 20  # topics at most, on which approximate search is compared with exact
POOL = 1 << 14  # documents of a pool that are scored in float64 at once
Rough = Callable[[Sequence[Floats32]], Scores]  # the queries' scores in float32 with all documents


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
        """Returns the first k of some documents by scores in float32; those with minus infinity are left out.

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
    """Returns how many documents or vectors the first stage of a search for k documents asks for, and its `ef`.

    What is not given grows with k. To ask a graph of neighbours for 1,000 found .98 to 1 of the nearest with `ef`
    1,000, than which no less is held then, and .999 to 1 with 2,000 (20,000 to 32,000 vectors of 32 dimensions, random
    or in 20 or 200 clusters). The 1,000 vectors nearest to each of a query's own led to .85 to .92 of the 1,000 best of
    20,000 documents by MaxSim, 2,000 of them to .98 to 1.
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
    rough: Rough | None = None,
) -> list[Hits]:
    """Returns the best documents of each query by one of six strategies (MathAMR+, 3.5.2).

    Parameters
    ----------
    strategy : `single`: the inner product of single vectors. `rerank`: the first `depth` documents by single vectors,
        ordered by exact MaxSim. `colbert`: exact MaxSim, of all documents (`exact`), or of those that own one of the
        `depth` vectors nearest to one of the query's (`approximate`).
    precision : of the first stage; `approximate` asks `index`. Scores are exact in all strategies.
    k : documents of a query; fewer where the first stage finds fewer, or documents have no vectors.
    depth : candidates of the first stage: documents (`rerank`), or vectors for each of the query's (`colbert`).
    ef : candidates that an approximate first stage holds while it looks for these; as many as it looks for, where that
        is more. For the defaults of both see `first_stage`.
    mean : divide MaxSim by the number of the query's vectors.
    rough : what makes the scores in float32 of queries with all documents, shape (queries, documents), in place of
        NumPy: `maxsim_torch.rough`, say. It does not change what is found.

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
    if strategy != "colbert":
        asked, indexes = singles_of(queries, vectors.dimensions), None if near is None else [near]
        firsts = nearest(asked, [vectors], k=depth if strategy == "rerank" else k, indexes=indexes, ef=ef)
        if strategy == "single":
            return firsts
        pairs = zip(queries, firsts, strict=True)
        return [best_among(query, vectors, first.rows, k, mean=mean) for query, first in pairs]
    found: list[Hits] = []
    for begin in range(0, len(queries), QUERIES):
        part = queries[begin : begin + QUERIES]
        if near is None:
            values = [query.values for query in part]
            every = rough(values) if rough else scores_many(values, vectors, mean=mean, workers=workers)
            rows = np.arange(len(vectors))
            found += [
                _settled(query, vectors, rows, scores, k, mean) for query, scores in zip(part, every, strict=True)
            ]
            continue
        candidates = _owners(part, vectors, depth, ef, near)
        found += [best_among(query, vectors, rows, k, mean=mean) for query, rows in zip(part, candidates, strict=True)]
    return found


def nearest(
    queries: Floats32,
    parts: Sequence[Vectors],
    weights: Sequence[float] | None = None,
    combine: str = "sum",
    *,
    k: int = 1000,
    rows: Rows | None = None,
    indexes: Sequence[Index] | None = None,
    depth: int | None = None,
    ef: int | None = None,
    out: Callable[[int], Bools] | None = None,
) -> list[Hits]:
    """Returns the documents of the highest inner products of single vectors: of one part, or of several combined.

    Memory grows with the queries of a pass and with k, not with the documents. Vectors need not be of length 1.

    Parameters
    ----------
    queries : shape (queries, dimensions).
    parts : single vectors of the same documents, such as those of answers and those of titles; a document may lack
        some of them. Without any it is left out.
    weights : of the parts, not negative; 1 by default. Parts of weight 0 are not looked at.
    combine : `sum`: of the weighted inner products, to which a part that a document lacks adds nothing. `max`: the
        highest of those that there are.
    k : documents of a query.
    rows : the only documents to look at, distinct; all of them are, whatever the indexes. All by default.
    indexes : one for each part; each is asked for candidates, and only these are scored.
    depth, ef : candidates of each index, and those that it holds while it looks for them. By default `depth` is k with
        one part, and more with several: a document may be first without being among the first k in any part.
    out : for a query's number the documents that it must not find, shape (documents,). Indexes are asked for more
        candidates, up to twice as many; a query of which fewer than k are left is searched exactly.

    Raises
    ------
    HarnessError
        An argument is out of its range, the parts differ in their documents or dimensions, or vectors are so long that
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
            whole(key, value, low=1)
    chosen, place = Parts.of(parts, weights, combine), parts[0].place
    queries_of([query[None] for query in queries], chosen.dimensions)
    queries = np.ascontiguousarray(queries, np.float32)
    if rows is None and indexes is not None:
        depth = depth or (k if len(parts) == 1 else max(CANDIDATES, 2 * k))
        if out is not None:
            depth += min(depth, max((int(np.count_nonzero(out(n))) for n in range(len(queries))), default=0))
        near = np.hstack([index.documents(queries, depth, ef or max(EF, 2 * depth)) for index in indexes])
        among = _without(out, [chosen.some(np.unique(found[found >= 0])) for found in near])
        if out is not None and (short := [number for number, found in enumerate(among) if found.size < k]):
            gone = out
            of = nearest(queries[short], parts, weights, combine, k=k, out=lambda number: gone(short[number]))
            for number, hits in zip(short, of, strict=True):
                among[number] = hits.rows
    elif rows is not None and rows.size <= POOL:
        among = _without(out, [chosen.some(rows)] * len(queries))
    else:
        there = chosen.some(rows)
        passes = (np.arange(begin, min(begin + TOGETHER, len(queries))) for begin in range(0, len(queries), TOGETHER))
        among = [
            found
            for part in passes
            for found in _candidates(
                queries[part],
                chosen,
                there,
                place,
                k,
                None if out is None else np.array([out(n) for n in part.tolist()]),
            )
        ]
    pairs = zip(queries, among, strict=True)
    return [Hits.best(found, chosen.exact(query, found), place, k) for query, found in pairs]


def _without(out: Callable[[int], Bools] | None, among: list[Rows]) -> list[Rows]:
    return among if out is None else [rows[~out(number)[rows]] for number, rows in enumerate(among)]


def _candidates(
    queries: Floats32, parts: Parts, rows: Rows, place: Rows, k: int, out: Bools | None = None
) -> list[Rows]:
    """For each query its first k of some documents, and others where float32 cannot say which these are.

    Without those that are out, shape (queries, documents).
    """
    if not len(queries):
        return []
    wrong = parts.wrong(queries)
    floor = np.full((len(queries), 1), -np.inf, np.float32)  # what a rough score must reach
    held = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))]  # queries, documents, scores
    size = limit = 0

    def cut() -> list[Rows]:
        """Leaves out what has fallen behind, and raise the floor; the documents of each query."""
        asked, found, scores = (np.concatenate(column) for column in zip(*held, strict=True))
        order = np.argsort(asked, kind="stable")
        kept = np.split(order, np.searchsorted(asked[order], np.arange(1, len(queries))))
        for query, every in enumerate(kept):
            if every.size <= k:
                continue
            last = np.partition(scores[every], every.size - k)[every.size - k]
            floor[query] = max(floor[query, 0], last - 2 * wrong[query])
            mine = every[scores[every] >= floor[query]]
            if mine.size > 2 * k + BLOCK:  # many documents that are alike: memory would grow with them
                exact = parts.exact(queries[query], found[mine])
                mine = mine[Hits.best(np.arange(mine.size), exact, place[found[mine]], k).rows]
            kept[query] = mine
        stay = np.concatenate(kept)
        held[:] = [(asked[stay], found[stay], scores[stay])]
        return [found[mine] for mine in kept]

    for begin in range(0, rows.size, BLOCK):
        block = rows[begin : begin + BLOCK]
        scores = parts.rough(queries, block)
        good = scores >= floor if out is None else (scores >= floor) & ~out[:, block]
        asked, column = np.divmod(np.flatnonzero(good), block.size)
        held.append((asked, block[column], scores[asked, column]))
        size += asked.size
        if size > limit:
            cut()
            size = held[0][0].size
            limit = 2 * size + 64 * len(queries)
    return cut()


def best_among(
    query: Query, vectors: Vectors, rows: Rows, k: int, strategy: str = "colbert", *, mean: bool = False
) -> Hits:
    """Returns the best of some documents, a pool say: by their single vectors (`single`), else by exact MaxSim."""
    if strategy == "single":
        return nearest(singles_of([query], vectors.dimensions), [vectors], k=k, rows=rows)[0]
    rough: Scores = scores_many([query.values], vectors, rows=rows, mean=mean)[0]
    return _settled(query, vectors, rows, rough, k, mean)


def _settled(query: Query, vectors: Vectors, rows: Rows, rough: Scores, k: int, mean: bool) -> Hits:
    """Returns the best of some documents by MaxSim in float64; known are their scores in float32."""
    if rows.size > k:
        last = np.partition(rough, rows.size - k)[rows.size - k]
        margin = MARGIN * vectors.dimensions
        rows = rows[rough >= last - (margin if mean else margin * len(query.values))]
    scores = scores_many([query.values], vectors, rows=rows, mean=mean, dtype=np.float64)[0]
    return Hits.best(rows, scores, vectors.place, k)


def singles_of(queries: Sequence[Query], dimensions: int) -> Floats32:
    """Returns the queries' single vectors, shape (queries, dimensions); HarnessError if a query has none."""
    queries_of([query.values for query in queries], dimensions)
    for number, query in enumerate(queries, 1):
        if not 0 <= query.document < len(query.values):
            raise HarnessError(f"query {number} has no vector for the whole query; strategy colbert needs none")
    singles = [query.values[query.document] for query in queries]
    return np.array(singles, np.float32).reshape(len(queries), dimensions)


def _owners(queries: Sequence[Query], vectors: Vectors, depth: int, ef: int, index: Index) -> list[Rows]:
    """For each query the documents that own a vector near to one of its own."""
    table, start = queries_of([query.values for query in queries], vectors.dimensions)
    near = index.vectors(table, depth, ef)
    parts = (near[begin:end].ravel() for begin, end in pairwise(start.tolist()))
    return [np.unique(vectors.owner(part[part >= 0])) for part in parts]


def recall(found: Sequence[Hits], exact: Sequence[Hits]) -> npt.NDArray[np.float64]:
    """Returns the share of each query's exact hits that were found, shape (queries,); 1 where there is none to find."""
    return np.array(
        [
            len(np.intersect1d(ours.rows, best.rows)) / best.rows.size if best.rows.size else 1.0
            for ours, best in zip(found, exact, strict=True)
        ]
    )


def note_recall(
    name: str, precision: str, found: Sequence[Hits], exact: Callable[[list[int]], Sequence[Hits]], k: int
) -> None:
    """Says and note how much of what exact search finds an approximate one has found, on a sample of the topics.

    Parameters
    ----------
    name, precision : of the run, and how it was searched.
    found : the first k of each topic.
    exact : from numbers of topics to what exact search finds for these.
    """
    with phase("recall"):
        sample = list(range(0, len(found), -(-len(found) // SAMPLE) or 1))
        shares = recall([found[number] for number in sample], exact(sample))
    if not len(shares):
        return
    numbers = {"mean": round(float(shares.mean()), 4), "least": round(float(shares.min()), 4)}
    note(f"recall of {name}, {precision} against exact", numbers | {"topics": len(shares), "first documents": k})
    say(
        f"{name}: {precision} search found {shares.mean():.4f} of the exact first {k:,} documents "
        f"({len(shares)} topics, least {shares.min():.4f})"
    )


def as_run(name: str, topics: Sequence[str], found: Sequence[Hits], vectors: Vectors) -> Run:
    """Returns a run of the hits, with the posts of formulas; topics without hits are left out."""
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
