"""Corpora: streams of documents, each with a digest of its source, never a list in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import config
from harness.errors import HarnessError, format_error, suggestion
from harness.files import read_bytes, sha256_file


@dataclass(frozen=True)
class Document:
    """One document: an answer with the title and tags of its question, a formula, a theorem."""

    id: str
    title: str = ""
    body: str = ""
    tags: tuple[str, ...] = ()


_FIELDS = tuple(Document.__dataclass_fields__)


@dataclass(frozen=True)
class Corpus:
    """Documents in the order of their file; iterating reads it again.

    Attributes
    ----------
    fields : column of the file -> field of `Document`; several columns of one field are joined by a blank.
    """

    name: str
    title: str
    licence: str
    path: Path
    fields: tuple[tuple[str, str], ...]

    def digest(self) -> str:
        """The SHA-256 of the file behind the corpus."""
        return sha256_file(self.path)

    def __iter__(self) -> Iterator[Document]:
        seen: set[str] = set()
        for number, line in enumerate(read_bytes(self.path).split(b"\n"), 1):
            if not line.strip():
                continue
            document = self._document(line, number)
            if document.id.split() != [document.id] or not document.id.isprintable():
                reason = f"document id {document.id!r} is empty or holds blanks or unprintable characters"
                raise format_error(self.path, number, reason)
            if document.id in seen:
                raise format_error(self.path, number, f"document {document.id!r} stands on an earlier line already")
            seen.add(document.id)
            yield document

    def _document(self, line: bytes, number: int) -> Document:
        try:
            row = json.loads(line)
            parts: dict[str, list[str]] = {}
            for column, field in self.fields:
                value = row[column] if field == "id" else row.get(column)
                if value is not None:
                    parts.setdefault(field, []).append(" ".join(value) if isinstance(value, list) else str(value))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            reason = f"not a document: {type(error).__name__}: {error}"
            raise format_error(self.path, number, reason) from None
        words = {field: " ".join(values) for field, values in parts.items()}
        return Document(
            words.get("id", ""), words.get("title", ""), words.get("body", ""), tuple(words.get("tags", "").split())
        )


def load_corpus(name: str) -> Corpus:
    """A corpus by name; raises HarnessError for an unknown name or a fault in its configuration."""
    mapping, where = config.load("corpus", name)
    config.check_keys(mapping, ("name", "title", "licence", "file", "fields"), (), where)
    config.check_types(mapping, {"file": dict, "fields": dict}, where)
    if mapping["name"] != name:
        raise HarnessError(f"{where}: key 'name' is {mapping['name']!r}, expected the file's name {name!r}")
    for field in mapping["fields"].values():
        if field not in _FIELDS:
            raise HarnessError(f"{where}: fields: {field!r} is unknown; {suggestion(str(field), _FIELDS)}")
    if "id" not in mapping["fields"].values():
        raise HarnessError(f"{where}: fields: no column is the 'id'")
    path = config.resource(mapping["file"], where)
    from harness.collections import local

    fields = tuple((str(column), str(field)) for column, field in mapping["fields"].items())
    return Corpus(name, str(mapping["title"]), str(mapping["licence"]), local(path), fields)
