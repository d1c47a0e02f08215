"""Reports in a real browser: they draw, sort, search, explain, need no network, and everyone can use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browser_tools import LOOKS, WIDTHS, Open, fits, violations

from harness.render.html import render_html
from harness.render.model import Explorer, Section, TopicPage, TopicPages
from harness.render.write import Report

pytest_plugins = ("browser_tools",)


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_the_list_compares_two_runs_by_topic(mini: Path, visit: Open, width: int) -> None:
    page = visit(mini, "#explore=", width)
    assert fits(page)
    assert page.locator(".list tbody tr").count() == 42
    status = page.locator(".status").inner_text()
    assert "good 1.000 against" in status
    assert "mean over 42 topics; higher on 42, equal on 0, lower on 0." in status
    first = page.locator(".list tbody tr").first.inner_text().split()
    assert first[0] == "M.42"  # the topic that `poor` lacks differs most
    assert "+1.000" in first


@pytest.mark.slow
def test_columns_sort_both_ways_and_say_so(mini: Path, visit: Open) -> None:
    page = visit(mini, "#explore=")
    head = page.locator(".list thead th").first
    ids = page.locator(".list tbody a bdi")
    head.locator("button").click()
    assert (head.get_attribute("aria-sort"), ids.first.inner_text()) == ("ascending", "M.1")
    head.locator("button").press("Enter")
    assert (head.get_attribute("aria-sort"), ids.first.inner_text()) == ("descending", "M.42")
    assert head.locator("button").evaluate("button => button === document.activeElement")


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_the_search_filters_and_enter_opens_the_first_topic(mini: Path, visit: Open, width: int) -> None:
    page = visit(mini, "#explore=", width)
    box = page.get_by_label("Search ids and titles")
    box.fill("FIFTH cubic")
    assert page.locator(".list tbody a bdi").all_inner_texts() == ["M.1"]
    box.fill("no such words")
    assert page.locator(".status").inner_text() == "No topic fits."
    box.fill("M.42")
    box.press("Enter")
    page.locator(".explorer h3:focus").wait_for()  # the page changes after its address
    assert page.url.endswith("#topic=mini-task1/M.42")


@pytest.mark.slow
def test_slices_are_shown_by_attribute_and_filter_the_topics(mini: Path, visit: Open) -> None:
    page = visit(mini, "#explore=")
    page.get_by_role("button", name="By attribute").click()
    row = page.locator(".list tbody tr").filter(has_text="difficulty").filter(has_text="High")
    n = int(row.locator("td").first.inner_text())
    row.get_by_role("button").click()
    assert page.locator(".list tbody tr").count() == n < 42
    assert "is.difficulty=High" in page.url
    page.reload()
    assert page.locator(".list tbody tr").count() == n
    page.get_by_label("difficulty", exact=True).select_option("all")
    assert page.locator(".list tbody tr").count() == 42


@pytest.mark.slow
def test_the_chosen_runs_and_measure_are_part_of_the_address(mini: Path, visit: Open) -> None:
    page = visit(mini, "#explore=")
    before = page.locator(".status").inner_text()
    page.get_by_role("button", name="Exchange the two runs").press("Enter")
    assert page.evaluate("document.activeElement.className") == "swap"
    assert "poor" in page.locator(".status bdi").first.inner_text()
    choice = page.get_by_label("Measure", exact=True)
    choice.focus()
    choice.select_option("P′@10")
    assert choice.evaluate("select => select === document.activeElement")
    said = page.locator(".status").inner_text()
    assert "P′@10" in said != before
    page.reload()
    assert page.locator(".status").inner_text() == said


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_a_topics_page_shows_its_text_and_why_the_runs_differ(mini: Path, visit: Open, width: int) -> None:
    page = visit(mini, "#topic=mini-task1/M.1", width)
    assert fits(page)
    assert page.locator(".explorer h3").inner_text() == "Fifth powers of the roots of a cubic"
    assert page.locator(".question math").count() == 5
    drawn = "math => math.namespaceURI.endsWith('MathML') && math.children.length"
    assert page.locator(".question math").first.evaluate(drawn) > 0
    assert "Computation" in page.locator(".question .facts").inner_text()
    rows = page.locator(".sides tbody tr")
    assert "First difference, at rank 1" in rows.first.inner_text()
    assert page.locator(".sides .gnone").count() > 0
    texts = page.locator(".sides td:nth-child(2) .grade > span:first-child").all_inner_texts()
    grades = [int(text) for text in texts if text != "?"]
    assert grades == sorted(grades, reverse=True)
    page.get_by_label("judged documents only").check()
    assert page.locator(".sides .gnone").count() == 0
    ranks = page.locator(".ranks tbody tr")
    assert ranks.count() == 3
    assert sorted(ranks.locator("td:nth-child(2)").all_inner_texts()) == ["1", "2", "3"]


@pytest.mark.slow
def test_documents_are_read_on_demand(mini: Path, visit: Open) -> None:
    page = visit(mini, "#topic=mini-task1/M.1")
    button = page.locator(".sides button.doc").first
    button.focus()
    button.press("Enter")
    assert button.get_attribute("aria-expanded") == "true"
    text = page.locator(".sides tr.text")
    assert len(text.inner_text()) > 200
    assert text.locator("math").count() > 0
    assert fits(page)
    button.press("Enter")
    assert button.get_attribute("aria-expanded") == "false"
    assert text.count() == 0


@pytest.mark.slow
def test_one_goes_from_topic_to_topic_and_back_without_a_mouse(mini: Path, visit: Open) -> None:
    page = visit(mini, "#explore=")
    links = page.locator(".list tbody a")
    second = links.nth(1).inner_text()
    links.first.press("Enter")
    page.locator(".way a[rel=next]").press("Enter")
    page.locator(".kicker bdi").last.filter(has_text=second).wait_for()
    page.locator(".explorer h3:focus").wait_for()
    page.locator(".way .back").press("Enter")
    page.locator(".list").wait_for()
    page.locator(".list a:focus").filter(has_text=second).wait_for()
    page.go_back()
    page.locator(".kicker bdi").last.filter(has_text=second).wait_for()


@pytest.mark.heavy
@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_axe_finds_nothing_serious_in_the_mini_report(mini: Path, visit: Open, width: int, scheme: str) -> None:
    page = visit(mini, "#explore=&by=attribute", width, scheme)
    assert violations(page) == []
    page.goto(f"{mini.as_uri()}#topic=mini-task1/M.1")
    page.locator(".sides button.doc").first.click()
    assert violations(page, "#explorer") == []


@pytest.mark.slow
def test_what_cannot_be_drawn_is_said_and_the_report_is_readable(mini: Path, visit: Open) -> None:
    """Without scripts, and in a browser that cannot read the data."""
    bare, old = visit(mini, script=False), visit(mini)
    assert old.locator(".notice").count() == 0
    old.add_init_script("delete window.DecompressionStream")
    old.reload()
    assert "older than 2023" in old.locator(".notice").inner_text()
    for page in (bare, old):
        assert page.locator(".notice").is_visible()
        assert page.locator("#means table").is_visible()
        assert not page.locator(".explorer").is_visible()


@pytest.mark.slow
def test_paper_gets_the_still_part_only(mini: Path, visit: Open) -> None:
    page = visit(mini, "#limitations")
    assert page.locator(".explorer").is_visible()
    assert not page.locator(".still").is_visible()
    page.wait_for_timeout(300)  # a section below the explorer is shown where the address names it
    top = page.locator("#limitations").evaluate("section => section.getBoundingClientRect().top")
    assert 0 <= top < 900
    page.emulate_media(media="print")
    assert not page.locator(".explorer").is_visible()
    assert "tables/topics-mini-task1.csv" in page.locator(".still").inner_text()
    assert page.locator("#means table").is_visible()


HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)" x="',
    "javascript:alert(1)",
    "$\\href{javascript:alert(1)}{<img src=x onerror=alert(1)>}$",
    "&lt;b&gt; &bogus; \u202etxt.exe",
    "__proto__",
    "#topic=x&a=y/../%00",
    "x" * 300,
)


@pytest.mark.slow
def test_hostile_texts_are_shown_as_text(tmp_path: Path, visit: Open) -> None:
    values: tuple[Any, ...] = ((2.0, None), 1, ((2.0, 1),), ((0.5,), (0.25,)), ((0, 1), (1, 0)), ((1,), (2,)))
    pages = []
    for n, text in enumerate(HOSTILE):
        facts = ((text, text), ("kind", text))
        pages.append(TopicPage(f"{text} {n}", text, f"{text} {text}", (text,), facts, (text, f"{text}2"), *values))
    runs = (HOSTILE[0], HOSTILE[1])
    collection = TopicPages(HOSTILE[7], HOSTILE[1], HOSTILE[0], (("AP", HOSTILE[0]),), runs, 1.0, tuple(pages))
    documents = {text: (text, text) for text in HOSTILE}
    block = Explorer("explorer", (collection,), runs, (), documents)
    path = tmp_path / "index.html"
    path.write_text(render_html(Report(HOSTILE[0], HOSTILE[1], (Section("S", (block,)),))), encoding="utf-8")
    page = visit(path, "#explore=", min(WIDTHS))
    assert fits(page)
    assert page.locator(".list tbody tr").count() == len(HOSTILE)
    for n in range(len(HOSTILE)):
        page.goto(f"{path.as_uri()}#explore=")
        page.locator(".list tbody a").nth(n).click()
        page.locator(".sides button.doc").first.click()
        assert page.locator(".explorer h3").is_visible()
        assert fits(page)
    harmful = "script, img, iframe, [onmouseover], [onerror], [href^=javascript]"
    assert page.locator(".explorer").locator(harmful).count() == 0
    page.goto(f"{path.as_uri()}#explore=")
    text = page.locator(".list").inner_text()
    assert all(part in text for part in ("<script>alert(1)</script>", "&lt;b&gt; &bogus; [U+202E]txt.exe", "__proto__"))
