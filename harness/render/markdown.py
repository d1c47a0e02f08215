"""Renders a report as Markdown (GitHub flavour: tables with pipes)."""

from __future__ import annotations

import re

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
    Table,
    footnotes,
    marks_used,
    symbols,
    visible,
)

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
