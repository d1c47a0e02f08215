"""Papers: published tables as cells, archived runs, and the configuration of their recomputation."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any

from harness.collections.load import load_collection
from harness.errors import HarnessError, refuse, suggestion
from harness.io import checks, config, extensions
from harness.io.checks import Words
from harness.io.files import read_bytes
from harness.papers import rows
from harness.papers.cells import HEADER, PublishedCell, read_cells
from harness.papers.paper_settings import Breakdown, ClaimSettings, CostUnit, Here, RerunSettings, Translations
from harness.papers.rows import Available
from harness.sources import catalogue
from harness.sources.fetch import resource_state
from harness.sources.resource import Resource


@dataclass(frozen=True)
class ArchivedRun:
    """Run file published by the authors, for one collection of their paper."""

    name: str
    group: str
    system: str
    collection: str
    file: Resource


@dataclass(frozen=True)
class PaperCollection:
    """Our collection and edition for a collection of the paper.

    Attributes
    ----------
    collection, edition : our collection and its edition.
    suffix : part of the names of its files in the archive.
    protocol : protocol that replaces the paper's; empty for none.
    """

    collection: Words
    edition: Words
    suffix: Words = ""
    protocol: Words = ""


@dataclass(frozen=True)
class ArchivedFiles:
    """A run in the archive: one file per collection.

    Attributes
    ----------
    name : of the run.
    group, system : row of the paper's tables.
    path : of the file, with `{suffix}` in place of that of the collection.
    """

    name: Words
    group: Words
    system: Words
    path: Words


def _checked_coordinates(key: str, value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise HarnessError(f"{key}: expected keys and values, found {value!r}")
    refuse([f"{key}: key {name!r} is unknown; {suggestion(str(name), HEADER)}" for name in value if name not in HEADER])
    return {name: str(wanted) for name, wanted in value.items()}


@dataclass(frozen=True)
class Identified:
    """Identification of cells.

    Attributes
    ----------
    cell : coordinates of the cells.
    run, collection, topic : run and topic whose value they print.
    cause : how this was found out.
    """

    cell: Annotated[Mapping[str, str], _checked_coordinates]
    run: Words
    collection: Words
    topic: Words
    cause: Words


def _checked_slices(key: str, value: object) -> dict[str, dict[str, str]]:
    if not isinstance(value, Mapping):
        raise HarnessError(f"{key}: expected keys and values, found {value!r}")
    for name, wanted in value.items():
        if not isinstance(wanted, Mapping):
            raise HarnessError(f"{key}: {name}: expected attributes of topics and their values, found {wanted!r}")
    return {str(name): {str(a): str(v) for a, v in wanted.items()} for name, wanted in value.items()}


@dataclass(frozen=True, kw_only=True)
class ScoredRows:
    """Scoring of the runs of a paper's rows.

    Attributes
    ----------
    protocol : name in `conf/protocol/`.
    measures : the paper's metric -> our measure.
    collections : the paper's name -> our collection; ends with `/TASK` if the paper has several tasks on a collection.
    slices : the paper's name of a set of topics -> attributes of these topics; no attributes mean all topics.
    corpus : our corpus that a run must have searched, if its metadata file names one; empty for any.
    rerank : whether the paper's runs rank judged documents only.
    substitutes : corpora that experiments search for want of the paper's -> what the paper searched; their runs give no
        number of the paper.
    """

    protocol: Words
    measures: Mapping[str, str]
    collections: Mapping[str, PaperCollection]
    slices: Annotated[Mapping[str, Mapping[str, str]], _checked_slices] = field(default_factory=dict)
    corpus: Words = ""
    rerank: bool = False
    substitutes: Mapping[str, Words] = field(default_factory=dict)

    def searched(self, cell: PublishedCell) -> str:
        """Returns the key in `collections` for a cell; empty if its collection is not scored."""
        of_task = f"{cell.collection}/{cell.task}"
        key = of_task if of_task in self.collections else cell.collection
        return key if key in self.collections else ""

    def place(self, cell: PublishedCell) -> str:
        """Returns the key in `collections` for a cell; empty if its collection or its metric is not scored."""
        return self.searched(cell) if cell.metric in self.measures else ""


@dataclass(frozen=True, kw_only=True)
class Archive(ScoredRows):
    """Runs published by the authors, and how they are scored.

    Attributes
    ----------
    source : name in `conf/source/`.
    runs : runs in the archive.
    identified : cells that print another value than their row and column say.
    """

    source: Words
    runs: tuple[ArchivedFiles, ...]
    identified: tuple[Identified, ...] = ()


@dataclass(frozen=True)
class _TableRow:
    """Row of a paper's table.

    Attributes
    ----------
    table, group, system : table, and the row in it.
    """

    table: Any
    system: Any
    group: Any = None


@dataclass(frozen=True)
class _RowThere(_TableRow):
    """Row of a table of this or another paper.

    Attributes
    ----------
    paper : name in `conf/paper/`; None for this paper.
    """

    paper: str | None = None


@dataclass(frozen=True)
class Twice:
    """Two rows that print the values of one run.

    Attributes
    ----------
    here, there : the rows; the second may belong to another paper. One that prints the run's value for a single topic
        has no value of its own to compare.
    """

    here: _TableRow
    there: _RowThere


def _checked_link(key: str, value: object) -> str:
    pattern, example = (
        (r"10\.[0-9]{4,9}/\S+", "a DOI such as 10.1000/182")
        if key == "doi"
        else (r"https://\S+", "an address such as https://example.org/paper")
    )
    if not re.fullmatch(pattern, str(value)):
        raise HarnessError(f"key {key!r} is {value!r}, expected {example}")
    return str(value)


@dataclass(frozen=True)
class Config:
    """Configuration of a paper, `conf/paper/KEY.yaml`.

    Attributes
    ----------
    key, title : name of the file, and title of the paper.
    module : Python module with what is about this paper alone; see `Paper.own`.
    metrics : metric, as named in the cells -> its name in tables.
    archive : runs published by the authors.
    state, states : why values are not recomputed (`checks.state`): for the paper, and by `TABLE` or `TABLE: ROW`.
    costs : metric that is measured while a run is made, as named in the cells -> what it counts.
    metric_notes : metric, as named in the cells -> remark on its definition.
    table_notes : table -> sentences on what contradicts it in the paper, shown beside values of experiments.
    also : further protocols that runs are scored by.
    baselines : end of a run's name -> the run that it is tested against.
    available : see `rows.parse`.
    here : what replaces the paper's resources at the scale `here`.
    experiments : experiment -> tables whose values it computes.
    scored : for a paper without an archive: how user-supplied runs are scored.
    claims, breakdown : claims that are tested, and a table of means by an attribute of topics.
    translations : files of topics in several languages.
    rerun : settings to re-run runs of the archive from the English topics of `translations`.
    remarks : shown in the report.
    printed_twice : pairs of rows that print the values of one run; the second may belong to another paper.
    url, doi, code : addresses of the paper and of its authors' code.
    """

    key: Words
    title: Words
    module: Words = ""
    metrics: Mapping[str, Words] = field(default_factory=dict)
    archive: Archive | None = None
    scored: ScoredRows | None = None
    state: Any = None
    states: Mapping[object, Any] = field(default_factory=dict)
    costs: Mapping[str, CostUnit] = field(default_factory=dict)
    metric_notes: Mapping[str, str] = field(default_factory=dict)
    table_notes: Mapping[str, tuple[Words, ...]] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    baselines: Mapping[str, Words] = field(default_factory=dict)
    experiments: Mapping[str, tuple[Words, ...]] = field(default_factory=dict)
    claims: tuple[ClaimSettings, ...] = ()
    breakdown: Breakdown | None = None
    translations: Translations | None = None
    rerun: RerunSettings | None = None
    remarks: tuple[Words, ...] = ()
    available: rows.Listed | None = None
    here: Here | None = None
    printed_twice: tuple[Twice, ...] = ()
    url: Annotated[str, _checked_link] = ""
    doi: Annotated[str, _checked_link] = ""
    code: Annotated[str, _checked_link] = ""


@dataclass(frozen=True)
class Paper:
    """A paper's published cells and how to recompute them; from `conf/paper/KEY.yaml` and `cells/KEY.csv`.

    Attributes
    ----------
    available : rows of its tables that can be run; None if the configuration does not say.
    twice : pairs of cells that print the same value; the second is in another table or paper.
    same_run : a cell each of two rows of its tables that print the values of one run.
    """

    key: str
    title: str
    cells: tuple[PublishedCell, ...]
    runs: tuple[ArchivedRun, ...]
    config: Config
    where: str
    available: Available | None = None
    twice: tuple[tuple[PublishedCell, PublishedCell], ...] = ()
    same_run: tuple[tuple[PublishedCell, PublishedCell], ...] = ()

    @property
    def scored(self) -> ScoredRows | None:
        """Scoring of the runs of its rows; None if the configuration does not say."""
        return self.config.archive or self.config.scored

    @property
    def corpus(self) -> str:
        """Our corpus that equals the paper's; empty if the configuration does not say."""
        if self.available is not None:
            return self.available.corpus
        return "" if self.scored is None else self.scored.corpus

    def at_small_scale(self) -> Paper | None:
        """Returns the paper with the collections of its key `here`, and without its archive; None without that key."""
        here, scored = self.config.here, self.config.scored
        if here is None or scored is None:
            return None
        ours = dict(scored.collections)
        for name, judged in ours.items():
            if judged.collection in here.collections:
                other = here.collection(judged.collection)
                ours[name] = replace(judged, collection=other, edition=load_collection(other).edition(None).name)
        scored = replace(scored, collections=ours, corpus=here.corpus, substitutes={})
        config = replace(self.config, scored=scored, claims=())
        return replace(self, config=config, runs=())

    def own(self, name: str) -> Any:  # noqa: ANN401  (what the paper's module has)
        """Returns the function of a name in the paper's module; None if there is none.

        - `check_topics(paper, scorers)`: what is found in its topics, kept in `Reproduction.checked`.
        - `rerun(paper, runs, scorers)`: comparisons of archived runs with re-runs; `check_rerun(paper)` comes first.
        - `table_notes(reproduction, groups)`, `run_notes(reproduction)`: notes below tables, run -> note on its claims.
        - `sections(reproduction)`, `rerun_section(reproduction)`: sections of its report.

        Raises
        ------
        HarnessError
            The module cannot be imported.
        """
        if not self.config.module:
            return None
        return getattr(extensions.load(self.config.module, f"{self.where}: module"), name, None)

    def metric(self, name: str) -> str:
        """Returns a metric of the cells as tables call it."""
        return self.config.metrics.get(name, name)

    def lack(self, cell: PublishedCell) -> tuple[checks.Lack, str]:
        """Returns why a number without a run is not recomputed: what its row lacks, or the configuration's reason."""
        if self.available is not None and (lack := self.available.lack(cell)):
            return lack
        states = self.config.states
        if not (text := states.get(_place_of_row(cell)) or states.get(cell.table) or self.config.state):
            raise HarnessError(f"{self.where}: no run recomputes {cell.place}; give the reason in key 'state'")
        return checks.state(text, self.where)

    def files(self) -> list[Resource]:
        """Returns every fetched file needed to recompute the paper from its archive."""
        out = [run.file for run in self.runs]
        if self.config.archive is not None:
            for entry in self.config.archive.collections.values():
                out += load_collection(entry.collection).files()
        if (topics := self.config.translations) is not None:
            paths = [topics.english, *(language.path for language in topics.languages.values())]
            topic_files = [topics.file(path, self.where) for path in paths]
            out += [file for file in topic_files if isinstance(file, Resource)]
        return out

    def licence(self) -> str:
        """Returns the licence of the archived runs; empty without archived runs."""
        return self.runs[0].file.licence if self.runs else ""

    def state(self) -> str:
        """Returns `here`, `fetchable`, or why its numbers cannot be recomputed."""
        if not self.runs:
            return str(self.config.state).strip()
        return "fetchable" if "fetchable" in {resource_state(file) for file in self.files()} else "here"


def load_paper(key: str) -> Paper:
    """Loads a paper by its key.

    Raises
    ------
    HarnessError
        The key is unknown, or the configuration or the file of cells has a fault.
    """
    mapping, where = config.load("paper", key)
    parsed = checks.typed(Config, mapping, where)
    if parsed.key != key:
        raise HarnessError(f"{where}: key 'key' is {mapping['key']!r}, expected {key!r}, the name of the file")
    cells = _read_cells(key)
    runs = () if parsed.archive is None else tuple(_archived_runs(parsed.archive, where))
    _check_states(parsed, cells, where)
    _check_experiments(parsed, {cell.table for cell in cells}, where)
    _check_runs(parsed, {run.name for run in runs}, where)
    if parsed.archive is not None and parsed.scored is not None:
        raise HarnessError(
            f"{where}: key 'scored' conflicts with 'archive', which also says how runs are scored; remove it"
        )
    available = (
        None if parsed.available is None else rows.parse(parsed.available, cells, f"{where}: available", parsed.here)
    )
    printed = [(entry.there.paper, _twice(entry, cells, where)) for entry in parsed.printed_twice]
    twice = tuple((a, b) for _, pairs in printed for a, b in pairs if a.slice == b.slice)
    same = tuple(pairs[0] for other, pairs in printed if other is None)
    return Paper(key, parsed.title, cells, runs, parsed, where, available, twice, same)


def _read_cells(key: str) -> tuple[PublishedCell, ...]:
    path = config.names("paper")[key].parent / "cells" / f"{key}.csv"
    return read_cells(read_bytes(path), str(path))


def _twice(entry: Twice, cells: Sequence[PublishedCell], where: str) -> list[tuple[PublishedCell, PublishedCell]]:
    """Returns the cells of two rows of one measure and collection: of the same slice, or if there are none, of any."""
    place = f"{where}: printed_twice"
    named = entry.there.paper
    if named is not None and named not in paper_names():
        raise HarnessError(f"{place}: paper {named!r} is unknown; {suggestion(named, paper_names())}")
    first_row, second_row = (
        {key: value for key, value in asdict(row).items() if value is not None} for row in (entry.here, entry.there)
    )

    def row(wanted: Mapping[str, object], among: Sequence[PublishedCell]) -> list[PublishedCell]:
        coordinates = {key: str(value) for key, value in wanted.items() if key != "paper"}
        return [cell for cell in among if all(getattr(cell, key) == value for key, value in coordinates.items())]

    second = row(second_row, _read_cells(named) if named else cells)
    pairs = [
        (a, b) for a in row(first_row, cells) for b in second if (a.metric, a.collection) == (b.metric, b.collection)
    ]
    if not pairs:
        raise HarnessError(f"{place}: {first_row} and {second_row} share no measure on a collection")
    return [(a, b) for a, b in pairs if a.slice == b.slice] or pairs


def paper_names() -> list[str]:
    """Returns the keys of all papers: configurations with a file of cells."""
    return [key for key, path in config.names("paper").items() if (path.parent / "cells" / f"{key}.csv").is_file()]


def _archived_runs(archive: Archive, where: str) -> list[ArchivedRun]:
    out: list[ArchivedRun] = []
    for collection, entry in archive.collections.items():
        for run in archive.runs:
            path = run.path.replace("{suffix}", entry.suffix)
            if (collection, run.name) in {(known.collection, known.name) for known in out}:
                raise HarnessError(f"{where}: archive: runs: two are named {run.name!r}")
            file = catalogue.resource({"source": archive.source, "path": path}, f"{where}: archive: runs")
            if not isinstance(file, Resource):
                raise HarnessError(f"{where}: archive: {path} is not a fetched file")
            out.append(ArchivedRun(run.name, run.group, run.system, collection, file))
    return out


def _place_of_row(cell: PublishedCell) -> str:
    return f"{cell.table}: {cell.system}"


def _check_states(parsed: Config, cells: Collection[PublishedCell], where: str) -> None:
    """Raises HarnessError for a fault in a paper's `state` (required without an archive) or `states` (by place)."""
    tables, rows = {cell.table for cell in cells}, set(map(_place_of_row, cells))
    if parsed.state is not None or parsed.archive is None:
        checks.state(parsed.state, where)
    for place, text in parsed.states.items():
        if place not in tables | rows:
            raise HarnessError(f"{where}: states: table {place!r} is unknown; {suggestion(str(place), tables)}")
        checks.state(text, f"{where}: states: {place}")


def _check_experiments(parsed: Config, tables: Collection[str], where: str) -> None:
    """Raises HarnessError for an unknown experiment or table in a paper's `experiments`."""
    for name, wanted in parsed.experiments.items():
        checks.choice(f"{where}: experiments", name, config.names("experiment"))
        for table in wanted:
            checks.choice(f"{where}: experiments: {name}", table, tables)


def _check_runs(parsed: Config, runs: Collection[str], where: str) -> None:
    """Raises HarnessError for a run that the configuration names but the archive lacks, before anything is fetched."""
    named = [(f"baselines: {ending}", run) for ending, run in parsed.baselines.items()]
    if parsed.archive is not None:
        named += [("archive: identified", entry.run) for entry in parsed.archive.identified]
    if parsed.breakdown is not None:
        named += [("breakdown", run) for run in parsed.breakdown.runs]
    for key in ("translations", "rerun"):
        if getattr(parsed, key) is not None and not parsed.module:
            raise HarnessError(f"{where}: {key}: needs the key 'module', such as my_package.paper")
    if parsed.rerun is not None:
        named += [("rerun", run) for run in parsed.rerun.runs]
        if parsed.translations is None:
            raise HarnessError(f"{where}: rerun: needs the key 'translations', which names the English topics")
    for key, run in named:
        if run not in runs:
            raise HarnessError(f"{where}: {key}: run {run!r} is not in the archive; {suggestion(run, runs)}")
