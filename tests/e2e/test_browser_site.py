"""The site of a lab in a real browser: filters, columns, rows, pairs of runs, without scripts, for everyone."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from browser_tools import LOOKS, Open, fits, violations
from scipy import stats
from site_tools import build

import harness as h
from harness.data.run_writers import run_text
from harness.data.trec import Run
from harness.labs.lab import Lab, new_lab
from harness.labs.submissions import scores_of, submissions
from harness.labs.submit import Offer, submit_run
from harness.render.pages import Head, Item, Listing, ListingLine, Page, PageSection
from harness.render.site_html import render_page

pytest_plugins = ("browser_tools",)
METHODS = {"good": "BM25", "fair": "dense encoder", "poor": "operator trees"}
PAGES = (
    *("index.html", "lab/index.html", "lab/runs/t-good/good.v1.html", "lab/topics/m.1.html", "lab/pairs.html"),
    *("lab/topics/index.html", "lab/slices/category.html", "lab/about.html", "schemas/index.html"),
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Runs that have the best grades first, in half of the topics, and last; and a second run of one team."""
    folder = tmp_path_factory.mktemp("labs")
    made = new_lab(folder / "lab", {"title": "Mini lab", "collection": "mini-task1"})
    task = made.task()
    judged = task.scorer.qrels.to_dict()
    signs: dict[str, Callable[[int], int]] = {
        "good": lambda _: 1,
        "fair": lambda n: 1 if n % 2 else -1,
        "poor": lambda _: -1,
        "other": lambda n: n % 3 - 1,
    }
    for name, sign in signs.items():
        ranked = {
            topic: {doc: sign(n) * grade + at / 100 for at, (doc, grade) in enumerate(docs.items())}
            for n, (topic, docs) in enumerate(judged.items())
        }
        path = folder / f"{name}.run"
        path.write_text(run_text(Run.from_dict(name, ranked)))
        method = METHODS.get(name, "unknown")
        reason = f"method: {{retrieval: [{{method: {method}}}]}}\nresources: {{latency: {len(name)} ms}}\n"
        path.with_suffix(".ir-metadata.yml").write_text(reason)
        submit_run(made, Offer(path, "t-poor" if name == "other" else f"t-{name}"), bench=task)
    return made


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    code, said = build(lab.folder, "-o", out)
    assert code == 0, said
    return out


@pytest.mark.heavy
@pytest.mark.parametrize(("width", "scheme"), [*LOOKS, (820, "light")])
def test_everyone_can_use_every_page(site: Path, visit: Open, width: int, scheme: str) -> None:
    for page in PAGES:
        opened = visit(site / page, width=width, scheme=scheme)
        assert fits(opened), page
        opened.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        assert violations(opened, every=True) == [], page


@pytest.mark.slow
def test_long_tables_wait_and_are_printed(tmp_path: Path, visit: Open) -> None:
    """The layout of a long table below the window waits; it is there for links and on paper, and is marked if wide."""
    heads = tuple(Head(f"column-{number}") for number in range(12))
    lines = tuple(ListingLine(tuple(Item(f"value-{row}-{column}") for column in range(12))) for row in range(60))
    parts = [
        PageSection(f"part {name}", (Listing(name, "c", heads, lines, search=True),)) for name in ("a", "b", "c", "d")
    ]
    path = tmp_path / "page.html"
    path.write_text(render_page(Page("page.html", "A page", "", tuple(parts))))
    page = visit(path, width=390)
    last = page.locator("#d .region")
    page.wait_for_timeout(200)
    assert "sideways" in str(page.locator("#a .region").get_attribute("class"))
    assert "sideways" not in str(last.get_attribute("class"))  # not laid out yet
    page.evaluate("location.hash = '#d'")
    page.wait_for_function("document.querySelector('#d .region').classList.contains('sideways')")
    page.locator("#d input[type=search]").fill("value-7-3")
    assert page.locator("#d tbody tr:visible").count() == 1
    page.emulate_media(media="print")
    for part in page.locator(".late").all():
        assert part.evaluate("part => getComputedStyle(part).contentVisibility") == "visible"
    assert page.locator(".late").count() == 3


@pytest.mark.slow
def test_rows_are_filtered_and_open_their_run(site: Path, visit: Open) -> None:
    page = visit(site / "lab/index.html")
    rows = page.locator("#runs tbody tr:visible")
    assert rows.count() == 4  # the random floor is one of them
    page.get_by_label("Runs", exact=True).select_option("primary and others")
    assert rows.count() == 5
    page.get_by_label("Resources", exact=True).select_option("neural")
    assert [row.split("\n")[0] for row in rows.all_inner_texts()] == ["fair"]
    assert "resource=neural" in page.url
    page.reload()
    assert rows.count() == 1
    page.get_by_label("Resources", exact=True).select_option("all")
    page.get_by_label("Search").fill("t-poor")
    assert rows.count() == 2
    assert page.locator("#runs .status").inner_text() == "2 of 5 rows"
    page.get_by_text("Columns", exact=True).click()
    head = page.locator("#runs thead th").filter(has_text="latency")
    assert not head.is_visible()
    page.get_by_role("checkbox", name="latency (s per topic)").check()
    assert head.is_visible()
    page.locator("#runs tbody tr:visible td").nth(2).click()
    page.wait_for_url("**/lab/runs/t-poor/*.html")


@pytest.mark.heavy
def test_any_two_runs_are_compared_with_the_test_of_the_harness(site: Path, lab: Lab, visit: Open) -> None:
    found = {each.name: scores_of(lab, each).column("nDCG") for each in submissions(lab)}
    for a, b in (("fair", "poor"), ("good", "poor"), ("poor", "good")):
        page = visit(site / "lab/pairs.html", f"#a=t-{a}/{a}.v1&b=t-{b}/{b}.v1")
        said = page.locator(".pairs .status").inner_text()
        one, other = found[f"t-{a} / {a}"], found[f"t-{b} / {b}"]
        p = stats.ttest_rel(one, other).pvalue
        interval = stats.ttest_rel(one, other).confidence_interval()
        shown = re.search(r"Paired t-test: p (?:= (\d\.\d+)|< (0\.0001))", said)
        assert shown is not None
        assert float(shown[1]) == pytest.approx(p, abs=6e-5) if shown[1] else p < 1e-4
        ends = [float(end.replace("−", "-")) for end in re.findall(r"interval (\S+) to ([^,]+),", said)[0]]
        assert ends == pytest.approx([interval.low, interval.high], abs=6e-5)
        assert f"A is higher on {(one > other + 1e-9).sum()}" in said
        ranked = [found[f"t-{name} / {name}"] for name in ("good", "fair", "poor")]
        family = np.sort([stats.ttest_rel(x, y).pvalue for x, y in combinations(ranked, 2)])
        holm = np.maximum.accumulate(np.minimum(1, family * (3, 2, 1)))[np.abs(family - p).argmin()]
        told = "significant" if holm < 0.05 else "not significant"
        shown_holm = "< 0.0001" if holm < 0.0001 else f"= {holm:.4f}"
        assert said.endswith(f"Holm’s correction over 3 tests p {shown_holm}: {told} at 0.05.".replace("’", "'"))
    page = visit(site / "lab/pairs.html", "#a=t-poor/other.v1&b=t-poor/poor.v1")
    outside = "not corrected: outside the leaderboard’s family of tests."
    assert page.locator(".pairs .status").inner_text().endswith(outside)  # the second run of a team is not ranked
    page = visit(site / "lab/pairs.html", "#a=t-poor/poor.v1&b=t-good/good.v1")
    page.get_by_label("Measure", exact=True).select_option(index=1)
    assert page.locator(".pairs .status").inner_text().endswith((outside, "the differences do not vary."))
    page = visit(site / "lab/pairs.html", "#a=t-poor/poor.v1&b=t-good/good.v1")
    before = page.locator(".pairs .status").inner_text()
    page.get_by_role("button", name="Exchange the two runs").click()
    assert page.locator(".pairs .status").inner_text() != before
    assert page.url.endswith("#a=t-good/good.v1&b=t-poor/poor.v1")
    assert "topics/m." in str(page.locator(".pairs .pair tbody a").first.get_attribute("href"))


@pytest.mark.slow
def test_ranks_of_a_chosen_run_are_a_column(site: Path, visit: Open) -> None:
    page = visit(site / "lab/topics/m.1.html")
    page.get_by_label("Ranks in").first.select_option("t-good / good")
    ranks = page.locator("#relevant td.extra").all_inner_texts()
    assert sorted(map(int, ranks)) == list(range(1, len(ranks) + 1))  # the best grades come first


@pytest.mark.slow
def test_without_scripts_all_is_readable(site: Path, visit: Open) -> None:
    page = visit(site / "lab/index.html", script=False)
    assert page.locator("#runs tbody tr:visible").count() == 5  # the random floor is one of them
    assert not page.locator("#runs form").is_visible()
    page.locator("#runs tbody a").first.click()
    assert page.url.endswith("/lab/runs/t-good/good.v1.html")
    page = visit(site / "lab/pairs.html", script=False)
    assert page.locator("#against-best tbody tr").count() == 3
    assert h.__version__ in page.locator("footer").inner_text()
