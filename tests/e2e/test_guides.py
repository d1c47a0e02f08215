"""How-to and explanation pages, which `test_docs` follows: computations by hand are right, pages are short."""

from __future__ import annotations

import ast
import math
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import DOCS
from shown_commands import blocks

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
    assert {name for name, page in pages.items() if any(hand_computed(page))} >= {
        "editions-and-coverage",
        "prime-measures",
        "ties",
    }
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
