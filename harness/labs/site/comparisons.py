"""Pages that compare all runs: any two of them, all with the best one, and means over parts of the topics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from harness.labs.board import TestVerdict
from harness.labs.leaderboard_report import clustered_sentence
from harness.labs.site.lab_page import Columns, decimal, lab_page, listing, run_item, whole
from harness.labs.site.lab_view import LabView
from harness.labs.standing import SMALL, topic_slices
from harness.render import figures
from harness.render.model import Figure, Prose, Records
from harness.render.pages import Block, Head, Item, Link, Listing, PageSection, Rich, RunValues, file_stem
from harness.render.site_html import SitePage, json_document, json_number
from harness.reports.parts import equal, highest
from harness.scoring.comparison import PairDifference
from harness.scoring.intervals import numbers_of_names

MOST_VALUES = 120_000  # values in the page: further measures are left out
MOST_NAMED = 3  # topics named in the table without scripts


def pairs_page(field: LabView) -> SitePage:
    """Returns the page of pairs of runs."""
    size = max(1, len(field.runs) * len(field.topics))
    measures = field.board.measures[: max(1, MOST_VALUES // size)]
    measures = measures if field.main in measures else (field.main,)
    measures = (field.main, *(measure for measure in measures if measure != field.main))
    clusters = field.clusters
    indices = () if clusters is None else tuple(numbers_of_names([clusters[topic] for topic in field.topics]).tolist())
    place = {run.name: at for at, run in enumerate(field.runs)}
    block = RunValues(
        tuple((run.name, run.key, run.path) for run in field.runs),
        tuple((topic, field.title_of(topic), field.topic_paths[topic]) for topic in field.topics),
        tuple(map(field.label, measures)),
        tuple(tuple(tuple(column) for column in field.values(measure).T.tolist()) for measure in measures),
        indices,
        tuple(
            (min(map(place.__getitem__, pair)), max(map(place.__getitem__, pair)), test.p, test.significant)
            for pair, test in field.verdicts.items()
        ),
        field.corrected_for,
        field.board.alpha,
        (0, min(1, len(field.runs) - 1)),
    )
    parts = [
        PageSection("", (block,)),
        PageSection(f"All runs against {field.best}", (_against_best(field),)) if field.against_best else None,
        PageSection("Method", (Prose(_method_text(field)),)),
    ]
    page = lab_page(field, "pairs.html", "Compare two runs", "", parts)
    return SitePage(page, _pairs_json(field, measures), _pairs_records(field))


def _method_text(field: LabView) -> tuple[str, ...]:
    label = field.label(field.main)
    if field.verdicts:
        family = f"Pairs of ranked runs in {label} have the p of the leaderboard: {field.corrected_for}."
    else:
        family = f"The leaderboard makes no tests: {field.board.why}."
    return (
        f"Paired two-sided t-tests over topics. {family} No other p is corrected, and nothing is claimed of it: a pair "
        "that is chosen because it differs much has too small a p.",
        *([clustered_sentence(field.board.clusters)] if field.board.clusters else []),
        f"The table above is of {label}; values in the page are rounded to six decimals.",
    )


def _against_best(field: LabView) -> Listing:
    """Returns a row per run: its difference from the best run, and the topics where they differ most."""
    best, values = field.runs[0], field.values(field.main)
    against = [(n, row) for n, run in enumerate(field.runs) if (row := field.against_best.get(run.name)) is not None]

    def furthest(n: int, sign: int) -> Item:
        differences = values[:, n] - values[:, 0]
        better = (t for t in range(len(field.topics)) if sign * differences[t] > 0)
        few = sorted(better, key=lambda t: -sign * differences[t])[:MOST_NAMED]
        return Item(", ".join(f"{field.topics[t]} {differences[t]:+.3f}" for t in few).replace("-0.", "−0."))

    def interval(row: PairDifference) -> Item:
        if row.p is None:
            return Item("undefined")
        return Item(f"{row.ci_low:+.4f} to {row.ci_high:+.4f}".replace("-", "−"), row.ci_low)

    columns: Columns[tuple[int, PairDifference]] = (
        ("run", lambda each: run_item(field.runs[each[0]])),
        (Head("difference", "number"), lambda each: decimal(each[1].difference, 4, signed=True)),
        (Head("95% interval", "number"), lambda each: interval(each[1])),
        (Head("p", "number"), lambda each: _p_item(each[1].p)),
        (
            Head("corrected p", "number", about=f"Pairs of ranked runs: {field.corrected_for}"),
            lambda each: _corrected(field, each[1].a, best.name),
        ),
        (
            Head("higher / equal / lower", "number"),
            lambda each: Item(f"{each[1].wins} / {each[1].ties} / {each[1].losses}", float(each[1].wins)),
        ),
        ("highest above the best", lambda each: furthest(each[0], 1)),
        ("lowest below the best", lambda each: furthest(each[0], -1)),
    )
    caption = f"{field.label(field.main)} of all runs against {field.best}, {best.name}"
    return listing("against-best", caption, columns, against, search="if long")


def _corrected(field: LabView, run: str, best: str) -> Item:
    """Returns the corrected p with what it says; `not corrected` outside the family."""
    test = field.verdicts.get(frozenset((run, best)))
    if test is None:
        return Item("not corrected")
    said = {True: "significant", False: "not significant", None: ""}[test.significant]
    return replace(_p_item(test.p), small=said)


def _p_item(value: float | None) -> Item:
    if value is None:
        return Item("undefined")
    return Item("<0.0001" if value < 0.0001 else f"{value:.4f}", value)


def _pairs_json(field: LabView, measures: tuple[str, ...]) -> dict[str, Any]:
    return json_document(
        "site-pairs",
        {
            "measures": list(measures),
            "topics": list(field.topics),
            "family": field.board.family,
            "correction": field.board.correction,
            "alpha": field.board.alpha,
            "tests": [
                {"runs": sorted(pair), "p": test.p, "significant": test.significant}
                for pair, test in field.verdicts.items()
            ],
            "values": {
                measure: {
                    run.name: [json_number(value) for value in column]
                    for run, column in zip(field.runs, field.values(measure).T.tolist(), strict=True)
                }
                for measure in measures
            },
        },
    )


def _pairs_records(field: LabView) -> Records:
    names = "run best measure n difference low high p p_corrected significant wins ties losses"
    rows = []
    for r in field.against_best.values():
        test = field.verdicts.get(frozenset((r.a, r.b)), TestVerdict(None, None))
        numbers = (r.n, r.difference, r.ci_low, r.ci_high, r.p, test.p, test.significant, r.wins, r.ties, r.losses)
        rows.append((r.a, r.b, r.measure, *numbers))
    return Records(tuple(names.split()), tuple(rows))


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
    page = lab_page(field, "slices/index.html", "Slices", headline, [PageSection("", (table,))])
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
