"""The leaderboard of a lab as a page, its final ranking, and the page about the lab."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Literal

from harness.errors import counted_text
from harness.labs.board import BoardColumn, Leaderboard, LeaderboardRow, Mean, Span, leaderboard_to_json, shown_columns
from harness.labs.downloads import permitted, rule_lines
from harness.labs.journal import Extended
from harness.labs.lab import Lab
from harness.labs.leaderboard_report import (
    conditions_text,
    incomplete,
    leaderboard_headline,
    leaderboard_means_figure,
    reading,
)
from harness.labs.names import form_of, utc, zoned
from harness.labs.site.lab_page import Columns, decimal, frozen_text, lab_page, listing, whole
from harness.labs.site.lab_view import FieldRun, LabView
from harness.labs.site.metadata import COSTS, RESOURCES, Cost
from harness.render.charts import frontier, timeline
from harness.render.latex import escape_unbroken as escape
from harness.render.model import Facts, Figure, Prose, Records
from harness.render.pages import (
    Block,
    Code,
    Facet,
    Folded,
    Head,
    Item,
    Link,
    Listing,
    ListingLine,
    PageSection,
    Rich,
    is_web,
)
from harness.render.site_html import SitePage
from harness.reports.parts import protocol_text
from harness.scoring.measures import shown_decimals
from harness.scoring.protocol import load_protocol

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
    page = lab_page(field, "index.html", field.lab.title, f"{leaderboard_headline(board)}.", parts)
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
    page = lab_page(field, "final.html", "Final ranking", f"{leaderboard_headline(final)}.", parts)
    return SitePage(page, leaderboard_to_json(final), Records(final.columns(), final.rows()))


def _pictures(field: LabView) -> Iterator[Block]:
    """Yields means with intervals, and effectiveness against each cost that at least two runs state."""
    if field.ranked:
        yield leaderboard_means_figure(field.board)
    label = field.label(field.main)
    costs: list[Figure] = []
    for number, cost in enumerate(COSTS, 1):
        known = (run for run in field.runs[: field.ranked] if cost.name in run.costs)
        points = [(run.name, run.costs[cost.name], _mean_or_nan(run.standing, field.main)) for run in known]
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
    leading = [run.standing for run in field.runs[: field.ranked]]
    means = {name: [_mean_or_nan(each, name) for each in leading] for name in board.measures}
    best = {name: max(values, default=math.nan) for name, values in means.items()}
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
        small = run.team + (" (baseline)" if each.baseline else "")
        items = [Item(run.label, link=run.path, small=small), *(item(run) for _, _, item in columns)]
        ranked = ("primary",) if each.rank is not None else ()
        values = {"runs": ranked, "kind": (each.kind,), "resource": run.resources}
        lines.append(ListingLine(tuple(items), values))
    if board.floor:
        lines.append(_floor(field, heads))
    facets = []
    if board.others and board.ranked:
        facets.append(Facet("runs", "Runs", ("primary",), "primary", "primary and others"))
    if len(kinds) > 1:
        facets.append(Facet("kind", "Kind", kinds))
    if resources:
        facets.append(Facet("resource", "Resources", resources))
    bold = " Bold: the best of the ranked runs; ±: half the 95% interval." if exact else ""
    notes = [f"{conditions_text(board)}.{bold}"]
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
    share = None if standing.judgments is None else standing.judgments.judged
    return Item("") if share is None else Item(f"{share:.3f}", share)


def about_page(field: LabView) -> SitePage:
    """Returns the page about a lab."""
    lab, collection = field.lab, field.task.collection
    edition = collection.edition(lab.edition)
    facts = [
        ("collection", f"{lab.collection}: {collection.title}"),
        ("judgments", f"edition {lab.edition}: {edition.title}"),
        ("topics", str(field.board.topics)),
        ("documents", lab.corpus or collection.corpus),
        ("licence", collection.licence),
        ("SHA-256 of the judgments", field.board.qrels_sha256),
    ]
    opening = (*([Prose((lab.about,))] if lab.about else []), *frozen_text(field))
    parts = [
        PageSection("", opening) if opening else None,
        PageSection("Dates", (Facts(tuple(_dates_facts(field))),)),
        PageSection("Data", (Facts(tuple((name, value) for name, value in facts if value)), *_notes_blocks(field))),
        PageSection("Protocol", tuple(_protocol_blocks(field))),
        PageSection("Submission", tuple(_submission_blocks(field))),
        PageSection("Rules", (Prose(tuple(rule_lines(lab))),)),
        PageSection("Contact", (_contact_text(lab.contact),)) if lab.contact else None,
        PageSection("Citation", (Code("BibTeX", _bibtex(field)),)),
        PageSection("Links", (_links_text(field),)),
    ]
    page = lab_page(field, "about.html", f"About {lab.title}", "", parts)
    return SitePage(page)


def _notes_blocks(field: LabView) -> Iterator[Block]:
    if field.remarks:
        yield Prose(field.remarks)


def _dates_facts(field: LabView) -> Iterator[tuple[str, str]]:
    deadline = field.lab.deadline
    yield ("deadline", "none" if deadline is None else f"{zoned(deadline)}; later runs are post-hoc")
    for act in field.acts:
        reason = f": {field.names.text(act.reason)}" if field.names.text(act.reason) else ""
        if isinstance(act, Extended):
            until = zoned(datetime.fromisoformat(act.deadline))
            yield ("deadline set", f"{utc(act.at)}, to {until}{reason}")
        else:
            yield (act.event, f"{utc(act.at)}{reason}")
    dates = [each.submitted for each in field.all_submissions]
    yield ("first submission", utc(min(dates)))
    yield ("latest submission", utc(max(dates)))


def _protocol_blocks(field: LabView) -> Iterator[Block]:
    board = field.board
    yield protocol_text(load_protocol(field.lab.protocol))
    measures = ", ".join(map(field.label, board.measures))
    tests = f"tests have level {board.alpha:g} and are corrected over {board.family:,} comparisons ({board.correction})"
    tests = tests if field.tested else f"nothing is tested: {board.why}"
    yield Prose(
        (
            f"Measures: {measures}. Runs are ranked by {field.label(field.main)}; {tests}.",
            *([board.privacy] if board.privacy else []),
        )
    )


def _submission_blocks(field: LabView) -> Iterator[Block]:
    lab = field.lab
    required = [name.replace("_", " ") for name in lab.require]
    said = ["A run is a text file with a line per result: topic, Q0, document, rank, score, tag."]
    said += [f"A submission must state: {', '.join(required)}."] if required else []
    named = [] if field.roster or lab.server else ["--team", "TEAM"]
    where = ["--server", lab.server] if lab.server else ["--lab", "LAB"]
    if lab.private and not lab.server:
        said.append("The judgments are private: send the run to the organisers, who submit it with this command.")
    if field.roster or lab.server:
        said.append("Only teams on the roster may submit; the variable HARNESS_TOKEN holds the team's token.")
    if lab.server:
        form = form_of(lab.server)
        yield Rich(("Submit in the browser at ", Link(form, form), ", or by the command below."))
    if lab.server and permitted(lab):
        downloads = f"{lab.server}/downloads"
        yield Rich(("Topics, documents and rules, as far as the lab offers them: ", Link(downloads, downloads), "."))
    yield Prose(tuple(said))
    yield Code("Submit a run:", submit_command(lab, *where, *named))


def submit_command(lab: Lab, *where: str) -> str:
    """Returns the command that submits a run with all that the lab requires; `where` are the options of its place."""
    command = ["harness", "submit", "my.run", *where, "--description", "one sentence"]
    for name in lab.require:
        command += [f"--{name.replace('_', '-')}", "..."] if name != "description" else []
    return shlex.join(command)


def _bibtex(field: LabView) -> str:
    """Returns a BibTeX entry for the lab; those of runs are on their pages."""
    lab, latest = field.lab, max(each.submitted for each in field.all_submissions)
    note = f"Lab on {lab.collection}, edition {lab.edition}, protocol {lab.protocol}; latest submission {latest[:10]}"
    lines = [f"title = {{{{{escape(lab.title)}}}}}", f"year = {{{latest[:4]}}}", f"note = {{{escape(note)}}}"]
    lines += [f"url = {{{lab.address}}}"] if lab.address else []
    return f"@misc{{{field.base},\n  " + ",\n  ".join(lines) + "\n}"


def _contact_text(text: str) -> Rich:
    return Rich((Link(text, text),) if is_web(text) else (text,))


def _links_text(field: LabView) -> Rich:
    base = field.base
    return Rich(
        (
            "Pages of runs keep their addresses, also when a run is replaced or withdrawn. New submissions: ",
            Link("Atom feed", f"{base}/feed.xml"),
            ". Everything is also there as JSON and CSV, named at the end of each page; ",
            Link("their schemas", "schemas/index.html"),
            ".",
        )
    )
