"""Approximate search in Chroma, the vector store of the Mathlib4 paper: cosines over a graph of neighbours (HNSW).

Source: Gao et al., "A Semantic Search Engine for Mathlib4" (2024), section 3.2, which names neither Chroma's version
nor the numbers of the graph; those here are its defaults. Chroma's embedded form is used: a folder, and no server. It
comes with the extra `chroma`, and is not imported before it is used. Chroma builds the graph with several threads, so
that a graph made again may have other edges; all of a graph is written, and one that is kept gives the same answers
each time. What a search holds in view (`ef`) is read with the graph: a store is opened anew to be asked for another.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from harness.errors import HarnessError
from harness.io.checks import whole
from harness.store import artefacts
from harness.systems.dense.maxsim import Floats32, Rows, Vectors

NEIGHBOURS = 16  # of each vector in the graph, at most
CONSTRUCTION = 100  # candidates while the graph is built
GET = "pip install 'mathir-harness[chroma]'"
_NAME = "documents"
_TOGETHER = 256  # queries of one call
_LOOKED_AT = 1000  # vectors, by which those of another model are told: there may be gigabytes


def library() -> Any:  # noqa: ANN401
    """Returns the package; HarnessError if it is not installed."""
    try:
        import chromadb
    except ImportError:
        raise HarnessError(f"chromadb is not installed: {GET}") from None
    return chromadb


@dataclass(eq=False)
class Chroma:
    """A store of documents' single vectors; an `Index` of `search`.

    Attributes
    ----------
    folder : of the store, in which Chroma writes. The ids there are rows of documents.
    indexed : the vectors that it was made from.
    """

    folder: Path
    indexed: Vectors
    _ef: int = 0  # candidates of a search, with which the store is open; 0: it is not
    _collection: Any = None
    _open: ExitStack = field(default_factory=ExitStack)

    def documents(self, queries: Floats32, k: int, ef: int) -> Rows:
        """Documents whose single vectors are nearest by cosine, shape (queries, k); -1 where fewer were found."""
        if ef != self._ef:
            self._reopen(ef)
        most = min(k, int((self.indexed.document >= 0).sum()))
        out = np.full((len(queries), k), -1)
        for begin in range(0, len(queries), _TOGETHER):
            part = np.ascontiguousarray(queries[begin : begin + _TOGETHER], np.float32)
            try:
                found = self._collection.query(query_embeddings=part, n_results=most, include=[])["ids"]
            except library().errors.ChromaError as error:
                raise HarnessError(f"Chroma: {_first(error)}") from None
            for row, ids in enumerate(found, begin):
                out[row, : len(ids)] = np.array(ids, np.int64)
        return out

    def vectors(self, queries: Floats32, k: int, ef: int) -> Rows:
        """Rows of the nearest of these vectors, shape (queries, k); -1 where fewer were found."""
        near = self.documents(queries, k, ef)
        return np.where(near < 0, -1, self.indexed.document[near])

    def close(self) -> None:
        """Lets go of the store; asked again, it is opened again."""
        self._ef = 0
        self._open.close()

    def _reopen(self, ef: int) -> None:
        self.close()
        with _client(self.folder) as client:
            _held(client).modify(configuration={"hnsw": {"ef_search": ef}})
        self._collection = _held(self._open.enter_context(_client(self.folder)))
        self._ef = ef


def build(vectors: Vectors, folder: Path, *, neighbours: int = NEIGHBOURS, construction: int = CONSTRUCTION) -> None:
    """Writes a store of documents' single vectors to a folder that is empty.

    Raises
    ------
    HarnessError
        Chroma is not installed or cannot write, or an argument is out of its range.
    """
    whole("neighbours", neighbours, low=2)
    whole("construction", construction, low=1)
    graph: dict[str, Any] = {"space": "cosine", "max_neighbors": neighbours, "ef_construction": construction}
    graph["sync_threshold"] = 1  # vectors that wait in a log would be linked anew, otherwise, whenever it is opened
    about = _about(vectors)
    rows = np.flatnonzero(vectors.document >= 0)
    with _client(folder) as client:
        made = client.create_collection(_NAME, configuration={"hnsw": graph}, metadata=about, embedding_function=None)
        size = client.get_max_batch_size()
        for begin in range(0, rows.size, size):
            part = rows[begin : begin + size]
            made.add(ids=[str(row) for row in part.tolist()], embeddings=vectors.take(vectors.document[part]))


@contextmanager
def opened(folder: Path, vectors: Vectors) -> Iterator[Chroma]:
    """The store in a folder, for the vectors that it was made from; it works on a copy, as Chroma writes when it reads.

    Raises
    ------
    HarnessError
        It is none, is damaged, or was made from other vectors, those of another model say; there is no room to copy it.
    """
    remedy = "delete this folder, and it is made anew"
    with tempfile.TemporaryDirectory(prefix="harness-chroma-") as copy:
        try:
            shutil.copytree(folder, copy, dirs_exist_ok=True)
        except OSError as error:  # that of several files has a list
            why = error.strerror or str(error.args[0][0][2] if isinstance(error, shutil.Error) else error)
            raise HarnessError(f"{folder}: cannot be copied to {copy} (TMPDIR may name another place): {why}") from None
        with _client(Path(copy), folder) as client:
            try:
                found = _held(client)
                held, about = found.count(), dict(found.metadata or {})
            except (library().errors.ChromaError, ValueError) as error:
                raise HarnessError(f"{folder}: not a store of vectors: {_first(error)}; {remedy}") from None
        if (held, about) != (int((vectors.document >= 0).sum()), _about(vectors)):
            of = f"of {held} vectors of {about.get('dimensions', 'unknown')} dimensions"
            raise HarnessError(f"{folder}: a store {of}, made by another model or of other documents; {remedy}")
        store = Chroma(Path(copy), vectors)
        try:
            yield store
        finally:
            store.close()


@contextmanager
def kept(vectors: Vectors, folder: Path) -> Iterator[Chroma]:
    """The store of vectors that are an artefact in a folder, from the harness's store or made now.

    Raises
    ------
    HarnessError
        Chroma is not installed, or the disk is full.
    """
    spec = {"vectors": folder.name, "chroma": f"{library().__version__} cosine {NEIGHBOURS} {CONSTRUCTION}"}
    with opened(artefacts.get_or_build("chroma-index", spec, lambda at: build(vectors, at)), vectors) as found:
        yield found


def _about(vectors: Vectors) -> dict[str, Any]:
    """What a store says of the vectors that it was made from: their numbers, and a checksum of ids and some vectors."""
    state = xxhash.xxh3_128()
    for array in (vectors.ids, vectors.document, vectors.values[:: len(vectors.values) // _LOOKED_AT + 1]):
        state.update(np.ascontiguousarray(array).tobytes())
    return {"documents": len(vectors), "dimensions": vectors.dimensions, "checksum": state.hexdigest()}


def _held(client: Any) -> Any:  # noqa: ANN401
    return client.get_collection(_NAME, embedding_function=None)


@contextmanager
def _client(folder: Path, shown: Path | None = None) -> Iterator[Any]:
    chromadb = library()
    quiet = chromadb.config.Settings(anonymized_telemetry=False)
    try:
        client = chromadb.PersistentClient(str(folder), settings=quiet)
    except (chromadb.errors.ChromaError, ValueError, OSError) as error:
        raise HarnessError(f"{shown or folder}: Chroma cannot open it: {_first(error)}") from None
    try:
        yield client
    finally:
        client.close()


def _first(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
