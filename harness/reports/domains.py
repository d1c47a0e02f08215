"""Report section on means by domain of the topics, with bootstrap intervals."""

from __future__ import annotations

import math

import numpy as np

from harness.experiments.evaluate import Evaluation
from harness.io.names import in_natural_order
from harness.render.model import Cell, Column, Section, Table
from harness.reports.means import ranked_by_mean
from harness.reports.parts import counted_topics, slice_cells
from harness.scoring.bootstrap import mean_resampled
from harness.scoring.measures import parse_measure, shown_decimals

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
    columns = [Column("run")]
    cells: list[list[Cell]] = [[Cell(scores.run)] for scores in ranked]
    for domain in ("", *domains):
        parts = [scores.select(t for t in of if domain in ("", *of[t])) for scores in ranked]
        low, high = mean_resampled(np.stack([part.column(measure) for part in parts]), resamples=RESAMPLES, seed=seed)
        group = f"{domain or 'overall'} (n = {counted_topics(parts, measure).text})"
        columns += [Column("mean", group, "number"), Column("95% interval", group, parts=INTERVAL)]
        means, ends = (
            slice_cells(parts, measure, shown_decimals(measure, 3)),
            zip(low.tolist(), high.tolist(), strict=True),
        )
        for row, part, mean, between in zip(cells, parts, means, ends, strict=True):
            shown = [parse_measure(measure).of_mean(end, part.n(measure)) for end in between]
            row += [mean, interval_cell(shown[0], shown[1])]
    note = f"Bootstrap over topics with expanded percentiles, {RESAMPLES:,} resamples. Domains overlap. Not tested."
    table = Table("domains", f"{label} by domain", tuple(columns), tuple(map(tuple, cells)), (note,))
    return Section("Domains", (table,))


def interval_cell(low: float, high: float, digits: int = 3) -> Cell:
    """Makes a cell for a column whose parts are `INTERVAL`."""
    if math.isnan(low) or math.isnan(high):
        return Cell("n/a", values=(math.nan, math.nan))
    return Cell(f"{low:.{digits}f} to {high:.{digits}f}", values=(low, high))
