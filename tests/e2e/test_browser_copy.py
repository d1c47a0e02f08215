"""What a reader copies from a report in a real browser: tables as they are shown, and the command line."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser_tools import Open, violations

from harness.render.html import render_html
from harness.render.model import Cell, Column, Facts, Section, Table
from harness.render.write import Report

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
@pytest.mark.parametrize("size", [20, 700])
def test_the_rows_that_are_chosen_are_copied_and_printed(tmp_path: Path, visit: Open, size: int) -> None:
    """Also those of a long table, of which the page has at first a part."""
    rows = tuple((Cell(f"run {index}"), Cell(str(index), index)) for index in range(size))
    table = Table("t", "Means", (Column("run"), Column("v", kind="number")), rows)
    path = copying(Report("T", "H", (Section("S", (table,)),)), tmp_path)
    if shutil.which("pdftotext") is None:
        pytest.skip("pdftotext is not installed: apt-get install poppler-utils")
    page = visit(path)
    shown = page.locator("tbody tr:visible")
    assert shown.count() == min(size, 100)
    page.locator("th button").last.click()
    assert (shown.count(), shown.first.inner_text().split()[1]) == (min(size, 100), str(size - 1))
    page.locator(".region").evaluate("region => { region.scrollTop = region.scrollHeight; }")
    page.wait_for_function(f"document.querySelectorAll('tbody tr').length === {min(size, 200)}")
    page.pdf(path=tmp_path / "page.pdf")
    printed = subprocess.run(["pdftotext", str(tmp_path / "page.pdf"), "-"], capture_output=True, check=True).stdout
    assert re.findall(r"run (\d+)", printed.decode()) == [str(index) for index in reversed(range(size))]
    page.get_by_label("Filter rows").fill("19")
    chosen = [index for index in reversed(range(size)) if "19" in str(index)]
    assert page.locator(".filter [role=status]").inner_text() == f"{len(chosen)} of {size} rows"
    page.get_by_role("button", name="Copy as TSV").click()
    assert pasted(page) == "run\tv\n" + "".join(f"run {index}\t{index}\n" for index in chosen)
    still = visit(path, script=False)
    assert still.locator("tbody tr").count() == min(size, 100)
    assert still.get_by_text(f"The first 100 of {size} rows").count() == (size > 100)
