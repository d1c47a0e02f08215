"""The commands `build saber` and `build compare` on the embedded problems, down to ratings."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tools import Place

from harness.papers.saber.select import read_targets


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
    for title in (
        "Tournament",
        "Ranks by signal",
        "Domains",
        "Tokens",
        "Preference for formulas or words",
        "Leaderboards",
        "Human agreement",
        "Second judge",
    ):
        assert f"## {title}\n" in page
    assert f"Candidates of {targets[1]}" in page
    assert "**same preference:** 1.000" in page  # it is the same judge
    for wrong, line in (
        (("--target", "P.0"), "target 'P.0' is unknown"),
        (("--leaderboard", boards[0]), "--leaderboard: two files or more"),
        (("--words", runs[1]), "--formulas and --words: one of each"),
        (("--truth", "mini-task1"), "no target has both relevant and other candidates"),
    ):
        refused = place.run("build", "report", "--config", "saber-mini", "--output", "no", *wrong)
        assert refused.code == 2
        assert line in refused.err.splitlines()[-1]
    assert not (place.here / "no").exists()


@pytest.mark.slow
def test_people_compare(place: Place) -> None:
    command = [sys.executable, "-m", "harness", "build", "compare", "me", "--config", "saber-mini", "--pairs", "3"]
    done = subprocess.run(
        [*command, "--exhaustive"],
        cwd=place.here,
        env=place.environment,
        input="1\n2\ns\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert "---- CANDIDATE 2 ----" in done.stdout
    assert "3 choices added to choices.jsonl" in done.stdout
    lines = [line for line in done.stdout.splitlines() if " of 2 choices agree with the " in line]
    assert [line.partition(" (")[0].rpartition("the ")[2] for line in lines] == ["Swiss order", "exhaustive order"]
    again = subprocess.run(
        command, cwd=place.here, env=place.environment, input="", capture_output=True, text=True, check=True
    )
    assert "0 choices added" in again.stdout
