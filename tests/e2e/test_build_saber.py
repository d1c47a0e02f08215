"""`harness build saber`, `report` and `compare` on the embedded problems, down to ratings."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tools import CONF, Place, table

from harness.papers.saber.select import read_targets

STEPS = ["databank", "annotate", "ontology", "pairs", "select", "judge", "rate", "collection"]
MINI = ("build", "saber", "--config", "saber-mini")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_dry_run_then_every_step_then_nothing(place: Place) -> None:
    rows = table(place.good(*MINI, "--dry-run"))
    assert rows[0] == ["step", "state", "calls", "tokens in", "tokens out", "cost"]
    assert [row[0] for row in rows[1:9]] == STEPS
    assert {row[1] for row in rows[1:9]} == {"to make"}
    said = place.good(*MINI, "--output", "made")
    assert "databank: read 46" in said
    assert "annotate: by keywords, problems 46" in said
    targets = [json.loads(line) for line in (place.here / "made/select/targets.jsonl").read_text().splitlines()]
    assert len(targets) == 4
    assert {len(target["candidates"]) for target in targets} == {6}
    again = place.run(*MINI, "--output", "again")
    assert again.out.replace("again", "made") == said
    assert again.err.count("kept from before") == 8
    assert contents(place.here / "again") == contents(place.here / "made")
    rows = table(place.good(*MINI, "--dry-run"))
    assert {row[1] for row in rows[1:9]} == {"made"}
    assert (place.here / "made/collection").is_dir()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--config", "saber-mini", "--pilot", "3"), "--pilot: this builder annotates without a language model"),
        (("--config", "bad"), "key 'quantil' is unknown"),
    ],
)
def test_mistakes_are_one_line(arguments: tuple[str, ...], said: str, place: Place) -> None:
    builder = yaml.safe_load((CONF / "builder/saber-mini.yaml").read_text())
    place.write("conf/builder/bad.yaml", yaml.safe_dump({**builder, "pairs": {"quantil": 0.5}}))
    done = place.run("build", "saber", *arguments)
    (line,) = (line for line in done.err.splitlines() if line.startswith("harness: "))
    assert (done.code, said in line, "Traceback" in done.err) == (2, True, False)


@pytest.mark.heavy
def test_the_report_holds_every_analysis(place: Place) -> None:
    """A system's runs for formulas and for words, its leaderboard beside another one, and choices of people."""
    place.good("build", "saber", "--config", "saber-mini", "--output", "out")
    made = place.here / "out/collection"
    targets = [each.id for each in read_targets(place.here / "out/select/targets.jsonl")]
    environment = {"HARNESS_CONF": str(made / "conf")}
    for variant in ("formulas", "words"):
        words = (f"collection=saber-mini-{variant}", "corpus=saber-mini-joined", "rerank=true", "system=jaccard")
        place.good("run", *words, f"runs={variant}", environment=environment)
    runs = [str(next((place.here / variant).rglob("*.run"))) for variant in ("formulas", "words")]
    systems = "system=bm25,overlap,shuffle"
    words = ("collection=saber-mini", "corpus=saber-mini", "rerank=true", systems)
    place.good("run", "-m", *words, environment=environment)
    files = [f"runs/saber-mini/{name}.run" for name in ("bm25", "overlap", "shuffle")]
    boards = []
    for name in ("saber-mini", "saber-mini-full"):
        boards.append(f"{name}.json")
        said = place.good("leaderboard", *files, "--collection", name, "--json", environment=environment)
        place.write(boards[-1], said)
    first, other = read_targets(place.here / "out/select/targets.jsonl")[0].candidates[:2]
    choice = {"person": "me", "target": targets[0], "first": first.id, "second": other.id, "preferred": 1}
    place.write("choices.jsonl", json.dumps(choice) + "\n")
    said = place.good(
        *("build", "report", "--config", "saber-mini", "--output", "page", "--target", targets[1]),
        *("--formulas", runs[0], "--words", runs[1], "--leaderboard", boards[0], "--leaderboard", boards[1]),
        *("--choices", "choices.jsonl", "--judge", "saber-mini"),
    )
    page = (place.here / "page/report.md").read_text()
    assert said.startswith("4 targets with 24 candidates from 46 problems; 35 comparisons by ")
    titles = re.findall("^## (.*)$", page, re.MULTILINE)
    assert {"Tournament", "Ranks by signal", "Domains", "Tokens", "Preference for formulas or words"} < {*titles}
    assert {"Leaderboards", "Human agreement", "Second judge"} < {*titles}
    assert f"Candidates of {targets[1]}" in page
    assert "**same preference:** 1.000" in page  # it is the same judge
    for wrong, line in (
        (("--target", "P.0"), "target 'P.0' is unknown"),
        (("--leaderboard", boards[0]), "--leaderboard: two files or more"),
        (("--words", runs[1]), "--formulas and --words: one of each"),
        (("--truth", "mini-task1"), "no target has both relevant and other candidates"),
    ):
        done = place.run("build", "report", "--config", "saber-mini", "--output", "no", *wrong)
        assert (done.code, line in done.err.splitlines()[-1]) == (2, True)
    assert not (place.here / "no").exists()


@pytest.mark.slow
def test_people_compare(place: Place) -> None:
    command = [sys.executable, "-m", "harness", "build", "compare", "me", "--config", "saber-mini", "--pairs", "3"]

    def said(typed: str, *more: str) -> str:
        words = [*command, *more]
        return subprocess.check_output(words, cwd=place.here, env=place.environment, input=typed, text=True)

    shown = said("1\n2\ns\n", "--exhaustive")
    assert "---- CANDIDATE 2 ----" in shown
    assert "3 choices added to choices.jsonl" in shown
    lines = [line for line in shown.splitlines() if " of 2 choices agree with the " in line]
    assert [line.partition(" (")[0].rpartition("the ")[2] for line in lines] == ["Swiss order", "exhaustive order"]
    assert "0 choices added" in said("")
