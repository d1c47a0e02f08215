"""Pages of the documentation as a reader follows them: files written, commands and programs run, output compared."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import shutil
from dataclasses import fields
from pathlib import Path

import pytest
import typer
import yaml
from llm_server import serving
from pages import DOCS, PROVIDED, follow, marked, unused, with_needs
from shown_commands import blocks, commands
from tools import Place

from harness.cli.main import app
from harness.cli.program import HYDRA_COMMANDS
from harness.io import config

ROOT = Path(__file__).parents[2]
_BESIDE = ("README.md", "CONTRIBUTING.md", "bench/README.md", "conf/README.md")
PAGES = (*(ROOT / name for name in _BESIDE), *sorted(DOCS.rglob("*.md")))
# Of more than half a second, and of more than five.
SLOW = {
    *("cite-and-archive", "cost", "crosslingual", "editions-and-coverage", "experiments", "export", "extending"),
    *("fingerprints-and-store", "organise-pool", "private-judgments", "runs", "saber"),
    *("scoring", "significance", "site", "sweeps", "take-part", "README"),
}
HEAVY = {*("compare-systems", "lab", "late-and-sparse", "neural", "own-collection-and-system", "reproduce"), "theorems"}
OTHERS = ("mteb",)  # modules that need not be installed
IMAGES = ("mathir-harness", "harness-lab")  # whose containers take the arguments of `harness`


@pytest.mark.slow
@pytest.mark.parametrize("path", [marked(path, SLOW, HEAVY) for path in PAGES])
def test_pages(tmp_path: Path, path: Path) -> None:
    """In the order of the page; blocks that need something are left out."""
    follow(Place(tmp_path), path.read_text(encoding="utf-8"))


@pytest.mark.heavy
@pytest.mark.parametrize(("path", "needs"), with_needs(PAGES))
def test_pages_with_what_they_need(
    tmp_path: Path, request: pytest.FixtureRequest, path: Path, needs: frozenset[str]
) -> None:
    place = Place(tmp_path)
    for need in needs:
        if PROVIDED[need]:
            pytest.importorskip(PROVIDED[need], reason=f"{PROVIDED[need]} is not installed")
    if "apertium" in needs and shutil.which("apertium") is None:
        pytest.skip("apertium is not installed: apt install apertium apertium-eng-spa")
    if "network" in needs:
        place.environment["HARNESS_MIRROR"] = str(request.getfixturevalue("mirror"))
    with serving() as server:
        server.answer = lambda _: "[3] > [1] > [2]"
        follow(place, path.read_text(encoding="utf-8").replace("http://127.0.0.1:8080/v1", server.url), needs)
        assert bool(server.bodies) == ("model" in needs)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_block_is_run(path: Path) -> None:
    """A block is a file, lines of one, commands, a program or what that printed."""
    assert unused(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_blocks_that_no_test_can_run_are_right(tmp_path: Path, path: Path) -> None:
    """Commands that need a cluster, say, have options, settings and names that exist, and programs can be imported."""
    page = path.read_text(encoding="utf-8")
    left = [block for block in blocks(page) if not block.needs <= PROVIDED.keys()]
    place, missing = Place(tmp_path), ""
    for block in blocks(page) if left else ():
        if block.file and not block.file.startswith("/"):
            place.write(block.file, block.text)
    for block in left:
        for words, _ in commands(block.text) if block.kind == "console" else ():
            if arguments := _given_to_us(words):
                missing = _check_arguments(place, arguments) or missing
        if block.kind == "python":
            _check_imports(block.text)
    if missing:
        pytest.skip(missing)


def _given_to_us(words: list[str]) -> list[str]:
    """The arguments of `harness` in a command, which may be run by another user or in a container."""
    start = 0
    for at, word in enumerate(words):
        in_container = words[:2] == ["docker", "run"] and word in IMAGES
        if word == "harness" or word.endswith("bin/harness") or in_container:
            start = at + 1
    return words[start:] if start else []


def _check_arguments(place: Place, arguments: list[str]) -> str:
    """Check the arguments of a command; return which package is missing if that cannot be done without one."""
    name, *rest = arguments
    if name in HYDRA_COMMANDS:
        many = "-m" in rest or any(word.startswith("sweep=") for word in rest)
        words = [word for word in rest if word not in ("-m", "--dry-run") and not word.startswith(("sweep=", "tune="))]
        if many:  # the first value of each
            words = [re.sub(r"^([^=,]+=[^\[,]+),.*", r"\1", word) for word in words]
        done = place.run(name, *words, "--cfg", "job")
        if done.code == 2 and (missing := re.search(r"\w+ is not installed.*", done.err)):
            return missing[0]
        assert done.code == 0, done.err
        return ""
    command = typer.main.get_command(app)
    while isinstance(command, typer.core.TyperGroup):
        found = command.get_command(typer.Context(command), arguments[0])
        assert found is not None, arguments
        command, arguments = found, arguments[1:]
    given = command.make_context(name, list(arguments)).params
    for group in ("collection", "corpus"):
        assert given.get(group) in (None, *config.names(group)), arguments
    known = {"fetch": (*config.names("source"), *config.names("collection"), *config.names("corpus"))}
    known["rehearse"] = (*config.names("paper"), "all")
    if name in known:
        assert set(rest[:1]) <= set(known[name]), arguments
    return ""


def _check_imports(program: str) -> None:
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] not in OTHERS:
            module = importlib.import_module(node.module)
            assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []
        elif isinstance(node, ast.Import):
            for alias in node.names:
                assert alias.name in OTHERS or importlib.util.find_spec(alias.name) is not None, alias.name


def test_wrong_commands_are_noticed(place: Place) -> None:
    """The check of commands that no test runs finds a wrong option, a wrong command and a wrong setting."""
    assert _given_to_us(["sudo", "-u", "lab", "/opt/bin/harness", "serve", "x"]) == ["serve", "x"]
    assert _given_to_us(["docker", "run", "--rm", "harness-lab", "lab", "new"]) == ["lab", "new"]
    assert _given_to_us(["docker", "build", "-t", "harness-lab", "."]) == []
    _check_arguments(place, ["run", "-m", "collection=mini-task1", "system=bm25", "system.k1=0.5,0.9"])
    for wrong in (["nosuch"], ["run", "collection=mini-task1", "system.nosuch=1"], ["fetch", "nosuch"]):
        with pytest.raises(AssertionError, match="nosuch"):
            _check_arguments(place, wrong)
    with pytest.raises(typer.TyperException):
        _check_arguments(place, ["serve", "x", "--nosuch"])
    with pytest.raises(AssertionError, match="nosuch"):
        _check_imports("from harness import task, nosuch")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_blocks_of_data_can_be_read(path: Path) -> None:
    for block in blocks(path.read_text(encoding="utf-8")):
        if block.kind == "yaml" and not block.part_of:
            assert isinstance(yaml.safe_load(block.text), dict), block.line


def test_what_the_keys_of_a_collection_are() -> None:
    """The table names every key that a configuration may have, and no other one."""
    from harness.collections import forms, load

    text = (DOCS / "collections.md").read_text(encoding="utf-8")
    table = text.partition("## Keys of a collection")[2].partition("\n\n")[2].partition("\n\n")[0]
    named = {key for row in table.splitlines()[2:] for key in re.findall(r"`(\w+)`", row.split("|")[1])}
    known = {field.name for field in fields(load.CollectionFile)}
    assert named == known
    readers = set(re.findall(r"`([\w-]+)`", next(row for row in table.splitlines() if row.startswith("| `topics`"))))
    assert readers >= set(forms.readers("topics"))
