"""Published numbers: reading them, and verdicts against recomputed values."""

from __future__ import annotations

import csv
import io
import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, get_args

import numpy as np

from harness.errors import counted_text, format_error

Judgement = Literal["exact", "close", "within", "differs", "needs", "not implemented", "blocked"]
Printed = Literal["run", "mean", "best"]  # what a number over seeds is
KINDS: tuple[Judgement, ...] = get_args(Judgement)
HEADER = ["paper", "table", "caption", "system", "group", "collection", "task", "slice", "metric", "aggregate"]
HEADER += ["value", "std", "significant", "baseline", "note"]


@dataclass(frozen=True)
class PublishedCell:
    """A published number with its coordinates; the columns of `conf/paper/cells/PAPER.csv`.

    `value` and `std` are strings as printed, which keeps the digits. `significant` is None if the table has no test.
    """

    paper: str
    table: str
    caption: str
    system: str
    group: str
    collection: str
    task: str
    slice: str
    metric: str
    aggregate: str
    value: str
    std: str
    significant: bool | None
    baseline: bool
    note: str

    @property
    def place(self) -> str:
        """Row, collection, slice and measure of the number, in one line."""
        return ", ".join(part for part in (self.row, self.collection, self.slice, self.metric) if part)

    @property
    def row(self) -> str:
        """Table, group and system of the number, in one line."""
        table = f"Table {self.table}" if self.table[:1].isdigit() else self.table
        return ", ".join(part for part in (table, self.group, self.system) if part)


@dataclass(frozen=True)
class CellVerdict:
    """Verdict on a published cell.

    Attributes
    ----------
    value : recomputed value; None if it was not recomputed.
    run, collection, edition, protocol : inputs of the recomputation.
    measure : ours, or for costs the key of their column.
    n : number of topics in the mean (1 for a single topic, 0 for costs).
    cause : why the value differs or was not recomputed (`config.state`), or how the cell was identified.
    in_part : whether its run stands for the row's in part only: a fusion lacks inputs, or another model is used.
    """

    cell: PublishedCell
    verdict: Judgement
    value: float | None = None
    run: str = ""
    collection: str = ""
    edition: str = ""
    protocol: str = ""
    measure: str = ""
    n: int = 0
    cause: str = ""
    in_part: bool = False


def judge(printed: str, value: float) -> Judgement:
    """Returns `exact` if the value rounds to the printed digits, `close` within two units of the last, else `differs`.

    A value halfway between two roundings counts as both.
    """
    unit = 10.0 ** -len(printed.partition(".")[2])
    distance = abs(value - float(printed)) / unit
    slack = 1e-6  # tolerance for the rounding errors of a mean
    if distance <= 0.5 + slack:
        return "exact"
    return "close" if distance <= 2 + slack else "differs"


def predicted(values: Sequence[float], kind: Printed = "run", seeds: int = 1) -> tuple[float, float]:
    """Returns the interval that holds a printed value with probability 0.95 if it is of the same system, other seeds.

    Parameters
    ----------
    values : of at least two seeds.
    kind, seeds : what is printed: the value of one seed, or the mean or the best of `seeds` seeds. Values of seeds are
        taken as normal.

    Examples
    --------
    >>> low, high = predicted([0.40, 0.42])
    >>> f"{low:.3f} {high:.3f}"  # 0.41 with 12.7 times the standard error of a further value, 0.0141 * (1 + 1/2) ** 0.5
    '0.190 0.630'
    """
    from scipy.special import stdtrit

    n = len(values)
    mean, spread = statistics.fmean(values), statistics.stdev(values)
    if kind == "best":
        low, high = (mean + spread * _best_of(seeds, n, level) for level in (0.025, 0.975))
    else:
        wide = spread * math.sqrt(1 / n + (1 / seeds if kind == "mean" else 1))
        low, high = (mean + wide * float(stdtrit(n - 1, level)) for level in (0.025, 0.975))
    return low, high


@cache
def _best_of(seeds: int, n: int, level: float) -> float:
    """Returns a quantile of (the best of `seeds` further normal values - mean of n) / standard deviation of n.

    The best exceeds no more than mean + c deviations with probability E[Phi(m + c s) ** seeds], over the mean m and the
    standard deviation s of n standard normal values.
    """
    from scipy.optimize import brentq
    from scipy.special import chdtri, ndtr, ndtri

    nodes, weights = np.polynomial.legendre.leggauss(100)
    points, weights = (nodes + 1) / 2, weights / 2
    m = ndtri(points)[:, None] / math.sqrt(n)
    s = np.sqrt(chdtri(n - 1, points) / (n - 1))
    return float(brentq(lambda c: float(weights @ ndtr(m + c * s) ** seeds @ weights) - level, -1e4, 1e4))


def read_cells(data: bytes, path: str) -> tuple[PublishedCell, ...]:
    """Reads the cells of a CSV file; raises FormatError (`path:line: reason`)."""
    cells: list[PublishedCell] = []
    try:
        rows = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
        header = next(rows, [])
        if header != HEADER:
            raise format_error(path, 1, f"header is {','.join(header)!r}, expected {','.join(HEADER)!r}")
        seen: dict[PublishedCell, int] = {}
        number = rows.line_num + 1
        for row in rows:
            cell = _parse_cell(row, path, number)
            if seen.setdefault(replace(cell, value="", std="", note=""), number) != number:
                raise format_error(path, number, f"this cell ({cell.place}) occurs on an earlier line")
            cells.append(cell)
            number = rows.line_num + 1
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise format_error(path, line, f"byte 0x{data[error.start]:02x} is not UTF-8 text") from None
    except csv.Error as error:
        raise format_error(path, rows.line_num, f"not CSV: {error}") from None
    return tuple(cells)


_NUMBER = re.compile(r"-?([0-9]+(\.[0-9]+)?|\.[0-9]+)")
_FLAGS = {"1": True, "0": False, "": None}


def _parse_cell(row: Sequence[str], path: str, line: int) -> PublishedCell:
    if len(row) != len(HEADER):
        raise format_error(path, line, f"{counted_text(len(row), 'column')}, expected {len(HEADER)}")
    values: dict[str, Any] = dict(zip(HEADER, row, strict=True))
    for column in ("value", "std"):
        if not _NUMBER.fullmatch(values[column]) and (values[column] or column == "value"):
            raise format_error(path, line, f"{column} {values[column]!r} is not a decimal number such as 0.259")
    for column in ("significant", "baseline"):
        if values[column] not in _FLAGS:
            raise format_error(path, line, f"{column} is {values[column]!r}, expected 1, 0 or nothing")
        values[column] = _FLAGS[values[column]]
    return PublishedCell(**{**values, "baseline": bool(values["baseline"])})
