"""Loads collections by name, and reports all faults of a configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Collection as Collection_
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from harness.collections import files, forms
from harness.collections.collection import AttributeFile, Collection, Edition, ExclusionFile, KeyFile, TopicFile
from harness.collections.corpus import IRDS
from harness.data.trec import Qrels
from harness.errors import HarnessError, gather, refuse, suggestion
from harness.formulas.text.delimiters import Dollars
from harness.io import config
from harness.io.arguments import checked_arguments
from harness.io.checks import Words, gathered, typed
from harness.sources import catalogue

_LINK = re.compile(r"https://[^\s{}]*\{id\}[^\s{}]*")
_PLACES = ("source", "path", "embedded", "file")
_Kind = tuple[str, Callable[[], Collection_[str]]]  # kind of file: its default reader, and the available readers
_QRELS: _Kind = ("trec", partial(forms.readers, "judgments"))
# Keys of an edition that name exclusion files.
_EXCLUDED: Mapping[str, _Kind] = {
    "exclusions": ("pairs", lambda: files.LISTED),
    "order": ("order", files.known_places),
    "topic_order": ("places", files.known_places),
}


def _configured(key: str, value: object) -> str:
    """Checks that a value names a configuration in the group named like the key, and returns it."""
    if not isinstance(value, str):
        raise HarnessError(f"key {key!r} is {value!r}, expected text")
    if value not in (known := config.names(key)):
        raise HarnessError(f"{key} {value!r} is unknown; {suggestion(value, known)}")
    return value


def _checked_link(key: str, value: object) -> str:
    if not _LINK.fullmatch(str(value)):
        raise HarnessError(
            f"key {key!r} is {value!r}, expected an address with one '{{id}}' in place of a document's id, such as "
            "https://example.org/{id}"
        )
    return str(value)


def _checked_topic_reader(key: str, value: object) -> str:
    if not forms.known(str(value), "topics") and not forms.is_foreign(str(value)):
        raise HarnessError(f"{key} {str(value)!r} is unknown; {suggestion(str(value), forms.readers('topics'))}")
    return str(value)


@dataclass(frozen=True)
class _Place:
    """Location of a file, with the keys read by `catalogue.resource`.

    Attributes
    ----------
    source, path : configuration of `conf/source/`, and the file in it.
    embedded : path of a file of the harness.
    file : path of a local file, relative to the configuration's folder.
    """

    source: Any = None
    path: Any = None
    embedded: Any = None
    file: Any = None


@dataclass(frozen=True)
class _Edition:
    """Entry of the key `editions`: one set of judgments.

    Attributes
    ----------
    title : description of the judgments.
    qrels : file of judgments, with a `reader` if it is not in TREC's format.
    topics, judgments : numbers that are checked when the file is read; 0: unchecked.
    private : whether participants of labs must not see the judgments.
    exclusions, order, topic_order : files of documents that do not count; page "Your own collections".
    """

    title: Words
    qrels: Any
    topics: int = 0
    judgments: int = 0
    private: bool = False
    exclusions: Any = None
    order: Any = None
    topic_order: Any = None


@dataclass(frozen=True, kw_only=True)
class _Topics(_Place):
    """Key `topics`.

    Attributes
    ----------
    reader : format of the file, or MODULE:FUNCTION of your own.
    language : of the topics, in ISO 639-3.
    dollars : which dollar signs enclose formulas, `pairs` or `pandoc`; page "Your own collections". By default `pandoc`
        for the readers `trec` and `tsv`, else `pairs`.
    """

    reader: Annotated[str, _checked_topic_reader]
    language: Words = "eng"
    dollars: Dollars | None = None


@dataclass(frozen=True, kw_only=True)
class _Attributes(_Place):
    """Key `attributes`: a CSV file with attributes of topics.

    Attributes
    ----------
    key : column of topic ids.
    columns : attribute -> column.
    """

    key: Words
    columns: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class _Keys(_Place):
    """Key `keys`: a file that maps documents to keys, such as formulas to visual ids.

    Attributes
    ----------
    id_column, key_column : columns of document ids and of keys.
    """

    id_column: Words
    key_column: Words


@dataclass(frozen=True)
class CollectionFile:
    """`conf/collection/NAME.yaml`.

    Attributes
    ----------
    name : of the file, without `.yaml`.
    title, licence : shown in lists and reports.
    protocol : name in `conf/protocol/`, used unless a command names another one.
    editions : name -> set of judgments.
    topics : file of topics.
    default_edition : edition used unless a command names another one; by default the first.
    attributes : file of attributes of topics, or a list of several.
    keys : file that maps documents to keys, for protocols that keep one document of each key.
    corpus : name in `conf/corpus/`; searched by default, and the source of the texts in reports.
    notes : shown in reports on runs.
    cluster : attribute of topics; topics that share its value are dependent: errors of means and tests allow for it.
    link : address of a document with `{id}` in place of its id.
    """

    name: Any
    title: Words
    licence: Words
    protocol: Annotated[str, _configured]
    editions: Mapping[str, _Edition]
    topics: _Topics
    default_edition: Words = ""
    attributes: tuple[_Attributes, ...] | None = None  # a single entry needs no list
    keys: _Keys | None = None
    corpus: Annotated[str, _configured] = ""
    notes: tuple[str, ...] = ()
    cluster: str = ""
    link: Annotated[str, _checked_link] = ""


@checked_arguments
def load_collection(name: str) -> Collection:
    """Returns a collection by name; `irds:ID` is a collection of the package ir_datasets.

    Raises
    ------
    HarnessError
        The name is unknown, or keys of its configuration are unknown, missing or wrong; the message lists all of them.

    Examples
    --------
    >>> collection = load_collection("mini-task1")
    >>> collection.protocol, len(collection.topics()), len(collection.qrels())
    ('arqmath-task1', 42, 320)
    """
    if name.startswith(IRDS):
        return _of_ir_datasets(name)
    mapping, where = config.read("collection", name)
    if "beir" in mapping:
        return _beir_collection(name, mapping, where)
    if isinstance(mapping.get("attributes"), Mapping):
        mapping = {**mapping, "attributes": [mapping["attributes"]]}
    faults: list[str] = []
    with gather(faults):
        spec = typed(CollectionFile, mapping, where)
    faults += config.name_faults(mapping, name, where)
    files: dict[str, catalogue.Located] = {}
    readers: dict[str, str] = {}
    for key, entry, kind in _files(mapping):
        with gather(faults):
            readers[key], place = _split_reader(entry, f"{where}: {key}", *kind)
            topics = mapping.get("topics") if key == "topics" else None
            asked = str(topics.get("reader")) if isinstance(topics, Mapping) else readers[key]
            find = catalogue.located if forms.of_folder(asked) else catalogue.resource
            files[key] = find(place, f"{where}: {key}", Path(where).parent)
    entries = mapping.get("editions")
    called = [str(key) for key in entries] if isinstance(entries, Mapping) else []
    default = str(mapping.get("default_edition") or next(iter(called), ""))
    if called and default not in called:
        faults.append(f"{where}: key 'default_edition': {default!r} is unknown; {suggestion(default, called)}")
    refuse(faults)
    editions = {}
    for key, given in spec.editions.items():
        at = f"editions: {key}"
        counted = (given.topics, given.judgments)
        parts = (f"{at}: {part}" for part in _EXCLUDED)
        said = [ExclusionFile(files[part], readers[part]) if part in files else None for part in parts]
        editions[key] = Edition(key, given.title, files[at], *counted, readers[at], given.private, *said)
    topics, attributes, keys = spec.topics, spec.attributes or (), spec.keys
    plain = {key: getattr(spec, key) for key in ("title", "licence", "protocol", "notes", "corpus", "cluster", "link")}
    return Collection(
        name,
        **plain,
        editions=editions,
        default_edition=default,
        where=where,
        topic_file=TopicFile(files["topics"], topics.reader, topics.language, topics.dollars),
        attribute_files=tuple(
            AttributeFile(files[_nth("attributes", n, attributes)], each.key, each.columns)
            for n, each in enumerate(attributes)
        ),
        key_file=KeyFile(files["keys"], keys.id_column, keys.key_column) if keys else None,
    )


def _beir_collection(name: str, mapping: Mapping[str, Any], where: str) -> Collection:
    """Returns the collection of a data set in BEIR format, whose parts are in files with fixed names."""
    from harness.collections import beir

    faults: list[str] = []
    checks = {"protocol": _configured, "corpus": _configured, "link": _checked_link}
    for key, check in checks.items():
        if mapping.get(key) is not None:
            with gathered(where, faults):
                check(key, mapping[key])
    faults += config.name_faults(mapping, name, where)
    with gather(faults):
        collection = beir.collection(name, mapping, where)
    refuse(faults)
    return collection


def _of_ir_datasets(name: str) -> Collection:
    from harness.collections import irds

    qrels, topics = irds.files(name)
    return replace(local_collection(qrels, topics, "pandoc"), name=irds.label(name), title=name, where=name)


def _files(mapping: Mapping[str, Any]) -> Iterator[tuple[str, object, _Kind]]:
    """Yields (key, entry, kind) for entries of a configuration that name files; the configuration may have faults."""
    editions = mapping.get("editions")
    for key, entry in editions.items() if isinstance(editions, Mapping) else ():
        if isinstance(entry, Mapping) and entry.get("qrels") is not None:
            yield f"editions: {key}", entry["qrels"], _QRELS
        if isinstance(entry, Mapping):
            for part, kind in _EXCLUDED.items():
                if entry.get(part) is not None:
                    yield f"editions: {key}: {part}", entry[part], kind
    for key in ("topics", "attributes", "keys"):
        entry = mapping.get(key)
        entries = entry if isinstance(entry, list | tuple) else [entry]
        for n, each in enumerate(entries):
            if each and isinstance(each, Mapping):
                yield _nth(key, n, entries), {place: each[place] for place in _PLACES if place in each}, _QRELS


def _nth(key: str, n: int, entries: Sequence[object]) -> str:
    """Returns the name of a list entry in messages: the key and its number, or just the key of a single entry."""
    return f"{key}: {n + 1}" if len(entries) > 1 else key


def _split_reader(entry: object, where: str, usual: str, known: Callable[[], Collection_[str]]) -> tuple[str, object]:
    """Splits an entry into its reader and the location of its file."""
    if not isinstance(entry, Mapping):
        return usual, entry
    reader = str(entry.get("reader", usual))
    own = usual == _QRELS[0] and forms.is_foreign(reader)
    if reader != usual and not own and reader not in known():
        raise HarnessError(f"{where}: reader {reader!r} is unknown; {suggestion(reader, known())}")
    return reader, {key: value for key, value in entry.items() if key != "reader"}


def local_collection(qrels: Path | Qrels, topics: Path | None = None, dollars: Dollars | None = None) -> Collection:
    """Returns a collection of judgments, or of a file of them (TREC), and optionally a file of topics.

    Without a topic file, all topics of a run are accepted, and those without judgments are ignored. The default
    protocol is `trec_eval`. `dollars` is the rule for dollar signs of the topics; None: as usual for their format.
    """
    name, source = (qrels.name, str(qrels)) if isinstance(qrels, Path) else ("judgments", qrels.edition)
    given = None if isinstance(qrels, Path) else qrels
    edition = Edition("given", source, Path(source), topics=0, judgments=0, given=given)
    topic_file = None if topics is None else TopicFile(topics, dollars=dollars)
    about = (f"Runs judged by {name}", "not stated", "trec_eval")
    return Collection(name, *about, {edition.name: edition}, edition.name, (), source, topic_file=topic_file)
