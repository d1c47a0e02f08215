"""Pages of sites: safe names and links, and a folder of which only what changed is written."""

from __future__ import annotations

import math
import multiprocessing
import os
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import HarnessError
from harness.render.charts import timeline
from harness.render.pages import (
    MANIFEST,
    PARTIAL,
    BuildFolder,
    Head,
    Item,
    Link,
    Listing,
    ListingLine,
    Page,
    PageSection,
    QuotedText,
    Rich,
    check_path,
    file_stem,
)
from harness.render.site_html import href, render_page


@given(st.text(max_size=200))
def test_every_name_becomes_a_safe_path(name: str) -> None:
    assert check_path(file_stem(name)) == file_stem(name)
    assert "/" not in file_stem(name)


@given(st.text(max_size=30), st.text(max_size=30))
def test_names_that_differ_in_more_than_case_get_different_paths(one: str, other: str) -> None:
    if one.lower() != other.lower():
        assert file_stem(one) != file_stem(other)


@pytest.mark.parametrize(
    "path", ["../a", "/a", "a//b", "a/../b", "A", "a b", "con/x", "nul.html", ".hidden", "", "a\\b"]
)
def test_paths_that_lead_elsewhere_are_refused(path: str) -> None:
    with pytest.raises(HarnessError, match="not usable"):
        check_path(path)


@pytest.mark.parametrize(
    "address",
    ["javascript:alert(1)", "data:text/html,x", "//evil.example", "../x", "ftp://x", "a.html#<b>", "https://a b"],
)
def test_other_addresses_are_shown_as_text(address: str) -> None:
    assert href(address, "a/b.html") == ""
    page = Page("a/b.html", "t", "", (PageSection("", (Rich((Link("words", address),)),)),))
    assert "<bdi>words</bdi>" in render_page(page)
    assert address not in render_page(page)


def test_formulas_in_passages_become_mathml_and_the_rest_is_escaped() -> None:
    page = Page(
        "a.html", "$x^2$ <b>", "", (PageSection("", (QuotedText("first $\\frac{1}{2}$\n\n<i>second</i> $<$"),)),)
    )
    text = render_page(page)
    assert "<msup><mi>x</mi><mn>2</mn></msup>" in text
    assert (
        "<mfrac><mrow><mn>1</mn></mrow><mrow><mn>2</mn></mrow></mfrac>" in text
        or "<mfrac><mn>1</mn><mn>2</mn></mfrac>" in text
    )
    assert "<p>&lt;i&gt;second&lt;/i&gt; " in text
    assert "<b>" not in text.split("<h1")[1].split("</h1>")[0]


def test_cells_are_escaped_and_isolated_only_if_they_may_run_from_right_to_left() -> None:
    texts = ("0.5", "<b>&", "שלום", "a\u202eb", "$x$ é")
    lines = tuple(ListingLine((Item(text, small=text, maths=True), Item(text))) for text in texts)
    page = render_page(Page("a.html", "t", "", (PageSection("", (Listing("l", "c", (Head("x"), Head("y")), lines),)),)))
    body = page.split("<tbody>")[1].split("</tbody>")[0]
    assert body.count("<bdi>שלום</bdi>") == 2
    assert body.count('<span class="small" dir="auto">שלום</span>') == 1
    assert '>0.5<span class="small">0.5</span></th>' in body
    assert "<b>" not in body
    assert body.count("&lt;b&gt;&amp;") == 3
    assert "\u202e" not in page
    assert body.count("a[U+202E]b") == 3
    assert "<bdi><math>" in body


@pytest.mark.parametrize(("rows", "late"), [(15, False), (16, True)])
def test_parts_with_long_tables_wait_but_the_first(rows: int, late: bool) -> None:
    lines = tuple(ListingLine((Item(str(number)),)) for number in range(rows))
    first, second = (PageSection(name, (Listing(name, "c", (Head("x"),), lines),)) for name in ("a", "b"))
    page = render_page(Page("a.html", "t", "", (first, second)))
    assert page.count("<section>") == (1 if late else 2)  # ids are those of the tables
    assert page.count('<section class="late">') == (1 if late else 0)


def test_a_timeline_marks_each_new_best() -> None:
    day = [datetime(2026, 1, number, tzinfo=UTC) for number in range(1, 6)]
    points = [("c", day[2], 0.5), ("a", day[0], 0.2), ("d", day[3], 0.4), ("b", day[1], 0.2), ("e", day[4], math.nan)]
    drawing = timeline(points, "nDCG")
    marks = re.findall(r"<(path|circle)[^>]*>.*?<title>(.): nDCG", drawing)
    assert marks == [("path", "a"), ("circle", "b"), ("path", "c"), ("circle", "d")]
    assert "2026-01-01" in drawing
    assert "<svg" in timeline([], "nDCG")
    assert "<svg" in timeline(points[:1], "nDCG")


def test_a_row_with_another_number_of_cells_is_refused() -> None:
    with pytest.raises(HarnessError, match="row 1 has 1 cells, expected 2"):
        Listing("a", "b", (Head("x"), Head("y")), (ListingLine((Item("1"),)),))


def test_only_changes_are_written_and_only_own_files_deleted(tmp_path: Path) -> None:
    with BuildFolder(tmp_path) as folder:
        folder.write({"a/one.html": "1", "a/two.html": "2", "b.html": "3"})
    (tmp_path / "a" / "theirs.txt").write_text("kept")
    (tmp_path / "b.html").write_text("changed by hand")
    times = (tmp_path / "a" / "one.html").stat().st_mtime_ns
    with BuildFolder(tmp_path) as folder:
        folder.write({"a/one.html": "1"})
    assert (folder.written, folder.same, folder.deleted) == (0, 1, 1)
    assert (tmp_path / "a" / "one.html").stat().st_mtime_ns == times
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [
        "b.html",  # somebody changed it
        MANIFEST,
        "one.html",
        "theirs.txt",
    ]


def test_files_of_others_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("mine")
    with pytest.raises(HarnessError, match="was not written by 'harness site build'"), BuildFolder(tmp_path) as folder:
        folder.write({"index.html": "other"})
    assert (tmp_path / "index.html").read_text() == "mine"


def _killed(root: Path) -> None:
    with BuildFolder(root) as folder:
        folder.write({"index.html": "half"})
        os._exit(9)


def test_a_killed_build_does_not_hinder_the_next(tmp_path: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=_killed, args=(tmp_path,))
    process.start()
    process.join()
    assert (tmp_path / PARTIAL).is_file()
    with BuildFolder(tmp_path) as folder:
        folder.write({"index.html": "whole"})
    assert (tmp_path / "index.html").read_text() == "whole"
    assert not (tmp_path / PARTIAL).exists()


def test_a_failed_build_deletes_nothing(tmp_path: Path) -> None:
    with BuildFolder(tmp_path) as folder:
        folder.write({"a.html": "1", "b.html": "2"})
    with pytest.raises(ZeroDivisionError), BuildFolder(tmp_path) as folder:
        folder.write({"a.html": "new"})
        raise ZeroDivisionError
    assert (tmp_path / "b.html").read_text() == "2"
    with BuildFolder(tmp_path) as folder:
        folder.write({"a.html": "newer"})
    assert not (tmp_path / "b.html").exists()


def test_faults_of_the_folder(tmp_path: Path) -> None:
    with BuildFolder(tmp_path) as folder:
        folder.write({"a.html": "1"})
        with pytest.raises(HarnessError, match="two pages have the path"):
            folder.write({"a.html": "2"})
        with pytest.raises(HarnessError, match="another build"), BuildFolder(tmp_path):
            pass
    (tmp_path / MANIFEST).write_text('{"files": {"../../etc/passwd": "00"}}')
    with pytest.raises(HarnessError, match="is not the list of files"), BuildFolder(tmp_path):
        pass
    with pytest.raises(HarnessError, match="cannot be written"), BuildFolder(tmp_path / "a.html" / "x"):
        pass
