"""The commands that compose a configuration: what they write and where, sweeps, and a person's own configuration."""

from __future__ import annotations

import re
import shutil

import pytest
import yaml
from tools import Place

RUN = ("run", "collection=mini-task1", "corpus=mini-answers", "system=overlap")
REPORT = {"index.html", "report.md", "report.tex", "report.json", "scores.csv", "tables", "figures", ".drawn.json"}


def comparable(content: bytes) -> str:
    """A report without what tells where and when it was made: its command line."""
    return re.sub(r"harness (run|reproduce)[^\"<`]*", "", content.decode("latin-1"))


def without_side_files(files: dict[str, bytes]) -> dict[str, bytes]:
    """Returns the files without side files of runs (times, memory) and of reports (checksums of their files)."""
    return {name: content for name, content in files.items() if not name.endswith((".ir-metadata.yml", ".drawn.json"))}


@pytest.mark.slow
def test_run_writes_below_the_current_folder_only(place: Place) -> None:
    printed = place.good(*RUN).splitlines()
    assert printed[1:] == ["run: runs/mini-task1/overlap.run", "report: reports/mini-task1/overlap/index.html"]
    assert {path.name for path in place.here.iterdir()} == {"runs", "reports"}
    assert {path.name for path in (place.here / "reports" / "mini-task1" / "overlap").iterdir()} == REPORT
    assert set(place.files("runs")) == {"runs/mini-task1/overlap.run", "runs/mini-task1/overlap.ir-metadata.yml"}
    assert not place.cache.exists()


@pytest.mark.slow
def test_the_same_configuration_gives_the_same_bytes(place: Place) -> None:
    arguments = ("run", "collection=mini-task2", "corpus=mini-formulas", "system=overlap", "system.depth=40")
    place.good(*arguments)
    first = place.files()
    for folder in ("runs", "reports"):
        shutil.rmtree(place.here / folder)
    place.good(*arguments, environment={"PYTHONHASHSEED": "7"})
    second = place.files()
    assert without_side_files(first) == without_side_files(second)
    place.good(*arguments, "runs=other/runs", "output=other/reports")
    moved = without_side_files(place.files("other"))
    assert moved["other/runs/mini-task2/overlap.run"] == first["runs/mini-task2/overlap.run"]
    for name, content in without_side_files(first).items():
        if name.startswith("reports"):
            elsewhere = moved[f"other/{name}"].replace(b"other/runs/", b"runs/").replace(b"other/reports", b"reports")
            assert comparable(elsewhere) == comparable(content), name


@pytest.mark.heavy
def test_the_configuration_is_shown_not_run(place: Place) -> None:
    shown = yaml.safe_load(place.good(*RUN, "--cfg", "job"))
    assert shown["system"]["_target_"] == "harness.systems.baselines.Overlap"
    assert (shown["collection"]["name"], shown["output"], shown["runs"]) == ("mini-task1", "reports", "runs")
    assert "\n  harness run collection=NAME corpus=NAME system=NAME\n" in place.good("run", "--help")
    assert "\n  harness reproduce paper=NAME " in place.good("reproduce", "--help")
    assert place.files() == {}


@pytest.mark.slow
def test_help_lists_the_flags_of_hydra_that_are_taken(place: Place) -> None:
    said = {command: place.good(command, "--hydra-help") for command in ("run", "reproduce")}
    for flag in ("--help", "--cfg", "--info", "--multirun", "--run"):
        assert all(f"  {flag}, -{flag[2]}" in text for text in said.values())
    for flag in ("--config-path", "--config-name", "--config-dir", "--experimental-rerun", "--version"):
        assert not any(flag in text for text in said.values())
        assert place.run("run", flag, "x").code == 2
    assert "  hydra/launcher           basic, joblib, submitit_local, submitit_slurm, ray\n" in said["run"]
    assert "hydra/launcher" not in said["reproduce"]
    assert "grid" not in said["run"]
    assert place.good(*RUN, "--cfg", "job", "--package", "system").startswith("# @package system\ntitle: ")
    assert "subdir: " in place.good(*RUN, "--cfg", "hydra", "-p", "hydra.sweep")
    for what in ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath"):
        assert place.good(*RUN, "--info", what)
    for words in ((), ("lab", "new"), ("run",)):
        assert place.good(*words, "-h") == place.good(*words, "--help")
    assert place.files() == {}


@pytest.mark.slow
def test_a_paper_whose_runs_are_not_public(place: Place) -> None:
    printed = place.good("reproduce", "paper=saber-math", "formats=[csv,json]")
    assert printed.splitlines()[0] == "saber-math: 0 of 33 printed numbers exact, 24 need a resource, 9 blocked"
    assert (place.here / "reports/saber-math/report.json").is_file()
    assert {path.name for path in place.here.iterdir()} == {"reports"}


@pytest.mark.parametrize(
    ("system", "key", "value"),
    [("pyserini", "encoder_options", {"pooling": "mean", "l2_norm": True}), ("fusion-ranx", "params", {"k": 10})],
)
def test_parameters_in_braces(place: Place, system: str, key: str, value: dict[str, object]) -> None:
    """Names that no default has, as the pages of systems give them."""
    given = ", ".join(f"{name}: {str(one).lower()}" for name, one in value.items())
    words = ("run", "collection=mini-task1", f"system={system}", f"system.{key}={{{given}}}", "--cfg", "job")
    assert yaml.safe_load(place.good(*words))["system"][key] == value
