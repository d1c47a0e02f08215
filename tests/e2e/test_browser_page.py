"""The page as a whole: as long as its content, nothing cut, the result first, links, and paper."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from browser_tools import WIDTHS, Open, violations

from harness.render import figures
from harness.render.html import render_html
from harness.render.model import (
    Cell,
    Column,
    Explorer,
    Figure,
    Prose,
    Section,
    Table,
    TopicPage,
    TopicPages,
    number_cell,
)
from harness.render.write import Report

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytest_plugins = ("browser_tools",)


BOTTOM = """() => Math.max(...[...document.querySelectorAll("main section")].map((section) =>
    Math.max(...[...section.children].filter((part) => part.checkVisibility())
      .map((part) => part.getBoundingClientRect().bottom)))) + scrollY"""
# Each text of a drawing within its drawing, and each head of a table on one's screen and not over the next one.
CUT = """() => {
  const found = [];
  for (const drawing of document.querySelectorAll("svg.fig")) {
    const frame = drawing.getBoundingClientRect();
    if (!frame.width) continue;
    for (const text of drawing.querySelectorAll("text")) {
      const box = text.getBoundingClientRect();
      const outside = [frame.left - box.left, box.right - frame.right, frame.top - box.top, box.bottom - frame.bottom];
      if (Math.max(...outside) > 1) found.push(`drawing: ${text.textContent}`);
    }
  }
  for (const region of document.querySelectorAll(".region")) {
    if (!region.checkVisibility() || region.closest(".explorer")) continue;
    if (region.scrollWidth > region.clientWidth + 1) found.push(`table: ${region.ariaLabel}`);
    for (const head of region.querySelectorAll("thead th bdi")) {
      const [box, cell] = [head.getBoundingClientRect(), head.closest("th").getBoundingClientRect()];
      if (box.left < cell.left - 1 || box.right > cell.right + 1) found.push(`head: ${head.textContent}`);
    }
  }
  return found;
}"""


def assert_no_longer_than_its_content(page: Page) -> None:
    """The page ends below its last visible part; what is hidden in a scrolling region adds nothing."""
    height, bottom = page.evaluate("document.documentElement.scrollHeight"), page.evaluate(BOTTOM)
    assert bottom <= height <= bottom + 150


@pytest.mark.slow
@pytest.mark.parametrize("width", (390, 1280, 1440))
def test_the_page_is_no_longer_than_its_content(mini: Path, visit: Open, width: int) -> None:
    assert_no_longer_than_its_content(visit(mini, "#explore=", width))
    assert_no_longer_than_its_content(visit(mini, "#topic=mini-task1/M.1", width))


def marked(path: Path, rows: int) -> Path:
    """A long table with marks, whose meanings are hidden labels, in a region that scrolls, and a wide one."""
    cells = [(Cell(f"row {n}"), number_cell(n / rows, 3, ("exact", "better"))) for n in range(rows)]
    long = Table("long", "Long", (Column("row"), Column("value", kind="number")), tuple(cells))
    heads = tuple(Column(f"measure {n}", "several measures", "number") for n in range(9))
    wide = Table("wide", "Wide", (Column("run"), *heads), ((Cell("x"), *(Cell("0.123", 0.123) for _ in heads)),))
    text = Prose(tuple("A paragraph of some words." for _ in range(3)))
    path.write_text(render_html(Report("R", "", (Section("S", (text, long, wide)),))), encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_hidden_labels_do_not_escape_a_region_that_scrolls(tmp_path: Path, visit: Open, width: int) -> None:
    page = visit(marked(tmp_path / "index.html", 400), width=width)
    page.evaluate("document.querySelectorAll('.m').forEach((m) => { m.innerHTML = '<span class=vh>label</span>'; })")
    assert page.locator("#long .region").evaluate("region => region.scrollHeight > 2 * region.clientHeight")
    assert_no_longer_than_its_content(page)


@pytest.mark.slow
def test_tables_that_scroll_sideways_say_so(tmp_path: Path, visit: Open) -> None:
    path = marked(tmp_path / "index.html", 3)

    def hint(page: Page, table: str) -> str:
        region = page.locator(f"{table} .region")
        return str(region.evaluate("region => getComputedStyle(region, '::before').content"))

    phone, screen = visit(path, width=390), visit(path, width=1440)
    assert "Scroll sideways" in hint(phone, "#wide")
    assert hint(phone, "#long") == hint(screen, "#long") == "none"
    phone.set_viewport_size({"width": 3000, "height": 900})
    phone.locator("#wide .region:not(.sideways)").wait_for()
    assert hint(phone, "#wide") == "none"


@pytest.mark.slow
def test_nothing_is_cut_at_1280_pixels(mini: Path, visit: Open) -> None:
    page = visit(mini, width=1280)
    box = page.locator("#means tbody").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 900  # the result stands on the first screen
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    assert page.evaluate(CUT) == []


LONG = "a-run-with-a-rather-long-name-that-goes-on"


@pytest.mark.slow
def test_long_names_stay_within_their_drawings(tmp_path: Path, visit: Open) -> None:
    names = [f"{LONG}-{n}" for n in range(5)]
    p = [[float("nan") if a == b else 0.001 for b in names] for a in names]
    drawings = (
        figures.dot_interval([(name, -0.123, -0.456, -0.012, True) for name in names], f"difference in {LONG}"),
        figures.distribution([(name, [0.1, 0.5, 0.9]) for name in names], LONG),
        figures.grouped_bars(["g", LONG], names, [[0.1] * 5, [0.2] * 5], LONG),
        figures.p_value_matrix(names, p),
        figures.p_value_matrix([*names] * 4, [row * 4 for row in p] * 4),
        figures.scatter([(name, n, n / 7) for n, name in enumerate(names)], LONG, LONG),
        figures.curves([(name, [(n, 0.80001), (9999, 0.80002)]) for n, name in enumerate(names)], LONG, LONG),
    )
    blocks = tuple(Figure(f"f{n}", LONG, drawing) for n, drawing in enumerate(drawings))
    path = tmp_path / "index.html"
    path.write_text(render_html(Report("R", "", (Section("S", blocks),))), encoding="utf-8")
    assert visit(path, width=1280).evaluate(CUT) == []


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_documents_with_an_address_are_links(tmp_path: Path, visit: Open, width: int) -> None:
    docs = ("17", "a/b?c&d#e", '"><script>alert(1)</script>')
    topic = TopicPage(
        "T", "t", "", (), (), docs, (1.0, 1.0, 1.0), 3, ((1.0, 3),), ((0.5,),), ((0, 1, 2),), ((1, 2, 3),)
    )
    pages = TopicPages("c", "C", "n", (("AP", "AP"),), ("r",), 1.0, (topic,), "https://example.org/a/{id}?x=1")
    block = Explorer("explorer", (pages,), ("r", ""), (), {"17": ("seventeen", "text")})
    path = tmp_path / "index.html"
    path.write_text(render_html(Report("R", "", (Section("S", (block,)),))), encoding="utf-8")
    page = visit(path, "#topic=c/T", width)
    links = page.locator(".sides a[href^='https:']")
    expected = ["17", "a%2Fb%3Fc%26d%23e", "%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E"]
    assert links.evaluate_all("links => links.map((a) => [a.getAttribute('href'), a.rel])") == [
        [f"https://example.org/a/{name}?x=1", "noreferrer"] for name in expected
    ]
    page.locator(".sides button.doc").click()
    assert "text" in page.locator(".sides tr.text").inner_text()
    assert violations(page) == []


# ---- on paper


def filled(pdf: Path) -> list[float]:
    """How far down each page is printed on, as a part of its height without the margins."""
    if shutil.which("pdftoppm") is None:
        pytest.skip("no pdftoppm: apt-get install poppler-utils")
    subprocess.run(["pdftoppm", "-r", "50", "-gray", str(pdf), str(pdf.with_suffix(""))], check=True)
    parts = []
    for path in sorted(pdf.parent.glob(f"{pdf.stem}-*.pgm")):
        _, size, _, data = path.read_bytes().split(b"\n", 3)
        width, height = map(int, size.split())
        inked = np.flatnonzero((np.frombuffer(data, np.uint8).reshape(height, width) < 200).any(axis=1))
        margin = height * 16 / 297
        parts.append((int(inked.max(initial=0)) - margin) / (height - 2 * margin))
    return parts


@pytest.mark.slow
def test_printed_pages_are_not_half_empty(mini: Path, visit: Open, tmp_path: Path) -> None:
    visit(mini).pdf(path=tmp_path / "page.pdf", format="A4")
    parts = filled(tmp_path / "page.pdf")
    assert len(parts) > 1
    assert min(parts[:-1]) > 0.6, parts


# ---- the real thing


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.parametrize("width", (390, 1280, 1440))
def test_the_crossmath_page_is_no_longer_than_its_content(crossmath: Path, visit: Open, width: int) -> None:
    page = visit(crossmath, width=width)
    assert_no_longer_than_its_content(page)
    assert page.evaluate("document.documentElement.scrollHeight") < (17_000 if width == 390 else 13_000)
    assert width != 1280 or page.evaluate(CUT) == []
