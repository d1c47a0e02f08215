"""Sections of a paper's report on runs made or brought: sources, order and effects, small scale, what it took."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from harness.errors import counted_text
from harness.io.console import in_time
from harness.papers.cells import CellVerdict
from harness.papers.effects import EffectColumn as TableColumn
from harness.papers.effects import MarkVerdict, columns
from harness.papers.paper_settings import Here
from harness.papers.step_runner import StepCost
from harness.papers.user_runs import Brought, BroughtRun
from harness.render.model import Block, Cell, Column, Prose, Section, Table, number_cell
from harness.reports.pair_tests import shown_p

_MB = 1e6
_HEADS = ("table", "collection", "measure")
_TOOK_NOTES = (
    "Of each step's last call, with what it shares with other steps (an index, vectors, a training) where it was the "
    "first to need it. Energy is that of processors, memory and GPUs, where the package tirex-tracker can read it.",
)
_EFFECT_NOTES = (
    "Tau-b: Kendall's correlation of the printed and the recomputed order of the rows; 1 is the same order. Effect: "
    "difference from the row that the paper marks as its baseline. Effect ratio: recomputed effect divided by the "
    "printed one; 1 is a perfect reproduction, a negative one has the other sign. ΔRI: printed minus recomputed "
    "relative improvement; 0 is a perfect reproduction.",
)


def order_section(
    verdicts: Sequence[CellVerdict], names: Callable[[str], str], title: str = "Order and effects"
) -> Section | None:
    """Returns how well the order of the rows and the effects of tables are reproduced; None without such tables.

    Parameters
    ----------
    names : metric of the paper -> how it is shown.
    """
    table_columns = columns(verdicts)
    if not table_columns:
        return None
    ident = "-".join(title.lower().split())
    blocks: list[Block] = [_orders_table(table_columns, names, ident)]
    if any(column.effects for column in table_columns):
        blocks.append(_effects_table(table_columns, names, ident))
    return Section(title, tuple(blocks))


def _column_cells(column: TableColumn, names: Callable[[str], str]) -> tuple[Cell, Cell, Cell]:
    part = ", ".join(filter(None, (column.collection, column.slice)))
    return Cell(column.table), Cell(part), Cell(names(column.metric))


def _orders_table(table_columns: Sequence[TableColumn], names: Callable[[str], str], ident: str) -> Table:
    rows = tuple(
        (*_column_cells(column, names), Cell(str(column.n), column.n), _number_or(column.tau, 3))
        for column in table_columns
    )
    heads = (*map(Column, _HEADS), *(Column(n, kind="number") for n in ("rows", "tau-b")))
    caption = "Order of the rows, printed and recomputed" + (" at small scale" if "small" in ident else "")
    return Table(ident, caption, heads, rows, _EFFECT_NOTES[:1], row_headers=3)


def _effects_table(table_columns: Sequence[TableColumn], names: Callable[[str], str], ident: str) -> Table:
    rows = []
    for column, effect in ((each, effect) for each in table_columns for effect in each.effects):
        values = (number_cell(effect.printed, 4), number_cell(effect.here, 4), _number_or(effect.ratio, 2))
        named = (*_column_cells(column, names), Cell(effect.row), Cell(effect.baseline))
        rows.append((*named, *values, _number_or(effect.delta_ri, 3)))
    numbers = ("printed effect", "effect here", "effect ratio", "ΔRI")
    heads = (*map(Column, (*_HEADS, "row", "baseline")), *(Column(name, kind="number") for name in numbers))
    caption = "Effects, printed and recomputed"
    return Table(f"{ident}-effects", caption, heads, tuple(rows), row_headers=4, collapsed=True)


def marks_section(marks: Sequence[MarkVerdict], names: Callable[[str], str], alpha: float) -> Section | None:
    """Returns the paper's marks of significance beside the same tests here; None if none can be tested."""
    if not marks:
        return None
    rows = []
    for mark in marks:
        named = map(Cell, (mark.cell.cell.row, mark.baseline, names(mark.cell.cell.metric)))
        level = Cell(f"{alpha:g} / {mark.family}", alpha / mark.family)
        marked = (Cell("yes" if each else "no") for each in (mark.cell.cell.significant, mark.here))
        rows.append((*named, Cell(f"{mark.n:,}", mark.n), shown_p(mark.p), level, *marked))
    heads = (*map(Column, ("row", "against", "measure")), *(Column(n, kind="number") for n in ("n", "p", "level")))
    agree = sum(mark.agrees for mark in marks)
    said = f"{agree} of {len(marks)} printed marks of significance hold here (both kinds: significant, and not)."
    note = (
        "Two-sided paired t-tests on the recomputed runs; significant if p is below the level, alpha over the number "
        "of tests of the table, as the paper corrects."
    )
    columns = (*heads, Column("significant in the paper"), Column("here"))
    table = Table("marks", "Marks of significance, printed and here", columns, tuple(rows), (note,), row_headers=3)
    return Section("Marks of significance", (Prose((said,)), table))


def small_scale_section(verdicts: Sequence[CellVerdict], here: Here, names: Callable[[str], str]) -> Section | None:
    """Returns the values made at the scale `here` beside the printed ones, and how to read them; None without any."""
    made = [verdict for verdict in verdicts if verdict.value is not None]
    if not made:
        return None
    rows, notes = [], dict[str, None]()
    for v in made:
        cell, row = v.cell, ", ".join(filter(None, (v.cell.group, v.cell.system)))
        place = ", ".join(filter(None, (cell.collection, cell.slice)))
        # Costs have the decimals in print and two more, and no topics.
        digits = 4 if v.n else len(cell.value.partition(".")[2]) + 2 * ("." in cell.value)
        values = (Cell(cell.value, float(cell.value)), number_cell(v.value or 0.0, digits))
        topics = Cell(str(v.n), v.n) if v.n else Cell("")
        named = map(Cell, (cell.table, row, place, names(cell.metric)))
        rows.append((*named, *values, Cell(f"{v.collection}, {v.edition}"), topics))
        notes |= {f"{row}: {v.cause}.": None} if v.cause else {}
    heads = (*map(Column, ("table", "row", "collection", "measure")), Column("printed", kind="number"))
    heads += (Column("small scale", kind="number"), Column("scored on"), Column("topics", kind="number"))
    caption = "Printed values and those made here at small scale"
    table = Table("small-scale", caption, heads, tuple(rows), tuple(notes), row_headers=2)
    order = order_section([verdict for verdict in made if not verdict.in_part], names, "Order at small scale")
    partly = sum(verdict.in_part for verdict in made)
    said = (
        f"Made here at small scale: {here.says}. {len(made)} of {len(verdicts)} printed numbers have such a value.",
        "These values have no verdict: their documents, models or topics are not the paper's. "
        + ("The order of the systems and the signs of differences may be compared" if order else "None may be compared")
        + (f", but for {partly} of another model or of a fusion that lacks inputs" if partly and order else "")
        + ("; the values may not, as a smaller collection is an easier one." if order else "."),
    )
    return Section("Values at small scale", (Prose(said), table, *(order.blocks if order else ())))


def durations_section(took: Sequence[StepCost]) -> Section | None:
    """Returns what the steps took that made the runs, measured, beside the estimates; None if no step has a record."""
    if not took:
        return None
    energy, paid = any(each.joules is not None for each in took), any(each.calls for each in took)
    rows = []
    for each in took:
        cells = [Cell(each.outcome.command), Cell("made" if each.outcome.passed else each.outcome.fault)]
        hours = each.estimate
        expected = "not known" if hours is None else f"{hours.low * 3600:.1f} to {hours.high * 3600:.1f}"
        cells += [number_cell(each.outcome.seconds, 1), number_cell(each.outcome.cpu, 1), Cell(expected)]
        cells += [number_cell(each.outcome.memory / _MB, 0), Cell(each.device)]
        cells += [_number_or(each.joules, 0, "not measured")] if energy else []
        cells += [Cell(f"{each.calls:,}", each.calls), number_cell(each.dollars, 2)] if paid else []
        rows.append(tuple(cells))
    heads = [Column("step"), Column("outcome"), *(Column(name, kind="number") for name in ("wall, s", "CPU, s"))]
    heads += [Column("CPU estimated, s"), Column("memory, MB", kind="number"), Column("device")]
    heads += [Column("energy, J", kind="number")] if energy else []
    heads += [Column("calls", kind="number"), Column("dollars", kind="number")] if paid else []
    table = Table("took", "Steps that made the runs", tuple(heads), tuple(rows), _TOOK_NOTES, collapsed=True)
    return Section("What it took", (Prose(_took_sentences(took)), table))


def _took_sentences(took: Sequence[StepCost]) -> tuple[str, ...]:
    wall, cpu = (math.fsum(getattr(each.outcome, name) for each in took) for name in ("seconds", "cpu"))
    devices = ", ".join(dict.fromkeys(each.device for each in took if each.device)) or "a device that is not recorded"
    known = [each for each in took if each.estimate is not None and each.outcome.passed]
    times = f"{in_time(wall)} of wall-clock time, {in_time(cpu)} of CPU time"
    said = [f"{counted_text(len(took), 'step')}: {times}, on {devices}."]
    if known:
        low, high = (math.fsum(getattr(each.estimate, side) for each in known) * 3600 for side in ("low", "high"))
        measured = math.fsum(each.outcome.cpu for each in known)
        factor = f"; measured over the geometric mean: {measured / math.sqrt(low * high):.2g}" if low > 0 else ""
        of = "" if len(known) == len(took) else f" of the {len(known)} whose time is known"
        said.append(f"Estimated for one core of another machine{of}: {in_time(low)} to {in_time(high)}{factor}.")
    joules = [each.joules for each in took if each.joules is not None]
    more = "" if len(joules) == len(took) else f" by the {len(joules)} steps whose energy was measured"
    said.append(f"Energy: {math.fsum(joules) / 3.6e6:.4f} kWh{more}." if joules else "Energy: not measured.")
    if calls := sum(each.calls for each in took):
        said.append(f"{calls:,} calls, {math.fsum(each.dollars for each in took):.2f} dollars.")
    return tuple(said)


def _number_or(value: float | None, digits: int, unknown: str = "n/a") -> Cell:
    return Cell(unknown) if value is None else number_cell(value, digits)


_BROUGHT = ("table", "row", "collection", "run", "origin", "source", "sha256")


def brought_section(brought: Brought) -> Section | None:
    """Returns a line for each run; None if all runs are the archived ones."""
    if not brought.runs:
        return None
    rows = tuple(tuple(map(Cell, _brought_values(run))) for run in brought.runs)
    names = (*_BROUGHT[:-2], "file", "SHA-256")
    notes = (
        "Brought: a file of the map, which replaces the archived run of its row. Made here: made by the row's command "
        "on the whole corpus, as its metadata file proves. Fused: computed from the named runs.",
    )
    blocks: list[Block] = [Prose(brought.notes)] if brought.notes else []
    table = Table("brought", "Runs besides the archived ones", tuple(map(Column, names)), rows, notes, row_headers=2)
    return Section("Sources of the runs", (*blocks, table))


def brought_data(brought: Brought) -> dict[str, object]:
    """Returns the sources of runs for the JSON document; empty if all are the archived ones."""
    runs = [dict(zip(_BROUGHT, _brought_values(run), strict=True)) for run in brought.runs]
    return {"brought": runs} if runs else {}


def _brought_values(run: BroughtRun) -> tuple[str, ...]:
    return (run.row.table, run.row.label, run.collection, run.name, run.origin, run.source, run.run.sha256)
