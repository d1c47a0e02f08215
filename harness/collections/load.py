"""A collection by name, every fault of its configuration reported."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from harness.collections import foreign
from harness.collections.collection import Collection, Edition, Part
from harness.collections.files import JUDGMENTS, TOPICS
from harness.errors import HarnessError, gather, refuse, suggestion
from harness.io import checks, config
from harness.sources import catalogue
from harness.sources.resource import Resource

_KEYS = ("name", "title", "licence", "protocol", "editions", "topics")
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
_PLACES = ("source", "path", "embedded", "file")
# Part of a collection -> its keys beside the place of the file: those it must have and those it may have.
_PARTS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "topics": (("reader",), ("language",)),
    "attributes": (("key", "columns"), ()),
    "keys": (("id_column", "key_column"), ()),
}


def _file(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: entry[key] for key in _PLACES if key in entry}


def load_collection(name: str) -> Collection:
    """A collection by name.

    Raises
    ------
    HarnessError
        Unknown name, or keys of its configuration that are unknown, missing or wrong: all of them, a line each.
    """
    mapping, where = config.read("collection", name)
    faults = checks.key_faults(mapping, _KEYS, _OPTIONAL, where)
    given = {key: value for key, value in mapping.items() if value is not None or key not in _KEYS}
    faults += checks.type_faults(given, _TYPES, where)
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
    faults = checks.key_faults(entry, ("title", "qrels", "topics", "judgments"), (), here)
    if isinstance(entry, Mapping):
        given = {key: value for key, value in entry.items() if value is not None}
        faults += checks.type_faults(given, {"topics": int, "judgments": int}, here)
        if entry.get("qrels") is not None:
            with gather(faults):
                file, reader = _judgments(entry["qrels"], here, Path(where).parent)
    refuse(faults)
    return Edition(name, str(entry["title"]), file, entry["topics"], entry["judgments"], reader)


def _judgments(entry: Mapping[str, Any], where: str, folder: Path) -> tuple[Resource | Path, str]:
    """The file of judgments, and its reader."""
    reader = str(entry.get("reader", "trec")) if isinstance(entry, Mapping) else "trec"
    if reader not in JUDGMENTS and not foreign.named(reader):
        raise HarnessError(f"{where}: reader {reader!r} is unknown; {suggestion(reader, JUDGMENTS)}")
    place = {key: value for key, value in entry.items() if key != "reader"} if isinstance(entry, Mapping) else entry
    return catalogue.resource(place, where, folder), reader


def _part(name: str, entry: Mapping[str, Any], where: str) -> Part:
    """The part `topics`, `attributes` or `keys` of a configuration."""
    required, optional = _PARTS[name]
    here = f"{where}: {name}"
    faults = checks.key_faults(entry, required, (*optional, *_PLACES), here)
    given = {key: value for key, value in entry.items() if value is not None}
    faults += checks.type_faults(given, {"columns": dict}, here)
    how: dict[str, Any] = {key: str(entry[key]) for key in (*required, *optional) if key in entry}
    if name == "topics":
        how.setdefault("language", "eng")
        if (reader := how.get("reader")) is not None and reader not in TOPICS and not foreign.named(reader):
            faults.append(f"{here}: reader {reader!r} is unknown; {suggestion(reader, TOPICS)}")
    if name == "attributes":
        how["columns"] = entry.get("columns")
    with gather(faults):
        file = catalogue.resource(_file(entry), here, Path(where).parent)
    refuse(faults)
    return Part(file, how)
