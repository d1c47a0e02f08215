"""The commands that compose a configuration: what they write and where, sweeps, and a person's own configuration."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools import Place, run_text, table

RUN = ("run", "collection=mini-task1", "corpus=mini-answers", "system=overlap")
REPORT = {"index.html", "report.md", "report.tex", "report.json", "scores.csv", "tables", "figures", ".drawn.json"}
COLLECTION = """\
name: mine
title: Mine
licence: CC0
protocol: strict
editions:
  official: {title: ours, qrels: {file: ../../judged.txt}, topics: 2, judgments: 3}
topics: {reader: jsonl, file: ../../topics.jsonl}
"""
SYSTEM = "title: Ours\n_target_: harness.systems.baselines.Overlap\ndepth: 2\nname: ours\n"


def own_configuration(place: Place, folder: str = "conf") -> None:
    """A person's collection, corpus, system and protocol."""
    place.write("judged.txt", "T1 0 b 2\nT1 0 a 1\nT2 0 a 1\n")
    place.write("topics.jsonl", '{"id": "T1", "title": "sum of squares"}\n{"id": "T2", "title": "cube"}\n')
    documents = {"a": "the sum of cubes", "b": "sum of squares", "c": "prime numbers", "d": "squares and squares"}
    place.write("documents.jsonl", "".join(json.dumps({"id": k, "text": v}) + "\n" for k, v in documents.items()))
    place.write(f"{folder}/collection/mine.yaml", COLLECTION)
    place.write(f"{folder}/protocol/strict.yaml", "name: strict\nmeasures: [AP, P@1]\nrelevant_from: 2\n")
    place.write(f"{folder}/system/ours.yaml", SYSTEM)
    corpus = (
        "name: texts\ntitle: Texts\nlicence: CC0\nfile: {file: ../../documents.jsonl}\nfields: {id: id, text: body}\n"
    )
    place.write(f"{folder}/corpus/texts.yaml", corpus)


def comparable(content: bytes) -> str:
    """A report without what tells where and when it was made: its command line."""
    return re.sub(r"harness (run|reproduce)[^\"<`]*", "", content.decode("latin-1"))


def without_side_files(files: dict[str, bytes]) -> dict[str, bytes]:
    """Returns the files without side files of runs (times, memory) and of reports (checksums of their files)."""
    return {name: content for name, content in files.items() if not name.endswith((".ir-metadata.yml", ".drawn.json"))}


def data(place: Place, path: str) -> dict[str, Any]:
    """The data of a report in JSON."""
    report = json.loads((place.here / path).read_bytes())
    assert isinstance(report["data"], dict)
    return report["data"]


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


@pytest.mark.slow
def test_an_external_run(place: Place) -> None:
    place.write("theirs.run", run_text("theirs"))
    arguments = ("run", "collection=mini-task1", "system=external", "system.path=theirs.run", "formats=[json]")
    place.good(*arguments)
    assert (place.here / "runs/mini-task1/theirs.run").is_file()
    scored = place.good("score", "theirs.run", "-c", "mini-task1", "--per-topic").splitlines()[1:]
    written = data(place, "reports/mini-task1/theirs/report.json")["scores"][0]
    assert [[repr(value) for value in row] for row in written["values"] if None not in row] == [
        line.split("\t")[2:] for line in scored if "nan" not in line
    ]
    assert "runs/mini-task1/renamed.run" in place.good(*arguments, "system.name=renamed")


@pytest.mark.slow
@pytest.mark.parametrize("named", [False, True])
def test_a_persons_own_configuration(place: Place, named: bool) -> None:
    folder = "elsewhere" if named else "conf"
    own_configuration(place, folder)
    environment = {"HARNESS_CONF": str(place.here / folder)} if named else {}
    printed = place.good("run", "collection=mine", "corpus=texts", "system=ours", environment=environment)
    assert printed.startswith("1 run on mine (edition official, n = 2): MAP 0.500 by ours\n")
    rows = [line.split("\t") for line in (place.here / "runs/mine/ours.run").read_text().splitlines()]
    # T1 shares two words with b, one of them rare, and cubes are not a cube: T2 finds nothing.
    assert [row[0] for row in rows] == ["T1", "T1"]
    assert [row[2] for row in rows] == ["b", "a"]
    printed = place.good("score", "runs/mine/ours.run", "-c", "mine", environment=environment)
    assert table(printed)[1] == ["ours", "0.5000", "0.5000", "2", "1"]


@pytest.mark.heavy
def test_the_configuration_is_shown_not_run(place: Place) -> None:
    shown = yaml.safe_load(place.good(*RUN, "--cfg", "job"))
    assert shown["system"]["_target_"] == "harness.systems.baselines.Overlap"
    assert (shown["collection"]["name"], shown["output"], shown["runs"]) == ("mini-task1", "reports", "runs")
    assert "\n  harness run collection=NAME corpus=NAME system=NAME\n" in place.good("run", "--help")
    assert "\n  harness reproduce paper=NAME " in place.good("reproduce", "--help")
    assert place.files() == {}


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


@pytest.mark.slow
def test_the_listed_flags_of_hydra_work(place: Place) -> None:
    assert place.good(*RUN, "--cfg", "job", "--package", "system").startswith("# @package system\ntitle: ")
    assert "subdir: " in place.good(*RUN, "--cfg", "hydra", "-p", "hydra.sweep")
    for what in ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath"):
        assert place.good(*RUN, "--info", what)
    assert place.files() == {}


@pytest.mark.parametrize("words", ["", "list", "lab", "lab new", "organise", "export run", "score", "submit", "run"])
def test_h_is_help(place: Place, words: str) -> None:
    assert place.good(*words.split(), "-h") == place.good(*words.split(), "--help")


@pytest.mark.slow
def test_a_paper_whose_runs_are_not_public(place: Place) -> None:
    printed = place.good("reproduce", "paper=saber-math", "formats=[csv,json]")
    assert printed.splitlines()[0] == "saber-math: 0 of 33 printed numbers exact, 24 need a resource, 9 blocked"
    assert (place.here / "reports/saber-math/report.json").is_file()
    assert {path.name for path in place.here.iterdir()} == {"reports"}


def test_a_paper_whose_files_cannot_be_had(place: Place) -> None:
    done = place.run("reproduce", "paper=crossmath")
    fault = next(line for line in done.err.splitlines() if line.startswith("harness: "))
    assert done.code == 2
    assert fault.startswith("harness: jgore077/CrossMath@39db4d8/")
    assert "HARNESS_OFFLINE forbids the network" in fault
    assert "Error executing job" not in done.err
    assert place.files() == {}


@pytest.mark.slow
def test_paths_of_a_system_begin_at_its_file_and_those_of_overrides_here(place: Place) -> None:
    place.write("theirs/a.run", run_text("one"))
    place.write("b.run", run_text("two", docs=("a1088", "a1007")))
    place.write("conf/system/mine.yaml", "_target_: harness.systems.baselines.External\npath: ../../theirs/a.run\n")
    fused = "_target_: harness.systems.fusion.system.Fusion\nname: both\nruns: [mine, ../../b.run]\n"
    place.write("conf/system/both.yaml", fused)
    arguments = ("run", "collection=mini-task1", "formats=[json]")
    for system in ("mine", "both"):
        place.good(*arguments, f"system={system}")
        assert f"runs/mini-task1/{system}.run" in place.files("runs")
    place.good(*arguments, "system=mine", "system.path=b.run")
    assert b"M.1\tQ0\ta1088\t1\t" in place.files("runs")["runs/mini-task1/mine.run"]
    place.write(
        "conf/experiment/pair.yaml",
        "title: Pair\nshared: [collection=mini-task1]\nmeasures: [AP]\nconditions: {mine: {overrides: [system=mine]}, "
        "theirs: {overrides: [system=external, system.path=b.run]}}\n",
    )
    place.good("run", "experiment=pair", "formats=[json]")
    done = place.run(*arguments, "system=mine", "system.path=../../b.run")
    assert (done.code, "../../b.run" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("system", "key", "value"),
    [
        ("pyserini", "encoder_options", {"pooling": "mean", "l2_norm": True}),
        ("pyserini", "rm3", {"fb_terms": 10}),
        ("fusion-ranx", "params", {"k": 10}),
        ("pyterrier", "arguments", {"least": 2}),
        ("bi-encoder-minilm", "weights", {"answer": 2}),
    ],
)
def test_parameters_in_braces(tmp_path: Path, system: str, key: str, value: dict[str, object]) -> None:
    """Names that no default has, as the pages of systems give them."""
    given = ", ".join(f"{name}: {str(one).lower()}" for name, one in value.items())
    words = ("run", "collection=mini-task1", f"system={system}", f"system.{key}={{{given}}}", "--cfg", "job")
    assert yaml.safe_load(Place(tmp_path).good(*words))["system"][key] == value
