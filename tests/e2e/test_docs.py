"""The examples of the documentation: their files written, their commands run, and what they print compared."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from shown_commands import commands_in
from tools import Place

DOCS = Path(__file__).parents[2] / "docs"
# A file that a page shows, or a block of commands.
BLOCK = re.compile(r"^`(\S+)`:\n\n```\w*\n(.*?)^```$|^```console\n.*?^```$", re.MULTILINE | re.DOTALL)
SHELL = ("mkdir", "tar")


@pytest.mark.parametrize(
    "path",
    [
        *sorted(
            DOCS / f"{name}.md"
            for name in ("checking", "collections", "export", "labs", "measures", "private-judgments", "site")
        ),
        pytest.param(DOCS / "late-and-sparse.md", marks=pytest.mark.slow),
    ],
    ids=lambda path: path.stem,
)
def test_examples(tmp_path: Path, path: Path) -> None:
    """In the order of the page; what a command writes to standard error may be shown."""
    place, text = Place(tmp_path), path.read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    assert sum(block[1] is not None for block in blocks) == text.count("`:\n\n```") > 0
    assert len(commands_in(text)) > 1
    for block in blocks:
        if block[1] is not None:
            place.write(block[1], block[2])
            continue
        for arguments, expected in commands_in(block[0]):
            said: list[str] = []
            if arguments[0] == "cd":
                place.here = (place.here / arguments[1]).resolve()
                continue
            if arguments[0] in ("python", *SHELL):
                done = [sys.executable if arguments[0] == "python" else arguments[0], *arguments[1:]]
                printed = subprocess.check_output(done, cwd=place.here, env=place.environment, text=True)
            else:
                ended = place.run(*arguments)
                assert ended.code == 0, ended.err
                printed, said = ended.out, ended.err.splitlines()
            shown = [line for line in expected.splitlines() if line not in said]
            assert expected in ("", "...\n") or shown == printed.splitlines()


@pytest.mark.slow
def test_examples_of_other_libraries(tmp_path: Path) -> None:
    for name in ("pyterrier", "ranx"):
        pytest.importorskip(name, reason=f"{name} is not installed (extra {name})")
    test_examples(tmp_path, DOCS / "foreign.md")


@pytest.mark.parametrize("page", ["experiments", "sweeps"])
def test_examples_of_ones_own(tmp_path: Path, page: str) -> None:
    place = Place(tmp_path)
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8").partition(" of your own\n")[2].partition("\n## ")[0]
    ((name, content),) = ((block[1], block[2]) for block in BLOCK.finditer(text) if block[1] is not None)
    place.write(name, content)
    for arguments, expected in commands_in(text):
        assert place.good(*arguments).endswith(expected.removeprefix("...\n"))
    kind = name.split("/")[1]
    assert f"{kind}={Path(name).stem}" in place.good("show", kind, Path(name).stem)


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
