"""The leaderboard of a lab as a page: pictures, a table with filters, and how to read them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Literal

from harness.errors import counted_text
from harness.labs.board import BoardColumn, Leaderboard, LeaderboardRow, Mean, Span, leaderboard_to_json, shown_columns
from harness.labs.leaderboard_report import (
    conditions_text,
    incomplete,
    leaderboard_headline,
    leaderboard_means_figure,
    reading,
)
from harness.labs.site.lab_page import Columns, decimal, frozen_text, lab_page, listing, whole
from harness.labs.site.lab_view import FieldRun, LabView
from harness.labs.site.metadata import COSTS, RESOURCES, Cost
from harness.render.charts import frontier, timeline
from harness.render.model import Figure, Prose, Records
from harness.render.pages import Block, Facet, Folded, Head, Item, Listing, ListingLine, PageSection
from harness.render.site_html import SitePage
from harness.reports.parts import protocol_text
from harness.scoring.measures import shown_decimals

_CLAIMED = "Resources are read from the ir_metadata that the teams sent: claims, and none for a run without metadata."


def leaderboard_page(field: LabView) -> SitePage:
    """Returns the page of a lab's leaderboard; rows lead to the pages of runs."""
    board = field.board
    said = (*([board.privacy] if board.privacy else []), *incomplete(board), *reading(board))
    parts = (
        PageSection("", (*frozen_text(field), *_pictures(field))),
        PageSection("Runs", (runs_listing(field),)),
        PageSection("Interpretation", (Prose(said),)),
        PageSection(
            "Data and protocol", (Prose((f"{conditions_text(board)}.", *field.remarks)), protocol_text(board.protocol))
        ),
    )
    page = lab_page(field, "index.html", field.lab.title, f"{leaderboard_headline(board)}.", parts, "index.html")
    records = Records(board.columns(), board.rows())
    return SitePage(page, leaderboard_to_json(board), records, f"{field.base}/leaderboard")


def final_page(field: LabView, final: Leaderboard) -> SitePage:
    """Returns the page of the final ranking: primary runs by their means at the end of the lab."""
    paths = {run.name: run.path for run in field.runs}

    def mean_of(measure: str) -> tuple[Head, Callable[[LeaderboardRow], Item]]:
        return Head(field.label(measure), "number"), lambda each: decimal(each.mean(measure).value, final.decimals)

    columns: Columns[LeaderboardRow] = (
        ("run", lambda each: Item(each.name, link=paths.get(each.name, ""))),
        (Head("rank", "number"), lambda each: whole(each.rank or 0)),
        ("group", lambda each: Item(each.group)),
        *map(mean_of, final.measures),
    )
    topics = counted_text(final.topics, "held-out topic" if field.lab.held_out else "topic")
    caption = f"Primary runs by {field.label(final.main)} on {topics}"
    parts = (
        PageSection("", (listing("final", caption, columns, final.ranked, search="if long"),)),
        PageSection("Interpretation", (Prose(reading(final)),)),
    )
    page = lab_page(field, "final.html", "Final ranking", f"{leaderboard_headline(final)}.", parts, "final.html")
    return SitePage(page, leaderboard_to_json(final), Records(final.columns(), final.rows()))


def _pictures(field: LabView) -> Iterator[Block]:
    """Yields means with intervals, and effectiveness against each cost that at least two runs state."""
    if field.ranked:
        yield leaderboard_means_figure(field.board)
    label = field.label(field.main)
    costs: list[Figure] = []
    for number, cost in enumerate(COSTS, 1):
        points = [
            (run.name, run.costs[cost.name], _mean_or_nan(run.standing, field.main))
            for run in field.runs[: field.ranked]
            if cost.name in run.costs
        ]
        if len(points) > 1:
            caption = f"{label} against {cost.name}, as the runs' metadata states it; diamonds: no other run is both "
            caption += "cheaper and better"
            costs.append(Figure(f"cost-{number}", caption, frontier(points, cost.name, label)))
    yield from costs[:1]
    if costs[1:]:
        yield Folded("Further costs", tuple(costs[1:]))
    times = [(run, datetime.fromisoformat(run.submission.submitted)) for run in field.runs]
    if len({time.date() for _, time in times}) > 1:
        dated = [(run.name, time, _mean_or_nan(run.standing, field.main)) for run, time in times]
        caption = f"{label} by time of submission; diamonds: better than all runs before"
        yield Folded("By time of submission", (Figure("time", caption, timeline(dated, label)),))


def _mean_or_nan(standing: LeaderboardRow, measure: str) -> float:
    value = standing.mean(measure).value
    return math.nan if value is None else value


def runs_listing(field: LabView) -> Listing:
    """Returns the table of all current runs."""
    board = field.board
    exact, label = not board.private, field.label(field.main)
    kinds = tuple(dict.fromkeys(run.standing.kind for run in field.runs if run.standing.kind))
    resources = tuple(name for name in RESOURCES if any(name in run.resources for run in field.runs))
    costs = [cost for cost in COSTS if any(cost.name in run.costs for run in field.runs)]
    judged = [run.standing.judgments for run in field.runs if run.standing.judgments is not None]
    best = {
        measure: max((_mean_or_nan(run.standing, measure) for run in field.runs[: field.ranked]), default=math.nan)
        for measure in board.measures
    }
    columns: list[tuple[int, Head, Callable[[FieldRun], Item]]] = [
        (80, Head("resources", shown=bool(resources)), lambda run: Item(", ".join(run.resources))),
        (90, Head("date"), lambda run: Item(run.submission.submitted[:10])),
        (100, Head("team", shown=False), lambda run: Item(run.team)),
        *((110, Head(each.name, "number", shown=False), partial(_cost_item, cost=each)) for each in costs),
        (140, Head("description", shown=False), lambda run: Item(run.description)),
    ]
    if judged:
        columns.append((130, Head(f"Judged@{judged[0].k}", "number", shown=False), lambda run: _judged(run.standing)))
    for column in shown_columns(board, "site", board.measures):
        if column.name != "group" or field.tested:
            kind: Literal["text", "number"] = "text" if column.name in ("kind", "group") else "number"
            head = Head(column.name, kind, not column.switched, column.about(board))
            columns.append((column.where["site"], head, partial(_item, column=column, board=board, best=best)))
    columns.sort(key=lambda each: each[0])
    heads = [Head("run"), *(head for _, head, _ in columns)]
    lines = []
    for run in field.runs:
        each = run.standing
        items = [
            Item(run.label, link=run.path, small=run.team + (" (baseline)" if each.baseline else "")),
            *(item(run) for _, _, item in columns),
        ]
        values = {
            "runs": ("primary",) if each.rank is not None else (),
            "kind": (each.kind,),
            "resource": run.resources,
        }
        lines.append(ListingLine(tuple(items), values))
    if board.floor:
        lines.append(_floor(field, heads))
    facets = [
        *(
            [Facet("runs", "Runs", ("primary",), "primary", "primary and others")]
            if board.others and board.ranked
            else []
        ),
        *([Facet("kind", "Kind", kinds)] if len(kinds) > 1 else []),
        *([Facet("resource", "Resources", resources)] if resources else []),
    ]
    notes = [
        f"{conditions_text(board)}. Bold: the best of the ranked runs; ±: half the 95% interval."
        if exact
        else f"{conditions_text(board)}."
    ]
    notes += ["Rank –: not the team's primary run, or post-hoc; neither ranked nor tested."] if board.others else []
    notes += [_CLAIMED] if resources else []
    return Listing(
        "runs", f"Runs by {label}", tuple(heads), tuple(lines), tuple(facets), search=True, notes=tuple(notes)
    )


def _floor(field: LabView, heads: Sequence[Head]) -> ListingLine:
    """Returns the row of the random floor, which stands beside primary runs."""
    means = {field.label(mean.measure): mean for mean in field.board.floor if mean.value is not None}
    items = [Item("random floor")]
    for head in heads[1:]:
        mean = means.get(head.title)
        items.append(Item("") if mean is None else _mean_item(mean, field.board, math.inf))
    return ListingLine(tuple(items), {"runs": ("primary",), "kind": (), "resource": ()})


def _item(run: FieldRun, column: BoardColumn, board: Leaderboard, best: Mapping[str, float]) -> Item:
    """Returns the item of a run in a column of the leaderboard."""
    match column.value(run.standing):
        case Mean() as mean:
            return _mean_item(mean, board, best[mean.measure])
        case Span(low, high):
            if low is None or high is None:
                return Item("")
            return Item(str(low) if low == high else f"{low} to {high}", (low + high) / 2)
        case str() as text:
            return Item(text)
        case None:
            return Item("–")
        case number:
            return Item(str(number), float(number))


def _mean_item(mean: Mean, board: Leaderboard, best: float) -> Item:
    digits = shown_decimals(mean.measure, board.decimals)
    if mean.value is None:
        return Item("n/a")
    half = "" if mean.low is None or mean.high is None else f"± {(mean.high - mean.low) / 2:.{digits}f}"
    shown = f"{mean.value:.{digits}f}"
    return Item(shown, mean.value, small=half, best=mean.value == best)


def _cost_item(run: FieldRun, cost: Cost) -> Item:
    value = run.costs.get(cost.name)
    return Item("") if value is None else Item(f"{value:,.{cost.decimals}f}", value)


def _judged(standing: LeaderboardRow) -> Item:
    """Returns the share of judged results; empty without one."""
    return (
        Item("") if standing.judgments is None else Item(f"{standing.judgments.judged:.3f}", standing.judgments.judged)
    )
