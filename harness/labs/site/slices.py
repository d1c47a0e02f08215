"""Pages of slices: means of all runs over the topics with each value of an attribute, such as category or language."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from harness.labs.categories import SMALL, topic_slices
from harness.labs.site.lab_page import Columns, decimal, lab_page, listing, run_item, whole
from harness.labs.site.lab_view import LabView
from harness.render import figures
from harness.render.model import Figure, Records
from harness.render.pages import Block, Head, Item, Link, PageSection, Rich, file_stem
from harness.render.site_html import SitePage, json_document, json_number
from harness.reports.parts import equal, highest

MOST_DRAWN = 6  # runs of the figure


def slice_pages(field: LabView) -> list[SitePage]:
    """Returns a page for each attribute of topics, and their list; nothing if there are no slices."""
    parts = topic_slices(field.topics, field.known)
    if not parts:
        return []
    pages = [_slice_page(field, name, values) for name, values in parts.items()]
    columns: Columns[str] = (
        ("attribute", lambda name: Item(name, link=f"{field.base}/slices/{file_stem(name)}.html")),
        (Head("values", "number"), lambda name: whole(len(parts[name]))),
        (
            "topics of each value",
            lambda name: Item(", ".join(f"{value} ({len(topics)})" for value, topics in parts[name].items())),
        ),
    )
    table = listing("attributes", "Attributes of the topics", columns, parts)
    headline = f"Means over parts of the {len(field.topics)} topics."
    page = lab_page(field, "slices/index.html", "Slices", headline, [PageSection("", (table,))], "slices/index.html")
    data = json_document("site-slices", {"attributes": {name: dict(values) for name, values in parts.items()}})
    rows = tuple((name, value, t) for name, values in parts.items() for value, topics in values.items() for t in topics)
    return [SitePage(page, data, Records(("attribute", "value", "topic"), rows)), *pages]


def _means(field: LabView, topics: Sequence[str]) -> tuple[list[float], list[int]]:
    """Returns the mean of the main measure of each run over some topics, NaN if none counts, and how many count."""
    at = {topic: n for n, topic in enumerate(field.topics)}
    values = field.values(field.main)[[at[topic] for topic in topics]]
    counted = ~np.isnan(values)
    n = counted.sum(axis=0)
    sums = np.where(counted, values, 0.0).sum(axis=0)
    return [float(s / c) if c else math.nan for s, c in zip(sums, n, strict=True)], n.tolist()


def _span(counts: Sequence[int]) -> str:
    """Returns the number of topics that count, or its range where runs differ."""
    low, high = min(counts, default=0), max(counts, default=0)
    return str(low) if low == high else f"{low} to {high}"


def _slice_page(field: LabView, name: str, values: Mapping[str, Sequence[str]]) -> SitePage:
    label = field.label(field.main)
    found_of = {value: _means(field, topics) for value, topics in values.items()}
    means = {value: column for value, (column, _) in found_of.items()}
    counts = {value: n for value, (_, n) in found_of.items()}
    spans = {value: _span(n) for value, n in counts.items()}
    best = {value: highest(column[: field.ranked]) for value, column in means.items()}
    rows = [
        (name, value, run.name, counts[value][n], json_number(column[n]))
        for n, run in enumerate(field.runs)
        for value, column in means.items()
    ]

    def of_value(value: str) -> tuple[Head, Callable[[int], Item]]:
        column = means[value]
        head = Head(f"{value} ({spans[value]})", "number")
        return head, lambda n: decimal(column[n], best=equal(column[n], best[value]))

    columns: Columns[int] = (
        ("run", lambda n: run_item(field.runs[n])),
        (
            Head(f"all ({_span(_means(field, field.topics)[1])})", "number"),
            lambda n: decimal(field.runs[n].standing.mean(field.main).value),
        ),
        *map(of_value, values),
    )
    few = [value for value, n in counts.items() if min(n, default=0) < SMALL]
    notes = [f"{label}; in parentheses the number of topics with a value. Bold: the best of the ranked runs."]
    notes += [f"Fewer than {SMALL} topics: {', '.join(few)}. Such means say little."] if few else []
    blocks: list[Block] = []
    shown = min(MOST_DRAWN, field.ranked)
    if shown and len(values) <= 12:
        drawn = [[means[value][n] for n in range(shown)] for value in values]
        groups = [f"{value} ({spans[value]})" for value in values]
        names = [run.name for run in field.runs[:shown]]
        svg = figures.grouped_bars(groups, names, drawn, label, f"{label} by {name}")
        blocks.append(Figure("bars", f"{label} of the first {shown} runs by {name}", svg))
    runs = range(len(field.runs))
    blocks.append(listing("means", f"{label} by {name}", columns, runs, search="if long", notes=tuple(notes)))
    lists = [_topics_text(field, value, topics) for value, topics in values.items()]
    page = lab_page(
        field,
        f"slices/{file_stem(name)}.html",
        f"Slices by {name}",
        f"{label} over the topics of each {name}.",
        [PageSection("", tuple(blocks)), PageSection("Topics", tuple(lists))],
        "slices/index.html",
    )
    data = json_document(
        "site-slice",
        {
            "attribute": name,
            "measure": field.main,
            "topics": {value: list(topics) for value, topics in values.items()},
            "means": {
                run.name: {value: json_number(column[n]) for value, column in means.items()}
                for n, run in enumerate(field.runs)
            },
        },
    )
    return SitePage(page, data, Records(("attribute", "value", "run", "topics", "mean"), tuple(rows)))


def _topics_text(field: LabView, value: str, topics: Sequence[str]) -> Rich:
    parts: list[str | Link] = [f"{value}: "]
    for number_, topic in enumerate(topics):
        parts += [", " if number_ else "", Link(topic, field.topic_paths[topic])]
    return Rich((*parts, "."))
