"""Collections: topics, judgments and the protocol they are scored by, one configuration file each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import config, topics
from harness.collections import leansearch, mathlib, ntcir
from harness.errors import HarnessError, format_error, suggestion
from harness.fetch import Resource, fetch, state
from harness.files import read_bytes
from harness.protocol import Protocol
from harness.scoring import Scorer
from harness.topics import Topics
from harness.trec import Qrels, parse_qrels

_KEYS = ("name", "title", "licence", "protocol", "editions", "topics")
Lines = list[tuple[int, str]]
_TYPES = {"editions": dict, "topics": dict, "attributes": dict, "keys": dict, "notes": list}
_OPTIONAL = ("default_edition", "attributes", "keys", "pool", "corpus", "notes", "cluster", "link")
_LINK = re.compile(r"https://[^\s{}]*\{id\}[^\s{}]*")


@dataclass(frozen=True)
class Edition:
    """One set of judgments: how many topics and judgments it must have, so that a wrong file is noticed.

    Attributes
    ----------
    judgments : 0 if nobody could count them when the configuration was written.
    reader : which of `JUDGMENTS` reads the file.
    """

    name: str
    title: str
    file: Resource | Path
    topics: int
    judgments: int
    reader: str = "trec"


@dataclass(frozen=True)
class Collection:
    """What a collection's configuration says; files are fetched when they are asked for.

    Attributes
    ----------
    protocol : name of the protocol runs are scored by unless another is asked for.
    notes : what a reader of its numbers must know.
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
        entries += [config.resource(_file(self.config[key]), self.where) for key in _FILES if key in self.config]
        return [entry for entry in entries if isinstance(entry, Resource)]

    def state(self) -> str:
        """`here`, `fetchable` or `by hand: ...`: the worst of its files."""
        states = [state(entry) for entry in self.files()]
        by_hand = [entry for entry in states if entry.startswith("by hand")]
        return by_hand[0] if by_hand else "fetchable" if "fetchable" in states else "here"

    def qrels(self, edition: str | None = None) -> Qrels:
        """The judgments of an edition, counted against what the configuration says."""
        chosen = self.edition(edition)
        path = local(chosen.file)
        qrels = JUDGMENTS[chosen.reader](read_bytes(path), str(path), chosen.name)
        if (len(qrels.topics), len(qrels)) != (chosen.topics, chosen.judgments or len(qrels)):
            raise HarnessError(
                f"{path}: {len(qrels.topics)} topics and {len(qrels)} judgments; "
                f"{self.where} says {chosen.topics} and {chosen.judgments}"
            )
        return qrels

    def topics(self) -> Topics:
        """The topics with all attributes that the collection has."""
        where = f"{self.where}: topics"
        entry = self.config["topics"]
        reader = str(entry["reader"])
        if reader not in TOPICS:
            raise HarnessError(f"{where}: reader {reader!r} is unknown; {suggestion(reader, TOPICS)}")
        path = local(config.resource(_file(entry), where))
        out = TOPICS[reader](read_bytes(path), str(path), str(entry.get("language", "eng")))
        if "attributes" in self.config:
            entry = self.config["attributes"]
            config.check_keys(entry, ("key", "columns"), _PLACES, f"{self.where}: attributes")
            config.check_types(entry, {"columns": dict}, f"{self.where}: attributes")
            path = local(config.resource(_file(entry), f"{self.where}: attributes"))
            out = out.with_attributes(
                topics.attributes_csv(read_bytes(path), str(path), str(entry["key"]), entry["columns"])
            )
        return out

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
        if "keys" not in self.config:
            return None
        entry = self.config["keys"]
        config.check_keys(entry, ("id_column", "key_column"), _PLACES, f"{self.where}: keys")
        path = local(config.resource(_file(entry), f"{self.where}: keys"))
        return read_keys(path, str(entry["id_column"]), str(entry["key_column"]))

    def scorer(
        self,
        edition: str | None = None,
        protocol: str | None = None,
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
        chosen = load_protocol(protocol or self.protocol)
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
_FILES = ("topics", "attributes", "keys")


def _file(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: entry[key] for key in _PLACES if key in entry}


def local(file: Resource | Path) -> Path:
    """The path of a file, fetched if it must be."""
    return file if isinstance(file, Path) else fetch([file])[0]


def read_keys(path: Path, id_column: str, key_column: str) -> dict[str, str]:
    """id -> key from a tab-separated file with a header, or from JSON lines.

    Raises
    ------
    HarnessError
        A column is missing, a line is not a JSON object, or an id has two keys; with its line.
    """
    data = read_bytes(path).decode("utf-8-sig", "replace")
    lines = [(number, line.rstrip("\r")) for number, line in enumerate(data.split("\n"), 1) if line.strip()]
    rows = _keys_jsonl if ".jsonl" in path.suffixes else _keys_table
    out: dict[str, str] = {}
    for number, name, key in rows(lines, path, id_column, key_column):
        if out.setdefault(name, key) != key:
            raise format_error(path, number, f"{name!r} has the key {out[name]!r} on an earlier line, {key!r} here")
    return out


def _keys_jsonl(lines: Lines, path: Path, id_column: str, key_column: str) -> Iterator[tuple[int, str, str]]:
    for number, line in lines:
        try:
            row = json.loads(line)
            yield number, str(row[id_column]), str(row[key_column])
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
        Unknown name, or a key of its configuration that is unknown, missing or wrong.
    """
    mapping, where = config.load("collection", name)
    config.check_keys(mapping, _KEYS, _OPTIONAL, where)
    config.check_types(mapping, _TYPES, where)
    if mapping["name"] != name:
        raise HarnessError(f"{where}: key 'name' is {mapping['name']!r}, expected the file's name {name!r}")
    if "link" in mapping and not _LINK.fullmatch(str(mapping["link"])):
        raise HarnessError(
            f"{where}: key 'link' is {mapping['link']!r}, expected an address with one '{{id}}' in place of a "
            "document's id, such as https://example.org/{id}"
        )
    config.check_keys(mapping["topics"], ("reader",), (*_PLACES, "language"), f"{where}: topics")
    editions = {}
    for key, entry in mapping["editions"].items():
        here = f"{where}: editions: {key}"
        config.check_keys(entry, ("title", "qrels", "topics", "judgments"), (), here)
        config.check_types(entry, {"topics": int, "judgments": int}, here)
        place, reader = _judgments(entry["qrels"], here)
        file = config.resource(place, here)
        editions[str(key)] = Edition(str(key), str(entry["title"]), file, entry["topics"], entry["judgments"], reader)
    default = str(mapping.get("default_edition", next(iter(editions))))
    notes = tuple(str(note) for note in mapping.get("notes", ()))
    title, licence, protocol = (str(mapping[key]) for key in ("title", "licence", "protocol"))
    out = Collection(name, title, licence, protocol, editions, default, notes, where, mapping)
    out.edition()
    return out


def _judgments(entry: Mapping[str, Any], where: str) -> tuple[Mapping[str, Any], str]:
    """The place of a file of judgments, and its reader."""
    reader = str(entry.get("reader", "trec")) if isinstance(entry, Mapping) else "trec"
    if reader not in JUDGMENTS:
        raise HarnessError(f"{where}: reader {reader!r} is unknown; {suggestion(reader, JUDGMENTS)}")
    place = {key: value for key, value in entry.items() if key != "reader"} if isinstance(entry, Mapping) else entry
    return place, reader


def load_protocol(name: str) -> Protocol:
    """A protocol by name; raises HarnessError as `load_collection` does."""
    mapping, where = config.load("protocol", name)
    return Protocol.from_config(mapping, where)
