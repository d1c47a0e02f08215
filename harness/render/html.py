"""Renders a report as one self-contained HTML file, which makes no network requests."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import counted_text
from harness.render import explorer, svg
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
    footnotes,
    header_groups,
    marks_used,
    numeral,
    symbols,
    visible,
)

if TYPE_CHECKING:
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
                "data": packed(explorer.to_json(content)),
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
