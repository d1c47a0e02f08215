"""Writes reports (`model`) as HTML, Markdown, LaTeX, JSON and CSV, and their figures as SVG and PDF.

To write a report, build a `Report` of sections with text, facts, tables and figures, and call its `write`. This module
knows no paper, collection or measure.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from harness.errors import HarnessError, counted_text, several, suggestion
from harness.io.arguments import checked_arguments
from harness.io.files import write_all
from harness.render.model import Content, Figure

FORMATS = ("html", "md", "tex", "json", "csv", "pdf")
DEFAULT = ("html", "md", "tex", "json", "csv")  # formats that need no extra

# Format -> its file, and the module and function that render it, imported when they are used: a report that is not
# written again needs none. In the order of writing: the page that people open comes last, after its parts.
_DOCUMENTS = {
    "json": ("report.json", "formats", "render_json"),
    "tex": ("report.tex", "latex", "render_latex"),
    "md": ("report.md", "formats", "render_markdown"),
    "html": ("index.html", "html", "render_html"),
}
RECORD = ".drawn.json"  # in the folder of a report: fingerprint of its content, and checksums of its files
_BEGIN = 4096  # bytes that tell whether a file is ours
_MARKS = {
    ".html": rb'<meta name="(generator" content="mathir-harness|referrer" content="no-referrer)">',
    ".json": rb'"schema": ?"mathir-harness/report"',
    ".md": rb"\A# .*\n\n\*\*.*\*\*\n",
    ".tex": rb"\A% Needs |\A\\documentclass\[11pt\]\{article\}\n[\s\S]*\n% The tables need these:",
    ".svg": rb'\A<svg [^>]* class="fig" role="img" aria-labelledby="t',
    ".pdf": rb"\A%PDF",
    ".png": rb"\A\x89PNG",
}
_PLAIN = re.compile(r"[\w.@+-]+")  # names of tables, drawings and records that we write


@dataclass(frozen=True)
class Report(Content):
    """A report that can be written; see `Content` for its attributes.

    Examples
    --------
    >>> from harness.render.model import Prose, Section
    >>> page = Report("Two runs", "best is a", (Section("Results", (Prose(("Both did well.",)),)),))
    >>> written = page.write(Path("reports/two"), formats=("md",))
    >>> print(written["md"].read_text().splitlines()[0])
    # Two runs
    """

    def __repr__(self) -> str:
        """Returns title and headline: the values of all fields would be hundreds of thousands of characters."""
        return f"<Report {self.title!r}: {self.headline!r}, {counted_text(len(self.sections), 'section')}>"

    def _repr_html_(self) -> str:
        """Returns the first section as HTML for notebooks."""
        from harness.render.html import render_first

        return render_first(self)

    @checked_arguments
    def write(
        self, folder: Path | str, formats: Iterable[str] = DEFAULT, note: Callable[[str], object] | None = None
    ) -> dict[str, Path]:
        """Writes the report into a folder, which is created if necessary; returns format -> file or folder.

        | format | files |
        |---|---|
        | `html`, `md`, `tex`, `json` | `index.html`, `report.md`, `report.tex`, `report.json` |
        | `csv` | `NAME.csv` of each record, `tables/ID.csv` of each table; not returned without tables |
        | `tex` | `tables/ID.tex` of each table for `\\input` |
        | `md`, `tex`, `pdf` | `figures/ID.svg`; with `pdf` also `figures/ID.pdf`, which `report.tex` includes |

        All files are rendered before the first one is written, and each is replaced atomically. In the requested
        formats, files of the previous report (by its `report.json`) that this one does not have are removed.

        Parameters
        ----------
        note : called with one line if the library for PDF is missing; None raises HarnessError instead.

        Raises
        ------
        HarnessError
            A format is unknown, a value cannot be drawn, a file of the same name was not written by the harness, or the
            folder cannot be written. If only the library for PDF is missing, the other formats have been written; if
            there are none, or the report has no figure for PDF alone, nothing is.
        """
        drawn = draw(self, Path(folder), several(formats))
        drawn.write()
        if drawn.fault and note is None:
            raise HarnessError(drawn.fault)
        if drawn.fault and note is not None:
            note(drawn.fault)
        return drawn.formats


@dataclass(frozen=True)
class Drawn:
    """A rendered report that is not written yet.

    Attributes
    ----------
    wanted : requested formats.
    files : path -> content.
    formats : format -> its file or folder; `csv` and `pdf` only if there are tables or figures.
    fault : message if figures were requested as PDF but Typst is missing; else empty.
    """

    folder: Path
    wanted: Sequence[str]
    files: Mapping[Path, bytes | str]
    formats: dict[str, Path]
    fault: str = ""

    def check(self) -> None:
        """Raises HarnessError if the files would replace one that the harness did not write."""
        for path, content in () if _is_report(self.folder) else self.files.items():
            if os.path.lexists(path) and not is_ours(path, content):
                why = "exists and is no report of the harness; choose another folder, or move the file"
                raise HarnessError(f"{path}: {why}")

    def write(self) -> None:
        """Writes the files and removes those that an earlier report wrote in these formats.

        Raises
        ------
        HarnessError
            A file of this name was not written by the harness, or the folder cannot be written.
        """
        self.check()
        left_over = set(_left_over(self.folder, self.wanted)) - self.files.keys()
        write_all(self.files)
        for path in left_over:
            with suppress(OSError):  # somebody else removed it, or it is write-protected
                path.unlink()


def draw(report: Content, folder: Path, formats: Iterable[str] = DEFAULT) -> Drawn:
    """Renders a report for a folder without writing it.

    Raises
    ------
    HarnessError
        A format is unknown, a value cannot be drawn, or PDF alone is asked for without Typst or a figure.
    """
    wanted = list(dict.fromkeys(formats))
    for name in wanted:
        if name not in FORMATS:
            raise HarnessError(f"report format {name!r} is unknown; {suggestion(name, FORMATS)}")
    check_pdf(wanted, f"{folder}: nothing was written")
    files: dict[Path, bytes | str] = {}
    shown: dict[str, Path] = {}
    fault = ""
    figures = [block for block in report.blocks() if isinstance(block, Figure)]
    if "csv" in wanted:
        from harness.render.formats import records_csv, tables_csv

        files |= {folder / name: content for name, content in records_csv(report).items()}
        if tables := tables_csv(report):
            files |= {folder / "tables" / name: content for name, content in tables.items()}
            shown["csv"] = folder / "tables"
    if {"md", "tex", "pdf"} & {*wanted}:
        from harness.render import svg

        files |= {folder / "figures" / f"{figure.id}.svg": svg.stand_alone(figure.svg, figure.id) for figure in figures}
    if "tex" in wanted:
        from harness.render.latex import render_table

        files |= {folder / "tables" / f"{table.id}.tex": render_table(table) for table in report.tables()}
    if "pdf" in wanted and figures:
        from harness.render.pdf import INSTALL, can_render, render_pdf

        if can_render():
            files |= {folder / "figures" / f"{figure.id}.pdf": render_pdf(figure.svg, figure.id) for figure in figures}
            shown["pdf"] = folder / "figures"
        else:
            fault = f"{folder}: no PDF was written: Typst is not installed: {INSTALL}; the other formats were"
    for name, (file, module, function) in _DOCUMENTS.items():
        if name in wanted:
            given = {"csv": True} if name == "html" and "csv" in wanted else {}
            files[folder / file] = getattr(import_module(f"harness.render.{module}"), function)(report, **given)
            shown[name] = folder / file
    if wanted == ["pdf"] and not files:
        raise HarnessError(f"{folder}: nothing was written: the report has no figure, and PDF has figures only")
    return Drawn(folder, wanted, files, {name: shown[name] for name in wanted if name in shown}, fault)


def check_pdf(formats: Iterable[str], what: str) -> None:
    """Raises HarnessError, which begins with `what`, if PDF is the only format and Typst is not installed."""
    if {*formats} == {"pdf"}:
        from harness.render.pdf import INSTALL, can_render

        if not can_render():
            raise HarnessError(f"{what}: Typst, which writes PDF, is not installed: {INSTALL}")


def _left_over(folder: Path, wanted: Iterable[str]) -> Iterator[Path]:
    """Yields the files of tables, drawings and records listed in the folder's `report.json`."""
    try:
        document = json.loads((folder / _DOCUMENTS["json"][0]).read_text(encoding="utf-8"))
        blocks = [block for section in document["sections"] for block in section["blocks"]]
        tables = [block if block["type"] == "table" else block.get("table") for block in blocks]
        tables += [table for block in blocks for table in block.get("tables", ())]
        named = [table["id"] for table in tables if table]
        figures = [block["id"] for block in blocks if block["type"] == "figure"]
        records = list(document.get("records", ()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return  # the file is missing or was not written by the harness
    endings = {"csv": ("csv",), "tex": ("tex", "pdf", "svg"), "md": ("svg",), "pdf": ("pdf", "svg")}
    for ending in {ending for name in wanted for ending in endings.get(name, ())}:
        below, names = ("tables", named) if ending in ("csv", "tex") else ("figures", figures)
        yield from (folder / below / f"{name}.{ending}" for name in names if _PLAIN.fullmatch(str(name)))
        if ending == "csv":
            yield from (folder / f"{name}.csv" for name in records if _PLAIN.fullmatch(str(name)))


def _is_report(folder: Path) -> bool:
    """Returns whether a folder has a document of an earlier report, or its record."""
    documents = (folder / file for file, *_ in _DOCUMENTS.values())
    return (folder / RECORD).is_file() or any(is_ours(path) for path in documents)


def is_ours(path: Path, content: bytes | str = b"", suffix: str = "") -> bool:
    """Returns whether a file is part of a report, as far as its begin tells.

    Measures, runs and versions may be others than those of the new content. A CSV file may be alone or left by a killed
    process; it has the same first column.

    Parameters
    ----------
    content : what is to replace it; only used for CSV.
    suffix : of the kind of file; default: that of its name.
    """
    suffix = suffix or path.suffix
    there = b""
    with suppress(OSError):
        if path.is_file():  # to open a pipe would wait for its writer
            with path.open("rb") as file:
                there = file.read(_BEGIN)
    if suffix == ".csv":
        data = content.encode() if isinstance(content, str) else content
        old, new = (re.split(rb"[,\r\n]", each, maxsplit=1)[0] for each in (there, data))
        return old == new
    return suffix in _MARKS and re.search(_MARKS[suffix], there) is not None


def first_page(written: Mapping[str, Path]) -> Path:
    """Returns the file that a person opens first, given the result of `Report.write`."""
    return written.get("html") or next(iter(written.values()))
