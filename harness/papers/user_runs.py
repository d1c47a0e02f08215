"""Runs besides the archived ones: user-supplied runs, complete re-runs on this machine, and fusions of both."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from harness.collections.corpora import load_corpus
from harness.collections.files import read_keys
from harness.collections.load import load_collection
from harness.data.trec import Run, read_run
from harness.errors import HarnessError, counted_text, gather, refuse
from harness.experiments.task import training_judgments
from harness.io.files import read_bytes, sha256
from harness.papers import map as maps
from harness.papers.experiment_runs import CellRun, plain_label, runs_of_rows
from harness.papers.map import PaperRow, RunLocation, paper_rows
from harness.papers.paper import Paper, ScoredRows
from harness.papers.rows import SystemRow, taught_by
from harness.papers.steps import HERE, paper_steps
from harness.papers.steps import PlannedRun as PaperRun
from harness.scoring.protocol import load_protocol
from harness.sources.fetch import fetch_resources
from harness.store import sidecar
from harness.systems.build import load_system
from harness.systems.fusion.system import Fusion
from harness.systems.keys import decisive
from harness.systems.states import ABOUT

Say = Callable[[str], None]
_OF_COLLECTIONS = ("collections", "validate_on", "leave_out")  # settings of fine-tuning
Origin = Literal["brought", "made here", "fused"]


@dataclass(frozen=True)
class BroughtRun:
    """A run for a row of a paper on a collection (a key in `ScoredRows.collections`).

    Attributes
    ----------
    origin : `brought` (a file in the map), `made here` (by the row's command), or `fused` (from other rows' runs).
    source : path of the file; for a fusion, names of the fused runs.
    in_part : whether it stands for the row's run in part only: a fusion lacks inputs, or another model is used.
    """

    row: PaperRow
    collection: str
    run: Run
    origin: Origin
    source: str
    in_part: bool = False

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.run.name


@dataclass(frozen=True)
class Brought:
    """User-supplied, re-run and fused runs of one paper.

    Attributes
    ----------
    runs : one per row and collection; several for a row whose numbers are means over seeds.
    lacking : (collection, name of a row's run) -> missing input of a fusion that could otherwise be computed.
    notes : remarks on the map for the report.
    keys : document -> de-duplication key, if the map names a file of keys.
    rows : (table, group, system) -> row, for the rows of the paper that runs are scored for.
    """

    runs: tuple[BroughtRun, ...] = ()
    lacking: Mapping[tuple[str, str], str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    keys: Mapping[str, str] | None = None
    rows: Mapping[tuple[str, str, str], PaperRow] = field(default_factory=dict)


def bring(
    paper: Paper,
    folder: Path | None,
    runs: Path | None,
    say: Say = lambda _: None,
    experiments: Mapping[str, Sequence[CellRun]] = MappingProxyType({}),
    seeds: int | None = None,
    scale: str = "",
) -> Brought:
    """Reads the runs of a folder by its map and complete re-runs below `runs`, and computes fusions of both.

    Parameters
    ----------
    folder : contains `map.yaml` (see `harness.papers.map`), which is written first if file names identify the rows.
    runs : folder of runs made by `harness run`; None to ignore them.
    say : called with progress messages, one line each.
    experiments : experiment -> its finished runs.
    scale : empty, or `here` for runs of that scale.
    seeds : number of seeds whose runs below `runs` count, of systems that are trained; None for the first alone.

    Raises
    ------
    HarnessError
        Runs cannot be scored for this paper, or the map or its files have faults: one line per fault.
    """
    if paper.scored is None and folder is None:
        return Brought()
    scored = _scored_rows(paper)
    entries: tuple[RunLocation, ...] = ()
    columns: maps.KeyColumns | None = None
    faults: list[str] = []
    if folder is not None:
        entries, columns = _mapped_entries(paper, folder, say, faults)
    notes = _shared_files(entries)
    for note in notes:
        say(note)
    given = {(entry.row.name, entry.collection) for entry in entries}
    local = [] if runs is None else _made_here(paper, runs, say, seeds, scale)
    searched: dict[str, set[str]] = {}
    for each in runs_of_rows(paper, experiments):
        searched.setdefault(each.collection, set()).update(each.corpora)
        local.append(RunLocation(each.row, each.collection, each.paths, str(each.paths[0]), "made here"))
    local = [entry for entry in local if _place(entry) not in given]
    if not entries and not local:
        refuse(faults)
        return Brought()
    used = {entry.collection for entry in (*entries, *local)}
    collections = {key: load_collection(scored.collections[key].collection) for key in used}
    wanted = [file for collection in collections.values() for file in collection.files()]
    try:
        fetch_resources(wanted, progress=say)
    except HarnessError as error:
        raise HarnessError(*faults, *error.lines) from None
    of_corpora: dict[str, str] = {}
    for key, collection in collections.items():
        how = load_protocol(scored.collections[key].protocol or scored.protocol)
        if how.deduplicate and collection.key_file is None and columns is None:
            held = [load_corpus(name).keys() for name in searched.get(key, ())]
            of_corpora |= {document: own for keys_ in held for document, own in (keys_ or {}).items()}
            if any(held):
                continue
            example = "keys: {file: FILE, id_column: COLUMN, key_column: COLUMN}"
            lacking = f"protocol {how.name} maps documents to keys, but {key} has no file of keys; add {example}"
            faults.append(f"{folder and folder / maps.MAP}: key 'keys' is missing: {lacking}")
    keys: Mapping[str, str] | None = of_corpora or None
    if columns is not None and os.path.isfile(columns.file):  # noqa: PTH113  (Path.is_file raises for names that are too long)
        with gather(faults):
            keys = read_keys(Path(columns.file), columns.id_column, columns.key_column)
    loaded: list[BroughtRun] = []
    for entry in (*entries, *local):
        with gather(faults):
            loaded += _read(paper, entry, collections[entry.collection].known_topics())
    refuse(faults)
    loaded = _with_other_models(paper, loaded) if scale == HERE else loaded
    fused, absent = _fusions(paper, loaded, in_part=scale == HERE)
    return Brought((*loaded, *fused), absent, notes, keys, rows_by_cell(paper, loaded))


def rows_by_cell(paper: Paper, runs: Sequence[BroughtRun]) -> dict[tuple[str, str, str], PaperRow]:
    """Returns (table, group, system) of each number that runs give -> its row, with the seeds of runs made here."""
    known, labels = paper_rows(paper), maps.row_labels(paper)
    # Costs have tables of their own, whose rows are those of another table of the experiment.
    tables = {table: (table, *of) for of in paper.config.experiments.values() for table in of}
    spelt = {(table, plain_label(label)): row for (table, label), row in reversed(known.items())}
    counts = {run.row.name: run.row.seeds for run in runs if run.origin == "made here"}
    by_cell = {}
    for cell, label in labels.items():
        places = ((table, plain_label(label)) for table in tables.get(cell[0], cell[:1]))
        if (row := next((spelt[at] for at in places if at in spelt), None)) is not None:
            by_cell[cell] = replace(row, seeds=counts.get(row.name, row.seeds))
    return by_cell


def _with_other_models(paper: Paper, runs: Sequence[BroughtRun]) -> list[BroughtRun]:
    """Returns the runs, those of another model than the row's marked as `in_part`."""
    here, known = paper.config.here, paper_rows(paper)
    others = {
        known[table, row.label].name
        for step in paper_steps(paper, scale=HERE)[0]
        if here is not None and any(map(here.other_model, step.chosen("system")))
        for row in step.rows
        for table in row.table.split(", ")
        if (table, row.label) in known
    }
    return [replace(each, in_part=each.in_part or each.row.name in others) for each in runs]


def _scored_rows(paper: Paper) -> ScoredRows:
    if paper.scored is None:
        why = str(paper.config.state or "its numbers do not come from runs").strip()
        raise HarnessError(f"key 'brought': runs cannot be scored for paper {paper.key} ({why})")
    return paper.scored


def mapped_rows(paper: Paper, folder: Path, say: Say = lambda _: None) -> set[tuple[str, str, str]]:
    """Returns (table, label, our collection) of the rows that a folder's map names runs for.

    Raises
    ------
    HarnessError
        As for `bring`.
    """
    scored, faults = _scored_rows(paper), list[str]()
    entries, _ = _mapped_entries(paper, folder, say, faults)
    refuse(faults)
    places = {(entry.row.name, scored.collections[entry.collection].collection) for entry in entries}
    return {(*at, where) for at, row in paper_rows(paper).items() for name, where in places if row.name == name}


def _place(entry: RunLocation) -> tuple[str, str]:
    """Returns the row and the collection that identify a run."""
    return entry.row.name, entry.collection


def _mapped_entries(
    paper: Paper, folder: Path, say: Say, faults: list[str]
) -> tuple[tuple[RunLocation, ...], maps.KeyColumns | None]:
    """Reads the map of a folder (see `read_map`); writes the map first if it is missing."""
    if not folder.is_dir():
        raise HarnessError(f"key 'brought': {folder}: no such folder")
    if not (folder / maps.MAP).exists():
        path, fitted, rest = maps.write_map(paper, folder)
        said = counted_text(fitted, "file was matched by its name", "files were matched by their names")
        if rest:
            left = counted_text(len(rest), "file matches", "files match")
            said += f"; {left} no row, such as {rest[0].relative_to(folder)}; {maps.recognised(paper)}"
        say(f"{path}: written; {said}")
    return maps.read_map(paper, folder / maps.MAP, faults)


def _shared_files(entries: Iterable[RunLocation]) -> tuple[str, ...]:
    """Returns a note for each file that is the run of several rows, which may be intended."""
    by_file: dict[Path, list[str]] = {}
    for entry in entries:
        for file in entry.files:
            by_file.setdefault(file.resolve(), []).append(f"{entry.row.label} on {entry.collection}")
    return tuple(f"{file}: is the run of several rows: {', '.join(rows)}" for file, rows in by_file.items() if rows[1:])


def _read(paper: Paper, entry: RunLocation, known_topics: frozenset[str] | None) -> list[BroughtRun]:
    """Reads the runs of an entry; checks their topics, and their metadata files against the paper's corpus."""
    faults: list[str] = []
    runs = []
    for name, path in zip(entry.row.runs(), entry.files, strict=False):
        with gather(faults):
            run = read_run(path, name=name, known_topics=known_topics)
            proven = entry.origin == "made here"
            said = None if proven else sidecar.read_sidecar(sidecar.sidecar_path(path))
            if said is not None and said.sha256 == run.sha256 and (why := _partial(paper, said)):
                raise HarnessError(f"{entry.where}: {path}: {why}, so its numbers cannot be the paper's")
            runs.append(BroughtRun(entry.row, entry.collection, run, entry.origin, str(path)))
    refuse(faults)
    return runs


def _partial(paper: Paper, said: sidecar.Said) -> str:
    """Returns why a run did not search the paper's whole corpus, by its metadata file; empty if it did or may have."""
    if paper.corpus and said.corpus and said.corpus != paper.corpus:
        return f"searched corpus {said.corpus} instead of {paper.corpus}"
    if said.pool and paper.scored is not None and not paper.scored.rerank:
        return "ranks judged documents only"
    return ""


def _made_here(paper: Paper, runs: Path, say: Say, seeds: int | None, scale: str) -> list[RunLocation]:
    """Finds runs below `runs` made by the rows' commands on the whole collection; reports other runs to `say`."""
    scored = paper.scored
    if scored is None or not runs.is_dir():
        return []
    keys = {judged.collection: key for key, judged in scored.collections.items()}
    known = paper_rows(paper)
    locations: dict[tuple[str, str], RunLocation] = {}
    for step in paper_steps(paper, scale=scale, seeds=seeds or 1)[0]:
        path = runs / step.file
        # Fusions are computed from their inputs, and the runs of experiments have names of their own.
        if step.experiment or step.reads() or not path.is_file() or step.runs[0].collection not in keys:
            continue
        if why := unproven(step.runs[0], path):
            say(f"{path}: not used as the run of {step.rows[0].label!r}: {why}")
            continue
        places = [(table, row.label) for row in step.rows for table in row.table.split(", ")]
        for place in (place for place in places if place in known):
            entry = RunLocation(known[place], keys[step.runs[0].collection], (path,), str(path), "made here")
            before = locations.setdefault(_place(entry), entry)
            if path not in before.files:  # of another seed
                files = (*before.files, path)
                locations[_place(entry)] = replace(before, files=files, row=replace(before.row, seeds=len(files)))
    return list(locations.values())


def unproven(run: PaperRun, path: Path) -> str:
    """Returns why a metadata file does not prove that a file is a run's, made on its whole corpus; empty if it does."""
    said = sidecar.read_sidecar(sidecar.sidecar_path(path))
    if said is None:
        return "its metadata file, which says how it was made, is missing or damaged"
    if said.sha256 != sha256(read_bytes(path)):
        return "its metadata file belongs to another run"
    if said.collection != run.collection:
        return f"it was made for collection {said.collection}"
    if said.corpus != run.corpus:
        return f"it searched corpus {said.corpus or 'none'} instead of {run.corpus}"
    if said.digest != load_corpus(run.corpus).declared():
        return f"it was made on another version of corpus {run.corpus}"
    if said.pool is None:
        return "its metadata file does not say that it ranked the whole corpus; make it again with reuse=false"
    if bool(said.pool) != run.rerank:
        return "it ranks judged documents only" if said.pool else "it does not rank the judged documents alone"
    if said.trained:
        return "its system learnt from judgments"
    meant, made = _parameters(run.configuration), _parameters(said.system)
    if other := sorted(key for key in {*meant, *made} if meant.get(key) != made.get(key)):
        return f"it was made with another {', '.join(other)}"
    return ""


def _parameters(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters that affect a run.

    The collections of fine-tuning are ignored, as they depend on the ranked collection; so is whether language models'
    answers were requested or cached.
    """
    others = (*ABOUT, "name", "device", "mode", "cache", "budget")
    kept = {key: value for key, value in decisive(configuration).items() if key not in others}
    if isinstance(kept.get("training"), Mapping):
        kept["training"] = {key: value for key, value in kept["training"].items() if key not in _OF_COLLECTIONS}
    if isinstance(kept.get("first"), Mapping):
        kept["first"] = _parameters(kept["first"])
    return kept


def _fusions(
    paper: Paper, brought: Sequence[BroughtRun], *, in_part: bool
) -> tuple[list[BroughtRun], dict[tuple[str, str], str]]:
    """Computes rows that fuse other rows' runs; also returns the missing inputs of those that cannot be computed.

    Parameters
    ----------
    in_part : whether two of a row's inputs are enough.
    """
    available, scored = paper.available, paper.scored
    if available is None or scored is None:
        return [], {}
    keys = {judged.collection: key for key, judged in scored.collections.items()}
    known, runs = paper_rows(paper), {(each.row.name, each.collection): each.run for each in reversed(brought)}
    partly = {each.row.name for each in brought if each.in_part}
    fused: dict[tuple[str, str], BroughtRun] = {}
    lacking: dict[tuple[str, str], str] = {}
    for row in (row for row in available.rows if row.inputs):
        whose = known[row.table, row.label]
        names = {known[item.table, item.label].name: item.short for item in row.inputs}
        ours = [keys[name] for name in row.collections if name in keys]
        for key in ours:
            teacher = taught_by(ours, key) if row.trained else ""
            at = (whose.name, key)
            if at not in runs and at not in fused and any((name, key) in runs for name in names):
                try:
                    there = [name for name in names if (name, key) in runs and (not teacher or (name, teacher) in runs)]
                    few = {name: names[name] for name in there} if in_part and len(there) > 1 else names
                    run = _fused(paper, row, whose.name, few, runs, (teacher, key))
                    some = f"{len(few)} of {len(names)} runs: " if len(few) < len(names) else ""
                    source = some + ", ".join(few)
                    less = len(few) < len(names) or bool(partly & few.keys())
                    fused[at] = BroughtRun(whose, key, run, "fused", source, in_part=less)
                except HarnessError as error:
                    lacking[key, whose.name] = "; ".join(error.lines)
    return list(fused.values()), lacking


def _fused(
    paper: Paper,
    row: SystemRow,
    name: str,
    names: Mapping[str, str],
    runs: Mapping[tuple[str, str], Run],
    collections: tuple[str, str],
) -> Run:
    """Computes the fused run of a row on the second of two collections; a rule that learns is trained on the first.

    Parameters
    ----------
    names : of the runs to fuse -> labels of their rows.

    Raises
    ------
    HarnessError
        An input is missing; the message names it.
    """
    teacher, key = collections

    def inputs(on: str) -> list[Run]:
        absent = [label for run, label in names.items() if (run, on) not in runs]
        if absent:
            raise HarnessError(f"the run{'s' * (len(absent) > 1)} of {', '.join(absent)} on {on}")
        return [runs[run, on] for run in names]

    built = load_system(row.system, **{**dict(row.settings), "runs": list(names)}).system
    if not isinstance(built, Fusion):
        raise HarnessError(f"its run: system {row.system} does not fuse runs")
    training = None
    if built.learns:
        if not teacher or paper.scored is None:
            raise HarnessError(f"training judgments for its rule, and the paper has no collection but {key}")
        judged = paper.scored.collections[teacher]
        training = (inputs(teacher), training_judgments([f"{judged.collection}/{judged.edition}"]))
    return built.fused(inputs(key), training, name)
