"""Runs beside the archived ones: those that a person brings, complete re-runs made here, and fusions of both."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from harness.collections.corpora import load_corpus
from harness.collections.keys import read_keys
from harness.collections.load import load_collection
from harness.data.trec import Run, read_run
from harness.errors import HarnessError, gather, refuse
from harness.experiments.task import training_judgments
from harness.io.files import read_bytes, sha256
from harness.papers.map import (
    MAP,
    Entry,
    KeyColumns,
    PaperRow,
    label_of,
    paper_rows,
    read_map,
    recognised,
    write_map,
)
from harness.papers.paper import Paper
from harness.papers.rows import Row
from harness.scoring.protocol import load_protocol
from harness.sources.fetch import fetch
from harness.store import sidecar
from harness.systems.build import load_system
from harness.systems.fusion.system import Fusion
from harness.systems.keys import decisive
from harness.systems.states import ABOUT

Say = Callable[[str], None]
Origin = Literal["brought", "made here", "fused"]


@dataclass(frozen=True)
class BroughtRun:
    """A run that stands for a row on a collection (a key in `Scored.collections`).

    Attributes
    ----------
    origin : `brought` as a file of a map, `made here` by the row's own command, or `fused` from other rows' runs.
    source : its file; of a fusion the names of what was fused.
    """

    row: PaperRow
    collection: str
    run: Run
    origin: Origin
    source: str

    @property
    def name(self) -> str:
        """That of the run."""
        return self.run.name


@dataclass(frozen=True)
class Brought:
    """All of them for one paper.

    Attributes
    ----------
    runs : each row and collection once; several of one row where its numbers are means over seeds.
    lacking : (collection, name of a row's run) -> why a fusion was not computed although it could be.
    notes : what a reader must know of the map.
    keys : document -> key of de-duplication, if the map names a file of them.
    rows : (table, group, system) of each row of the paper that runs are scored for.
    """

    runs: tuple[BroughtRun, ...] = ()
    lacking: Mapping[tuple[str, str], str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    keys: Mapping[str, str] | None = None
    rows: Mapping[tuple[str, str, str], PaperRow] = field(default_factory=dict)


def bring(paper: Paper, folder: Path | None, runs: Path | None, say: Say = lambda _: None) -> Brought:
    """The runs of a folder, by its map, and complete re-runs below `runs`; with them fusions whose inputs are here.

    Parameters
    ----------
    folder : holds `map.yaml` (see `harness.papers.map`), which is written if the names of its files say enough.
    runs : where `harness run` keeps runs; None if they are not to be looked at.
    say : gets what was found out on the way, a line at a time.

    Raises
    ------
    HarnessError
        No run can be scored for the paper; every fault of the map and of the files that it names, a line each.
    """
    scored = paper.scored
    if scored is None:
        if folder is not None:
            why = str(paper.config.state or "its numbers are none of runs").strip()
            raise HarnessError(f"key 'brought': runs cannot be scored for paper {paper.key} ({why})")
        return Brought()
    entries: tuple[Entry, ...] = ()
    columns: KeyColumns | None = None
    faults: list[str] = []
    if folder is not None:
        entries, columns = _mapped(paper, folder, say, faults)
    notes = _shared(entries)
    for note in notes:
        say(note)
    given = {(entry.row.name, entry.collection) for entry in entries}
    here = [] if runs is None else [entry for entry in _made_here(paper, runs, say) if _at(entry) not in given]
    if not entries and not here:
        refuse(faults)
        return Brought()
    used = {entry.collection for entry in (*entries, *here)}
    collections = {key: load_collection(scored.collections[key].collection) for key in used}
    wanted = [file for collection in collections.values() for file in collection.files()]
    try:
        fetch(wanted, progress=say)
    except HarnessError as error:
        raise HarnessError(*faults, *error.lines) from None
    for key, collection in collections.items():
        how = load_protocol(scored.collections[key].protocol or scored.protocol)
        if how.deduplicate and collection.key_file is None and columns is None:
            example = "keys: {file: FILE, id_column: COLUMN, key_column: COLUMN}"
            lacking = f"protocol {how.name} maps documents to keys, and {key} has no map of them; add {example}"
            faults.append(f"{folder and folder / MAP}: key 'keys' is missing: {lacking}")
    keys: Mapping[str, str] | None = None
    if columns is not None and os.path.isfile(columns.file):  # noqa: PTH113  (Path's raises for names too long)
        with gather(faults):
            keys = read_keys(Path(columns.file), columns.id_column, columns.key_column)
    found: list[BroughtRun] = []
    for entry in (*entries, *here):
        with gather(faults):
            found += _read(paper, entry, collections[entry.collection].known_topics())
    refuse(faults)
    fused, absent = _fusions(paper, found)
    known, labels = paper_rows(paper), label_of(paper)
    by_cell = {cell: known[cell[0], label] for cell, label in labels.items() if (cell[0], label) in known}
    return Brought((*found, *fused), absent, notes, keys, by_cell)


def _at(entry: Entry) -> tuple[str, str]:
    return entry.row.name, entry.collection


def _mapped(paper: Paper, folder: Path, say: Say, faults: list[str]) -> tuple[tuple[Entry, ...], KeyColumns | None]:
    """What the map of a folder says (see `read_map`); the map is written first if there is none."""
    if not folder.is_dir():
        raise HarnessError(f"key 'brought': {folder}: no such folder")
    if not (folder / MAP).exists():
        path, fitted, rest = write_map(paper, folder)
        left = (
            f"; {len(rest)} files fit no row, such as {rest[0].relative_to(folder)}; {recognised(paper)}"
            if rest
            else ""
        )
        say(f"{path}: written, {fitted} files by their names{left}")
    return read_map(paper, folder / MAP, faults)


def _shared(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Files that stand for several runs, which may be meant."""
    by_file: dict[Path, list[str]] = {}
    for entry in entries:
        for file in entry.files:
            by_file.setdefault(file.resolve(), []).append(f"{entry.row.label} on {entry.collection}")
    return tuple(f"{file}: is the run of several rows: {', '.join(of)}" for file, of in by_file.items() if of[1:])


def _read(paper: Paper, entry: Entry, known_topics: frozenset[str] | None) -> list[BroughtRun]:
    """The runs of an entry, checked against the topics, and their side files against what the paper used."""
    faults: list[str] = []
    found = []
    for name, path in zip(entry.row.runs(), entry.files, strict=False):
        with gather(faults):
            run = read_run(path, name=name, known_topics=known_topics)
            said = sidecar.said(sidecar.beside(path))
            if said is not None and said.sha256 == run.sha256 and (why := _partial(paper, said)):
                raise HarnessError(f"{entry.where}: {path}: {why}, so that none of its numbers can be the paper's")
            found.append(BroughtRun(entry.row, entry.collection, run, entry.origin, str(path)))
    refuse(faults)
    return found


def _partial(paper: Paper, said: sidecar.Said) -> str:
    """Why a run is not one over all that the paper searched, by its side file; empty if nothing there says so."""
    if paper.corpus and said.corpus and said.corpus != paper.corpus:
        return f"was made on corpus {said.corpus}, not on {paper.corpus}"
    if said.pool and paper.scored is not None and not paper.scored.rerank:
        return "ranks the judged documents alone"
    return ""


def _made_here(paper: Paper, runs: Path, say: Say) -> list[Entry]:
    """The runs below `runs` that the commands of the paper's rows made on the whole collection; others are told."""
    available, scored = paper.available, paper.scored
    if available is None or scored is None:
        return []
    keys = {judged.collection: key for key, judged in scored.collections.items()}
    known = paper_rows(paper)
    found: dict[tuple[str, str], Entry] = {}
    told = set()
    for row in available.rows:
        # Fusions are computed from their inputs.
        if row.registered() or row.inputs or row.run != (row.table, row.label):
            continue
        for name in (name for name in row.collections if name in keys):
            path = runs / name / f"{row.run_name}.run"
            if not path.is_file():
                continue
            if why := _unproven(paper, row, name, path):
                if path not in told:
                    say(f"{path}: is not counted as the run of {row.label!r}: {why}")
                    told.add(path)
                continue
            entry = Entry(known[row.table, row.label], keys[name], (path,), str(path), "made here")
            found.setdefault(_at(entry), entry)
    return list(found.values())


def _unproven(paper: Paper, row: Row, collection: str, path: Path) -> str:
    """Why a run's side file does not prove that a row's command made it on the whole collection; empty if it does."""
    said = sidecar.said(sidecar.beside(path))
    if said is None:
        return "it has no side file that says how it was made, or a damaged one"
    if said.sha256 != sha256(read_bytes(path)):
        return "its side file is another run's"
    if said.collection != collection:
        return f"it was made for collection {said.collection}"
    if why := _partial(paper, replace(said, corpus=said.corpus or "none")):
        return f"it {why}"
    if said.digest != load_corpus(paper.corpus).declared():
        return f"it was made on another state of corpus {paper.corpus}"
    if said.pool is not False:
        return "its side file does not say that it ranked the whole corpus; make it again with reuse=false"
    if said.trained:
        return "it learnt from judgments"
    meant, made = _parameters({**row.configuration, **dict(row.settings)}), _parameters(said.system)
    if other := sorted(key for key in {*meant, *made} if meant.get(key) != made.get(key)):
        return f"it was made with another {', '.join(other)}"
    return ""


def _parameters(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """What decides a run; which collections are left out of a training depends on the one that is ranked.

    Of language models' answers, it does not matter whether they were asked for or kept.
    """
    others = (*ABOUT, "name", "device", "mode", "cache", "budget")
    found = {key: value for key, value in decisive(configuration).items() if key not in others}
    if isinstance(found.get("training"), Mapping):
        found["training"] = {k: v for k, v in found["training"].items() if k not in ("leave_out", "collections")}
    return found


def _fusions(paper: Paper, found: Sequence[BroughtRun]) -> tuple[list[BroughtRun], dict[tuple[str, str], str]]:
    """Rows that fuse other rows, from the runs of these; and what keeps the others from being computed."""
    available, scored = paper.available, paper.scored
    if available is None or scored is None:
        return [], {}
    keys = {judged.collection: key for key, judged in scored.collections.items()}
    known, runs = paper_rows(paper), {(each.row.name, each.collection): each.run for each in found}
    fused: dict[tuple[str, str], BroughtRun] = {}
    lacking: dict[tuple[str, str], str] = {}
    for row in (row for row in available.rows if row.inputs):
        whose = known[row.table, row.label]
        names = [known[item.table, item.label].name for item in row.inputs]
        before = ""
        for key in (keys[name] for name in row.collections if name in keys):
            at = (whose.name, key)
            if at not in runs and at not in fused and any((name, key) in runs for name in names):
                try:
                    run = _fused(paper, row, whose.name, names, runs, (before, key))
                    fused[at] = BroughtRun(whose, key, run, "fused", ", ".join(names))
                except HarnessError as error:
                    lacking[key, whose.name] = "; ".join(error.lines)
            before = key
    return list(fused.values()), lacking


def _fused(
    paper: Paper,
    row: Row,
    name: str,
    names: Sequence[str],
    runs: Mapping[tuple[str, str], Run],
    collections: tuple[str, str],
) -> Run:
    """The run of a row that fuses others, on the second collection; a rule that learns does so on the first.

    Raises
    ------
    HarnessError
        What it lacks.
    """
    before, key = collections

    def inputs(on: str) -> list[Run]:
        absent = [item.short for item, of in zip(row.inputs, names, strict=True) if (of, on) not in runs]
        if absent:
            raise HarnessError(f"the run{'s' * (len(absent) > 1)} of {', '.join(absent)} on {on}")
        return [runs[of, on] for of in names]

    built = load_system(row.system, **{**dict(row.settings), "runs": list(names)}).system
    if not isinstance(built, Fusion):
        raise HarnessError(f"its run: system {row.system} is no fusion of runs")
    training = None
    if built.learns:
        if not before or paper.scored is None:
            raise HarnessError(f"judgments that its rule can learn from: the paper has no collection before {key}")
        judged = paper.scored.collections[before]
        training = (inputs(before), training_judgments([f"{judged.collection}/{judged.edition}"]))
    return built.fused(inputs(key), training, name)
