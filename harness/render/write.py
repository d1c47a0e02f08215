"""Reports: plain values (`model`) drawn as HTML, Markdown, LaTeX, JSON and CSV, their figures as SVG and PDF.

Nothing here knows of a paper, a collection or a measure. Whoever has something to report builds a `Report` of
sections with text, facts, tables and figures, and calls its `write`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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

FORMATS = ("html", "md", "tex", "json", "csv")

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

    def write(self, folder: Path | str, formats: Iterable[str] = FORMATS) -> dict[str, Path]:
        """Write it into a folder, which is made if need be: format -> where it lies (no `csv` without tables).

        `index.html`, `report.md`, `report.tex`, `report.json`; with `csv` the records and in the folder `tables` a CSV
        file of each table; with `tex` there a file of each table for `\\input`. With `md` or `tex` the drawings are
        written to `figures` as SVG, with `tex` as PDF too. Everything is drawn before anything is written, and each
        file is replaced in one step.

        Raises
        ------
        HarnessError
            A format is unknown, a value cannot be drawn, or the folder cannot be written to.
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
        if "md" in wanted or "tex" in wanted:
            files |= {folder / "figures" / f"{figure.id}.svg": svg.check(figure.svg, figure.id) for figure in figures}
        if "tex" in wanted:
            files |= {folder / "figures" / f"{figure.id}.pdf": render_pdf(figure.svg, figure.id) for figure in figures}
            files |= {folder / "tables" / f"{table.id}.tex": render_table(table) for table in self.tables()}
        for name, (file, render) in _DOCUMENTS.items():
            if name in wanted:
                files[folder / file] = render(self)
                written[name] = folder / file
        write_all(files)
        return {name: written[name] for name in wanted if name in written}


def first_page(written: Mapping[str, Path]) -> Path:
    """Of what `Report.write` has written, the file that a person opens first."""
    return written.get("html") or next(iter(written.values()))
