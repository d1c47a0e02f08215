"""Sections of experiments with MathAMR+: heat maps of similarities (Figure 4.1 of the thesis) and published values."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.experiments import costs
from harness.experiments.experiment import FULL
from harness.experiments.results import ExperimentResults
from harness.papers.cells import PublishedCell as Published
from harness.papers.experiment_runs import matching_rows
from harness.papers.paper import Paper, load_paper
from harness.render.charts import heat_map
from harness.render.model import Cell, Column, Figure, Prose, Section, Table, number_cell, slug
from harness.reports.experiment_parts import measure_label
from harness.store import cost, sidecar
from harness.store.cost import SIMILARITIES

PAPER = "mathamr-plus"
COLUMNS = ("table", "row", "measure", "printed", "of", "here", "sd", "seeds here", "marked")


def heat_map_sections(results: ExperimentResults) -> Sequence[Section]:
    """Returns the cosines of a topic's vectors with a document's, for each row whose first seed recorded them."""
    noted_of: dict[str, list[Mapping[str, Any]]] = {}
    for outcome in results.outcomes:
        row = ", ".join(results.experiment.row(outcome.cell.labels))
        noted = sidecar.costs(sidecar.sidecar_path(outcome.run)).get(SIMILARITIES) if outcome.run is not None else None
        if isinstance(noted, list):
            noted_of.setdefault(row, noted)
    figures = [_similarity_figure(row, each) for row, noted in noted_of.items() for each in noted]
    if not figures:
        return []
    legend = "Cosines of the vectors of a topic (rows) and of a document (columns): F formula, S sentence, D document."
    return [Section("Similarities of virtual nodes", (Prose((legend,)), *figures))]


def _similarity_figure(row: str, noted: Mapping[str, Any]) -> Figure:
    values = [[float(value) for value in line] for line in noted["values"]]
    spread = statistics.pstdev(value for line in values for value in line)
    caption = f"{row}: topic {noted['topic']} and document {noted['document']}; standard deviation {spread:.3f}"
    columns = tuple(Column(name, kind="number") for name in noted["columns"])
    cells = tuple((Cell(name), *map(number_cell, line)) for name, line in zip(noted["rows"], values, strict=True))
    name = slug(f"similarities-{row}-{noted['topic']}-{noted['document']}")
    table = Table(f"{name}-values", caption, (Column("vector"), *columns), cells, row_headers=1)
    drawn = heat_map(noted["rows"], noted["columns"], values, caption, axes=("topic", "document"))
    return Figure(name, caption, drawn, table)


def published_value_sections(results: ExperimentResults) -> Sequence[Section]:
    """Compares values of the thesis with those of rows of the same name; without verdicts, as no setting is equal.

    Every row is marked with scale and device. Notes on published values, and contradictions within the thesis, follow
    the table.
    """
    paper = load_paper(PAPER)
    wanted = paper.config.experiments.get(results.name, ())
    printed = [cell for cell in paper.cells if cell.table in wanted]
    mark = Cell(_scale_and_device(results))
    rows = []
    for cell, kind, row in _matching_rows(results, printed):
        compared = _computed(results, row, cell, kind, paper)
        if compared is not None:
            title, *here = compared
            rows.append((Cell(cell.table), Cell(", ".join(row)), title, Cell(cell.value), Cell(kind), *here, mark))
    if not rows:
        return []
    numbers = ("printed", "here", "sd", "seeds here")
    columns = tuple(Column(name, kind="number" if name in numbers else "text") for name in COLUMNS)
    scale = results.experiment.scale.get(results.scale)
    notes = [f"Scaled down: {scale.says}."] if scale is not None and scale.says else []
    notes += [
        "None of them is a reproduction: corpus, graphs, pairs or device differ from the thesis.",
        "Marks of significance refer to runs of the best seeds in the thesis, and to means over seeds in our rows.",
    ]
    metrics = {cell.metric for cell in printed}
    notes += [f"{metric}: {note}." for metric, note in paper.config.metric_notes.items() if metric in metrics]
    if not metrics.isdisjoint(paper.config.costs):
        notes.append("MB and GB are 10^6 and 10^9 bytes. Our costs are those of the table of costs, over all seeds.")
    inconsistent = [f"{cell.table}, {cell.system}: {cell.note}" for cell in printed if cell.note]
    table = Table("thesis", "Published and recomputed values", columns, tuple(rows), tuple(notes))
    said = paper.config.table_notes
    lines = dict.fromkeys([*inconsistent, *(f"{name}: {' '.join(said[name])}" for name in wanted if name in said)])
    remarks = (Prose(tuple(lines)),) if lines else ()
    return [Section("Published values", (table, *remarks))]


def _scale_and_device(results: ExperimentResults) -> str:
    """Returns the scale and the device of an experiment's results, in words that fit a cell."""
    gpu = any(each.costs.get(name) for each in results.outcomes for name in (cost.GPU_MEMORY, cost.TRAINING_GPU_MEMORY))
    setting = "scaled down" if results.scale != FULL else "other settings" if results.extra else "full scale"
    return f"{setting}, {'GPU' if gpu else 'CPU'}"


def _matching_rows(
    results: ExperimentResults, printed: Sequence[Published]
) -> Iterator[tuple[Published, str, tuple[str, ...]]]:
    for cell in printed:
        kind = "best seed" if cell.aggregate == "best_seed" else "mean" if "mean" in cell.aggregate else "run"
        yield from ((cell, kind, row) for row in matching_rows(cell, results.rows))


def _computed(
    results: ExperimentResults, row: tuple[str, ...], printed: Published, kind: str, paper: Paper
) -> tuple[Cell, Cell, Cell, Cell] | None:
    """Returns title, value, deviation and seeds of the last set of topics (ARQMath-3); None if not measured."""
    part = results.sets[-1]
    if (spent := paper.config.costs.get(printed.metric)) is not None:
        sides = [outcome.costs for outcome in results.of(row, part) if outcome.run is not None]
        value = costs.COLUMNS[spent.column].of(sides) if spent.column in results.experiment.costs else None
        if value is None and spent.column == "gpu_memory":
            return None
        digits = len(printed.value.partition(".")[2])
        shown = number_cell(math.nan if value is None else value / spent.unit, digits)
        return Cell(paper.metric(printed.metric)), shown, Cell(""), Cell(str(len(sides)), len(sides))
    measure = "" if paper.scored is None else paper.scored.measures.get(printed.metric, "")
    if measure not in results.experiment.measures:
        return None
    title_cell = Cell(measure_label(results, measure))
    of, mean = results.seeds(row, part), results.scores(row, part)
    seeds = Cell(str(len(of)), len(of))
    if mean is None:
        return title_cell, Cell("n/a"), Cell(""), seeds
    if kind == "best seed":
        first = results.experiment.measures[0]
        best = max(of, key=lambda scores: scores.mean(first))
        return title_cell, number_cell(best.aggregate(measure)), Cell(""), seeds
    sd = results.deviation(row, part, measure)
    return title_cell, number_cell(mean.aggregate(measure)), Cell("") if sd is None else number_cell(sd), seeds
