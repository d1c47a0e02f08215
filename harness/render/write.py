"""Reports: plain values (`model`) written as HTML, Markdown, LaTeX, JSON and CSV, their figures as SVG and PDF.

Nothing here knows of a paper, a collection or a measure. Whoever has something to report builds a `Report` of
sections with text, facts, tables and figures, and calls its `write`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from harness.errors import HarnessError, several, suggestion
from harness.io.files import write_all
from harness.render.model import (
    Cell,
    Column,
    Content,
    Explorer,
    Facts,
    Figure,
    Records,
    Section,
    Table,
    Text,
    number_cell,
    slug,
)

if TYPE_CHECKING:
    from harness.render.html import render_html
    from harness.render.latex import render_latex, render_table
    from harness.render.markdown import render_markdown
    from harness.render.pdf import render_pdf
    from harness.render.tabular import records_csv, render_json, tables_csv

__all__ = [
    "Cell",
    "Column",
    "Explorer",
    "Facts",
    "Figure",
    "Records",
    "Report",
    "Section",
    "Table",
    "Text",
    "first_page",
    "number_cell",
    "records_csv",
    "render_html",
    "render_json",
    "render_latex",
    "render_markdown",
    "render_pdf",
    "render_table",
    "slug",
    "tables_csv",
]

FORMATS = ("html", "md", "tex", "json", "csv", "pdf")
DEFAULT = ("html", "md", "tex", "json", "csv")  # what needs no extra

_PLAIN = re.compile(r"[\w-]+")  # names of tables, drawings and records as we give them

# In the order of writing: the page that people open comes last, when all its parts are there.
_DOCUMENTS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "json": ("report.json", "render_json"),
        "tex": ("report.tex", "render_latex"),
        "md": ("report.md", "render_markdown"),
        "html": ("index.html", "render_html"),
    }
)
# The module of each renderer, imported when it is used: a report that is not written again needs none of them.
_RENDERERS = {
    "records_csv": "tabular",
    "render_html": "html",
    "render_json": "tabular",
    "render_latex": "latex",
    "render_markdown": "markdown",
    "render_pdf": "pdf",
    "render_table": "latex",
    "tables_csv": "tabular",
}
_PLAIN = re.compile(r"[\w.@+-]+")


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in _RENDERERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"harness.render.{_RENDERERS[name]}"), name)


@dataclass(frozen=True)
class Report(Content):
    """A report that can be written; see `Content` for what it holds.

    Examples
    --------
    >>> page = Report("Two runs", "best is a", (Section("Results", (Text(("Both did well.",)),)),))
    >>> written = page.write(Path("reports/two"), formats=("md",))
    >>> print(written["md"].read_text().splitlines()[0])
    # Two runs
    """

    def write(
        self, folder: Path | str, formats: Iterable[str] = DEFAULT, note: Callable[[str], object] | None = None
    ) -> dict[str, Path]:
        """Write it into a folder, which is made if need be: format -> where it lies (no `csv` without tables).

        `index.html`, `report.md`, `report.tex`, `report.json`; with `csv` the records and in the folder `tables` a CSV
        file of each table; with `tex` there a file of each table for `\\input`. With `md`, `tex` or `pdf` the figures
        are written to `figures` as SVG, with `pdf` as PDF too, which `report.tex` shows. Everything is drawn before
        anything is written, and each file is replaced in one step. Files that the report before, by its `report.json`,
        has written and this one has not (such as the table of what was not run) are removed, in the formats asked for.

        Parameters
        ----------
        note : is told in one line that the library for PDF is missing; without it, that line is raised.

        Raises
        ------
        HarnessError
            A format is unknown, a value cannot be drawn, or the folder cannot be written to. If the library for PDF
            is missing, everything else has been written.
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
    """A report as files that are not written yet.

    Attributes
    ----------
    wanted : the formats asked for.
    files : path -> content.
    formats : format -> the file or folder that shows it; `csv` and `pdf` only if there are tables or figures.
    fault : what to install for figures as PDF, if they were asked for and cannot be drawn; else empty.
    """

    folder: Path
    wanted: Sequence[str]
    files: Mapping[Path, bytes | str]
    formats: dict[str, Path]
    fault: str = ""

    def write(self) -> None:
        """Writes the files and removes those that an earlier report left in these formats."""
        left_over = set(_left_over(self.folder, self.wanted)) - self.files.keys()
        write_all(self.files)
        for path in left_over:
            with suppress(OSError):  # somebody else removed it, or it is write-protected
                path.unlink()


def draw(report: Content, folder: Path, formats: Iterable[str] = DEFAULT) -> Drawn:
    """Draws a report for a folder; writes nothing.

    Raises
    ------
    HarnessError
        A format is unknown, or a value cannot be drawn.
    """
    wanted = list(dict.fromkeys(formats))
    for name in wanted:
        if name not in FORMATS:
            raise HarnessError(f"report format {name!r} is unknown; {suggestion(name, FORMATS)}")
    files: dict[Path, bytes | str] = {}
    shown: dict[str, Path] = {}
    fault = ""
    figures = [block for block in report.blocks() if isinstance(block, Figure)]
    if "csv" in wanted:
        from harness.render.tabular import records_csv, tables_csv

        files |= {folder / name: content for name, content in records_csv(report).items()}
        if tables := tables_csv(report):
            files |= {folder / "tables" / name: content for name, content in tables.items()}
            shown["csv"] = folder / "tables"
    if {"md", "tex", "pdf"} & {*wanted}:
        from harness.render import svg

        files |= {folder / "figures" / f"{figure.id}.svg": svg.check(figure.svg, figure.id) for figure in figures}
    if "tex" in wanted:
        from harness.render.latex import render_table

        files |= {folder / "tables" / f"{table.id}.tex": render_table(table) for table in report.tables()}
    if "pdf" in wanted and figures:
        from harness.render.pdf import INSTALL, can_render, render_pdf

        if can_render():
            files |= {folder / "figures" / f"{figure.id}.pdf": render_pdf(figure.svg, figure.id) for figure in figures}
            shown["pdf"] = folder / "figures"
        else:
            fault = f"{folder}: its figures are written as SVG only; for PDF, {INSTALL}"
    for name, (file, renderer) in _DOCUMENTS.items():
        if name in wanted:
            files[folder / file] = __getattr__(renderer)(report)
            shown[name] = folder / file
    return Drawn(folder, wanted, files, {name: shown[name] for name in wanted if name in shown}, fault)


def _left_over(folder: Path, wanted: Iterable[str]) -> Iterator[Path]:
    """The files of tables, drawings and records that the report says of which `report.json` lies there."""
    try:
        document = json.loads((folder / _DOCUMENTS["json"][0]).read_text(encoding="utf-8"))
        blocks = [block for section in document["sections"] for block in section["blocks"]]
        tables = [block if block["type"] == "table" else block.get("table") for block in blocks]
        tables += [table for block in blocks for table in block.get("tables", ())]
        named = [table["id"] for table in tables if table]
        figures = [block["id"] for block in blocks if block["type"] == "figure"]
        records = list(document.get("records", ()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return  # there is none, or it is somebody else's
    endings = {"csv": ("csv",), "tex": ("tex", "pdf", "svg"), "md": ("svg",), "pdf": ("pdf", "svg")}
    for ending in {ending for name in wanted for ending in endings.get(name, ())}:
        below, names = ("tables", named) if ending in ("csv", "tex") else ("figures", figures)
        yield from (folder / below / f"{name}.{ending}" for name in names if _PLAIN.fullmatch(str(name)))
        if ending == "csv":
            yield from (folder / f"{name}.csv" for name in records if _PLAIN.fullmatch(str(name)))


def first_page(written: Mapping[str, Path]) -> Path:
    """Of what `Report.write` has written, the file that a person opens first."""
    return written.get("html") or next(iter(written.values()))
