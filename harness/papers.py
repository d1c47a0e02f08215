"""Published numbers: tables as cells, cells recomputed, and a verdict for each."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from harness import available, config
from harness.available import Available
from harness.collections import load_collection, local
from harness.collections.crossmath import Translation, check_translation
from harness.errors import HarnessError, format_error, suggestion
from harness.fetch import Resource, fetch, state
from harness.files import read_bytes, sha256
from harness.protocol import Scores
from harness.scoring import Ranking, Scorer
from harness.topics import READERS, Topics
from harness.trec import read_run

Judgement = Literal["exact", "close", "differs", "needs", "not implemented", "blocked"]
KINDS: tuple[Judgement, ...] = get_args(Judgement)
HEADER = ["paper", "table", "caption", "system", "group", "collection", "task", "slice", "metric", "aggregate"]
HEADER += ["value", "std", "significant", "baseline", "note"]
Say = Callable[[str], None]
Spans = Mapping[str, tuple[float, float]]
Track = Callable[[Sequence["ArchivedRun"], str], Iterable["ArchivedRun"]]


@dataclass(frozen=True)
class Cell:
    """A published number with its coordinates; the columns of `conf/paper/cells/PAPER.csv`.

    `value` and `std` are kept as printed, so that their digits are known. `significant` is None where the
    table has no test.
    """

    paper: str
    table: str
    caption: str
    system: str
    group: str
    collection: str
    task: str
    slice: str
    metric: str
    aggregate: str
    value: str
    std: str
    significant: bool | None
    baseline: bool
    note: str

    @property
    def place(self) -> str:
        """The row, collection, slice and measure of the number, in one line."""
        return ", ".join(part for part in (self.row, self.collection, self.slice, self.metric) if part)

    @property
    def row(self) -> str:
        """Its row, with the table."""
        table = f"Table {self.table}" if self.table[:1].isdigit() else self.table
        return ", ".join(part for part in (table, self.group, self.system) if part)


@dataclass(frozen=True)
class Verdict:
    """What became of a cell.

    Attributes
    ----------
    value : the recomputed value; None if there is none.
    run, collection, edition, protocol, measure : what it was computed from.
    n : topics that its mean is over (1 for a single topic).
    cause : why it differs or was not recomputed (`config.state`), or how the cell was found.
    """

    cell: Cell
    verdict: Judgement
    value: float | None = None
    run: str = ""
    collection: str = ""
    edition: str = ""
    protocol: str = ""
    measure: str = ""
    n: int = 0
    cause: str = ""


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
            resource = config.resource(entry, self.where)
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


@dataclass(frozen=True)
class Reproduction:
    """Everything recomputed for one paper.

    Attributes
    ----------
    scores : (collection of the paper, run name) -> scores under the paper's protocol.
    also : protocol -> the same under another protocol, on the same editions.
    bounds : (collection, run) -> measure -> lowest and highest mean over the orders of ties, where they differ.
    topics : collection of the paper -> its topics with attributes.
    translations : language -> what a check of its translated topics found.
    warnings : what readers of the run files reported.
    """

    paper: Paper
    verdicts: tuple[Verdict, ...]
    scores: Mapping[tuple[str, str], Scores]
    also: Mapping[str, Mapping[tuple[str, str], Scores]]
    bounds: Mapping[tuple[str, str], Spans]
    topics: Mapping[str, Topics]
    translations: tuple[Translation, ...]
    warnings: tuple[str, ...]
    scorers: Mapping[str, Scorer] = field(default_factory=dict)
    rankings: Mapping[tuple[str, str], Mapping[str, Ranking]] = field(default_factory=dict)

    def count(self, verdict: Judgement) -> int:
        """How many cells got a verdict."""
        return sum(v.verdict == verdict for v in self.verdicts)

    @property
    def line(self) -> str:
        """The outcome in one line."""
        tables = [v for v in self.verdicts if v.cell.table[:1].isdigit()]
        exact = sum(v.verdict == "exact" for v in tables)
        parts = [f"{exact} of {len(tables)} table cells exact"] if tables else []
        rest = [v for v in self.verdicts if not v.cell.table[:1].isdigit()]
        if rest:
            parts.append(f"{sum(v.verdict == 'exact' for v in rest)} of {len(rest)} values of its text exact")
        said = {"needs": "need a resource"}
        parts += [f"{self.count(kind)} {said.get(kind, kind)}" for kind in KINDS[1:] if self.count(kind)]
        return f"{self.paper.key}: {', '.join(parts)}"


def judge(printed: str, value: float) -> Judgement:
    """`exact` if the value rounds to the printed digits, `close` within two units of the last, else `differs`.

    A value in the very middle of two roundings counts as either of them.
    """
    unit = 10.0 ** -len(printed.partition(".")[2])
    distance = abs(value - float(printed)) / unit
    slack = 1e-6  # a mean's own rounding must not decide
    if distance <= 0.5 + slack:
        return "exact"
    return "close" if distance <= 2 + slack else "differs"


def read_cells(data: bytes, path: str) -> tuple[Cell, ...]:
    """The cells of a CSV file; faults as `path:line: reason`."""
    cells: list[Cell] = []
    try:
        rows = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
        header = next(rows, [])
        if header != HEADER:
            raise format_error(path, 1, f"header is {','.join(header)!r}, expected {','.join(HEADER)!r}")
        seen: dict[Cell, int] = {}
        number = rows.line_num + 1
        for row in rows:
            cell = _cell(row, path, number)
            if seen.setdefault(replace(cell, value="", std="", note=""), number) != number:
                raise format_error(path, number, f"this cell ({cell.place}) is on an earlier line already")
            cells.append(cell)
            number = rows.line_num + 1
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise format_error(path, line, f"byte 0x{data[error.start]:02x} is not UTF-8 text") from None
    except csv.Error as error:
        raise format_error(path, rows.line_num, f"not CSV: {error}") from None
    return tuple(cells)


_NUMBER = re.compile(r"-?([0-9]+(\.[0-9]+)?|\.[0-9]+)")
_FLAGS = {"1": True, "0": False, "": None}


def _cell(row: Sequence[str], path: str, line: int) -> Cell:
    if len(row) != len(HEADER):
        raise format_error(path, line, f"{len(row)} columns, expected {len(HEADER)}")
    values: dict[str, Any] = dict(zip(HEADER, row, strict=True))
    for column in ("value", "std"):
        if not _NUMBER.fullmatch(values[column]) and (values[column] or column == "value"):
            raise format_error(path, line, f"{column} {values[column]!r} is not a decimal number such as 0.259")
    for column in ("significant", "baseline"):
        if values[column] not in _FLAGS:
            raise format_error(path, line, f"{column} is {values[column]!r}, expected 1, 0 or nothing")
        values[column] = _FLAGS[values[column]]
    return Cell(**{**values, "baseline": bool(values["baseline"])})


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
    config.check_keys(mapping, ("key", "title"), (*_OPTIONAL, *_PARTS, *_LINKS), where)
    config.check_types(mapping, _TYPES, where)
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
        config.check_keys(archive, _ARCHIVE, ("identified",), f"{where}: archive")
        config.check_types(archive, _ARCHIVE_TYPES, f"{where}: archive")
        runs = tuple(_archived_runs(archive, where))
    config.check_states(mapping, {cell.table for cell in cells}, where)
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
    config.check_keys(entry, ("here", "there"), (), here)
    config.check_keys(entry["here"], ("table", "system"), ("group",), f"{here}: here")
    config.check_keys(entry["there"], ("table", "system"), ("group", "paper"), f"{here}: there")
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
        config.check_keys(entry, ("collection", "edition"), ("suffix",), f"{where}: archive: collections: {collection}")
        for run in archive["runs"]:
            config.check_keys(run, ("name", "group", "system", "path"), (), f"{where}: archive: runs")
            path = str(run["path"]).replace("{suffix}", str(entry.get("suffix", "")))
            if (str(collection), str(run["name"])) in {(known.collection, known.name) for known in out}:
                raise HarnessError(f"{where}: archive: runs: two are named {run['name']!r}")
            file = config.resource({"source": archive["source"], "path": path}, f"{where}: archive: runs")
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
        config.check_keys(entry, ("cell", "run", "collection", "topic", "cause"), (), here)
        config.check_keys(entry["cell"], (), tuple(HEADER), f"{here}: cell")
        named.append(("archive: identified", entry["run"]))
    if "translations" in mapping:
        entry, here = mapping["translations"], f"{where}: translations"
        config.check_keys(entry, ("source", "english", "languages"), (), here)
        config.check_types(entry, {"languages": dict}, here)
        for code, language in entry["languages"].items():
            config.check_keys(language, ("title", "path"), (), f"{here}: languages: {code}")
    if "breakdown" in mapping:
        entry, here = mapping["breakdown"], f"{where}: breakdown"
        config.check_keys(entry, ("title", "attribute", "values", "measure", "runs"), (), here)
        config.check_types(entry, {"values": list, "runs": list}, here)
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


def in_silence(runs: Sequence[ArchivedRun], _: str) -> Iterable[ArchivedRun]:
    """Show no progress."""
    return runs


def reproduce(paper: Paper, say: Say = lambda _: None, track: Track = in_silence) -> Reproduction:
    """Recompute every cell that can be recomputed.

    Parameters
    ----------
    say : gets what is being done, a line at a time.
    track : goes through the runs and shows how far it is, as `console.track`.

    Raises
    ------
    HarnessError
        A file cannot be had or is not what its checksum says. Missing runs of papers without an archive are
        verdicts (`config.state`), not errors.
    """
    if not paper.runs:
        return Reproduction(paper, tuple(_not_recomputed(paper, cell) for cell in paper.cells), {}, {}, {}, {}, (), ())
    fetch(paper.files(), progress=say)
    collections = {key: load_collection(entry["collection"]) for key, entry in paper.archive["collections"].items()}
    editions = {key: str(entry["edition"]) for key, entry in paper.archive["collections"].items()}
    topics = {key: collection.topics() for key, collection in collections.items()}
    protocol = str(paper.archive["protocol"])
    scorers = {key: collection.scorer(editions[key], protocol) for key, collection in collections.items()}
    others = {
        name: {key: collection.scorer(editions[key], name) for key, collection in collections.items()}
        for name in paper.config.get("also", ())
    }
    scores: dict[tuple[str, str], Scores] = {}
    also: dict[str, dict[tuple[str, str], Scores]] = {name: {} for name in others}
    bounds: dict[tuple[str, str], Spans] = {}
    rankings: dict[tuple[str, str], dict[str, Ranking]] = {}
    warnings: list[str] = []
    for archived in track(paper.runs, f"{paper.key}: scoring runs"):
        key = (archived.collection, archived.name)
        path = local(archived.file)
        run = read_run(path, name=archived.name, known_topics=topics[archived.collection].ids())
        warnings += [str(warning) for warning in run.warnings]
        scores[key] = scorers[archived.collection](run)
        rankings[key] = scorers[archived.collection].rankings(run)
        spans = scorers[archived.collection].tie_spans(run, scores[key])
        bounds |= {key: spans} if spans else {}
        for name, by_collection in others.items():
            also[name][key] = by_collection[archived.collection](run)
    verdicts = tuple(_verdict(paper, cell, scores) for cell in paper.cells)
    checks = _check_translations(paper, scorers)
    return Reproduction(
        paper, verdicts, scores, also, bounds, topics, checks, tuple(warnings), scorers=scorers, rankings=rankings
    )


def _check_translations(paper: Paper, scorers: Mapping[str, Scorer]) -> tuple[Translation, ...]:
    entry = paper.config.get("translations")
    if not entry:
        return ()
    judged = {topic for scorer in scorers.values() for topic in scorer.qrels.topics}

    def read(path: str, language: str) -> Topics:
        file = local(config.resource({"source": entry["source"], "path": path}, paper.where))
        return READERS["crossmath-tsv"](read_bytes(file), str(file), language)

    english = read(str(entry["english"]), "eng")
    return tuple(
        check_translation(code, str(language["title"]), read(str(language["path"]), code), english, judged)
        for code, language in entry["languages"].items()
    )


def _not_recomputed(paper: Paper, cell: Cell) -> Verdict:
    text = paper.config.get("states", {}).get(cell.table) or paper.config.get("state")
    if not text:
        raise HarnessError(f"{paper.where}: no run recomputes {cell.place}, and key 'state' does not say why")
    kind, why = config.state(text, paper.where)
    return Verdict(cell, kind, cause=why + _note(paper, cell))


def _note(paper: Paper, cell: Cell) -> str:
    """What is odd about the paper's definition of the cell's measure, as the end of a cause."""
    note = paper.config.get("metric_notes", {}).get(cell.metric)
    return f"; {note}" if note else ""


def _verdict(paper: Paper, cell: Cell, scores: Mapping[tuple[str, str], Scores]) -> Verdict:
    archive = paper.archive
    name, collection, topic, cause = "", cell.collection, "", ""
    for entry in archive.get("identified", ()):
        if all(getattr(cell, key) == str(value) for key, value in entry["cell"].items()):
            name, collection, topic, cause = entry["run"], entry["collection"], entry["topic"], entry["cause"]
    if not name:
        name = next((r.name for r in paper.runs if (r.group, r.system) == (cell.group, cell.system)), "")
    measure = archive["measures"].get(cell.metric)
    found = scores.get((collection, name))
    if found is None or measure is None:
        return _not_recomputed(paper, cell)
    if topic:
        if topic not in found.topics:
            raise HarnessError(f"{paper.where}: topic {topic!r} is not judged; {suggestion(topic, found.topics)}")
        value, n = float(found.column(measure)[found.topics.index(topic)]), 1
    else:
        value, n = found.mean(measure), found.n(measure)
    made = (name, found.collection, found.edition, found.protocol.name, measure, n, cause)
    return Verdict(cell, judge(cell.value, value), value, *made)


def pooled(scores: Sequence[Scores]) -> Scores:
    """The scores of one run on several collections as if they were one: topics side by side, each counted once.

    Raises
    ------
    HarnessError
        The runs, protocols or measures differ, or a topic occurs twice.
    """
    import numpy as np

    first = scores[0]
    topics = tuple(topic for score in scores for topic in score.topics)
    alike = all((s.run, s.protocol, s.measures) == (first.run, first.protocol, first.measures) for s in scores)
    if not alike or len(set(topics)) != len(topics):
        raise HarnessError(f"run {first.run}: scores of unlike runs or of shared topics cannot be pooled")
    return replace(
        first,
        collection=" + ".join(s.collection for s in scores),
        edition=" + ".join(s.edition for s in scores),
        topics=topics,
        values=np.concatenate([s.values for s in scores]),
        qrels_sha256=sha256("".join(s.qrels_sha256 for s in scores).encode()),
        run_sha256=sha256("".join(s.run_sha256 for s in scores).encode()),
        counts={},
    )
