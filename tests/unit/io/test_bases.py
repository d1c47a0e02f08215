"""Configurations that begin with a base: composed as Hydra composes them, and as they were."""

from __future__ import annotations

from pathlib import Path

import pytest
from composed_configurations import FILE, GROUPS, digests
from hydra import compose, initialize_config_dir
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from harness.cli.meanings import comments
from harness.errors import HarnessError
from harness.io import config


def test_what_a_name_means_has_not_changed() -> None:
    """If it was meant to: python tests/tools/composed_configurations.py."""
    kept = dict(line.split() for line in FILE.read_text(encoding="utf-8").splitlines())
    found = digests()
    assert sorted(found) == sorted(kept)
    assert [name for name in kept if found[name] != kept[name]] == []


BASED = [(group, name) for group in GROUPS for name in config.names(group) if len(config.files(group, name)) > 1]


@pytest.mark.slow
@pytest.mark.parametrize(("group", "name"), BASED)
def test_hydra_composes_the_same(group: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the files themselves, not by way of our loader."""
    plugins: dict[object, object] = Plugins.instance().plugin_type_to_subclass_list  # type: ignore[assignment]
    monkeypatch.setitem(plugins, SearchPathPlugin, [])
    with initialize_config_dir(version_base="1.3", config_dir=str(config.folders()[0].resolve())):
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


def test_a_file_may_begin_with_a_configuration_of_ours(here: Path) -> None:
    (here / "own.yaml").write_text("defaults: [bm25, _self_]\ntitle: Own\nk1: 0.5\n")
    assert config.load("system", "own")[0] == config.load("system", "bm25")[0] | {
        "title": "Own",
        "k1": 0.5,
        "name": "own",
    }


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"own": "defaults: [_none, _self_]\n"}, "own.yaml: key 'defaults' names '_none', and no conf/system/ has"),
        ({"own": "defaults: [_a]\n", "_a": "defaults: [own]\n"}, "own.yaml: key 'defaults' names the file itself"),
        ({"own": "defaults: [_a]\n", "_a": "title: [\n"}, "_a.yaml:2: not valid YAML"),
    ],
)
def test_faults_name_the_file(here: Path, files: dict[str, str], fault: str) -> None:
    for name, text in files.items():
        (here / f"{name}.yaml").write_text(text)
    with pytest.raises(HarnessError) as error:
        config.load("system", "own")
    assert fault in str(error.value)


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
