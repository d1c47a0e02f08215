"""What a collection exports: its topics, documents and judgments as other programs understand them.

Text files written line by line, and the lines of JSON files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from harness.collections.collection import Collection
from harness.collections.corpora import JudgedBy
from harness.collections.corpus import Corpus, Document
from harness.collections.load import load_collection
from harness.data.topics import Formula, Topic, Topics
from harness.data.trec import Qrels
from harness.errors import HarnessError
from harness.scoring.protocol import Protocol, load_protocol

# Line ends to some readers (str.splitlines) that JSON need not escape.
_ENDS = str.maketrans({"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Writes lines as they come, so that a file larger than the memory can be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for line in lines:
            out.write(line)


def json_line(row: object) -> str:
    r"""Returns one line of a JSON file, in which only its end is a line end.

    Examples
    --------
    >>> json_line({"_id": "d1", "text": "a\u2028b ≤ c"})
    '{"_id": "d1", "text": "a\\u2028b ≤ c"}\n'
    """
    line = json.dumps(row, ensure_ascii=False).translate(_ENDS)
    try:
        line.encode()
    except UnicodeEncodeError:  # half of a pair of surrogates
        line = json.dumps(row)
    return f"{line}\n"


Judgments = Mapping[str, Mapping[str, int]]  # topic -> document -> grade


@dataclass
class Seen:
    """What the writer of the documents noticed; judgments are limited to these documents.

    Attributes
    ----------
    documents : number of documents written.
    judged : judged ids that occur, by the name under which they are judged -> documents of that name.
    keys : document -> key of de-duplication, of all documents; empty if documents are judged by their own ids.
    """

    documents: int = 0
    judged: dict[str, list[str]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Contents:
    """A collection and the corpus that it is exported with.

    Attributes
    ----------
    edition : the edition of the judgments.
    topics : all topics, in order.
    qrels : judgments with whole grades; None if they are not exported.
    protocol : the collection's own.
    excluded : topic -> excluded documents; None if the collection has no such list.
    """

    collection: Collection
    corpus: Corpus
    edition: str
    topics: Topics
    qrels: Qrels | None
    protocol: Protocol
    excluded: Mapping[str, frozenset[str]] | None

    @property
    def keyed(self) -> bool:
        """Whether documents are judged by keys (visual ids of formulas) that are not their ids."""
        return self.protocol.deduplicate and not self.corpus.ids_are_keys

    def documents(self, seen: Seen) -> Iterator[Document]:
        """Yields the documents one by one, and fills `seen` on the way."""
        of_collection = self.collection.keys() if self.keyed and not self.corpus.has_keys else None
        judged = frozenset() if self.qrels is None else frozenset(doc.decode() for doc in self.qrels.doc.tolist())
        for document in self.corpus:
            name = document.id
            if self.keyed:
                own = document.formulas[0].visual_id if document.formulas else ""
                name = own if of_collection is None else of_collection.get(document.id, "")
                if name:
                    seen.keys[document.id] = name
            if name in judged:
                seen.judged.setdefault(name, []).append(document.id)
            seen.documents += 1
            yield document

    def judgments(self, seen: Seen) -> Judgments:
        """Returns the judgments of exported documents; a judged key stands for each document that has it."""
        out: dict[str, dict[str, int]] = {}
        if self.qrels is None:
            return out
        for topic, name, grade in judgment_rows(self.qrels):
            for doc in seen.judged.get(name, ()):
                out.setdefault(topic, {})[doc] = grade
        return out

    def present(self, seen: Seen) -> int:
        """Returns how many of the judgments are of exported documents."""
        return 0 if self.qrels is None else sum(name in seen.judged for _, name, _ in judgment_rows(self.qrels))

    def query(self, topic: Topic) -> str:
        """Returns a topic as one text: the query formula in formula search, else title and body."""
        if self.protocol.deduplicate and len(topic.formulas) == 1:
            return f"${topic.formulas[0].latex}$"
        return "\n".join(filter(None, (topic.title, topic.body)))


def judgment_rows(qrels: Qrels) -> Iterator[tuple[str, str, int]]:
    """Yields topic, document or key, and whole grade of each judgment."""
    columns = zip(qrels.topic.tolist(), qrels.doc.tolist(), qrels.grade.tolist(), strict=True)
    return ((qrels.topics[topic], doc.decode(), int(grade)) for topic, doc, grade in columns)


def body(document: Document) -> str:
    """Returns the text of a document; of a document that is a formula, its LaTeX in dollars.

    Examples
    --------
    >>> from harness.data.topics import Formula
    >>> body(Document("f1", body="x^2", formulas=(Formula("f1", "x^2"),)))
    '$x^2$'
    """
    if len(document.formulas) == 1 and not document.title and document.body in ("", document.formulas[0].latex):
        return f"${document.formulas[0].latex}$"
    return document.body


def document_metadata(document: Document) -> dict[str, Any]:
    """Returns what a title and a text do not hold: tags, formulas with their ids, further columns."""
    return _without_empty(tags=document.tags, formulas=document.formulas, columns=document.columns)


def topic_metadata(topic: Topic) -> dict[str, Any]:
    """Returns the parts of a topic."""
    said = {"title": topic.title, "body": topic.body, "language": topic.language}
    return said | _without_empty(tags=topic.tags, formulas=topic.formulas, attributes=topic.attributes)


def _without_empty(tags: Sequence[str], formulas: Sequence[Formula], **names: Mapping[str, str]) -> dict[str, Any]:
    out: dict[str, Any] = {"tags": list(tags)} if tags else {}
    if formulas:
        given = [(("id", each.id), ("latex", each.latex), ("visual_id", each.visual_id)) for each in formulas]
        out["formulas"] = [{key: value for key, value in each if value or key != "visual_id"} for each in given]
    return out | {key: dict(value) for key, value in names.items() if value}


def contents(
    collection: Collection, corpus: Corpus, edition: str | None = None, *, judgments: bool = True, rounded: bool = False
) -> Contents:
    """Returns what is exported, after checking that nothing private is part of it.

    Parameters
    ----------
    judgments : export the judgments (and exclusions) of the edition.
    rounded : round real grades to whole ones, halves up.

    Raises
    ------
    HarnessError
        The edition is private, the corpus holds the documents judged by a private edition, the topics are known from
        private judgments only, or a grade is not whole and `rounded` is false.
    """
    chosen = collection.edition(edition)
    if chosen.private and judgments:
        others = [name for name, each in collection.editions.items() if not each.private]
        named = f"--edition {others[0]}" if others else "another one with --edition"
        raise HarnessError(
            f"collection {collection.name}: edition {chosen.name} is private, and its judgments are never exported; "
            f"name {named}, or export topics and documents alone with --no-judgments"
        )
    _check_documents(corpus)
    if chosen.private and collection.topic_file is None:
        raise HarnessError(
            f"collection {collection.name}: its topics are those of the private judgments and are never exported"
        )
    protocol = load_protocol(collection.protocol)
    qrels = _with_whole_grades(collection.qrels(chosen.name), collection, rounded) if judgments else None
    excluded = collection.listed(chosen) if judgments else None
    return Contents(collection, corpus, chosen.name, collection.topics(), qrels, protocol, excluded)


def _check_documents(corpus: Corpus) -> None:
    """Raises HarnessError for a corpus of the documents that a private edition judges: their ids would reveal it."""
    for entry in corpus.part.collections if isinstance(corpus.part, JudgedBy) else ():
        name, _, only = entry.partition("/")
        collection = load_collection(name)
        for edition in (only,) if only else collection.editions:
            if collection.edition(edition).private:
                raise HarnessError(
                    f"corpus {corpus.name}: holds the documents that {name}, edition {edition}, judges, which is "
                    "private; name another corpus with --corpus"
                )


def _with_whole_grades(qrels: Qrels, collection: Collection, rounded: bool) -> Qrels:
    grades = np.floor(qrels.grade + 0.5)
    broken = grades != qrels.grade
    if broken.any() and not rounded:
        row = int(broken.argmax())
        raise HarnessError(
            f"collection {collection.name}: document {qrels.doc[row].decode()!r} of topic "
            f"{qrels.topics[qrels.topic[row]]!r} has grade {qrels.grade[row]:g}, and these forms hold whole numbers; "
            "--round rounds them"
        )
    return Qrels(qrels.edition, qrels.topics, qrels.topic, qrels.doc, grades, qrels.sha256) if broken.any() else qrels
