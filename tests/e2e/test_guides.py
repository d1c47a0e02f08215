"""README, guides and notebooks, beside what `test_docs` follows: numbers are right, pages are short and lead on."""

from __future__ import annotations

import ast
import math
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import DOCS
from shown_commands import blocks

from harness.io import config
from harness.systems import states

PAGES = sorted(page for name in ("how-to", "explanation") for page in (DOCS / name).glob("*.md"))
GUIDES = [*PAGES, *sorted((DOCS / "tutorials").glob("*.md"))]


def hand_computed(page: str) -> Iterator[tuple[str, str]]:
    """The computations on a page, such as `(1/2 + 2/5) / 3 = 0.3000`: expression and result."""
    for code in re.findall(r"`([^`\n]+)`", page):
        expression, equals, result = code.rpartition(" = ")
        if equals and re.fullmatch(r"-?\d+\.\d+", result):
            yield expression, result


def computed(expression: str) -> float:
    """The value of an expression of numbers, `+ - * /` and log2."""
    tree = ast.parse(expression, mode="eval")
    allowed = (ast.Expression, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Constant, ast.Load)
    for node in ast.walk(tree):
        is_log = isinstance(node, ast.Call | ast.Name) and ast.unparse(node).startswith("log2")
        assert isinstance(node, allowed) or is_log, expression
    return float(eval(compile(tree, "page", "eval"), {"log2": math.log2}))  # noqa: S307


@pytest.mark.parametrize("path", sorted((DOCS / "explanation").glob("*.md")), ids=lambda path: path.stem)
def test_computations_by_hand(path: Path) -> None:
    """Each is right, and what it gives is also printed by a command or a program of the page."""
    page = path.read_text(encoding="utf-8")
    printed = "".join(block.text for block in blocks(page) if block.kind in ("console", "text"))
    for expression, result in hand_computed(page):
        assert f"{computed(expression):.{len(result.partition('.')[2])}f}" == result, expression
        assert result in printed, f"{expression} = {result}"


def test_there_are_computations_by_hand() -> None:
    pages = {path.stem: path.read_text(encoding="utf-8") for path in (DOCS / "explanation").glob("*.md")}
    with_them = {name for name, page in pages.items() if any(hand_computed(page))}
    assert with_them >= {"editions-and-coverage", "prime-measures", "ties"}
    assert all(any(block.kind in ("console", "python") for block in blocks(page)) for page in pages.values())


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_guides_are_short_and_lead_on(path: Path) -> None:
    """Words without code, and at most so many outside tables; the last section or paragraph links to other pages."""
    page = path.read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
    count, most = (len(re.findall(r"\w+", part)) for part in (text, prose))
    low, high = {"how-to": (100, 300), "explanation": (300, 700), "tutorials": (200, 600)}[path.parent.name]
    assert low <= count, count
    assert most <= high, most
    last = page.rstrip().rpartition("\n\n")[2]
    assert last.startswith("Next: [") or (path.parent.name == "tutorials" and "## What next" in page)
    assert re.findall(r"\]\((?!https?:)[^)\s]+\.md", last)


def test_installed_packages_are_extras_of_the_project() -> None:
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for path in GUIDES:
        page = path.read_text(encoding="utf-8")
        for extras in re.findall(r"mathir-harness\[([\w,-]+)\]", page):
            assert {*extras.split(",")} <= project["optional-dependencies"].keys(), path.name


def test_the_readme_is_short_and_names_every_page() -> None:
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    pages = {str(path.relative_to(DOCS)) for path in (*DOCS.glob("*.md"), *GUIDES)}
    assert pages - set(re.findall(r"\]\((\S+\.md)\)", index)) == {"README.md", "home.md"}


def test_the_numbers_of_systems() -> None:
    """Counted from the configurations, so that the numbers do not depend on what is installed here."""
    kinds: Counter[str] = Counter()
    for name in config.names("system"):
        found = list(states.nested_configurations(config.load("system", name)[0]))
        needs = any(part.get("needs") for part in found) or states.needed_models(found)
        kinds["listed" if states.registered(found) else "need" if needs else "run"] += 1
    text = " ".join((DOCS.parent / "README.md").read_text(encoding="utf-8").split())
    said = re.search(r"configures (\d+) systems: (\d+) run without .*?, (\d+) need some, (\d+) are listed only", text)
    assert said
    assert [*map(int, said.groups())] == [kinds.total(), *(kinds[kind] for kind in ("run", "need", "listed"))]


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((DOCS.parent / "examples").glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs(tmp_path: Path, path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "--nbmake", str(path), "-p", "no:cacheprovider", "-c", "/dev/null"]
    command += ["--rootdir", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
