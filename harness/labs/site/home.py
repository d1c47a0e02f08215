"""The first page of a site, and the page of its schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files as resources
from types import MappingProxyType

from harness.labs.leaderboard_report import leaderboard_headline
from harness.labs.roster import BASELINE
from harness.labs.site.lab_view import LabView
from harness.render.model import Prose
from harness.render.pages import Head, Item, Link, Listing, ListingLine, Page, PageSection, Rich
from harness.reports.site_page import HOME, PaperLine, SitePage, json_document

SCHEMAS = (
    *("leaderboard", "scores", "site", "site-run", "site-topics", "site-topic", "site-pairs", "site-slices"),
    *("site-slice", "site-paper", "site-table"),
)
_RANKING = (
    ("collection", "string", "collection"),
    ("edition", "string", "edition of the judgments"),
    ("protocol", "string", "protocol of scoring"),
    ("qrels_sha256", "string", "SHA-256 of the judgments; empty if they are private"),
    ("run", "string", "team / label"),
    ("team", "string", "team"),
    ("kind", "string", "automatic, manual or post-hoc"),
    ("primary", "boolean", "whether the run is ranked"),
    ("baseline", "boolean", "whether it is the baseline"),
    ("rank", "integer", "rank; empty if not ranked"),
    ("rank_low", "integer", "lower end of the rank's 95% interval"),
    ("rank_high", "integer", "upper end of the rank's 95% interval"),
    ("first", "number", "share of bootstrap resamples with rank 1"),
    ("group", "string", "letters: runs that share one do not differ significantly, or their test is undefined"),
    ("measure", "string", "measure"),
    ("n", "integer", "topics that count"),
    ("mean", "number", "mean; as participants see it if the judgments are private"),
    ("mean_low", "number", "lower end of the mean's 95% interval"),
    ("mean_high", "number", "upper end of the mean's 95% interval"),
)
# Columns of the CSV files, by the file's place in the site.
TABLES: Mapping[str, Sequence[tuple[str, str, str]]] = MappingProxyType(
    {
        "LAB/leaderboard.csv": _RANKING,
        "LAB/final.csv": _RANKING,
        "LAB/runs/TEAM/LABEL.vN.csv": (
            ("run", "string", "team / label"),
            ("topic", "string", "topic; not in labs that show no topics"),
            ("measure", "string", "measure"),
            ("value", "number", "value on the topic; empty if the topic does not count"),
            ("median", "number", "median of the ranked runs"),
            ("mean", "number", "mean, in labs that show no topics, instead of topic, value and median"),
        ),
        "LAB/topics/index.csv": (
            ("topic", "string", "topic"),
            ("lower_quartile", "number", "of the ranked runs by the main measure"),
            ("median", "number", "of the ranked runs by the main measure"),
            ("upper_quartile", "number", "of the ranked runs by the main measure"),
            ("best", "number", "best value of the ranked runs"),
            ("relevant", "integer", "relevant documents"),
        ),
        "LAB/topics/TOPIC.csv": (
            ("topic", "string", "topic"),
            ("document", "string", "judged document"),
            ("grade", "number", "grade"),
            ("TEAM / LABEL", "integer", "a column for each run: rank, from 1, unjudged documents counted; or empty"),
        ),
        "LAB/pairs.csv": (
            ("run", "string", "run"),
            ("best", "string", "the best ranked run, or, if none is ranked, the best run"),
            ("measure", "string", "measure"),
            ("n", "integer", "topics, or clusters of topics, that count for both"),
            ("difference", "number", "mean of run minus mean of best"),
            ("low", "number", "lower end of the difference's 95% interval"),
            ("high", "number", "upper end of the difference's 95% interval"),
            ("p", "number", "p of the paired t-test, not corrected; empty if undefined"),
            ("p_corrected", "number", "p by the lab's correction, for pairs of ranked runs; else empty"),
            ("significant", "boolean", "whether the corrected p is below the lab's level; else empty"),
            ("wins", "integer", "topics where the run is higher"),
            ("ties", "integer", "topics where both are equal"),
            ("losses", "integer", "topics where the run is lower"),
        ),
        "LAB/slices/index.csv": (
            ("attribute", "string", "attribute of topics"),
            ("value", "string", "value of the attribute"),
            ("topic", "string", "topic"),
        ),
        "LAB/slices/ATTRIBUTE.csv": (
            ("attribute", "string", "attribute of topics"),
            ("value", "string", "value of the attribute"),
            ("run", "string", "run"),
            ("topics", "integer", "topics with this value"),
            ("mean", "number", "mean of the main measure over these topics"),
        ),
        "papers/PAPER/TABLE.csv": (
            ("table", "string", "table of the paper"),
            ("group", "string", "group of the row"),
            ("system", "string", "system of the row"),
            ("collection", "string", "collection, as the paper names it"),
            ("slice", "string", "part of the topics"),
            ("metric", "string", "measure, as the paper names it"),
            ("printed", "string", "value as printed"),
            ("value", "number", "recomputed value"),
            ("verdict", "string", "exact, close, within, differs, needs, not implemented or blocked"),
            ("cause", "string", "why the value differs or is missing"),
        ),
    }
)


def home_page(fields: Sequence[LabView], papers: Sequence[PaperLine]) -> SitePage:
    """Returns the first page: the labs, then the papers."""
    parts = []
    if fields:
        lines = tuple(
            ListingLine(
                (
                    Item(field.lab.title, link=f"{field.base}/index.html"),
                    Item(f"{leaderboard_headline(field.board)}."),
                    *(Item(str(number), float(number)) for number in _numbers(field)),
                    Item(max(each.submitted for each in field.all_submissions)[:10]),
                )
            )
            for field in fields
        )
        heads = (Head("lab"), Head("outcome"), Head("runs", "number"), Head("teams", "number"), Head("latest run"))
        parts.append(PageSection("Labs", (Listing("labs", "Labs", heads, lines),)))
    if papers:
        lines = tuple(ListingLine((Item(each.title, link=each.path), Item(each.outcome))) for each in papers)
        table = Listing("papers", "Papers", (Head("paper"), Head("outcome")), lines)
        parts.append(PageSection("Results of papers", (table,)))
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


def _numbers(field: LabView) -> tuple[int, int]:
    """Returns the numbers of runs and of teams, without the baseline."""
    teams = [each.submission.team for each in field.runs if each.submission.team != BASELINE]
    return len(teams), len(set(teams))


def schema_files() -> Iterator[Mapping[str, str]]:
    """Yields the schemas of all JSON and CSV files, and the page that lists them."""
    folder = resources("harness.data") / "schemas"
    found = {name: (folder / f"{name}.json").read_text(encoding="utf-8") for name in SCHEMAS}
    yield {f"schemas/{name}.json": text for name, text in found.items()}
    tables = [
        {
            "path": path,
            "schema": {"fields": [dict(zip(("name", "type", "description"), f, strict=True)) for f in columns]},
        }
        for path, columns in TABLES.items()
    ]
    yield {"schemas/tables.json": json.dumps({"profile": "tabular-data-package", "resources": tables}, indent=1) + "\n"}
    described = {name: json.loads(text) for name, text in found.items()}
    lines = tuple(
        ListingLine(
            (
                Item(f"{name}.json", link=f"schemas/{name}.json"),
                Item(str(each["title"])),
                Item(str(each["description"])),
            )
        )
        for name, each in described.items()
    )
    rows = tuple(
        ListingLine((Item(path), Item(name), Item(kind), Item(text)))
        for path, of in TABLES.items()
        for name, kind, text in of
    )
    parts = (
        PageSection(
            "JSON",
            (
                Prose(("The key `schema` of a document names its schema, as in mathir-harness/site-run.",)),
                Listing(
                    "json", "Schemas of JSON documents", (Head("file"), Head("content"), Head("description")), lines
                ),
            ),
        ),
        PageSection(
            "CSV",
            (
                Rich(("The same as a ", Link("table schema", "schemas/tables.json"), ".")),
                Listing(
                    "csv", "Columns of CSV files", (Head("file"), Head("column"), Head("type"), Head("content")), rows
                ),
            ),
        ),
    )
    yield SitePage(Page("schemas/index.html", "Schemas", "", parts, crumbs=(HOME,))).files()
