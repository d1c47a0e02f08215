"""The process in which Pyserini runs, with its Java."""

from __future__ import annotations

import gc
import importlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.systems.foreign.process import serve_job

DOCUMENTS = "documents.jsonl"  # pairs of id and text
BATCH = 32  # documents that are encoded at a time
QUERIES: Mapping[str, Mapping[str, str]] = {  # searcher -> class of the configuration -> class of Pyserini
    "impact": {"splade": "SpladeQueryEncoder", "unicoil": "UniCoilQueryEncoder"},
    "faiss": {
        "auto": "AutoQueryEncoder",
        "aggretriever": "AggretrieverQueryEncoder",
        "ance": "AnceQueryEncoder",
        "arctic": "ArcticQueryEncoder",
        "cosdpr": "CosDprQueryEncoder",
        "dkrr": "DkrrDprQueryEncoder",
        "dpr": "DprQueryEncoder",
        "qwen3": "Qwen3QueryEncoder",
        "tct_colbert": "TctColBertQueryEncoder",
    },
}


def work(job: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Builds an index (`task` is `index`) or searches one (`search`); the keys of a job are those of `Pyserini`.

    Returns
    -------
    For a search, topic -> pairs of document and score, and topic -> seconds.
    """
    _start(job["jar"])
    if job["task"] == "index":
        return (_faiss if job["searcher"] == "faiss" else _impact)(job, Path(job["folder"]))
    return _search_topics(job)


def _start(jar: str) -> None:
    """Starts Java before Pyserini does, which asks for a module that small runtimes lack and that it does not need."""
    # Python's collector of cycles crashed in an object of pyjnius that was being made (pyjnius 1.9.0).
    gc.disable()
    jnius: Any = importlib.import_module("jnius_config")
    jnius.add_classpath(jar)
    # A crash must not write its log to the current folder.
    jnius.add_options("-XX:-UsePerfData", f"-XX:ErrorFile={sys.argv[1]}/java.log")
    importlib.import_module("jnius")
    # Pyserini makes a client of OpenAI when it is imported, for encoders that are not used here.
    os.environ.setdefault("OPENAI_API_KEY", "unset")


def _make_encoder(job: Mapping[str, Any], *, query: bool) -> Any:  # noqa: ANN401
    """Makes Pyserini's encoder of queries or documents."""
    encoders: Any = importlib.import_module("pyserini.encode")
    name = QUERIES[job["searcher"]][job["encoder_class"]]
    name = name if query else name.replace("Query", "Document")
    if not hasattr(encoders, name):
        raise HarnessError(f"encoder_class={job['encoder_class']} has no encoder of documents; give the key 'index'")
    return getattr(encoders, name)(job["encoder"], device=job["device"], **job["encoder_options"])


# ---- search ---------------------------------------------------------------------------------------------------------


def _make_searcher(job: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Opens an index in a folder, or one that Pyserini offers prebuilt, with the settings of a job."""
    lucene: Any = importlib.import_module("pyserini.search.lucene")
    kind = job["searcher"]
    extra = [] if kind == "lucene" else [None if job["encoder"] is None else _make_encoder(job, query=True)]
    if kind == "faiss":
        searcher_class = importlib.import_module("pyserini.search.faiss").FaissSearcher
    else:
        searcher_class = lucene.LuceneSearcher if kind == "lucene" else lucene.LuceneImpactSearcher
    if job["prebuilt"] is None:
        searcher = searcher_class(job["folder"], *extra)
    else:
        searcher = searcher_class.from_prebuilt_index(job["prebuilt"], *extra)
        if searcher is None:  # it prints the reason
            raise HarnessError(f"index {job['prebuilt']!r} is neither a folder nor a prebuilt index that can be had")
    if kind == "lucene":
        if job["similarity"] == "qld":
            searcher.set_qld(float(job["mu"]))
        else:
            searcher.set_bm25(float(job["k1"]), float(job["b"]))
        for name in ("rm3", "rocchio"):
            if job[name] is not None:
                getattr(searcher, f"set_{name}")(**job[name])
    return searcher


def _search_topics(job: Mapping[str, Any]) -> dict[str, Any]:
    """Searches the topics of a job; returns their documents with scores, and seconds."""
    searcher = _make_searcher(job)
    count = int(searcher.num_docs)
    hits_of: dict[str, list[tuple[str, float]]] = {}
    seconds: dict[str, float] = {}
    for topic, text in job["queries"].items():
        start = time.perf_counter()
        hits = searcher.search(text, min(count, job["depth"] or count))
        hits_of[topic] = [(hit.docid, float(hit.score)) for hit in hits]
        seconds[topic] = time.perf_counter() - start
    return {"found": hits_of, "seconds": seconds}


# ---- indexes of a corpus --------------------------------------------------------------------------------------------


def _batches(folder: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Yields ids and texts of documents."""
    ids: list[str] = []
    texts: list[str] = []
    with (folder / DOCUMENTS).open(encoding="utf-8") as lines:
        for line in lines:
            doc, text = json.loads(line)
            ids.append(doc)
            texts.append(text)
            if len(ids) == BATCH:
                yield ids, texts
                ids, texts = [], []
    if ids:
        yield ids, texts


def _faiss(job: Mapping[str, Any], folder: Path) -> None:
    """Writes an exact index of the documents' vectors, as FaissSearcher reads it."""
    import numpy as np

    faiss: Any = importlib.import_module("faiss")
    encoder = _make_encoder(job, query=False)
    index = None
    with (folder / "docid").open("w", encoding="utf-8") as ids:
        for docs, texts in _batches(folder):
            vectors = np.ascontiguousarray(encoder.encode(texts), dtype=np.float32)
            index = faiss.IndexFlatIP(vectors.shape[1]) if index is None else index
            index.add(vectors)
            ids.writelines(f"{doc}\n" for doc in docs)
    faiss.write_index(index, str(folder / "index"))


def _impact(job: Mapping[str, Any], folder: Path) -> None:
    """Writes a Lucene index of the documents' weighted word pieces."""
    encoder = _make_encoder(job, query=False)
    (folder / "vectors").mkdir()
    with (folder / "vectors" / "vectors.jsonl").open("w", encoding="utf-8") as lines:
        for docs, texts in _batches(folder):
            for doc, vector in zip(docs, encoder.encode(texts), strict=True):
                lines.write(json.dumps({"id": doc, "contents": "", "vector": vector}) + "\n")
    pyclass: Any = importlib.import_module("pyserini.pyclass")
    arguments = ["-collection", "JsonVectorCollection"]
    arguments += ["-input", str(folder / "vectors"), "-index", str(folder / "index")]
    arguments += ["-generator", "DefaultLuceneDocumentGenerator", "-threads", "1", "-impact", "-pretokenized"]
    pyclass.autoclass("io.anserini.index.IndexCollection").main(arguments)
    if not list((folder / "index").glob("segments_*")):
        raise HarnessError("IndexCollection wrote no index")
    shutil.rmtree(folder / "vectors")


if __name__ == "__main__":
    serve_job(work)
