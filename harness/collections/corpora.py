"""A corpus by name: its sources, its reader, and which columns become which fields."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.collections import foreign
from harness.collections.corpus import JSONL, Corpus, Reader, Source
from harness.errors import HarnessError, gather, refuse, suggestion
from harness.io import checks, config
from harness.sources import catalogue
from harness.sources.resource import Folder


def reader(name: str) -> Reader:
    """A reader by name; the modules of the other forms are loaded when they are needed."""
    if name == JSONL.name:
        return JSONL
    if foreign.named(name):
        return foreign.documents(name)
    from harness.collections.readers import arqmath, mse, ntcir, tangent

    readers = (mse.PAGES, mse.FORMULAS, arqmath.POSTS, tangent.FORMULAS, ntcir.FORMULAS)
    known = {entry.name: entry for entry in readers}
    if name not in known:
        raise HarnessError(f"reader {name!r} is unknown; {suggestion(name, (JSONL.name, *known))}")
    return known[name]


_TARGETS = ("id", "title", "body", "tags", "formulas", "latex", "visual_id")
_OPTIONAL = ("file", "files", "folder", "fields", "keep", "reader", "notes", "ids_are_keys", "has_keys")
_TYPES = {"file": dict, "files": list, "folder": dict, "fields": dict, "keep": list, "reader": str, "notes": list}


def load_corpus(name: str) -> Corpus:
    """A corpus by name; nothing is fetched before it is read.

    Raises
    ------
    HarnessError
        An unknown name, or faults of its configuration: all of them, a line each.
    """
    mapping, where = config.read("corpus", name)
    faults = checks.key_faults(mapping, ("name", "title", "licence"), _OPTIONAL, where)
    faults += checks.type_faults(mapping, {**_TYPES, "ids_are_keys": bool, "has_keys": bool}, where)
    if mapping.get("name", name) != name:
        faults.append(f"{where}: key 'name' is {mapping['name']!r}, expected the file's name {name!r}")
    keyed, has = mapping.get("ids_are_keys", False), mapping.get("has_keys", False)
    if keyed is True and has is True:
        faults.append(f"{where}: keys 'ids_are_keys' and 'has_keys' exclude each other")
    named = str(mapping.get("reader", JSONL.name))
    found = JSONL
    try:
        found = reader(named)
    except HarnessError as error:
        faults.append(f"{where}: {error}")
    fields: tuple[tuple[str, str], ...] = ()
    if named == JSONL.name and isinstance(mapping.get("fields", {}), dict):
        with gather(faults):
            fields = _fields(mapping, where)
    with gather(faults):
        sources = _sources(mapping, where)
    refuse(faults)
    keep, notes = (tuple(map(str, mapping.get(key, ()))) for key in ("keep", "notes"))
    title, licence = str(mapping["title"]), str(mapping["licence"])
    return Corpus(name, title, licence, sources, fields, keep, found, notes, keyed, has)


def _fields(mapping: Mapping[str, Any], where: str) -> tuple[tuple[str, str], ...]:
    if "fields" not in mapping:
        raise HarnessError(f"{where}: key 'fields' is missing")
    listed = {column: names if isinstance(names, list) else [names] for column, names in mapping["fields"].items()}
    pairs = tuple((str(column), str(name)) for column, names in listed.items() for name in names)
    unknown = [name for _, name in pairs if name not in _TARGETS]
    refuse([f"{where}: fields: {name!r} is unknown; {suggestion(name, _TARGETS)}" for name in unknown])
    if "id" not in (name for _, name in pairs):
        raise HarnessError(f"{where}: fields: no column is the 'id'")
    return pairs


def _sources(mapping: Mapping[str, Any], where: str) -> tuple[Source, ...]:
    given = [key for key in ("file", "files", "folder") if key in mapping]
    if len(given) != 1:
        both = " and ".join(given) or "none of them"
        raise HarnessError(f"{where}: expected one of the keys 'file', 'files' and 'folder', found {both}")
    if not isinstance(mapping[given[0]], _TYPES[given[0]]):
        return ()  # reported by the check of types
    if "folder" in mapping:
        return (Folder.from_config(mapping["folder"], f"{where}: folder"),)
    entries = [mapping["file"]] if "file" in mapping else mapping["files"]
    faults: list[str] = []
    found: list[Source] = []
    for entry in entries:
        with gather(faults):
            found.append(catalogue.resource(entry, where, Path(where).parent))
    refuse(faults)
    return tuple(found)
