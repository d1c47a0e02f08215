"""Approximate search in Chroma, the vector store of the Mathlib4 paper: cosine similarity over an HNSW graph.

Source: Gao et al., "A Semantic Search Engine for Mathlib4" (2024), section 3.2. The paper states neither the version of
Chroma nor the parameters of the graph; the defaults of Chroma are used. Chroma runs embedded, from a folder and without
a server. It comes with the extra `chroma` and is imported only when used.

Chroma builds the graph with several threads, so two builds may differ in edges. A stored graph is complete and gives
the same results in every search. Chroma reads the search parameter `ef` when it opens a store, so the store is reopened
when `ef` changes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from harness.errors import HarnessError
from harness.io import staging_names
from harness.store import artefacts
from harness.systems.dense.maxsim import Floats32, Rows, Vectors

NEIGHBOURS = 16  # of each vector in the graph, at most
CONSTRUCTION = 100  # candidates while the graph is built
GET = "pip install 'mathir-harness[chroma]'"
_NAME = "documents"
_TOGETHER = 256  # queries of one call
_LOOKED_AT = 1000  # vectors in the checksum that recognises another model; all of them may be gigabytes


def library() -> Any:  # noqa: ANN401
    """Returns the module chromadb; raises HarnessError if it is not installed."""
    try:
        import chromadb
    except ImportError:
        raise HarnessError(f"chromadb is not installed: {GET}") from None
    return chromadb


@dataclass(eq=False)
class Chroma:
    """A Chroma store of documents' single vectors; implements `search.Index`.

    Attributes
    ----------
    folder : folder of the store, to which Chroma writes. Ids in the store are rows of documents.
    indexed : vectors that the store was built from.
    """

    folder: Path
    indexed: Vectors
    _ef: int = 0  # candidates of a search, as set when the store was opened; 0: the store is closed
    _collection: Any = None
    _open: ExitStack = field(default_factory=ExitStack)

    def documents(self, queries: Floats32, k: int, ef: int) -> Rows:
        """Returns the documents with the nearest single vectors by cosine, shape (queries, k); -1 for missing ones."""
        if ef != self._ef:
            self._reopen(ef)
        most = min(k, int((self.indexed.document >= 0).sum()))
        out = np.full((len(queries), k), -1)
        for begin in range(0, len(queries), _TOGETHER):
            part = np.ascontiguousarray(queries[begin : begin + _TOGETHER], np.float32)
            try:
                ids_of_queries = self._collection.query(query_embeddings=part, n_results=most, include=[])["ids"]
            except library().errors.ChromaError as error:
                raise HarnessError(f"Chroma: {_first_line(error)}") from None
            for row, ids in enumerate(ids_of_queries, begin):
                out[row, : len(ids)] = np.array(ids, np.int64)
        return out

    def vectors(self, queries: Floats32, k: int, ef: int) -> Rows:
        """Returns the rows of the nearest single vectors, shape (queries, k); -1 where fewer were found."""
        near = self.documents(queries, k, ef)
        return np.where(near < 0, -1, self.indexed.document[near])

    def close(self) -> None:
        """Closes the store; the next search reopens it."""
        self._ef = 0
        self._open.close()

    def _reopen(self, ef: int) -> None:
        self.close()
        with _client(self.folder) as client:
            _stored_collection(client).modify(configuration={"hnsw": {"ef_search": ef}})
        self._collection = _stored_collection(self._open.enter_context(_client(self.folder)))
        self._ef = ef


def build(vectors: Vectors, folder: Path) -> None:
    """Builds a store of documents' single vectors in an empty folder.

    Raises
    ------
    HarnessError
        Chroma is not installed or cannot write.
    """
    graph: dict[str, Any] = {"space": "cosine", "max_neighbors": NEIGHBOURS, "ef_construction": CONSTRUCTION}
    graph["sync_threshold"] = 1  # otherwise vectors stay in a log and are inserted again each time the store is opened
    metadata = store_metadata(vectors)
    rows = np.flatnonzero(vectors.document >= 0)
    with _client(folder) as client:
        made = client.create_collection(
            _NAME, configuration={"hnsw": graph}, metadata=metadata, embedding_function=None
        )
        size = client.get_max_batch_size()
        for begin in range(0, rows.size, size):
            part = rows[begin : begin + size]
            made.add(ids=[str(row) for row in part.tolist()], embeddings=vectors.take(vectors.document[part]))


@contextmanager
def opened(folder: Path, vectors: Vectors) -> Iterator[Chroma]:
    """Opens a temporary copy of the store in a folder, since Chroma writes even when it only reads.

    Raises
    ------
    HarnessError
        The folder is not a store, is damaged, or was built from other vectors than these; or there is no room for the
        copy.
    """
    remedy = "delete this folder, and it is recomputed"
    with staging_names.folder("harness-chroma") as copy:
        try:
            shutil.copytree(folder, copy, dirs_exist_ok=True)
        except OSError as error:  # shutil.Error lists the errors of several files
            why = error.strerror or str(error.args[0][0][2] if isinstance(error, shutil.Error) else error)
            raise HarnessError(f"{folder}: cannot be copied to {copy} (TMPDIR may name another place): {why}") from None
        with _client(copy, folder) as client:
            try:
                collection = _stored_collection(client)
                held, made = collection.count(), dict(collection.metadata or {})
            except (library().errors.ChromaError, ValueError) as error:
                raise HarnessError(f"{folder}: not a store of vectors: {_first_line(error)}; {remedy}") from None
        if (held, made) != (int((vectors.document >= 0).sum()), store_metadata(vectors)):
            what = f"of {held} vectors of {made.get('dimensions', 'unknown')} dimensions"
            raise HarnessError(f"{folder}: a store {what}, made by another model or of other documents; {remedy}")
        store = Chroma(copy, vectors)
        try:
            yield store
        finally:
            store.close()


@contextmanager
def kept(vectors: Vectors, folder: Path) -> Iterator[Chroma]:
    """Opens the Chroma store of vectors that are stored as an artifact; builds it if there is none.

    Parameters
    ----------
    folder : folder of the vectors' artifact.

    Raises
    ------
    HarnessError
        Chroma is not installed, or the disk is full.
    """
    spec = {"vectors": folder.name, "chroma": f"{library().__version__} cosine {NEIGHBOURS} {CONSTRUCTION}"}
    with opened(artefacts.get_or_build("chroma-index", spec, lambda at: build(vectors, at)), vectors) as store:
        yield store


def store_metadata(vectors: Vectors) -> dict[str, Any]:
    """Returns the metadata of a store: number and dimensions of its vectors, and a checksum of ids and some vectors."""
    state = xxhash.xxh3_128()
    for array in (vectors.ids, vectors.document, vectors.values[:: len(vectors.values) // _LOOKED_AT + 1]):
        state.update(np.ascontiguousarray(array).tobytes())
    return {"documents": len(vectors), "dimensions": vectors.dimensions, "checksum": state.hexdigest()}


def _stored_collection(client: Any) -> Any:  # noqa: ANN401
    return client.get_collection(_NAME, embedding_function=None)


@contextmanager
def _client(folder: Path, shown: Path | None = None) -> Iterator[Any]:
    chromadb = library()
    quiet = chromadb.config.Settings(anonymized_telemetry=False)
    try:
        client = chromadb.PersistentClient(str(folder), settings=quiet)
    except (chromadb.errors.ChromaError, ValueError, OSError) as error:
        raise HarnessError(f"{shown or folder}: Chroma cannot open it: {_first_line(error)}") from None
    try:
        yield client
    finally:
        client.close()


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
