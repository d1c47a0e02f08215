"""Pages of the documentation as a reader follows them: files written, commands and programs run, output compared."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from pages import follow, marked
from shown_commands import Block, blocks, commands_in
from tools import Place

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
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
# Of more than two seconds, or run with real data as well.
SLOW = {"experiments", "export", "labs", "late-and-sparse", "private-judgments", "runs", "scoring", "site", "sweeps"}
# Pages that other tests run, which know what these need.
ELSEWHERE = ("README", "cost", "crosslingual", "foreign", "neural", "saber", "server", "theorems")


@pytest.mark.parametrize("path", [marked(path, SLOW) for path in FOLLOWED])
def test_pages(tmp_path: Path, path: Path) -> None:
    """In the order of the page; blocks that need a network, a model or a server are left out."""
    follow(Place(tmp_path), path.read_text(encoding="utf-8"))


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


@pytest.mark.heavy
def test_examples_of_other_libraries(tmp_path: Path) -> None:
    for name in ("pyterrier", "ranx"):
        pytest.importorskip(name, reason=f"{name} is not installed (extra {name})")
    follow(Place(tmp_path), (DOCS / "foreign.md").read_text(encoding="utf-8"))


@pytest.mark.slow
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
