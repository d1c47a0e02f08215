"""The states of systems: what of modules, models and corpora is missing; and the neural systems of the papers."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable
from functools import reduce
from operator import getitem
from pathlib import Path

import pytest
import yaml
from case_tables import table
from lexical_tools import message

from harness.cli import findings
from harness.cli.run import check_needs
from harness.cli.settings import RunSettings
from harness.io import checks, config
from harness.papers.paper import paper_names
from harness.store.provenance import provenance
from harness.systems.build import BuiltSystem, build_system, load_system
from harness.systems.dense import encoder, models
from harness.systems.states import (
    missing_models,
    missing_modules,
    needed_models,
    nested_configurations,
    recipe,
    resources,
    run_command,
    system_state,
)

Conf = Callable[[str, str, str], Path]
BI, CROSS = "harness.systems.dense.bi_encoder.BiEncoder", "harness.systems.dense.cross_encoder.CrossEncoder"
ARQMATH = {"collection": "arqmath-3-task1", "corpus": "arqmath-posts"}
BY_NAME = {name: config.load("system", name)[0] for name in config.names("system")}


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The models that are here; a test adds some. The libraries that read them are here."""
    found: set[str] = set()
    monkeypatch.setattr(
        models, "missing", lambda name: [] if name in found else [f"needs the model {name}: harness fetch {name}"]
    )
    monkeypatch.setattr(encoder, "missing", list)
    return found


# What is missing


def test_a_system_that_needs_nothing_is_ready() -> None:
    assert system_state({"_target_": "harness.systems.baselines.Shuffle"}, "x") == ("ready", "ready")


def test_modules_that_are_missing() -> None:
    absent = {"_target_": "nowhere.System", "needs": "no_such_module", "extra": "dense"}
    said = "no_such_module is not installed: pip install 'mathir-harness[dense]'"
    assert missing_modules([absent]) == said
    assert system_state(absent, "x") == ("needs", said)
    assert system_state({"_target_": "harness.systems.rerank.RerankPool", "system": absent}, "x") == ("needs", said)


def test_a_model_that_is_missing(here: set[str]) -> None:
    mapping = {"_target_": BI, "model": "owner/name"}
    assert system_state(mapping, "x") == ("needs", "needs the model owner/name: harness fetch owner/name")
    assert missing_models([mapping]) == ["owner/name"]
    here.add("owner/name")
    assert system_state(mapping, "x") == ("ready", "ready")
    assert missing_models([mapping]) == []


def test_only_the_key_of_a_neural_class_names_a_model() -> None:
    assert needed_models([{"_target_": "mine.System", "model": "owner/name"}, {"_target_": CROSS, "model": None}]) == []


def test_what_a_published_run_needs_ends_with_its_command(here: set[str]) -> None:
    mapping = {"_target_": CROSS, "model": "a/cross", "first": {"_target_": BI, "model": "b/bi"}, "recipe": ARQMATH}
    made = "harness run collection=arqmath-3-task1 corpus=arqmath-posts system=x"
    both = f"needs the models a/cross and b/bi (hub) and corpus arqmath-posts: {made}"
    assert system_state(mapping, "x") == ("needs", both)
    here.add("a/cross")
    assert system_state(mapping, "x") == ("needs", f"needs the model b/bi (hub) and corpus arqmath-posts: {made}")
    here.add("b/bi")
    assert system_state(mapping, "x") == ("needs", f"needs the corpus arqmath-posts: {made}")
    here.remove("b/bi")
    mini = {"collection": "mini-task1", "corpus": "mini-answers", "edition": "official", "rerank": True}
    made = "harness run collection=mini-task1 corpus=mini-answers edition=official rerank=true system=x"
    assert system_state(mapping | {"recipe": mini}, "x") == ("needs", f"needs the model b/bi (hub): {made}")
    here.add("b/bi")
    assert system_state(mapping | {"recipe": mini}, "x") == ("ready", "ready")


def test_models_of_sources_are_told_from_those_of_the_hub(here: set[str]) -> None:
    mapping = {"_target_": CROSS, "model": "a/cross", "first": "bi-encoder-mpnet"}
    source = "all-mpnet-base-v2 (harness fetch all-mpnet-base-v2)"
    assert resources(missing_models(nested_configurations(mapping))) == f"the models a/cross (hub) and {source}"
    here.add("a/cross")
    lacking = missing_models(nested_configurations(mapping))
    assert resources(lacking, "mse-pages") == f"the model {source} and corpus mse-pages"
    assert resources([], "mse-pages") == "the corpus mse-pages"
    assert resources([]) == ""


@pytest.mark.parametrize("key", ["runs", "first", "system"])
def test_a_system_is_as_ready_as_those_that_it_is_made_from(key: str) -> None:
    of = ["bm25", "moogle"] if key == "runs" else "moogle"
    found = system_state({"_target_": "nowhere.System", key: of}, "x")
    assert found == ("blocked", BY_NAME["moogle"]["state"])


def test_systems_that_are_made_from_each_other_end(conf: Conf) -> None:
    for name, first in (("here", "there"), ("there", "here")):
        conf("system", name, f"title: T\n_target_: {CROSS}\nmodel: m/{name}\nfirst: {first}\n")
    assert needed_models(nested_configurations(config.load("system", "here")[0])) == ["m/here", "m/there"]


def test_files_of_runs_are_no_parts() -> None:
    assert list(nested_configurations({"runs": ["runs/a.run", "bm25", 3], "first": "no-such-system"})) == [
        {"runs": ["runs/a.run", "bm25", 3], "first": "no-such-system"},
        BY_NAME["bm25"],
    ]


@pytest.mark.parametrize(("value", "fault"), table("systems/recipes"))
def test_faults_of_a_recipe(value: str, fault: str) -> None:
    mapping = {"_target_": BI, "model": "m", "recipe": json.loads(value)}
    assert message(lambda: system_state(mapping, "x")).startswith(f"system x: recipe: {fault}")


# The neural systems of the papers

SETTINGS = table("systems/settings")
PUBLISHED = ("compubert", *dict.fromkeys(name for name, *_ in SETTINGS if name.startswith("mirmu-")), "crossmath-cross")


def test_settings_of_the_papers() -> None:
    for name, key, value in SETTINGS:
        assert reduce(getitem, key.split("."), BY_NAME[name]) == json.loads(value), (name, key)


@pytest.mark.parametrize("name", ["crossmath-bi", *PUBLISHED])
def test_each_needs_its_models_and_the_posts_of_arqmath(here: set[str], name: str) -> None:
    kind, state = system_state(BY_NAME[name], name)
    assert kind == "needs"
    assert all(model in state for model in needed_models(nested_configurations(BY_NAME[name])))
    made = recipe(BY_NAME[name])
    assert made is not None
    assert state.endswith(f" and corpus {made.corpus}: {run_command(made.words(name))}")
    here |= set(needed_models(nested_configurations(BY_NAME[name])))
    assert system_state(BY_NAME[name], name)[1].startswith(f"needs the corpus {made.corpus}: harness run ")


NEURAL = [name for name, mapping in BY_NAME.items() if str(mapping.get("_target_")) in (BI, CROSS)]


@pytest.mark.parametrize("name", ["crossmath-bi", *NEURAL])
def test_every_configuration_fits_its_class(name: str) -> None:
    """Building looks for no model: a system that lacks one is checked as well as one that is ready."""
    given = {"model": "owner/name"} if name in ("cross-encoder", "monot5") else {}
    assert load_system(name, **given).name == name


def test_the_example_of_a_recipe_in_the_guide_is_one() -> None:
    guide = (Path(__file__).parents[3] / "conf" / "README.md").read_text(encoding="utf-8")
    (shown,) = (line for line in guide.splitlines() if line.startswith("recipe: "))
    assert recipe(yaml.safe_load(shown)) is not None


# ---- what the doctor says


def test_the_package_of_a_system_is_recorded_without_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site-packages"
    for path, text in (
        ("own_ranker_here.py", "class Ranker:\n    name = 'own'\n    def __call__(self, request): ...\n"),
        ("own_ranker_dist-2.5.dist-info/METADATA", "Metadata-Version: 2.1\nName: own-ranker-dist\nVersion: 2.5\n"),
        ("own_ranker_dist-2.5.dist-info/RECORD", "own_ranker_here.py,,\n"),
    ):
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
    monkeypatch.syspath_prepend(str(site))
    ranker = importlib.import_module("own_ranker_here").Ranker()
    assert BuiltSystem(ranker).libraries() == ("own-ranker-dist",)
    assert provenance({}, libraries=BuiltSystem(ranker).libraries()).versions["own-ranker-dist"] == "2.5"
    assert load_system("bm25").libraries() == BuiltSystem(load_system("bm25").system).libraries()
    assert "mathir-harness" not in load_system("shuffle").libraries()
    del sys.modules["own_ranker_here"]


# ---- published systems that are registered but do not run here --------------------------------------------------


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
    "",
    "blocked",
    "blocked:",
    "needs",
]
OTHERS += ["needs ", "needs:a", "not implemented", None, True, ["needs a"], {"needs": "a"}]


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
        assert message(lambda settings=settings: check_needs(settings)) == line
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
        assert message(lambda settings=settings: check_needs(settings)) == f"run: system: {line}"
    check_needs(RunSettings(formats=("html",), collection={"name": "mini-task1"}, system=mine | {"needs": "math"}))
