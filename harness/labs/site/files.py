"""All files of a site: its first page, its schemas, and the pages and the Atom feed of each lab, one page at a time."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files as resources
from pathlib import Path
from xml.etree import ElementTree

from harness.labs.leaderboard_report import leaderboard_headline
from harness.labs.roster import BASELINE
from harness.labs.site.board import about_page, final_page, leaderboard_page
from harness.labs.site.comparisons import pairs_page, slice_pages
from harness.labs.site.lab_page import Columns, listing, whole
from harness.labs.site.lab_view import LabView, submission_key
from harness.labs.site.run import former_page, run_page
from harness.labs.site.topic import MOST_TEXT, difficulty, topic_page, topics_page
from harness.render.model import Prose, visible
from harness.render.pages import Head, Item, Link, Page, PageSection, Rich
from harness.render.site_html import HOME, PaperLine, SitePage, json_document
from harness.reports.topics import own_corpus, readable

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


MOST_TEXTS = 50_000_000  # characters of documents' texts that are held


def lab_files(field: LabView) -> Iterator[Mapping[str, str]]:
    """Yields the files of a lab's site, page by page: path -> content.

    Pages of topics, pairs and slices, and values per topic in any file, are there only if `field.topics_shown`. Pages
    come after those that they list, so that links of a site that is built in place lead to pages that exist.
    """
    for page in _lab_pages(field):
        yield page.files()
    yield {f"{field.base}/feed.xml": feed(field)}


def _lab_pages(field: LabView) -> Iterator[SitePage]:
    yield from (run_page(field, at) for at in range(len(field.runs)))
    yield from (former_page(field, submission) for submission in field.former)
    if field.topics_shown:
        hard, texts = difficulty(field), _texts(field)
        yield from (topic_page(field, at, hard, texts) for at in range(len(field.topics)))
        yield topics_page(field, hard)
        yield pairs_page(field)
        yield from slice_pages(field)
    yield about_page(field)
    if field.final is not None:
        yield final_page(field, field.final)
    yield leaderboard_page(field)


def _texts(field: LabView) -> dict[str, tuple[str, str]]:
    """Returns relevant document -> (title, beginning of its text), as many as fit, if its corpus can be read here."""
    pairs = (pair for placed in field.placed.values() for pair in zip(placed.docs, placed.grades, strict=True))
    wanted = {doc for doc, grade in pairs if grade >= field.board.protocol.relevant_from}
    corpus, keys = readable(field.task.corpus) or own_corpus(field.task.collection), field.task.keys or {}
    texts: dict[str, tuple[str, str]] = {}
    room = MOST_TEXTS
    for document in corpus or ():
        name = keys.get(document.id, document.id)
        if name in wanted and name not in texts:
            texts[name] = (document.title[:MOST_TEXT], document.body[: MOST_TEXT + 1])
            room -= sum(map(len, texts[name]))
            if room < 0:
                break
    return texts


MOST = 100  # entries
_SPACE = uuid.UUID("6f0c5b0e-9d55-5a0e-8b8e-6f1c1c2d7a51")  # our own name space of ids
_NAMESPACE = "http://www.w3.org/2005/Atom"


def feed(field: LabView) -> str:
    """Returns the feed. Ids depend only on lab, run and version, so that readers see no entry twice.

    Addresses are absolute if the lab states where its site is published, else relative to the feed.
    """
    lab = field.lab
    root = ElementTree.Element("feed", {"xmlns": _NAMESPACE})
    _add_element(root, "title", lab.title)
    _add_element(root, "id", uuid.uuid5(_SPACE, f"{field.base}\0{lab.collection}\0{lab.edition}").urn)
    times = [each.submitted for each in field.all_submissions]
    _add_element(root, "updated", max(times))
    _add_element(root, "generator", "mathir-harness")
    author = ElementTree.SubElement(root, "author")
    _add_element(author, "name", lab.title)
    ElementTree.SubElement(root, "link", {"href": _full_address(field, "index.html"), "rel": "alternate"})
    ElementTree.SubElement(root, "link", {"href": _full_address(field, "feed.xml"), "rel": "self"})
    for each in field.all_submissions[::-1][:MOST]:
        key, name = submission_key(each), field.name(each)
        entry = ElementTree.SubElement(root, "entry")
        _add_element(entry, "title", name + (f", version {each.version}" if each.version > 1 else ""))
        _add_element(entry, "id", uuid.uuid5(_SPACE, f"{field.base}\0{lab.collection}\0{key}\0{each.sha256}").urn)
        _add_element(entry, "updated", each.submitted)
        ElementTree.SubElement(entry, "link", {"href": _full_address(field, f"runs/{key}.html"), "rel": "alternate"})
        _add_element(ElementTree.SubElement(entry, "author"), "name", field.names.team(each.team))
        _add_element(entry, "summary", field.names.text(each.description) or each.kind)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _full_address(field: LabView, path: str) -> str:
    return f"{field.lab.address.rstrip('/')}/{path}" if field.lab.address else path


def _add_element(parent: ElementTree.Element, name: str, text: str) -> None:
    ElementTree.SubElement(parent, name).text = visible(text)
