"""Pages of the documentation as a reader follows them: files written, commands and programs run, output compared."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from llm_server import serving
from pages import Block, blocks, follow, unused
from tools import Place, commands_in

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GUIDES = sorted(page for name in ("tutorials", "how-to", "explanation") for page in (DOCS / name).glob("*.md"))
FOLLOWED = [
    DOCS / f"{name}.md"
    for name in (
        "checking",
        "collections",
        "experiments",
        "export",
        "labs",
        "late-and-sparse",
        "measures",
        "private-judgments",
        "runs",
        "scoring",
        "site",
        "sweeps",
    )
]
SLOW = {"compare-systems", "late-and-sparse", "reproduce", "scoring"}
# Pages that other tests run, which know what these need.
ELSEWHERE = ("README", "cost", "crosslingual", "foreign", "lean", "neural", "saber", "server", "theorems")


def marked(path: Path) -> object:
    """A page as a parameter of a test, which is slow if the page takes more than six seconds."""
    slow = [pytest.mark.slow] if path.stem in SLOW else []
    return pytest.param(path, marks=slow, id=path.stem)


@pytest.mark.parametrize("path", [marked(path) for path in (*FOLLOWED, *GUIDES)])
def test_pages(tmp_path: Path, path: Path) -> None:
    """In the order of the page; blocks that need a network, a model or a server are left out."""
    follow(Place(tmp_path), path.read_text(encoding="utf-8"))


def needing(need: str) -> list[object]:
    """Guides with blocks that need something, as parameters."""
    found = [path for path in GUIDES if any(need in block.needs for block in blocks(path.read_text("utf-8")))]
    return [pytest.param(path, id=path.stem) for path in found]


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.parametrize("path", needing("network"))
def test_pages_with_real_data(tmp_path: Path, mirror: Path, path: Path) -> None:
    place = Place(tmp_path)
    place.environment["HARNESS_MIRROR"] = str(mirror)
    follow(place, path.read_text(encoding="utf-8"), {"network", "time"})


@pytest.mark.slow
@pytest.mark.parametrize("path", needing("time"))
def test_pages_that_take_longer(tmp_path: Path, path: Path) -> None:
    follow(Place(tmp_path), path.read_text(encoding="utf-8"), {"time"})


@pytest.mark.slow
@pytest.mark.parametrize("path", needing("server"))
def test_pages_with_a_server(tmp_path: Path, path: Path) -> None:
    pytest.importorskip("uvicorn", reason="uvicorn is not installed (extra server)")
    follow(Place(tmp_path), path.read_text(encoding="utf-8"), {"server"})


@pytest.mark.slow
@pytest.mark.parametrize("path", needing("model"))
def test_pages_with_a_language_model(tmp_path: Path, path: Path) -> None:
    """On an endpoint that always gives the same answer."""
    pytest.importorskip("httpx", reason="httpx is not installed (extra llm)")
    with serving() as server:
        server.answer = lambda _: "[3] > [1] > [2]"
        page = path.read_text(encoding="utf-8").replace("http://127.0.0.1:8080/v1", server.url)
        follow(Place(tmp_path), page, {"model"})
        assert server.bodies


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_every_block_of_a_guide_is_run(path: Path) -> None:
    assert unused(path.read_text(encoding="utf-8")) == []


def test_every_command_is_run_or_says_what_it_needs() -> None:
    """Of the other pages: commands, programs and files that no test runs begin with a comment that says why."""
    for path in sorted({ROOT / "README.md", *DOCS.glob("*.md")} - {*FOLLOWED}):
        if path.stem not in ELSEWHERE:
            found = [each.line for each in blocks(path.read_text("utf-8")) if _can_run(each) and not each.needs]
            assert not found, f"{path.name}: lines {found}"


def _can_run(block: Block) -> bool:
    if block.file:
        return block.kind != "dockerfile" and not block.file.startswith("/")
    return block.kind in ("console", "python")


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
    """Words of prose, without code; the last section or paragraph links to other pages."""
    page = path.read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    count = len(re.findall(r"\w+", prose))
    low, high = {"how-to": (100, 300), "explanation": (300, 700), "tutorials": (200, 600)}[path.parent.name]
    assert low <= count <= high, count
    last = page.rstrip().rpartition("\n\n")[2]
    assert last.startswith("Next: [") or (path.parent.name == "tutorials" and "## What next" in page)
    assert re.findall(r"\]\((?!https?:)[^)\s]+\.md", last)


def test_installed_packages_are_extras_of_the_project() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for path in GUIDES:
        page = path.read_text(encoding="utf-8")
        for extras in re.findall(r"mathir-harness\[([\w,-]+)\]", page):
            assert {*extras.split(",")} <= project["optional-dependencies"].keys(), path.name


@pytest.mark.slow
def test_examples_of_other_libraries(tmp_path: Path) -> None:
    for name in ("pyterrier", "ranx"):
        pytest.importorskip(name, reason=f"{name} is not installed (extra {name})")
    follow(Place(tmp_path), (DOCS / "foreign.md").read_text(encoding="utf-8"))


def test_a_builder(tmp_path: Path) -> None:
    place = Place(tmp_path)
    commands = commands_in((DOCS / "saber.md").read_text(encoding="utf-8"))
    assert len(commands) == 2
    for arguments, expected in commands:
        assert place.good(*arguments) == expected


def test_what_the_keys_of_a_collection_are() -> None:
    """The table names every key that a configuration may have, and no other one."""
    from harness.collections import files, load

    text = (DOCS / "collections.md").read_text(encoding="utf-8")
    table = text.partition("## Keys of a collection")[2].partition("\n\n")[2].partition("\n\n")[0]
    named = {key for row in table.splitlines()[2:] for key in re.findall(r"`(\w+)`", row.split("|")[1])}
    known = {field.name for field in fields(load.CollectionFile)} - {"default_edition"}
    assert named == known
    readers = set(re.findall(r"`([\w-]+)`", next(row for row in table.splitlines() if row.startswith("| `topics`"))))
    assert readers >= set(files.TOPICS)
