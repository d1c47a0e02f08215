"""What unjudged documents leave open: bounds of means and of differences, and the judged share by rank."""

from __future__ import annotations

from itertools import combinations

from harness.experiments.evaluation import Evaluation
from harness.render import figures
from harness.render.model import Block, Cell, Column, Figure, Prose, Section, Table, number_cell
from harness.render.svg import SERIES
from harness.scoring.compare import Comparison
from harness.scoring.measures import shown_decimals
from harness.scoring.unjudged import UnjudgedBounds

SENTENCE = (
    'For a paper: "Bounds are over the documents without a judgment that a run of this comparison retrieved: '
    'each is either not relevant or relevant with the largest gain of the judgments."'
)


def unjudged_bounds(evaluation: Evaluation) -> UnjudgedBounds:
    """Returns the bounds of the runs of an evaluation, which must have their lines (`lines=True`)."""
    return UnjudgedBounds(evaluation.task.scorer, evaluation.runs, evaluation.scores)


def bounds_table(evaluation: Evaluation, bounds: UnjudgedBounds) -> Table:
    """Returns the mean of each run and measure, with the lowest and the highest that it can be."""
    label = evaluation.scores[0].protocol.label
    rows = tuple(
        (
            Cell(each.run),
            Cell(label(each.measure)),
            *(number_cell(end, shown_decimals(each.measure, 4)) for end in (each.low, each.value, each.high)),
        )
        for each in bounds.means()
    )
    names = ("lowest", "mean", "highest")
    columns = (Column("run"), Column("measure"), *(Column(name, kind="number") for name in names))
    notes = ["Each unjudged document that one of the runs has is either not relevant or has the largest gain."]
    if bounds.unknown:
        notes.append(f"No bounds are known of {', '.join(map(label, bounds.unknown))}.")
    return Table("bounds", "Means by what unjudged documents may be", columns, rows, tuple(notes), row_headers=2)


def order_table(evaluation: Evaluation, bounds: UnjudgedBounds, comparison: Comparison | None) -> Table:
    """Returns the bounds of the differences of the compared pairs, or of all, and which order stands."""
    label = evaluation.scores[0].protocol.label
    pairs = list(combinations([scores.run for scores in evaluation.scores], 2))
    if comparison is not None:
        pairs = list(dict.fromkeys((row.a, row.b) for row in comparison.rows))
    differences = bounds.differences(pairs)
    rows = tuple(
        (
            *(Cell(text) for text in (each.a, each.b, label(each.measure))),
            *(number_cell(end, 4) for end in (each.low, each.difference, each.high)),
            Cell({"a": f"{each.a} is above", "b": f"{each.b} is above"}.get(each.order, each.order)),
        )
        for each in differences
    )
    names = ("lowest", "a - b", "highest")
    columns = (*map(Column, ("a", "b", "measure")), *(Column(name, kind="number") for name in names), Column("stands"))
    tight = dict.fromkeys(label(each.measure) for each in differences if each.tight)
    attained = f"Bounds are attained by an assignment in {', '.join(tight)}. " if tight else ""
    wide = "Of other measures, no" if tight else "No"
    notes = [f"{attained}{wide} difference is outside of its bounds; the true ones may be narrower. Means, not tests."]
    if any(each.order == "open" for each in differences):
        notes.append("open: the sign depends on the unjudged documents.")
    return Table("orders", "Differences by what unjudged documents may be", columns, rows, tuple(notes), row_headers=3)


def unjudged_section(evaluation: Evaluation, comparison: Comparison | None = None) -> Section:
    """Returns the section of a report: bounds, differences that stand, and the judged share by rank."""
    bounds = unjudged_bounds(evaluation)
    blocks: list[Block] = [bounds_table(evaluation, bounds)]
    if len(evaluation.scores) > 1:
        blocks.append(order_table(evaluation, bounds, comparison))
    shares = list(bounds.judged_shares().items())
    drawn = shares[:SERIES]
    more = f", the first {len(drawn)} runs" if len(drawn) < len(shares) else ""
    columns = (Column("run"), Column("k", kind="number"), Column("Judged@k", kind="number"))
    rows = tuple(
        (Cell(run), Cell(f"{k:.0f}", k), number_cell(share, 3)) for run, points in shares for k, share in points
    )
    table = Table("judged-by-rank", "Judged@k", columns, rows, (), 2, collapsed=True)
    caption = f"Share of judged documents among the first k results{more}"
    blocks.append(Figure("judged", caption, figures.curves(drawn, "k", "Judged@k", caption), table))
    return Section("Unjudged documents", (*blocks, Prose((SENTENCE,))))
