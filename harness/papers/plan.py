"""The plan of `harness reproduce paper=NAME make=true`: what is needed, which steps remain, and what they take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from harness.errors import counted_text
from harness.io import rehearsal
from harness.papers.estimate import EstimatedCalls, calls_of
from harness.papers.groups import TableGroup
from harness.papers.map import row_labels
from harness.papers.needs import UNKNOWN, Needed, needed_by
from harness.papers.paper import Paper
from harness.papers.rates import NOTHING, Range, data
from harness.papers.steps import EVERYTHING, NothingToMakeError, PlannedRun, PrintedRow, RunStep, Selection, paper_steps
from harness.papers.work import WorkStep as Work
from harness.papers.work import work_steps as work_of

State = Literal["made", "to make", "left out"]


@dataclass(frozen=True)
class PlannedStep:
    """A step of a plan.

    Attributes
    ----------
    lacks : names of what it needs and is not here, of an experiment what each of its runs lacks.
    why : why it is left out.
    work, calls : what it takes that no earlier step of the plan takes as well; of an experiment, for the runs that can
        be made.
    rest : the work of the others.
    """

    step: RunStep
    state: State
    lacks: tuple[str, ...] = ()
    why: str = ""
    work: tuple[Work, ...] = ()
    calls: tuple[EstimatedCalls, ...] = ()
    rest: tuple[Work, ...] = ()

    @property
    def hours(self) -> Range:
        """Hours of one core, of the work whose time is known."""
        return sum((work.hours for work in self.work if work.hours is not None), NOTHING)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Titles of the work whose time is not known."""
        return tuple(work.title for work in self.work if work.hours is None)


@dataclass(frozen=True)
class PaperPlan:
    """What it takes to make the runs of a paper, or of a part of it.

    Attributes
    ----------
    needs : all that its steps need, each once.
    steps : in the order in which they are carried out.
    rowless : row -> why no command makes it.
    """

    paper: Paper
    needs: tuple[Needed, ...]
    steps: tuple[PlannedStep, ...]
    rowless: Mapping[PrintedRow, str]

    def in_state(self, state: State) -> tuple[PlannedStep, ...]:
        """Returns the steps in a state."""
        return tuple(each for each in self.steps if each.state == state)

    @property
    def fetchable(self) -> tuple[Needed, ...]:
        """What `harness fetch` gets for the steps that remain."""
        wanted = {name for each in self.in_state("to make") for name in each.lacks}
        return tuple(need for need in self.needs if need.state == "fetch" and need.name in wanted)


@dataclass(frozen=True)
class Total:
    """What steps take together: hours of one core, MB, dollars (None if the price of a call is not known), calls."""

    hours: Range
    unknown: int
    disk: Range
    price: Range | None
    calls: int


def total(steps: Sequence[PlannedStep], needs: Sequence[Needed] = (), *, rest: bool = False) -> Total:
    """Returns what steps take, as far as it is known, with the files to get for them.

    Parameters
    ----------
    rest : whether the runs of experiments that cannot be made count.
    """
    works = [work for each in steps for work in (*each.work, *(each.rest if rest else ()))]
    calls = [call for each in steps for call in each.calls]
    prices = [call.price for call in calls]
    sizes = [need.megabytes for need in needs] + [work.disk for work in works]
    return Total(
        sum((work.hours for work in works if work.hours is not None), NOTHING),
        sum(work.hours is None for work in works),
        sum((size for size in sizes if size is not None), NOTHING),
        None if None in prices else sum((price for price in prices if price is not None), NOTHING),
        sum(call.calls for call in calls),
    )


def plan_paper(
    paper: Paper,
    part: Selection = EVERYTHING,
    scale: str = "",
    seeds: int | None = None,
    made: Callable[[RunStep], bool] = lambda _: False,
) -> PaperPlan:
    """Returns the plan of a paper; runs that its authors published count as made, except in a rehearsal.

    Parameters
    ----------
    part, scale, seeds : as for `steps`.
    made : says of a step whether its runs are there and verified.

    Raises
    ------
    NothingToMakeError
        As for `steps`, or nothing replaces the paper's resources at the scale.
    HarnessError
        As for `steps`.
    """
    found, left = paper_steps(paper, part, scale, seeds)
    if scale and not found:
        raise NothingToMakeError(f"paper {paper.key}: nothing replaces its resources at the scale {scale}")
    known: dict[str, Needed] = {}
    planned: list[PlannedStep] = []
    states: dict[str, PlannedStep] = {}  # file of a run -> its step
    seen: set[str] = set()
    for step in found:
        there = (not scale and archived(paper, step)) or made(step)
        each, later = (PlannedStep(step, "made"), ()) if there else _judged(step, known, states)
        if each.state != "made":
            able = tuple(run for run in step.runs if run not in later) or step.runs
            work, calls = tuple(_new_work(step, able, seen)), tuple(_new_calls(step, able, seen))
            each = replace(each, work=work, calls=calls, rest=tuple(_new_work(step, later, seen)))
        planned.append(each)
        if step.file:
            states[step.file] = each
    return PaperPlan(paper, tuple(known.values()), tuple(planned), left)


def archived(paper: Paper, step: RunStep) -> bool:
    """Returns whether the paper's archive has the runs of all numbers of a step's rows; never inside a rehearsal.

    The rows of an experiment stand for its tables.
    """
    if not paper.runs or rehearsal.folder() is not None:
        return False
    labels = row_labels(paper)
    wanted = {(table, "" if step.experiment else row.label) for row in step.rows for table in row.table.split(", ")}
    kept = {(run.group, run.system) for run in paper.runs}
    cells = {
        (cell.group, cell.system)
        for cell in paper.cells
        for label in ("", labels[cell.table, cell.group, cell.system])
        if (cell.table, label) in wanted
    }
    return bool(cells) and cells <= kept


def _judged(
    step: RunStep, known: dict[str, Needed], states: Mapping[str, PlannedStep]
) -> tuple[PlannedStep, tuple[PlannedRun, ...]]:
    """Returns a step with its state, and its runs that cannot be made; adds what it needs to `known`.

    An experiment is carried out if one of its runs can be made.
    """
    lacking: list[list[Needed]] = []
    for run in step.runs:
        own = list(needed_by(list(run.parts), [run.corpus], [run.collection]))
        known.update({need.name: need for need in own if need.name not in known or need.state != "here"})
        lacking.append([need for need in own if need.state != "here"])
    lacks = tuple(dict.fromkeys(need.name for needs in lacking for need in needs))
    by_hand = [[need for need in needs if need.state == "by hand"] for needs in lacking]
    if all(by_hand):
        return PlannedStep(step, "left out", lacks, f"needs {', '.join(need.name for need in by_hand[0])}"), ()
    out = [states[file].step.title for file in step.reads() if file in states and states[file].state == "left out"]
    if out:
        return PlannedStep(step, "left out", lacks, f"needs the run{'s' * (len(out) > 1)} {', '.join(out)}"), ()
    return PlannedStep(step, "to make", lacks), tuple(r for r, n in zip(step.runs, by_hand, strict=True) if n)


def _new_work(step: RunStep, runs: tuple[PlannedRun, ...], seen: set[str]) -> Iterator[Work]:
    if step.reads():  # a fusion
        return
    unknown = [_uncounted(run.corpus) for run in runs if run.corpus not in data().corpora]
    for work in (*work_of(TableGroup((), "", runs)), *unknown):
        if work.key not in seen:
            seen.add(work.key)
            yield work


def _uncounted(corpus: str) -> Work:
    return Work(f"corpus {corpus}", f"the work on corpus {corpus}", NOTHING, "documents", None, UNKNOWN)


def _new_calls(step: RunStep, runs: tuple[PlannedRun, ...], seen: set[str]) -> Iterator[EstimatedCalls]:
    for call in () if step.reads() else calls_of(TableGroup((), "", runs)):
        key = f"{call.endpoint} {call.what}"
        if key not in seen:
            seen.add(key)
            yield call


# ---- how it is printed ------------------------------------------------------------------------------------------


def plan_lines(plan: PaperPlan, amount: Callable[[Range | None], str]) -> Iterator[str]:
    """Yields the plan as lines of text; `amount` formats ranges."""
    states: tuple[State, ...] = ("made", "to make", "left out")
    counts = ", ".join(f"{len(plan.in_state(state))} {state}" for state in states)
    yield f"{plan.paper.key}: {counted_text(len(plan.steps), 'step')}, {counts}"
    titles = {"here": "here", "fetch": "fetched first", "by hand": "by hand"}
    for state, title in titles.items():
        for need in (need for need in plan.needs if need.state == state):
            size = "" if need.megabytes is None or not need.megabytes.high else f", {amount(need.megabytes)} MB"
            where = "" if state == "here" else f": {need.where}"
            yield f"{title:14} {need.name} ({need.licence}{size}){where}"
    for number, each in enumerate(plan.steps, 1):
        said = each.why if each.state == "left out" else _work_text(each, amount) if each.state == "to make" else ""
        yield f"{number:4} {each.state:9} {each.step.title}{f': {said}' if said else ''}"
    for row, why in plan.rowless.items():
        yield f"     no command  {row}: {why}"
    yield f"to make: {_total(total(plan.in_state('to make'), plan.fetchable), amount)}"
    if plan.in_state("left out"):
        absent = [need for need in plan.needs if need.state != "here"]
        steps = [*plan.in_state("to make"), *plan.in_state("left out")]
        yield f"with what is left out: {_total(total(steps, absent, rest=True), amount)}"


def _work_text(each: PlannedStep, amount: Callable[[Range | None], str]) -> str:
    words = [f"{amount(each.hours)} hours of one core"] if each.hours.high else []
    words += [f"time not known of {', '.join(each.unknown)}"] if each.unknown else []
    words += [f"{call.calls:,} calls of {call.endpoint}, {amount(call.price)} dollars" for call in each.calls]
    return "; ".join(words)


def _total(found: Total, amount: Callable[[Range | None], str]) -> str:
    words = [f"{amount(found.hours)} hours of one core"]
    words += (
        [f"without {counted_text(found.unknown, 'piece')} of work whose time is not known"] if found.unknown else []
    )
    words += ["hours of a GPU not known", f"{amount(found.disk)} MB of disk"]
    price = "dollars not known" if found.price is None else f"{amount(found.price)} dollars"
    return ", ".join([*words, *([f"{found.calls:,} calls, {price}"] if found.calls else [])])


def plan_json(plan: PaperPlan) -> dict[str, Any]:
    """Returns the plan as JSON values; what is not known is null."""
    return {
        "paper": plan.paper.key,
        "needs": [asdict(need) for need in plan.needs],
        "steps": [
            {
                "title": each.step.title,
                "command": each.step.command,
                "state": each.state,
                "rows": [{"table": row.table, "row": row.label} for row in each.step.rows],
                "lacks": list(each.lacks),
                "why": each.why,
                "hours of one core": asdict(each.hours),
                "time not known": list(each.unknown),
                "calls": [asdict(call) for call in each.calls],
            }
            for each in plan.steps
        ],
        "without a command": {str(row): why for row, why in plan.rowless.items()},
        "to make": _total_json(total(plan.in_state("to make"), plan.fetchable)),
        "left out": _total_json(total(plan.in_state("left out"), rest=True)),
    }


def _total_json(found: Total) -> dict[str, Any]:
    return {
        "hours of one core": asdict(found.hours),
        "pieces of work whose time is not known": found.unknown,
        "hours of one GPU": None,
        "disk, MB": asdict(found.disk),
        "dollars": None if found.price is None else asdict(found.price),
        "calls": found.calls,
    }
