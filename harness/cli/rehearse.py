"""The command `rehearse`: a paper's recipes from end to end, on stand-ins for what they need."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.main import RUNS, in_panel
from harness.errors import HarnessError, counted_text, suggestion
from harness.io.console import log_line, print_line
from harness.io.locks import alone
from harness.io.rehearsal import VARIABLE

if TYPE_CHECKING:
    from harness.rehearsal.world import StandInSizes


@in_panel(RUNS)
def rehearse(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="Paper (see harness list papers), or all.")],
    rows: Annotated[str, typer.Option(help="Only rows or tables that match a pattern, such as 'mirmu*'.")] = "",
    scale: Annotated[
        str, typer.Option(help="Size of the stand-ins: tiny, or a fraction of the real resources such as 1/100.")
    ] = "tiny",
    seed: Annotated[int, typer.Option(help="Seed of the generated data and models.")] = 1,
    real: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Model or source to use unchanged instead of a stand-in; may be repeated."),
    ] = None,
    folder: Annotated[Path, typer.Option(help="Folder for all files; an interrupted call resumes there.")] = Path(
        "rehearsal"
    ),
    record: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Record the rows that passed in FOLDER/PAPER.csv.")
    ] = None,
) -> None:
    """Run a paper's recipes from end to end on stand-ins: generated data and models with random weights."""
    from harness.papers.paper import paper_names
    from harness.papers.steps import NothingToMakeError
    from harness.rehearsal.world import scale_of

    size = scale_of(scale)
    os.environ.pop(VARIABLE, None)  # a rehearsal inside another one would read its stand-ins
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))  # commands must not outlive it
    root = folder.expanduser().absolute()
    every, known = paper == "all", paper_names()
    if not every and paper.removeprefix("paper=") not in known:
        raise HarnessError(f"rehearse: paper {paper!r} is unknown or has no recipes; {suggestion(paper, known)}")
    faults: list[str] = []
    for name in known if every else [paper.removeprefix("paper=")]:
        try:
            faults += _rehearse(name, rows, size, seed, tuple(real or ()), root / name, record)
        except OSError as error:
            faults.append(f"rehearse {name}: {error.filename or root}: {error.strerror or error}")
        except HarnessError as error:
            faults += [] if every and isinstance(error, NothingToMakeError) else error.lines
    if faults:
        raise HarnessError(*faults)


def _rehearse(
    name: str, rows: str, size: StandInSizes, seed: int, real: tuple[str, ...], folder: Path, record: Path | None
) -> list[str]:
    """Rehearses a paper; prints the outcome, and returns a line for each row that fails."""
    from harness.papers.experiment_runs import rows_to_bring
    from harness.papers.paper import load_paper
    from harness.papers.records import write_rehearsed
    from harness.papers.steps import Selection, paper_steps
    from harness.rehearsal.run import passed, rehearsal_headline, rehearsal_report, step_results, write_submitted_runs
    from harness.rehearsal.run import rehearse_steps as run_steps
    from harness.rehearsal.world import make_world
    from harness.render.write import first_page

    paper = load_paper(name)
    planned, left = paper_steps(paper, Selection(rows), seeds=1)
    if record is not None:
        record.mkdir(parents=True, exist_ok=True)
    with alone(folder.parent, "another rehearsal"):
        made = make_world(folder, planned, size, seed, real, log_line)
        words = ["seeds=1", *([f"rows={_quoted(rows)}"] if rows else [])]
        if to_bring := [row for row in rows_to_bring(paper, paper_steps(paper)[0]) if Selection(rows).fits(row)]:
            log_line(f"stand-ins for the runs of {counted_text(len(to_bring), 'row')}")
            write_submitted_runs(folder / "brought", paper, to_bring, seed)
            words.append(f"brought={_quoted(str(folder / 'brought'))}")
        code = run_steps(made, name, words)
        results, outcome = step_results(made, name, planned)
        written = rehearsal_report(paper, made, results, outcome, left).write(made.folder / "report")
        print_line(rehearsal_headline(paper, outcome, left))
        print_line(f"report: {first_page(written)}")
        if record is not None:
            tried = [(row.table, row.label) for row in outcome]
            write_rehearsed(record / f"{name}.csv", passed(planned, outcome, size.name), tried)
    faults = [f"{name}, {row}: {result.fault}" for row, result in outcome.items() if not result.passed]
    ended = f"{name}: harness reproduce paper={name} make=true ended with exit code {code}, though all its rows passed"
    return faults or ([ended] if code else [])


def _quoted(text: str) -> str:
    return "'" + text.replace("'", r"\'") + "'"
