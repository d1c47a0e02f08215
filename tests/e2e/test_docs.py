"""The examples of the documentation: their files written, their commands run, and what they print compared."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from tools import Place, commands_in

DOCS = Path(__file__).parents[2] / "docs"
FILE = re.compile(r"^`(\S+)`:\n\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "path", sorted(DOCS / f"{name}.md" for name in ("collections", "labs", "measures")), ids=lambda path: path.stem
)
def test_examples(tmp_path: Path, path: Path) -> None:
    place, text = Place(tmp_path), path.read_text(encoding="utf-8")
    files = FILE.findall(text)
    assert len(files) == text.count("`:\n\n```") > 0
    for name, content in files:
        place.write(name, content)
    commands = commands_in(text)
    assert len(commands) > 1
    for arguments, expected in commands:
        if arguments[0] == "python":
            done = [sys.executable, *arguments[1:]]
            printed = subprocess.check_output(done, cwd=place.here, env=place.environment, text=True)
        else:
            printed = place.good(*arguments)
        assert expected in ("", printed)


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
