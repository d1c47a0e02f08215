"""Reports of every kind go through pdflatex, and every cell is found again in the text of the PDF."""

from __future__ import annotations

import re
import shutil
import subprocess
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

import harness as h
from harness.experiments.sweep import SweepPoint
from harness.experiments.task import task
from harness.labs.leaderboard import LeaderboardEntry, LeaderboardSettings, leaderboards
from harness.labs.leaderboard_report import leaderboard_report
from harness.papers.paper import load_paper
from harness.papers.report.paper import paper_report
from harness.papers.reproduce import recompute_paper
from harness.render.model import Cell, Column, Content, Figure, Prose, Section, Table
from harness.render.write import Report
from harness.reports.comparison import report
from harness.reports.sweep import sweep_report
from harness.store.provenance import provenance

ROOT = Path(__file__).parents[3]
PAPERS = ("crossmath", "mirmu-msm")
pytestmark = pytest.mark.slow


def compared(name: str) -> Report:
    evaluation = h.evaluate(task(name), *sorted((ROOT / f"runs/mini/{name}").glob("*.run")))
    return report(evaluation, h.compare(evaluation, "shuffle"))


def ranked() -> Report:
    """The report of a lab."""
    found = h.evaluate(task("mini-task1"), *sorted((ROOT / "runs/mini/mini-task1").glob("*.run")))
    entries = [
        LeaderboardEntry(f"{name} / {s.run}", s) for name in ("Česká-skupina", "A & B_100%") for s in found.scores
    ]
    return leaderboard_report(leaderboards(entries, LeaderboardSettings(baseline=entries[0].name)), provenance({}))


def swept() -> Report:
    grid = ((k1, b) for k1 in range(1, 9) for b in range(9))
    return sweep_report(
        [
            SweepPoint(
                {"system": "bm25", "system.k1": f"{k1 / 4}", "system.b": f"{b / 8}", "system.view": "{name: text}"},
                means={"nDCG′": k1 * b / 72, "MAP′": 1 / (k1 + b)},
                n=42,
                settings={"system": {"name": "bm25"}, "collection": {"name": "mini-task1"}},
            )
            for k1, b in grid
        ],
        "Sweep",
        provenance({}),
    )


def paper(name: str) -> Report:
    return paper_report(recompute_paper(load_paper(name)), provenance({}))


def extreme() -> Report:
    """Tables that are long, wide, both, or full of prose; a row higher than a page; a figure with many numbers."""

    def grid(name: str, rows: int, columns: int) -> Table:
        heads = (Column("a name of a run"), *(Column(f"measure {at}", kind="number") for at in range(columns)))
        body = tuple(
            (Cell(f"run {at} of {rows}"), *(Cell(f"{at}.{column:05}") for column in range(columns)))
            for at in range(rows)
        )
        return Table(name, f"{rows} by {columns}", heads, body, ("A note. " * 80,))

    prose = tuple(
        tuple(Cell(" ".join(f"w{row}x{column}y{n}" for n in range(size))) for column, size in enumerate((3, 60, 90)))
        for row in range(40)
    )
    high = ((Cell("one"), Cell(" ".join(f"high{n}" for n in range(1500)))),)
    labels = ("سیستم اول ما", "سیستم دوم ما", "x" * 39)
    heads = tuple(Column(f"a text column {at}") for at in range(6))
    wide = tuple(tuple(Cell(f"{label} {at}") for at in range(6)) for label in labels)
    drawn = Figure("drawn", "Figure with numbers", "<svg/>", grid("numbers", 36, 3))
    tables = (
        grid("long", 120, 3),
        grid("wide", 5, 40),
        grid("both", 100, 23),
        Table("prose", "Prose", tuple(map(Column, "abc")), prose),
        Table("high", "High", tuple(map(Column, "ab")), high),
        Table("texts", "Texts", heads, wide, row_headers=3),
    )
    return Report("Extreme", "", (Section("All", (*tables, drawn, Prose(("end",)))),))


def squeezed(text: str) -> str:
    """The letters, digits and points of a text, without spaces, breaks of lines, and signs of which fonts have many."""
    return re.sub(r"[^\w.]|_", "", unicodedata.normalize("NFKC", text))


def read_back(content: Content, folder: Path, pdflatex: str) -> tuple[str, str]:
    """Returns the text of the PDF without spaces, and pdflatex's log."""
    from harness.render.latex import render_latex

    (folder / "report.tex").write_text(render_latex(content), encoding="utf-8")
    for _ in range(2):
        done = subprocess.run(
            [pdflatex, "-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error", "report.tex"],
            cwd=folder, capture_output=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout.decode("utf-8", "replace")[-1500:]
    raw = subprocess.run(["pdftotext", "-raw", "report.pdf", "-"], cwd=folder, capture_output=True, check=True)
    return squeezed(raw.stdout.decode("utf-8")), (folder / "report.log").read_text("latin-1")


@pytest.mark.parametrize(
    "made",
    [
        *(pytest.param(lambda n=name: compared(n), id=name) for name in ("mini-task1", "mini-theorems")),
        *(pytest.param(lambda n=name: paper(n), id=name, marks=pytest.mark.real) for name in PAPERS),
        ranked,
        swept,
        extreme,
    ],
)
def test_every_cell_is_in_the_pdf(
    made: Callable[[], Report], tmp_path: Path, pdflatex: str, request: pytest.FixtureRequest
) -> None:
    if request.node.get_closest_marker("real"):
        request.getfixturevalue("mirror")
    if shutil.which("pdftotext") is None:
        pytest.skip("pdftotext is not installed: apt-get install poppler-utils")
    content = made()
    text, log = read_back(content, tmp_path, pdflatex)
    lost = [
        (table.id, cell.text)
        for table in content.tables()
        for cell in (*(Cell(column.title) for column in table.columns), *(cell for row in table.rows for cell in row))
        if not re.search(r"[^\W\x00-\u024f]", cell.text) and squeezed(cell.text) not in text
    ]
    assert lost == []
    assert "too large" not in log
    over = [float(points) for points in re.findall(r"Overfull \\hbox \(([\d.]+)pt", log)]
    assert max(over, default=0.0) < 5, "lines stay within the margin"
    assert not re.search(r"Overfull \\vbox", log)
