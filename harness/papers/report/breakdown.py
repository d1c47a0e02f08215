"""Means of a paper's runs by a label of the topics, such as their difficulty."""

from __future__ import annotations

import math

from harness.papers.reproduce import PaperReproduction
from harness.render import figures
from harness.render.model import Cell, Column, Figure, Section, Table, number_cell


def breakdown_section(reproduction: PaperReproduction) -> Section | None:
    """Returns the section of the paper's key `breakdown`; None without that key or without scores."""
    entry = reproduction.paper.config.breakdown
    if entry is None or not reproduction.scores:
        return None
    attribute, measure, values, runs = entry.attribute, entry.measure, entry.values, entry.runs
    parts: dict[str, dict[str, list[str]]] = {}
    for collection, topics in reproduction.topics.items():
        judged = set(next(s for (c, _), s in reproduction.scores.items() if c == collection).topics)
        for topic in topics:
            if topic.id in judged and topic.attributes.get(attribute) in values:
                parts.setdefault(collection, {}).setdefault(topic.attributes[attribute], []).append(topic.id)
    rows, means = [], []
    for value in values:
        cells, bars = [], []
        ids = {collection: set(topic_ids.get(value, ())) for collection, topic_ids in parts.items()}
        n = 0  # topics with a value
        for run in runs:
            numbers = [
                x
                for collection, topic_ids in ids.items()
                for x in reproduction.scores[(collection, run)].select(topic_ids).column(measure)
                if not math.isnan(x)
            ]
            n = max(n, len(numbers))
            mean = math.fsum(numbers) / len(numbers) if numbers else math.nan
            bars.append(mean)
            cells.append(number_cell(mean, 3))
        rows.append((Cell(value), Cell(str(n), n), *cells))
        means.append(bars)
    columns = (Column(attribute), Column("n", kind="number"), *(Column(run, kind="number") for run in runs))
    without = [collection for collection in reproduction.topics if collection not in parts]
    judged_in = {c: len(s.topics) for (c, _), s in reproduction.scores.items() if c in parts}
    labelled = {c: sum(len(topic_ids) for topic_ids in values_of.values()) for c, values_of in parts.items()}
    covered = ", ".join(f"{labelled[c]} of the {judged_in[c]} topics of {c}" for c in parts)
    note = f"Labels exist for {covered}" + (f"; {', '.join(without)} has none" if without else "") + "."
    table = Table("breakdown", entry.title, columns, tuple(rows), (note,))
    label = next(iter(reproduction.scores.values())).protocol.label(measure)
    svg = figures.grouped_bars(values, runs, means, label)
    return Section("Distribution of differences", (Figure("breakdown-figure", entry.title, svg, table),))
