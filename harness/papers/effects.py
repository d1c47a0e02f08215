"""How well a paper's tables are reproduced beyond single numbers: the order of their rows, and effects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from harness.errors import HarnessError
from harness.papers.cells import CellVerdict, PublishedCell
from harness.scoring.agreement import rank_correlation
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
            key = (cell.table, cell.collection, cell.slice, cell.metric, cell.aggregate)
            column_rows.setdefault(key, {})[", ".join(filter(None, (cell.group, cell.system)))] = (cell, verdict.value)
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
        effects = tuple(_effect_of(name, base, printed, here) for name, base in bases.items() if base)
        made.append(EffectColumn(table, collection, part, metric, len(rows), tau, effects))
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


def _effect_of(row: str, base: str, printed: Mapping[str, float], here: Mapping[str, float]) -> BaselineEffect:
    means = tuple(np.array([value]) for value in (printed[row], printed[base], here[row], here[base]))
    return BaselineEffect(
        row,
        base,
        printed[row] - printed[base],
        here[row] - here[base],
        effect_ratio(*means),
        delta_relative_improvement(*means),
    )
