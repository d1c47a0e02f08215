"""What installed packages add: configurations and commands, found without running anything of theirs."""

from __future__ import annotations

from pathlib import Path

import pytest
from case_tables import literals
from extension_tools import install
from tools import Place, table

from harness import __version__

COMMANDS = """
import sys
import typer

number = 5
app = typer.Typer(help="Two commands.")
alone = typer.Typer()


def hello(name: str, times: int = 1) -> None:
    "Say hello."
    print(*["hello", name] * times)


@app.command()
def leave(code: int) -> None:
    raise typer.Exit(code)


@app.command()
def fail(kind: str) -> None:
    from harness.errors import HarnessError

    if kind == "ours":
        raise HarnessError("file:3: wrong")
    if kind == "exit":
        sys.exit(7)
    raise ValueError(kind)


@alone.command()
def anything(depth: int = 3) -> None:
    "Print the depth."
    print(depth)
"""
POINTS = {
    "conf": {"theirs": "theirs:conf"},
    "commands": {
        **dict.fromkeys(("hello", "score", "both"), "theirs.commands:hello"),
        **{"two": "theirs.commands:app", "alone": "theirs.commands:alone", "number": "theirs.commands:number"},
        **{"lacking": "theirs.commands:absent", "broken": "theirs.broken:app"},
    },
}
FILES = {
    "theirs/__init__.py": "",
    "theirs/commands.py": COMMANDS,
    "theirs/broken.py": "import nothing_of_the_kind\n",
    "theirs/conf/system/theirs.yaml": "title: Theirs\n_target_: harness.systems.baselines.Overlap\nname: theirs\n",
}
TRAP = "import pathlib\npathlib.Path('imported').touch()\nraise RuntimeError\n"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    site = install(tmp_path / "site", "theirs", POINTS, FILES)
    install(site, "others", {"commands": {"both": "others:hello"}})
    made.environment["PYTHONPATH"] = f"{made.environment.get('PYTHONPATH', '')}:{site}"
    return made


@pytest.mark.heavy
def test_commands_that_only_look_import_nothing(place: Place, tmp_path: Path) -> None:
    for name in ("__init__", "commands", "broken"):
        (tmp_path / "site" / "theirs" / f"{name}.py").write_text(TRAP)
    assert ["theirs", "ready", "Theirs"] in table(place.good("list", "systems"))
    assert str(tmp_path / "site" / "theirs" / "conf") in place.good("doctor")
    assert "theirs" in place.good("--help")
    assert place.good("--version") == f"mathir-harness {__version__}\n"
    assert not (place.here / "imported").exists()
    assert place.run("hello", "x").code == 2
    assert (place.here / "imported").exists()


@pytest.mark.slow
def test_a_configuration_of_a_package_is_run(place: Place) -> None:
    run = ("run", "collection=mini-task1", "corpus=mini-answers", "formats=[json]")
    place.good(*run, "system=theirs")
    place.good(*run, "system=overlap")
    files = [place.here / f"runs/mini-task1/{name}.run" for name in ("theirs", "overlap")]
    theirs, ours = ([line.split()[:5] for line in path.read_text().splitlines()] for path in files)
    assert theirs == ours


@pytest.mark.slow
def test_commands_of_packages(place: Place) -> None:
    done = place.run("--help")
    rows = [line.split(maxsplit=1) for line in done.out.partition("Added by packages:\n")[2].splitlines()]
    added = {name: said for name, said in rows if said.startswith("Added by")}
    alone = dict.fromkeys(("alone", "broken", "hello", "lacking", "number", "two"), "Added by theirs 0.1.")
    assert added == alone | {"both": "Added by others 0.1 and by theirs 0.1."}
    assert done.err == "theirs 0.1: command 'score' is a command of the harness; the package's is ignored\n"
    assert done.code == 0
    assert place.good("hello", "you", "--times", "2") == "hello you hello you\n"
    assert place.good("hello", "--", "--help") == "hello --help\n"
    assert place.good("alone", "--depth", "5") == "5\n"
    assert "Usage: harness hello [OPTIONS]" in place.good("hello", "--help")
    said = place.good("two", "--help")
    assert "Two commands." in said
    assert "completion" not in said
    assert [place.run("two", *given).code for given in (("leave", "0"), ("leave", "3"), ("fail", "exit"))] == [0, 3, 7]


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "fault"), literals("commands/extensions"))
def test_faults_are_one_line(place: Place, tmp_path: Path, arguments: tuple[str, ...], fault: str) -> None:
    assert place.refused(*arguments) == [fault.replace("SITE", str(tmp_path / "site"))]
