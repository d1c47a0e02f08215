"""The documentation's site in a real browser, opened from disk: built strictly, no request, readable for everyone."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from browser_tools import LOOKS, Open, fits, violations

pytest_plugins = ("browser_tools",)
pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
PARTS = 8  # of all pages
GENERATED = ("reference/", "systems/")

# Parts that scroll and cannot be reached by the keyboard, or the other way round.
STOPS = """[...document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")]
    .filter((each) => (each.tabIndex === 0) !== (each.scrollWidth > each.clientWidth)).map((each) => each.innerText)"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("mkdocstrings") is None:
        pytest.skip("no mkdocs: pip install 'mathir-harness[docs]'")
    out = tmp_path_factory.mktemp("docs")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("HARNESS_MIRROR", None)
    pages = [sys.executable, "-m", "docs.make", str(out / "pages")]
    subprocess.run(pages, cwd=ROOT, env=environment, check=True, timeout=300)
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    config = config.replace("docs_dir: build/docs", f"docs_dir: {out}/pages").replace("build/site", f"{out}/site")
    config = config.replace("paths: [.]", f"paths: [{ROOT}]").replace("[docs/make/", f"[{ROOT}/docs/make/")
    (out / "mkdocs.yml").write_text(config, encoding="utf-8")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-f", str(out / "mkdocs.yml")]
    done = subprocess.run(build, cwd=out, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return out / "site"


@pytest.mark.heavy
@pytest.mark.parametrize("part", range(PARTS))
def test_every_page(site: Path, visit: Open, part: int) -> None:
    """In one of the looks each; the page of an unknown address has addresses that work from a server only."""
    names = sorted(str(path.relative_to(site)) for path in site.rglob("*.html") if path.name != "404.html")
    written = [name for name in names if not name.startswith(("reports/", *GENERATED))]  # reports have own tests
    generated = [name for name in names if name.startswith(GENERATED)][::3]  # alike, page by page
    assert len(written) > 50 and len(generated) > 50
    pages = written + generated
    for number, name in enumerate(pages[part::PARTS]):
        width, scheme = LOOKS[(part + number) % len(LOOKS)]
        page = visit(site / name, width=width, scheme=scheme)
        assert fits(page), name
        assert page.evaluate(STOPS) == [], name
        assert violations(page, every=True) == [], name
        page.context.close()


def test_the_search_finds_what_readers_look_for(site: Path, visit: Open) -> None:
    """From disk, the page that should come first for each query."""
    page = visit(site / "index.html")
    field = page.locator("input.md-search__input")
    field.click()
    rows = (ROOT / "tests/data/searches.tsv").read_text(encoding="utf-8").splitlines()
    found = {}
    for query in (row.partition("\t")[0] for row in rows):
        field.fill("")
        page.wait_for_selector(".md-search-result__meta:has-text('Type to start searching')")  # the index is loaded
        field.evaluate("(element, text) => { element.value = text; }", query)  # at once: a part of a word is no query
        page.keyboard.press("End")  # the search listens to keys
        page.wait_for_selector(".md-search-result__meta:not(:has-text('Type to start searching'))")
        link = page.locator(".md-search-result__item > .md-search-result__link").first
        found[query] = str(link.get_attribute("href")).partition(f"{site.name}/")[2].partition("?")[0].partition("#")[0]
    assert [f"{query}\t{first}" for query, first in found.items()] == rows


def test_commands_are_copied_alone(site: Path, visit: Open) -> None:
    """Without the prompt and the output; a command of several lines as a whole; a program as it is."""
    page = visit(site / "launchers.html")
    blocks = page.locator(".highlight code").evaluate_all("all => all.map((each) => each.dataset.copy)")
    assert blocks[0] == "harness run experiment=mini hydra/launcher=joblib"
    assert any(
        text and text.endswith("\\\n    hydra/launcher=submitit_slurm hydra.launcher.array_parallelism=20 jobs=200")
        for text in blocks
    )
    assert None in blocks
