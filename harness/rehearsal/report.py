"""The report of a rehearsal: rows, what their commands took, and the line that stopped those that failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.papers.paper import Paper
from harness.papers.step_runner import StepOutcome
from harness.papers.steps import PrintedRow
from harness.rehearsal.world import World
from harness.render.model import Cell, Column, Prose, Section, Table
from harness.render.write import Report
from harness.version import __version__

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
    shown = [
        (Cell(row.table), Cell(row.label), Cell("passes" if result.passed else "fails"), Cell(result.fault))
        for row, result in rows.items()
    ]
    shown += [(Cell(row.table), Cell(row.label), Cell("no command"), Cell(why)) for row, why in left.items()]
    columns = tuple(Column(title) for title in ("table", "row", "rehearsal", "reason"))
    return Table("rows", "Rows of the paper's tables", columns, tuple(shown), row_headers=2)


def _commands_table(results: Sequence[StepOutcome]) -> Table:
    shown = tuple(
        (
            Cell(result.command),
            Cell("passes" if result.passed else "fails"),
            _rounded_cell(result.seconds, 1),
            _rounded_cell(result.cpu, 1),
            _rounded_cell(result.memory / _MB, 0),
            Cell(str(len(result.runs)), len(result.runs)),
        )
        for result in results
    )
    titles = ("wall, s", "CPU, s", "memory, MB", "runs")
    columns = (Column("command"), Column("rehearsal"), *(Column(title, kind="number") for title in titles))
    return Table("commands", "Commands in the order in which they ran", columns, shown)


def _rounded_cell(value: float, digits: int) -> Cell:
    return Cell(f"{value:,.{digits}f}", value)
