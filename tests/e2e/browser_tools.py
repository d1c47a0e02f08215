"""A browser, reports to look at in it, and what to look for; a plugin of the tests that use it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.data.trec import Run
from harness.experiments.evaluate import evaluate
from harness.experiments.task import task
from harness.render.html import render_html
from harness.reports.comparison import report as report_on
from harness.scoring.compare import compare

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
WIDTHS = (390, 1440)
LOOKS = ((390, "dark"), (1440, "light"))
AXE = """async ([root, every]) =>
    (await axe.run(root ? document.querySelector(root) : document, {preload: false})).violations
    .filter((found) => every || ["serious", "critical"].includes(found.impact))
    .map((found) => `${found.id}: ${found.nodes.slice(0, 3).map((node) => node.html).join(" ")}`)"""
Open = Callable[..., "Page"]


def fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def violations(page: Page, root: str = "", *, every: bool = False) -> list[str]:
    """Returns what axe finds: serious and critical findings, or `every` one."""
    if importlib.util.find_spec("axe_playwright_python") is None:
        pytest.skip("no axe: pip install 'mathir-harness[dev]'")
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
    return list(page.evaluate(AXE, [root, every]))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if importlib.util.find_spec("playwright") is None:
        pytest.skip("no playwright: pip install 'mathir-harness[dev]'")
    if not CHROMIUM.is_file():
        pytest.skip(f"no {CHROMIUM}: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Open]:
    """A function that opens a page; in the end nothing may have been requested, logged or thrown."""
    seen: list[str] = []
    contexts = []

    def open_page(path: Path, address: str = "", width: int = 1440, scheme: str = "light", script: bool = True) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
            java_script_enabled=script,
            reduced_motion="reduce",
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: seen.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: seen.append(f"error: {error}"))
        page.on("dialog", lambda dialog: seen.append(f"dialog: {dialog.message}"))
        page.on(
            "request", lambda request: None if request.url.startswith(("file:", "data:")) else seen.append(request.url)
        )
        page.goto(f"{path.as_uri()}{address}")
        if script and page.locator(".explorer").count():
            page.locator(".explorer:not([hidden])").wait_for()  # drawn when its data is decompressed
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert seen == []


@pytest.fixture(scope="session")
def mini(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs made of the judgments: `good` has the best grades first, `poor` the worst, and lacks topic M.42."""
    found = task("mini-task1")
    judged = found.scorer.qrels.to_dict()
    ids = sorted({doc for docs in judged.values() for doc in docs})
    rankings: dict[str, dict[str, dict[str, float]]] = {"good": {}, "poor": {}}
    for topic, grades in judged.items():
        unjudged = dict.fromkeys([doc for doc in ids if doc not in grades][:10], 0.5)
        good = {d: g + n / 100 for n, (d, g) in enumerate(grades.items(), 1)} | unjudged
        rankings["good"][topic], rankings["poor"][topic] = good, {doc: -score for doc, score in good.items()}
    del rankings["poor"]["M.42"]
    runs = [Run.from_dict(name, ranking) for name, ranking in rankings.items()]
    evaluation = evaluate(found, *runs)
    comparison = compare(evaluation.scores, "poor", permutations=100)
    report = report_on(evaluation, comparison)
    path = tmp_path_factory.mktemp("mini") / "index.html"
    path.write_text(render_html(report), encoding="utf-8")
    assert path.stat().st_size < 1_000_000
    return path


@pytest.fixture(scope="session")
def crossmath(mirror: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from harness.papers.paper import load_paper
    from harness.papers.report.paper import paper_report
    from harness.papers.reproduce import recompute_paper
    from harness.store.provenance import provenance

    assert mirror.is_dir()
    report = paper_report(recompute_paper(load_paper("crossmath")), provenance({}))
    path = tmp_path_factory.mktemp("crossmath") / "index.html"
    path.write_text(render_html(report), encoding="utf-8")
    assert path.stat().st_size < 1_600_000
    return path
