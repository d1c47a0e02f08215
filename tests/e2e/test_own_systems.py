"""Systems of a person's own: from the current folder, what they raise, and what commands that only look leave alone."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools import Place, run_text

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
        done = place.run("reproduce", f"paper={name}")
        fault = f"harness: {path}: '@package' has no use here; a paper sets no keys but its own\n"
        assert (done.code, done.err) == (2, fault)
    path.write_text("defaults: [demo]\nkey: theirs\ntitle: T\n")
    done = place.run("reproduce", "paper=theirs")
    fault = f"harness: {path}: key 'defaults' has no use here; a paper is one file\n"
    assert (done.code, done.err) == (2, fault)
    assert not (place.here / "touched").exists()


@pytest.mark.slow
def test_modules_that_are_not_there(place: Place) -> None:
    place.write("conf/system/mine.yaml", "title: x\n_target_: nowhere.Mine\n")
    done = place.run(*RUN, "system=mine")
    place_ = f"module 'nowhere' is neither in the current folder ({place.here}) nor installed"
    assert (done.code, done.err) == (2, f"harness: run: system: nowhere.Mine cannot be loaded: {place_}\n")
    place.write("conf/system/mine.yaml", "title: x\n_target_: mine.Mine\n")
    (place.here / "helper.py").unlink()
    done = place.run(*RUN, "system=mine")
    assert done.err == f"harness: run: system: mine.Mine cannot be loaded: {place_.replace('nowhere', 'helper')}\n"
    place.write("helper.py", "def broken(:\n")
    done = place.run(*RUN, "system=mine")
    assert (done.code, done.err.splitlines()[-1]) == (2, "harness: run: system: mine.Mine: SyntaxError: invalid syntax")
    assert str(place.here / "helper.py") in done.err


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
    "list systems",
    "show s0",
    "doctor",
    "score good.run -c mini-task1",
    "compare good.run other.run -c mini-task1",
    "score good.run -c ours",
    "fetch --probe mini-task1",
    "fetch ours",
    "store ls",
    "--help",
    "reproduce",
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
    for name in ("good", "other"):
        place.write(f"{name}.run", run_text(name, docs=("a1007", "a1088")[:: 1 if name == "good" else -1]))
    editions = "{official: {title: x, qrels: {file: ../../judged.txt}, topics: 2, judgments: 2}}"
    place.write("judged.txt", "M.1 0 a1007 1\nM.2 0 a1088 1\n")
    place.write("topics.jsonl", '{"id": "M.1", "title": "x"}\n{"id": "M.2", "title": "y"}\n')
    place.write(
        "conf/collection/ours.yaml",
        f"name: ours\ntitle: x\nlicence: CC0\nprotocol: trec_eval\neditions: {editions}\n"
        "topics: {reader: jsonl, file: ../../topics.jsonl}\n",
    )
    program = [sys.executable, "-m", "harness"] if module else [str(place.program)]
    for command in LOOKING[:: 4 if module else 1]:  # they start alike
        done = subprocess.run(
            [*program, *command.split()],
            cwd=place.here,
            env=place.environment,
            capture_output=True,
            text=True,
            check=False,
        )
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
