"""Third-party vector indexes: FAISS finds candidates for `search`; a Qdrant server searches by itself.

Both libraries come with the extra `ann` and are imported only when used. The default parameters of the HNSW graph are
those of Qdrant, as in the thesis (MathAMR+, 3.5.2).
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.io.checks import check_whole_number, choice
from harness.store import artefacts
from harness.systems.dense import chroma
from harness.systems.dense.maxsim import Floats32, Rows, Vectors, queries_of
from harness.systems.dense.search import SEARCHES, STRATEGIES, Hits, VectorQuery, first_stage, singles_of
from harness.systems.ranking import top

GET = "pip install 'mathir-harness[ann]'"
NEIGHBOURS = 16  # of each vector in the graph
CONSTRUCTION = 100  # candidates while the graph is built
_BATCH = 256  # documents in one request to Qdrant
ADDRESS = "HARNESS_QDRANT"  # variable with the address of the Qdrant server


def _import_library(module: str, package: str) -> Any:  # noqa: ANN401
    try:
        return importlib.import_module(module)
    except ImportError:
        raise HarnessError(f"{package} is not installed: {GET}") from None


# ---- FAISS ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Faiss:
    """Two inner-product indexes, of documents' single vectors and of all vectors; implements `search.Index`.

    Both are the same index if documents have no vectors besides their single ones.

    Attributes
    ----------
    single : faiss.Index, or None if no document has a single vector.
    every : faiss.Index of all vectors.
    document : int64, shape (single vectors,). The documents of the vectors in `single`.
    """

    single: Any
    every: Any
    document: Rows

    def documents(self, queries: Floats32, k: int, ef: int) -> Rows:
        """Returns the documents with the nearest single vectors, shape (queries, k); -1 where fewer were found."""
        if self.single is None:
            return np.full((len(queries), k), -1)
        near = _search_graph(self.single, queries, k, ef)
        return np.where(near < 0, -1, self.document[near])

    def vectors(self, queries: Floats32, k: int, ef: int) -> Rows:
        """Returns the rows of the nearest vectors of any kind, shape (queries, k); -1 where fewer were found."""
        return _search_graph(self.every, queries, k, ef)

    def save(self, folder: Path) -> None:
        """Writes the indexes to a folder."""
        faiss = _import_library("faiss", "faiss-cpu")
        folder.mkdir(parents=True, exist_ok=True)
        try:
            faiss.write_index(self.every, str(folder / "every.faiss"))
            if self.single is not None and self.single is not self.every:
                faiss.write_index(self.single, str(folder / "single.faiss"))
        except RuntimeError as error:
            raise HarnessError(f"{folder}: cannot be written: {_first(error)}") from None

    @staticmethod
    def load(folder: Path, vectors: Vectors) -> Faiss:
        """Loads the indexes that `save` wrote for these vectors.

        Raises
        ------
        HarnessError
            A file is missing or damaged, or does not fit the number or dimensions of the vectors.
        """
        faiss = _import_library("faiss", "faiss-cpu")
        document = np.flatnonzero(vectors.document >= 0)
        try:
            every = faiss.read_index(str(folder / "every.faiss"))
            single = every
            if document.size < len(vectors.values):
                single = faiss.read_index(str(folder / "single.faiss")) if document.size else None
        except RuntimeError as error:
            remedy = "delete this folder, and it is recomputed"
            raise HarnessError(f"{folder}: not an index of vectors: {_first(error)}; {remedy}") from None
        held = (every.ntotal, single.ntotal if single is not None else 0, every.d)
        if held != (len(vectors.values), document.size, vectors.dimensions):
            raise HarnessError(f"{folder}: an index of other vectors; delete this folder, and it is recomputed")
        return Faiss(single, every, document)


def check(precision: str) -> None:
    """Raises HarnessError if the library or server for a search precision is missing; `exact` needs none."""
    if precision == "approximate":
        _import_library("faiss", "faiss-cpu")
    elif precision == "qdrant":
        connect()
    elif precision == "chroma":
        chroma.library()


def version() -> str:
    """Returns the version of FAISS and the graph parameters; raises HarnessError if FAISS is not installed."""
    faiss = _import_library("faiss", "faiss-cpu")
    return f"{faiss.__version__} {NEIGHBOURS} {CONSTRUCTION}"


def faiss_index(vectors: Vectors) -> Faiss:
    """Indexes vectors with FAISS, in float32: an HNSW graph, built by a single thread to be reproducible.

    Raises
    ------
    HarnessError
        FAISS is not installed.
    """
    faiss = _import_library("faiss", "faiss-cpu")

    def build(values: Floats32) -> Any:  # noqa: ANN401
        index = faiss.IndexHNSWFlat(vectors.dimensions, NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = CONSTRUCTION
        with _one_thread():
            index.add(np.ascontiguousarray(values))
        return index

    document = np.flatnonzero(vectors.document >= 0)
    every = build(vectors.take(np.arange(len(vectors.values))))
    if document.size == len(vectors.values):  # documents have single vectors only
        return Faiss(every, every, document)
    return Faiss(build(vectors.take(vectors.document[document])) if document.size else None, every, document)


def kept_index(vectors: Vectors, folder: Path) -> Faiss:
    """Returns the FAISS index of vectors that are stored as an artifact; builds it if the store has none.

    Parameters
    ----------
    folder : folder of the vectors' artifact.

    Raises
    ------
    HarnessError
        FAISS is not installed, or the disk is full.
    """
    return Faiss.load(kept_folder(vectors, folder), vectors)


def kept_folder(vectors: Vectors, folder: Path) -> Path:
    """Returns the folder of the index in the store; builds the index if the store has none."""
    spec = {"vectors": folder.name, "faiss": version()}
    return artefacts.get_or_build("faiss-index", spec, lambda at: faiss_index(vectors).save(at))


def _search_graph(index: Any, queries: Floats32, k: int, ef: int) -> Rows:  # noqa: ANN401
    """Returns the rows nearest to each query in an HNSW index of FAISS, shape (queries, k); -1 if there are fewer."""
    # FAISS stops a search after `ef` vectors nearer than the next candidate, even if k is larger, and then returns
    # fewer than k. Qdrant and hnswlib, whose `ef` papers mean, keep at least k candidates.
    faiss = _import_library("faiss", "faiss-cpu")
    graph = faiss.SearchParametersHNSW(efSearch=max(ef, k))
    near = index.search(np.ascontiguousarray(queries, np.float32), min(k, index.ntotal), params=graph)[1]
    out = np.full((len(queries), k), -1)
    out[:, : near.shape[1]] = near
    return out


@contextmanager
def _one_thread() -> Iterator[None]:
    """Makes FAISS use a single thread, so that graphs are reproducible."""
    faiss = _import_library("faiss", "faiss-cpu")
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _first(error: Exception) -> str:
    """Returns the first line of a library's error message, without the library's source file name."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return text.partition("Error: ")[2] or text


# ---- Qdrant -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Qdrant:
    """A collection of documents in Qdrant.

    The id of a point is the row of its document. Its payload holds the document's id, for other programs that read the
    collection, and the post of a formula. Named vectors: `doc` (the single vector of a document) and `all` (a
    multi-vector compared by MAX_SIM). Formulas of Task 2 have a collection of their own, with the vector `doc` only.

    Attributes
    ----------
    client : qdrant_client.QdrantClient.
    vectors : uploaded vectors, which also give the ids and the order of ties.
    formulas : whether the points are single formulas.
    """

    client: Any
    name: str
    vectors: Vectors
    formulas: bool = False


def connect(url: str = "") -> Any:  # noqa: ANN401
    """Connects to the Qdrant server at `url`, by default the address in the variable HARNESS_QDRANT.

    Raises
    ------
    HarnessError
        qdrant-client is not installed, no address is given, or the server does not answer.
    """
    qdrant = _import_library("qdrant_client", "qdrant-client")
    if not (url := url or os.environ.get(ADDRESS, "")):
        raise HarnessError(f"no Qdrant server: set {ADDRESS} to the address of one, such as http://localhost:6333")
    with _answering(url):
        client = qdrant.QdrantClient(url=url, check_compatibility=False)
        client.get_collections()
    return client


@contextmanager
def _answering(where: str) -> Iterator[None]:
    """Turns errors of the server, and of the client about a wrong address or collection, into a HarnessError."""
    exceptions = _import_library("qdrant_client.http.exceptions", "qdrant-client")
    try:
        yield
    except exceptions.UnexpectedResponse as error:
        raise HarnessError(f"Qdrant at {where}: {error.status_code} {error.reason_phrase}") from None
    except (exceptions.ApiException, OSError, ValueError) as error:
        raise HarnessError(f"Qdrant at {where}: {_first(error)}; is it running, and is the address right?") from None


def upload(
    client: Any,  # noqa: ANN401
    name: str,
    vectors: Vectors,
    *,
    formulas: bool = False,
) -> Qdrant:
    """Uploads documents as a collection, replacing one of the same name; documents without vectors are excluded.

    Parameters
    ----------
    formulas : every document is one formula with one vector, and has a post (`context`).

    Raises
    ------
    HarnessError
        The server does not answer, or a formula does not have exactly one vector.
    """
    if formulas and (vectors.context is None or (np.diff(vectors.start) != 1).any()):
        raise HarnessError("vectors of formulas: expected one vector and a post for each formula")
    models = _import_library("qdrant_client.models", "qdrant-client")
    graph = models.HnswConfigDiff(m=NEIGHBOURS, ef_construct=CONSTRUCTION)
    space = {"size": vectors.dimensions, "distance": models.Distance.DOT, "hnsw_config": graph}
    spaces = {"doc": models.VectorParams(**space)}
    if not formulas:
        several = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
        spaces["all"] = models.VectorParams(**space, multivector_config=several)
    with _answering(name):
        if client.collection_exists(name):
            client.delete_collection(name)
        client.create_collection(name, vectors_config=spaces)
        client.upload_points(name, _qdrant_points(models, vectors, formulas), batch_size=_BATCH, wait=True)
    return Qdrant(client, name, vectors, formulas)


def kept_collection(client: Any, name: str, vectors: Vectors, *, formulas: bool = False) -> Qdrant:  # noqa: ANN401
    """Returns the collection of these vectors on a server, uploaded if it is missing or incomplete.

    Parameters
    ----------
    name : name of the collection, which must differ for other vectors.

    Raises
    ------
    HarnessError
        See `upload`.
    """
    with _answering(name):
        held = client.count(name).count if client.collection_exists(name) else -1
    if held == np.count_nonzero(np.diff(vectors.start)):
        return Qdrant(client, name, vectors, formulas)
    return upload(client, name, vectors, formulas=formulas)


def _qdrant_points(models: Any, vectors: Vectors, formulas: bool) -> Iterator[Any]:  # noqa: ANN401
    """Yields a point of Qdrant for each document or formula: its vectors by name, with its id as payload."""
    for row in np.flatnonzero(np.diff(vectors.start)).tolist():
        begin, end = vectors.start[row], vectors.start[row + 1]
        values = vectors.take(np.arange(begin, end))
        single = 0 if formulas else int(vectors.document[row] - begin)
        named: dict[str, Any] = {} if formulas else {"all": values.tolist()}
        if formulas or vectors.document[row] >= 0:
            named["doc"] = values[single].tolist()
        payload = {"formula" if formulas else "document": vectors.ids[row].decode()}
        if vectors.context is not None:
            payload["post"] = vectors.context[row].decode()
        yield models.PointStruct(id=row, vector=named, payload=payload)


def qdrant_search(
    queries: Sequence[VectorQuery],
    collection: Qdrant,
    strategy: str = "colbert",
    precision: str = "exact",
    *,
    k: int = 1000,
    depth: int | None = None,
    ef: int | None = None,
    mean: bool = False,
) -> list[Hits]:
    """Returns the best documents of each query, searched by Qdrant with the strategies of `search.search`.

    A collection of formulas supports only the strategy `single`; the query's single vector is that of its formula. With
    `colbert` and `approximate`, Qdrant searches its graph with `ef` candidates and ignores `depth`. Hits are in the
    order of the protocol; Qdrant decides which of the documents that tie at the cutoff are included.

    Parameters
    ----------
    ef : Qdrant's `hnsw_ef`, in approximate searches. For the defaults of `depth` and `ef` see `first_stage`.

    Raises
    ------
    HarnessError
        An argument is out of range, a query has no vector for the strategy, or the server does not answer.
    """
    choice("strategy", strategy, ("single",) if collection.formulas else STRATEGIES)
    choice("precision", precision, SEARCHES)
    check_whole_number("k", k, low=1)
    depth, ef = first_stage(strategy, k, depth, ef)
    models = _import_library("qdrant_client.models", "qdrant-client")
    dimensions = collection.vectors.dimensions
    queries_of([query.values for query in queries], dimensions)
    singles = [None] * len(queries) if strategy == "colbert" else singles_of(queries, dimensions).tolist()
    params = models.SearchParams(exact=True) if precision == "exact" else models.SearchParams(hnsw_ef=ef, exact=False)
    hits = []
    for query, single in zip(queries, singles, strict=True):
        request: dict[str, Any] = {"query": query.values.tolist(), "using": "all", "search_params": params}
        if strategy == "single":
            request |= {"query": single, "using": "doc"}
        elif strategy == "rerank":
            first = models.Prefetch(query=single, using="doc", limit=depth, params=params)
            request |= {"prefetch": first, "search_params": models.SearchParams(exact=True)}
        with _answering(collection.name):
            points = collection.client.query_points(collection.name, limit=k, with_payload=False, **request).points
        scale = len(query.values) if mean and strategy != "single" else 1
        rows = np.array([point.id for point in points], np.int64)
        scores = (np.array([point.score for point in points], np.float64) / scale).astype(np.float32)
        hits.append(Hits(*top(rows, scores, collection.vectors.place, rows.size)))
    return hits
