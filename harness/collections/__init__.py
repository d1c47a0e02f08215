"""Collections: topics, judgments and the protocol they are scored by, one configuration file each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from harness import config, topics
from harness.collections import leansearch, mathlib, ntcir
from harness.collections.streams import json_items
from harness.errors import HarnessError, format_error, gather, refuse, suggestion
from harness.fetch import Resource, fetch, state
from harness.files import read_bytes
from harness.ids import check_id
from harness.protocol import Protocol
from harness.scoring import Scorer
from harness.topics import Topic, Topics
from harness.trec import Qrels, parse_qrels

_KEYS = ("name", "title", "licence", "protocol", "editions", "topics")
Lines = list[tuple[int, str]]
_TYPES = {
    "editions": dict,
    "topics": dict,
    "attributes": dict,
    "keys": dict,
    "notes": list,
    "protocol": str,
    "corpus": str,
    "cluster": str,
}
_OPTIONAL = ("default_edition", "attributes", "keys", "corpus", "notes", "cluster", "link")
_LINK = re.compile(r"https://[^\s{}]*\{id\}[^\s{}]*")


@dataclass(frozen=True)
class Edition:
    """One set of judgments: how many topics and judgments it must have, so that a wrong file is noticed.

    Attributes
    ----------
    topics, judgments : how many there must be; 0 if nobody could count them when the configuration was written.
    reader : which of `JUDGMENTS` reads the file.
    """

    name: str
    title: str
    file: Resource | Path
    topics: int
    judgments: int
    reader: str = "trec"


@dataclass(frozen=True)
class Part:
    """A file of a collection beside its judgments, and how it is read: `reader` and `language`, or its columns."""

    file: Resource | Path
    how: Mapping[str, Any]


@dataclass(frozen=True)
class Collection:
    """What a collection's configuration says; files are fetched when they are asked for.

    Attributes
    ----------
    protocol : name of the protocol runs are scored by unless another is asked for.
    notes : what a reader of its numbers must know.
    where : the configuration's file, as messages name it.
    parts : the files of `topics`, `attributes` and `keys`, as far as it has them.
    """

    name: str
    title: str
    licence: str
    protocol: str
    editions: Mapping[str, Edition]
    default_edition: str
    notes: tuple[str, ...]
    where: str
    config: Mapping[str, Any]
    parts: Mapping[str, Part]

    @property
    def link(self) -> str:
        """The address of a document, with `{id}` in place of its id; empty if documents have none."""
        return str(self.config.get("link", ""))

    def edition(self, name: str | None = None) -> Edition:
        """An edition by name, or the default one."""
        chosen = self.default_edition if name is None else name
        if chosen not in self.editions:
            raise HarnessError(
                f"collection {self.name}: edition {chosen!r} is unknown; {suggestion(chosen, self.editions)}"
            )
        return self.editions[chosen]

    def files(self) -> list[Resource]:
        """Every fetched file that the collection names."""
        entries = [edition.file for edition in self.editions.values()]
        entries += [part.file for part in self.parts.values()]
        return [entry for entry in entries if isinstance(entry, Resource)]

    def state(self) -> str:
        """`here`, `fetchable` or `manual download: ...`: the worst of its files."""
        states = [state(entry) for entry in self.files()]
        by_hand = [entry for entry in states if entry.startswith("manual download")]
        return by_hand[0] if by_hand else "fetchable" if "fetchable" in states else "here"

    def qrels(self, edition: str | None = None) -> Qrels:
        """The judgments of an edition, counted against what the configuration says."""
        chosen = self.edition(edition)
        path = local(chosen.file)
        qrels = JUDGMENTS[chosen.reader](read_bytes(path), str(path), chosen.name)
        counted = (chosen.topics or len(qrels.topics), chosen.judgments or len(qrels))
        if (len(qrels.topics), len(qrels)) != counted:
            raise HarnessError(
                f"{path}: {len(qrels.topics)} topics and {len(qrels)} judgments; "
                f"{self.where} says {chosen.topics} and {chosen.judgments}"
            )
        return qrels

    def topics(self) -> Topics:
        """The topics with all attributes, read once; without a file of topics, the ids of the judged."""
        return self._topics

    @cached_property
    def _topics(self) -> Topics:
        if "topics" not in self.parts:
            return Topics(tuple(Topic(name, "") for name in self.qrels().topics))
        part = self.parts["topics"]
        path = local(part.file)
        out = read_topics(path, part.how["reader"], part.how["language"])
        if "attributes" in self.parts:
            part = self.parts["attributes"]
            path = local(part.file)
            found = topics.attributes_csv(read_bytes(path), str(path), part.how["key"], part.how["columns"])
            out = out.with_attributes(found)
        return out

    def known_topics(self) -> frozenset[str] | None:
        """The topics that a run may answer; None if nothing says which there are."""
        return self.topics().ids() if "topics" in self.parts else None

    def clusters(self) -> dict[str, str] | None:
        """Topic -> what it shares with topics that are no independent sample of it; None if topics are independent."""
        name = self.config.get("cluster")
        if name is None:
            return None
        found = {topic.id: topic.attributes.get(str(name)) for topic in self.topics()}
        if lacking := [topic for topic, value in found.items() if value is None]:
            raise HarnessError(f"{self.where}: key 'cluster': topic {lacking[0]} has no attribute {name!r}")
        return {topic: str(value) for topic, value in found.items()}

    def keys(self) -> dict[str, str] | None:
        """Document -> key of de-duplication, or None if the collection needs none."""
        if "keys" not in self.parts:
            return None
        part = self.parts["keys"]
        return read_keys(local(part.file), part.how["id_column"], part.how["key_column"])

    def scorer(
        self,
        edition: str | None = None,
        protocol: Protocol | str | None = None,
        *,
        measures: tuple[str, ...] | None = None,
        keys: Mapping[str, str] | None = None,
        ids_are_keys: bool = False,
    ) -> Scorer:
        """Judgments and protocol ready to score runs.

        Parameters
        ----------
        keys : stands in for the collection's own map of documents to keys.
        ids_are_keys : runs name keys (visual ids) already.

        Raises
        ------
        HarnessError
            The protocol de-duplicates and there is no map: ids and keys may be numbers of one range, so that
            without it scores would be wrong and nobody would notice.
        """
        chosen = protocol if isinstance(protocol, Protocol) else load_protocol(protocol or self.protocol)
        if keys is None and chosen.deduplicate and not ids_are_keys:
            keys = self.keys()
            if keys is None:
                raise HarnessError(
                    f"collection {self.name}: protocol {chosen.name} maps documents to keys, and the collection has no "
                    "map; give it with --keys FILE, or say --keys none if the runs name keys; "
                    "'harness run' needs a corpus whose ids are keys or that has keys"
                )
        return Scorer(self.qrels(edition), chosen, collection=self.name, keys=keys, measures=measures)


def _trec(data: bytes, path: str, edition: str) -> Qrels:
    return parse_qrels(data, path, edition=edition)


JUDGMENTS: Mapping[str, Callable[[bytes, str, str], Qrels]] = {
    "trec": _trec,
    "mathlib-qr": mathlib.qr_qrels,
    "mathlib-names": mathlib.names_qrels,
    "leansearch": leansearch.read_qrels,
}
TOPICS: Mapping[str, Callable[[bytes, str, str], Topics]] = {
    **topics.READERS,
    "mathlib-qr": mathlib.qr_topics,
    "mathlib-names": mathlib.names_topics,
    "leansearch": leansearch.read_topics,
    "ntcir-12": ntcir.read_topics,
}
_PLACES = ("source", "path", "embedded", "file")
# Part of a collection -> its keys beside the place of the file: those it must have and those it may have.
_PARTS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "topics": (("reader",), ("language",)),
    "attributes": (("key", "columns"), ()),
    "keys": (("id_column", "key_column"), ()),
}


def read_topics(path: Path, reader: str = "", language: str = "eng") -> Topics:
    """The topics of a file.

    Parameters
    ----------
    reader : one of `TOPICS`; default: recognised by the beginning of the file.
    language : ISO 639-3 code, of topics that do not say theirs.

    Raises
    ------
    FormatError
        The file is in none of the forms, or has faults; with its lines.
    """
    data = read_bytes(path)
    return TOPICS[reader or _topics_form(data, path)](data, str(path), language)


def _topics_form(data: bytes, path: Path) -> str:
    """Which of `TOPICS` reads a file, recognised by its first item or line."""
    text = data[:65536].decode("utf-8-sig", "replace").lstrip()
    if text.startswith("<"):
        return "arqmath-xml"
    if text.startswith("{"):
        return "jsonl"
    if text.startswith("["):
        _, first = next(json_items(data, str(path)), (1, {}))
        return "leansearch" if "queries" in first else "mathlib-qr"
    columns = text.partition("\n")[0].rstrip("\r").split("\t")
    if set(mathlib.NAMES) <= set(columns):
        return "mathlib-names"
    if len(columns) in (2, 4):
        return {2: "ntcir-12", 4: "crossmath-tsv"}[len(columns)]
    raise format_error(path, 1, f"no form of topics that is known here ({', '.join(sorted(TOPICS))})")


def _file(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: entry[key] for key in _PLACES if key in entry}


def local(file: Resource | Path) -> Path:
    """The path of a file, fetched if it must be."""
    return file if isinstance(file, Path) else fetch([file])[0]


def read_keys(path: Path, id_column: str, key_column: str) -> dict[str, str]:
    """id -> key from a tab-separated file with a header, or from JSON lines; without ids whose key is empty.

    Raises
    ------
    HarnessError
        A column is missing, a line is not a JSON object, an id or key holds blanks, or an id has two keys; with its
        line.
    """
    data = read_bytes(path).decode("utf-8-sig", "replace")
    lines = [(number, line.rstrip("\r")) for number, line in enumerate(data.split("\n"), 1) if line.strip()]
    rows = _keys_jsonl if ".jsonl" in path.suffixes else _keys_table
    out: dict[str, str] = {}
    for number, name, key in rows(lines, path, id_column, key_column):
        check_id(name, "document", path, number)
        if not key:  # as a document that is not there
            continue
        check_id(key, "key", path, number)  # with a blank behind it, say, it would be none of the judged keys
        if out.setdefault(name, key) != key:
            raise format_error(path, number, f"{name!r} has the key {out[name]!r} on an earlier line, {key!r} here")
    return out


def _keys_jsonl(lines: Lines, path: Path, id_column: str, key_column: str) -> Iterator[tuple[int, str, str]]:
    for number, line in lines:
        try:
            row = json.loads(line)
            key = row[key_column]
            yield number, str(row[id_column]), "" if key is None else str(key)
        except (ValueError, KeyError, TypeError, RecursionError):
            reason = f"expected a JSON object with {id_column!r} and {key_column!r}"
            raise format_error(path, number, reason) from None


def _keys_table(lines: Lines, path: Path, id_column: str, key_column: str) -> Iterator[tuple[int, str, str]]:
    header = lines[0][1].split("\t") if lines else []
    for column in (id_column, key_column):
        if column not in header:
            raise format_error(path, 1, f"column {column!r} is missing; found {', '.join(header) or 'nothing'}")
    at, to = header.index(id_column), header.index(key_column)
    for number, line in lines[1:]:
        fields = line.split("\t")
        if len(fields) != len(header):
            raise format_error(path, number, f"{len(fields)} columns, expected {len(header)}")
        yield number, fields[at], fields[to]


def load_collection(name: str) -> Collection:
    """A collection by name.

    Raises
    ------
    HarnessError
        Unknown name, or keys of its configuration that are unknown, missing or wrong: all of them, a line each.
    """
    mapping, where = config.read("collection", name)
    faults = config.key_faults(mapping, _KEYS, _OPTIONAL, where)
    given = {key: value for key, value in mapping.items() if value is not None or key not in _KEYS}
    faults += config.type_faults(given, _TYPES, where)
    if mapping.get("name", name) != name:
        faults.append(f"{where}: key 'name' is {mapping['name']!r}, expected the file's name {name!r}")
    for key in ("title", "licence"):
        if isinstance(mapping.get(key), dict | list):
            faults.append(f"{where}: key {key!r} is {mapping[key]!r}, expected text")
    for group in ("protocol", "corpus"):
        value = mapping.get(group)
        if isinstance(value, str) and value not in (known := config.names(group)):
            faults.append(f"{where}: {group} {value!r} is unknown; {suggestion(value, known)}")
    if "link" in mapping and not _LINK.fullmatch(str(mapping["link"])):
        faults.append(
            f"{where}: key 'link' is {mapping['link']!r}, expected an address with one '{{id}}' in place of a "
            "document's id, such as https://example.org/{id}"
        )
    notes = mapping.get("notes")
    for note in notes if isinstance(notes, list) else ():
        if not isinstance(note, str):
            faults.append(f"{where}: key 'notes': {note!r} is no text; put it in quotes")
    editions: dict[str, Edition] = {}
    entries = mapping.get("editions")
    for key, entry in entries.items() if isinstance(entries, dict) else ():
        with gather(faults):
            editions[str(key)] = _edition(str(key), entry, where)
    parts: dict[str, Part] = {}
    for key in _PARTS:
        if isinstance(mapping.get(key), dict) and mapping[key]:
            with gather(faults):
                parts[key] = _part(key, mapping[key], where)
    default = str(mapping.get("default_edition", next(iter(editions), "")))
    if isinstance(entries, dict) and entries and default not in (called := [str(key) for key in entries] + [""]):
        faults.append(f"{where}: key 'default_edition': {default!r} is unknown; {suggestion(default, called[:-1])}")
    refuse(faults)
    title, licence, protocol = (str(mapping[key]) for key in ("title", "licence", "protocol"))
    return Collection(
        name, title, licence, protocol, editions, default, tuple(notes or ()), where, mapping, MappingProxyType(parts)
    )


def local_collection(qrels: Path, topics: Path | None = None) -> Collection:
    """A collection of judgments in a file (TREC), with its topics in another one of any form of `TOPICS`.

    Without topics every topic of a run is accepted, and those without judgments do not count. The protocol is
    `trec_eval` unless another is asked for.
    """
    edition = Edition("given", str(qrels), qrels, topics=0, judgments=0)
    parts = {} if topics is None else {"topics": Part(topics, {"reader": "", "language": "eng"})}
    title = f"Runs judged by {qrels.name}"
    editions = {edition.name: edition}
    return Collection(
        qrels.name,
        title,
        "not stated",
        "trec_eval",
        editions,
        edition.name,
        (),
        str(qrels),
        {},
        MappingProxyType(parts),
    )


def _edition(name: str, entry: Mapping[str, Any], where: str) -> Edition:
    here = f"{where}: editions: {name}"
    faults = config.key_faults(entry, ("title", "qrels", "topics", "judgments"), (), here)
    if isinstance(entry, Mapping):
        given = {key: value for key, value in entry.items() if value is not None}
        faults += config.type_faults(given, {"topics": int, "judgments": int}, here)
        if entry.get("qrels") is not None:
            with gather(faults):
                file, reader = _judgments(entry["qrels"], here, Path(where).parent)
    refuse(faults)
    return Edition(name, str(entry["title"]), file, entry["topics"], entry["judgments"], reader)


def _judgments(entry: Mapping[str, Any], where: str, folder: Path) -> tuple[Resource | Path, str]:
    """The file of judgments, and its reader."""
    reader = str(entry.get("reader", "trec")) if isinstance(entry, Mapping) else "trec"
    if reader not in JUDGMENTS:
        raise HarnessError(f"{where}: reader {reader!r} is unknown; {suggestion(reader, JUDGMENTS)}")
    place = {key: value for key, value in entry.items() if key != "reader"} if isinstance(entry, Mapping) else entry
    return config.resource(place, where, folder), reader


def _part(name: str, entry: Mapping[str, Any], where: str) -> Part:
    """The part `topics`, `attributes` or `keys` of a configuration."""
    required, optional = _PARTS[name]
    here = f"{where}: {name}"
    faults = config.key_faults(entry, required, (*optional, *_PLACES), here)
    given = {key: value for key, value in entry.items() if value is not None}
    faults += config.type_faults(given, {"columns": dict}, here)
    how: dict[str, Any] = {key: str(entry[key]) for key in (*required, *optional) if key in entry}
    if name == "topics":
        how.setdefault("language", "eng")
        if (reader := how.get("reader")) is not None and reader not in TOPICS:
            faults.append(f"{here}: reader {reader!r} is unknown; {suggestion(reader, TOPICS)}")
    if name == "attributes":
        how["columns"] = entry.get("columns")
    with gather(faults):
        file = config.resource(_file(entry), here, Path(where).parent)
    refuse(faults)
    return Part(file, how)


def load_protocol(name: str) -> Protocol:
    """A protocol by name; raises HarnessError as `load_collection` does."""
    mapping, where = config.load("protocol", name)
    return Protocol.from_config(mapping, where)
