"""The first page of a site, and the page of its schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files as resources
from pathlib import Path

from harness.labs.leaderboard_report import leaderboard_headline
from harness.labs.roster import BASELINE
from harness.labs.site.lab_page import Columns, listing, whole
from harness.labs.site.lab_view import LabView
from harness.render.model import Prose
from harness.render.pages import Head, Item, Link, Page, PageSection, Rich
from harness.render.site_html import HOME, PaperLine, SitePage, json_document

SCHEMAS = (
    *("leaderboard", "scores", "site", "site-run", "site-topics", "site-topic", "site-pairs", "site-slices"),
    *("site-slice", "site-paper", "site-table"),
)
_TABLES = Path(__file__).with_name("tables.json")  # columns of the CSV files, by the file's place in the site


def csv_columns() -> dict[str, list[dict[str, str]]]:
    """Returns place of a CSV file in the site -> its columns, each with name, type and description."""
    tables = json.loads(_TABLES.read_text(encoding="utf-8"))["resources"]
    return {each["path"]: each["schema"]["fields"] for each in tables}


def home_page(fields: Sequence[LabView], papers: Sequence[PaperLine]) -> SitePage:
    """Returns the first page: the labs, then the papers."""
    parts = []
    if fields:
        labs: Columns[LabView] = (
            ("lab", lambda field: Item(field.lab.title, link=f"{field.base}/index.html")),
            ("outcome", lambda field: Item(f"{leaderboard_headline(field.board)}.")),
            (Head("runs", "number"), lambda field: whole(len(_teams(field)))),
            (Head("teams", "number"), lambda field: whole(len(set(_teams(field))))),
            ("latest run", lambda field: Item(max(each.submitted for each in field.all_submissions)[:10])),
        )
        parts.append(PageSection("Labs", (listing("labs", "Labs", labs, fields),)))
    if papers:
        of_papers: Columns[PaperLine] = (
            ("paper", lambda each: Item(each.title, link=each.path)),
            ("outcome", lambda each: Item(each.outcome)),
        )
        parts.append(PageSection("Results of papers", (listing("papers", "Papers", of_papers, papers),)))
    parts.append(
        PageSection(
            "Data", (Rich(("All pages are also there as JSON and CSV: ", Link("schemas", "schemas/index.html"), ".")),)
        )
    )
    data = json_document(
        "site",
        {
            "labs": [
                {
                    "title": field.lab.title,
                    "path": f"{field.base}/index.html",
                    "collection": field.lab.collection,
                    "edition": field.lab.edition,
                    "private": field.lab.private,
                    "runs": [{"run": run.name, "path": run.path} for run in field.runs],
                    "topics": [{"topic": t, "path": p} for t, p in field.topic_paths.items()]
                    if field.topics_shown
                    else [],
                }
                for field in fields
            ],
            "papers": [{"title": each.title, "path": each.path} for each in papers],
        },
    )
    title = fields[0].lab.title if len(fields) == 1 and not papers else "Evaluation of mathematical retrieval"
    return SitePage(Page("index.html", title, "", tuple(parts)), data, None, "site")


def _teams(field: LabView) -> list[str]:
    """Returns the team of each run, without those of the baseline."""
    return [each.submission.team for each in field.runs if each.submission.team != BASELINE]


def schema_files() -> Iterator[Mapping[str, str]]:
    """Yields the schemas of all JSON and CSV files, and the page that lists them."""
    folder = resources("harness.data") / "schemas"
    schema_texts = {name: (folder / f"{name}.json").read_text(encoding="utf-8") for name in SCHEMAS}
    yield {f"schemas/{name}.json": text for name, text in schema_texts.items()}
    yield {"schemas/tables.json": _TABLES.read_text(encoding="utf-8")}
    described = [(f"{name}.json", json.loads(text)) for name, text in schema_texts.items()]
    schemas: Columns[tuple[str, dict[str, str]]] = (
        ("file", lambda each: Item(each[0], link=f"schemas/{each[0]}")),
        ("content", lambda each: Item(each[1]["title"])),
        ("description", lambda each: Item(each[1]["description"])),
    )
    columns: Columns[tuple[str, dict[str, str]]] = (
        ("file", lambda each: Item(each[0])),
        ("column", lambda each: Item(each[1]["name"])),
        ("type", lambda each: Item(each[1]["type"])),
        ("content", lambda each: Item(each[1]["description"])),
    )
    rows = [(path, column) for path, of in csv_columns().items() for column in of]
    key = Prose(("The key `schema` of a document names its schema, as in mathir-harness/site-run.",))
    same = Rich(("The same as a ", Link("table schema", "schemas/tables.json"), "."))
    parts = (
        PageSection("JSON", (key, listing("json", "Schemas of JSON documents", schemas, described))),
        PageSection("CSV", (same, listing("csv", "Columns of CSV files", columns, rows))),
    )
    yield SitePage(Page("schemas/index.html", "Schemas", "", parts, crumbs=(HOME,))).files()
