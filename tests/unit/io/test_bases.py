"""Configurations that begin with a base: composed as Hydra composes them, and as they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from case_tables import literals
from composed_configurations import FILE, GROUPS, digests
from hydra import compose, initialize_config_dir
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf
from refusals import refusal

from harness.cli.key_descriptions import comments
from harness.experiments.cell_composition import initialized
from harness.io import config


def test_what_a_name_means_has_not_changed() -> None:
    """If it was meant to: python tests/tools/composed_configurations.py."""
    kept = dict(line.split() for line in FILE.read_text(encoding="utf-8").splitlines())
    found = digests()
    assert sorted(found) == sorted(kept)
    assert [name for name in kept if found[name] != kept[name]] == []


NAMES = [(group, name, path) for group in GROUPS for name, path in config.names(group).items()]
BASED = [(group, name) for group, name, path in NAMES if path.stem == name and len(config.files(group, name)) > 1]
VARIANTS = list({path: (group, name) for group, name, path in NAMES if path.stem != name}.values())  # one of a family


@pytest.mark.slow
@pytest.mark.parametrize(("group", "name"), BASED)
def test_hydra_composes_the_same(group: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the files themselves, not by way of our loader."""
    plugins: dict[Any, Any] = Plugins.instance().plugin_type_to_subclass_list
    monkeypatch.setitem(plugins, SearchPathPlugin, [])
    with initialize_config_dir(version_base="1.3", config_dir=str(config.folders()[0].resolve())):
        whole = compose(config_name="run", overrides=[f"{group}={name}"])
    assert OmegaConf.to_container(whole[group], resolve=False) == config.load(group, name)[0]


@pytest.mark.parametrize(("group", "name"), VARIANTS)
def test_hydra_finds_variants_of_families(group: str, name: str) -> None:
    with initialized("run"):
        whole = compose(config_name="run", overrides=[f"{group}={name}"])
    assert OmegaConf.to_container(whole[group], resolve=False) == config.load(group, name)[0]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a user's own configurations."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf" / "system").mkdir(parents=True)
    return tmp_path / "conf" / "system"


def test_a_file_overrides_its_base_key_by_key(here: Path) -> None:
    (here / "_base.yaml").write_text("title: Base\nmodel: {a: 1, b: {c: 2}}\nlist: [1, 2]  # of the base\n")
    (here / "_middle.yaml").write_text("defaults: [_base, _self_]\nmodel: {b: {d: 3}}\n")
    (here / "own.yaml").write_text("defaults: [_middle, _self_]\ntitle: Own\nlist: [3]\n")
    mapping, path = config.load("system", "own")
    assert mapping == {"title": "Own", "model": {"a": 1, "b": {"c": 2, "d": 3}}, "list": [3], "name": "own"}
    assert path == str(here / "own.yaml")
    assert comments("system", "own") == {"list": "of the base"}
    assert "_base" not in config.names("system")
    assert [file.name for file in config.files("system", "own")] == ["_base.yaml", "_middle.yaml", "own.yaml"]


def test_a_base_may_hold_variants_of_its_own(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    family = "title: All\nmodel: {a: 1}\nfirst: a.run  # a file\nvariants:\n"
    family += "  own-1: {title: One}\n  own-2:\n    model: {b: 2}\n    depth: 5  # of documents\n"
    (here / "_own.yaml").write_text(family)
    assert [name for name, path in config.names("system").items() if path == here / "_own.yaml"] == ["own-1", "own-2"]
    shared = {"first": "conf/system/a.run", "model": {"a": 1}}
    assert config.load("system", "own-1") == ({"title": "One", **shared, "name": "own-1"}, str(here / "_own.yaml"))
    second = {"title": "All", "first": shared["first"], "model": {"a": 1, "b": 2}, "depth": 5, "name": "own-2"}
    assert config.load("system", "own-2")[0] == second
    assert comments("system", "own-2") == {"first": "a file", "depth": "of documents"}
    (here / "other.yaml").write_text("defaults: [own-2, _self_]\ndepth: 6\n")
    assert config.load("system", "other")[0] == second | {"depth": 6, "name": "other"}
    (here / "base.yaml").write_text("defaults: [_own, _self_]\n")  # without the variants
    assert config.load("system", "base")[0] == {"title": "All", **shared, "name": "base"}
    with initialized("run"):
        made = compose("run", ["system=own-2", "system.depth=7"])
    assert OmegaConf.to_container(made.system) == second | {"depth": 7}


@pytest.mark.parametrize(("files", "fault"), literals("io/bases_faults_name_the_file"))
def test_faults_name_the_file(here: Path, files: dict[str, str], fault: str) -> None:
    for name, text in files.items():
        (here / f"{name}.yaml").write_text(text)
    assert fault in refusal(lambda: config.load("system", "own"))


def test_paths_of_run_files_begin_at_the_file_that_names_them(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fused = "runs: [bm25, ../../a.run, {runs: [b.run]}]\nfirst: ~/c.run\npath: /d.run\nmodel: e.run\n"
    fused += "training_runs: [[../x/f.run], g.run]\n"
    (here / "_base.yaml").write_text(fused)
    (here / "own.yaml").write_text("defaults: [_base, _self_]\npath: null\n")
    expected = {
        "runs": ["bm25", "a.run", {"runs": ["conf/system/b.run"]}],
        "first": "~/c.run",
        "path": None,
        "model": "e.run",
        "training_runs": [["conf/x/f.run"], "conf/system/g.run"],
        "name": "own",
    }
    assert config.load("system", "own")[0] == expected
    (here / "pool.yaml").write_text("system: {path: a.run, format: null}\nfirst: bm25\n")
    nested = {"path": "conf/system/a.run", "format": None}
    assert config.load("system", "pool")[0] == {"system": nested, "first": "bm25", "name": "pool"}
    (here.parents[1] / "below").mkdir()
    monkeypatch.setenv("HARNESS_CONF", str(here.parent))
    monkeypatch.chdir(here.parents[1] / "below")
    assert config.load("system", "own")[0]["runs"][1] == str(here.parents[1] / "a.run")
