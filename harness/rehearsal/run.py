"""Rehearses a paper: `harness reproduce paper=NAME make=true` on stand-ins, and what its steps' records say of rows.

Runs that a person would bring, such as those of other teams, rank judged documents in a random order.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from harness.collections.load import load_collection
from harness.data.run_writers import write_run
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.papers.map import paper_rows
from harness.papers.paper import Paper
from harness.papers.records import Rehearsed
from harness.papers.step_runner import Making, StepOutcome, recorded
from harness.papers.steps import PrintedRow, RunStep
from harness.rehearsal import services, world
from harness.rehearsal.world import World
from harness.render.model import Cell, Column, Prose, Section, Table
from harness.render.write import Report
from harness.sources.fetch import fetch_resources
from harness.store import artefacts
from harness.version import __version__


def rehearse_steps(made: World, paper: str, words: Sequence[str]) -> int:
    """Takes the stand-ins by `harness fetch NAME --from FILE`, then makes the paper's runs and tables.

    Parameters
    ----------
    words : further words of the command, such as `rows=msm *`.

    Returns
    -------
    int
        Its exit code.

    Raises
    ------
    HarnessError
        A stand-in is refused.
    """
    with _serving_stand_ins(made):
        for source, paths in made.given.items():
            for path in paths:
                if code := _run_harness(made, "fetch", source, "--from", str(path)):
                    raise HarnessError(f"rehearse: harness fetch {source} --from {path} ended with exit code {code}")
        return _run_harness(made, "reproduce", f"paper={paper}", "make=true", *words)


def _run_harness(made: World, *words: str) -> int:
    command = [sys.executable, "-P", "-m", "harness", *words]
    printed = sys.stderr if words[0] == "fetch" else None
    process = subprocess.Popen(command, cwd=made.work, env=made.environment(os.environ), stdout=printed)
    try:
        return process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise


def step_results(
    made: World, paper: str, steps: Sequence[RunStep]
) -> tuple[list[StepOutcome], dict[PrintedRow, StepOutcome]]:
    """Returns the results of steps, and row -> the one that decides: the first that failed, else the last.

    A step without a record was left out, since something that it needs was not there.
    If a step with parts failed, each row has the result of its own part; if all parts passed, the step's.
    """
    making = Making(made.work / "runs" / "making" / paper)
    results: list[StepOutcome] = []
    rows: dict[PrintedRow, StepOutcome] = {}
    for step in steps:
        lost = StepOutcome(step.name, step.command, "was not carried out", 0.0, 0.0, 0, {}, "")
        whole = recorded(making, step) or lost
        parts = [result for part in step.parts if (result := recorded(making, part)) is not None]
        results += [whole, *parts]
        blamed = dict.fromkeys(step.rows, whole)
        if not whole.passed and any(not part.passed for part in parts):
            by_name = {part.step: part for part in parts}
            for part in step.parts:
                blamed |= dict.fromkeys(part.rows, by_name.get(part.name, whole))
        for row, result in blamed.items():
            if row not in rows or rows[row].passed:
                rows[row] = result
    return results, rows


def passed(steps: Sequence[RunStep], rows: Mapping[PrintedRow, StepOutcome], scale: str) -> list[Rehearsed]:
    """Returns the records of the rows all of whose commands passed, with the digest of these commands together."""
    named = {step.name for step in steps}
    digests = row_digests(steps)
    systems = row_systems(steps)
    return [
        Rehearsed(row.table, row.label, __version__, scale, digests[row], " ".join(sorted(systems[row])))
        for row, result in rows.items()
        if result.passed and result.step in named
    ]


def row_digests(steps: Sequence[RunStep]) -> dict[PrintedRow, str]:
    """Returns row -> digest of its commands and their configurations."""
    digests_of: dict[PrintedRow, list[str]] = {}
    for step in steps:
        digest = step.digest() if step.rows else ""
        for row in step.rows:
            digests_of.setdefault(row, []).append(digest)
    return {row: artefacts.key({"commands": digests})[:16] for row, digests in digests_of.items()}


def row_systems(steps: Sequence[RunStep]) -> dict[PrintedRow, set[str]]:
    """Returns row -> names of the systems that its commands run."""
    systems_of: dict[PrintedRow, set[str]] = {}
    for step in steps:
        for part in step.parts or (step,):
            for row in part.rows:
                systems_of.setdefault(row, set()).update(part.chosen("system"))
    return systems_of


@contextmanager
def _serving_stand_ins(made: World) -> Iterator[None]:
    with services.serving(made.seed) if made.services else nullcontext("") as url:
        if url:
            world.overlay_services(made, url)
        yield


_MB = 1e6


def rehearsal_headline(paper: Paper, rows: Mapping[PrintedRow, StepOutcome], left: Mapping[PrintedRow, str]) -> str:
    """Returns the outcome in one line."""
    passed = sum(result.passed for result in rows.values())
    none = f"; {len(left)} without a command" if left else ""
    return f"{paper.key}: {passed} of {len(rows)} rows pass the rehearsal{none}"


def rehearsal_report(
    paper: Paper,
    made: World,
    results: Sequence[StepOutcome],
    rows: Mapping[PrintedRow, StepOutcome],
    left: Mapping[PrintedRow, str],
) -> Report:
    """Returns the report; no value of a measure is in it, since stand-ins decide them."""
    said = (
        f"Every command ran on stand-ins (scale {made.scale.name}, seed {made.seed}, version {__version__}): generated "
        "files in the form of the real ones, and models of the same architecture with random weights. Values of "
        "measures mean nothing and are not shown; times and sizes are of the stand-ins, not of the real resources."
    )
    return Report(
        f"Rehearsal of {paper.title}",
        rehearsal_headline(paper, rows, left),
        (Section("Rows", (Prose((said,)), _rows_table(rows, left))), Section("Commands", (_commands_table(results),))),
    )


def _rows_table(rows: Mapping[PrintedRow, StepOutcome], left: Mapping[PrintedRow, str]) -> Table:
    said = {row: ("passes" if result.passed else "fails", result.fault) for row, result in rows.items()}
    shown = [*said.items(), *((row, ("no command", why)) for row, why in left.items())]
    cells = tuple(tuple(map(Cell, (row.table, row.label, *words))) for row, words in shown)
    columns = tuple(map(Column, ("table", "row", "rehearsal", "reason")))
    return Table("rows", "Rows of the paper's tables", columns, cells, row_headers=2)


def _commands_table(results: Sequence[StepOutcome]) -> Table:
    shown = []
    for result in results:
        amounts = ((result.seconds, 1), (result.cpu, 1), (result.memory / _MB, 0), (len(result.runs), 0))
        cells = (Cell(f"{value:,.{digits}f}", value) for value, digits in amounts)
        shown.append((Cell(result.command), Cell("passes" if result.passed else "fails"), *cells))
    titles = ("wall, s", "CPU, s", "memory, MB", "runs")
    columns = (Column("command"), Column("rehearsal"), *(Column(title, kind="number") for title in titles))
    return Table("commands", "Commands in the order in which they ran", columns, tuple(shown))


def write_submitted_runs(folder: Path, paper: Paper, rows: Collection[PrintedRow], seed: int) -> None:
    """Writes the runs of rows by names that `harness reproduce brought=FOLDER` recognises; fetches judgments.

    Parameters
    ----------
    rows : of `harness.papers.experiment_runs.rows_to_bring`.

    Raises
    ------
    HarnessError
        The judgments of a collection cannot be had.
    """
    known, places = paper_rows(paper), {} if paper.scored is None else paper.scored.collections
    wanted = {
        (name, known[row.table, row.label].name): place
        for row in rows
        for name, place in known[row.table, row.label].collections.items()
    }
    for (_, name), place in wanted.items():
        judged = places[place]
        collection = load_collection(judged.collection)
        fetch_resources(collection.files())
        grades = collection.qrels(judged.edition).to_dict()
        rng = random.Random(f"{place} {name}:{seed}")
        ranked = {topic: {doc: rng.random() for doc in docs} for topic, docs in grades.items()}
        path = folder / place.replace("/", "-") / f"{name}.run"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_run(Run.from_dict(name, ranked), path)
