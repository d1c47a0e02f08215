"""Pages of topics in two directions: Persian from the right, formulas and English from the left, texts as texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import spoken_experiment as spoken
from browser_tools import LOOKS, WIDTHS, Open, fits, violations

from harness.data.topics import Topic
from harness.papers.crossmath.translations import translation_sections
from harness.render.html import render_html
from harness.reports.experiment import experiment_report

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytest_plugins = ("browser_tools",)

HOSTILE = "<img src=x onerror=alert(1)> </script>"
# The title begins with what is written from the left, and must stand on the right all the same.
PERSIAN = (
    Topic("M.1", "$n^2$ فرد است", f"فرض کنید $n$ فرد باشد و $n^2$ را بیابید. {HOSTILE}", language="pes"),
    Topic("M.4", "عدد اول", "آیا $2$ اول است؟", language="pes"),
)
WORDS = {"فرض": "suppose", "کنید": "that", "فرد": "odd", "باشد": "is", "و": "and", "را": "", "است": "is", "QZ2": ""}
SYSTEMS = {
    "as they are": spoken.SYSTEMS["as they are"],
    "dictionary": (spoken.system("dictionary", spoken.dictionary(WORDS)), ("Foreign",)),
    "bare": (spoken.system("bare", spoken.dictionary(WORDS), masking=None), ("Foreign",)),
}


@pytest.fixture(scope="module")
def page_of_topics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("persian")
    report = experiment_report(spoken.results(folder, PERSIAN, SYSTEMS), [translation_sections])
    path = folder / "index.html"
    path.write_text(render_html(report), encoding="utf-8")
    return path


def topic(visit: Open, path: Path, version: str, **more: object) -> Page:
    return visit(path, f"#topic=first/M.1&text={version.replace(' ', '%20')}", **more)


def step(page: Page, number: int) -> Locator:
    return page.locator(".stages > section").nth(number)


def styles(locator: Locator) -> list[str]:
    return [str(locator.evaluate(f"e => getComputedStyle(e).{name}")) for name in ("direction", "textAlign")]


@pytest.mark.heavy
def test_persian_stands_on_the_right_and_its_formulas_and_english_read_from_the_left(
    page_of_topics: Path, visit: Open
) -> None:
    page = topic(visit, page_of_topics, "dictionary, Foreign")
    assert page.locator(".stages h5").all_inner_texts() == [
        "Original, Persian",
        "Input of the translator, formulas masked",
        "Output of dictionary",
        "Query: formulas restored",
    ]
    for number, (language, direction) in enumerate([("fa", "rtl"), ("fa", "rtl"), ("en", "ltr"), ("en", "ltr")]):
        for body in step(page, number).locator(".body").all():
            assert body.get_attribute("lang") == language
            assert styles(body) == [direction, "start"]
    # The formula that the Persian title begins with ends where the line begins, on the right; in it n is left of 2.
    head = step(page, 0).locator(".head")
    right = (
        "(e) => { const r = document.createRange(); r.selectNodeContents(e); return r.getBoundingClientRect().right; }"
    )
    first = head.locator("math")
    assert abs(first.evaluate("e => e.getBoundingClientRect().right") - head.evaluate(right)) < 2
    assert head.evaluate("e => e.getBoundingClientRect().right") - head.evaluate(right) < 2
    assert styles(first)[0] == "ltr"
    base, exponent = (first.locator(name).first.bounding_box() for name in ("mi", "mn"))
    assert base is not None
    assert exponent is not None
    assert base["x"] < exponent["x"]
    # Placeholders are set apart and read from the left; the dictionary lost the second of the body.
    masked = step(page, 1).locator("bdi.kept")
    assert masked.all_inner_texts() == ["QZ1", "QZ1", "QZ2"]
    assert [styles(mark)[0] for mark in masked.all()] == ["ltr"] * 3
    assert step(page, 2).locator("bdi.kept").all_inner_texts() == ["QZ1", "QZ1"]
    assert page.locator(".stages ~ .facts, .facts:has(+ .stages)").inner_text().split("\n")[:2] == [
        "formulas kept",
        "2 of 3",
    ]


@pytest.mark.slow
def test_unmasked_formulas_are_written_from_the_left_as_they_are(page_of_topics: Path, visit: Open) -> None:
    page = topic(visit, page_of_topics, "bare, Foreign")
    marks = step(page, 1).locator("bdi.kept")
    assert marks.all_inner_texts() == ["$n^2$", "$n$", "$n^2$"]
    dollar = "e => [0, 4].map((at) => { const r = document.createRange(); r.setStart(e.firstChild, at); r.setEnd(e.firstChild, at + 1); return r.getBoundingClientRect().x; })"  # noqa: E501
    first, last = marks.first.evaluate(dollar)
    assert first < last


@pytest.mark.slow
def test_texts_of_translations_are_texts(page_of_topics: Path, visit: Open) -> None:
    """Any dialog, request or message would fail the fixture `visit`."""
    page = topic(visit, page_of_topics, "dictionary, Foreign")
    for number in range(4):
        assert HOSTILE in step(page, number).inner_text()
    assert page.locator(".explorer img").count() == 0


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_one_chooses_the_version_and_the_address_keeps_it(page_of_topics: Path, visit: Open, width: int) -> None:
    page = visit(page_of_topics, "#topic=first/M.1&a=dictionary%2C%20Foreign", width)
    choice = page.get_by_label("The topic in")
    assert choice.input_value() == "dictionary, Foreign"  # that of run A
    choice.focus()
    choice.select_option("as they are, Foreign")
    assert choice.evaluate("e => e === document.activeElement")
    assert page.locator(".stages h5").all_inner_texts() == ["Original, Persian", "Query: identity"]
    assert "The same." in step(page, 1).inner_text()
    assert fits(page)
    page.reload()
    assert page.get_by_label("The topic in").input_value() == "as they are, Foreign"
    page.get_by_role("link", name="Next").or_(page.get_by_role("link", name="Previous")).first.click()
    assert page.get_by_label("The topic in").input_value() == "as they are, Foreign"
    # The first results of two systems stand below, side by side.
    assert page.locator(".sides thead bdi").all_inner_texts() == ["dictionary, Foreign", "as they are, English"]


@pytest.mark.heavy
@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_axe_finds_nothing_serious(page_of_topics: Path, visit: Open, width: int, scheme: str) -> None:
    for version in ("dictionary, Foreign", "bare, Foreign", "as they are, Foreign"):
        page = topic(visit, page_of_topics, version, width=width, scheme=scheme)
        assert violations(page) == []
