"""Writer of BEIR's form: `corpus.jsonl`, `queries.jsonl`, `qrels/test.tsv`, and MIRB's list of exclusions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.collections.readers.beir import SPLIT
from harness.collections.writers.contents import (
    Contents,
    Judgments,
    Seen,
    body,
    document_metadata,
    topic_metadata,
)
from harness.collections.writers.lines import json_line, write_lines


def write(data: Contents, folder: Path, *, metadata: bool = True) -> Seen:
    """Writes all files; returns what was written.

    Parameters
    ----------
    metadata : write tags, formulas and further columns as BEIR's `metadata`, and judgments as a table. Without it,
        files are as mteb reads them: the same columns on each line, and judgments as JSON lines.
    """
    seen = Seen()
    write_lines(folder / "corpus.jsonl", _document_lines(data, seen, metadata))
    write_lines(folder / "queries.jsonl", _query_lines(data, metadata))
    judgments = data.judgments(seen)
    if data.qrels is not None:
        if metadata:
            write_lines(folder / "qrels" / f"{SPLIT}.tsv", _judgment_lines(judgments))
        else:
            write_lines(folder / "qrels" / f"{SPLIT}.jsonl", _judgment_objects(judgments))
    if data.excluded is not None:
        rows = ({"query-id": name, "excluded-ids": sorted(docs)} for name, docs in sorted(data.excluded.items()))
        write_lines(folder / "excluded_ids.jsonl", map(json_line, rows))
    return seen


def _document_lines(data: Contents, seen: Seen, metadata: bool) -> Iterator[str]:
    for document in data.documents(seen):
        row: dict[str, object] = {"_id": document.id, "title": document.title, "text": body(document)}
        if metadata and (more := document_metadata(document)):
            row["metadata"] = more
        yield json_line(row)


def _query_lines(data: Contents, metadata: bool) -> Iterator[str]:
    for topic in data.topics:
        row: dict[str, object] = {"_id": topic.id, "text": data.query(topic)}
        yield json_line(row | {"metadata": topic_metadata(topic)} if metadata else row)


def _judgment_lines(judgments: Judgments) -> Iterator[str]:
    yield "query-id\tcorpus-id\tscore\n"
    for topic, grades in judgments.items():
        yield from (f"{topic}\t{doc}\t{grade}\n" for doc, grade in grades.items())


def _judgment_objects(judgments: Judgments) -> Iterator[str]:
    for topic, grades in judgments.items():
        for doc, grade in grades.items():
            yield json_line({"query-id": topic, "corpus-id": doc, "score": grade})
