"""What experiments with MathAMR+ have besides: heat maps of similarities (its Figure 4.1), and the printed values."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.experiments.results import Results
from harness.papers.cells import Cell as Published
from harness.papers.paper import load_paper
from harness.render.heat_map import heat_map
from harness.render.model import Block, Cell, Column, Figure, Section, Table, Text, number_cell, slug
from harness.reports.experiment_parts import label_of
from harness.store import sidecar
from harness.store.cost import SIMILARITIES

TABLES: Mapping[str, tuple[str, ...]] = {
    "mathamr-formulas": ("4.6", "4.7"),
    "mathamr-structure": ("4.9",),
    "mathamr-edges": ("4.10", "4.11"),
    "mathamr-initialisation": ("4.13",),
    "mathamr-strategy": ("4.15", "4.16"),
    "mathamr-loss": ("4.17",),
    "mathamr-benchmark": ("4.19",),
    "mathamr-formula-search": ("4.21",),
}
# Where the thesis contradicts itself, by its tables.
REMARKS: Mapping[str, str] = {
    "4.6": "One setting has other values in other tables, whose models were trained anew: best nDCG′ .497 in 4.6, "
    ".461 in 4.9, .431 in 4.10, .454 in 4.15.",
    "4.7": "The text puts both trees at about 30% more training time than either; table 4.8 gives 38.6% over layout "
    "trees and 30.4% over operator trees.",
    "4.11": "The text puts all edges at 28% more time and 24% more memory than none; table 4.12 gives 38.5% and 28.1%.",
    "4.13": "Section 3.3.1 calls Xavier-uniform vectors the default, tables 4.5 and 4.18 learned ones that begin at "
    "zero; table 4.14 prints 7.917 million parameters, table 4.20 5.654 million with four times the bases. With the "
    "settings of 4.5 the model here has 2.523 million, with those of 4.18 it has 6.077.",
    "4.16": "The text has P′@10 fall by 0.12 from 5,000 to 1,000 candidates; the table by 0.012.",
    "4.17": "The text has re-ranking gain 0.079 nDCG′ with β = 0.3; the table 0.080.",
}
METRICS = {"nDCG": "ndcg_prime", "AP": "map_prime", "P@10": "p10_prime", "Bpref": "bpref"}


def heat_maps(results: Results) -> Sequence[Section]:
    """The cosines of a topic's vectors with a document's, for each row of the first seed that has noted them."""
    figures: list[Block] = []
    seen = set()
    for outcome in results.outcomes:
        row = ", ".join(results.experiment.row(outcome.cell.labels))
        noted = sidecar.costs(sidecar.beside(outcome.run)).get(SIMILARITIES) if outcome.run is not None else None
        if row in seen or not isinstance(noted, list):
            continue
        seen.add(row)
        for each in noted:
            figures.append(_figure(row, each))
    if not figures:
        return []
    said = (
        "Cosines of the vectors of a topic (rows) and of a document (columns): F of formulas, S of sentences, D whole."
    )
    return [Section("Similarities of virtual nodes", (Text((said,)), *figures))]


def _figure(row: str, noted: Mapping[str, Any]) -> Figure:
    values = [[float(value) for value in line] for line in noted["values"]]
    flat = [value for line in values for value in line]
    spread = statistics.pstdev(flat)
    caption = f"{row}: topic {noted['topic']} and document {noted['document']}; standard deviation {spread:.3f}"
    columns = tuple(Column(name, kind="number") for name in noted["columns"])
    cells = tuple(
        (Cell(name), *(number_cell(value) for value in line)) for name, line in zip(noted["rows"], values, strict=True)
    )
    name = slug(f"similarities-{row}-{noted['topic']}-{noted['document']}")
    table = Table(f"{name}-values", caption, (Column("vector"), *columns), cells, row_headers=1)
    return Figure(name, caption, heat_map(noted["rows"], noted["columns"], values, caption), table)


def beside(results: Results) -> Sequence[Section]:
    """The values that the thesis prints for rows of the same name beside those here; no verdict, as nothing is equal.

    Notes of the printed values, and where the thesis contradicts itself, stand below.
    """
    wanted = TABLES.get(results.name, ())
    printed = [cell for cell in load_paper("mathamr-plus").cells if cell.table in wanted]
    rows = [
        (Cell(cell.table), Cell(", ".join(row)), Cell(label_of(results, measure)), Cell(cell.value), Cell(kind), *here)
        for cell, kind, row, measure in _matching(results, printed)
        for here in [_here(results, row, measure, kind)]
    ]
    if not rows:
        return []
    columns = [Column(name) for name in ("table", "row", "measure")]
    columns += [Column("printed", kind="number"), Column("of"), Column("here", kind="number"), Column("seeds here")]
    scale = results.experiment.scale.get(results.scale)
    notes = [f"Scaled down: {scale.says}."] if scale is not None and scale.says else []
    notes.append("None of them is a reproduction: corpus, graphs, pairs or device are others than the thesis'.")
    inconsistent = [f"{cell.table}, {cell.system}: {cell.note}" for cell in printed if cell.note]
    table = Table("thesis", "Printed values and those here", tuple(columns), tuple(rows), tuple(notes))
    lines = dict.fromkeys([*inconsistent, *(f"{name}: {REMARKS[name]}" for name in wanted if name in REMARKS)])
    said = (Text(tuple(lines)),) if lines else ()
    return [Section("Beside the thesis", (table, *said))]


def _matching(results: Results, printed: Sequence[Published]) -> Iterator[tuple[Published, str, tuple[str, ...], str]]:
    for cell in printed:
        kind = "best seed" if cell.aggregate == "best_seed" else "mean" if "mean" in cell.aggregate else "run"
        for row in results.rows:
            if cell.system.removesuffix(" (ef = 128)") in row and (not cell.group or cell.group in row):
                for measure in results.experiment.measures:
                    if METRICS.get(measure) == cell.metric:
                        yield cell, kind, row, measure


def _here(results: Results, row: tuple[str, ...], measure: str, kind: str) -> tuple[Cell, Cell]:
    """Of the last set of topics, as the thesis has ARQMath-3 alone."""
    of = results.seeds(row, results.sets[-1])
    if not of:
        return Cell("n/a"), Cell("0")
    means = [scores.mean(measure) for scores in of]
    if kind == "best seed":
        first = results.experiment.measures[0]
        return number_cell(max(of, key=lambda scores: scores.mean(first)).mean(measure)), Cell(str(len(of)))
    spread = f" ± {statistics.stdev(means):.3f}" if len(means) > 1 else ""
    return Cell(f"{statistics.mean(means):.3f}{spread}", statistics.mean(means)), Cell(str(len(of)))
