"""Published systems that are registered but do not run here: each has a state, and running it gives that line."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from lexical_tools import message

from harness.cli import findings
from harness.cli.run import check_needs
from harness.cli.settings import RunSettings
from harness.io import checks, config
from harness.papers.paper import paper_names
from harness.systems.build import build_system, load_system
from harness.systems.states import system_state

Conf = Callable[[str, str, str], Path]
REGISTERED = [name for name in config.names("system") if "state" in config.load("system", name)[0]]


@pytest.mark.parametrize(
    "name", ["mathamr-plus", "mathamr-plus-experiments", "mathamr", "qq-amr", "qa-amr", "qq-qa-amr"]
)
def test_systems_on_amr_say_what_must_be_brought(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their code is here; the parser, its weights and the posts are not."""
    package = "transition_amr_parser" if name.startswith("mathamr-plus") else "amrlib"
    monkeypatch.setitem(sys.modules, package, None)
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda module, *rest: None if package in module else find(module, *rest)
    )
    mapping, _ = config.load("system", name)
    kind, state = system_state(mapping, name)
    assert kind == "needs"
    if "transition" in package:  # its package requires versions that no extra can hold
        get = "pip install --no-deps transition-neural-parser fairseq==0.10.2, and bring its weights"
        assert f"parser transition-amr is not installed: {get}" in state
    else:
        get = "pip install 'mathir-harness[amr]', and bring a folder with the weights"
        assert f"parser amrlib is not installed: {get}" in state
    assert ("corpus arqmath-posts" in state) == (name != "mathamr")  # which has no corpus of all formulas to name
    build_system(mapping, name)  # all of its keys are known
    if mapping["_target_"].endswith("MathAMR"):
        assert "transition" not in system_state({**mapping, "parser": "dependency"}, name)[1]


@pytest.mark.parametrize("name", REGISTERED)
def test_a_registered_system_says_why_it_does_not_run(name: str) -> None:
    mapping, where = config.load("system", name)
    kind, why = checks.state(mapping["state"], where)
    assert len(why) > 20
    assert mapping["paper"] in paper_names()
    assert set(mapping) == {"title", "paper", "state"}  # no `demo`: the demonstration has nothing to leave out
    assert mapping["state"] == {"needs": f"needs {why}"}.get(kind, f"{kind}: {why}")
    assert system_state(mapping, name) == (kind, mapping["state"])
    said = {"needs": f"needs {why}"}.get(kind, f"is {kind}: {why}")
    assert message(lambda: load_system(name)) == f"{where}: {mapping['title']} {said}"


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("blocked: a service", ("blocked", "a service")),
        ("not implemented: a model", ("not implemented", "a model")),
        ("needs the weights: of a model", ("needs", "the weights: of a model")),
        ("  needs a resource \n", ("needs", "a resource")),
    ],
)
def test_a_state_is_parsed(text: str, parsed: tuple[str, str]) -> None:
    assert checks.state(text, "f") == parsed


OTHERS: list[object] = [
    "implemented: a",
    "Blocked: a",
    "blocked: a\nb",
    "needs a\rb",
    "here",
    None,
    3,
    True,
    ["needs a"],
]
OTHERS += ["", "  ", "blocked", "blocked:", "blocked a", "needs", "needs: ", "needs ", "needs:a", "needsa"]
OTHERS += ["not implemented", ["needs a"], {"needs": "a"}]


@pytest.mark.parametrize("text", OTHERS)
def test_any_other_state_gives_one_line(text: object) -> None:
    expected = "expected one line: 'blocked: WHY', 'not implemented: WHY' or 'needs WHAT'"
    assert message(lambda: checks.state(text, "f")) == f"f: key 'state' is {text!r}, {expected}"
    assert message(lambda: system_state({"title": "T", "state": text}, "x")).startswith("system x: key 'state' is ")


@pytest.mark.slow
def test_a_model_that_a_person_brings_is_told_wherever_it_lacks(
    conf: Conf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """CompuBERT: its code reads a folder, which its authors' page links and no command brings."""
    monkeypatch.chdir(tmp_path)
    mapping, _ = config.load("system", "compubert")
    how = mapping["by_hand"]
    assert "https://drive.google.com/" in how
    assert "system.model=FOLDER" in how
    kind, state = system_state(mapping, "compubert")
    assert kind == "needs"
    assert state == (
        f"needs the model compubert ({how}) and corpus arqmath-posts: harness run collection=arqmath-3-task1 "
        "corpus=arqmath-posts system=compubert"
    )
    plain = {key: value for key, value in mapping.items() if key != "recipe"}
    assert system_state(plain, "compubert") == ("needs", f"needs the model compubert: {how}")
    monkeypatch.setattr(findings, "reachable", lambda: True)
    assert ["model compubert", "is not here", how] in findings.findings()
    line = f"run: system: needs the model compubert: {how}"
    for system in (mapping, {"_target_": "harness.systems.fusion.system.Fusion", "runs": ["bm25", "compubert"]}):
        settings = RunSettings(formats=("html",), collection={"name": "mini-task1"}, system=system)
        assert message(lambda settings=settings: check_needs(settings)) == line  # type: ignore[misc]
    (tmp_path / "compubert").mkdir()
    check_needs(RunSettings(formats=("html",), collection={"name": "mini-task1"}, system=mapping))
    assert "compubert (" not in system_state(mapping, "compubert")[1]
    conf("system", "ours", "title: T\n_target_: nowhere.System\nby_hand: [a]\n")
    assert message(lambda: config.load("system", "ours")).endswith("key 'by_hand' is ['a'], expected text")


def test_what_a_run_needs_is_said_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra to install and the model to fetch in one line; modules of systems that others wrote, too."""
    missing = "sentence-transformers is not installed: pip install 'mathir-harness[sentences]'"
    monkeypatch.setattr("harness.systems.dense.encoder.missing", lambda: [missing])
    monkeypatch.setattr("harness.systems.dense.models.missing", lambda name: [f"needs the model {name}"])
    dense = config.load("system", "bi-encoder-minilm")[0]
    mine = {"_target_": "mine.Trees", "needs": ["no_such_module", "math"]}
    for system, line in (
        (dense, f"{missing}; needs the model all-minilm-l6-v2"),
        (mine, "no_such_module is not installed"),
    ):
        settings = RunSettings(formats=("html",), collection={"name": "mini-task1"}, system=system)
        assert message(lambda settings=settings: check_needs(settings)) == f"run: system: {line}"  # type: ignore[misc]
    check_needs(RunSettings(formats=("html",), collection={"name": "mini-task1"}, system=mine | {"needs": "math"}))
