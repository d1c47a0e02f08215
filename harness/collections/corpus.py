"""Corpora: streams of documents with a digest of what they are made from, never a list in memory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from harness.collections.readers.streams import Place, lines
from harness.data.topics import Formula
from harness.errors import HarnessError, format_error
from harness.io.console import track
from harness.io.files import sha256, sha256_file
from harness.io.ids import check_id, check_length
from harness.sources.checkout import Checkout
from harness.sources.fetch import fetch, state
from harness.sources.resource import Folder, Resource
from harness.store import code

Source = Resource | Folder | Checkout | Path


@dataclass(frozen=True)
class Document:
    """One document: an answer with the title and tags of its question, a formula, a theorem.

    Attributes
    ----------
    title, body : text with formulas in place as LaTeX in dollars.
    formulas : in order of appearance.
    columns : further parts by name, such as the `question` of an answer or the `signature` of a declaration.

    Examples
    --------
    >>> Document("d1", body="Let $n$ be even.", formulas=(Formula("f1", "n"),)).formulas[0].latex
    'n'
    """

    id: str
    title: str = ""
    body: str = ""
    tags: tuple[str, ...] = ()
    formulas: tuple[Formula, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)


Remarks = Counter[str]
Documents = Iterator[tuple[Place, Document]]


@dataclass(frozen=True)
class Reader:
    """How documents are made of a corpus's sources.

    Attributes
    ----------
    name : by which configurations call it.
    read : gives each document with its place.
    version : raised whenever the same source gives other documents; 0 if they depend on the configuration alone.
    unique : whether it has made sure that ids come once.
    module : of a reader that is not ours: its code counts in place of a version.
    """

    name: str
    read: Callable[[Corpus, Remarks], Documents]
    version: int = 1
    unique: bool = False
    module: str = ""

    def stamp(self) -> str:
        """Returns what changes whenever the same source gives other documents; empty if that never happens.

        Raises
        ------
        HarnessError
            The code of a reader that is not ours cannot be found.
        """
        if not self.module:
            return str(self.version or "")
        if not code.known(self.module):
            raise HarnessError(f"reader {self.name}: module {self.module!r} is not installed, or not as files")
        return code.of(self.module)


class Chosen(Protocol):
    """Some documents, as `harness.collections.judged.Judged` has them."""

    def holds(self, document: Document) -> bool:
        """Returns whether a document is one of them."""

    def digest(self) -> str:
        """Returns what decides which they are."""


class Part(Protocol):
    """What can be asked for documents, which may have to be fetched for it."""

    def read(self) -> Chosen:
        """Returns the documents."""


@dataclass(frozen=True)
class Corpus:
    """Documents in the order of their source; iterating reads it again.

    Attributes
    ----------
    sources : the files or folders behind it, fetched when they are first read; a single one may stand for itself.
    fields : column of the file -> field of `Document`; several columns of one field are joined by a blank. The
        fields `latex` and `visual_id` are of a document that is a formula.
    keep : columns that documents keep under their own names.
    reader : makes documents of the sources; default: JSON lines.
    notes : what a reader of numbers made with it must know.
    ids_are_keys : its documents are named by what is judged where a protocol de-duplicates (visual ids of formulas).
    has_keys : its documents are formulas that know what is judged instead of them (their visual ids).
    part : says which of the documents are read; None: all.

    Examples
    --------
    >>> from harness import load_corpus
    >>> corpus = load_corpus("mini-formulas")
    >>> sum(len(document.formulas) for document in corpus) == len(list(corpus.ids()))
    True
    """

    name: str
    title: str
    licence: str
    sources: Source | tuple[Source, ...]
    fields: tuple[tuple[str, str], ...] = ()
    keep: tuple[str, ...] = ()
    reader: Reader = field(default_factory=lambda: JSONL)
    notes: tuple[str, ...] = ()
    ids_are_keys: bool = False
    has_keys: bool = False
    part: Part | None = None

    def files(self) -> list[Resource | Folder]:
        """Returns what `fetch` gets for it."""
        return [source for source in self._sources() if isinstance(source, Resource | Folder)]

    def state(self) -> str:
        """Returns `here`, `fetchable`, `manual download: ...` or `needs a ...`: the worst of its sources."""
        checkouts = [source.state() for source in self._sources() if isinstance(source, Checkout)]
        states = sorted([*(state(source) for source in self.files()), *checkouts])
        return next((entry for entry in states if entry != "here"), "here")

    @property
    def paths(self) -> tuple[Path, ...]:
        """Where its sources lie, fetched if they must be."""
        fetched = iter(fetch(self.files()))  # at one time, so that an archive is unpacked once
        return tuple(
            next(fetched)
            if isinstance(source, Resource | Folder)
            else source
            if isinstance(source, Path)
            else source.root
            for source in self._sources()
        )

    @property
    def path(self) -> Path:
        """Where its (first) source lies."""
        return self.paths[0]

    def digest(self) -> str:
        """A SHA-256 of the sources and of the reader's version or code; the bare one of the file for JSON lines.

        It does not cover `fields` and `keep`, which are configuration.
        """
        pairs = track(list(zip(self._sources(), self.paths, strict=True)), f"checksums of {self.name}")
        return self._digest([_checksum(source, path) for source, path in pairs])

    def declared(self) -> str:
        """Returns the digest that it has if fetched files are what their checksums say; these are not read."""
        return self._digest([_declared(source) for source in self._sources()])

    def _digest(self, shas: Sequence[str]) -> str:
        stamp = self.reader.stamp()
        whole = sha256("\n".join((f"{self.reader.name} {stamp}", *shas)).encode()) if stamp else shas[0]
        return whole if self.part is None else sha256(f"{whole} {self.part.read().digest()}".encode())

    def identity(self) -> dict[str, Any]:
        """Returns what decides its documents: its name, its digest, and which columns are read as what."""
        return {"corpus": self.name, "digest": self.digest(), "columns": [list(self.fields), list(self.keep)]}

    def __iter__(self) -> Iterator[Document]:
        return self.documents(Counter())

    def ids(self) -> Iterator[str]:
        """Yields the ids of its documents, in order."""
        return (document.id for document in self)

    def keys(self) -> dict[str, str] | None:
        """Returns document -> key of de-duplication: the visual id of the formula that it is, where it has one.

        None if the corpus does not say that it `has_keys`. Reads all documents.
        """
        if not self.has_keys:
            return None
        formulas = ((document.id, formula.visual_id) for document in self for formula in document.formulas[:1])
        return {name: key for name, key in formulas if key}

    def remarks(self) -> dict[str, int]:
        """Returns what is odd about its documents, counted; reads all of them."""
        remarks: Remarks = Counter()
        for _ in self.documents(remarks):
            pass
        return dict(sorted(remarks.items()))

    def documents(self, remarks: Remarks) -> Iterator[Document]:
        """Yields the documents; what is odd about them is counted in `remarks` on the way.

        Raises
        ------
        FormatError
            One line with file and line for a source that is damaged, an id that is no id or is longer than
            those of run files, or one that comes twice.
        """
        reader = self.reader
        seen: set[str] = set()
        count = 0
        read = track(reader.read(self, remarks), f"reading corpus {self.name}", _COUNTED.get(self))
        wanted = None if self.part is None else self.part.read()
        for count, ((path, number), document) in enumerate(read, 1):  # noqa: B007
            check_id(document.id, "document", path, number)
            for formula in document.formulas:
                check_length(formula.id, "formula", path, number)
                check_length(formula.visual_id, "visual", path, number)
            if not reader.unique:
                if document.id in seen:
                    raise format_error(path, number, f"document {document.id!r} is on an earlier line already")
                seen.add(document.id)
            if wanted is None or wanted.holds(document):
                yield document
        _COUNTED[self] = count

    def _sources(self) -> tuple[Source, ...]:
        return self.sources if isinstance(self.sources, tuple) else (self.sources,)


_COUNTED: dict[Corpus, int] = {}  # how many documents there were when it was last read to its end


def _checksum(source: Source, path: Path) -> str:
    """Returns the SHA-256 of a source that lies at `path`."""
    return sha256_file(path) if isinstance(source, Resource) else _declared(source)


def _declared(source: Source) -> str:
    """Returns the SHA-256 of a source, as it is said of those that are fetched."""
    if isinstance(source, Checkout):
        return source.digest()
    return sha256_file(source) if isinstance(source, Path) else source.sha256


def _jsonl(corpus: Corpus, remarks: Remarks) -> Documents:
    """Returns JSON lines, whose columns the corpus maps to fields."""
    path = corpus.path
    wanted = {column for column, _ in corpus.fields} | set(corpus.keep)
    missing = set(wanted)
    empty = True
    for number, line in lines(path):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            document = _document(row, corpus)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise format_error(path, number, f"not a document: {type(error).__name__}: {error}") from None
        empty = False
        if missing:
            missing -= row.keys()
        yield (path, number), document
    if missing and not empty:
        # A column that no line has is a slip of the configuration, or the wrong file.
        raise format_error(path, 0, f"no line has the column {min(missing)!r}, which corpus {corpus.name} takes")


def _document(row: Mapping[str, Any], corpus: Corpus) -> Document:
    parts: dict[str, list[str]] = {}
    formulas: tuple[Formula, ...] = ()
    for column, name in corpus.fields:
        value = row[column] if name == "id" else row.get(column)
        if value is not None and name == "formulas":
            formulas = tuple(Formula(str(f["id"]), str(f["latex"]), _text(f.get("visual_id"))) for f in value)
        elif value is not None:
            if isinstance(value, dict | bool) or (isinstance(value, list) and {type(v) for v in value} - {str}):
                raise TypeError(f"column {column!r} is {value!r:.60}, expected text, a number or a list of texts")
            parts.setdefault(name, []).append(" ".join(value) if isinstance(value, list) else str(value))
    words = {name: " ".join(values) for name, values in parts.items()}
    title, body, tags = (words.get(name, "") for name in ("title", "body", "tags"))
    if "latex" in words:  # the document is a formula
        formulas = (Formula(words["id"], words["latex"], words.get("visual_id", "")),)
    kept = {column: str(row[column]) for column in corpus.keep if row.get(column) is not None}
    return Document(words.get("id", ""), title, body, tuple(tags.split()), formulas, kept)


def _text(value: object) -> str:
    return "" if value is None else str(value)


JSONL: Reader = Reader("jsonl", _jsonl, version=0)  # what it gives depends on the configuration alone
