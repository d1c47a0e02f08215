"""Forms of files by the name of their `reader` in configurations: what reads topics, judgments and documents.

A module of readers declares its forms as `READERS`. All modules in `harness.collections.readers` are searched, and of
each paper the module `readers`.

Readers of other packages are named by module and function, `reader: package.module:function`. They are imported when
something is read. Their exceptions and invalid results become a one-line error that names the reader; a `HarnessError`
is passed on unchanged (`harness.errors.format_error` makes one with file and line).

- Topics: `function(data: bytes, path: str, language: str) -> Topics`, or an iterable of `Topic`.
- Judgments: `function(data: bytes, path: str, edition: str) -> Qrels`, or topic -> document -> grade.
- A corpus: `function(paths: tuple[Path, ...])`, an iterable of `Document`; a path is a file, or a folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeVar

from harness.collections.corpus import Corpus, CorpusReader, Document, Documents, Remarks
from harness.data import topic_files
from harness.data.records import checked, flat, numeric
from harness.data.topics import Formula, Topic, Topics
from harness.data.trec import Qrels, parse_qrels
from harness.errors import FormatError, HarnessError
from harness.formulas.text.delimiters import DOLLARS, Dollars
from harness.io import extensions
from harness.io.modules import inside
from harness.io.names import check_id

First = Mapping[str, object] | Sequence[str]  # of a file of topics: the first item of a JSON list, or the first columns
What = Literal["topics", "judgments", "documents", "places"]


@dataclass(frozen=True)
class FileForm:
    """A form of files, with the readers of what such files can hold.

    Attributes
    ----------
    topics, judgments : read the content of a file, its path in messages, and the language or the name of the edition.
    documents : reader of a corpus.
    places : reads a file's content and path to id -> position.
    folder : whether it reads a folder, or all files of a source, in place of a file; the content is then empty.
    dollars : which dollar signs of topics enclose formulas.
    first : whether a file of topics without a named reader has this form, by how it begins.
    source, check : source of a file that its users download, and what raises HarnessError for a wrong one.
    """

    name: str
    topics: Callable[[bytes, str, str], Topics] | None = None
    judgments: Callable[[bytes, str, str], Qrels] | None = None
    documents: CorpusReader | None = None
    places: Callable[[bytes, str], dict[str, float]] | None = None
    folder: bool = False
    dollars: Dollars | None = None
    first: Callable[[First], bool] | None = None
    source: str = ""
    check: Callable[[Path], None] | None = None


def _read_trec(data: bytes, path: str, edition: str) -> Qrels:
    return parse_qrels(data, path, edition=edition)


_PANDOC = ("trec", "tsv")  # topics of any subject, whose texts may hold amounts of money
_PLAIN = {
    name: FileForm(name, read, _read_trec if name == "trec" else None, dollars="pandoc" if name in _PANDOC else None)
    for name, read in topic_files.READERS.items()
}


@cache
def forms() -> tuple[FileForm, ...]:
    """Returns the forms of all modules of readers; a name may stand for several, such as one of topics and a corpus."""
    modules = [*inside("harness.collections.readers"), *inside("harness.papers", "readers")]
    return (*_PLAIN.values(), *(form for name in modules for form in getattr(import_module(name), "READERS", ())))


def readers(what: What) -> dict[str, Any]:
    """Returns name -> reader of topics, judgments, documents or places."""
    return {form.name: reader for form in forms() if (reader := getattr(form, what)) is not None}


def reader(name: str, what: What) -> Any:  # noqa: ANN401  (a function for each kind)
    """Returns the reader of a name; modules are imported for other names than those of plain files."""
    plain = _PLAIN.get(name)
    return (plain is not None and getattr(plain, what)) or readers(what)[name]


def known(name: str, what: What) -> bool:
    """Returns whether a reader has this name; modules are imported for other names than those of plain files."""
    plain = _PLAIN.get(name)
    return (plain is not None and getattr(plain, what) is not None) or name in readers(what)


def of_folder(name: str) -> bool:
    """Returns whether the readers of a name take a folder, or all files of a source, in place of a file."""
    return name not in _PLAIN and any(form.folder for form in forms() if form.name == name)


def dollars_of(name: str) -> Dollars | None:
    """Returns which dollar signs enclose formulas in topics of a form; None for its own rule."""
    return _PLAIN[name].dollars if name in _PLAIN else None


def recognised(first: First) -> str:
    """Returns the name of the form of topics whose files begin so; empty if there is none."""
    return next((form.name for form in forms() if form.first is not None and form.first(first)), "")


def checks() -> Iterator[tuple[str, Callable[[Path], None]]]:
    """Yields the sources of files that users download, with what raises HarnessError for a wrong file."""
    return ((form.source, form.check) for form in forms() if form.check is not None)


Item = TypeVar("Item", Topic, Document)


def is_foreign(reader: object) -> bool:
    """Returns whether a reader is named by module and function, and therefore third-party."""
    return isinstance(reader, str) and bool(extensions.NAME.fullmatch(reader))


def foreign_topics(reader: str) -> Callable[[bytes, str, str], Topics]:
    """Returns a reader of topics, by the name of its function."""

    def read(data: bytes, path: str, language: str) -> Topics:
        what = f"{path}: reader {reader}"
        function = extensions.load(reader, what)
        with extensions.guarded(what):
            numbered = [(0, topic) for topic in _items(function(data, path, language), Topic, what)]
            return topic_files.unique(numbered, what)

    return read


def foreign_judgments(reader: str) -> Callable[[bytes, str, str], Qrels]:
    """Returns a reader of judgments, by the name of its function; their checksum covers its result, not the file."""

    def read(data: bytes, path: str, edition: str) -> Qrels:
        what = f"{path}: reader {reader}"
        function = extensions.load(reader, what)
        with extensions.guarded(what):
            grades = _grades(function(data, path, edition), what)
            if not any(grades.values()):
                raise HarnessError(f"{what}: gave no judgments")
            rows = checked(what, lambda: numeric(flat(grades, "grades"), "grade"))
            try:
                return Qrels.from_rows(edition, rows)  # checks ids and grades
            except FormatError as error:
                raise HarnessError(f"{what}: {error.problems[0].reason}") from None

    return read


def foreign_documents(reader: str) -> CorpusReader:
    """Returns a reader of documents, by the name of its function."""
    return CorpusReader(reader, _Read(reader), unique=True, module=reader.partition(":")[0])


@dataclass(frozen=True)
class _Read:
    """Reader named by its function; equal to another reader of the same name."""

    name: str

    def __call__(self, corpus: Corpus, remarks: Remarks) -> Documents:
        what = f"corpus {corpus.name}: reader {self.name}"
        function, paths = extensions.load(self.name, what), corpus.paths
        with extensions.guarded(what):
            for document in _items(function(paths), Document, what):
                yield (paths[0], 0), document


def _items(given: object, kind: type[Item], what: str) -> Iterator[Item]:
    """Yields the items of a reader's result, checking their types and that ids are unique."""
    if not isinstance(given, Iterable):
        raise HarnessError(f"{what}: gave {type(given).__name__}, expected an iterable of {kind.__name__}")
    seen: set[str] = set()
    for item in given:
        if not isinstance(item, kind):
            expected = f"{kind.__module__}.{kind.__name__}"
            raise HarnessError(f"{what}: gave an item of type {type(item).__name__}, expected {expected}")
        called = kind.__name__.lower()
        for field in fields(item):
            if not _right(field.name, value := getattr(item, field.name)):
                raise HarnessError(
                    f"{what}: {called} {item.id!r}: {field.name} is {value!r:.60}, expected {_EXPECTED[field.name]}"
                )
        check_id(item.id, called, what, 0)
        if item.id in seen:
            raise HarnessError(f"{what}: gave {called} {item.id!r} twice")
        seen.add(item.id)
        yield item


_EXPECTED = {
    **dict.fromkeys(("id", "title", "body", "language"), "text"),
    "tags": "a tuple of texts",
    "formulas": "a tuple of Formula",
    **dict.fromkeys(("attributes", "columns"), "names and texts"),
    "dollars": " or ".join(DOLLARS),
}


def _right(name: str, value: object) -> bool:
    """Returns whether a field of a topic or document has the type described in `_EXPECTED`."""
    if name == "dollars":
        return value in DOLLARS
    if name in ("tags", "formulas"):
        kind = str if name == "tags" else Formula
        return isinstance(value, tuple) and all(isinstance(part, kind) for part in value)
    if name in ("attributes", "columns"):
        return isinstance(value, Mapping) and all(isinstance(part, str) for part in (*value, *value.values()))
    return isinstance(value, str)


def _grades(given: object, what: str) -> Mapping[str, Mapping[str, float]]:
    """Converts the result of a reader of judgments to topic -> document -> grade."""
    if isinstance(given, Mapping):
        return given
    if not isinstance(given, Qrels):
        expected = "expected a harness.data.trec.Qrels, or topic -> document -> grade"
        raise HarnessError(f"{what}: gave {type(given).__name__}, {expected}")
    out: dict[str, dict[str, float]] = {topic: {} for topic in given.topics}
    for topic, doc, grade in zip(given.topic.tolist(), given.doc.tolist(), given.grade.tolist(), strict=True):
        if doc.decode() in out[given.topics[topic]]:
            raise HarnessError(f"{what}: gave document {doc.decode()!r} of topic {given.topics[topic]!r} twice")
        out[given.topics[topic]][doc.decode()] = grade
    return out
