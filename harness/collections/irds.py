"""Collections and corpora of the package ir_datasets, by their ids there: `irds:cranfield`.

What ir_datasets gives is written to files once, as it stands, so that from there on it is read, checked and keyed by
its content like every other collection.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from harness.collections.corpus import Corpus
from harness.data.frames import library
from harness.errors import HarnessError
from harness.io.console import track
from harness.io.files import cache_root, sha256, write_atomic
from harness.store import artefacts

PREFIX = "irds:"
FIRST = 1000  # documents that tell one state of a corpus from another, besides their number


def dataset(name: str, *needed: str) -> Any:  # noqa: ANN401  (a class that ir_datasets makes)
    """Returns the dataset `irds:ID`, which must have some of `docs`, `queries` and `qrels`.

    Raises
    ------
    HarnessError
        ir_datasets is not installed, knows no such id, or the dataset has not what is needed.
    """
    try:
        found = library("ir_datasets", "ir-datasets").load(name.removeprefix(PREFIX))
    except KeyError:
        raise HarnessError(f"{name}: ir_datasets has no such id; its catalogue: https://ir-datasets.com") from None
    for part in needed:
        if not getattr(found, f"has_{part}")():
            raise HarnessError(f"{name}: this dataset of ir_datasets has no {part}; name one that has")
    return found


def files(name: str) -> tuple[Path, Path | None, int]:
    """Judgments (TREC) and topics (JSON lines, if there are any) as files, and how many have a grade below 0.

    These are left out: a grade below 0 says that a document was seen and not judged, and trec_eval takes it so.
    """
    found = dataset(name, "qrels")
    judged = list(_read(name, found.qrels_iter()))
    lines = [f"{row.query_id}\t0\t{row.doc_id}\t{row.relevance}\n" for row in judged if row.relevance >= 0]
    topics = None
    if found.has_queries():
        queries = ({"id": row.query_id, "title": _text(row)} for row in _read(name, found.queries_iter()))
        topics = _kept(name, "topics.jsonl", (json.dumps(row, ensure_ascii=False) + "\n" for row in queries))
    return _kept(name, "qrels.txt", lines), topics, sum(row.relevance < 0 for row in judged)


def corpus(name: str) -> Corpus:
    """The documents of a dataset, each with its text as `body`; written to the store when it is first asked for.

    Raises
    ------
    HarnessError
        As `dataset`; or the documents cannot be had.
    """
    found = dataset(name, "docs")
    first = [(row.doc_id, _text(row)) for row in islice(_read(name, found.docs_iter()), FIRST)]
    spec = {
        "id": name,
        "library": library("ir_datasets", "ir-datasets").__version__,
        "documents": found.docs_count(),
        "first": sha256(repr(first).encode("utf-8", "surrogatepass")),
    }

    def build(folder: Path) -> None:
        with (folder / "documents.jsonl").open("w", encoding="utf-8") as out:
            for row in track(_read(name, found.docs_iter()), f"documents of {name}", found.docs_count()):
                out.write(json.dumps({"id": row.doc_id, "body": _text(row)}) + "\n")

    path = artefacts.get_or_build("ir_datasets", spec, build) / "documents.jsonl"
    return Corpus(label(name), name, "see ir_datasets", path, (("id", "id"), ("body", "body")))


def label(name: str) -> str:
    """Returns the name as folders have it: `irds:beir/scifact` -> `irds-beir-scifact`."""
    return name.replace(":", "-").replace("/", "-")


def _read(name: str, rows: Iterable[Any]) -> Iterator[Any]:
    """Yields the rows, whose download or reading may fail in many ways."""
    try:
        yield from rows
    except (HarnessError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise HarnessError(f"{name}: ir_datasets: {type(error).__name__}: {' '.join(str(error).split())}") from None


def _text(row: Any) -> str:  # noqa: ANN401
    return str(row.default_text() if hasattr(row, "default_text") else row.text)


def _kept(name: str, file: str, lines: Iterable[str]) -> Path:
    """Returns a file of the cache with these lines, in a folder named by their content."""
    content = "".join(lines)
    path = cache_root() / "ir_datasets" / label(name) / sha256(content.encode())[:16] / file
    if not path.is_file() or path.read_text(encoding="utf-8") != content:
        write_atomic(path, content)
    return path
