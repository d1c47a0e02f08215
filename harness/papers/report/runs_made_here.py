"""Sections of a paper's report on runs that were made here: order and effects, values at small scale, what it took."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.papers.cells import CellVerdict
from harness.papers.effects import EffectColumn as TableColumn
from harness.papers.effects import columns
from harness.papers.rows import Here
from harness.papers.step_runner import StepOutcome
from harness.render.model import Block, Cell, Column, Prose, Section, Table, number_cell

_MB = 1e6
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
    found = columns(verdicts)
    if not found:
        return None
    ident = "-".join(title.lower().split())
    blocks: list[Block] = [_orders(found, names, ident)]
    if any(column.effects for column in found):
        blocks.append(_effects(found, names, ident))
    return Section(title, tuple(blocks))


def _where(column: TableColumn, names: Callable[[str], str]) -> tuple[Cell, Cell, Cell]:
    part = f"{column.collection}, {column.slice}" if column.slice else column.collection
    return Cell(column.table), Cell(part), Cell(names(column.metric))


def _orders(found: Sequence[TableColumn], names: Callable[[str], str], ident: str) -> Table:
    rows = tuple(
        (
            *_where(column, names),
            Cell(str(column.n), column.n),
            Cell("n/a") if column.tau is None else number_cell(column.tau, 3),
        )
        for column in found
    )
    heads = (
        Column("table"),
        Column("collection"),
        Column("measure"),
        *(Column(n, kind="number") for n in ("rows", "tau-b")),
    )
    return Table(ident, "Order of the rows, printed and recomputed", heads, rows, _EFFECT_NOTES[:1], row_headers=3)


def _effects(found: Sequence[TableColumn], names: Callable[[str], str], ident: str) -> Table:
    rows = tuple(
        (
            *_where(column, names),
            Cell(effect.row),
            Cell(effect.baseline),
            number_cell(effect.printed, 4),
            number_cell(effect.here, 4),
            Cell("n/a") if effect.ratio is None else number_cell(effect.ratio, 2),
            Cell("n/a") if effect.delta_ri is None else number_cell(effect.delta_ri, 3),
        )
        for column in found
        for effect in column.effects
    )
    numbers = ("printed effect", "effect here", "effect ratio", "ΔRI")
    heads = tuple(map(Column, ("table", "collection", "measure", "row", "baseline")))
    heads += tuple(Column(name, kind="number") for name in numbers)
    return Table(f"{ident}-effects", "Effects, printed and recomputed", heads, rows, row_headers=4, collapsed=True)


def small_scale_section(verdicts: Sequence[CellVerdict], here: Here, names: Callable[[str], str]) -> Section | None:
    """Returns the values made at the scale `here` beside the printed ones, and how to read them; None without any."""
    made = [verdict for verdict in verdicts if verdict.value is not None]
    if not made:
        return None
    rows = tuple(
        (
            Cell(v.cell.table),
            Cell(", ".join(filter(None, (v.cell.group, v.cell.system)))),
            Cell(f"{v.cell.collection}, {v.cell.slice}" if v.cell.slice else v.cell.collection),
            Cell(names(v.cell.metric)),
            Cell(v.cell.value, float(v.cell.value)),
            number_cell(v.value or 0.0, 4),
            Cell(f"{v.collection}, {v.edition}"),
            Cell(str(v.n), v.n),
        )
        for v in made
    )
    heads = (*map(Column, ("table", "row", "collection", "measure")), Column("printed", kind="number"))
    heads += (Column("small scale", kind="number"), Column("scored on"), Column("topics", kind="number"))
    notes = tuple(
        dict.fromkeys(f"{', '.join(filter(None, (v.cell.group, v.cell.system)))}: {v.cause}." for v in made if v.cause)
    )
    caption = "Printed values and those made here at small scale"
    table = Table("small-scale", caption, heads, rows, notes, row_headers=2)
    said = (
        f"Made here at small scale: {here.says}. {len(made)} of {len(verdicts)} printed numbers have such a value.",
        "These values have no verdict: their documents, models or topics are not the paper's. The order of the systems "
        "and the signs of differences may be compared; the values may not, as a smaller collection is an easier one.",
    )
    whole = [verdict for verdict in made if not verdict.in_part]
    order = order_section(whole, names, "Order at small scale")
    return Section("Values at small scale", (Prose(said), table, *(order.blocks if order else ())))


def durations_section(results: Sequence[StepOutcome]) -> Section | None:
    """Returns what the steps of `make=true` took, measured; None if none was carried out."""
    if not results:
        return None
    rows = tuple(
        (
            Cell(result.command),
            Cell("made" if result.passed else result.fault),
            number_cell(result.seconds, 1),
            number_cell(result.cpu, 1),
            number_cell(result.memory / _MB, 0),
        )
        for result in results
    )
    numbers = ("wall, s", "CPU, s", "memory, MB")
    heads = (Column("step"), Column("outcome"), *(Column(name, kind="number") for name in numbers))
    seconds, cpu = (sum(getattr(result, name) for result in results) for name in ("seconds", "cpu"))
    said = f"{len(results)} steps took {seconds / 3600:.2f} hours of wall-clock time and {cpu / 3600:.2f} CPU hours."
    table = Table("took", "Steps that were carried out", heads, rows, collapsed=True)
    return Section("What it took", (Prose((said,)), table))
