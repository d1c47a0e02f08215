"""How well a paper's tables are reproduced beyond single numbers: order of rows, effects, marks of significance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from harness.errors import HarnessError
from harness.papers.cells import CellVerdict, PublishedCell
from harness.papers.reproduce import PaperReproduction
from harness.scoring.agreement import rank_correlation
from harness.scoring.compare import compare
from harness.scoring.reproduction import delta_relative_improvement, effect_ratio

_LEAST = 2  # rows of an order


@dataclass(frozen=True)
class BaselineEffect:
    """The improvement of a row over the baseline of its column, printed and recomputed.

    Attributes
    ----------
    printed, here : differences of the means.
    ratio : `here / printed`; 1 is a perfect reproduction, above 0 the effect has the printed sign. None if nothing is
        printed as different.
    delta_ri : printed relative improvement minus the recomputed one; 0 is a perfect reproduction.
    """

    row: str
    baseline: str
    printed: float
    here: float
    ratio: float | None
    delta_ri: float | None


@dataclass(frozen=True)
class EffectColumn:
    """A column of a table: rows with a printed and a recomputed value.

    Attributes
    ----------
    tau : Kendall's tau-b of the two orders of its rows; None if one of them has ties alone.
    effects : of the rows over the baseline that the paper marks; empty if it marks none, or it was not recomputed.
    """

    table: str
    collection: str
    slice: str
    metric: str
    n: int
    tau: float | None
    effects: tuple[BaselineEffect, ...]


def columns(verdicts: Iterable[CellVerdict]) -> tuple[EffectColumn, ...]:
    """Returns the columns with at least two recomputed rows, by the measures of Breuer et al., 2020 (repro_eval).

    The printed means take the place of the original run's: an effect ratio is a ratio of mean differences.
    """
    column_rows: dict[tuple[str, str, str, str, str], dict[str, tuple[PublishedCell, float]]] = {}
    for verdict in verdicts:
        cell = verdict.cell
        if verdict.value is not None:
            column_rows.setdefault(_column_key(cell), {})[", ".join(filter(None, (cell.group, cell.system)))] = (
                cell,
                verdict.value,
            )
    made = []
    for (table, collection, part, metric, _), rows in column_rows.items():
        if len(rows) < _LEAST:
            continue
        printed = {name: float(cell.value) for name, (cell, _) in rows.items()}
        here = {name: value for name, (_, value) in rows.items()}
        try:
            tau = rank_correlation("printed", "here", printed, here).tau
        except HarnessError:  # fewer than two with a mean
            continue
        cells = {name: cell for name, (cell, _) in rows.items()}
        bases = {name: baseline_of(name, cells) for name in rows}
        effects = []
        for name, base in ((name, base) for name, base in bases.items() if base):
            values = (printed[name], printed[base], here[name], here[base])
            means = tuple(np.array([value]) for value in values)
            measures = (effect_ratio(*means), delta_relative_improvement(*means))
            effects.append(BaselineEffect(name, base, values[0] - values[1], values[2] - values[3], *measures))
        made.append(EffectColumn(table, collection, part, metric, len(rows), tau, tuple(effects)))
    return tuple(made)


def baseline_of(row: str, cells: Mapping[str, PublishedCell]) -> str:
    """Returns the row that another one is an effect over; empty for a baseline, and where it is not unique.

    It is the only row of the column that the paper marks, or else the only one of the same group.

    Parameters
    ----------
    cells : row -> its number in the column.
    """
    marked = [name for name, cell in cells.items() if cell.baseline]
    if row in marked:
        return ""
    own = cells[row]
    families = marked, [name for name in marked if own.group and cells[name].group == own.group]
    return next((family[0] for family in families if len(family) == 1), "")


@dataclass(frozen=True)
class MarkVerdict:
    """A printed mark of significance, tested on the recomputed runs.

    Attributes
    ----------
    cell : the number that is marked, or that the table tests and does not mark.
    baseline : row that it is tested against.
    family : tests of the table, over which the paper corrects (Bonferroni).
    p : of the two-sided paired t-test, not corrected; None where it is undefined.
    here : whether p is below alpha / family.
    """

    cell: CellVerdict
    baseline: str
    n: int
    family: int
    p: float | None
    here: bool

    @property
    def agrees(self) -> bool:
        """Whether the test here says what the paper prints."""
        return self.here == self.cell.cell.significant


def mark_verdicts(reproduction: PaperReproduction, alpha: float = 0.05) -> tuple[MarkVerdict, ...]:
    """Tests each number that a table tests against its baseline, where both rows are recomputed.

    A table's family is all numbers of it that the paper tests, recomputed or not.
    """
    scored = reproduction.paper.scored
    if scored is None:
        return ()
    tested = [v for v in reproduction.verdicts if v.cell.significant is not None and not v.cell.baseline]
    families = Counter(v.cell.table for v in tested)
    columns: dict[tuple[str, ...], dict[str, CellVerdict]] = {}
    for v in reproduction.verdicts:
        columns.setdefault(_column_key(v.cell), {})[v.cell.row] = v
    made = []
    for verdict in tested:
        column = columns[_column_key(verdict.cell)]
        base = column.get(baseline_of(verdict.cell.row, {row: other.cell for row, other in column.items()}))
        if base is None or verdict.value is None or base.value is None or verdict.run == base.run:
            continue
        place = scored.place(verdict.cell)
        sides = [reproduction.scores.get((place, each.run)) for each in (verdict, base)]
        if sides[0] is None or sides[1] is None:
            continue
        try:
            (row,) = compare([sides[0], sides[1]], base.run, measures=[verdict.measure], permutations=1).rows
        except HarnessError:  # fewer than two common topics
            continue
        family = families[verdict.cell.table]
        below = row.p is not None and row.p < alpha / family
        made.append(MarkVerdict(verdict, base.cell.row, row.n, family, row.p, below))
    return tuple(made)


def _column_key(cell: PublishedCell) -> tuple[str, str, str, str, str]:
    return cell.table, cell.collection, cell.slice, cell.metric, cell.aggregate
