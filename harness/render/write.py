"""Reports: plain values (`model`) written as HTML, Markdown, LaTeX, JSON and CSV, their figures as SVG and PDF.

Nothing here knows of a paper, a collection or a measure. Whoever has something to report builds a `Report` of
sections with text, facts, tables and figures, and calls its `write`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from harness.errors import HarnessError, several, suggestion
from harness.io.files import write_all
from harness.render import svg
from harness.render.html import render_html
from harness.render.latex import render_latex, render_table
from harness.render.markdown import render_markdown
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
from harness.render.pdf import INSTALL, can_render, render_pdf
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

# In the order of writing: the page that people open comes last, when all that belongs to it is there.
_DOCUMENTS: Mapping[str, tuple[str, Callable[[Content], str]]] = MappingProxyType(
    {
        "json": ("report.json", render_json),
        "tex": ("report.tex", render_latex),
        "md": ("report.md", render_markdown),
        "html": ("index.html", render_html),
    }
)


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
        folder = Path(folder)
        wanted = list(dict.fromkeys(several(formats)))
        for name in wanted:
            if name not in FORMATS:
                raise HarnessError(f"report format {name!r} is unknown; {suggestion(name, FORMATS)}")
        files: dict[Path, bytes | str] = {}
        written: dict[str, Path] = {}
        if "csv" in wanted:
            files |= {folder / name: content for name, content in records_csv(self).items()}
            if tables := tables_csv(self):
                files |= {folder / "tables" / name: content for name, content in tables.items()}
                written["csv"] = folder / "tables"
        figures = [block for block in self.blocks() if isinstance(block, Figure)]
        if {"md", "tex", "pdf"} & {*wanted}:
            files |= {folder / "figures" / f"{figure.id}.svg": svg.check(figure.svg, figure.id) for figure in figures}
        if "tex" in wanted:
            files |= {folder / "tables" / f"{table.id}.tex": render_table(table) for table in self.tables()}
        if drawn := "pdf" in wanted and bool(figures) and can_render():
            files |= {folder / "figures" / f"{figure.id}.pdf": render_pdf(figure.svg, figure.id) for figure in figures}
            written["pdf"] = folder / "figures"
        for name, (file, render) in _DOCUMENTS.items():
            if name in wanted:
                files[folder / file] = render(self)
                written[name] = folder / file
        left = set(_left_over(folder, wanted)) - files.keys()
        write_all(files)
        for path in left:
            with suppress(OSError):  # it is gone already, or kept from us
                path.unlink()
        if "pdf" in wanted and figures and not drawn:
            line = f"{folder}: its figures are written as SVG only; for PDF, {INSTALL}"
            if note is None:
                raise HarnessError(line)
            note(line)
        return {name: written[name] for name in wanted if name in written}


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
