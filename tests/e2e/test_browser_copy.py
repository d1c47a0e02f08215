"""What a reader copies from a report in a real browser: tables as they are shown, and the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser_tools import Open, violations

from harness.render.write import Cell, Column, Facts, Report, Section, Table, render_html

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytest_plugins = ("browser_tools",)


def pasted(page: Page) -> str:
    """What the clipboard holds, as another program gets it."""
    page.evaluate("document.body.append(Object.assign(document.createElement('textarea'), {id: 'paste'}))")
    page.locator("#paste").focus()
    page.keyboard.press("Control+V")
    found = str(page.locator("#paste").input_value())
    page.evaluate("document.getElementById('paste').remove()")
    return found


def copying(report: Report, folder: Path) -> Path:
    path = folder / "index.html"
    path.write_text(render_html(report), encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("clipboard", [True, False])
def test_tables_and_the_command_are_copied(tmp_path: Path, visit: Open, clipboard: bool) -> None:
    columns = (Column("run"), Column("mean", "nDCG′", "number"), Column("n", "nDCG′", "number"), Column("a|b"))
    rows = (
        (
            Cell("one_1", marks=("baseline",)),
            Cell("0.25", 0.2512345678, ("best", "better")),
            Cell("7", 7),
            Cell("=1+1"),
        ),
        (Cell("two"), Cell("-0.10", -0.1, note="few"), Cell("7", 7), Cell("<b> & *x*")),
        (Cell("three"), Cell("n/a"), Cell("0", 0), Cell("-0.5")),
    )
    command = "harness score 'my run.txt' --collection \"mini\""
    blocks = (Table("t", "Means", columns, rows), Facts((("command", command), ("Python", "3"))))
    page = visit(copying(Report("T", "H", (Section("S", blocks),)), tmp_path))
    if not clipboard:
        page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    status = page.locator("#t .copy [role=status]")
    page.get_by_role("button", name="Copy as TSV").click()
    status.get_by_text("copied").wait_for()
    assert pasted(page) == (
        "run\tnDCG′ / mean\tnDCG′ / n\ta|b\n"
        "one_1\t0.2512345678\t7\t'=1+1\n"
        "two\t-0.1\t7\t<b> & *x*\n"
        "three\tn/a\t0\t-0.5\n"
    )
    # As it is shown: sorted by the mean, the highest first.
    page.get_by_role("button", name="mean").click()
    page.get_by_role("button", name="Copy as Markdown").click()
    assert pasted(page) == (
        "| run | nDCG′ / mean | nDCG′ / n | a&#124;b |\n"
        "| :--- | ---: | ---: | :--- |\n"
        "| one\\_1 † | **0.25** ▲ | 7 | =1+1 |\n"
        "| two | -0.10 (a) | 7 | &lt;b&gt; &amp; \\*x\\* |\n"
        "| three | n/a | 0 | -0.5 |\n"
    )
    button = page.get_by_role("button", name="Copy", exact=True)
    button.press("Enter")
    page.locator(".facts .copy [role=status]").get_by_text("copied").wait_for()
    assert button.evaluate("button => button === document.activeElement")
    assert pasted(page) == command
    assert violations(page) == []
    page.emulate_media(media="print")
    assert not page.locator(".copy").first.is_visible()


@pytest.mark.slow
def test_only_the_rows_that_are_shown_are_copied(tmp_path: Path, visit: Open) -> None:
    rows = tuple((Cell(f"run {index}"), Cell(str(index), index)) for index in range(20))
    table = Table("t", "Means", (Column("run"), Column("v", kind="number")), rows)
    page = visit(copying(Report("T", "H", (Section("S", (table,)),)), tmp_path))
    page.get_by_label("Filter rows").fill("19")
    page.get_by_role("button", name="Copy as TSV").click()
    assert pasted(page) == "run\tv\nrun 19\t19\n"
