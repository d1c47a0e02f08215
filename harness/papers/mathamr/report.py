"""What the report of MathAMR+ has beside that of other papers: values of its experiments that were run here."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from harness.experiments.experiment import FULL, load_experiment
from harness.papers.mathamr.thesis import COLUMNS, PAPER
from harness.papers.paper import load_paper
from harness.render.model import Cell, Column, Section, Table, Text, number_cell


def beside(folder: Path) -> Section | None:
    """Collects the comparisons from reports of these experiments for the paper's report; None without any.

    Parameters
    ----------
    folder : folder of the reports of experiments; unreadable tables are skipped.
    """
    rows: list[tuple[Cell, ...]] = []
    made: list[str] = []
    for name in load_paper(PAPER).config.experiments:
        scales = load_experiment(name).scale
        for scale in (FULL, *(scale for scale in scales if scale != FULL)):
            file = folder / (name if scale == FULL else f"{name}-{scale}") / "tables" / "thesis.csv"
            if not (found := _read(file)):
                continue
            rows += [(*(_shown(column, row[column]) for column in COLUMNS), Cell(f"{name}, {scale}")) for row in found]
            says = scales[scale].says if scale in scales else ""
            made.append(f"{name}, {scale}: {f'scaled down: {says}' if says else 'full scale'}; see {file}.")
    if not rows:
        return None
    columns = tuple(Column(name) for name in (*COLUMNS, "experiment"))
    said = (
        "What experiments gave that were run here (harness run experiment=NAME scale=SCALE), as their reports say. "
        "None is a reproduction, and none has a verdict."
    )
    table = Table("scaled-down", "Printed values and those made here", columns, tuple(rows), tuple(made))
    return Section("Values computed with the harness", (Text((said,)), table))


def _shown(column: str, text: str) -> Cell:
    """Returns a field of such a table, numbers rounded as in a table."""
    try:
        value = float(text) if column in ("here", "sd") else math.nan
    except ValueError:
        value = math.nan
    return Cell(text) if math.isnan(value) else number_cell(value, 0 if value.is_integer() and value > 1 else 3)


def _read(file: Path) -> list[dict[str, str]]:
    """Returns the rows of a table with these columns; nothing if it cannot be read."""
    try:
        with file.open(encoding="utf-8", newline="") as opened:
            found = list(csv.DictReader(opened))
    except (OSError, UnicodeDecodeError, csv.Error):
        return []
    return [row for row in found if all(row.get(column) is not None for column in COLUMNS)]
