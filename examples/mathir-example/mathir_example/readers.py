"""Readers of the collection's files: topics, judgments and documents, each in a form of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.collections.corpus import Document
from harness.data.markup import formulas_in
from harness.data.topics import Formula, Topic
from harness.data.trec import Qrels
from harness.errors import format_error


def topics(data: bytes, path: str, language: str) -> Iterator[Topic]:
    """A line a topic: `id | kind | question`."""
    for number, line in enumerate(data.decode("utf-8").splitlines(), 1):
        parts = [part.strip() for part in line.split("|")]
        if len(parts) != 3:
            raise format_error(path, number, "expected 'id | kind | question'")
        name, kind, question = parts
        yield Topic(name, question, formulas=_formulas(name, question), language=language, attributes={"kind": kind})


def judgments(data: bytes, path: str, edition: str) -> Qrels:
    """A line a topic: `id: document=grade document=grade ...`."""
    grades: dict[str, dict[str, float]] = {}
    for number, line in enumerate(data.decode("utf-8").splitlines(), 1):
        topic, _, judged = line.partition(":")
        pairs = [pair.partition("=") for pair in judged.split()]
        if not pairs or not all(grade.isdecimal() for _, _, grade in pairs):
            raise format_error(path, number, "expected 'id: document=grade ...'")
        grades[topic] = {document: float(grade) for document, _, grade in pairs}
    return Qrels.from_dict(edition, grades)


def documents(paths: Sequence[Path]) -> Iterator[Document]:
    """Blocks between blank lines: `# id title`, then the text."""
    for path in paths:
        for block in path.read_text(encoding="utf-8").strip().split("\n\n"):
            head, _, body = block.partition("\n")
            mark, name, title = head.split(" ", 2)
            if mark != "#":
                raise format_error(path, 0, f"{head!r}: expected '# id title'")
            yield Document(name, title, body, formulas=_formulas(name, f"{title} {body}"))


def _formulas(name: str, text: str) -> tuple[Formula, ...]:
    return tuple(Formula(f"{name}.{number}", latex) for number, latex in enumerate(formulas_in(text), 1))
