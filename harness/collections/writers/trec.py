"""Writer of TREC's form: `documents.trec`, `topics.trec`, `topics.tsv`, `qrels.txt`, and keys of de-duplication."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

from harness.collections.writers.contents import Contents, Seen, body
from harness.collections.writers.lines import json_line, write_lines
from harness.data.topics import Topic
from harness.errors import HarnessError

# What readers of topics take for the beginning of a field, wherever it stands.
_MARK = re.compile(r"</?(top|num|title|desc|narr|head|dom|smry|con|fac|nat|def|time)>", re.IGNORECASE)
_LABEL = re.compile(r"Topic:", re.IGNORECASE)


def write(data: Contents, folder: Path) -> Seen:
    """Writes all files; returns what was written.

    Raises
    ------
    HarnessError
        A topic has a text that the form cannot hold.
    """
    seen = Seen()
    write_lines(folder / "documents.trec", _document_elements(data, seen))
    write_lines(folder / "topics.trec", (_topic_element(topic) for topic in data.topics))
    write_lines(folder / "topics.tsv", (f"{topic.id}\t{_in_one_line(data.query(topic))}\n" for topic in data.topics))
    if data.qrels is not None:
        write_lines(folder / "qrels.txt", _judgment_lines(data, seen))
    if data.keyed:
        keys = (f"{doc}\t{key}\n" for doc, key in seen.keys.items())
        write_lines(folder / "keys.tsv", ["id\tkey\n", *keys])
    if data.excluded is not None:
        rows = ({"query-id": name, "excluded-ids": sorted(docs)} for name, docs in sorted(data.excluded.items()))
        write_lines(folder / "excluded_ids.jsonl", map(json_line, rows))
    return seen


def _document_elements(data: Contents, seen: Seen) -> Iterator[str]:
    for document in data.documents(seen):
        title = f"<TITLE>\n{escape(_in_one_line(document.title), quote=False)}\n</TITLE>\n" if document.title else ""
        text = escape(body(document), quote=False).replace("\r\n", "\n").replace("\r", "\n")
        yield f"<DOC>\n<DOCNO>{document.id}</DOCNO>\n{title}<TEXT>\n{text}\n</TEXT>\n</DOC>\n"


def _topic_element(topic: Topic) -> str:
    title, description = _in_one_line(topic.title), _in_one_line(topic.body)
    if not title:  # which the form requires
        title, description = description, ""
    if mark := _MARK.search(f"{title} {description}"):
        raise HarnessError(f"topic {topic.id!r}: its text has {mark[0]!r}, a mark of TREC's form; export it --as beir")
    label = "Topic: " if _LABEL.match(title) else ""
    return (
        f"<top>\n<num> Number: {topic.id}\n<title> {label}{title}\n<desc> Description: {description}\n"
        "<narr> Narrative:\n</top>\n\n"
    )


def _judgment_lines(data: Contents, seen: Seen) -> Iterator[str]:
    """Yields four columns; judgments by key stay as they are, with `keys.tsv` beside them."""
    qrels = data.qrels
    assert qrels is not None  # noqa: S101  (for mypy)
    for topic, doc, grade in zip(qrels.topic.tolist(), qrels.doc.tolist(), qrels.grade.tolist(), strict=True):
        if (name := doc.decode()) in seen.judged:
            yield f"{qrels.topics[topic]} 0 {name} {int(grade)}\n"


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
