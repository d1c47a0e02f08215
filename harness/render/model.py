"""Parts of a report: plain values that each renderer draws in its own way.

All strings are untrusted plain text: each renderer passes them through `visible` and then through the escaping of its
format. A new kind of block is one dataclass here and one case in each renderer.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal, TypeAlias

from harness.errors import HarnessError, suggestion
from harness.io.names import without_accents


@dataclass(frozen=True)
class Mark:
    """Symbol of a marked cell, and its meaning."""

    symbol: str
    meaning: str


# The best value is bold, as in papers; every other mark has a symbol, so that none depends on colour.
MARKS: Mapping[str, Mark] = MappingProxyType(
    {
        "best": Mark("", "best"),
        "baseline": Mark("†", "baseline"),
        "better": Mark("▲", "better, significant after correction"),
        "worse": Mark("▼", "worse, significant after correction"),
        "nominally-better": Mark("△", "better, significant only without correction"),
        "nominally-worse": Mark("▽", "worse, significant only without correction"),
        "lowest": Mark("↓", "lowest, which was searched for"),
        "chosen": Mark("‡", "chosen on the evaluation set"),
        "exact": Mark("✓", "equals the published value in all printed digits"),
        "close": Mark("≈", "close to the published value"),
        "within": Mark("∈", "within the interval that the values of several seeds predict"),
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
# Control characters, those that reverse or hide text (bidirectional overrides, isolates, zero width space, byte order
# mark, tags), halves of surrogate pairs, and non-characters. Joiners and the marks U+200E and U+200F stay: Persian
# and Arabic are written with them.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """Puts a text on one line and shows characters that are invisible or reverse text as codes like `[U+202E]`."""
    # Nearly all texts are printable, and none of these characters is.
    return text if text.isprintable() else _HIDDEN.sub(lambda match: f"[U+{ord(match[0]):04X}]", _BREAK.sub(" ", text))


def slug(text: str) -> str:
    """Makes an id from any text: `nDCG′@10, Croatian` becomes `ndcg-10-croatian`; `part` if no letter remains.

    Letters lose their accents; a text with letters of other scripts gets digits of its SHA-256, as two would be equal.
    """
    plain = without_accents(text)
    words = "-".join(re.findall(r"[a-z0-9]+", plain))[:60].strip("-")
    if any(char.isalpha() and not char.isascii() for char in plain):
        words = f"{words or 'part'}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:6]}"
    return words if words and not _DEVICE.fullmatch(words) else f"part-{words}".rstrip("-")


def _check_id(kind: str, name: str) -> None:
    """Raises HarnessError for an id that is unfit as a file name and anchor, or reserved by an operating system."""
    if not _NAME.fullmatch(name) or _DEVICE.fullmatch(name):
        raise HarnessError(
            f"{kind} id {name!r}: not usable as a file name; use letters, digits, '.', '_' and '-' (at most 80), "
            f"such as {slug(name)!r}"
        )


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes
    ----------
    text : text shown.
    value : its number at full precision, for CSV, JSON and sorting; None if the cell has no number.
    marks : names in `MARKS`.
    note : footnote of the table.
    values : several numbers of one cell, such as an interval, for CSV; one for each of the column's `parts`.
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


def number_cell(value: float | None, digits: int = 3, marks: tuple[str, ...] = (), note: str = "") -> Cell:
    """Makes a cell that shows a number with `digits` decimals; None and a non-finite number are shown as `n/a`."""
    if value is not None and math.isfinite(value):
        return Cell(f"{value:.{digits}f}", float(value), marks, note)
    return Cell("n/a", None, marks, note)


def cells(*values: Cell | str | int) -> tuple[Cell, ...]:
    """Makes the cells of a row from texts, whole numbers and cells."""
    return tuple(
        value if isinstance(value, Cell) else Cell(value) if isinstance(value, str) else Cell(f"{value:,}", value)
        for value in values
    )


@dataclass(frozen=True)
class Column:
    """A column of a table; neighbours of the same `group` share a spanning header.

    Attributes
    ----------
    parts : names of the CSV columns if its cells have several numbers.
    """

    title: str
    group: str = ""
    kind: Literal["text", "number"] = "text"
    parts: tuple[str, ...] = ()

    @property
    def full_title(self) -> str:
        """Title with its group, for formats without spanning headers."""
        return f"{self.group} / {self.title}" if self.group else self.title


def columns(*titles: str, numbers: Iterable[str] = (), group: str = "") -> tuple[Column, ...]:
    """Makes columns of texts, then columns of numbers, which share a group."""
    return (*map(Column, titles), *(Column(title, group, "number") for title in numbers))


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes
    ----------
    id : unique in the report; name of its CSV file and of its anchor.
    notes : lines below the table, such as test, correction, n and protocol.
    row_headers : number of leading columns that name the row.
    collapsed : whether it is folded at first, if the format allows.
    label : what it is called in place of a number, such as `Table 2 of the paper`.

    Raises
    ------
    HarnessError
        The id is not usable as a file name, a row has another number of cells than columns, or there is no column.
    """

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    row_headers: int = 1
    collapsed: bool = False
    label: str = ""

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
    """A drawing by `harness.render.figures` (any other SVG is refused), with its numbers as a table."""

    id: str
    caption: str
    svg: str
    table: Table | None = None

    def __post_init__(self) -> None:
        _check_id("figure", self.id)


@dataclass(frozen=True)
class Prose:
    """Paragraphs of prose."""

    paragraphs: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """Names and values, such as versions and checksums."""

    items: tuple[tuple[str, str], ...]


Direction: TypeAlias = Literal["ltr", "rtl", "auto"]


@dataclass(frozen=True)
class TransformationStep:
    """A step of a text's transformation, such as a translator's output.

    Attributes
    ----------
    language : BCP 47 tag; empty if unknown.
    literal : whether the text is shown literally, with formulas as LaTeX.
    """

    label: str
    language: str = ""
    direction: Direction = "auto"
    literal: bool = False


@dataclass(frozen=True)
class TopicVersion:
    """A version of the topics, such as a translation, with its steps.

    Attributes
    ----------
    runs : runs made from this version.
    placeholder : prefix of numbered placeholders in literal texts; empty for none.
    """

    name: str
    steps: tuple[TransformationStep, ...]
    runs: tuple[str, ...] = ()
    placeholder: str = ""


@dataclass(frozen=True)
class Wording:
    """A topic in one version: title and body at each step, and facts about them as (name, value)."""

    texts: tuple[tuple[str, str], ...]
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class TopicPage:
    """One topic: its text, its judgments, and each run's results.

    Attributes
    ----------
    docs : relevant documents, best grade first, then other documents among the first results of some run.
    grades : grades of `docs`; None for an unjudged document.
    relevant : number of relevant documents, which come first in `docs`.
    judged : grade -> number of documents, best grade first.
    values : for each run, the value of each measure; NaN if the protocol excludes the topic.
    firsts : for each run, its first documents as indices into `docs`, in the protocol's order.
    ranks : for each run, the rank of each relevant document, from 1; 0 if it was not retrieved.
    judged_firsts : for each run, its first judged documents as (index into `docs`, rank); empty if nothing else counts.
    wordings : for each version of the collection, the topic's wording; None if it is not shown.
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
    name : name of the collection in links.
    note : settings of the scores, such as edition and protocol.
    measures : (name, label).
    runs : names of runs; a run has the same name in all collections.
    relevant_from : lowest relevant grade.
    link : address of a document, with `{id}` for its id; empty for none.
    language, direction : of the topics; the language is a BCP 47 tag, empty if unknown.
    versions : versions of the topics, such as translations.
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
    versions: tuple[TopicVersion, ...] = ()


# Replaces an explorer without tables in static formats.
ON_THE_PAGE = "The report's page, index.html, shows single topics and runs."


@dataclass(frozen=True)
class Explorer:
    """Interactive view of topics and runs: a list of topics, slices, and a page per topic.

    Attributes
    ----------
    documents : id -> (title, text), as far as known.
    pair : the two runs compared at first; the second is empty if there is only one run.
    tables : scores per topic, shown instead in static formats.
    """

    id: str
    collections: tuple[TopicPages, ...]
    pair: tuple[str, str]
    tables: tuple[Table, ...] = ()
    documents: Mapping[str, tuple[str, str]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        _check_id("explorer", self.id)


Block: TypeAlias = Prose | Facts | Table | Figure | Explorer


@dataclass(frozen=True)
class Section:
    """A heading (level 2 to 4) and its blocks. The report derives an empty id from the title."""

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
    """Machine-readable rows for other programs: column names (ASCII), and values at full precision."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | bool | None, ...], ...]


@dataclass(frozen=True)
class Content:
    """Content of a report; `harness.render.write.Report` can also be written.

    Attributes
    ----------
    headline : main result in one line.
    language : BCP 47 tag of the report's language.
    data : machine-readable values (mappings, sequences, numbers, strings) for the JSON file.
    records : name -> content of `NAME.csv`.

    Raises
    ------
    HarnessError
        Two blocks share an id, or the language is not a language tag.
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
            raise HarnessError(f"report: language {self.language!r}: expected a language tag such as 'en' or 'pt-BR'")
        # Ids are compared without case because file systems may do so.
        taken: set[str] = set()
        given = [section.id for section in self.sections if section.id]
        blocks = [block for section in self.sections for block in section.blocks]
        drawn = [block for block in blocks if isinstance(block, Table | Figure | Explorer)]
        inner = [block.table.id for block in drawn if isinstance(block, Figure) and block.table is not None]
        inner += [table.id for block in drawn if isinstance(block, Explorer) for table in block.tables]
        if sum(isinstance(block, Explorer) for block in drawn) > 1:
            raise HarnessError("report: two explorers; expected at most one, since links to topics lead to it")
        for name in (*given, *(block.id for block in drawn), *inner):
            if name.casefold() in taken:
                raise HarnessError(f"report: two blocks have the id {name!r}; ids must differ in more than case")
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
        """Yields all blocks in reading order."""
        for section in self.sections:
            yield from section.blocks

    def tables(self) -> Iterator[Table]:
        """Yields all tables in reading order, including those of figures and of the explorer."""
        for block in self.blocks():
            if isinstance(block, Table):
                yield block
            elif isinstance(block, Explorer):
                yield from block.tables
            elif isinstance(block, Figure) and block.table is not None:
                yield block.table

    def labels(self) -> dict[str, str]:
        """Returns id -> `Table 1`, `Figure 1`, ... in reading order, or a table's own label; a figure's has none."""
        labels: dict[str, str] = {}
        counts = {"Table": 0, "Figure": 0}
        for block in self.blocks():
            for part in block.tables if isinstance(block, Explorer) else (block,):
                if isinstance(part, Table) and part.label:
                    labels[part.id] = part.label
                elif isinstance(part, Table | Figure):
                    kind = type(part).__name__
                    counts[kind] += 1
                    labels[part.id] = f"{kind} {counts[kind]}"
        return labels
