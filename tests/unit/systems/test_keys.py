"""Keys that a system's file does not list: every one can be set, and one with its default changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING
from pathlib import Path
from typing import Any

import pytest
from case_tables import table
from hydra import compose
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf
from refusals import refusal

from harness.cli.overrides import _written, checked_overrides
from harness.errors import HarnessError
from harness.experiments.cell_composition import initialized
from harness.experiments.produce import make
from harness.experiments.task import task
from harness.io import config
from harness.systems.build import build_system, load_system
from harness.systems.keys import Unlisted, _class_of, _inner_class_of, decisive, defaults, unlisted

WITH_CLASS = {name: each for name in config.names("system") if "_target_" in (each := config.load("system", name)[0])}


@pytest.fixture(autouse=True, scope="module")
def hydra() -> Iterator[None]:
    GlobalHydra.instance().clear()
    with initialized("run"):
        yield


def lacking(mapping: Mapping[str, Any], factory: Any = None, above: str = "") -> dict[str, Any]:  # noqa: ANN401
    """Keys that a configuration does not list, below those that it lists, too -> their defaults."""
    factory = _class_of(mapping, factory)
    known = (defaults(factory) or {}) if factory is not None else {}
    found = {f"{above}{key}": value for key, value in known.items() if key not in mapping and value is not MISSING}
    for key, value in mapping.items():
        if isinstance(value, Mapping) and (above or key != "recipe"):
            found |= lacking(value, _inner_class_of(factory, key), f"{above}{key}.")
    return found


def composed(name: str, *words: str) -> dict[str, Any]:
    given, _ = checked_overrides("run", [f"system={name}", *words])
    found: dict[str, Any] = OmegaConf.to_container(compose("run", given), resolve=True)["system"]  # type: ignore[index,call-overload,assignment]
    return found


def built(mapping: Mapping[str, Any]) -> object:
    """The class of the system, or why it cannot be built here."""
    try:
        return type(build_system(mapping, "x").system)
    except HarnessError as error:
        return error.lines


FIRST = {str(mapping["_target_"]): name for name, mapping in reversed(WITH_CLASS.items())}  # of each class


@pytest.mark.parametrize(
    "name", [name if name in FIRST.values() else pytest.param(name, marks=pytest.mark.slow) for name in WITH_CLASS]
)
def test_every_key_of_a_class_can_be_set(name: str) -> None:
    """To its default, which gives the same system; so does every key of a class inside it."""
    keys = {key: value for key, value in lacking(WITH_CLASS[name]).items() if key not in ("model.nodes",)}
    found = composed(name, *(f"system.{key}={_written(value)}" for key, value in keys.items()))
    for key in keys:
        inner: Any = found
        for part in key.split("."):
            inner = inner[part]
    assert decisive(found) == decisive(WITH_CLASS[name])
    assert built(found) == built(WITH_CLASS[name])


@pytest.mark.slow
def test_keys_that_no_default_shows() -> None:
    """By hand: a translator's, a tuned encoder's first ranking, a training that no file lists, a key of a part."""
    assert composed("cross-lingual-nllb", "system.translator.overlong=cut")["translator"]["overlong"] == "cut"
    assert composed("bi-encoder-tuned", "system.first=bm25", "system.k=7")["first"] == "bm25"
    assert composed("bi-encoder-e5", "system.calls.mode=live")["calls"] == {"mode": "live"}
    assert composed("bm25", "system.query.formulas=1")["query"] == {"title": 1, "body": 1, "tags": 1, "formulas": 1}
    # Words of Hydra's own are left as they are.
    assert composed("bi-encoder-e5", "+system.calls.mode=live", "++system.k=3")["k"] == 3
    assert composed("bi-encoder-e5", "system.training={collections:[x]}", "system.training.rate=1")["training"] == {
        "collections": ["x"],
        "rate": 1,
    }


def test_an_inner_key_keeps_the_others_of_a_default() -> None:
    """`query` has the default {title: 1, body: 1, tags: 1}, of which one weight is changed."""
    bare = {"_target_": "harness.systems.lexical.system.BM25", "name": "x"}
    found = unlisted(bare, "query.title", "x")
    assert found is not None
    assert (found.above, found.default) == ("query", {"title": 1, "body": 1, "tags": 1})
    assert unlisted({**bare, "query": {"title": 3}}, "query.title", "x") is None
    assert unlisted({**bare, "query": {"title": 3}}, "query.body", "x") == Unlisted()


@pytest.mark.parametrize(("name", "key", "fault"), table("systems/keys"))
def test_keys_that_no_class_has(name: str, key: str, fault: str) -> None:
    line = refusal(lambda: checked_overrides("run", [f"system={name}", f"system.{key}=1"]))
    assert line.startswith(f"run: system.{key}=1: system {name}: key ")
    assert fault in line


def test_each_system_of_a_sweep_has_the_key() -> None:
    words = ["system=bm25,shuffle", "system.depth=1,2", "system.name=a"]
    assert checked_overrides("run", words) == ([*words[:2], "++system.name=a"], [])  # whose file may not list a name
    with pytest.raises(HarnessError, match=r"run: system\.k1=1: system shuffle: key 'k1' is unknown"):
        checked_overrides("run", ["system=bm25,shuffle", "system.k1=1"])


def test_classes_of_other_packages_are_not_imported() -> None:
    assert unlisted({"_target_": "no_such_package.System"}, "depth", "x") is not None


@pytest.mark.slow
def test_a_default_that_is_spelt_out_is_the_same_run(tmp_path: Path) -> None:
    mini = task("mini-task1", "mini-answers")
    first = make("shuffle", mini, runs=tmp_path)
    assert make(load_system("shuffle", seed=0, depth=1000), mini, runs=tmp_path).reused
    assert make(load_system("overlap"), mini, runs=tmp_path).key == make(
        load_system("overlap", **lacking(WITH_CLASS["overlap"])), mini, runs=tmp_path
    ).key  # fmt: skip
    assert make(load_system("shuffle", seed=1), mini, runs=tmp_path).key != first.key


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"k1": 1.2, "depth": 1000}, {}),
        ({"k1": 1, "depth": 1000.0}, {"k1": 1}),
        ({"view": {"name": "latex", "lower": True, "formulas": None}}, {}),
        ({"view": {"name": "latex", "stem": "porter"}}, {"view": {"stem": "porter"}}),
        ({"min_count": False}, {"min_count": False}),
        ({"unknown": None}, {"unknown": None}),
    ],
)
def test_what_decides_a_run(given: dict[str, Any], left: dict[str, Any]) -> None:
    target = {"_target_": "harness.systems.lexical.system.BM25"}
    assert decisive(target | given) == target | left
