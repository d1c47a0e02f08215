"""`harness reproduce paper=NAME make=true`: the plan, and the runs that a paper's tables lack."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from harness.cli.settings import ReproduceSettings
from harness.errors import counted_text
from harness.io import rehearsal
from harness.io.console import in_time, log_line, print_line
from harness.io.files import check_writable
from harness.io.locks import alone
from harness.papers.experiment_runs import CellRun
from harness.papers.paper import Paper
from harness.papers.plan import (
    PaperPlan,
    PlannedStep,
    plan_json,
    plan_lines,
    plan_paper,
    sum_totals,
    total_lines,
    totals_json,
)
from harness.papers.step_runner import Making, StepOutcome, carry_out, finished, results_of, spent_dollars
from harness.papers.steps import RunStep, Selection, paper_steps


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
    totals = sum_totals(plans)
    if as_json:
        documents = [plan_json(each) for each in plans]
        print_line(json.dumps({"papers": documents, **totals_json(totals)} if several else documents[0], indent=1))
        return
    for each in plans:
        for line in plan_lines(each):
            print_line(line)
    if several:
        print_line(f"all papers: {counted_text(sum(len(each.steps) for each in plans), 'step')}")
        for line in total_lines(totals):
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
    from harness.papers.user_runs import mapped_rows

    if settings.brought is None or settings.scale:
        return set()
    return mapped_rows(paper, Path(settings.brought).expanduser(), log_line)


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
    from harness.papers.user_runs import unproven

    if step.experiment:
        chosen = (step.condition,) if step.condition else ()
        there = finished_runs(step.experiment, settings.scale or "", making.runs, settings.seeds, chosen)
        return len(there) == len(step.runs)
    if finished(making, step) is not None:
        return True
    if rehearsal.folder() is not None:
        return False  # each of its steps is to leave a record
    path = making.work / making.runs / step.file
    return not step.reads() and path.is_file() and not unproven(step.runs[0], path)


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
