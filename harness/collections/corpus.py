"""Corpora: streams of documents, never held in memory as a whole, with a digest of their inputs."""

from __future__ import annotations

import io
import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Protocol, cast

import numpy as np

from harness.data.records import unique_names
from harness.data.topics import Formula, formulas_given
from harness.errors import HarnessError, format_error, shortened, suggestion
from harness.formulas.text.delimiters import Dollars, formula_spans, lone_dollars
from harness.io import compression
from harness.io.console import track
from harness.io.files import sha256, sha256_known
from harness.io.names import check_id, check_length
from harness.sources.checkout import Checkout
from harness.sources.resource import RepositoryFolder, Resource

Place = tuple[Path, int]  # file, line from 1 (0: the file as a whole)
BLOCK = 1 << 18  # bytes
LONGEST_LINE = 1 << 26  # bytes


@contextmanager
def open_decompressed(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file, decompressing it if necessary; raises the errors of `harness.io.compression.open_uncompressed`."""
    with compression.open_uncompressed(path) as raw:
        yield cast("IO[bytes]", io.BufferedReader(compression.Unpacked(raw.read), compression.CHUNK))


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yields (line number, line without its end) for each line of a file."""
    with open_decompressed(path) as stream:
        number = 0
        while line := stream.readline(LONGEST_LINE):
            number += 1
            if len(line) == LONGEST_LINE:
                raise format_error(path, number, f"longer than {LONGEST_LINE} bytes")
            yield number, line.rstrip(b"\r\n")


IRDS = "irds:"  # before the names of collections and corpora of the package ir_datasets
Source = Resource | RepositoryFolder | Checkout | Path


@dataclass(frozen=True)
class Document:
    """One document: an answer with the title and tags of its question, a formula, a theorem.

    Attributes
    ----------
    id : id in run files and judgments.
    title, body : text with formulas in place as LaTeX in dollars.
    tags : subject tags.
    formulas : formulas in order of appearance; empty if the corpus has no field of formulas.
    columns : further texts by name, such as the `question` of an answer or the `signature` of a declaration.
    dollars : which dollar signs of the texts enclose formulas, see `harness.formulas.text.delimiters`.

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
    dollars: Dollars = "pairs"


Remarks = Counter[str]
Documents = Iterator[tuple[Place, Document]]


@dataclass(frozen=True)
class CorpusReader:
    """Reader of documents from a corpus's sources.

    Attributes
    ----------
    name : name in configurations.
    read : yields each document with its file and line.
    version : to be raised when the same source gives other documents; 0 if they depend on the configuration only.
    unique : whether the reader guarantees that ids are unique.
    module : module of a third-party reader; a hash of its code replaces the version.
    dollars : rule for dollar signs of a corpus that does not state one.
    read_ids : yields the same documents without their content, if that is faster.
    """

    name: str
    read: Callable[[Corpus, Remarks], Documents]
    version: int = 1
    unique: bool = False
    module: str = ""
    dollars: Dollars = "pairs"
    read_ids: Callable[[Corpus, Remarks], Documents] | None = None

    def stamp(self) -> str:
        """Returns the version or code hash, which changes when the same source gives other documents; may be empty.

        Raises
        ------
        HarnessError
            The code of a third-party reader is not found.
        """
        if not self.module:
            return str(self.version or "")
        from harness.store import code

        if not code.known(self.module):
            raise HarnessError(f"reader {self.name}: module {self.module!r} is not installed, or not as files")
        return code.of(self.module)


class DocumentSubset(Protocol):
    """Interface of a subset of documents, such as `harness.collections.corpora.JudgedDocuments`."""

    def holds(self, document: Document) -> bool:
        """Returns whether a document is in the subset."""

    def digest(self) -> str:
        """Returns a digest that identifies the subset."""


class SubsetDefinition(Protocol):
    """Interface of a subset definition, which may have to be fetched first."""

    def read(self) -> DocumentSubset:
        """Returns the subset."""


@dataclass(frozen=True)
class Corpus:
    """Documents in the order of their source; iterating reads it again.

    Attributes
    ----------
    sources : its files or folders, fetched when first read; a single source needs no tuple.
    fields : column of the file -> field of `Document`; several columns of one field are joined by a blank. The
        fields `latex` and `visual_id` are for documents that are formulas.
    keep : columns that documents keep under their own names.
    reader : reader of the sources; default: JSON lines.
    notes : caveats for readers of scores on this corpus.
    ids_are_keys : whether document ids are the keys of protocols that de-duplicate (visual ids of formulas).
    has_keys : whether documents are formulas with their key (visual id) as a field.
    part : subset of the documents that is read; None: all.
    dollars : which dollar signs of its texts enclose formulas; documents have the same value.

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
    reader: CorpusReader = field(default_factory=lambda: JSONL)
    notes: tuple[str, ...] = ()
    ids_are_keys: bool = False
    has_keys: bool = False
    part: SubsetDefinition | None = None
    dollars: Dollars = "pairs"

    def located(self) -> list[Resource | RepositoryFolder | Path]:
        """Returns its files and folders, without those of a checkout that is not here."""
        checkouts = (source for source in self._sources() if isinstance(source, Checkout) and source.state() == "here")
        return [
            *(source for source in self._sources() if not isinstance(source, Checkout)),
            *(c.root for c in checkouts),
        ]

    def files(self) -> list[Resource | RepositoryFolder]:
        """Returns the sources that `fetch` downloads."""
        return [source for source in self._sources() if isinstance(source, Resource | RepositoryFolder)]

    def state(self) -> str:
        """Returns the worst state of its sources: `here`, `fetchable`, `manual download: ...` or `needs a ...`."""
        from harness.sources.fetch import resource_state

        checkouts = [source.state() for source in self._sources() if isinstance(source, Checkout)]
        states = sorted([*(resource_state(source) for source in self.files()), *checkouts])
        return next((entry for entry in states if entry != "here"), "here")

    @property
    def paths(self) -> tuple[Path, ...]:
        """Paths of its sources; fetches missing ones."""
        from harness.sources.fetch import fetch_resources

        fetched = iter(fetch_resources(self.files()))  # in one call, so that an archive is unpacked once
        return tuple(
            source if isinstance(source, Path) else source.root if isinstance(source, Checkout) else next(fetched)
            for source in self._sources()
        )

    @property
    def path(self) -> Path:
        """Path of its (first) source."""
        return self.paths[0]

    def digest(self) -> str:
        """Returns a SHA-256 of the sources, of the reader's version or code and of the rule for dollar signs.

        For JSON lines with the rule `pairs`, it is the SHA-256 of the file. A file of one's own counts by its unpacked
        content, so that it may be compressed later; a fetched one by its bytes. The digest does not include the
        configuration keys `fields` and `keep`.
        """
        pairs = track(list(zip(self._sources(), self.paths, strict=True)), f"checksums of {self.name}")
        return self._digest([_checksum(source, path) for source, path in pairs])

    def declared(self) -> str:
        """Returns the digest computed from the declared checksums of fetched files; reads those without one."""
        return self._digest([_declared(source) for source in self._sources()])

    def _digest(self, shas: Sequence[str]) -> str:
        stamp = self.reader.stamp() + f" {self.dollars}" * (self.dollars != "pairs")
        whole = sha256("\n".join((f"{self.reader.name} {stamp}", *shas)).encode()) if stamp else shas[0]
        return whole if self.part is None else sha256(f"{whole} {self.part.read().digest()}".encode())

    def check_kept(self, known: Sequence[str]) -> None:
        """Raises `HarnessError` unless the reader has the columns that are to be kept."""
        for column in self.keep:
            if column not in known:
                raise HarnessError(f"corpus {self.name}: keep: {column!r} is unknown; {suggestion(column, known)}")

    def identity(self) -> dict[str, Any]:
        """Returns the inputs of its documents: name, digest, and mapping of columns."""
        return {"corpus": self.name, "digest": self.digest(), "columns": [list(self.fields), list(self.keep)]}

    def __iter__(self) -> Iterator[Document]:
        return self.documents(Counter())

    def ids(self) -> Iterator[str]:
        """Yields the ids of its documents, in order."""
        return (document.id for document in self.documents(Counter(), ids_only=True))

    def keys(self) -> dict[str, str] | None:
        """Returns document -> de-duplication key: the visual id of the document's formula, if it has one.

        Returns None unless the corpus `has_keys`. Reads all documents.
        """
        if not self.has_keys:
            return None
        formulas = ((document.id, formula.visual_id) for document in self for formula in document.formulas[:1])
        return {name: key for name, key in formulas if key}

    def remarks(self) -> dict[str, int]:
        """Returns counts of irregularities in its documents; reads all documents.

        With the rule `pandoc`, the counts include the formulas in titles and bodies, and the dollar signs that enclose
        none, such as those of amounts.
        """
        remarks: Remarks = Counter()
        for document in self.documents(remarks):
            if self.dollars == "pandoc":
                remarks.update(dollar_counts(document))
        return dict(sorted(remarks.items()))

    def documents(self, remarks: Remarks, *, ids_only: bool = False) -> Iterator[Document]:
        """Yields the documents, and counts irregularities in `remarks`; with `ids_only` their content may be left out.

        Raises
        ------
        FormatError
            A source is damaged, or an id is invalid, longer than ids in run files may be, or not unique; the message
            names file and line. A repeated id is found when all have been read.
        """

        reader = self.reader
        seen = array("q")  # hashes of the ids: 8 bytes for each, however many there are
        count = 0
        function = reader.read_ids if ids_only and self.part is None and reader.read_ids else reader.read
        read = track(function(self, remarks), f"reading corpus {self.name}", _COUNTED.get(self))
        wanted = None if self.part is None else self.part.read()
        for count, ((path, number), document) in enumerate(read, 1):  # noqa: B007
            check_id(document.id, "document", path, number)
            for formula in document.formulas:
                check_length(formula.id, "formula", path, number)
                check_length(formula.visual_id, "visual", path, number)
            if not reader.unique:
                seen.append(hash(document.id))
            if wanted is None or wanted.holds(document):
                yield document if document.dollars == self.dollars else replace(document, dollars=self.dollars)
        ordered = np.sort(seen)
        if suspects := set(ordered[1:][ordered[1:] == ordered[:-1]].tolist()):
            self._check_unique(suspects)
        _COUNTED[self] = count

    def _check_unique(self, suspects: set[int]) -> None:
        """Reads the documents again; raises FormatError if an id with one of these hashes occurs twice."""
        seen: set[str] = set()
        for (path, number), document in self.reader.read(self, Counter()):
            if hash(document.id) in suspects:
                if document.id in seen:
                    raise format_error(path, number, f"document {document.id!r} is on an earlier line already")
                seen.add(document.id)

    def _sources(self) -> tuple[Source, ...]:
        return self.sources if isinstance(self.sources, tuple) else (self.sources,)


def dollar_counts(document: Document) -> Remarks:
    """Counts the formulas in title and body of a document, and the dollar signs that enclose no formula."""
    counts: Remarks = Counter()
    for text in (document.title, document.body):
        counts["formulas in texts"] += len(formula_spans(text, document.dollars))
        counts["dollar signs outside of formulas"] += lone_dollars(text, document.dollars)
    return counts


_COUNTED: dict[Corpus, int] = {}  # number of documents at the last complete read


def _checksum(source: Source, path: Path) -> str:
    """Returns the SHA-256 of a source stored at `path`."""
    return sha256_known(path) if isinstance(source, Resource) else _declared(source)


def _declared(source: Source) -> str:
    """Returns the SHA-256 of a source: of fetched sources the declared one, of a file that of its unpacked content.

    A manual download without a declared one counts by its content if it is here.
    """
    if isinstance(source, Checkout):
        return source.digest()
    if isinstance(source, Path):
        return sha256_known(source, unpacked=True)
    if not source.sha256 and isinstance(source, Resource) and source.cached.is_file():
        return sha256_known(source.cached)
    return source.sha256


def _jsonl(corpus: Corpus, remarks: Remarks) -> Documents:
    """Yields the documents of JSON lines, whose columns the corpus maps to fields."""
    path = corpus.path
    wanted = {column for column, _ in corpus.fields} | set(corpus.keep)
    missing = set(wanted)
    empty = True
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        try:
            row = _DECODER.decode(line.decode(json.detect_encoding(line), "surrogatepass"))
            if not isinstance(row, dict):
                raise TypeError(f'{shortened(json.dumps(row), 60)}, expected an object such as {{"id": "d1"}}')
            document = _document_of_row(row, corpus)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise format_error(path, number, f"not a document: {_reason(error)}") from None
        empty = False
        if missing:
            missing -= row.keys()
        yield (path, number), document
    if missing and not empty:
        # A column missing from all lines is a mistake in the configuration, or the wrong file.
        raise format_error(path, 0, f"no line has the column {min(missing)!r}, which corpus {corpus.name} takes")


_DECODER = json.JSONDecoder(object_pairs_hook=unique_names)


def _reason(error: Exception) -> str:
    """Returns what is wrong with a line, in the words of who writes the file."""
    if isinstance(error, KeyError):
        return f"key {error} is missing"
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON at character {error.pos + 1}: {error.msg.removesuffix(' at')}"
    if isinstance(error, RecursionError):
        return "not JSON: nested too deeply"
    return f"not text: {error}" if isinstance(error, UnicodeDecodeError) else str(error)


def _document_of_row(row: Mapping[str, Any], corpus: Corpus) -> Document:
    words: dict[str, str] = {}
    formulas: tuple[Formula, ...] = ()
    for column, name in corpus.fields:
        value = row[column] if name == "id" else row.get(column)
        if value is None:
            continue
        if name == "formulas":
            formulas = formulas_given(value, column)
            continue
        text = value if type(value) is str else _joined(column, value)
        words[name] = f"{words[name]} {text}" if name in words else text
    if "latex" in words:  # the document is a formula
        formulas = (Formula(words["id"], words["latex"], words.get("visual_id", "")),)
    kept = {column: str(row[column]) for column in corpus.keep if row.get(column) is not None} if corpus.keep else {}
    tags = words.get("tags")
    title, body = words.get("title", ""), words.get("body", "")
    return Document(words.get("id", ""), title, body, tuple(tags.split()) if tags else (), formulas, kept)


def _joined(column: str, value: object) -> str:
    """Returns a number as text, or the texts of a list with blanks between them."""
    if isinstance(value, dict | bool) or (isinstance(value, list) and {type(v) for v in value} - {str}):
        raise TypeError(f"column {column!r} is {value!r:.60}, expected text, a number or a list of texts")
    return " ".join(value) if isinstance(value, list) else str(value)


JSONL: CorpusReader = CorpusReader("jsonl", _jsonl, version=0)  # documents depend on the configuration only
