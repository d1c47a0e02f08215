"""Systems of a person's own: from the current folder, what they raise, and what commands that only look leave alone."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools import Place, own_collection, run_text

from harness.data.topics import Topic

RUN = ("run", "collection=mini-task1", "corpus=mini-answers", "formats=[json]")
MINE = """
import helper

from harness.systems.baselines import Overlap

class Mine(Overlap):
    pass

class Raising(Overlap):
    def __call__(self, *arguments, **named):
        return helper.broken(0)

class Leaving(Overlap):
    def __call__(self, *arguments, **named):
        raise SystemExit(0)

class Nothing(Overlap):
    def __call__(self, *arguments, **named):
        return None

class Unbuilt(Overlap):
    def __init__(self, depth: int = 10) -> None:
        raise LookupError("no weights")
"""
HELPER = """
def broken(x):
    return 1 / x
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.write("mine.py", MINE)
    made.write("helper.py", HELPER)
    for name in ("Mine", "Raising", "Leaving", "Nothing", "Unbuilt"):
        made.write(f"conf/system/{name.lower()}.yaml", f"title: x\n_target_: mine.{name}\ndepth: 5\n")
    return made


def rows(place: Place, name: str) -> list[list[str]]:
    return [line.split()[:5] for line in (place.here / f"runs/mini-task1/{name}.run").read_text().splitlines()]


@pytest.mark.slow
def test_a_module_of_the_current_folder(place: Place) -> None:
    place.good(*RUN, "system=mine", "+system.name=mine")
    place.good(*RUN, "system=overlap", "system.depth=5")
    assert rows(place, "mine") == rows(place, "overlap")


def test_a_paper_of_the_current_folder_runs_nothing(place: Place) -> None:
    import pickle

    class Touched:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (place.here / "touched",)

    place.write("x.pickle", pickle.dumps(Touched()))
    callbacks = "{x: {_target_: numpy.load, file: x.pickle, allow_pickle: true}}"
    path = place.write(
        "conf/paper/theirs.yaml", f"# @package _global_\nkey: theirs\ntitle: T\nhydra: {{callbacks: {callbacks}}}\n"
    )
    for name in ("theirs", "[theirs]", "demo"):
        fault = f"{path}: '@package' has no use here; a paper sets no keys but its own"
        assert place.refused("reproduce", f"paper={name}") == [fault]
    path.write_text("defaults: [demo]\nkey: theirs\ntitle: T\n")
    said = f"{path}: key 'defaults' has no use here; a paper is one file"
    assert place.refused("reproduce", "paper=theirs") == [said]
    assert not (place.here / "touched").exists()


@pytest.mark.slow
def test_modules_that_are_not_there(place: Place) -> None:
    place.write("conf/system/mine.yaml", "title: x\n_target_: nowhere.Mine\n")
    lost = f"cannot be loaded: module '{{}}' is neither in the current folder ({place.here}) nor installed"
    assert place.refused(*RUN, "system=mine") == [f"run: system: nowhere.Mine {lost.format('nowhere')}"]
    place.write("conf/system/mine.yaml", "title: x\n_target_: mine.Mine\n")
    (place.here / "helper.py").unlink()
    assert place.refused(*RUN, "system=mine") == [f"run: system: mine.Mine {lost.format('helper')}"]
    place.write("helper.py", "def broken(:\n")
    said = place.refused(*RUN, "system=mine")
    assert said[-1] == "run: system: mine.Mine: SyntaxError: invalid syntax"
    assert str(place.here / "helper.py") in "".join(said)


def test_what_a_system_raises(place: Place) -> None:
    """The frames of the system, and a line of ours that names system and exception."""
    done = place.run(*RUN, "system=raising", "+system.name=myself")
    running, head, *trace, line = done.err.splitlines()
    assert (running, head) == ("running myself on mini-task1", "Traceback of the system (most recent call last):")
    assert [re.sub(r'^  File "(.*)", line \d+, in', r"\1", text) for text in trace if text.startswith("  File")] == [
        f"{place.here}/mine.py __call__",
        f"{place.here}/helper.py broken",
    ]
    assert trace[-1] == "ZeroDivisionError: division by zero"
    assert line == "harness: system myself: ZeroDivisionError: division by zero"
    assert done.code == 2
    assert not (place.here / "runs").exists()


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("leaving", "system leaving: SystemExit: 0"),
        ("nothing", "system nothing: gave NoneType, expected a harness.data.trec.Run"),
        ("unbuilt", "run: system: mine.Unbuilt: LookupError: no weights"),
    ],
)
def test_other_ends(place: Place, name: str, fault: str) -> None:
    done = place.run(*RUN, f"system={name}")
    assert (done.code, done.out, done.err.splitlines()[-1]) == (2, "", f"harness: {fault}")


TRAP = 'open("{here}/sprung", "a").write(__name__ + "\\n")\nraise SystemExit("sprung")\n'
LOOKING = (
    *("list systems", "show s0", "doctor", "store ls", "--help", "reproduce", "fetch --probe mini-task1", "fetch ours"),
    *("score good.run -c ours", "compare good.run other.run -c mini-task1"),
)


@pytest.mark.heavy
@pytest.mark.parametrize("module", [False, True], ids=["script", "python -m"])
def test_commands_that_look_run_nothing(place: Place, module: bool) -> None:
    """Whatever a `conf/` names, and whatever lies in the current folder under the names of libraries."""
    trap = TRAP.replace("{here}", str(place.here))
    modules = ("trap", "trap2/__init__", "trap2/inner", "yaml", "typer", "numpy", "random", "hydra", "jinja2", "torch")
    for name in (*modules, "hydra_plugins/trap", "sitecustomize", "json", "harness_plugin", "pya0", "scipy"):
        place.write(f"{name}.py", trap)
    (place.here / "mine.py").unlink()
    (place.here / "helper.py").unlink()
    for number, needs in enumerate(("trap", "trap2.inner", "[trap, yaml, torch]", "./trap.py")):
        text = f"title: x\n_target_: trap.System\nneeds: {needs}\ndemo: true\nview: {{name: latex, formulas: trap.f}}\n"
        place.write(f"conf/system/s{number}.yaml", text)
    place.lay({"good.run": run_text("good"), "other.run": run_text("other", docs=("a1088", "a1007"))})
    own_collection(place, "ours", (Topic("M.1", "x"), Topic("M.2", "y")), (("M.1", "a1007", 1), ("M.2", "a1088", 1)))
    program = [sys.executable, "-m", "harness"] if module else [str(place.program)]
    for command in LOOKING[:: 4 if module else 1]:  # they start alike
        words = [*program, *command.split()]
        done = subprocess.run(words, cwd=place.here, env=place.environment, capture_output=True, text=True, check=False)
        assert (done.returncode, (place.here / "sprung").exists()) == (0, False), (command, done.stderr)
        if command == "list systems":
            assert len(re.findall(r"^s\d +ready +x$", done.stdout, re.MULTILINE)) == 4
    # The trap works: what is run is another matter.
    assert place.run(*RUN, "system=s0").code == 2
    assert (place.here / "sprung").exists()


@pytest.mark.heavy
def test_the_name_of_a_system_without_the_key_name(place: Place) -> None:
    """It is that of the file, by which an earlier run is found; also of a function and of a file that inherits."""
    code = "from harness.systems.baselines import Overlap\n\ndef plain(depth=5):\n    return Overlap(depth)\n"
    place.write("plain.py", code)
    place.write("conf/system/plain.yaml", "title: x\n_target_: plain.plain\n")
    place.write("conf/system/longer.yaml", "defaults: [bm25, _self_]\nk1: 2.0\n")
    for name in ("mine", "plain", "longer"):
        first, second = (place.run(*RUN, f"system={name}").err for _ in range(2))
        assert first.splitlines()[-1] == f"running {name} on mini-task1"
        assert second.splitlines()[-1] == f"runs/mini-task1/{name}.run: reused, same configuration"
    assert place.run(*RUN, "system=plain", "system.name=other").err == "running other on mini-task1\n"
    assert not (place.here / "runs/mini-task1/overlap.run").exists()
    printed = place.good(*RUN, "-m", "system=mine", "system.depth=5,6").splitlines()
    assert "2 configurations of mine on mini-task1" in printed[2]
