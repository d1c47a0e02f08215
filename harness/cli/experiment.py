"""`harness run experiment=NAME`: every cell composed and run as by `harness run`, and all of them reported together."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.cells import (
    OF_ALL,
    Forecast,
    PlannedCell,
    fetchable_missing,
    finished_run,
    forecast_lines,
    grouped_by_reason,
    in_words,
    missing_requirement,
    missing_resource,
    run_cells,
    run_content,
)
from harness.cli.overrides import GROUPS, checked_overrides, gist
from harness.cli.run import check_run_settings, name_of, with_corpus
from harness.cli.settings import RunSettings, checked, import_from_here
from harness.collections import same_topics
from harness.collections.load import load_collection
from harness.errors import HarnessError, SystemRaisedError, counted_text, gather, refuse, suggestion
from harness.experiments import experiment as plan
from harness.experiments.cell_composition import composer
from harness.experiments.experiment import Experiment, ExperimentCell, Labels, load_experiment
from harness.experiments.overrides import SETS, override_key
from harness.experiments.produce import check_untrained
from harness.experiments.results import ExperimentResults, Outcome
from harness.experiments.sweep import run_suffix
from harness.experiments.task import Task
from harness.experiments.trackers import Finished, Record, tracker_record
from harness.io.console import log_line, print_line, track
from harness.papers.experiment_runs import CellRun
from harness.render.model import Section
from harness.render.write import DEFAULT, first_page
from harness.reports.changed_reports import write_changed
from harness.reports.experiment import experiment_report
from harness.sources.network import without_downloads
from harness.store import sidecar
from harness.store.artefacts import key
from harness.systems import hardware
from harness.systems.build import build_system, guarded

if TYPE_CHECKING:
    from omegaconf import DictConfig

_NOWHERE = ("blocked:", "not implemented:")  # what no machine has is lacking at every scale


def experiment(cfg: DictConfig) -> Finished | None:
    """Runs the unfinished cells of an experiment and reports all of them; returns the records of its runs.

    Raises
    ------
    HarnessError
        The experiment has faults, or a cell failed for another reason than that something is not here; the report is
        written before, unless there is no run at all.
    """
    from hydra.core.hydra_config import HydraConfig

    import_from_here()
    settings = checked(RunSettings, cfg, "run")
    name = str(HydraConfig.get().runtime.choices["experiment"])
    design = load_experiment(name)
    given = [word for word in HydraConfig.get().overrides.task if override_key(word) not in OF_ALL]
    more = [_function(named) for named in design.sections]
    scale = plan.FULL if settings.scale is None else settings.scale
    cells = _all_cells(design, given, scale)
    chosen = design.restricted(cells, settings.only)
    with without_downloads("a dry run downloads nothing") if settings.dry else nullcontext():
        planned = _composed(chosen, _suffixes(design, cells, scale), settings)
        _check_chosen_blindly(design, planned, name)
        missing = [] if settings.scale else _missing_at_full(design, planned)
        if not settings.only:  # a part may have none of the topics
            _check_pages(design, planned, name)
        if settings.dry:
            for line in forecast_lines(name, design, scale, _forecast(planned, design.measures)):
                print_line(line)
            for line in missing[:1]:
                print_line(line)
            return None
    if missing:
        raise HarnessError(f"experiment {name}: {missing[0]}", *missing[1:])
    made = run_cells(planned, design.measures, name)
    only = dict(settings.only or {})
    results = ExperimentResults(name, design, made, only, tuple(given), settings.alpha, settings.seed, scale)
    faults = grouped_by_reason([(outcome.cell, outcome.reason) for outcome in made if outcome.reason])
    if all(outcome.reason for outcome in made):
        raise HarnessError(f"experiment {name}: no cell could be run", *faults)
    page = experiment_report(results, more)
    part = {"only": results.only, "extra": given}
    place = name if scale == plan.FULL else f"{name}-{scale}"
    folder = f"{place}-{key(part)[:8]}" if settings.only or given else place
    for line in dict.fromkeys(line for outcome in made for line in outcome.cautions):
        log_line(f"warning: {line}")
    for scored in dict.fromkeys(each.task.collection.name for each in made if each.task and _private(each.task)):
        log_line(
            f"warning: {scored}: the edition is private, and this report shows its judgments: not for participants"
        )
    for line in results.refused:
        log_line(f"warning: {line}")
    for line in faults:
        log_line(f"not run: {line}")
    for outcome in made:
        if outcome.log is not None:
            log_line(f"log of {in_words(outcome.cell)}: {os.path.relpath(outcome.log)}")
    print_line(page.headline)
    written = write_changed(page, Path(settings.output) / "experiments" / folder, settings.formats, log_line)
    print_line(f"report: {first_page(written)}")
    if failed := [outcome for outcome in made if outcome.reason and not outcome.lacking]:
        raise HarnessError(f"experiment {name}: {len(failed)} of {len(made)} cells failed; see 'not run' above")
    return Finished(math.nan, [_record(name, outcome) for outcome in made if outcome.scores is not None])


def finished_runs(
    name: str, scale: str, runs: str, seeds: int | None = None, conditions: Collection[str] = ()
) -> list[CellRun]:
    """Returns the finished runs of an experiment's cells, verified by all their inputs; makes and fetches nothing.

    Parameters
    ----------
    scale : of the experiment; empty for full.
    seeds : number of seeds, from the first; None for all.
    conditions : those whose cells are looked for; none for all.
    """
    design = load_experiment(name)
    scale = scale or plan.FULL
    cells = _all_cells(design, (), scale)
    values = design.scale_of(scale).seeds or (design.seeds.values if design.seeds else ())
    few = None if seeds is None else (None, *map(str, values[:seeds]))
    chosen = [cell for cell in cells if few is None or cell.seed in few]
    chosen = [cell for cell in chosen if not conditions or cell.labels[0] in conditions]
    settings = RunSettings(formats=DEFAULT, runs=runs)
    tasks: dict[str, Task] = {}
    made = []
    with without_downloads("only finished runs are looked for"):
        for each in _composed(chosen, _suffixes(design, cells, scale), settings):
            named = f"{(each.settings.system or {}).get('name')}{each.suffix}.run"
            if not Path(runs, name_of(each.settings.collection), named).is_file() or missing_resource(each.settings):
                continue
            with suppress(HarnessError):
                path, _ = finished_run(each, design.measures, tasks)
                if path is not None:
                    row = design.row(each.cell.labels)
                    collection, corpus = name_of(each.settings.collection), name_of(each.settings.corpus)
                    where = (collection, each.settings.edition or "", corpus)
                    made.append(CellRun(row, str(each.cell.seed or ""), *where, path))
    return made


def _private(task: Task) -> bool:
    return task.collection.edition(task.scorer.qrels.edition).private


def _record(name: str, outcome: Outcome) -> Record:
    """Returns what a tracker logs of a cell."""
    scores, bench = outcome.scores, outcome.task
    assert scores is not None and outcome.run is not None  # noqa: S101  (for mypy)
    private = bench is not None and _private(bench)
    given = {"experiment": name, "cell": in_words(outcome.cell), "system": outcome.system}
    return tracker_record(scores, outcome.run, given, private=private)


def _function(named: str) -> Callable[[ExperimentResults], Sequence[Section]]:
    """Returns the function of a dotted name; what it raises becomes a HarnessError of one line."""
    where = f"experiment: key 'sections': {named}"
    whole = named if "." in named else f"harness.reports.experiment_parts.{named}_sections"
    module, _, name = whole.rpartition(".")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise HarnessError(f"{where} cannot be loaded: {error}") from None
    if not callable(function):
        raise HarnessError(f"{where} is not a function of results")

    def sections(results: ExperimentResults) -> Sequence[Section]:
        made = guarded(where, lambda: function(results))
        if not isinstance(made, list | tuple) or not all(isinstance(one, Section) for one in made):
            raise HarnessError(f"{where} gave something else than sections of a report")
        return made

    return sections


def _missing_at_full(design: Experiment, planned: Sequence[PlannedCell]) -> list[str]:
    """Returns a line with the remedy, then the resources that an experiment with reduced scales lacks at full scale."""
    others = [scale for scale in design.scale if scale != plan.FULL]
    if not others:
        return []
    lacking = [(each.cell, why) for each in planned if (why := missing_resource(each.settings))]
    told = grouped_by_reason([(cell, why) for cell, why in lacking if not why.startswith(_NOWHERE)])
    if "gpu" in design.scale_of(plan.FULL).needs and not hardware.gpu():
        told.insert(0, "needs a GPU that torch finds")
    if not told:
        return []
    ways = "; or ".join(f"scale={scale} for a reduced version: {design.scale[scale].says}" for scale in others)
    remedy = f"use scale=full to run the available cells, or {ways}"
    return [f"some resources for the full experiment are missing; {remedy}", *told]


def _lists(design: Experiment) -> dict[str, Mapping[str, Sequence[str]]]:
    """Returns the overrides of each label, of the conditions and of each axis."""
    return {**design.axes, plan.CONDITION: {name: condition.overrides for name, condition in design.conditions.items()}}


def _all_cells(design: Experiment, given: Sequence[str], scale: str) -> tuple[ExperimentCell, ...]:
    """Returns all cells with the overrides of the command line; raises HarnessError if one sets a key that varies."""
    lists = [*_lists(design).values(), {"": design.scale_of(scale).changes}]
    varied = {override_key(word) for of in lists for overrides in of.values() for word in overrides}
    varied |= {tuned for condition in design.conditions.values() for tuned in condition.tune or ()}
    varied |= {design.seeds.key} if design.seeds is not None else set()
    for word in given:
        if word.startswith("~") or override_key(word).partition(".")[0] not in SETS:
            raise HarnessError(f"run: {word}: an experiment sets no such key")
        if override_key(word) in varied:
            raise HarnessError(f"run: {word}: the experiment varies this key; to run a part of it, say only=...")
    return design.cells(given, scale)


def _suffixes(design: Experiment, cells: Sequence[ExperimentCell], scale: str) -> dict[ExperimentCell, str]:
    """Returns the suffix of each cell's run: the keys that conditions, axes and seeds set, and the scale.

    A key counts whether or not another cell has another value, so that removing a label renames no other run.
    """
    given = {override_key(word) for of in _lists(design).values() for words in of.values() for word in words}
    tuned = {override_key(f"{key}=") for condition in design.conditions.values() for key in condition.tune or ()}
    seed = {override_key(f"{design.seeds.key}=")} if design.seeds is not None else set()
    varied = (given | tuned | seed) - {"system.name"}
    suffixes: dict[ExperimentCell, str] = {}
    at_scale = "" if scale == plan.FULL else f"-{scale}"
    for cell in cells:
        pairs = {override_key(word): word.partition("=")[2] for word in cell.overrides}
        # A run is made of all topics of a collection: editions and protocols differ in its scores only.
        left_out = () if "rerank" in pairs else ("edition", "protocol")
        suffixes[cell] = (
            run_suffix({name: pairs[name] for name in pairs if name in varied - {*left_out}}, ()) + at_scale
        )
    return suffixes


def _composed(
    cells: Sequence[ExperimentCell], suffixes: Mapping[ExperimentCell, str], settings: RunSettings
) -> list[PlannedCell]:
    """Composes the settings of the cells; raises HarnessError with the faults of all."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    composed, read = composer("run", GROUPS["run"]), set[tuple[str, str]]()
    planned: list[PlannedCell] = []
    faults: list[tuple[ExperimentCell, str]] = []
    whole = {name: getattr(settings, name) for name in OF_ALL if name not in ("experiment", "only", "scale", "dry")}
    for cell in track(cells, "composing cells"):
        lines: list[str] = []
        with gather(lines):
            words, _ = checked_overrides("run", cell.overrides, read)
            try:
                made = checked(RunSettings, composed(words), "run")
            except (HydraException, OmegaConfBaseException) as error:
                raise HarnessError(f"run: {gist(error)}") from None
            check_run_settings(made, sweeping=False)
            made = with_corpus(made)
            _check_buildable(made)
            planned.append(PlannedCell(cell, replace(made, **whole), suffixes[cell]))
        faults += [(cell, line) for line in lines]
    if faults:
        raise HarnessError(*grouped_by_reason(faults))
    _check_files(planned)
    return planned


def _check_buildable(settings: RunSettings) -> None:
    """Raises HarnessError for faults that every run of the cell would end with, before any cell is run.

    A resource that is only missing here is not a fault, and what a system's own code raises is its cell's.
    """
    collection = load_collection(name_of(settings.collection))
    edition = collection.edition(settings.edition)
    for name in settings.training or ():
        judged, _, part = name.partition("/")
        load_collection(judged).edition(part or None)
    if missing_requirement(settings):
        return
    try:
        check_untrained(build_system(settings.system or {}, "run: system"), collection.name, edition.name)
    except SystemRaisedError:
        return
    except HarnessError:
        if not fetchable_missing(settings):
            raise


def _check_files(planned: Iterable[PlannedCell]) -> None:
    """Raises HarnessError if two cells would write different runs to one file."""
    first: dict[tuple[str, str], tuple[ExperimentCell, str]] = {}
    for each in planned:
        settings, spec = each.settings, run_content(each.settings)
        named = (settings.system or {}).get("name")
        if not named:  # one that names its runs itself, or only registers a system
            continue
        name = f"{named}{each.suffix}"
        before, same = first.setdefault((name_of(settings.collection), name), (each.cell, spec))
        if same != spec:
            both, right = f"{in_words(before)} and {in_words(each.cell)}", "give one of them a system.name of its own"
            raise HarnessError(f"experiment: {both} are different runs of one name, {name!r}; {right}")


def _check_chosen_blindly(design: Experiment, planned: Iterable[PlannedCell], name: str) -> None:
    """Raises HarnessError if settings or seeds are to be chosen on the topics that they are reported on."""
    marks: dict[tuple[str, str | None], same_topics.Marks] = {}
    sets: dict[Labels, dict[str, tuple[str, str | None]]] = {}
    for each in planned:
        labels, settings = each.cell.labels, each.settings
        by_sets = (
            design.tune_on == "sets" if each.cell.point else design.seeds is not None and design.seeds.best == "others"
        )
        if by_sets and design.part(labels):
            at = (name_of(settings.collection), settings.edition)
            sets.setdefault(design.row(labels), {})[design.part(labels)] = at
    faults = []
    for one, other in dict.fromkeys(pair for of in sets.values() for pair in combinations(of.items(), 2)):
        try:
            marks |= {at: same_topics.topic_marks(*at) for _, at in (one, other) if at not in marks}
        except HarnessError:  # which the cells of the collection report
            continue
        if same := same_topics.shared(marks[one[1]], marks[other[1]]):
            number = counted_text(len(same), "such topic")
            faults.append(
                f"experiment {name}: settings or seeds of {one[0]!r} are chosen on {other[0]!r}, which has "
                f"{same_topics.in_words(same)} ({number}); name sets of other topics in 'pool', or tune on halves"
            )
    refuse(faults)


def _check_pages(design: Experiment, planned: Iterable[PlannedCell], name: str) -> None:
    """Raises HarnessError if the key `pages` names a topic of no collection, before any cell is run."""
    wanted = set(design.pages) - {plan.ALL}
    if not wanted:
        return
    known: set[str] = set()
    for collection in dict.fromkeys(name_of(each.settings.collection) for each in planned):
        try:
            known |= load_collection(collection).topics().ids()
        except HarnessError:  # which the cells of the collection report
            return
    said = f"experiment {name}: key 'pages': no collection of the experiment has a topic"
    refuse([f"{said} {topic!r}; {suggestion(topic, known)}" for topic in sorted(wanted - known)])


def _forecast(planned: Sequence[PlannedCell], measures: Sequence[str]) -> list[Forecast]:
    """Returns a forecast for each cell; runs and fetches nothing."""
    tasks: dict[str, Task] = {}
    forecasts = []
    for each in track(planned, "cells"):
        cell = each.cell
        if lacking := missing_resource(each.settings):
            forecasts.append(Forecast(cell, reason=lacking))
            continue
        try:
            path, _ = finished_run(each, measures, tasks)
        except HarnessError as error:
            forecasts.append(Forecast(cell, reason=error.lines[0]))
            continue
        took = None if path is None else sidecar.costs(sidecar.sidecar_path(path))["seconds"]["in all"]
        forecasts.append(Forecast(cell, took))
    return forecasts
