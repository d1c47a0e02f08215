"""The plan of `harness reproduce paper=NAME make=true`: what is needed, which steps remain, and what they take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from harness.errors import counted_text
from harness.papers.estimate import EstimatedCalls, Needed, calls_of, needed_by, too_much_for_small_scale
from harness.papers.experiment_runs import has_number, rows_to_bring, substituted
from harness.papers.map import row_labels
from harness.papers.paper import Paper
from harness.papers.rates import NOTHING, UNKNOWN, Range, amount, data, prices, size_text
from harness.papers.steps import EVERYTHING, NothingToMakeError, PlannedRun, PrintedRow, RunStep, Selection, paper_steps
from harness.papers.work import NO_GPU, TableGroup, single_steps, together
from harness.papers.work import WorkStep as Work

BRING = "bring its run: brought=FOLDER"
State = Literal["made", "to make", "left out"]


@dataclass(frozen=True)
class PlannedStep:
    """A step of a plan.

    Attributes
    ----------
    lacks : names of what it needs and is not here, of an experiment what each of its runs lacks.
    why : why it is left out.
    work, calls : what it takes that no earlier step takes as well, nor, if it is left out, any step to make; of an
        experiment, for the runs that can be made.
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

    @property
    def disk(self) -> Range:
        """MB that the work leaves, as far as they are known."""
        return sum((work.disk for work in self.work if work.disk is not None), NOTHING)


@dataclass(frozen=True)
class Total:
    """What steps take together, as far as it is known.

    Attributes
    ----------
    hours : of one core.
    unknown, gpu : pieces of work whose time is not known, and those that a GPU may do, in unknown hours.
    disk : MB.
    price : dollars of calls; None if the price of a call is not known.
    """

    hours: Range = NOTHING
    unknown: int = 0
    gpu: int = 0
    disk: Range = NOTHING
    price: Range | None = NOTHING
    calls: int = 0

    @property
    def dollars(self) -> Range | None:
        """Dollars of the known hours of one core, and of the calls; None if the price of a call is not known."""
        return None if self.price is None else self.hours.times(prices().cpu.dollars) + self.price

    def __add__(self, other: Total) -> Total:
        price = None if self.price is None or other.price is None else self.price + other.price
        unknown, gpu, calls = self.unknown + other.unknown, self.gpu + other.gpu, self.calls + other.calls
        return Total(self.hours + other.hours, unknown, gpu, self.disk + other.disk, price, calls)


@dataclass(frozen=True)
class PaperPlan:
    """What it takes to make the runs of a paper, or of a part of it.

    Attributes
    ----------
    needs : all that its steps need, each once.
    steps : in the order in which they are carried out.
    rowless : row -> why no command makes it.
    budget, spent : dollars for calls, None for no limit, and those that earlier calls took of it.
    """

    paper: Paper
    needs: tuple[Needed, ...]
    steps: tuple[PlannedStep, ...]
    rowless: Mapping[PrintedRow, str]
    budget: float | None = None
    spent: float = 0.0

    def in_state(self, state: State) -> tuple[PlannedStep, ...]:
        """Returns the steps in a state."""
        return tuple(each for each in self.steps if each.state == state)

    @property
    def fetchable(self) -> tuple[Needed, ...]:
        """What `harness fetch` gets for the steps that remain."""
        wanted = {name for each in self.in_state("to make") for name in each.lacks}
        return tuple(need for need in self.needs if need.state == "fetch" and need.name in wanted)

    @property
    def totals(self) -> dict[str, Total]:
        """What steps take: those to make; those left out, with the runs of experiments that cannot be made; both."""
        made, out = self.in_state("to make"), self.in_state("left out")
        rest = [replace(each, work=each.rest, calls=()) for each in made]
        absent = [need for need in self.needs if need.state != "here" and need not in self.fetchable]
        sums = total(made, self.fetchable), total((*out, *rest), absent)
        return dict(zip(_TOTALS, (*sums, sums[0] + sums[1]), strict=True))


_TOTALS = ("to make", "left out", "with what is left out")


def total(steps: Sequence[PlannedStep], needs: Sequence[Needed] = ()) -> Total:
    """Returns what steps take, as far as it is known, with the files to get for them."""
    works = [work for each in steps for work in each.work]
    calls = [call for each in steps for call in each.calls]
    prices = [call.price for call in calls]
    sizes = [need.megabytes for need in needs] + [work.disk for work in works]
    return Total(
        sum((work.hours for work in works if work.hours is not None), NOTHING),
        sum(work.hours is None for work in works),
        sum(work.gpu != NO_GPU for work in works),
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
    published: bool = True,
    budget: float | None = None,
) -> PaperPlan:
    """Returns the plan of a paper.

    Parameters
    ----------
    part, scale, seeds : as for `steps`.
    made : says of a step whether its runs are there and verified.
    published : whether runs that the paper's authors published count as made.
    budget : dollars for calls; at the scale `here`, steps with paid calls are left out without it.

    Raises
    ------
    NothingToMakeError
        As for `steps`, or nothing replaces the paper's resources at the scale.
    HarnessError
        As for `steps`.
    """
    steps, left = paper_steps(paper, part, scale, seeds)
    if not scale:
        to_bring = rows_to_bring(paper, steps if not part else paper_steps(paper)[0])
        left |= {row: f"needs {why}; {BRING}" for row, why in to_bring.items() if part.fits(row)}
    if scale and not steps:
        raise NothingToMakeError(f"paper {paper.key}: nothing replaces its resources at the scale {scale}")
    known: dict[str, Needed] = {}
    judged: list[tuple[PlannedStep, tuple[PlannedRun, ...]]] = []
    states: dict[str, PlannedStep] = {}  # file of a run -> its step
    for step in steps:
        there = (published and not scale and archived(paper, step)) or made(step)
        judged.append((PlannedStep(step, "made"), ()) if there else _judged(paper, step, known, states, scale, budget))
        if step.file:
            states[step.file] = judged[-1][0]
    seen: set[str] = set()
    counted: dict[str, PlannedStep] = {}
    for state in ("to make", "left out"):  # work that both need is that of the steps to make
        for each, later in (one for one in judged if one[0].state == state):
            able = tuple(run for run in each.step.runs if run not in later)
            work, calls = _new_work(each.step, able, seen), tuple(_new_calls(each.step, able, seen))
            counted[each.step.name] = replace(each, work=work, calls=calls, rest=_new_work(each.step, later, seen))
    planned = [counted.get(each.step.name, each) for each, _ in judged]
    return PaperPlan(paper, tuple(known.values()), tuple(planned), left, budget)


def archived(paper: Paper, step: RunStep) -> bool:
    """Returns whether the paper's archive has the runs of all numbers of a step's rows.

    The rows of an experiment stand for its tables.
    """
    if not paper.runs:
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
    paper: Paper,
    step: RunStep,
    known: dict[str, Needed],
    states: Mapping[str, PlannedStep],
    scale: str,
    budget: float | None,
) -> tuple[PlannedStep, tuple[PlannedRun, ...]]:
    """Returns a step with its state, and its runs that cannot be made; adds what it needs to `known`.

    An experiment is carried out if one of its runs can be made that has a number in print.
    """
    lacks: dict[str, None] = {}
    stopped: list[list[str]] = []  # for each run, what keeps it from being made
    for run in step.runs:
        own = list(needed_by(list(run.parts), [run.corpus], [run.collection]))
        known.update({need.name: need for need in own if need.name not in known or need.state != "here"})
        lacks |= {need.name: None for need in own if need.state != "here"}
        by_hand = [need.name for need in own if need.state == "by hand"]
        stopped.append(by_hand or (list(too_much_for_small_scale(run.parts, budget)) if scale else []))
    able = [run for run, why in zip(step.runs, stopped, strict=True) if not why]
    out = [states[file].step.title for file in step.reads() if file in states and states[file].state == "left out"]
    if not able:
        why = f"needs {', '.join(stopped[0])}"
    elif out:
        why = f"needs the run{'s' * (len(out) > 1)} {', '.join(out)}"
    else:
        why = _unprinted(paper if not scale else paper.at_small_scale() or paper, step, able)
    if why:
        return PlannedStep(step, "left out", tuple(lacks), why), ()
    return PlannedStep(step, "to make", tuple(lacks)), tuple(run for run in step.runs if run not in able)


def _unprinted(paper: Paper, step: RunStep, able: Sequence[PlannedRun]) -> str:
    """Returns why the runs of an experiment that can be made give no printed number; empty if one does."""
    rows = (
        [(labels, run) for labels, run in zip(step.labels, step.runs, strict=True) if run in able]
        if step.experiment
        else []
    )
    if not rows or any(has_number(paper, step.experiment, labels, run) for labels, run in rows):
        return ""
    others = (
        f"the paper searched {what}, in place of {run.corpus}" for run in able if (what := substituted(paper, run))
    )
    return next(others, "none of its runs that can be made has a printed number")


def _new_work(step: RunStep, runs: tuple[PlannedRun, ...], seen: set[str]) -> tuple[Work, ...]:
    """Returns the work of a step that earlier steps, whose keys are in `seen`, do not do already; adds its keys."""
    if step.reads():  # a fusion
        return ()
    unknown = [
        Work(f"corpus {run.corpus}", f"the work on corpus {run.corpus}", NOTHING, "documents", None, UNKNOWN)
        for run in runs
        if run.corpus not in data().corpora
    ]
    new_work = {work.key: work for work in (*single_steps(TableGroup((), "", runs)), *unknown) if work.key not in seen}
    seen.update(new_work)
    return together(new_work.values())


def _new_calls(step: RunStep, runs: tuple[PlannedRun, ...], seen: set[str]) -> Iterator[EstimatedCalls]:
    """Yields the calls of a step that earlier steps, whose keys are in `seen`, do not make already."""
    for call in () if step.reads() else calls_of(TableGroup((), "", runs)):
        key = f"{call.endpoint} {call.what}"
        if key not in seen:
            seen.add(key)
            yield call


# ---- how it is printed ------------------------------------------------------------------------------------------


def plan_lines(plan: PaperPlan) -> Iterator[str]:
    """Yields the plan as lines of text."""
    states: tuple[State, ...] = ("made", "to make", "left out")
    counts = ", ".join(f"{len(plan.in_state(state))} {state}" for state in states)
    yield f"{plan.paper.key}: {counted_text(len(plan.steps), 'step')}, {counts}"
    fetched = plan.fetchable
    titles = {"here": "here", "fetch": "can be fetched", "by hand": "by hand"}
    for state, title in titles.items():
        for need in (need for need in plan.needs if need.state == state):
            size = "" if need.megabytes is None or not need.megabytes.high else f", {size_text(need.megabytes)}"
            where = "" if state == "here" else f": {need.where}"
            said = "fetched first" if need in fetched else title
            yield f"{said:14} {need.name} (licence: {need.licence}{size}){where}"
    for number, each in enumerate(plan.steps, 1):
        said = each.why if each.state == "left out" else _work_text(each) if each.state == "to make" else ""
        yield f"{number:4} {each.state:9} {each.step.title}{f': {said}' if said else ''}"
        if rows := _rows_text(each.step.rows):
            yield f"               for {rows}"
    for why in dict.fromkeys(plan.rowless.values()):
        yield f"     no command  {_rows_text([row for row, each in plan.rowless.items() if each == why])}: {why}"
    yield from total_lines(plan.totals)
    if plan.budget is not None:
        left = max(plan.budget - plan.spent, 0.0)
        yield f"budget {plan.budget:g} dollars, {plan.spent:.2f} spent by earlier calls, {left:.2f} left"


def total_lines(totals: Mapping[str, Total]) -> Iterator[str]:
    """Yields a line for each total; the last two only if something is left out, the sum only if it is another."""
    texts = {title: _total_text(each) for title, each in totals.items()}
    yield f"to make: {texts['to make']}"
    if totals["left out"] != Total():
        others = list(dict.fromkeys((texts["left out"], texts["with what is left out"])))
        yield from (f"{title}: {text}" for title, text in zip(_TOTALS[1:], others, strict=False))


def _rows_text(rows: Sequence[PrintedRow]) -> str:
    by_table: dict[str, list[str]] = {}
    for row in rows:
        by_table.setdefault(row.table, []).append(row.label)
    return "; ".join(f"{table}: {'; '.join(match)}" if table else "; ".join(match) for table, match in by_table.items())


def _work_text(each: PlannedStep) -> str:
    words = [f"{amount(each.hours)} hours of one core"] if each.hours.high else []
    words += [f"time not known of {', '.join(each.unknown)}"] if each.unknown else []
    words += [f"{size_text(each.disk)} of disk"] if each.disk.high else []
    words += [f"{call.calls:,} calls of {call.endpoint}, {amount(call.price)} dollars" for call in each.calls]
    return "; ".join(words)


def _total_text(sums: Total) -> str:
    words = [f"{amount(sums.hours)} hours of one core"]
    words += [f"without {counted_text(sums.unknown, 'piece')} of work whose time is not known"] if sums.unknown else []
    words += ["hours of a GPU not known"] if sums.gpu else []
    words += [f"{size_text(sums.disk) if sums.disk.high else '0 MB'} of disk"]
    price = "dollars not known" if sums.price is None else f"{amount(sums.price)} dollars"
    words += [f"{sums.calls:,} calls, {price}"] if sums.calls else []
    if sums.dollars is not None and sums.hours.high:
        words.append(f"{'in all ' * bool(sums.calls)}{amount(sums.dollars)} dollars")
    return ", ".join(words)


def plan_json(plan: PaperPlan) -> dict[str, Any]:
    """Returns the plan as JSON values; what is not known is null."""
    return {
        "paper": plan.paper.key,
        "needs": [{**asdict(need), "fetched first": need in plan.fetchable} for need in plan.needs],
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
                "disk, MB": asdict(each.disk),
                "calls": [asdict(call) for call in each.calls],
            }
            for each in plan.steps
        ],
        "without a command": {str(row): why for row, why in plan.rowless.items()},
        **totals_json(plan.totals),
        "budget, dollars": plan.budget,
        "spent by earlier calls, dollars": plan.spent,
    }


def sum_totals(plans: Sequence[PaperPlan]) -> dict[str, Total]:
    """Returns the totals over papers; what several papers need is counted in each."""
    return {title: sum((plan.totals[title] for plan in plans), Total()) for title in _TOTALS}


def totals_json(totals: Mapping[str, Total]) -> dict[str, Any]:
    """Returns totals as JSON values; what is not known is null."""
    return {
        title: {
            "hours of one core": asdict(each.hours),
            "pieces of work whose time is not known": each.unknown,
            "hours of one GPU": None if each.gpu else asdict(NOTHING),
            "disk, MB": asdict(each.disk),
            "dollars": None if each.dollars is None else asdict(each.dollars),
            "dollars of calls": None if each.price is None else asdict(each.price),
            "calls": each.calls,
        }
        for title, each in totals.items()
    }
