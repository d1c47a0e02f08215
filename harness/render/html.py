"""Renders a report as one self-contained HTML file, which makes no network requests.

Writes an `Explorer` as compressed JSON, which the script of the HTML page draws.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import zlib
from collections.abc import Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import counted_text
from harness.io.console import track
from harness.render import svg
from harness.render.formulas import RenderedFormula, located, segments, to_mathml
from harness.render.model import (
    MARKS,
    Block,
    Cell,
    Content,
    Explorer,
    Facts,
    Figure,
    Prose,
    Table,
    TopicPage,
    TopicPages,
    TopicVersion,
    visible,
)
from harness.render.table_parts import footnotes, header_groups, marks_used, numeral, symbols

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from jinja2 import Template


_TEMPLATES = Path(__file__).parent / "templates"
# Longer tables get a search box and scroll under a fixed header.
_LONG = 15
_WIDE_COLUMNS = 8
_LONG_TEXT = 36
_HALF_TEXT = 14
_MANY_NOTES = 8
# Of tables with more rows the page holds the first ones as elements: tens of thousands would make it slow.
_MOST_ROWS = 250
_FIRST_ROWS = 100
# A fact that is exactly a web address becomes a link; no other text does.
_ADDRESS = re.compile(r"https://[A-Za-z0-9][A-Za-z0-9.-]*(?:/[A-Za-z0-9./?=&%#:@~_+()-]*)?")
_EXPLORER = ("explorer_base.js", "explorer_wordings.js", "explorer_topic.js", "explorer.js")


def render_html(report: Content, *, csv: bool = False) -> str:
    """Renders a report as a self-contained HTML document.

    Its content security policy allows only our styles and scripts, by their hashes. Of a table with more than 250 rows
    the first 100 are elements; the script makes the others from compressed markup as they are scrolled to or printed.

    Parameters
    ----------
    csv : whether `tables/ID.csv` of each table is beside the page, for a link to what browsers without scripts lack.

    Raises
    ------
    HarnessError
        A figure contains SVG that `harness.render.figures` does not write.
    """
    from markupsafe import Markup

    explored = any(isinstance(block, Explorer) for block in report.blocks())
    styles = ["report.css", *(["explorer.css"] if explored else [])]
    style = "".join(read_template(name) for name in styles)
    # The explorer is a module: its data takes a moment to decompress.
    scripts = [("", read_template("report.js"))]
    scripts += [("module", "".join(read_template(name) for name in _EXPLORER))] if explored else []
    labels = report.labels()
    return template("report.html.j2").render(
        report=report,
        csv=csv,
        sections=[(section, [block(each, labels) for each in section.blocks]) for section in report.sections],
        style=Markup(style),  # noqa: S704 - our own file
        scripts=[(kind, Markup(script)) for kind, script in scripts],  # noqa: S704 - our own files
        policy=f"default-src 'none'; style-src {source_hash(style)} {source_hash(svg.STYLE)}; "
        f"script-src {' '.join(source_hash(script) for _, script in scripts)}; "
        "img-src data:; base-uri 'none'; form-action 'none'",
    )


def render_html_table(table: Table, label: str = "Table 1") -> str:
    """Renders one table as in a report, without the rest of the page."""
    drawn: str = template("table.html.j2").module.table(_table_data(table, label))  # type: ignore[attr-defined]
    return drawn


def render_first(report: Content) -> str:
    """Renders title, headline and first section of a report without styles and scripts, for a notebook."""
    from markupsafe import escape

    labels = report.labels()
    parts = [f"<h3>{escape(visible(report.title))}</h3>", f"<p>{escape(visible(report.headline))}</p>"]
    for each in report.sections[0].blocks if report.sections else ():
        match each:
            case Prose(paragraphs):
                parts += [f"<p>{escape(visible(line))}</p>" for line in paragraphs]
            case Table():
                parts.append(render_html_table(each, labels[each.id]))
            case Figure():
                caption = escape(visible(f"{labels[each.id]}. {each.caption}"))
                parts.append(f"<figure>{svg.check(each.svg, each.id)}<figcaption>{caption}</figcaption></figure>")
    rest = len(report.sections) - 1
    parts += [f"<p>{counted_text(rest, 'more section')}; write(FOLDER) writes all.</p>"] if rest > 0 else []
    return "\n".join(parts)


@cache
def read_template(name: str, folder: Path = _TEMPLATES) -> str:
    """Returns the text of a template, style or script."""
    return (folder / name).read_text(encoding="utf-8")


@cache
def template(name: str, folder: Path = _TEMPLATES) -> Template:
    """Returns a template; every text that it prints passes `visible` and is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # `finalize` sees every value that a template prints, so every text passes `visible`; our markup is not a plain str.
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    return environment.get_template(name)


def source_hash(content: str) -> str:
    """Returns a style or script as a source of a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def packed(text: str) -> str:
    """Returns a text compressed by zlib, in base 64, for a script of the page.

    Another version of zlib may give other characters, which decompress to the same text.
    """
    return base64.b64encode(zlib.compress(text.encode())).decode()


def block(content: Block, labels: dict[str, str]) -> dict[str, Any]:
    """Returns the template's variables for a block."""
    from markupsafe import Markup

    match content:
        case Prose(paragraphs):
            return {"kind": "text", "paragraphs": paragraphs}
        case Facts(items):
            return {"kind": "facts", "items": [(*item, bool(_ADDRESS.fullmatch(item[1]))) for item in items]}
        case Table():
            return {"kind": "table", "table": _table_data(content, labels[content.id])}
        case Explorer():
            return {
                "kind": "explorer",
                "id": content.id,
                "data": packed(explorer_json(content)),
                "tables": [(labels[table.id], table) for table in content.tables],
                "compared": bool(content.pair[1]),
            }
        case Figure():
            label = labels[content.id]
            return {
                "kind": "figure",
                "id": content.id,
                "label": label,
                "caption": content.caption,
                "svg": Markup(svg.check(content.svg, content.id)),  # noqa: S704 - checked element by element
                "table": None if content.table is None else _table_data(content.table, f"Numbers of {label}"),
            }


def _table_data(table: Table, label: str) -> dict[str, Any]:
    notes = footnotes(table)
    room = [_room(table, index) for index in range(len(table.columns))]
    rows = [[_cell(table, index, cell, notes, room[index]) for index, cell in enumerate(row)] for row in table.rows]
    shown = len(rows) if len(rows) <= _MOST_ROWS else _FIRST_ROWS
    made = template("table.html.j2").module
    return {
        "id": table.id,
        "label": label,
        "caption": table.caption,
        "collapsed": table.collapsed,
        "long": len(table.rows) > _LONG,
        "wide": len(table.columns) > _WIDE_COLUMNS,
        "width": len(table.columns),
        "heads": _heads(table),
        "rows": rows[:shown],
        "rest": packed(made.rows(rows[shown:])) if rows[shown:] else "",  # type: ignore[attr-defined]
        "size": f"{len(rows):,}",
        "legend": [(name, MARKS[name]) for name in marks_used(table)],
        "notes": table.notes,
        "footnotes": [(letter, f"{table.id}-note-{letter}", note) for note, letter in notes.items()],
        "many": len(notes) > _MANY_NOTES,
    }


def _room(table: Table, index: int) -> int:
    """Returns the most marks and note letters in a cell of a number column; this space aligns the digits."""
    if table.columns[index].kind == "text":
        return 0
    return min(4, max((len(symbols(row[index])) + bool(row[index].note) for row in table.rows), default=0))


def _heads(table: Table) -> list[list[dict[str, Any]]]:
    """Returns the header rows: one, or two if columns are grouped."""
    grouped = any(column.group for column in table.columns)
    top: list[dict[str, Any]] = []
    below: list[dict[str, Any]] = []
    index = 0
    for group, span in header_groups(table):
        if group:
            top.append({"title": group, "group": True, "span": span})
        for column in table.columns[index : index + span]:
            classes = [*(["t"] if column.kind == "text" else []), *(["c0"] if index == 0 else [])]
            classes += ["w"] if len(column.title) > _HALF_TEXT else []
            head = {"title": column.title, "group": False, "class": " ".join(classes), "tall": grouped and not group}
            (below if group else top).append(head)
            index += 1
    return [top, below] if grouped else [top]


def _cell(table: Table, index: int, cell: Cell, notes: dict[str, str], room: int) -> dict[str, Any]:
    """Returns the data of the template for a cell."""
    is_text = table.columns[index].kind == "text"
    classes = ["t"] if is_text else []
    if is_text and len(cell.text) > _HALF_TEXT:
        classes.append("w" if len(cell.text) > _LONG_TEXT else "h")
    coloured = ("best", "differs", "needs", "not-implemented", "blocked", "missing")
    classes += [mark for mark in coloured if mark in cell.marks]
    text = numeral(cell, table.columns[index])
    exact = "" if cell.number is None else repr(cell.number).removesuffix(".0")
    letter = notes.get(cell.note, "")
    return {
        "header": index < table.row_headers,
        "class": " ".join(classes),
        "text": text,
        "auto": is_text,
        "exact": exact if exact != text else "",
        "best": "best" in cell.marks,
        "marks": [(name, MARKS[name]) for name in symbols(cell)],
        "letter": letter,
        "target": f"{table.id}-note-{letter}",
        "note": cell.note,
        "room": room,
    }


_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_FIRST, _SECOND = [digit for digit in _DIGITS for _ in _DIGITS], [*_DIGITS] * len(_DIGITS)  # of numbers below 64^2
_PLAIN = re.compile(r"[1-9][0-9]{0,6}", re.ASCII)
_SCALE = 100_000  # values are written as integers, in units of 1/100,000


def explorer_json(block: Explorer) -> str:
    """Returns the block as JSON.

    - A text is a list of strings and of indices into `formulas`.
    - A formula is its LaTeX, whether it is displayed and, unless conversion failed, its MathML as nested lists: index
      into `kinds` (element and attributes), then children: texts or lists.
    - A list of numbers is a string with `width` base-64 digits per number: the first digits of all, then the second.
    - Values are in units of 1/100,000. A grade is an index into the topic's `judged`, or its length without judgment.
    - A wording of a topic refers to titles and bodies by index into `texts`. In a literal text, a list of one string
      marks a part that reads left to right in any context.
    """
    formulas = _Formulas()
    data = {
        "pair": [visible(run) for run in block.pair],
        "collections": [_collection_json(collection, formulas) for collection in block.collections],
        "documents": {
            visible(doc): [formulas.text(title), formulas.text(body)]
            for doc, (title, body) in sorted(block.documents.items())
        },
        "texts": formulas.texts,
        "formulas": formulas.made,
        "kinds": list(formulas.kinds),
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _collection_json(pages: TopicPages, formulas: _Formulas) -> dict[str, object]:
    ranks_shown = [rank for page in pages.topics for ranks in page.ranks for rank in ranks]
    ranks_shown += [rank for page in pages.topics for first in page.judged_firsts for _, rank in first]
    highest = max((*ranks_shown, *(len(page.docs) for page in pages.topics)), default=0)
    width = 2 if highest < len(_DIGITS) ** 2 else 4
    # Ids that are plain numbers, such as those of posts, take half the space as base-64 numbers.
    numbers = all(_PLAIN.fullmatch(doc) for page in pages.topics for doc in page.docs)
    return {
        "name": visible(pages.name),
        "title": visible(pages.title),
        "note": visible(pages.note),
        "measures": [[name, visible(label)] for name, label in pages.measures],
        "runs": [visible(run) for run in pages.runs],
        "relevantFrom": pages.relevant_from,
        "link": visible(pages.link),
        "language": visible(pages.language),
        "direction": pages.direction,
        "versions": [_version_json(version) for version in pages.versions],
        "width": width,
        "topics": [
            _topic(page, pages.versions, width, numbers, formulas) for page in track(pages.topics, "pages of topics")
        ],
    }


def _version_json(version: TopicVersion) -> dict[str, object]:
    return {
        "name": visible(version.name),
        "runs": [visible(run) for run in version.runs],
        "steps": [
            {"label": visible(step.label), "language": visible(step.language), "direction": step.direction}
            for step in version.steps
        ],
    }


def _topic(
    page: TopicPage, versions: Sequence[TopicVersion], width: int, numbers: bool, formulas: _Formulas
) -> dict[str, object]:
    """Returns a topic as JSON values, with rankings and grades as strings of digits."""
    place = {grade: index for index, (grade, _) in enumerate(page.judged)}
    broad = 1 if len(place) < len(_DIGITS) else 2
    return {
        "id": visible(page.id),
        "title": formulas.text(page.title),
        "body": formulas.text(page.body),
        "tags": [visible(tag) for tag in page.tags],
        "attributes": [[visible(name), visible(value)] for name, value in page.attributes],
        "docs": _digits([int(doc) for doc in page.docs], 4) if numbers else [visible(doc) for doc in page.docs],
        "grades": _digits([len(place) if grade is None else place[grade] for grade in page.grades], broad),
        "relevant": page.relevant,
        "judged": [[int(grade) if grade == int(grade) else grade, count] for grade, count in page.judged],
        "values": [[None if math.isnan(v) else round(v * _SCALE) for v in run] for run in page.values],
        "firsts": [_digits(ranking, width) for ranking in page.firsts],
        "ranks": [_digits(ranks, width) for ranks in page.ranks],
        "judgedFirsts": [_digits([n for pair in first for n in pair], width) for first in page.judged_firsts],
        "wordings": [
            wording
            and {
                "texts": [
                    formulas.placed(texts, version.placeholder if step.literal else None)
                    for step, texts in zip(version.steps, wording.texts, strict=True)
                ],
                "facts": [[visible(name), visible(value)] for name, value in wording.facts],
            }
            for version, wording in zip(versions, page.wordings, strict=False)
        ],
    }


def _digits(numbers: Sequence[int], width: int) -> str:
    """Encodes numbers in `width` base-64 digits: the first digits of all, then the second ones, which compress less."""
    if width == 1:
        return "".join([_DIGITS[n] for n in numbers])
    if width == 2:
        return "".join([_FIRST[n] for n in numbers] + [_SECOND[n] for n in numbers])
    return _digits([n >> 12 for n in numbers], 2) + _digits([n & 4095 for n in numbers], 2)


def _written(text: str, placeholder: str) -> list[object]:
    """Returns a literal text as strings, and lists of one string for parts that read left to right."""
    spans = [(start, end) for start, end, _ in located(text)]
    if placeholder:
        marks = re.finditer(rf"{re.escape(placeholder)}\d+", text, re.ASCII)
        spans += [mark.span() for mark in marks if not any(a < mark.end() and mark.start() < b for a, b in spans)]
    out: list[object] = []
    at = 0
    for start, end in sorted(spans):
        out += [visible(text[at:start]), [visible(text[start:end])]]
        at = end
    return [part for part in (*out, visible(text[at:])) if part]


class _Formulas:
    """Indexes of distinct formulas, kinds of MathML elements, and texts."""

    def __init__(self) -> None:
        self.texts: list[list[object]] = []
        self._placed: dict[tuple[str, str, str | None], int] = {}
        self.kinds: dict[tuple[str, ...], int] = {}
        self.made: list[list[object]] = []
        self._known: dict[RenderedFormula, int] = {}

    def text(self, text: str) -> list[str | int]:
        """Returns a text as strings and indices of formulas."""
        return [visible(part) if isinstance(part, str) else self._index_of(part) for part in segments(text)]

    def placed(self, texts: tuple[str, str], placeholder: str | None) -> int:
        """Returns the index of a title and body in `texts`; with a prefix of placeholders they are shown literally."""
        key = (*texts, placeholder)
        if key not in self._placed:
            self._placed[key] = len(self.texts)
            self.texts.append([self.text(t) if placeholder is None else _written(t, placeholder) for t in texts])
        return self._placed[key]

    def _index_of(self, formula: RenderedFormula) -> int:
        if formula not in self._known:
            self._known[formula] = len(self.made)
            element = to_mathml(formula.latex, formula.display)
            tree = [] if element is None else [self._as_lists(element)]
            self.made.append([visible(formula.latex), int(formula.display), *tree])
        return self._known[formula]

    def _as_lists(self, element: Element) -> list[object]:
        kind = (element.tag, *chain.from_iterable(element.items()))
        place = self.kinds.setdefault(kind, len(self.kinds))
        return [place, *([element.text] if element.text else []), *[self._as_lists(child) for child in element]]
