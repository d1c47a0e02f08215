"""The organisers' commands and `compare --reproduction`: what they print and write, and what they refuse."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import jsonschema
import pytest
from case_tables import refusals
from lab_tools import enrol_in, token_of
from tools import Place, run_text, table

import harness
from harness.cli.main import app
from harness.errors import HarnessError
from harness.io.files import data_root

ROOT = data_root()
RUNS = {
    name: str(ROOT / "runs" / "mini" / "mini-task1" / f"{name}.run") for name in ("overlap", "overlap-title", "shuffle")
}
TOPICS = str(ROOT / "topics" / "mini-task1.eng.jsonl")
MINI = ("-c", "mini-task1")
SCHEMA = Path(harness.__file__).parent / "data" / "schemas" / "reproduction.json"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder of commands that are called in this process."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.run").write_text(run_text("one"))
    (tmp_path / "b.run").write_text(run_text("two", docs=("a1088", "a1007")))
    (tmp_path / "same.run").write_text(run_text("one"))
    (tmp_path / "bad.run").write_text("M.1 Q0 d1 1 x one\nM.1 Q0 d2 2 1.0 one\n")
    (tmp_path / "strange.run").write_text(run_text("strange", topics=("M.1", "Z.1")))
    (tmp_path / "q.txt").write_text("M.1 0 a1007 1\nM.1 0 a1088 3\n")
    (tmp_path / "other.txt").write_text("M.2 0 a1007 1\n")
    (tmp_path / "grades.txt").write_text("M.1 0 a1007 yes\nM.1 0 a1088\n")
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / "scores.json").write_text('{"scores": [{"schema": "mathir-harness/scores", "version": 9}]}')
    return tmp_path


def call(*arguments: str) -> None:
    app([*arguments], standalone_mode=False)


@pytest.mark.slow
def test_a_reproduction(place: Place) -> None:
    pair = ("compare", "--reproduction", RUNS["overlap"], RUNS["overlap-title"])
    bases = ("--baseline-original", RUNS["shuffle"], "--baseline-new", f"floor={RUNS['shuffle']}")
    printed = place.good(*pair, *bases, *MINI, "--measures", "nDCG,AP,Judged@10", "-o", "out")
    document = json.loads(place.good(*pair, *bases, *MINI, "--measures", "nDCG,AP,Judged@10", "--json", "-q"))
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(document)
    assert [each["measure"] for each in document["effects"]] == ["nDCG", "AP"]
    means = {
        name: [float(x) for x in table(place.good("score", path, *MINI, "--measures", "nDCG,AP"))[1][1:3]]
        for name, path in RUNS.items()
    }
    for at, each in enumerate(document["effects"]):
        old, new, floor = (means[name][at] for name in ("overlap", "overlap-title", "shuffle"))
        assert (each["original"], each["new"]) == (pytest.approx(old, abs=1e-4), pytest.approx(new, abs=1e-4))
        assert each["effect_ratio"] == pytest.approx((new - floor) / (old - floor), abs=1e-3)
        assert each["delta_ri"] == pytest.approx((old - new) / floor, abs=1e-2)
    assert (document["baseline_original"], document["baseline_new"]) == ("baseline-original", "floor")
    assert len(document["orders"]) == document["rankings"]["rbo"]["n"] == 42
    kept = json.loads((place.here / "out" / "report.json").read_text())["data"]["reproduction"]
    assert kept["effects"] == document["effects"]
    for title in ("Kendall's tau-b of the union", "rank-biased overlap (repro_eval)"):
        assert re.search(rf"^{re.escape(title)}: \w", printed, re.MULTILINE)
    assert f"rank-biased overlap {document['rankings']['rbo']['mean']:.3f}" in printed
    # On other topics, a replication.
    other = ("--new-collection", "mini-task1-again")
    mini = (
        (ROOT / "conf" / "collection" / "mini-task1.yaml").read_text().replace("name: mini-task1", f"name: {other[1]}")
    )
    place.write(f"conf/collection/{other[1]}.yaml", mini)
    again = json.loads(place.good(*pair, *MINI, *other, "--measures", "AP", "--json", "-q"))
    assert (again["paired"], again["orders"], again["collection_new"]) == (False, [], other[1])
    assert again["effects"][0]["rmse"] is None
    for wrong, said in (
        (("--seed", "3"), "--reproduction: makes no test that has a level or a seed; leave out --alpha and --seed"),
        ((*bases[:3], "gone.run"), "gone.run: no such file"),
    ):
        done = place.run(*pair, *MINI, *wrong)
        assert (done.code, done.out, done.err) == (2, "", f"harness: {said}\n")


@pytest.mark.slow
def test_a_lab_has_teams_and_primary_runs(place: Place) -> None:
    place.good("lab", "new", "lab", *MINI, "--private", "--feedback", "noisy", "--cap", "9")
    enrol_in(place.here / "lab", "x", "y", "z")
    for team, name, *more in (
        ("x", "overlap"),
        ("y", "overlap-title", "--primary"),
        ("y", "shuffle"),
        ("z", "shuffle"),
    ):
        place.write("mine.run", Path(RUNS[name]).read_text() + f"M.1 Q0 of-{team} 999 -9 {name}\n")
        place.good(
            *("submit", "mine.run", "--lab", "lab", "--token", token_of(team)),
            *("--label", name, "--description", "Mine.", *more),
        )
    place.good("withdraw", "--lab", "lab", "--token", token_of("z"), "--label", "shuffle", "--reason", "wrong")
    place.good("organise", "analyse", "lab", "--depth", "3", "-o", "out")
    data = json.loads((place.here / "out" / "report.json").read_text())["data"]
    assert {each["team"] for each in data["bias"]} >= {"x", "y"}
    runs = {loss["run"] for each in data["bias"] for loss in each["losses"]}
    assert runs >= {"x / overlap", "y / overlap-title", "y / shuffle"}
    assert "z / shuffle" not in runs
    printed = place.good("organise", "pool", "lab", "--depth", "2", "--primary-depth", "4", "-o", "pool")
    depths = {row[0]: row[1] for row in table(printed)[3:] if len(row) == 4}
    assert (depths["y / overlap-title"], depths["y / shuffle"]) == ("4", "2")
    done = place.run("organise", "analyse", "lab", "--measures", "AP")
    expected = (2, "harness: --measures: lab/lab.yaml says this for the lab's runs; leave it out\n")
    assert (done.code, done.err) == expected
    done = place.run("organise", "analyse", "lab", "-o", "lab/out")
    assert (done.code, done.out) == (2, "")
    wanted = "harness: --output lab/out: the lab's judgments are private; write for organisers outside its folder\n"
    assert done.err == wanted
    # A run that is not as it was submitted is not analysed.
    kept = place.here / "lab" / "submissions" / "x" / "overlap.v1" / "run.txt"
    kept.write_text(kept.read_text().replace("a1088", "a1089", 1))
    done = place.run("organise", "analyse", "lab")
    assert (done.code, done.out) == (2, "")
    assert done.err == ("harness: lab/submissions/x/overlap.v1/run.txt: damaged: differs from the submitted run\n")


ANALYSE = ("organise", "analyse")


@pytest.mark.parametrize(("command", "fault"), refusals("organise"))
def test_what_is_refused(here: Path, command: str, fault: str) -> None:
    before = sorted(here.iterdir())
    with pytest.raises(HarnessError) as caught:
        call(*(TOPICS if word == "TOPICS" else word for word in shlex.split(command)))
    assert caught.value.lines[0] == fault
    assert sorted(here.iterdir()) == before


def test_all_faults_of_all_files_are_told(here: Path) -> None:
    with pytest.raises(HarnessError) as caught:
        call(*ANALYSE, "bad.run", "--team", "x=strange.run", "--team", "/y=a.run", *MINI)
    assert [line.partition(": ")[0] for line in caught.value.lines] == ["bad.run:1", "strange.run:4", "--team /y=a.run"]
