"""Parts of the report of an experiment: best seeds, tuned settings, costs and curves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from harness.errors import counted_text
from harness.experiments.costs import COLUMNS, losses, together
from harness.experiments.experiment import Labels, labels_text
from harness.experiments.results import BestSetting, ExperimentResults
from harness.render import figures
from harness.render.model import Block, Cell, Column, Figure, Prose, Records, Section, Table, number_cell, slug
from harness.render.svg import SERIES


def row_columns(results: ExperimentResults) -> tuple[Column, ...]:
    """Returns the columns that identify a row: the condition and each axis but the pooled one."""
    experiment = results.experiment
    return tuple(Column(name) for name in experiment.coordinates if name != experiment.pool)


def row_cells(row: Labels) -> tuple[Cell, ...]:
    """Returns the cells that identify a row."""
    return tuple(Cell(label) for label in row)


def measure_label(results: ExperimentResults, measure: str) -> str:
    """Returns the name of a measure under the first run's protocol."""
    known = (outcome.scores.protocol for outcome in results.outcomes if outcome.scores is not None)
    return next(known).label(measure)


# ---- chosen seeds and settings ----------------------------------------------------------------------------------


def seeds_section(results: ExperimentResults) -> Section | None:
    """Returns the best of several seeds, marked if it was chosen on the reported topics."""
    plan, first = results.experiment.seeds, results.experiment.measures[0]
    if plan is None:
        return None
    best = {(row, part): results.best_seed(row, part) for row in results.rows for part in results.parts}
    if not any(best.values()):
        return None
    label = measure_label(results, first)
    if plan.best == "evaluation":
        how = f"The seed is the best of several by {label} on the reported topics themselves, which is optimistic."
    else:
        how = f"The seed is the best of several by {label} on the other sets of topics."
    mark = ("chosen",) if plan.best == "evaluation" else ()
    return Section("Best seed", (_chosen_table(results, best, "best-seed", "The best seed", "seed", mark, how),))


def settings_section(results: ExperimentResults) -> Section | None:
    """Returns the settings chosen for tuned conditions."""
    sets = [part for part in results.parts if part in results.sets]
    tuned = [row for row in results.rows if results.is_tuned(row)]
    best = {(row, part): results.setting(row, part) for row in tuned for part in sets}
    if not best:
        return None
    numbers = {row: len({o.cell.point for o in results.of(row, sets[0])}) for row in tuned}
    tried = "; ".join(f"{labels_text(row)} ({counted_text(number, 'setting')})" for row, number in numbers.items())
    label = measure_label(results, results.experiment.measures[0])
    others = "other sets" if results.experiment.tune_on == "sets" else "other half of the set (odd and even topics)"
    how = f"The settings of each set of topics are the best by {label} on the {others}. Tried: {tried}."
    return Section("Settings", (_chosen_table(results, best, "settings", "Chosen settings", "setting", (), how),))


def _chosen_table(
    results: ExperimentResults,
    best: Mapping[tuple[Labels, str], BestSetting | None],
    name: str,
    caption: str,
    heading: str,
    mark: tuple[str, ...],
    how: str,
) -> Table:
    measures = results.experiment.measures
    parts = [part for part in results.parts if any(at == part for _, at in best)]
    rows = []
    for row in [row for row in results.rows if any(best.get((row, part)) for part in parts)]:
        cells = [*row_cells(row)]
        for part in parts:
            chosen = best.get((row, part))
            if chosen is None:
                cells += [Cell("", marks=("missing",))] * (1 + len(measures))
                continue
            cells += [
                Cell(chosen.name),
                *(number_cell(chosen.scores.aggregate(measure), 3, mark) for measure in measures),
            ]
        rows.append(tuple(cells))
    columns = [*row_columns(results)]
    for part in parts:
        columns += [
            Column(heading, part),
            *(Column(measure_label(results, measure), part, "number") for measure in measures),
        ]
    return Table(name, caption, tuple(columns), tuple(rows), (how,), len(row_columns(results)))


# ---- costs ------------------------------------------------------------------------------------------------------


def costs_section(results: ExperimentResults) -> Section | None:
    """Returns the table of the costs that the experiment asks for."""
    if not results.experiment.costs:
        return None
    rows = []
    for row, runs, values in _cost_rows(results):
        shown = [
            number_cell(math.nan if value is None else value / COLUMNS[name].per, COLUMNS[name].digits)
            for name, value in values.items()
        ]
        rows.append((*row_cells(row), Cell(str(runs), runs), *shown))
    titles = (Column(COLUMNS[name].title, kind="number") for name in results.experiment.costs)
    notes = [
        "Measured when the runs were made, on the machines in their metadata files; for a cached training, when it was "
        "trained. n/a: not measured.",
        "Over several runs, times are means, the query time is the median of all, and memory, index and vectors are "
        "maxima. Memory is that of the process that made the run: it excludes building a cached index and may include "
        "memory of earlier rows.",
    ]
    several = max((together(outcome.costs) for outcome in results.outcomes), default=1)
    if {"latency", "rate"} & set(results.experiment.costs):
        notes.append(
            "Topics that are searched in one batch share its time equally, so this is not the waiting time of a query; "
            "encoding topics is not included." + (f" Batches have up to {several} topics." if several > 1 else "")
        )
    columns = (*row_columns(results), Column("runs", kind="number"), *titles)
    named = len(row_columns(results))
    return Section("Costs", (Table("costs", "Costs", columns, tuple(rows), tuple(notes), named),))


def _cost_rows(results: ExperimentResults) -> Iterator[tuple[Labels, int, dict[str, float | None]]]:
    """Yields each row with the number of its runs and its costs, in seconds and bytes."""
    for row in results.rows:
        sides = [outcome.costs for part in results.sets for outcome in results.of(row, part) if outcome.run is not None]
        yield row, len(sides), {name: COLUMNS[name].of(sides) for name in results.experiment.costs}


def cost_records(results: ExperimentResults) -> Records:
    """Returns one record for each row of the table and cost, in seconds, bytes and numbers."""
    names = [column.title for column in row_columns(results)]
    rows = tuple((*row, name, value) for row, _, values in _cost_rows(results) for name, value in values.items())
    return Records((*names, "cost", "value"), rows)


# ---- curves -----------------------------------------------------------------------------------------------------


def curves_section(results: ExperimentResults) -> Section | None:
    """Returns means over numeric axes, and training losses if the experiment asks for them."""
    blocks: list[Block] = [block for axis in results.experiment.numeric for block in _axis_figures(results, axis)]
    if results.experiment.curves:
        blocks += _losses(results)
    return Section("Learning curves", tuple(blocks)) if blocks else None


def _axis_figures(results: ExperimentResults, axis: str) -> Iterator[Figure]:
    """Yields the first measure over the labels of an axis: means over seeds, with deviations."""
    place = [column.title for column in row_columns(results)].index(axis)
    measure = results.experiment.measures[0]
    label = measure_label(results, measure)
    part = results.parts[-1]
    lines: dict[str, list[tuple[float, float]]] = {}
    rows = []
    for row in sorted(results.rows, key=lambda row: float(row[place])):
        scores = results.scores(row, part, partial=True)
        if scores is None:
            continue
        name = labels_text(label for at, label in enumerate(row) if at != place)
        mean, sd = scores.aggregate(measure), results.deviation(row, part, measure)
        seeds = len(results.seeds(row, part, partial=True))
        lines.setdefault(name, []).append((float(row[place]), mean))
        at = Cell(row[place], float(row[place]))
        spread = Cell("") if sd is None else number_cell(sd, 4)
        rows.append((Cell(name), at, Cell(str(seeds), seeds), number_cell(mean, 4), spread))
    columns = (Column("row"), *(Column(name, kind="number") for name in (axis, "seeds", label, f"{label} sd")))
    caption = f"{label} by {axis}{f' ({part})' if part else ''}: means over seeds"
    note = "sd: the standard deviation of the seeds' means; empty for a single seed."
    table = Table(f"over-{slug(axis)}", caption, columns, tuple(rows), (note,), 2)
    for number, some in enumerate(_line_groups(list(lines.items()))):
        name = f"curve-{slug(axis)}{f'-{number + 1}' if number else ''}"
        yield Figure(name, caption, figures.curves(some, axis, label, caption), None if number else table)


def _losses(results: ExperimentResults) -> list[Block]:
    """Returns losses by step and by epoch, a line for each training; shared trainings are drawn once."""
    by_kind: dict[str, dict[str, list[tuple[float, float]]]] = {}
    seen: set[str] = set()
    for outcome in results.outcomes:
        recorded = losses(outcome.costs)
        if not recorded or repr(recorded) in seen:
            continue
        seen.add(repr(recorded))
        row = results.experiment.row(outcome.cell.labels)
        part = results.experiment.part(outcome.cell.labels)
        seed = f"seed {outcome.cell.seed}" if outcome.cell.seed else ""
        name = labels_text(filter(None, (*row, part, seed)))
        for kind, points in recorded.items():
            by_kind.setdefault(kind, {})[name] = points
    if not by_kind:
        return [Prose(("No training recorded its losses.",))]
    blocks: list[Block] = []
    for kind, lines in by_kind.items():
        x, _, y = kind.partition(": ")
        columns = (Column("training"), Column(x, kind="number"), Column(y, kind="number"))
        rows = tuple(
            (Cell(name), number_cell(at, 0), number_cell(value, 4))
            for name, points in lines.items()
            for at, value in points
        )
        for number, some in enumerate(_line_groups(list(lines.items()))):
            name = f"{slug(y)}-by-{x}"
            table = Table(f"{name}-values", f"{y} by {x}", columns, rows, (), 2, collapsed=True) if not number else None
            caption = f"{y} by {x}"
            svg = figures.curves(some, x, y, caption)
            blocks.append(Figure(f"{name}{f'-{number + 1}' if number else ''}", caption, svg, table))
    return blocks


Line = tuple[str, Sequence[tuple[float, float]]]


def _line_groups(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    """Yields as many lines at a time as a figure can distinguish."""
    for begin in range(0, len(lines), SERIES):
        yield lines[begin : begin + SERIES]
