"""Published numbers: tables as cells, cells recomputed, and a verdict for each."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.collections.load import load_collection
from harness.errors import HarnessError, suggestion
from harness.io import checks, config
from harness.io.files import read_bytes
from harness.papers import rows as available
from harness.papers.cells import HEADER, Cell, read_cells
from harness.papers.rows import Available
from harness.sources import catalogue
from harness.sources.fetch import state
from harness.sources.resource import Resource


@dataclass(frozen=True)
class ArchivedRun:
    """A run file that the authors published, for one collection of their paper."""

    name: str
    group: str
    system: str
    collection: str
    file: Resource


@dataclass(frozen=True)
class Paper:
    """A paper's published cells and how to recompute them; from `conf/paper/KEY.yaml` and `cells/KEY.csv`.

    Attributes
    ----------
    available : what of its tables can be run here; None if the configuration does not say.
    twice : cells of this paper, each with the cell that prints the same value elsewhere: in another table or paper.
    """

    key: str
    title: str
    cells: tuple[Cell, ...]
    archive: Mapping[str, Any]
    runs: tuple[ArchivedRun, ...]
    config: Mapping[str, Any]
    where: str
    available: Available | None = None
    twice: tuple[tuple[Cell, Cell], ...] = ()

    def files(self) -> list[Resource]:
        """Every fetched file that recomputing needs."""
        out = [run.file for run in self.runs]
        for entry in self.archive.get("collections", {}).values():
            out += load_collection(entry["collection"]).files()
        for entry in _translations(self):
            resource = catalogue.resource(entry, self.where)
            out += [resource] if isinstance(resource, Resource) else []
        return out

    def licence(self) -> str:
        """The licence of the archived runs; empty if there are none."""
        return self.runs[0].file.licence if self.runs else ""

    def state(self) -> str:
        """`here`, `fetchable`, or what keeps its numbers from being recomputed."""
        if not self.runs:
            return str(self.config["state"]).strip()
        return "fetchable" if "fetchable" in {state(file) for file in self.files()} else "here"


_OPTIONAL = ("archive", "state", "states", "metric_notes", "also", "baselines")
_PARTS = ("claims", "breakdown", "translations", "remarks", "available", "printed_twice")
_TYPES = {"archive": dict, "states": dict, "metric_notes": dict, "also": list, "baselines": dict}
_TYPES |= {"claims": list, "breakdown": dict, "translations": dict, "remarks": list}
_TYPES |= {"available": dict, "printed_twice": list}
_LINKS = ("url", "doi", "code")
_DOI = (r"10\.[0-9]{4,9}/\S+", "a DOI such as 10.1000/182")
_ADDRESS = (r"https://\S+", "an address such as https://example.org/paper")
_ARCHIVE = ("source", "protocol", "measures", "collections", "runs")
_ARCHIVE_TYPES = {"measures": dict, "collections": dict, "runs": list, "identified": list}


def load_paper(key: str) -> Paper:
    """A paper by its key.

    Raises
    ------
    HarnessError
        Unknown key, or a configuration or cells file with a fault.
    """
    mapping, where = config.load("paper", key)
    checks.check_keys(mapping, ("key", "title"), (*_OPTIONAL, *_PARTS, *_LINKS), where)
    checks.check_types(mapping, _TYPES, where)
    for name in mapping.keys() & set(_LINKS):
        pattern, example = _DOI if name == "doi" else _ADDRESS
        if not re.fullmatch(pattern, str(mapping[name])):
            raise HarnessError(f"{where}: key {name!r} is {mapping[name]!r}, expected {example}")
    if mapping["key"] != key:
        raise HarnessError(f"{where}: key 'key' is {mapping['key']!r}, expected the file's name {key!r}")
    cells = _cells(key)
    archive = mapping.get("archive") or {}
    runs: tuple[ArchivedRun, ...] = ()
    if archive:
        checks.check_keys(archive, _ARCHIVE, ("identified",), f"{where}: archive")
        checks.check_types(archive, _ARCHIVE_TYPES, f"{where}: archive")
        runs = tuple(_archived_runs(archive, where))
    checks.check_states(mapping, {cell.table for cell in cells}, where)
    _check_parts(mapping, {run.name for run in runs}, where)
    rows = None
    if "available" in mapping:
        rows = available.parse(mapping["available"], cells, f"{where}: available")
    twice = tuple(pair for entry in mapping.get("printed_twice", ()) for pair in _twice(entry, cells, where))
    return Paper(key, str(mapping["title"]), cells, archive, runs, mapping, where, rows, twice)


def _cells(key: str) -> tuple[Cell, ...]:
    path = config.names("paper")[key].parent / "cells" / f"{key}.csv"
    return read_cells(read_bytes(path), str(path))


def _twice(entry: Mapping[str, Any], cells: Sequence[Cell], where: str) -> list[tuple[Cell, Cell]]:
    """The values that two tables print for one run: those of one measure, collection and slice."""
    here = f"{where}: printed_twice"
    checks.check_keys(entry, ("here", "there"), (), here)
    checks.check_keys(entry["here"], ("table", "system"), ("group",), f"{here}: here")
    checks.check_keys(entry["there"], ("table", "system"), ("group", "paper"), f"{here}: there")
    named = entry["there"].get("paper")
    if named is not None and named not in paper_names():
        raise HarnessError(f"{here}: paper {named!r} is unknown; {suggestion(str(named), paper_names())}")

    def row(wanted: Mapping[str, Any], among: Sequence[Cell]) -> dict[tuple[str, ...], Cell]:
        coordinates = {key: str(value) for key, value in wanted.items() if key != "paper"}
        found = [cell for cell in among if all(getattr(cell, key) == value for key, value in coordinates.items())]
        return {(cell.metric, cell.collection, cell.slice): cell for cell in found}

    first, second = row(entry["here"], cells), row(entry["there"], _cells(named) if named else cells)
    pairs = [(first[at], second[at]) for at in first if at in second]
    if not pairs:
        raise HarnessError(f"{here}: {entry['here']} and {entry['there']} share no measure on a collection")
    return pairs


def paper_names() -> list[str]:
    """Keys of all papers: the configurations that have a file of cells beside them."""
    return [key for key, path in config.names("paper").items() if (path.parent / "cells" / f"{key}.csv").is_file()]


def _archived_runs(archive: Mapping[str, Any], where: str) -> list[ArchivedRun]:
    out: list[ArchivedRun] = []
    for collection, entry in archive["collections"].items():
        checks.check_keys(entry, ("collection", "edition"), ("suffix",), f"{where}: archive: collections: {collection}")
        for run in archive["runs"]:
            checks.check_keys(run, ("name", "group", "system", "path"), (), f"{where}: archive: runs")
            path = str(run["path"]).replace("{suffix}", str(entry.get("suffix", "")))
            if (str(collection), str(run["name"])) in {(known.collection, known.name) for known in out}:
                raise HarnessError(f"{where}: archive: runs: two are named {run['name']!r}")
            file = catalogue.resource({"source": archive["source"], "path": path}, f"{where}: archive: runs")
            if not isinstance(file, Resource):
                raise HarnessError(f"{where}: archive: {path} is not a fetched file")
            out.append(ArchivedRun(str(run["name"]), str(run["group"]), str(run["system"]), str(collection), file))
    return out


def _check_parts(mapping: Mapping[str, Any], runs: Collection[str], where: str) -> None:
    """Keys and run names of the parts beside the tables, before anything is fetched for them."""
    identified = (mapping.get("archive") or {}).get("identified", ())
    named = [(f"baselines: {ending}", run) for ending, run in mapping.get("baselines", {}).items()]
    for entry in identified:
        here = f"{where}: archive: identified"
        checks.check_keys(entry, ("cell", "run", "collection", "topic", "cause"), (), here)
        checks.check_keys(entry["cell"], (), tuple(HEADER), f"{here}: cell")
        named.append(("archive: identified", entry["run"]))
    if "translations" in mapping:
        entry, here = mapping["translations"], f"{where}: translations"
        checks.check_keys(entry, ("source", "english", "languages"), (), here)
        checks.check_types(entry, {"languages": dict}, here)
        for code, language in entry["languages"].items():
            checks.check_keys(language, ("title", "path"), (), f"{here}: languages: {code}")
    if "breakdown" in mapping:
        entry, here = mapping["breakdown"], f"{where}: breakdown"
        checks.check_keys(entry, ("title", "attribute", "values", "measure", "runs"), (), here)
        checks.check_types(entry, {"values": list, "runs": list}, here)
        named += [("breakdown", run) for run in entry["runs"]]
    for key, run in named:
        if str(run) not in runs:
            raise HarnessError(f"{where}: {key}: run {run!r} is not in the archive; {suggestion(str(run), runs)}")


def _translations(paper: Paper) -> list[dict[str, Any]]:
    entry = paper.config.get("translations")
    if not entry:
        return []
    paths = [entry["english"], *(language["path"] for language in entry["languages"].values())]
    return [{"source": entry["source"], "path": path} for path in paths]
