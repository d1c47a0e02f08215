"""Approximate search in Milvus Lite, the embedded Milvus: inner products over HNSW graphs.

Milvus Lite 3 is written in Python. It stores vectors in segments, each with a graph of FAISS, and looks at every row
number in Python at each search, so that its time grows with the corpus. Its index types are FLAT, HNSW, HNSW_SQ,
IVF_FLAT and IVF_SQ8; AUTOINDEX is HNSW. It comes with the extra `milvus`, is imported only when used, and runs in this
process, without a server and without pymilvus.

Graphs are built by a single thread and segments are written one at a time, to be reproducible.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.io import staged
from harness.io.checks import whole
from harness.store import artefacts
from harness.systems.dense.chroma import about
from harness.systems.dense.maxsim import Floats32, Rows, Vectors

NEIGHBOURS = 16  # of each vector in the graph
CONSTRUCTION = 100  # candidates while the graph is built
GET = "pip install 'mathir-harness[milvus]'"
_NAME = "documents"
_ROW, _VECTOR = "row", "vector"
_STORE, _ABOUT = "store", "about.json"
_LOCK = "LOCK"  # file that Milvus Lite locks while a store is open
_TOGETHER = 256  # queries of one call
_INSERTED = 1000  # vectors of one call
_SEGMENT = 64 << 20  # bytes of the vectors that are written at a time; from twice as many on, Milvus Lite splits them


def library() -> Any:  # noqa: ANN401
    """Returns the module milvus_lite; raises HarnessError if it is not installed."""
    try:
        import milvus_lite
    except ImportError:
        raise HarnessError(f"milvus-lite is not installed: {GET}") from None
    return milvus_lite


@dataclass(frozen=True, eq=False)
class Milvus:
    """An open store of documents' single vectors; implements `search.Index`.

    Attributes
    ----------
    collection : milvus_lite.Collection. Its primary keys are rows of documents.
    indexed : vectors that the store was built from.
    """

    collection: Any
    indexed: Vectors

    def documents(self, queries: Floats32, k: int, ef: int) -> Rows:
        """Returns the documents with the nearest single vectors, shape (queries, k); -1 where fewer were found."""
        most = min(k, int((self.indexed.document >= 0).sum()))
        out = np.full((len(queries), k), -1)
        for begin in range(0, len(queries), _TOGETHER if most else len(queries) + 1):
            part = np.asarray(queries[begin : begin + _TOGETHER], np.float32).tolist()
            try:
                # With `ef` below k, FAISS would find fewer than k.
                found = self.collection.search(
                    part, top_k=most, metric_type="IP", output_fields=[], search_params={"ef": max(ef, most)}
                )
            except (library().MilvusLiteError, OSError, ValueError) as error:
                raise HarnessError(f"Milvus Lite: {_first(error)}") from None
            for row, hits in enumerate(found, begin):
                out[row, : len(hits)] = [hit["id"] for hit in hits]
        return out

    def vectors(self, queries: Floats32, k: int, ef: int) -> Rows:
        """Returns the rows of the nearest single vectors, shape (queries, k); -1 where fewer were found."""
        near = self.documents(queries, k, ef)
        return np.where(near < 0, -1, self.indexed.document[near])


def build(vectors: Vectors, folder: Path, *, neighbours: int = NEIGHBOURS, construction: int = CONSTRUCTION) -> None:
    """Builds a store of documents' single vectors in an empty folder.

    Raises
    ------
    HarnessError
        Milvus Lite is not installed or cannot write, or an argument is out of range.
    """
    whole("neighbours", neighbours, low=2)
    whole("construction", construction, low=1)
    milvus, store = library(), folder / _STORE
    graph = {"M": neighbours, "efConstruction": construction}
    rows = np.flatnonzero(vectors.document >= 0)
    size = max(_INSERTED, _SEGMENT // (4 * vectors.dimensions))
    with _client(store) as client:
        kinds = milvus.DataType
        fields = [
            milvus.FieldSchema(name=_ROW, dtype=kinds.INT64, is_primary=True),
            milvus.FieldSchema(name=_VECTOR, dtype=kinds.FLOAT_VECTOR, dim=vectors.dimensions),
        ]
        client.create_collection(_NAME, milvus.CollectionSchema(fields=fields))
    for begin in range(0, rows.size, size):
        with _client(store) as client:  # closing waits for a thread that merges small segments
            _insert(client.get_collection(_NAME), vectors, rows[begin : begin + size])
    with _client(store) as client, one_thread():
        made = client.get_collection(_NAME)
        made.create_index(_VECTOR, {"index_type": "HNSW", "metric_type": "IP", "params": graph})
        made.load()
    (store / _LOCK).unlink(missing_ok=True)
    (folder / _ABOUT).write_text(json.dumps(about(vectors)), encoding="utf-8")


def _insert(collection: Any, vectors: Vectors, rows: Rows) -> None:  # noqa: ANN401
    for begin in range(0, rows.size, _INSERTED):
        part = rows[begin : begin + _INSERTED]
        values = vectors.take(vectors.document[part]).astype(np.float32).tolist()
        collection.insert([{_ROW: row, _VECTOR: value} for row, value in zip(part.tolist(), values, strict=True)])


@contextmanager
def opened(folder: Path, vectors: Vectors) -> Iterator[Milvus]:
    """Opens the store in a folder, which other processes may open at the same time.

    Milvus Lite locks a store and writes to its folder, so a temporary folder with links to the files is opened.

    Raises
    ------
    HarnessError
        The folder is not a store, is damaged, or was built from other vectors than these.
    """
    library()
    remedy = "delete this folder, and it is recomputed"
    try:
        made = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise HarnessError(f"{folder}: not a store of vectors: {_first(error)}; {remedy}") from None
    if made != about(vectors):
        what = f"a store of vectors of {made.get('dimensions', 'unknown')} dimensions"
        raise HarnessError(f"{folder}: {what}, made by another model or of other documents; {remedy}")
    with staged.folder("harness-milvus") as place:
        linked = place / _STORE
        shutil.copytree((folder / _STORE).absolute(), linked, copy_function=os.symlink)
        with _client(linked, folder) as client:
            try:
                found = client.get_collection(_NAME)
                found.load()
                held = found.num_entities
            except (library().MilvusLiteError, OSError, ValueError, RuntimeError) as error:
                raise HarnessError(f"{folder}: not a store of vectors: {_first(error)}; {remedy}") from None
            if held != int((vectors.document >= 0).sum()):
                raise HarnessError(f"{folder}: a store of {held} vectors, expected {len(vectors)}; {remedy}")
            yield Milvus(found, vectors)


@contextmanager
def kept(vectors: Vectors, folder: Path) -> Iterator[Milvus]:
    """Opens the Milvus Lite store of vectors that are stored as an artifact; builds it if there is none.

    Parameters
    ----------
    folder : folder of the vectors' artifact.

    Raises
    ------
    HarnessError
        Milvus Lite is not installed, or the disk is full.
    """
    import faiss

    versions = f"{library().__version__} {faiss.__version__}"
    spec = {"vectors": folder.name, "milvus": f"{versions} HNSW IP {NEIGHBOURS} {CONSTRUCTION}"}
    with opened(artefacts.get_or_build("milvus-index", spec, lambda at: build(vectors, at)), vectors) as found:
        yield found


@contextmanager
def one_thread() -> Iterator[None]:
    """Makes FAISS use a single thread, so that graphs are reproducible."""
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


@contextmanager
def _client(folder: Path, shown: Path | None = None) -> Iterator[Any]:
    milvus = library()
    try:
        client = milvus.MilvusLite(str(folder))
    except (milvus.MilvusLiteError, ValueError, OSError) as error:
        raise HarnessError(f"{shown or folder}: Milvus Lite cannot open it: {_first(error)}") from None
    try:
        yield client
    finally:
        client.close()


def _first(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
