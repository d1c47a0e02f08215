"""The command `leaderboard` on folders of runs and on labs: what it prints, writes and refuses."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from case_tables import literals
from tools import Place, run_text

from harness.experiments.evaluate import evaluate
from harness.experiments.task import task
from harness.io.files import data_root
from harness.labs.board import leaderboard_from_json

MINI = data_root() / "runs" / "mini" / "mini-task1"
NAMES = ("overlap", "overlap-title", "shuffle")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = Place(tmp_path)
    for name in NAMES:
        found.write(f"runs/{name}.run", (MINI / f"{name}.run").read_bytes())
    found.write("runs/README.md", "not a run")
    return found


@pytest.mark.slow
def test_a_folder_of_runs(place: Place) -> None:
    printed = place.good("leaderboard", "runs", "-c", "mini-task1", "-b", "shuffle", "-o", "reports/leaderboard")
    lines = printed.splitlines()
    scores = evaluate(task("mini-task1"), *(MINI / f"{name}.run" for name in NAMES)).scores
    means = {each.run: [f"{each.mean(name):.4f}" for name in ("nDCG", "AP", "P@10", "Bpref")] for each in scores}
    assert [line.split() for line in lines[1:4]] == [
        ["overlap", "1", "a", "1-1", *means["overlap"]],
        ["overlap-title", "2", "b", "2-2", *means["overlap-title"]],
        ["shuffle", "(baseline)", "3", "c", "3-3", *means["shuffle"]],
    ]
    assert lines[4].startswith("random floor")
    assert lines[5].startswith("mini-task1, edition official, protocol arqmath-task1 (judgments af3f6c658246)")
    assert lines[-1] == "report: reports/leaderboard/index.html"
    counts = place.good("leaderboard", "runs", "-c", "mini-task1", "--measures", "nDCG,RelRet", "-o", "counts")
    assert re.fullmatch(r"random floor +0\.\d{4} +\d+", next(line for line in counts.splitlines() if "random" in line))
    folder = place.here / "reports" / "leaderboard"
    data = json.loads((folder / "report.json").read_text(encoding="utf-8"))["data"]["leaderboards"]
    (board,) = (leaderboard_from_json(each) for each in data)
    assert [each.name for each in board.ranked] == list(NAMES)
    judged = board.ranked[0].judgments
    assert judged is not None
    assert judged.judged == pytest.approx(scores[0].mean("Judged@10"))
    assert judged.depth == 1000
    rows = list(csv.DictReader(io.StringIO((folder / "leaderboard.csv").read_text(encoding="utf-8"))))
    assert [row["run"] for row in rows] == [name for name in NAMES for _ in range(4)]
    for file in ("index.html", "report.md", "report.tex", "tables/leaderboard.tex", "tables/leaderboard.csv"):
        assert "overlap" in (folder / file).read_text(encoding="utf-8")


@pytest.mark.slow
def test_redacted(place: Place) -> None:
    printed = place.good("leaderboard", "runs", "-c", "mini-task1", "--redact", "-o", "reports")
    assert printed.splitlines()[1].split() == ["overlap", "1", "0.85", "0.70", "0.30", "0.60"]
    written = b"".join(place.files("reports").values()).decode("utf-8", "replace") + printed
    for scores in evaluate(task("mini-task1"), *(MINI / f"{name}.run" for name in NAMES)).scores:
        assert not any(repr(scores.mean(name))[:8] in written for name in ("nDCG", "AP"))
        assert scores.qrels_sha256[:12] not in written
    assert '"M.1"' not in written
    answered = place.run("leaderboard", "runs", "-c", "mini-task1", "--redact", "--protocol", "arqmath-task1-answered")
    assert (answered.code, answered.out) == (2, "")
    assert "reveals private scores of topics" in answered.err


@pytest.mark.parametrize(("arguments", "words"), literals("commands/leaderboard"))
def test_refused(place: Place, arguments: tuple[str, ...], words: str) -> None:
    (place.here / "empty").mkdir()
    done = place.run("leaderboard", *arguments)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert len(done.err.splitlines()) == 1
    assert not (place.here / "reports").exists()


def submit(place: Place, lab: str, team: str, name: str, *more: str) -> None:
    place.good("submit", f"runs/{name}.run", "--lab", lab, "--team", team, "--label", name, *more)


def test_a_lab(place: Place) -> None:
    """Withdrawn runs are gone, the team's other run is listed, and the same runs give the folder's numbers."""
    place.write("runs/bad.run", run_text("bad"))
    place.good("lab", "new", "lab", "-c", "mini-task1", "--baseline", "runs/shuffle.run")
    place.write("runs/second.run", run_text("second", docs=("a1088", "a1007")))
    submit(place, "lab", "anna", "overlap")
    submit(place, "lab", "anna", "second")
    submit(place, "lab", "ben", "overlap-title", "--kind", "manual", "--description", "by hand")
    submit(place, "lab", "ben", "bad")
    place.good("withdraw", "--lab", "lab", "--team", "ben", "--label", "bad")
    printed = place.good("leaderboard", "lab")
    assert printed.splitlines()[-1] == "report: lab/leaderboard/index.html"
    lines = printed.splitlines()
    assert lines[4].split()[:4] == ["anna", "/", "second", "-"]
    assert lines[6] == "rank -: not the team's primary run, or post-hoc; neither ranked nor tested"
    data = json.loads(place.good("leaderboard", "lab", "--json"))
    (board,) = (leaderboard_from_json(each) for each in data)
    assert [each.name for each in board.ranked][:2] == ["anna / overlap", "ben / overlap-title"]
    assert [each.baseline for each in board.ranked] == [False, False, True]
    assert [each.name for each in board.others] == ["anna / second"]
    judged = board.others[0].judgments
    assert judged is not None and judged.depth == 1000 and judged.covered is not None
    folder = json.loads(
        place.good("leaderboard", *(f"runs/{name}.run" for name in NAMES), "-c", "mini-task1", "--json")
    )
    for mine, theirs in zip(folder[0]["ranked"], data[0]["ranked"], strict=True):
        assert mine["means"] == theirs["means"]
        expected = [theirs[key] for key in ("rank", "rank_low", "rank_high", "first", "group")]
        assert [mine[key] for key in ("rank", "rank_low", "rank_high", "first", "group")] == expected
        assert mine["ties"] == theirs["ties"]
        assert mine["judgments"] == theirs["judgments"]
        assert theirs["judgments"]["depth"] == 1000
    done = place.run("leaderboard", "lab", "--alpha", "0.1")
    assert (done.code, done.err) == (2, "harness: --alpha: lab/lab.yaml says this for the lab's runs; leave it out\n")
