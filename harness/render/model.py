"""What a report is made of: plain values that every renderer draws in its own way.

All strings are plain text that anyone may have written. No renderer trusts them: each passes them through
`visible` and then through the escaping of its own format. A new kind of block is one dataclass here and one
case in each renderer.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal, TypeAlias

from harness.errors import HarnessError, suggestion


@dataclass(frozen=True)
class Mark:
    """What a marked cell shows beside its text, and what that means."""

    symbol: str
    meaning: str


# The best value is set in bold, as papers do; every other mark has a symbol, so that none depends on colour.
MARKS: Mapping[str, Mark] = MappingProxyType(
    {
        "best": Mark("", "best"),
        "baseline": Mark("†", "baseline"),
        "significant": Mark("*", "significant after correction"),
        "nominal": Mark("°", "significant only without correction"),
        "chosen": Mark("‡", "chosen on the evaluation set"),
        "exact": Mark("✓", "equals the published value in all printed digits"),
        "close": Mark("≈", "close to the published value"),
        "differs": Mark("≠", "differs from the published value"),
        "needs": Mark("⊕", "needs a resource"),
        "not-implemented": Mark("⊖", "not implemented"),
        "blocked": Mark("⊘", "cannot be recomputed"),
        "missing": Mark("∅", "no value"),
    }
)

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,78}[A-Za-z0-9_-])?", re.ASCII)
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.ASCII | re.IGNORECASE)
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*", re.ASCII)
_BREAK = re.compile(r"[\t\r\n]+")
# Control characters, those that turn or hide text (bidirectional overrides and isolates, zero width space, byte order
# mark, tags), halves of surrogate pairs, and non-characters. Joiners and the marks U+200E and U+200F stay: Persian
# and Arabic are written with them.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """The text in one line, each character that would be invisible or turn its surroundings shown as `[U+202E]`."""
    return _HIDDEN.sub(lambda found: f"[U+{ord(found[0]):04X}]", _BREAK.sub(" ", text))


def spelled(text: str, known: Callable[[str], bool]) -> str:
    """The text with characters that a font lacks as their codes, a longer passage of them as its script and length."""
    kinds = "".join(" " if char == " " else "." if known(char) else "?" for char in text)
    parts, start = [], 0
    for found in re.finditer(r"\?(?: *\?)*", kinds):
        parts += [text[start : found.start()], _codes(text[found.start() : found.end()].replace(" ", ""))]
        start = found.end()
    return "".join([*parts, text[start:]])


def _codes(chars: str) -> str:
    if len(chars) <= 3:
        return f"[{' '.join(f'U+{ord(char):04X}' for char in chars)}]"
    script = f"{unicodedata.name(chars[0]).partition(' ')[0].capitalize()}, " if chars[0].isalpha() else ""
    return f"[{script}{len(chars)} characters]"


def slug(text: str) -> str:
    """An id made from any text: `nDCG′@10, Croatian` -> `ndcg-10-croatian`; `part` if nothing of it is left."""
    words = "-".join(re.findall(r"[a-z0-9]+", text.lower()))[:60].strip("-")
    return words if words and not _DEVICE.fullmatch(words) else f"part-{words}".rstrip("-")


def _check_id(kind: str, name: str) -> None:
    """Ids become file names and anchors: letters, digits and `._-` only, no name that an operating system reserves."""
    if not _NAME.fullmatch(name) or _DEVICE.fullmatch(name):
        raise HarnessError(
            f"{kind} id {name!r}: unfit for a file name; use letters, digits, '.', '_' and '-' (at most 80), "
            f"such as {slug(name)!r}"
        )


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes
    ----------
    text : what is shown.
    value : the number behind it at full precision, for CSV, JSON and sorting; None if there is none.
    marks : names in `MARKS`.
    note : shown as a footnote of the table.
    values : the numbers behind a text of several, such as an interval, for CSV; as many as the column has `parts`.
    """

    text: str
    value: float | None = None
    marks: tuple[str, ...] = ()
    note: str = ""
    values: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for mark in self.marks:
            if mark not in MARKS:
                raise HarnessError(f"cell {self.text!r}: unknown mark {mark!r}; {suggestion(mark, MARKS)}")

    @property
    def number(self) -> float | None:
        """The value if it is a finite number, else None."""
        return None if self.value is None or not math.isfinite(self.value) else float(self.value)


def number_cell(value: float, digits: int = 3, marks: tuple[str, ...] = (), note: str = "") -> Cell:
    """A cell that shows a number with `digits` decimals; one that is not finite is shown as `n/a`."""
    if math.isfinite(value):
        return Cell(f"{value:.{digits}f}", float(value), marks, note)
    return Cell("n/a", None, marks, note)


@dataclass(frozen=True)
class Column:
    """A column of a table. Neighbours of the same `group` stand under one spanning header.

    Attributes
    ----------
    parts : where its cells hold several numbers, the columns that CSV has for them.
    """

    title: str
    group: str = ""
    kind: Literal["text", "number"] = "text"
    parts: tuple[str, ...] = ()

    @property
    def full_title(self) -> str:
        """The title with its group, for formats without spanning headers."""
        return f"{self.group} / {self.title}" if self.group else self.title


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes
    ----------
    id : unique in the report; the name of its CSV file and its anchor.
    notes : lines below the table, such as the test, the correction, n and the protocol.
    row_headers : how many columns, counted from the left, name the row.
    collapsed : shown closed at first where the format can do that.

    Raises
    ------
    HarnessError
        The id is unfit for a file name, a row has not one cell per column, or there is no column.
    """

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    row_headers: int = 1
    collapsed: bool = False

    def __post_init__(self) -> None:
        _check_id("table", self.id)
        if not self.columns:
            raise HarnessError(f"table {self.id}: has no columns")
        if not 0 <= self.row_headers <= len(self.columns):
            raise HarnessError(f"table {self.id}: {self.row_headers} row headers in {len(self.columns)} columns")
        for index, row in enumerate(self.rows, 1):
            if len(row) != len(self.columns):
                raise HarnessError(f"table {self.id}: row {index} has {len(row)} cells, expected {len(self.columns)}")
            for cell, column in zip(row, self.columns, strict=True):
                if cell.values and len(cell.values) != len(column.parts):
                    raise HarnessError(
                        f"table {self.id}: row {index} has {len(cell.values)} values in column {column.title!r}, "
                        f"expected {len(column.parts)}"
                    )


@dataclass(frozen=True)
class Figure:
    """A drawing made by `harness.render.figures` (any other SVG is refused), with its numbers as a table."""

    id: str
    caption: str
    svg: str
    table: Table | None = None

    def __post_init__(self) -> None:
        _check_id("figure", self.id)


@dataclass(frozen=True)
class Text:
    """Paragraphs of prose."""

    paragraphs: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """Names and values, such as versions and checksums."""

    items: tuple[tuple[str, str], ...]


Direction: TypeAlias = Literal["ltr", "rtl", "auto"]


@dataclass(frozen=True)
class Step:
    """A text on its way into other words, such as what a translator gave back.

    Attributes
    ----------
    language : BCP 47 tag; empty if not known.
    literal : shown as it is written, formulas as LaTeX.
    """

    label: str
    language: str = ""
    direction: Direction = "auto"
    literal: bool = False


@dataclass(frozen=True)
class Version:
    """Topics in other words, such as a translation, step by step.

    Attributes
    ----------
    runs : those that were made from it.
    placeholder : what placeholders in literal texts begin with, before their number; empty if there are none.
    """

    name: str
    steps: tuple[Step, ...]
    runs: tuple[str, ...] = ()
    placeholder: str = ""


@dataclass(frozen=True)
class Wording:
    """A topic in one version: title and body at each step, and what is to be said of them (name, value)."""

    texts: tuple[tuple[str, str], ...]
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class TopicPage:
    """One topic: its text, what is judged, and what each run made of it.

    Attributes
    ----------
    docs : relevant documents, best grade first, then all others that some run has among its first.
    grades : of `docs`; None where there is no judgment.
    relevant : how many of `docs`, counted from the first, are relevant.
    judged : grade -> number of documents, best grade first.
    values : for each run, the value of each measure; NaN where the protocol leaves the topic out.
    firsts : for each run, its first documents as indices into `docs`, in the order of the protocol.
    ranks : for each run, the rank of each relevant document, from 1; 0 if it was not retrieved.
    judged_firsts : for each run, its first judged documents as (index into `docs`, rank); empty if nothing else counts.
    wordings : for each version of the collection, the topic in it; None if it is not shown.
    """

    id: str
    title: str
    body: str
    tags: tuple[str, ...]
    attributes: tuple[tuple[str, str], ...]
    docs: tuple[str, ...]
    grades: tuple[float | None, ...]
    relevant: int
    judged: tuple[tuple[float, int], ...]
    values: tuple[tuple[float, ...], ...]
    firsts: tuple[tuple[int, ...], ...]
    ranks: tuple[tuple[int, ...], ...]
    judged_firsts: tuple[tuple[tuple[int, int], ...], ...] = ()
    wordings: tuple[Wording | None, ...] = ()


@dataclass(frozen=True)
class TopicPages:
    """The topics of one collection and the runs on it.

    Attributes
    ----------
    name : how links call the collection.
    note : what the values were made with, such as edition and protocol.
    measures : (name, label); a run has the same name in all collections.
    relevant_from : the lowest grade that counts as relevant.
    link : the address of a document, with `{id}` in place of its id; empty if there is none.
    language, direction : of the topics; the language as a BCP 47 tag, empty if not known.
    versions : the topics in other words.
    """

    name: str
    title: str
    note: str
    measures: tuple[tuple[str, str], ...]
    runs: tuple[str, ...]
    relevant_from: float
    topics: tuple[TopicPage, ...]
    link: str = ""
    language: str = ""
    direction: Direction = "auto"
    versions: tuple[Version, ...] = ()


# What stands for an explorer without tables in formats that are only read.
ON_THE_PAGE = "Topics and runs can be looked into on the report's page, index.html."


@dataclass(frozen=True)
class Explorer:
    """Topics and runs to look into: a list of topics, slices and a page a topic. What cannot do that shows `tables`.

    Attributes
    ----------
    documents : id -> (title, text), as far as known.
    pair : the two runs compared at first; the second is empty where there is only one run.
    tables : the values by topic, for formats that are only read.
    """

    id: str
    collections: tuple[TopicPages, ...]
    pair: tuple[str, str]
    tables: tuple[Table, ...] = ()
    documents: Mapping[str, tuple[str, str]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        _check_id("explorer", self.id)


Block: TypeAlias = Text | Facts | Table | Figure | Explorer


@dataclass(frozen=True)
class Section:
    """A heading (level 2 to 4) and what stands below it. An empty id is filled in by the report, from the title."""

    title: str
    blocks: tuple[Block, ...]
    level: int = 2
    id: str = ""

    def __post_init__(self) -> None:
        if self.level not in (2, 3, 4):
            raise HarnessError(f"section {self.title!r}: level {self.level}, expected 2, 3 or 4")
        if self.id:
            _check_id("section", self.id)


@dataclass(frozen=True)
class Records:
    """Facts for other programs, a row each: names of the columns (ASCII), and values at full precision."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | bool | None, ...], ...]


@dataclass(frozen=True)
class Content:
    """What a whole report says; `harness.render.write.Report` can also be written.

    Attributes
    ----------
    headline : the answer in one line.
    language : BCP 47 tag of the language the report is written in.
    data : machine-readable values (mappings, sequences, numbers, strings), written to the JSON file.
    records : name -> what is written to `NAME.csv`.

    Raises
    ------
    HarnessError
        Two blocks share an id, or the language is no language tag.
    """

    title: str
    headline: str
    sections: tuple[Section, ...]
    language: str = "en"
    data: Mapping[str, object] = field(default_factory=dict, hash=False)
    records: Mapping[str, Records] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name in self.records:
            _check_id("records", name)
        if not _LANGUAGE.fullmatch(self.language):
            raise HarnessError(f"report: language {self.language!r} is no language tag such as 'en' or 'pt-BR'")
        # Ids are compared without case because file systems may do so.
        taken: set[str] = set()
        given = [section.id for section in self.sections if section.id]
        blocks = [block for section in self.sections for block in section.blocks]
        drawn = [block for block in blocks if isinstance(block, Table | Figure | Explorer)]
        inner = [block.table.id for block in drawn if isinstance(block, Figure) and block.table is not None]
        inner += [table.id for block in drawn if isinstance(block, Explorer) for table in block.tables]
        if sum(isinstance(block, Explorer) for block in drawn) > 1:
            raise HarnessError("report: two explorers; links to topics lead to one")
        for name in (*given, *(block.id for block in drawn), *inner):
            if name.casefold() in taken:
                raise HarnessError(f"report: two blocks have the id {name!r}; ids differ in more than case")
            taken.add(name.casefold())
        sections = []
        for section in self.sections:
            name, number = section.id or slug(section.title), 1
            while not section.id and name in taken:
                number += 1
                name = f"{slug(section.title)}-{number}"
            taken.add(name)
            sections.append(replace(section, id=name))
        object.__setattr__(self, "sections", tuple(sections))
        object.__setattr__(self, "data", MappingProxyType(dict(self.data)))
        object.__setattr__(self, "records", MappingProxyType(dict(self.records)))

    def blocks(self) -> Iterator[Block]:
        """All blocks in reading order."""
        for section in self.sections:
            yield from section.blocks

    def tables(self) -> Iterator[Table]:
        """All tables in reading order, those of figures and of the explorer among them."""
        for block in self.blocks():
            if isinstance(block, Table):
                yield block
            elif isinstance(block, Explorer):
                yield from block.tables
            elif isinstance(block, Figure) and block.table is not None:
                yield block.table

    def labels(self) -> dict[str, str]:
        """Id -> `Table 1`, `Figure 1`, ... in reading order; the table of a figure has no number of its own."""
        labels: dict[str, str] = {}
        counts = {"Table": 0, "Figure": 0}
        for block in self.blocks():
            for part in block.tables if isinstance(block, Explorer) else (block,):
                if isinstance(part, Table | Figure):
                    kind = type(part).__name__
                    counts[kind] += 1
                    labels[part.id] = f"{kind} {counts[kind]}"
        return labels


def header_groups(table: Table) -> tuple[tuple[str, int], ...]:
    """The spanning headers as (title, number of columns), left to right; a column without group stands alone."""
    spans: list[tuple[str, int]] = []
    for column in table.columns:
        if column.group and spans and spans[-1][0] == column.group:
            spans[-1] = (column.group, spans[-1][1] + 1)
        else:
            spans.append((column.group, 1))
    return tuple(spans)


def marks_used(table: Table) -> tuple[str, ...]:
    """The marks that occur in a table, in the order of `MARKS`."""
    used = {mark for row in table.rows for cell in row for mark in cell.marks}
    return tuple(mark for mark in MARKS if mark in used)


def symbols(cell: Cell) -> tuple[str, ...]:
    """The marks of a cell that are shown by a symbol, in the order of `MARKS`."""
    return tuple(mark for mark in MARKS if mark in cell.marks and MARKS[mark].symbol)


def footnotes(table: Table) -> dict[str, str]:
    """Note -> its letter (a, b, ..., z, aa, ...), in reading order; equal notes share a letter."""
    notes: dict[str, str] = {}
    for row in table.rows:
        for cell in row:
            if cell.note and cell.note not in notes:
                notes[cell.note] = _letter(len(notes))
    return notes


def _letter(index: int) -> str:
    letters = ""
    index += 1
    while index:
        index, digit = divmod(index - 1, 26)
        letters = chr(ord("a") + digit) + letters
    return letters
