"""The command `reproduce`: a paper's tables, the runs that they lack (`make=true`), or the embedded example."""

from __future__ import annotations

import json
import math
import signal
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.settings import ReproduceSettings, checked
from harness.cli.written_files import marks_text
from harness.errors import HarnessError, counted_text, gather, refuse
from harness.io import config, rehearsal
from harness.io.console import in_time, log_line, out_table, out_wrapped, print_line, track
from harness.io.files import check_writable
from harness.io.locks import alone
from harness.papers import plan as paper_plans
from harness.papers import user_runs
from harness.papers.experiment_runs import CellRun
from harness.papers.paper import Paper, load_paper, paper_names
from harness.papers.plan import PaperPlan, PlannedStep, plan_paper
from harness.papers.reproduce import PaperReproduction, recompute_paper
from harness.papers.step_runner import (
    Making,
    StepCost,
    StepOutcome,
    carry_out,
    finished,
    results_of,
    spent_dollars,
    step_costs,
)
from harness.papers.steps import HERE, NothingToMakeError, RunStep, Selection, paper_steps
from harness.render.write import Report, first_page
from harness.reports.changed_reports import write_changed
from harness.store.provenance import provenance

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from harness.experiments.evaluate import Evaluation
    from harness.scoring.comparison import Comparison


def reproduce(cfg: DictConfig | dict[str, Any]) -> None:
    """A paper's tables recomputed and reported; `paper=all` for every paper, no paper for the embedded example."""
    settings = checked(ReproduceSettings, cfg, "reproduce")
    paper_key = settings.paper.get("key")
    output = Path(settings.output)
    named = None if not settings.rerun or paper_key in ("all", "demo") else load_paper(str(paper_key))
    if settings.rerun and paper_key != "all" and (named is None or named.config.rerun is None):
        raise HarnessError(f"key 'rerun': the configuration of paper {paper_key!r} has no run to make again")
    if settings.brought is not None and paper_key in ("all", "demo"):
        raise HarnessError("key 'brought': runs are brought for one paper; name it with paper=NAME")
    _check_make(settings, str(paper_key))
    folder = None if settings.brought is None else Path(settings.brought).expanduser()
    if paper_key == "demo":
        _demonstrate(settings, output)
        return
    faults: list[str] = []
    plans: list[PaperPlan] = []
    several = paper_key == "all"
    for key in paper_names() if several else [str(paper_key)]:
        with gather(faults):  # a paper whose files are not here does not keep the others from being recomputed
            with _something_to_make(several=several):
                if settings.dry:
                    plans.append(plan_runs(load_paper(key), settings))
                elif settings.make:
                    faults += make_runs(load_paper(key), settings)
            if not settings.dry:
                page = _paper(key, settings, folder)
                if not several:
                    print_line(f"report: {page}")
    if plans or (settings.dry and several):
        print_plans(plans, several=several, as_json=settings.json)
    if several and not settings.dry:
        print_line(f"reports: {output}")
    refuse(faults)


@contextmanager
def _something_to_make(*, several: bool) -> Iterator[None]:
    """Of several papers, says which one has nothing to make, where that would be an error of a single one."""
    try:
        yield
    except NothingToMakeError as error:
        if not several:
            raise
        log_line(str(error))


def _check_make(settings: ReproduceSettings, paper_key: str) -> None:
    """Raises HarnessError for a key that has no meaning without another one."""
    for key in ("dry", "tables", "rows", "collections", "scale", "seeds", "budget"):
        if getattr(settings, key) not in (None, False) and not settings.make:
            said = "--dry-run (dry=true) prints the plan of" if key == "dry" else f"key {key!r} is for"
            raise HarnessError(f"reproduce: {said} make=true{', so add that' * (key == 'dry')}")
    if settings.json and not settings.dry:
        raise HarnessError("reproduce: key 'json' is for the plan: make=true --dry-run --json")
    if settings.make and paper_key == "demo":
        raise HarnessError("reproduce: key 'make': the embedded example makes its runs by itself; add paper=NAME")


def _paper(key: str, settings: ReproduceSettings, folder: Path | None) -> Path:
    """Recomputes a paper's tables and prints a line on them; returns the first page of the report."""
    from harness.papers.report.paper import paper_report
    from harness.sources.fetch import resource_state

    output, this_paper = Path(settings.output), load_paper(key)
    # What is kept as a reference must not depend on what is in somebody's folder.
    runs = None if settings.reference else Path(settings.runs)
    made = {} if runs is None else experiment_runs(this_paper, settings, "")
    brought = user_runs.bring(this_paper, folder, runs, log_line, made, settings.seeds)
    try:
        reproduction = recompute_paper(this_paper, log_line, track, rerun=settings.rerun, brought=brought)
    except HarnessError as error:
        # Collections and topics may name one file several times.
        if absent := len({file.cached for file in this_paper.files() if resource_state(file) == "fetchable"}):
            which = counted_text(absent, "file of the paper is", "files of the paper are")
            raise HarnessError(*error.lines, f"paper {key}: {which} not here; to fetch: harness fetch {key}") from error
        raise
    files = reproduction.files
    made_by = provenance(files).reference() if settings.reference else provenance(files)
    report = paper_report(
        reproduction,
        made_by,
        settings.alpha,
        settings.seed,
        titles=not settings.reference,
        small=None if settings.reference else _small(this_paper, settings),
        took=() if settings.reference else _took(this_paper, settings),
    )
    written = _write(report, output / key, settings)
    print_line(reproduction.line)
    return first_page(written)


def _write(report: Report, folder: Path, settings: ReproduceSettings) -> dict[str, Path]:
    """Writes a report unless the folder holds the same one; a reference has no record of that beside it."""
    if settings.reference:
        return report.write(folder, settings.formats, log_line)
    return write_changed(report, folder, settings.formats, log_line)


def _took(paper: Paper, settings: ReproduceSettings) -> list[StepCost]:
    """Returns what the steps took that made the paper's runs, at any scale and by any call, with their estimates."""
    costs: list[StepCost] = []
    for scale in ("", HERE):
        making = making_of(paper, settings, scale)
        with suppress(NothingToMakeError):
            if making.folder.is_dir():
                steps = plan_paper(paper, Selection(), scale, settings.seeds).steps
                hours = {each.step.name: None if each.unknown else each.hours for each in steps}
                made = experiment_runs(paper, settings, scale)
                costs += step_costs(making, [each.step for each in steps], hours, made)
    return costs


def _small(paper: Paper, settings: ReproduceSettings) -> PaperReproduction | None:
    """Returns what the finished runs of the scale `here` give; None if there are none."""
    runs = Path(runs_folder(settings, HERE))
    small = paper.at_small_scale()
    if small is None or not runs.is_dir():
        return None
    brought = user_runs.bring(small, None, runs, log_line, experiment_runs(paper, settings, HERE), settings.seeds, HERE)
    if not brought.runs:
        return None
    reproduction = recompute_paper(small, log_line, track, brought=brought, restricted=True)
    if settings.scale == HERE:
        valued, numbers = sum(each.value is not None for each in reproduction.verdicts), len(reproduction.verdicts)
        print_line(f"{paper.key}: {valued} of {counted_text(numbers, 'printed number')} have a value at small scale")
    return reproduction


def _demonstrate(settings: ReproduceSettings, output: Path) -> None:
    """Makes and evaluates the runs of the systems of `conf/paper/demo.yaml` on each embedded collection.

    Runs are never reused, since their times are reported; the time of a fusion includes its inputs.
    """
    from harness.collections.load import load_collection
    from harness.experiments.evaluate import compare, evaluate, inputs
    from harness.experiments.produce import Produced, make
    from harness.experiments.task import task
    from harness.reports.comparison import comparison_headline, report
    from harness.systems.build import build_system

    mapping, where = config.load("paper", "demo")
    for name, entry in mapping["collections"].items():
        collection = load_collection(name)
        searched = task(collection, collection.corpus)
        made: dict[str, Produced] = {}
        seconds: dict[str, float] = {}  # of the CPU
        commands: dict[str, str] = {}
        for system, own in entry["systems"].items():
            read = own.get("runs") or []
            changes = {**own, **({"runs": [str(made[run].path) for run in read]} if read else {})}
            begin = time.process_time()
            built = build_system(config.load("system", system)[0] | changes, f"{where}: {name}: {system}")
            made[system] = make(built, searched, runs=Path(settings.runs), reuse=False, say=log_line)
            seconds[system] = time.process_time() - begin + sum(seconds[run] for run in read)
            commands[made[system].run.name] = _demo_command(name, system, own)
        evaluation = evaluate(task(collection), *(produced.run for produced in made.values()))
        made_by = inputs(evaluation).reference() if settings.reference else inputs(evaluation)
        if not settings.reference:
            a_topic = {each.run.name: seconds[system] / len(each.run.topics) for system, each in made.items()}
            evaluation = replace(evaluation, seconds=a_topic)
        comparison = compare(evaluation, str(entry["baseline"]), alpha=settings.alpha, seed=settings.seed)
        print_line(comparison_headline(evaluation))
        _out_means(evaluation, comparison)
        page = report(evaluation, comparison, provenance=made_by, commands=commands)
        written = _write(page, output / name, settings)
        print_line(f"report: {first_page(written)}\n")


def _demo_command(collection: str, system: str, changes: Mapping[str, object]) -> str:
    """Returns the command that makes a run alone, from runs in the folder where such commands write theirs.

    It is that of the demonstration if overrides cannot express the changes.
    """
    from harness.systems.states import run_command

    if any(isinstance(value, Mapping) for value in changes.values()):  # a mapping's keys cannot be replaced by others
        return "harness reproduce"
    shown = {
        key: f"[{','.join(f'runs/{collection}/{run}.run' for run in value)}]" if isinstance(value, list) else value
        for key, value in changes.items()
    }
    words = [f"system.{key}={value}" for key, value in shown.items()]
    return run_command([f"collection={collection}", f"system={system}", *words])


def _out_means(evaluation: Evaluation, comparison: Comparison) -> None:
    """Prints the means of every run, the best first, with the marks of its tests against the baseline."""
    from harness.render.model import MARKS
    from harness.reports.means import paper_means_table
    from harness.reports.pair_tests import TEST_MARKS
    from harness.scoring.measures import without_diagnostics

    columns = ["run", *without_diagnostics(evaluation.scores[0].measures)]
    table = paper_means_table(evaluation, comparison, columns=columns)
    rows = [["run", *(f"{column.title} " for column in table.columns[1:])]]
    for name, *means in table.rows:
        # A blank where there is no mark, so that digits stand below each other.
        values = [f"{cell.text}{marks_text(cell) or ' '}" for cell in means]
        rows.append([f"{name.text} {marks_text(name)}".rstrip(), *values])
    out_table(rows)
    legend = "; ".join(f"{MARKS[name].symbol} {MARKS[name].meaning}" for name in TEST_MARKS)
    out_wrapped(f"{legend}. Tests: {comparison.correction}; marks after Bonferroni's.")


def runs_folder(settings: ReproduceSettings, scale: str) -> str:
    """Returns the folder of the runs of a scale."""
    return f"{settings.runs}/{scale}" if scale else settings.runs


def making_of(paper: Paper, settings: ReproduceSettings, scale: str) -> Making:
    """Returns where and how the steps of a paper are carried out."""
    words = () if settings.output == "reports" else (f"output={settings.output}",)
    folder = Path(settings.runs, "making", paper.key)
    return Making(folder, runs=runs_folder(settings, scale), words=words, budget=settings.budget)


def plan_runs(paper: Paper, settings: ReproduceSettings) -> PaperPlan:
    """Returns the plan of a paper, by what is here and what earlier calls spent."""
    making = making_of(paper, settings, settings.scale or "")
    part = Selection(settings.rows or "", settings.tables or (), settings.collections or ())
    rows = _brought_rows(paper, settings)
    given = _replaced_files(paper, rows)

    def made(step: RunStep) -> bool:
        return step.file in given or bool(given & set(step.reads())) or _is_made(making, step, settings)

    published = rehearsal.folder() is None  # a rehearsal makes them again
    plan = plan_paper(paper, part, settings.scale or "", settings.seeds, made, published, settings.budget)
    there = {row[:2] for row in rows}
    lacking = {row: why for row, why in plan.rowless.items() if (row.table, row.label) not in there}
    return replace(plan, rowless=lacking, spent=spent_dollars(making))


def print_plans(plans: Sequence[PaperPlan], *, several: bool, as_json: bool) -> None:
    """Prints plans as text or as one JSON document; those of several papers with their totals."""
    totals = paper_plans.sum_totals(plans)
    if as_json:
        documents = [paper_plans.plan_json(each) for each in plans]
        print_line(
            json.dumps({"papers": documents, **paper_plans.totals_json(totals)} if several else documents[0], indent=1)
        )
        return
    for each in plans:
        for line in paper_plans.plan_lines(each):
            print_line(line)
    if several:
        print_line(f"all papers: {counted_text(sum(len(each.steps) for each in plans), 'step')}")
        for line in paper_plans.total_lines(totals):
            print_line(line)


def make_runs(paper: Paper, settings: ReproduceSettings) -> list[str]:
    """Prints the plan of a paper and carries it out.

    Returns
    -------
    list of str
        A line for each file that was not fetched and each step that failed.
    """
    making, plan = making_of(paper, settings, settings.scale or ""), plan_runs(paper, settings)
    print_plans([plan], several=False, as_json=False)
    if not plan.in_state("to make"):
        return []
    check_writable(Path(settings.output))
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))  # commands must not outlive it
    with alone(making.folder, "another call that makes its runs"), _resumption():
        for folder in ("logs", "steps"):
            (making.folder / folder).mkdir(exist_ok=True)
        check_writable(making.folder / "steps")
        absent = _fetch(plan, making)
        able = list(_possible_steps(plan, absent))
        faults = [f"not fetched: {name}: {fault}" for name, fault in absent.items()]
        shown = _Progress(plan, able)
        shown.begin(able)
        for step, ended in carry_out(making, able):
            faults += [f"{step.title}: {_result_sentence(ended[0])}"] if not ended[0].passed else []
            shown.done(step, ended[0])
    return faults


@contextmanager
def _resumption() -> Iterator[None]:
    """Says after an interrupt how the work goes on."""
    try:
        yield
    except KeyboardInterrupt:
        log_line("interrupted: finished runs are kept, and the same command goes on with the others")
        raise


def _brought_rows(paper: Paper, settings: ReproduceSettings) -> set[tuple[str, str, str]]:
    """Returns (table, label, our collection) of the rows whose runs a person brings."""
    if settings.brought is None or settings.scale:
        return set()
    return user_runs.mapped_rows(paper, Path(settings.brought).expanduser(), log_line)


def _replaced_files(paper: Paper, rows: Collection[tuple[str, str, str]]) -> set[str]:
    """Returns the files in whose place runs are brought; what fuses these is fused when the tables are made."""
    return {
        step.file
        for step in (paper_steps(paper)[0] if rows else ())
        if step.file and not step.reads()
        for row in step.rows
        for table in row.table.split(", ")
        if (table, row.label, step.runs[0].collection) in rows
    }


def _result_sentence(result: StepOutcome) -> str:
    return f"{result.fault} ({result.log})" if result.log else result.fault


def _is_made(making: Making, step: RunStep, settings: ReproduceSettings) -> bool:
    from harness.cli.experiment import finished_runs

    if step.experiment:
        chosen = (step.condition,) if step.condition else ()
        there = finished_runs(step.experiment, settings.scale or "", making.runs, settings.seeds, chosen)
        return len(there) == len(step.runs)
    if finished(making, step) is not None:
        return True
    if rehearsal.folder() is not None:
        return False  # each of its steps is to leave a record
    path = making.work / making.runs / step.file
    return not step.reads() and path.is_file() and not user_runs.unproven(step.runs[0], path)


def _fetch(plan: PaperPlan, making: Making) -> dict[str, str]:
    """Fetches what the steps need; returns the names of what could not be had, and why."""
    absent = {}
    for need in plan.fetchable:
        (result,) = results_of(making, RunStep(f"fetch {need.source}", ("fetch", need.source), ()))
        if not result.passed:
            absent[need.name] = _result_sentence(result)
            log_line(f"not fetched: {need.name}: {result.fault}")
    return absent


def _possible_steps(plan: PaperPlan, absent: Collection[str]) -> Iterator[RunStep]:
    """Yields the steps that can be carried out without what could not be had."""
    lost: set[str] = set()
    why: dict[str, list[str]] = {}
    for each in plan.in_state("to make"):
        lacking = [name for name in each.lacks if name in absent]
        if (lacking and not each.step.experiment) or lost & set(each.step.reads()):
            why.setdefault(", ".join(lacking) or "runs that are left out", []).append(each.step.title)
            lost.add(each.step.file)
        else:
            yield each.step
    for lacking_, titles in why.items():
        more = f" and {counted_text(len(titles) - 1, 'more step')}" if titles[1:] else ""
        log_line(f"left out: {titles[0]}{more}: needs {lacking_}")


def experiment_runs(paper: Paper, settings: ReproduceSettings, scale: str) -> dict[str, list[CellRun]]:
    """Returns the finished runs of a paper's experiments at a scale; none if the folder holds no runs to look at."""
    runs = runs_folder(settings, scale)
    if paper.runs or not Path(runs).is_dir():
        return {}
    from harness.cli.experiment import finished_runs

    return {name: finished_runs(name, scale, runs, settings.seeds) for name in paper.config.experiments}


class _Progress:
    """A line for each step: its number, its title and about how long the others take."""

    def __init__(self, plan: PaperPlan, steps: Sequence[RunStep]) -> None:
        by_name = {each.step.name: each for each in plan.steps}
        self._guess = {step.name: _guessed(by_name[step.name]) for step in steps}
        self._left = [step.name for step in steps]
        self._count, self._at = len(steps), 0
        self._took = self._expected = 0.0

    def begin(self, steps: Sequence[RunStep]) -> None:
        if steps:
            log_line(f"{counted_text(len(steps), 'step')} to carry out")

    def done(self, step: RunStep, result: StepOutcome) -> None:
        self._at += 1
        self._left.remove(step.name)
        guess = self._guess[step.name]
        if guess and result.passed:
            self._took, self._expected = self._took + result.seconds, self._expected + guess
        ended = "made" if result.passed else "failed"
        log_line(f"step {self._at} of {self._count}, {step.title}: {ended} in {in_time(result.seconds)}{self._rest()}")

    def _rest(self) -> str:
        guesses = [self._guess[name] for name in self._left]
        if not guesses or not self._expected or None in guesses:
            return ""
        return f", {in_time(sum(filter(None, guesses)) * self._took / self._expected)} left"


def _guessed(each: PlannedStep) -> float | None:
    """Returns the geometric mean of the seconds that a step takes; None if not known."""
    if each.unknown or not each.work:
        return 60.0 if each.step.reads() else None
    return 3600 * math.sqrt(max(each.hours.low, 1e-4) * max(each.hours.high, 1e-4))
