"""The steps that make the runs of a paper's rows: the commands that its report prints, in a working order."""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from harness.errors import HarnessError, suggestion
from harness.experiments.experiment import CONDITION, FULL, ExperimentCell, load_experiment
from harness.io import checks, config
from harness.io.files import sha256
from harness.papers.paper import Paper
from harness.papers.rows import SystemRow as PaperRow
from harness.systems import states
from harness.systems.dense.training.settings import Tuning

HERE = "here"  # scale of a step: on small public replacements of the paper's resources
_RUNS = "runs/"  # begin of the files that the words of a step name


class NothingToMakeError(HarnessError):
    """A paper has no row with a command in a part of it, or at a scale."""


@dataclass(frozen=True)
class PlannedRun:
    """One run: a system with its settings, on a collection and a corpus.

    Attributes
    ----------
    settings : key below the system's configuration, with dots -> value.
    edition : empty for the collection's own.
    rerank : whether only judged documents are ranked.
    """

    system: str
    collection: str
    corpus: str
    settings: tuple[tuple[str, Any], ...] = ()
    edition: str = ""
    rerank: bool = False

    @cached_property
    def configuration(self) -> Mapping[str, Any]:
        """Configuration of the system with the settings of the run."""
        mapping = dict(config.load("system", self.system)[0])
        for key, value in self.settings:
            mapping = _replaced(mapping, key.split("."), value)
        return mapping

    @property
    def parts(self) -> tuple[Mapping[str, Any], ...]:
        """Configurations of its system and of that system's parts."""
        return tuple(states.nested_configurations(self.configuration))

    @property
    def name(self) -> str:
        """Name of its file, without folder and ending; not of the runs of an experiment, which have suffixes."""
        return str(self.configuration.get("name", self.system))


def planned_run(words: Sequence[str]) -> PlannedRun:
    """Returns the run of a command.

    Examples
    --------
    >>> planned_run(["system=bm25", "collection=mini-task1", "corpus=mini-answers", "system.k1=0.9"]).settings
    (('k1', 0.9),)
    """
    given = {key: value for key, _, value in (word.partition("=") for word in words)}
    settings = [(key.removeprefix("system."), value) for key, value in given.items() if key.startswith("system.")]
    collection, corpus, edition = (given.get(key, "") for key in ("collection", "corpus", "edition"))
    values = tuple((key, config.parse(f"x: {value}".encode(), key)["x"]) for key, value in settings)
    return PlannedRun(given["system"], collection, corpus, values, edition, given.get("rerank") == "true")


def _replaced(mapping: Mapping[str, Any], keys: Sequence[str], value: object) -> dict[str, Any]:
    """Returns a mapping with the value at a path of keys.

    Examples
    --------
    >>> _replaced({"training": {"seed": 1, "batch": 32}}, ["training", "seed"], 2)
    {'training': {'seed': 2, 'batch': 32}}
    """
    first, *rest = keys
    below = mapping.get(first)
    if rest:
        return {**mapping, first: _replaced(below if isinstance(below, Mapping) else {}, rest, value)}
    return {**mapping, first: value}


@dataclass(frozen=True)
class PrintedRow:
    """A row of a paper: the table and the label in print, or for systems without a table the system's title."""

    table: str
    label: str

    def __str__(self) -> str:
        return f"{self.table}: {self.label}" if self.table else self.label


@dataclass(frozen=True)
class RunStep:
    """A command that makes the runs of some rows.

    Attributes
    ----------
    name : unique within a paper; names its log file.
    words : of the command, without `harness`.
    rows : that need its runs.
    parts : the same in smaller commands, which are run if it fails, to find the rows that fail.
    condition : of an experiment, if the command is limited to one.
    seeds : those that an experiment is limited to; empty for all.
    """

    name: str
    words: tuple[str, ...]
    rows: tuple[PrintedRow, ...]
    parts: tuple[RunStep, ...] = ()
    condition: str = ""
    seeds: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """The line for a shell."""
        return shlex.join(["harness", *self.words])

    def digest(self) -> str:
        """Returns a hash of the command and of all configurations that it names; for records of what was rehearsed.

        Keys that only describe, such as titles and licences, are left out.
        """
        named = {
            f"{group}/{name}": _effective(config.load(group, name)[0])
            for group, name in _choices(self.words)
            if name in config.names(group)
        }
        content = [self.words, named, [_effective(part) for part in replace(self, seeds=()).systems()]]
        return sha256(json.dumps(content, sort_keys=True, default=str).encode())[:16]

    @cached_property
    def runs(self) -> tuple[PlannedRun, ...]:
        """The runs that it makes, in the order in which it makes them."""
        of_cells = (cell.overrides for cell in self._cells()) if self.experiment else (self.words,)
        return tuple(map(planned_run, of_cells))

    def systems(self) -> Iterator[Mapping[str, Any]]:
        """Yields the configurations of its systems and of their parts, with the overrides of the command."""
        for run in self.runs:
            yield from run.parts

    @property
    def title(self) -> str:
        """What it makes, in words."""
        if self.words[0] != "run":
            return " ".join(self.words)
        if self.experiment or self.reads():
            return f"experiment {' '.join((self.experiment, self.condition)).strip()}" if self.experiment else self.name
        return f"{self.runs[0].name} on {self.runs[0].collection}"

    @property
    def experiment(self) -> str:
        """Name of the experiment that it runs; empty if it makes one run."""
        return dict(_choices(self.words)).get("experiment", "")

    @property
    def file(self) -> str:
        """File of its run, below the folder of runs; empty for an experiment."""
        return "" if self.experiment else f"{self.runs[0].collection}/{self.runs[0].name}.run"

    def reads(self) -> tuple[str, ...]:
        """Returns the files of the runs that it fuses or learns from, below the folder of runs."""
        if self.experiment:
            return ()
        lists = [word.partition("=")[2].strip("[]").split(",") for word in self.words if "runs=" in word]  # KEY=[A,B]
        return tuple(
            name.removeprefix(_RUNS)
            if name.endswith(".run")
            else f"{self.runs[0].collection}/{config.load('system', name)[0].get('name', name)}.run"
            for names in lists
            for name in names
            if name
        )

    def located(self, runs: str) -> tuple[str, ...]:
        """Returns the words with the folder of runs in place of the default; a fusion gets a name of its own."""
        moved = [word.replace(_RUNS, f"{runs}/") if "runs=[" in word else word for word in self.words]
        if self.reads() and not any(word.startswith("system.name=") for word in moved):
            moved.append(f"system.name={file_name(self.name)}")
        return (*moved, f"runs={runs}") if f"{runs}/" != _RUNS else tuple(moved)

    def chosen(self, group: str) -> set[str]:
        """Returns the names of a group's configurations that its words, or its experiment's cells, choose."""
        return {str(getattr(run, group)) for run in self.runs}

    def corpora(self) -> set[str]:
        """Returns the corpora and collections whose files it reads, by name."""
        names = self.chosen("corpus") | self.chosen("collection")
        for part in self.systems():
            names |= {str(name) for name, column in (part.get("pairs") or {}).items() if column is not None}
            names |= {str(part[key]) for key in ("posts", "unanswered") if isinstance(part.get(key), str)}
        return names

    @property
    def labels(self) -> tuple[tuple[str, ...], ...]:
        """Labels of the row of each run of its experiment, in the order of `runs`."""
        return tuple(load_experiment(self.experiment).row(cell.labels) for cell in self._cells())

    def _cells(self) -> Iterator[ExperimentCell]:
        scale = next((word.partition("=")[2] for word in self.words if word.startswith("scale=")), FULL)
        for cell in load_experiment(self.experiment).cells((), scale):
            if self.condition in ("", cell.labels[0]) and (not self.seeds or cell.seed in (None, *self.seeds)):
                yield cell


def _effective(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keys of a configuration that affect a run, without titles, notes, licence or state."""
    others = (*states.ABOUT, "licence", "link", "notes", "sections")
    return {key: value for key, value in mapping.items() if key not in others}


def _choices(words: Sequence[str]) -> list[tuple[str, str]]:
    groups = ("collection", "corpus", "system", "protocol", "experiment")
    pairs = (word.partition("=") for word in words)
    return [(key, value) for key, _, value in pairs if key in groups]


@dataclass(frozen=True)
class Selection:
    """A part of a paper.

    Attributes
    ----------
    rows : pattern of labels or tables, such as `mirmu*`; empty for all.
    tables, collections : names of tables; of collections: ours, a beginning of theirs such as `arqmath-3` or `arqmath`,
        or the paper's. Empty for all.
    """

    rows: str = ""
    tables: tuple[str, ...] = ()
    collections: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rows or self.tables or self.collections)

    def fits(self, row: PrintedRow) -> bool:
        """Returns whether a row belongs to the part, on some collection."""
        tables = row.table.split(", ")
        known = (row.label, str(row), row.table, *tables)
        by_name = not self.rows or any(fnmatch.fnmatchcase(each.lower(), self.rows.lower()) for each in known)
        return by_name and (not self.tables or bool(set(tables) & set(self.tables)))


EVERYTHING = Selection()


def file_name(name: str) -> str:
    """Returns the name of a step's record, log and fused run, without its ending.

    Examples
    --------
    >>> file_name("2 mirmu 1: Base arqmath-1-task1")
    '2-mirmu-1-Base-arqmath-1-task1'
    """
    return re.sub(r"[^\w.+-]+", "-", name).strip("-")[:120]


def paper_steps(
    paper: Paper, part: Selection = EVERYTHING, scale: str = "", seeds: int | None = None
) -> tuple[list[RunStep], dict[PrintedRow, str]]:
    """Returns the steps of a paper, and row -> the reason of the rows that no command makes.

    Parameters
    ----------
    part : rows to make; the runs that these rows fuse or learn from are made too.
    scale : empty for the paper's resources, or `here`.
    seeds : number of seeds of trained systems, from the first; None for all of an experiment, and one of other systems.

    Raises
    ------
    NothingToMakeError
        No row fits.
    HarnessError
        A table or collection is unknown.
    """
    made, left = _of_rows(paper, scale, seeds or 1)
    made += _of_experiments(paper, scale, seeds)
    covered = {part.get("name") for step in made for part in step.systems()}
    made += _of_systems(paper, covered, scale)
    if part:
        made = _chosen(made, _named(part, paper, scale), paper)
        left = {row: why for row, why in left.items() if part.fits(row)}
    return made, left


def _named(part: Selection, paper: Paper, scale: str) -> Selection:
    """Returns the part with the names of our collections, at the scale `here` those in place of the paper's."""
    rows = () if paper.available is None else paper.available.rows
    known = dict.fromkeys([cell.table for cell in paper.cells] + [row.table for row in rows])
    for table in part.tables:
        checks.choice("tables", table, known)
    ours = config.names("collection")
    theirs = {} if paper.scored is None else paper.scored.collections
    here = paper.config.here if scale == HERE else None
    names: dict[str, None] = {}
    for given in part.collections:
        named = [given] if given in ours else [name for name in ours if name.startswith(f"{given}-")]
        named += [judged.collection for name, judged in theirs.items() if given in (name, name.partition("/")[0])]
        if not named:
            checks.choice("collections", given, {**ours, **theirs})
        names |= dict.fromkeys(name if here is None else here.collection(name) for name in named)
    return replace(part, collections=tuple(names))


def _chosen(made: Sequence[RunStep], part: Selection, paper: Paper) -> list[RunStep]:
    """Returns the steps of the rows that fit, and of those whose runs they read, without their rows."""
    wanted = {row for step in made for row in step.rows if part.fits(row)}
    if not wanted:
        known = [row.label for step in made for row in step.rows]
        raise NothingToMakeError(f"paper {paper.key}: no row with a command fits; {suggestion(part.rows, known)}")
    needed: list[RunStep] = []
    read: set[str] = set()  # by the chosen steps
    for step in reversed(made):
        there = not part.collections or bool(step.chosen("collection") & set(part.collections))
        mine = tuple(row for row in step.rows if row in wanted) if there else ()
        if mine or step.file in read:
            parts = [one for one in step.parts if set(one.rows) & set(mine)]
            if len(parts) < len(step.parts):
                needed += (replace(one, rows=tuple(r for r in one.rows if r in wanted)) for one in reversed(parts))
            else:
                needed.append(replace(step, rows=mine))
            read |= set(step.reads())
    if not needed:
        where = ", ".join(part.collections)
        raise NothingToMakeError(f"paper {paper.key}: no command makes a row on {where}")
    return needed[::-1]


# ---- rows with a command ----------------------------------------------------------------------------------------


def _of_rows(paper: Paper, scale: str, seeds: int) -> tuple[list[RunStep], dict[PrintedRow, str]]:
    """Returns a step for each run behind the rows of `available`, single systems first, and the rows without one."""
    available = paper.available
    if available is None or (scale == HERE and available.here is None):
        return [], {}
    sharing: dict[tuple[str, str], list[PaperRow]] = {}
    for row in available.rows:
        sharing.setdefault(row.run, []).append(row)
    made: list[RunStep] = []
    left: dict[PrintedRow, str] = {}
    single = [each for each in sharing.values() if not each[0].inputs]
    for sharers in (*single, *(each for each in sharing.values() if each[0].inputs)):
        rows = tuple(PrintedRow(row.table, row.label) for row in sharers)
        first = next((row for row in sharers if (row.table, row.label) == row.run), sharers[0])
        if (lack := first.registered()) is not None:
            left |= dict.fromkeys(rows, f"{lack[0]}: {lack[1]}")
            continue
        for collection in available.collections(first):
            command = available.small(first, collection) if scale == HERE else available.full(first, collection)
            if not command:
                left |= dict.fromkeys(rows, "needs: fewer than two of the runs that it fuses can be made here")
                continue
            words = tuple(shlex.split(command))[1:]
            own_first = (first, *(row for row in sharers if row is not first))
            printed = tuple(PrintedRow(row.table, row.label) for row in own_first if collection in row.collections)
            step = RunStep(f"{first.table} {first.label} {collection}", words, printed)
            made += [step, *(_seeded(step, seed) for seed in range(2, seeds + 1) if _trained(step.runs[0]))]
    once: dict[tuple[str, ...], RunStep] = {}  # rows may have one command; a fusion's run is named after its row
    for step in made:
        key = (step.name,) if step.reads() else step.words
        same = once.get(key)
        once[key] = step if same is None else replace(same, rows=tuple(dict.fromkeys((*same.rows, *step.rows))))
    # Runs that a fusion learns from are made before it.
    return sorted(once.values(), key=lambda step: any("training_runs" in word for word in step.words)), left


def _trained(run: PlannedRun) -> dict[str, Mapping[str, Any]]:
    """Returns key -> settings of the trainings of a run's system and of its first stage."""
    first = run.configuration.get("first")
    trainings = {"training": run.configuration.get("training")}
    trainings |= {"first.training": first.get("training")} if isinstance(first, Mapping) else {}
    return {key: how for key, how in trainings.items() if isinstance(how, Mapping)}


def _seeded(step: RunStep, number: int) -> RunStep:
    """Returns the step of a trained system with other seeds, the first being those of its configuration."""
    (run,) = step.runs
    seeds = {key: int(how.get("seed", Tuning.seed)) + number - 1 for key, how in _trained(run).items()}
    words = (*step.words, *(f"system.{key}.seed={seed}" for key, seed in seeds.items()))
    return replace(step, name=f"{step.name} seed {number}", words=(*words, f"system.name={run.name}-seed-{number}"))


# ---- experiments ------------------------------------------------------------------------------------------------


def _of_experiments(paper: Paper, scale: str, seeds: int | None) -> list[RunStep]:
    """Returns a step for each experiment that has rows of the paper; its parts are the experiment's conditions."""
    made = []
    for name, tables in paper.config.experiments.items():
        experiment = load_experiment(name)
        if scale and scale not in experiment.scale:
            continue
        named = scale or FULL
        cells = experiment.cells((), named)
        words = ("run", f"experiment={name}", f"scale={named}") if experiment.scale else ("run", f"experiment={name}")
        table = ", ".join(tables)
        values = experiment.scale_of(named).seeds or (experiment.seeds.values if experiment.seeds else ())
        few = tuple(map(str, values[:seeds])) if seeds is not None else ()
        seed = f"seed:[{','.join(few)}]" if few else ""
        of_conditions: dict[str, dict[PrintedRow, None]] = {condition: {} for condition in experiment.conditions}
        for cell in cells:
            row = PrintedRow(table, ", ".join(experiment.row(cell.labels)))
            of_conditions[cell.labels[0]][row] = None
        parts = []
        for condition, rows in of_conditions.items():
            quoted = condition.replace("'", r"\'")
            only = ",".join(filter(None, (f"{CONDITION}:['{quoted}']", seed)))
            part = (*words, f"only={{{only}}}")
            parts.append(RunStep(f"{name} {condition}", part, tuple(rows), condition=condition, seeds=few))
        whole = (*words, f"only={{{seed}}}") if seed else words
        printed = dict.fromkeys(row for part in parts for row in part.rows)
        made.append(RunStep(name, whole, tuple(printed), tuple(parts), seeds=few))
    return made


# ---- systems with a recipe --------------------------------------------------------------------------------------


def _of_systems(paper: Paper, covered: Iterable[object], scale: str) -> list[RunStep]:
    """Returns a step for each system of the paper with a recipe that no other step runs."""
    made = []
    for name in config.names("system"):
        mapping, where = config.load("system", name)
        if mapping.get("paper") != paper.key or name in set(covered):
            continue
        recipe = states.recipe(mapping, where)
        if recipe is None or states.registered(list(states.nested_configurations(mapping)), where) is not None:
            continue
        words = recipe.words(name)
        if scale == HERE:
            if paper.config.here is None or name not in paper.config.here.systems:
                continue
            here = paper.config.here
            small = replace(recipe, corpus=here.corpus, collection=here.collection(recipe.collection), edition=None)
            words = [*small.words(name), *here.systems[name]]
        title = str(mapping.get("title", name))
        scored = [cell for cell in paper.cells if paper.scored is not None and paper.scored.place(cell)]
        # A table names a team's system in one column, as `team / system`, or in a row below the team.
        printed = [cell for cell in scored if cell.system in (*title.split(", "), title.replace(", ", " / "))]
        row = PrintedRow(printed[0].table, printed[0].system) if printed else PrintedRow("", title)
        made.append(RunStep(name, ("run", *words), (row,)))
    return made
