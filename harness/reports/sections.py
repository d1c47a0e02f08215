"""Report section on means by domain of the topics, with bootstrap intervals.

What unjudged documents leave open: bounds of means and of differences, and the judged share by rank.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from harness.experiments.evaluation import Evaluation
from harness.io.names import in_natural_order
from harness.render import figures
from harness.render.model import Block, Cell, Column, Figure, Prose, Section, Table, cells, columns, number_cell
from harness.render.svg import SERIES
from harness.reports.means import ranked_by_mean
from harness.reports.parts import counted_topics, slice_cells
from harness.scoring.comparison import Comparison
from harness.scoring.measures import parse_measure, shown_decimals
from harness.scoring.resampling import mean_resampled
from harness.scoring.unjudged import UnjudgedBounds

DOMAIN = "domain"  # an attribute of topics
RESAMPLES = 2000
INTERVAL = ("95% low", "95% high")


def domain_section(evaluation: Evaluation, seed: int = 0) -> Section | None:
    """Returns the first measure over all topics and by domain, with bootstrap intervals; None without domains.

    Domains overlap: a topic may be in several.
    """
    first = evaluation.scores[0]
    measure = first.measures[0]
    label = first.protocol.label(measure)
    known = evaluation.task.topics.by_id()
    of = {topic: known[topic].values(DOMAIN) for topic in first.topics if topic in known}
    domains = in_natural_order(domain for names in of.values() for domain in names)
    if not domains:
        return None
    ranked = ranked_by_mean(evaluation.scores)
    heads = [Column("run")]
    rows: list[list[Cell]] = [[Cell(scores.run)] for scores in ranked]
    for domain in ("", *domains):
        parts = [scores.select(t for t in of if domain in ("", *of[t])) for scores in ranked]
        low, high = mean_resampled(np.stack([part.column(measure) for part in parts]), resamples=RESAMPLES, seed=seed)
        group = f"{domain or 'overall'} (n = {counted_topics(parts, measure).text})"
        heads += [Column("mean", group, "number"), Column("95% interval", group, parts=INTERVAL)]
        means, of_mean = slice_cells(parts, measure, shown_decimals(measure, 3)), parse_measure(measure).of_mean
        for row, part, mean, *ends in zip(rows, parts, means, low.tolist(), high.tolist(), strict=True):
            shown = [of_mean(end, part.n(measure)) for end in ends]
            row += [mean, interval_cell(shown[0], shown[1])]
    note = f"Bootstrap over topics with expanded percentiles, {RESAMPLES:,} resamples. Domains overlap. Not tested."
    table = Table("domains", f"{label} by domain", tuple(heads), tuple(map(tuple, rows)), (note,))
    return Section("Domains", (table,))


def interval_cell(low: float, high: float, digits: int = 3) -> Cell:
    """Makes a cell for a column whose parts are `INTERVAL`."""
    if math.isnan(low) or math.isnan(high):
        return Cell("n/a", values=(math.nan, math.nan))
    return Cell(f"{low:.{digits}f} to {high:.{digits}f}", values=(low, high))


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
        cells(
            *(each.run, label(each.measure)),
            *(number_cell(end, shown_decimals(each.measure, 4)) for end in (each.low, each.value, each.high)),
        )
        for each in bounds.means()
    )
    heads = columns("run", "measure", numbers=("lowest", "mean", "highest"))
    notes = ["Each unjudged document that one of the runs has is either not relevant or has the largest gain."]
    if bounds.unknown:
        notes.append(f"No bounds are known of {', '.join(map(label, bounds.unknown))}.")
    return Table("bounds", "Means by what unjudged documents may be", heads, rows, tuple(notes), row_headers=2)


def order_table(evaluation: Evaluation, bounds: UnjudgedBounds, comparison: Comparison | None) -> Table:
    """Returns the bounds of the differences of the compared pairs, or of all, and which order stands."""
    label = evaluation.scores[0].protocol.label
    pairs = list(combinations([scores.run for scores in evaluation.scores], 2))
    if comparison is not None:
        pairs = list(dict.fromkeys((row.a, row.b) for row in comparison.rows))
    differences = bounds.differences(pairs)
    rows = tuple(
        cells(
            *(each.a, each.b, label(each.measure)),
            *(number_cell(end, 4) for end in (each.low, each.difference, each.high)),
            {"a": f"{each.a} is above", "b": f"{each.b} is above"}.get(each.order, each.order),
        )
        for each in differences
    )
    heads = (*columns("a", "b", "measure", numbers=("lowest", "a - b", "highest")), Column("stands"))
    tight = dict.fromkeys(label(each.measure) for each in differences if each.tight)
    attained = f"Bounds are attained by an assignment in {', '.join(tight)}. " if tight else ""
    wide = "Of other measures, no" if tight else "No"
    notes = [f"{attained}{wide} difference is outside of its bounds; the true ones may be narrower. Means, not tests."]
    if any(each.order == "open" for each in differences):
        notes.append("open: the sign depends on the unjudged documents.")
    return Table("orders", "Differences by what unjudged documents may be", heads, rows, tuple(notes), row_headers=3)


def unjudged_section(evaluation: Evaluation, comparison: Comparison | None = None) -> Section:
    """Returns the section of a report: bounds, differences that stand, and the judged share by rank."""
    bounds = unjudged_bounds(evaluation)
    blocks: list[Block] = [bounds_table(evaluation, bounds)]
    if len(evaluation.scores) > 1:
        blocks.append(order_table(evaluation, bounds, comparison))
    shares = list(bounds.judged_shares().items())
    drawn = shares[:SERIES]
    more = f", the first {len(drawn)} runs" if len(drawn) < len(shares) else ""
    heads = columns("run", numbers=("k", "Judged@k"))
    rows = tuple(
        (Cell(run), Cell(f"{k:.0f}", k), number_cell(share, 3)) for run, points in shares for k, share in points
    )
    table = Table("judged-by-rank", "Judged@k", heads, rows, (), 2, collapsed=True)
    caption = f"Share of judged documents among the first k results{more}"
    blocks.append(Figure("judged", caption, figures.curves(drawn, "k", "Judged@k", caption), table))
    return Section("Unjudged documents", (*blocks, Prose((SENTENCE,))))
