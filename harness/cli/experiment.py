"""`harness run experiment=NAME`: every cell composed and run as by `harness run`, and all of them reported together."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.overrides import GROUPS, checked_overrides, gist
from harness.cli.run import check, name_of, produced_by, run_suffix, said_of, task_of, with_corpus
from harness.cli.settings import RunSettings, checked, import_from_here
from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.errors import HarnessError, SystemRaisedError, gather
from harness.experiments import costs
from harness.experiments import experiment as plan
from harness.experiments.composing import composer
from harness.experiments.evaluate import Evaluation, cautions
from harness.experiments.experiment import Cell, Experiment, load_experiment
from harness.experiments.forecast import Forecast, forecast_lines
from harness.experiments.overrides import SETS, key_of
from harness.experiments.produce import check_untrained, made_before
from harness.experiments.results import Outcome, Results
from harness.experiments.task import Task
from harness.io.console import out, say, tell, track
from harness.render.model import Section
from harness.render.write import first_page
from harness.reports.experiment import experiment_report
from harness.reports.kept import write_changed
from harness.sources.network import without_downloads
from harness.store import sidecar
from harness.store.artefacts import key
from harness.systems import hardware, states
from harness.systems.build import build_system, guarded
from harness.systems.keys import decisive

if TYPE_CHECKING:
    from omegaconf import DictConfig

# Keys of the command line that are said of the whole experiment, not of its cells.
_OF_ALL = ("experiment", "only", "scale", "dry", "output", "runs", "formats", "reuse", "alpha", "seed")
_NO_RUN = ("edition", "protocol", "tune", *_OF_ALL)

_NOWHERE = ("blocked:", "not implemented:")  # what no machine has is lacking at every scale


@dataclass(frozen=True)
class _Planned:
    """A cell with its composed settings; `suffix` is appended to the name of its run."""

    cell: Cell
    settings: RunSettings
    suffix: str


def experiment(cfg: DictConfig) -> None:
    """Runs the unfinished cells of an experiment and reports all of them.

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
    found = load_experiment(name)
    given = [word for word in HydraConfig.get().overrides.task if key_of(word) not in _OF_ALL]
    more = [_function(named) for named in found.sections]
    scale = plan.FULL if settings.scale is None else settings.scale
    cells = _all_cells(found, given, scale)
    chosen = found.restricted(cells, settings.only)
    with without_downloads("a dry run downloads nothing") if settings.dry else nullcontext():
        planned = _composed(chosen, _suffixes(cells, scale), settings)
        missing = [] if settings.scale else _missing_at_full(found, planned)
        if settings.dry:
            for line in forecast_lines(name, found, scale, _forecast(planned, found.measures)):
                out(line)
            for line in missing[:1]:
                out(line)
            return
    if missing:
        raise HarnessError(f"experiment {name}: {missing[0]}", *missing[1:])
    outcomes = _outcomes(planned, found.measures)
    only = dict(settings.only or {})
    results = Results(name, found, outcomes, only, tuple(given), settings.alpha, settings.seed, scale)
    faults = _grouped_by_reason([(outcome.cell, outcome.reason) for outcome in outcomes if outcome.reason])
    if all(outcome.reason for outcome in outcomes):
        raise HarnessError(f"experiment {name}: no cell could be run", *faults)
    page = experiment_report(results, more)
    part = {"only": results.only, "extra": given}
    place = name if scale == plan.FULL else f"{name}-{scale}"
    folder = f"{place}-{key(part)[:8]}" if settings.only or given else place
    for line in dict.fromkeys(line for outcome in outcomes for line in outcome.cautions):
        say(f"warning: {line}")
    for line in results.refused:
        say(f"warning: {line}")
    for line in faults:
        say(f"not run: {line}")
    out(page.headline)
    written = write_changed(page, Path(settings.output) / "experiments" / folder, settings.formats, say)
    out(f"report: {first_page(written)}")
    if failed := [outcome for outcome in outcomes if outcome.reason and not outcome.lacking]:
        raise HarnessError(f"experiment {name}: {len(failed)} of {len(outcomes)} cells failed; see 'not run' above")


def _function(named: str) -> Callable[[Results], Sequence[Section]]:
    """Returns the function of a dotted name; what it raises becomes a HarnessError of one line."""
    where = f"experiment: key 'sections': {named}"
    module, _, name = named.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise HarnessError(f"{where} cannot be loaded: {error}") from None
    if not callable(found):
        raise HarnessError(f"{where} is not a function of results")

    def sections(results: Results) -> Sequence[Section]:
        made = guarded(where, lambda: found(results))
        if not isinstance(made, list | tuple) or not all(isinstance(one, Section) for one in made):
            raise HarnessError(f"{where} gave something else than sections of a report")
        return made

    return sections


def _missing_at_full(found: Experiment, planned: Sequence[_Planned]) -> list[str]:
    """Returns a line with the remedy, then the resources that an experiment with reduced scales lacks at full scale."""
    others = [scale for scale in found.scale if scale != plan.FULL]
    if not others:
        return []
    lacking = [(each.cell, why) for each in planned if (why := _missing_resource(each.settings))]
    told = _grouped_by_reason([(cell, why) for cell, why in lacking if not why.startswith(_NOWHERE)])
    if "gpu" in found.scale_of(plan.FULL).needs and not hardware.gpu():
        told.insert(0, "needs a GPU that torch finds")
    if not told:
        return []
    ways = "; or ".join(f"scale={scale} for a reduced version: {found.scale[scale].says}" for scale in others)
    remedy = f"use scale=full to run the available cells, or {ways}"
    return [f"some resources for the full experiment are missing; {remedy}", *told]


def _all_cells(found: Experiment, given: Sequence[str], scale: str) -> tuple[Cell, ...]:
    """Returns all cells with the overrides of the command line; raises HarnessError if one sets a key that varies."""
    lists = [*found.axes.values(), {name: condition.overrides for name, condition in found.conditions.items()}]
    lists += [{"": found.scale_of(scale).changes}]
    varied = {key_of(word) for of in lists for overrides in of.values() for word in overrides}
    varied |= {tuned for condition in found.conditions.values() for tuned in condition.tune or ()}
    varied |= {found.seeds.key} if found.seeds is not None else set()
    for word in given:
        if word.startswith("~") or key_of(word).partition(".")[0] not in SETS:
            raise HarnessError(f"run: {word}: an experiment sets no such key")
        if key_of(word) in varied:
            raise HarnessError(f"run: {word}: the experiment varies this key; to run a part of it, say only=...")
    return found.cells(given, scale)


def _suffixes(cells: Sequence[Cell], scale: str) -> dict[Cell, str]:
    """Returns the suffix of each cell's run: the keys that vary, and the scale."""
    of = {cell: {key_of(word): word.partition("=")[2] for word in cell.overrides} for cell in cells}
    keys = dict.fromkeys(name for pairs in of.values() for name in pairs)
    varied = [name for name in keys if len({pairs.get(name) for pairs in of.values()}) > 1 and name != "system.name"]
    found = {}
    at_scale = "" if scale == plan.FULL else f"-{scale}"
    for cell, pairs in of.items():
        # A run is made of all topics of a collection: editions and protocols differ in its scores only.
        ranked = "rerank" in pairs
        names = [name for name in varied if name in pairs and (ranked or name not in ("edition", "protocol"))]
        found[cell] = run_suffix({name: pairs[name] for name in names}, ()) + at_scale
    return found


def _composed(cells: Sequence[Cell], suffixes: Mapping[Cell, str], settings: RunSettings) -> list[_Planned]:
    """Composes the settings of the cells; raises HarnessError with the faults of all."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    composed, read = composer("run", GROUPS["run"]), set[tuple[str, str]]()
    planned: list[_Planned] = []
    faults: list[tuple[Cell, str]] = []
    whole = {name: getattr(settings, name) for name in _OF_ALL if name not in ("experiment", "only", "scale", "dry")}
    for cell in track(cells, "composing cells"):
        lines: list[str] = []
        with gather(lines):
            words, _ = checked_overrides("run", cell.overrides, read)
            try:
                system = next((word.removeprefix("system=") for word in words[::-1] if word.startswith("system=")), "")
                made = checked(RunSettings, composed(words), "run", system)
            except (HydraException, OmegaConfBaseException) as error:
                raise HarnessError(f"run: {gist(error)}") from None
            check(made, sweeping=False)
            made = with_corpus(made)
            _check_buildable(made)
            planned.append(_Planned(cell, replace(made, **whole), suffixes[cell]))
        faults += [(cell, line) for line in lines]
    if faults:
        raise HarnessError(*_grouped_by_reason(faults))
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
    if _missing_requirement(settings):
        return
    try:
        check_untrained(build_system(settings.system or {}, "run: system"), collection.name, edition.name)
    except SystemRaisedError:
        return
    except HarnessError:
        if not _fetchable_missing(settings):
            raise


def _check_files(planned: Iterable[_Planned]) -> None:
    """Raises HarnessError if two cells would write different runs to one file."""
    first: dict[tuple[str, str], tuple[Cell, str]] = {}
    for each in planned:
        settings, spec = each.settings, _run_content(each.settings)
        named = (settings.system or {}).get("name")
        if not named:  # one that names its runs itself, or only registers a system
            continue
        name = f"{named}{each.suffix}"
        before, same = first.setdefault((name_of(settings.collection), name), (each.cell, spec))
        if same != spec:
            both, right = f"{_in_words(before)} and {_in_words(each.cell)}", "give one of them a system.name of its own"
            raise HarnessError(f"experiment: {both} are different runs of one name, {name!r}; {right}")


def _run_content(settings: RunSettings) -> str:
    """Returns all keys that decide the content of a run."""
    spec = {name: value for name, value in vars(settings).items() if name not in _NO_RUN}
    spec["system"] = decisive(settings.system or {})
    if settings.rerank:  # what is judged is what is ranked
        spec |= {"edition": settings.edition, "protocol": settings.protocol}
    return repr(spec)


def _outcomes(planned: Sequence[_Planned], measures: Sequence[str]) -> tuple[Outcome, ...]:
    """Runs the cells, grouped so that each collection and corpus is read once; returns outcomes in the cells' order."""
    places = {name: at for at, name in enumerate(dict.fromkeys(map(_scored_by, planned)))}
    order = sorted(range(len(planned)), key=lambda at: [places[_scored_by(planned[at])], at])
    tasks: dict[str, Task] = {}
    written: dict[Path, str] = {}
    made: set[tuple[str, str]] = set()
    found: dict[int, Outcome] = {}
    for at in track(order, "cells"):
        each = planned[at]
        say(f"cell {len(found) + 1} of {len(order)}: {_in_words(each.cell)}")
        run = (_run_content(each.settings), each.suffix)
        if run in made:  # with reuse=false, too, one run serves several editions
            each = replace(each, settings=replace(each.settings, reuse=True))
        found[at] = _outcome(each, measures, tasks, written)
        made.add(run)
    return tuple(found[at] for at in range(len(planned)))


def _scored_by(each: _Planned) -> tuple[str, ...]:
    """Returns corpus, collection, protocol and edition of a cell."""
    settings = each.settings
    groups = (settings.corpus, settings.collection, settings.protocol)
    return (*(name_of(group) for group in groups), settings.edition or "")


def _outcome(each: _Planned, measures: Sequence[str], tasks: dict[str, Task], written: dict[Path, str]) -> Outcome:
    """Runs and scores one cell; `written`: run file -> key of the run, of the cells so far."""
    settings = each.settings
    configuration = settings.system or {}
    try:
        if lacking := _missing_requirement(settings):
            return Outcome(each.cell, configuration, reason=lacking, lacking=True)
        found = task_of(settings, name_of(settings.collection), settings.edition, tasks, measures)
        system = build_system(configuration, "run: system")
        produced = produced_by(settings, system, found, each.suffix)
        if written.setdefault(produced.path, produced.key) != produced.key:
            raise HarnessError(f"{produced.path}: is the run of another cell, too; give each system a name of its own")
        scores = found.scorer(produced.run)
        warned = cautions(Evaluation(found, (produced.run,), (scores,), {}))
        notes = said_of(settings, system, produced)
    except HarnessError as error:
        if isinstance(error, SystemRaisedError):
            tell(error.trace)
        return Outcome(each.cell, configuration, reason=error.lines[0], lacking=_fetchable_missing(settings))
    return Outcome(
        each.cell,
        configuration,
        run=produced.path,
        sha256=produced.run.sha256,
        task=found,
        scores=scores,
        notes=notes,
        cautions=warned,
        costs=costs.of_run(produced.path),
    )


def _forecast(planned: Sequence[_Planned], measures: Sequence[str]) -> list[Forecast]:
    """Returns a forecast for each cell; runs and fetches nothing."""
    tasks: dict[str, Task] = {}
    found = []
    for each in track(planned, "cells"):
        settings, cell = each.settings, each.cell
        if lacking := _missing_resource(settings):
            found.append(Forecast(cell, reason=lacking))
            continue
        try:
            task = task_of(settings, name_of(settings.collection), settings.edition, tasks, measures)
            path = made_before(
                build_system(settings.system or {}, "run: system"),
                task,
                runs=Path(settings.runs),
                training=settings.training or (),
                rerank=settings.rerank,
                allow_test_judgments=settings.allow_test_judgments,
                suffix=each.suffix,
            )
        except HarnessError as error:
            found.append(Forecast(cell, reason=error.lines[0]))
            continue
        found.append(Forecast(cell, None if path is None or not settings.reuse else _seconds(path)))
    return found


def _seconds(run: Path) -> float:
    """Returns the seconds that a finished run took, from its metadata file."""
    return float(sidecar.costs(sidecar.beside(run))["seconds"]["in all"])


def _missing_resource(settings: RunSettings) -> str:
    """Returns the resource that a cell lacks, without fetching it; empty if none."""
    if found := _missing_requirement(settings):
        return found
    parts = list(states.parts(settings.system or {}))
    if absent := states.missing_models(parts):
        return states.model_lines(absent[0], states.by_hand(parts))[0]
    collection, corpus = name_of(settings.collection), settings.corpus and name_of(settings.corpus)
    known = [("collection", collection, load_collection(collection).state())]
    known += [("corpus", corpus, load_corpus(corpus).state())] if corpus else []
    return next((f"needs the {what} {name} ({state})" for what, name, state in known if state != "here"), "")


def _missing_requirement(settings: RunSettings) -> str:
    """Returns what a system needs and a run does not fetch, with the command that installs it; empty if nothing."""
    parts = list(states.parts(settings.system or {}))
    if (found := states.registered(parts)) is not None:
        return " ".join(found) if found[0] == "needs" else ": ".join(found)
    topics = load_collection(name_of(settings.collection)).topic_file
    return states.missing_modules(parts) or states.by_language(parts).get(topics.language if topics else "", "")


def _fetchable_missing(settings: RunSettings) -> bool:
    """Returns whether a model, the collection or the corpus is missing, which a run would have fetched if it could."""
    collection, corpus = name_of(settings.collection), settings.corpus and name_of(settings.corpus)
    found = [load_collection(collection).state(), *([load_corpus(corpus).state()] if corpus else [])]
    return set(found) != {"here"} or bool(states.missing_models(states.parts(settings.system or {})))


def _in_words(cell: Cell) -> str:
    """Returns a cell in words: its labels and seed."""
    seed = () if cell.seed is None else (f"seed {cell.seed}",)
    return plan.said_of((*cell.labels, *seed))


def _grouped_by_reason(faults: Sequence[tuple[Cell, str]]) -> list[str]:
    """Returns each reason once, with its first cell and the number of others."""
    cells: dict[str, list[Cell]] = {}
    for cell, why in faults:
        cells.setdefault(why, []).append(cell)
    return [
        f"{_in_words(of[0])}{f' and {len(of) - 1} more cells' if of[1:] else ''}: {why}" for why, of in cells.items()
    ]
