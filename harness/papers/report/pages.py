"""Pages of papers: one per paper and per table, with the verdict of each cell and the commands of each row."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.collections.files import local
from harness.errors import HarnessError
from harness.io.files import cache_root
from harness.papers.cells import KINDS, CellVerdict
from harness.papers.report.paper import paper_links, published_table, table_title
from harness.papers.reproduce import PaperReproduction
from harness.render import pages
from harness.render.model import Prose, Records
from harness.render.pages import Head, Item, Link, Page, PageSection
from harness.render.site_html import HOME, PaperLine, SitePage, json_document

_MEANINGS = {
    "exact": "rounds to the printed digits",
    "close": "within two units of the last printed digit",
    "within": "where another seed would put it, with probability 0.95",
    "differs": "more than two units away",
    "needs": "needs a missing resource",
    "not implemented": "its system is not implemented",
    "blocked": "a resource is not available anywhere",
}
_CACHE = '"${HARNESS_CACHE:-$HOME/.cache/mathir-harness}"/'


def paper_line(reproduction: PaperReproduction) -> PaperLine:
    """Returns a paper's line in lists of papers."""
    return PaperLine(reproduction.paper.title, f"{_base(reproduction)}/index.html", _outcome(reproduction.verdicts))


def papers_page(lines: Sequence[PaperLine]) -> SitePage:
    """Returns the list of papers."""
    rows = tuple(pages.ListingLine((Item(each.title, link=each.path), Item(each.outcome))) for each in lines)
    table = pages.Listing("papers", "Papers", (Head("paper"), Head("outcome")), rows)
    meanings = tuple(f"{name}: {meaning}" for name, meaning in _MEANINGS.items())
    parts = (PageSection("", (table,)), PageSection("Verdicts", (Prose(meanings),)))
    headline = "Published tables, recomputed: a verdict for each number and the commands for each row."
    return SitePage(Page("papers/index.html", "Results of papers", headline, parts, crumbs=(HOME,)))


def paper_files(reproduction: PaperReproduction) -> Iterator[Mapping[str, str]]:
    """Yields the files of a paper: its page, then a page for each table."""
    yield _paper_page(reproduction).files()
    tables = _verdicts_by_table(reproduction)
    names = list(tables)
    for at, name in enumerate(names):
        yield _table(reproduction, names, at, tables[name]).files()


def _base(reproduction: PaperReproduction) -> str:
    return f"papers/{pages.file_stem(reproduction.paper.key)}"


def _verdicts_by_table(reproduction: PaperReproduction) -> dict[str, list[CellVerdict]]:
    by_table: dict[str, list[CellVerdict]] = {}
    for verdict in reproduction.verdicts:
        by_table.setdefault(verdict.cell.table, []).append(verdict)
    return by_table


def _counts(verdicts: Sequence[CellVerdict]) -> dict[str, int]:
    """Returns verdict -> number of values with it, for each verdict that occurs."""
    counted = Counter(verdict.verdict for verdict in verdicts)
    return {kind: counted[kind] for kind in KINDS if counted[kind]}


def _outcome(verdicts: Sequence[CellVerdict]) -> str:
    """Returns the number of values with each verdict, in words."""
    return f"{len(verdicts)} values: " + ", ".join(f"{count} {kind}" for kind, count in _counts(verdicts).items())


def _path(reproduction: PaperReproduction, table: str) -> str:
    """Returns the address of a table's page within the site."""
    return f"{_base(reproduction)}/{pages.file_stem(table)}.html"


def _paper_page(reproduction: PaperReproduction) -> SitePage:
    paper, config = reproduction.paper, reproduction.paper.config
    tables = _verdicts_by_table(reproduction)
    lines = []
    for name, verdicts in tables.items():
        named = (Item(table_title(name), link=_path(reproduction, name)), Item(verdicts[0].cell.caption))
        values = Item(str(len(verdicts)), float(len(verdicts)))
        counts = (_counts(verdicts).get(kind, 0) for kind in KINDS)
        lines.append(pages.ListingLine((*named, values, *(Item(str(n) if n else "", float(n)) for n in counts))))
    of_kinds = (Head(kind, "number", about=_MEANINGS[kind]) for kind in KINDS)
    heads = (Head("table"), Head("content"), Head("values", "number"), *of_kinds)
    command = f"harness reproduce paper={paper.key}"
    parts = [
        PageSection("", tuple(paper_links(paper))),
        PageSection("Tables", (pages.Listing("tables", "Tables of the paper", heads, tuple(lines)),)),
        PageSection("Recompute", (pages.Code("All tables, with a full report:", command),)),
    ]
    if config.remarks:
        parts.append(PageSection("Details that the paper omits", (Prose(config.remarks),)))
    outcome, crumbs = f"{_outcome(reproduction.verdicts)}.", (HOME, Link("Papers", "papers/index.html"))
    path = f"{_base(reproduction)}/index.html"
    page = Page(path, paper.title, outcome, tuple(parts), crumbs=crumbs, site="Results of papers")
    of_tables = [
        {"table": name, "path": _path(reproduction, name), "counts": _counts(verdicts)}
        for name, verdicts in tables.items()
    ]
    about = {"paper": paper.key, "title": paper.title, "counts": _counts(reproduction.verdicts)}
    return SitePage(page, json_document("site-paper", {**about, "tables": of_tables}))


def _table(reproduction: PaperReproduction, names: Sequence[str], at: int, verdicts: Sequence[CellVerdict]) -> SitePage:
    """Returns the page of a table: a row for each of its rows, with links to the tables before and after it."""
    name = names[at]
    paper = reproduction.paper
    rows: dict[tuple[str, str], list[CellVerdict]] = {}
    for verdict in verdicts:
        rows.setdefault((verdict.cell.group, verdict.cell.system), []).append(verdict)
    folded = tuple(_row(reproduction, name, *key, of) for key, of in rows.items())
    said = Prose(("Open a row for the commands that recompute it.",))
    previous, following = (
        Link(table_title(names[n]), _path(reproduction, names[n])) if 0 <= n < len(names) else None
        for n in (at - 1, at + 1)
    )
    page = Page(
        _path(reproduction, name),
        table_title(name),
        f"{_outcome(verdicts)}.",
        (
            PageSection("", (published_table(reproduction, name, verdicts),)),
            PageSection("Rows and their commands", (said, *folded)),
            PageSection("Values", (_values(reproduction, verdicts),)),
        ),
        crumbs=(HOME, Link("Papers", "papers/index.html"), Link(paper.title, f"{_base(reproduction)}/index.html")),
        steps=(previous, following),
        kicker=paper.title,
        site=paper.title,
    )
    of_cell = ("group", "system", "collection", "slice", "metric", "aggregate")
    cells: list[dict[str, Any]] = [
        {key: getattr(v.cell, key) for key in of_cell}
        | {"printed": v.cell.value, "value": None if v.value is None or math.isnan(v.value) else v.value}
        | {"verdict": v.verdict, "cause": v.cause}
        for v in verdicts
    ]
    of_rows = [
        {"group": group, "system": system, "commands": [c for _, c in _commands(reproduction, name, of)]}
        for (group, system), of in rows.items()
    ]
    about = {"paper": paper.key, "table": name, "caption": verdicts[0].cell.caption}
    data = json_document("site-table", {**about, "cells": cells, "rows": of_rows})
    columns = ("table", "group", "system", "collection", "slice", "metric", "printed", "value", "verdict", "cause")
    records = tuple((name, *(cell[column] for column in columns[1:])) for cell in cells)
    return SitePage(page, data, Records(columns, records))


def _row(
    reproduction: PaperReproduction, table: str, group: str, system: str, verdicts: Sequence[CellVerdict]
) -> pages.Folded:
    """Returns a row of the table, closed; open, it shows its commands and what is missing."""
    label = ", ".join(part for part in (group, system) if part)
    counts = ", ".join(f"{count} {kind}" for kind, count in _counts(verdicts).items())
    blocks: list[pages.Block] = [
        pages.Code(said, command) for said, command in _commands(reproduction, table, verdicts)
    ]
    causes = tuple(dict.fromkeys(verdict.cause for verdict in verdicts if verdict.cause))
    if causes:
        blocks.insert(0, Prose(tuple(f"{cause[:1].upper()}{cause[1:]}." for cause in causes)))
    return pages.Folded(label or table, tuple(blocks), (counts,))


def _commands(reproduction: PaperReproduction, table: str, verdicts: Sequence[CellVerdict]) -> list[tuple[str, str]]:
    """Returns (what it does, command) for a row: archived runs are scored, available rows are run."""
    paper, commands = reproduction.paper, []
    runs = {(run.collection, run.name): run for run in paper.runs}
    measured: dict[tuple[str, str, str, str, str], list[str]] = {}
    for verdict in verdicts:
        if verdict.value is not None and (verdict.cell.collection, verdict.run) in runs:
            key = (verdict.cell.collection, verdict.run, verdict.collection, verdict.edition, verdict.protocol)
            measured.setdefault(key, []).append(verdict.measure)
    if measured:
        commands.append(("Fetch the archived runs of the paper:", f"harness fetch {shlex.quote(paper.key)}"))
    for (place_, run, collection, edition, protocol), measures in measured.items():
        words = ["--collection", collection, "--edition", edition, "--protocol", protocol]
        words += ["--measures", ",".join(dict.fromkeys(measures))]
        path = _local(local(runs[place_, run].file))
        commands.append((f"Score {run} on {collection}:", f"harness score {path} {shlex.join(words)}"))
    available = paper.available
    if available is not None:
        cell = verdicts[0].cell
        labels = (cell.system, f"{cell.group} / {cell.system}")
        for row in available.rows:
            if row.table == table and row.label in labels:
                if full := available.full(row):
                    commands.append(("Make the run on the paper's collection:", full))
                if available.here is not None and (small := available.small(row)):
                    commands.append((f"A small replacement, on {available.here.corpus}:", small))
    commands.append(("Recompute all tables of the paper:", f"harness reproduce paper={shlex.quote(paper.key)}"))
    return commands


def _local(path: Path) -> str:
    """Returns the path of a fetched file, quoted for a shell, that is right for every user's cache."""
    try:
        return _CACHE + shlex.quote(path.relative_to(cache_root()).as_posix())
    except (ValueError, HarnessError):
        return shlex.quote(path.name)


def _values(reproduction: PaperReproduction, verdicts: Sequence[CellVerdict]) -> pages.Folded:
    """Returns every value with its verdict and cause."""
    lines = []
    for v in verdicts:
        cell = v.cell
        digits = len(cell.value.partition(".")[2])
        value = Item("–") if v.value is None else Item(f"{v.value:.{digits + 2}f}", v.value)
        row = ", ".join(part for part in (cell.group, cell.system) if part)
        where = ", ".join(part for part in (cell.collection, cell.slice) if part)
        named = map(Item, (row, where, reproduction.paper.metric(cell.metric)))
        items = (*named, Item(cell.value, float(cell.value)), value, Item(v.verdict), Item(v.cause))
        lines.append(pages.ListingLine(items))
    numbers = (Head("printed", "number"), Head("recomputed", "number"))
    heads = (*map(Head, ("row", "collection", "measure")), *numbers, Head("verdict"), Head("cause"))
    table = pages.Listing("values", "Published and recomputed values", heads, tuple(lines), search=len(lines) > 15)
    return pages.Folded(f"All {len(lines)} values, with causes", (table,))
