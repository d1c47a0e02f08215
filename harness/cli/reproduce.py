"""The command `reproduce`: a paper's tables, or the embedded example."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.settings import ReproduceSettings, checked
from harness.errors import HarnessError, counted_text, gather, refuse
from harness.io.console import log_line, out_table, out_wrapped, print_line, track

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from harness.experiments.evaluate import Evaluation
    from harness.papers.paper import Paper
    from harness.papers.plan import PaperPlan
    from harness.papers.reproduce import PaperReproduction
    from harness.papers.step_costs import StepCost
    from harness.render.write import Report
    from harness.scoring.comparison import Comparison


def reproduce(cfg: DictConfig | dict[str, Any]) -> None:
    """A paper's tables recomputed and reported; `paper=all` for every paper, no paper for the embedded example."""
    from harness.cli import make_runs
    from harness.papers import paper

    settings = checked(ReproduceSettings, cfg, "reproduce")
    paper_key = settings.paper.get("key")
    output = Path(settings.output)
    named = None if not settings.rerun or paper_key in ("all", "demo") else paper.load_paper(str(paper_key))
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
    for key in paper.paper_names() if several else [str(paper_key)]:
        with gather(faults):  # a paper whose files are not here does not keep the others from being recomputed
            with _something_to_make(several=several):
                if settings.dry:
                    plans.append(make_runs.plan_runs(paper.load_paper(key), settings))
                elif settings.make:
                    faults += make_runs.make_runs(paper.load_paper(key), settings)
            if not settings.dry:
                page = _paper(key, settings, folder)
                if not several:
                    print_line(f"report: {page}")
    if plans or (settings.dry and several):
        make_runs.print_plans(plans, several=several, as_json=settings.json)
    if several and not settings.dry:
        print_line(f"reports: {output}")
    refuse(faults)


@contextmanager
def _something_to_make(*, several: bool) -> Iterator[None]:
    """Of several papers, says which one has nothing to make, where that would be an error of a single one."""
    from harness.papers.steps import NothingToMakeError

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
    from harness.cli.make_runs import experiment_runs
    from harness.papers.paper import load_paper
    from harness.papers.report.paper import paper_report
    from harness.papers.reproduce import recompute_paper as recompute
    from harness.papers.user_runs import bring
    from harness.render.write import first_page
    from harness.sources.fetch import resource_state
    from harness.store.provenance import provenance

    output, this_paper = Path(settings.output), load_paper(key)
    # What is kept as a reference must not depend on what is in somebody's folder.
    runs = None if settings.reference else Path(settings.runs)
    made = {} if runs is None else experiment_runs(this_paper, settings, "")
    brought = bring(this_paper, folder, runs, log_line, made, settings.seeds)
    try:
        reproduction = recompute(this_paper, log_line, track, rerun=settings.rerun, brought=brought)
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
    from harness.reports.changed_reports import write_changed

    if settings.reference:
        return report.write(folder, settings.formats, log_line)
    return write_changed(report, folder, settings.formats, log_line)


def _took(paper: Paper, settings: ReproduceSettings) -> list[StepCost]:
    """Returns what the steps took that made the paper's runs, at any scale and by any call, with their estimates."""
    from harness.cli.make_runs import experiment_runs, making_of
    from harness.papers.plan import plan_paper
    from harness.papers.step_costs import step_costs
    from harness.papers.steps import HERE, NothingToMakeError, Selection

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
    from harness.cli.make_runs import experiment_runs, runs_folder
    from harness.papers.reproduce import recompute_paper as recompute
    from harness.papers.steps import HERE
    from harness.papers.user_runs import bring

    runs = Path(runs_folder(settings, HERE))
    small = paper.at_small_scale()
    if small is None or not runs.is_dir():
        return None
    brought = bring(small, None, runs, log_line, experiment_runs(paper, settings, HERE), settings.seeds, HERE)
    if not brought.runs:
        return None
    reproduction = recompute(small, log_line, track, brought=brought, restricted=True)
    if settings.scale == HERE:
        valued, numbers = sum(each.value is not None for each in reproduction.verdicts), len(reproduction.verdicts)
        print_line(f"{paper.key}: {valued} of {counted_text(numbers, 'printed number')} have a value at small scale")
    return reproduction


def _demonstrate(settings: ReproduceSettings, output: Path) -> None:
    from harness.experiments.demo import demonstrate
    from harness.experiments.evaluate import compare, evaluate, inputs
    from harness.render.write import first_page
    from harness.reports.comparison import comparison_headline, report

    for made in demonstrate(Path(settings.runs), log_line):
        evaluation = evaluate(made.task, *made.runs.values())
        made_by = inputs(evaluation).reference() if settings.reference else inputs(evaluation)
        if not settings.reference:
            evaluation = replace(evaluation, seconds=made.seconds)
        comparison = compare(evaluation, made.baseline, alpha=settings.alpha, seed=settings.seed)
        print_line(comparison_headline(evaluation))
        _out_means(evaluation, comparison)
        page = report(evaluation, comparison, provenance=made_by, commands=made.commands)
        written = _write(page, output / evaluation.task.collection.name, settings)
        print_line(f"report: {first_page(written)}\n")


def _out_means(evaluation: Evaluation, comparison: Comparison) -> None:
    """Prints the means of every run, the best first, with the marks of its tests against the baseline."""
    from harness.cli.tables import marks_text
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
