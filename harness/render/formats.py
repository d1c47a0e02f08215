"""Machine-readable forms of a report: one JSON document, one CSV file per table, and CSV files of records.

Renders a report as Markdown (GitHub flavour: tables with pipes).

Findings on files as SARIF 2.1.0 (OASIS), the form that code hosts show beside the lines of a file.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from harness.errors import HarnessError
from harness.render.model import (
    MARKS,
    ON_THE_PAGE,
    Block,
    Cell,
    Column,
    Content,
    Explorer,
    Facts,
    Figure,
    Prose,
    Records,
    Table,
    visible,
)
from harness.render.table_parts import footnotes, marks_used, symbols

SCHEMA = "mathir-harness/report"
SCHEMA_VERSION = 1

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
# Characters that start a formula in spreadsheet programs, also in full-width form.
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
# JSON keeps every character; those that hide or reverse text are written as escapes.
_ESCAPED = re.compile(
    "[\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff\U000e0000-\U000e007f]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")


def render_json(report: Content) -> str:
    """Renders a report as a JSON document (schema `mathir-harness/report`, version 1): all blocks, marks and `data`.

    Numbers have full precision; non-finite numbers become null, which every JSON reader accepts.

    Raises
    ------
    HarnessError
        `report.data` contains a value that JSON cannot represent; the message names the key.
    """
    document = {
        "schema": SCHEMA,
        "version": SCHEMA_VERSION,
        "title": report.title,
        "headline": report.headline,
        "language": report.language,
        "sections": [
            {
                "id": section.id,
                "title": section.title,
                "level": section.level,
                "blocks": [_block_json(block) for block in section.blocks],
            }
            for section in report.sections
        ],
        "records": list(report.records),
        "data": report.data,
    }
    text = json.dumps(_plain(document, ""), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _ESCAPED.sub(_json_escape, text) + "\n"


def _json_escape(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1]


def _block_json(block: Block) -> dict[str, object]:
    match block:
        case Prose(paragraphs):
            return {"type": "text", "paragraphs": paragraphs}
        case Facts(items):
            return {"type": "facts", "items": [{"name": name, "value": value} for name, value in items]}
        case Table():
            return {"type": "table", **_table_json(block)}
        case Explorer():
            return {"type": "explorer", "id": block.id, "tables": [_table_json(table) for table in block.tables]}
        case Figure():
            table = None if block.table is None else _table_json(block.table)
            return {"type": "figure", "id": block.id, "caption": block.caption, "table": table}


def _table_json(table: Table) -> dict[str, object]:
    return {
        "id": table.id,
        "caption": table.caption,
        "columns": [{"title": c.title, "group": c.group, "kind": c.kind} for c in table.columns],
        "rows": [[_cell(cell) for cell in row] for row in table.rows],
        "notes": table.notes,
        "row_headers": table.row_headers,
    }


def _cell(cell: Cell) -> dict[str, object]:
    """Returns a cell's text, and its value, marks and note if it has them."""
    form: dict[str, object] = {"text": cell.text}
    if cell.value is not None:
        form["value"] = cell.value
    if cell.marks:
        form["marks"] = cell.marks
    if cell.note:
        form["note"] = cell.note
    return form


def _plain(value: object, where: str) -> object:
    """Converts a value to types that strict JSON can represent."""
    if isinstance(value, str):
        return _SURROGATE.sub(lambda match: visible(match[0]), value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise HarnessError(f"report: {where or 'data'}: key {key!r} is not text, as JSON requires")
        return {_plain(key, where): _plain(item, f"{where}.{key}".lstrip(".")) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    # NumPy scalars and arrays, without importing NumPy.
    convert = getattr(value, "tolist", None)
    if callable(convert):
        return _plain(convert(), where)
    raise HarnessError(
        f"report: {where}: JSON cannot represent a {type(value).__name__}; use text, numbers, lists, mappings"
    )


def tables_csv(report: Content) -> dict[str, str]:
    """Returns file name -> CSV (RFC 4180: comma, CRLF, quotes doubled) of every table, including those of figures.

    A cell with a finite value gives the value at full precision, a cell with several numbers one field each, any other
    cell its text. Headers are ASCII. Text that a spreadsheet would run as a formula is prefixed with an apostrophe.
    """
    return {f"{table.id}.csv": _table_csv(table) for table in report.tables()}


def records_csv(report: Content) -> dict[str, str]:
    """Returns file name -> CSV of the report's records; numbers at full precision, an empty field without a value."""
    return {f"{name}.csv": record_csv(records) for name, records in report.records.items()}


def record_csv(records: Records) -> str:
    """Returns records as CSV: numbers at full precision, an empty field without a value."""
    return _csv_lines([records.columns, *(map(_plain_field, row) for row in records.rows)])


def _csv_lines(rows: Iterable[Iterable[str]]) -> str:
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator="\r\n").writerows(rows)
    return stream.getvalue()


def _plain_field(value: str | float | bool | None) -> str:
    if isinstance(value, str):
        return _text_field(value)
    if value is None or isinstance(value, bool):
        return "" if value is None else str(value).lower()
    return _decimal(value) if math.isfinite(value) else ""


def _table_csv(table: Table) -> str:
    heads = _ascii([title for c in table.columns for title in (c.parts or (c.full_title,))])
    rows = [
        [field for cell, column in zip(row, table.columns, strict=True) for field in _fields(cell, len(column.parts))]
        for row in table.rows
    ]
    return _csv_lines([map(_text_field, heads), *rows])


def _fields(cell: Cell, parts: int) -> list[str]:
    """Returns the fields of a cell: one, or one for each part of its column, empty if the cell has no numbers."""
    if parts:
        return [_plain_field(value) for value in cell.values] or [""] * parts
    return [_text_field(cell.text) if cell.number is None else _decimal(cell.number)]


_SIGNS = {"′": "'", "−": "-", "–": "-", "—": "-", "…": "..."}


def _ascii(titles: Sequence[str]) -> list[str]:
    """Converts headers to ASCII: drops accents, replaces other characters by codes, and keeps headers distinct."""

    def plain(text: str) -> str:
        signs = "".join(_SIGNS.get(char, char) for char in visible(text))
        return "".join(char for char in unicodedata.normalize("NFKD", signs) if not unicodedata.combining(char))

    def coded(text: str) -> str:
        return "".join(char if char.isascii() else f"U+{ord(char):04X}" for char in text)

    heads = [coded(plain(title)) for title in titles]
    return [head if heads.count(head) == 1 else coded(visible(titles[index])) for index, head in enumerate(heads)]


@lru_cache(maxsize=1 << 14)  # names of runs, topics and measures are repeated in each row
def _text_field(text: str) -> str:
    shown = visible(text)
    if shown.lstrip().startswith(_FORMULA) and not _NUMBER.fullmatch(shown.strip()):
        return f"'{shown}"
    return shown


def _decimal(value: float) -> str:
    """Formats a number as the shortest decimal that reads back unchanged; whole numbers without `.0`."""
    return repr(value).removesuffix(".0")


_SPECIAL = re.compile(r"[\\`*_\[\]{}#~$^]|:(?=//)|(?<=www)\.")
# A web address, which is not escaped but stands as code, so that it can be copied and no reader's text makes a link.
_ADDRESS = re.compile(r"https?://[^\s<>|\\`\"]*[^\s<>|\\`\".,;:!?)\]'…]")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;"}
# Starts of a list, a rule or an underlined heading.
_START = re.compile(r"(?=[-+=])|(?<=\d)(?=[.)])")


def render_markdown(report: Content) -> str:
    """Renders a report as Markdown; drawings are `figures/ID.svg`, where `Report.write` puts them."""
    labels = report.labels()
    parts = [f"# {escape_markdown(report.title)}"]
    if report.headline:
        parts.append(f"**{escape_markdown(report.headline)}**")
    for section in report.sections:
        parts.append(f"{'#' * section.level} {escape_markdown(section.title)}")
        for block in section.blocks:
            parts += _render_block(block, labels)
    return "\n\n".join(parts) + "\n"


def escape_markdown(text: str) -> str:
    """Escapes plain text within a line, so that no character is markup."""
    shown = visible(text).strip()
    parts, start = [], 0
    for match in _ADDRESS.finditer(shown):
        parts += [_escaped(shown[start : match.start()]), f"`{match[0]}`"]
        start = match.end()
    return "".join([*parts, _escaped(shown[start:])])


def _escaped(text: str) -> str:
    shown = _SPECIAL.sub(lambda match: f"\\{match[0]}", text)
    return re.sub("[&<>|]", lambda match: _ENTITIES[match[0]], shown)


def _fact(value: str) -> str:
    """Returns the value of a fact: one that is exactly a web address becomes a link, as in HTML."""
    return f"<{value}>" if _ADDRESS.fullmatch(value) else escape_markdown(value)


def _paragraph(text: str) -> str:
    """Escapes plain text at the start of a line."""
    return (
        _START.sub(r"\\", escape_markdown(text), count=1)
        if re.match(r"[-+=]|\d+[.)]", escape_markdown(text))
        else escape_markdown(text)
    )


def _render_block(block: Block, labels: dict[str, str]) -> list[str]:
    match block:
        case Prose(paragraphs):
            return [_paragraph(paragraph) for paragraph in paragraphs]
        case Facts(items):
            return (
                ["\n".join(f"- **{escape_markdown(name)}:** {_fact(value)}" for name, value in items)] if items else []
            )
        case Table():
            return _render_table(block, labels[block.id])
        case Explorer():
            parts = [part for table in block.tables for part in _render_table(table, labels[table.id])]
            return parts or [escape_markdown(ON_THE_PAGE)]
        case Figure():
            label, caption = labels[block.id], escape_markdown(block.caption)
            drawing = [f"![{label}. {caption}](figures/{block.id}.svg)", f"**{label}.** {caption}"]
            return drawing if block.table is None else drawing + _render_table(block.table, f"Numbers of {label}")


def _render_table(table: Table, label: str) -> list[str]:
    letters = footnotes(table)
    rows = [
        _render_row([escape_markdown(column.full_title) for column in table.columns]),
        _render_row([_alignment(column) for column in table.columns]),
        *(_render_row([_render_cell(cell, letters) for cell in row]) for row in table.rows),
    ]
    parts = [f"**{label}.** {escape_markdown(table.caption)}", "\n".join(rows)]
    legend = [
        f"{escape_markdown(MARKS[name].symbol) or '**bold**'} {MARKS[name].meaning}" for name in marks_used(table)
    ]
    if legend:
        parts.append(f"Marks: {'; '.join(legend)}.")
    parts += [_paragraph(note) for note in table.notes]
    if letters:
        parts.append("\n".join(f"- ({letter}) {escape_markdown(note)}" for note, letter in letters.items()))
    return parts


def _render_row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _alignment(column: Column) -> str:
    return "---:" if column.kind == "number" else ":---"


def _render_cell(cell: Cell, letters: dict[str, str]) -> str:
    text = escape_markdown(cell.text)
    shown = f"**{text}**" if "best" in cell.marks and text else text
    marks = "".join(escape_markdown(MARKS[name].symbol) for name in symbols(cell))
    letter = f"({letters[cell.note]})" if cell.note else ""
    return " ".join(part for part in (shown, marks, letter) if part)


SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


@dataclass(frozen=True)
class SarifRule:
    """A rule: its name, its level (`error`, `warning` or `note`), a title, and what to do about a finding."""

    name: str
    level: str
    title: str
    help: str


@dataclass(frozen=True)
class SarifFinding:
    """A finding of the rule of this name in a file; `line` is from 1, or 0 for the file as a whole."""

    rule: str
    message: str
    path: str
    line: int = 0


def sarif(results: Sequence[SarifFinding], rules: Sequence[SarifRule], tool: str, version: str) -> dict[str, Any]:
    """Returns findings as SARIF: one run of one tool, paths relative where they were given so.

    Examples
    --------
    >>> finding, rule = SarifFinding("ties", "3 results are tied", "a.run", 2), SarifRule("ties", "note", "Ties", "")
    >>> found = sarif([finding], [rule], "x", "1")
    >>> found["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]
    {'startLine': 2}
    """
    places = {rule.name: place for place, rule in enumerate(rules)}
    return {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": tool, "version": version, "rules": [_rule_object(rule) for rule in rules]}},
                "columnKind": "unicodeCodePoints",
                "results": [_result_object(each, rules[places[each.rule]], places[each.rule]) for each in results],
            }
        ],
    }


def _rule_object(rule: SarifRule) -> dict[str, Any]:
    return {
        "id": rule.name,
        "shortDescription": {"text": rule.title},
        "help": {"text": rule.help or rule.title},
        "defaultConfiguration": {"level": rule.level},
    }


def _result_object(each: SarifFinding, rule: SarifRule, place: int) -> dict[str, Any]:
    location: dict[str, Any] = {"artifactLocation": {"uri": uri(each.path)}}
    if each.line:
        location["region"] = {"startLine": each.line}
    return {
        "ruleId": rule.name,
        "ruleIndex": place,
        "level": rule.level,
        "message": {"text": each.message},
        "locations": [{"physicalLocation": location}],
    }


def uri(path: str) -> str:
    """Returns a path as a URI reference; a relative path stays relative.

    Examples
    --------
    >>> uri("runs/my run.txt"), uri("/data/a.run")
    ('runs/my%20run.txt', 'file:///data/a.run')
    """
    pure = PurePath(path)
    if pure.is_absolute():
        return pure.as_uri()
    return quote(pure.as_posix())
