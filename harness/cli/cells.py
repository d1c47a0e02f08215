"""Cells of an experiment: their runs, one after the other or by a launcher, their outcomes, and forecasts of time."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from operator import eq
from pathlib import Path
from typing import Any

from harness.cli.run import name_of, produce_run, run_remarks, task_of
from harness.cli.settings import RunSettings, import_from_here
from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.errors import HarnessError, SystemRaisedError, counted_text
from harness.experiments import costs, launch, produce
from harness.experiments import experiment as plan
from harness.experiments.engines import BASIC
from harness.experiments.evaluate import Evaluation, cautions
from harness.experiments.experiment import CONDITION, Experiment, ExperimentCell
from harness.experiments.fingerprint import Plan
from harness.experiments.produce import Produced, made_elsewhere
from harness.experiments.results import Outcome
from harness.experiments.task import Task
from harness.io.checks import typed
from harness.io.console import log_line, log_text, track
from harness.io.files import check_writable
from harness.store.artefacts import ArtefactBusy
from harness.store.code import TARGET
from harness.systems import states
from harness.systems.build import BuiltSystem, build_system
from harness.systems.keys import decisive
from harness.systems.resources import RESOURCES, declared

# Keys of the command line that are said of the whole experiment, not of its cells.
OF_ALL = ("experiment", "only", "scale", "dry", "output", "runs", "formats", "reuse", "alpha", "seed", "jobs")
_NO_RUN = ("edition", "protocol", "tune", *OF_ALL)
_Run = tuple[str, str]  # what decides the content of a run, and the suffix of its name


@dataclass(frozen=True)
class PlannedCell:
    """A cell with its composed settings; `suffix` is appended to the name of its run."""

    cell: ExperimentCell
    settings: RunSettings
    suffix: str

    @property
    def run(self) -> _Run:
        """The run of the cell, which may be that of other cells, too."""
        return run_content(self.settings), self.suffix


def run_content(settings: RunSettings) -> str:
    """Returns all keys that decide the content of a run."""
    spec = {name: value for name, value in vars(settings).items() if name not in _NO_RUN}
    spec["system"] = {name: value for name, value in decisive(settings.system or {}).items() if name != RESOURCES}
    if settings.rerank:  # what is judged is what is ranked
        spec |= {"edition": settings.edition, "protocol": settings.protocol}
    return repr(spec)


def run_cells(planned: Sequence[PlannedCell], measures: Sequence[str], name: str) -> tuple[Outcome, ...]:
    """Runs the cells, grouped so that each collection and corpus is read once; returns outcomes in the cells' order.

    All inputs are those of the moment when the work is planned: the run of a cell whose code, configuration or data
    change afterwards is not made. With a launcher, the runs that are missing are made by it; what follows is the same.

    Parameters
    ----------
    name : of the experiment.
    """
    places = {name: at for at, name in enumerate(dict.fromkeys(map(_scored_by, planned)))}
    order = sorted(range(len(planned)), key=lambda at: [places[_scored_by(planned[at])], at])
    tasks: dict[str, Task] = {}
    written: dict[Path, str] = {}
    runs = Path(planned[0].settings.runs)
    launch.clear_remains(runs)
    plans = _plans([planned[at] for at in order], measures, tasks)
    if any(finished is None for finished, _ in plans.values()):
        check_writable(runs)
    ended = {} if launch.chosen() == BASIC else _launched([planned[at] for at in order], measures, plans, name)
    made: set[_Run] = set()
    done: dict[int, Outcome] = {}
    for at in track(order, "cells"):
        each = planned[at]
        log_line(f"cell {len(done) + 1} of {len(order)}: {in_words(each.cell)}")
        if each.run in made:  # with reuse=false, too, one run serves several editions
            each = replace(each, settings=replace(each.settings, reuse=True))
        done[at] = _outcome(each, measures, tasks, written, ended.get(each.run), plans.get(each.run, (None, None))[1])
        made.add(each.run)
    return tuple(done[at] for at in range(len(planned)))


def _plans(
    planned: Sequence[PlannedCell], measures: Sequence[str], tasks: dict[str, Task]
) -> dict[_Run, tuple[Path | None, Plan]]:
    """Returns the file of each run that is finished, else None, and its inputs.

    Cells with a fault that is seen here are left to `_outcome`, which reports it.
    """
    plans: dict[_Run, tuple[Path | None, Plan]] = {}
    for each in track(planned, "finished cells"):
        if each.run not in plans and not missing_requirement(each.settings):
            with suppress(HarnessError):
                plans[each.run] = finished_run(each, measures, tasks)
    return plans


def _launched(
    planned: Sequence[PlannedCell], measures: Sequence[str], plans: Mapping[_Run, tuple[Path | None, Plan]], name: str
) -> dict[_Run, launch.Ended]:
    """Makes the planned runs that are not finished by the launcher; returns how each ended."""
    jobs: dict[_Run, launch.Job] = {}
    for each in planned:
        settings, system = each.settings, each.settings.system or {}
        finished, plan = plans.get(each.run, (None, None))
        if each.run in jobs or plan is None or finished is not None:
            continue
        with suppress(HarnessError):
            need = declared(states.nested_configurations(system), "run: system")
            content = {"settings": asdict(settings), "suffix": each.suffix, "measures": list(measures), "plan": plan}
            alike = json.dumps([system.get(TARGET), name_of(settings.corpus), settings.training])
            jobs[each.run] = launch.Job(content, in_words(each.cell), need, alike)
    if not jobs:
        return {}
    done = sum(finished is not None for finished, _ in plans.values())
    said = f"; {done} are finished" if done else ""
    log_line(f"{len(jobs)} runs by hydra/launcher={launch.chosen()}{said}")
    folder = launch.place_of(Path(planned[0].settings.runs), name)
    return dict(zip(jobs, launch.launch(list(jobs.values()), make_run, folder), strict=True))


def make_run(content: Mapping[str, Any]) -> dict[str, str]:
    """Makes the run of a cell in a process of a launcher; returns its file, key and basis.

    Raises
    ------
    HarnessError
        The run cannot be made.
    """
    import_from_here()
    settings = typed(RunSettings, content["settings"], "run")
    try:
        task = task_of(settings, name_of(settings.collection), settings.edition, _TASKS, content["measures"])
        system = build_system(settings.system or {}, "run: system")
        produced = produce_run(settings, system, task, content["suffix"], content["plan"])
    except (SystemRaisedError, ArtefactBusy):
        raise
    except HarnessError as error:
        if fetchable_missing(settings):
            raise launch.MissingResourceError(*error.lines) from None
        raise
    return {"path": str(produced.path), "key": produced.key, "basis": produced.basis}


_TASKS: dict[str, Task] = {}  # of the jobs that a process has done


def finished_run(each: PlannedCell, measures: Sequence[str], tasks: dict[str, Task]) -> tuple[Path | None, Plan]:
    """Returns the file of the run that a cell would reuse, else None, and the inputs of the run.

    Raises
    ------
    HarnessError
        The cell has a fault.
    """
    settings = each.settings
    path, plan = produce.planned(
        build_system(settings.system or {}, "run: system"),
        task_of(settings, name_of(settings.collection), settings.edition, tasks, measures),
        runs=Path(settings.runs),
        training=settings.training or (),
        rerank=settings.rerank,
        allow_test_judgments=settings.allow_test_judgments,
        suffix=each.suffix,
    )
    return path if settings.reuse else None, plan


def _scored_by(each: PlannedCell) -> tuple[str, ...]:
    """Returns corpus, collection, protocol and edition of a cell."""
    settings = each.settings
    groups = (settings.corpus, settings.collection, settings.protocol)
    return (*(name_of(group) for group in groups), settings.edition or "")


def _outcome(
    each: PlannedCell,
    measures: Sequence[str],
    tasks: dict[str, Task],
    written: dict[Path, str],
    ended: launch.Ended | None,
    plan: Plan | None,
) -> Outcome:
    """Runs and scores one cell.

    Parameters
    ----------
    written : run file -> key of the run, of the cells so far.
    ended : how the run was made by a launcher; None if it was not.
    plan : the inputs of the run when it was planned; None if they were not known.
    """
    settings = each.settings
    configuration = settings.system or {}
    named = configuration.get("name")
    outcome = Outcome(each.cell, configuration, name=f"{named}{each.suffix}" if named else "")
    try:
        if lacking := missing_requirement(settings):
            return replace(outcome, reason=lacking, lacking=True)
        if ended is not None and ended.state != "made":
            return replace(outcome, reason=ended.lines[0], lacking=ended.lacking, log=ended.log)
        task = task_of(settings, name_of(settings.collection), settings.edition, tasks, measures)
        system = build_system(configuration, "run: system")
        produced = _produced(each, system, task, ended, plan)
        if written.setdefault(produced.path, produced.key) != produced.key:
            raise HarnessError(f"{produced.path}: is the run of another cell, too; give each system a name of its own")
        scores = task.scorer(produced.run)
        warned = cautions(Evaluation(task, (produced.run,), (scores,), {}))
        notes = run_remarks(settings, system, produced)
    except HarnessError as error:
        if isinstance(error, SystemRaisedError):
            log_text(error.trace)
        return replace(outcome, reason=error.lines[0], lacking=fetchable_missing(settings))
    return replace(
        outcome,
        name=produced.run.name,
        run=produced.path,
        sha256=produced.run.sha256,
        task=task,
        scores=scores,
        notes=notes,
        cautions=warned,
        costs=costs.of_run(produced.path),
    )


def _produced(
    each: PlannedCell, system: BuiltSystem, task: Task, ended: launch.Ended | None, plan: Plan | None
) -> Produced:
    """Returns the run of a cell: that of the launcher, else it is made or reused here."""
    if ended is None:
        return produce_run(each.settings, system, task, each.suffix, plan)
    made = ended.made
    produced = made_elsewhere(Path(made["path"]), made["key"], made["basis"])
    log_line(f"{produced.path}: made by hydra/launcher={launch.chosen()}")
    return produced


def missing_resource(settings: RunSettings) -> str:
    """Returns the resource that a cell lacks, without fetching it; empty if none."""
    if requirement := missing_requirement(settings):
        return requirement
    parts = list(states.nested_configurations(settings.system or {}))
    if absent := states.missing_models(parts):
        return states.model_lines(absent[0], states.by_hand(parts))[0]
    collection, corpus = name_of(settings.collection), settings.corpus and name_of(settings.corpus)
    known = [("collection", collection, load_collection(collection).state())]
    known += [("corpus", corpus, load_corpus(corpus).state())] if corpus else []
    return next((f"needs the {what} {name} ({state})" for what, name, state in known if state != "here"), "")


def missing_requirement(settings: RunSettings) -> str:
    """Returns what a system needs and a run does not fetch, with the command that installs it; empty if nothing."""
    parts = list(states.nested_configurations(settings.system or {}))
    if (lack := states.registered(parts)) is not None:
        return " ".join(lack) if lack[0] == "needs" else ": ".join(lack)
    topics = load_collection(name_of(settings.collection)).topic_file
    return states.missing_modules(parts) or states.by_language(parts).get(topics.language if topics else "", "")


def fetchable_missing(settings: RunSettings) -> bool:
    """Returns whether a model, the collection or the corpus is missing, which a run would have fetched if it could."""
    collection, corpus = name_of(settings.collection), settings.corpus and name_of(settings.corpus)
    data = [load_collection(collection).state(), *([load_corpus(corpus).state()] if corpus else [])]
    return set(data) != {"here"} or bool(states.missing_models(states.nested_configurations(settings.system or {})))


def in_words(cell: ExperimentCell) -> str:
    """Returns a cell in words: its labels and seed."""
    seed = () if cell.seed is None else (f"seed {cell.seed}",)
    return plan.labels_text((*cell.labels, *seed))


def grouped_by_reason(faults: Sequence[tuple[ExperimentCell, str]]) -> list[str]:
    """Returns each reason once, with its first cell and the number of others."""
    cells: dict[str, list[ExperimentCell]] = {}
    for cell, why in faults:
        cells.setdefault(why, []).append(cell)
    return [
        f"{in_words(of[0])}{f' and {len(of) - 1} more cells' if of[1:] else ''}: {why}" for why, of in cells.items()
    ]


# ---- forecasts of a dry run -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Forecast:
    """State of a cell before it is run.

    Attributes
    ----------
    seconds : what its run took; None if it is not finished.
    reason : why it cannot be run here; empty if it can.
    """

    cell: ExperimentCell
    seconds: float | None = None
    reason: str = ""


def time_left(cells: Sequence[Forecast]) -> str:
    """Returns the estimated time of the unfinished cells in words: each takes the mean of the nearest finished ones.

    Those of the same labels (another seed), or else of its condition, or else of all: a training of 20,000 pairs takes
    what another seed's took, not what those of 1,000 do.

    Examples
    --------
    >>> done = [Forecast(ExperimentCell(("a",), None, ()), 2.0), Forecast(ExperimentCell(("a",), None, ()), 4.0)]
    >>> time_left([*done, Forecast(ExperimentCell(("a",), None, ())), Forecast(ExperimentCell(("b",), None, ()))])
    '2 cells left to run: about 6.0 s (1 by finished cells of the same labels, 1 by the mean of all finished cells)'
    """
    took: dict[tuple[str, ...], list[float]] = {}
    for each in cells:
        if each.seconds is not None:
            for key in {each.cell.labels, each.cell.labels[:1], ()}:
                took.setdefault(key, []).append(each.seconds)
    waiting = [each.cell.labels for each in cells if each.seconds is None and not each.reason]
    if not waiting:
        return "nothing is left that can be run here"
    left = f"{counted_text(len(waiting), 'cell')} left to run"
    if not took:
        return f"{left}; no cell is finished yet, by which their time could be estimated"
    keys = [next(key for key in (labels, labels[:1], ()) if key in took) for labels in waiting]
    same, others = sum(map(eq, keys, waiting)), keys.count(())
    numbers = {
        "finished cells of the same labels": same,
        "finished cells of their condition": len(keys) - same - others,
        "the mean of all finished cells": others,
    }
    how = ", ".join(f"{number} by {what}" for what, number in numbers.items() if number)
    return f"{left}: about {duration(sum(statistics.mean(took[key]) for key in keys))} ({how})"


def forecast_lines(name: str, experiment: Experiment, scale: str, cells: Sequence[Forecast]) -> Iterator[str]:
    """Yields the lines of a dry run: the whole experiment, each condition, and the estimate."""
    conditions = list(dict.fromkeys(each.cell.labels[0] for each in cells))
    seeds = list(dict.fromkeys(each.cell.seed for each in cells if each.cell.seed is not None))
    told = [
        counted_text(len(conditions), CONDITION),
        *(f"{axis}: {len(experiment.labels(axis))}" for axis in experiment.axes),
    ]
    told += [f"seeds {', '.join(seeds)}"] if seeds else []
    told += [f"{counted_text(len(cells), 'cell')}, {counted_text(experiment.tests, 'test')}"]
    yield f"experiment {name}, scale {scale}: {'; '.join(told)}"
    if said := experiment.scale_of(scale).says:
        yield f"scale {scale}: {said}"
    for condition in conditions:
        of = [each for each in cells if each.cell.labels[0] == condition]
        done = [each.seconds for each in of if each.seconds is not None]
        lost = list(dict.fromkeys(each.reason for each in of if each.reason))
        line = f"  {condition}: {len(done)} of {counted_text(len(of), 'cell')} finished"
        line += f", {duration(statistics.mean(done))} each" if done else ""
        line += f"; {sum(bool(each.reason) for each in of)} cannot be run here: {'; '.join(lost)}" if lost else ""
        yield line
    yield time_left(cells)


def duration(seconds: float) -> str:
    """Returns a time in words.

    Examples
    --------
    >>> duration(0.34), duration(75), duration(7300)
    ('0.3 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
