"""Loads corpora by name: their sources, readers, and mapping of columns to fields.

Ids of posts and formulas judged in any edition of a collection, which training must exclude.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from harness.collections import forms
from harness.collections.corpus import IRDS, JSONL, Corpus, CorpusReader, Document, Source
from harness.collections.load import load_collection
from harness.errors import HarnessError, gather, refuse, suggestion
from harness.formulas.text.delimiters import Dollars
from harness.io import config
from harness.io.arguments import checked_arguments
from harness.io.checks import Words, typed
from harness.io.files import sha256
from harness.scoring.protocol import load_protocol
from harness.sources import catalogue
from harness.sources.checkout import Checkout
from harness.sources.resource import RepositoryFolder


def corpus_reader(name: str) -> CorpusReader:
    """Returns a reader by name; modules of the other formats are imported on demand."""
    if name == JSONL.name:
        return JSONL
    if forms.is_foreign(name):
        return forms.foreign_documents(name)
    known = forms.readers("documents")
    if name not in known:
        raise HarnessError(f"reader {name!r} is unknown; {suggestion(name, (JSONL.name, *known))}")
    reader: CorpusReader = known[name]
    return reader


_TARGETS = ("id", "title", "body", "tags", "formulas", "latex", "visual_id")


def _parse_reader(_: str, value: object) -> CorpusReader:
    return corpus_reader(str(value))


@dataclass(frozen=True)
class _Checkout:
    """Key `checkout`: sources on this machine; see `harness.sources.checkout.Checkout`.

    Attributes
    ----------
    what : name of the checkout in messages.
    variable : environment variable with its path.
    parts : folders that are read; all by default.
    suffix : of the files that are read.
    get : how to obtain the checkout.
    place : its path if the variable is not set, relative to the configuration's folder.
    """

    what: Words = "checkout"
    variable: str = ""
    parts: tuple[Words, ...] = ()
    suffix: Words = ".lean"
    get: str = ""
    place: str = ""


@dataclass(frozen=True)
class CorpusFile:
    """`conf/corpus/NAME.yaml`; has exactly one of the keys `file`, `files`, `folder` and `checkout`.

    Attributes
    ----------
    name : of the file, without `.yaml`.
    title, licence : shown in lists and reports.
    file, files : file or files of documents, as in a collection.
    folder : all files of a folder of a repository: `repository`, `commit`, `path`, `files`, `sha256`, `licence`.
    checkout : sources on this machine.
    fields : column of the file -> field of a document, or a list of fields: id, title, body, tags, formulas.
    keep : columns that documents keep under their own names.
    reader : format of the files, or MODULE:FUNCTION of your own.
    notes : shown in reports on runs.
    ids_are_keys : whether document ids are the keys of protocols that remove duplicates (visual ids of formulas).
    has_keys : whether documents are formulas with their key (visual id) as a field.
    judged : collections of whose judged documents the corpus consists.
    dollars : which dollar signs enclose formulas, `pairs` or `pandoc`; page "Your own collections". By default `pandoc`
        for the reader `trec`, else `pairs`.
    """

    name: Any
    title: Words
    licence: Words
    file: Mapping[str, Any] | None = None
    files: tuple[Any, ...] = ()
    folder: Mapping[str, Any] | None = None
    checkout: Mapping[str, Any] | None = None
    fields: Mapping[str, Any] | None = None
    keep: tuple[Words, ...] = ()
    reader: Annotated[CorpusReader, _parse_reader] = JSONL
    notes: tuple[Words, ...] = ()
    ids_are_keys: bool = False
    has_keys: bool = False
    judged: tuple[Words, ...] = ()
    dollars: Dollars | None = None


@checked_arguments
def load_corpus(name: str) -> Corpus:
    """Returns a corpus by name, without fetching its files; `irds:ID` is a corpus of the package ir_datasets.

    Raises
    ------
    HarnessError
        The name is unknown, or the configuration has faults; the message lists all of them, one per line.

    Examples
    --------
    >>> corpus = load_corpus("mini-theorems")
    >>> next(iter(corpus)).title
    'The norm of a normed ring is submultiplicative.'
    """
    if name.startswith(IRDS):
        from harness.collections import irds

        return irds.corpus(name)
    mapping, where = config.read("corpus", name)
    faults: list[str] = []
    if "beir" in mapping:
        from harness.collections import beir

        with gather(faults):
            of_data_set = beir.corpus(name, mapping, where)
        faults += config.name_faults(mapping, name, where)
        refuse(faults)
        return of_data_set
    with gather(faults):
        entry = typed(CorpusFile, mapping, where)
    faults += config.name_faults(mapping, name, where)
    if mapping.get("ids_are_keys") is True and mapping.get("has_keys") is True:
        faults.append(f"{where}: keys 'ids_are_keys' and 'has_keys' exclude each other")
    fields: tuple[tuple[str, str], ...] = ()
    if mapping.get("reader", JSONL.name) == JSONL.name and isinstance(mapping.get("fields", {}), dict):
        with gather(faults):
            fields = _checked_fields(mapping, where)
    with gather(faults):
        sources = _parse_sources(mapping, where)
    refuse(faults)
    with gather(faults):
        for collection in entry.judged:
            config.load("collection", collection.partition("/")[0], f"{where}: key 'judged'")
    refuse(faults)
    about = (entry.keep, entry.reader, entry.notes, entry.ids_are_keys, entry.has_keys)
    part = JudgedBy(entry.judged) if entry.judged else None
    return Corpus(
        name, entry.title, entry.licence, sources, fields, *about, part, entry.dollars or entry.reader.dollars
    )


def _checked_fields(mapping: Mapping[str, Any], where: str) -> tuple[tuple[str, str], ...]:
    if "fields" not in mapping:
        raise HarnessError(f"{where}: key 'fields' is missing")
    listed = {column: names if isinstance(names, list) else [names] for column, names in mapping["fields"].items()}
    pairs = tuple((str(column), str(name)) for column, names in listed.items() for name in names)
    unknown = [name for _, name in pairs if name not in _TARGETS]
    refuse([f"{where}: fields: {name!r} is unknown; known: {', '.join(sorted(_TARGETS))}" for name in unknown])
    if "id" not in (name for _, name in pairs):
        raise HarnessError(f"{where}: fields: no column is the 'id'")
    return pairs


def _parse_sources(mapping: Mapping[str, Any], where: str) -> tuple[Source, ...]:
    given = [key for key in ("file", "files", "folder", "checkout") if key in mapping]
    if len(given) != 1:
        both = " and ".join(given) or "none of them"
        raise HarnessError(f"{where}: expected one of the keys 'file', 'files', 'folder' and 'checkout', found {both}")
    if not isinstance(mapping[given[0]], list if given == ["files"] else Mapping):
        return ()  # reported by the check of types
    if "folder" in mapping:
        return (typed(RepositoryFolder, mapping["folder"], f"{where}: folder"),)
    if "checkout" in mapping:
        at = f"{where}: checkout"
        given_checkout = typed(_Checkout, mapping["checkout"], at)
        place = Path(where).parent / Path(given_checkout.place).expanduser() if given_checkout.place else None
        try:
            return (Checkout(**{**vars(given_checkout), "place": place}),)
        except HarnessError as error:
            raise HarnessError(f"{at}: {error}") from None
    entries = [mapping["file"]] if "file" in mapping else mapping["files"]
    faults: list[str] = []
    sources: list[Source] = []
    find = catalogue.located if forms.of_folder(str(mapping.get("reader", JSONL.name))) else catalogue.resource
    for entry in entries:
        with gather(faults):
            here = find(entry, where, Path(where).parent)
            sources += here if isinstance(here, tuple) else (here,)
    refuse(faults)
    return tuple(sources)


@dataclass(frozen=True)
class JudgedDocuments:
    """Ids judged in at least one edition.

    Attributes
    ----------
    documents : ids of documents.
    keys : visual ids of formulas, from collections whose protocol maps formulas to them.
    """

    documents: frozenset[str]
    keys: frozenset[str]

    def holds(self, document: Document) -> bool:
        """Returns whether a document is judged, or holds a formula that looks like a judged one."""
        return document.id in self.documents or any(formula.visual_id in self.keys for formula in document.formulas)

    def digest(self) -> str:
        """Returns a SHA-256 of all ids."""
        return sha256(repr((sorted(self.documents), sorted(self.keys))).encode())


@dataclass(frozen=True)
class JudgedBy:
    """Documents judged by some collections, read on first use; restricts a corpus to them."""

    collections: tuple[str, ...]

    def read(self) -> JudgedDocuments:
        """Returns the ids."""
        return judged(self.collections)


def judged(names: Iterable[str]) -> JudgedDocuments:
    """Returns the ids judged by collections: in all their editions, or in one edition for `COLLECTION/EDITION`.

    Raises
    ------
    HarnessError
        There is no such collection or edition.
    """
    documents: set[str] = set()
    keys: set[str] = set()
    for name in names:
        called, _, only = name.partition("/")
        collection = load_collection(called)
        into = keys if load_protocol(collection.protocol).deduplicate else documents
        for edition in (only,) if only else collection.editions:
            into.update(doc.decode() for doc in collection.qrels(edition).doc.tolist())
    return JudgedDocuments(frozenset(documents), frozenset(keys))
