"""A private lab of real runs: eight of ARQMath-1's as eight teams, Linked MSE as the baseline."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from lab_tools import enrol_in
from typer.testing import CliRunner

from harness.cli.main import app
from harness.collections.files import local
from harness.collections.load import load_collection
from harness.io import config
from harness.io.files import cache_root
from harness.sources import catalogue
from harness.sources.fetch import fetch_resources
from harness.sources.resource import Resource

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("mirror")]
TEAMS = {
    "PSU": "final_runs/psu-task1-auto-both-A.tsv",
    "PSU-P": "final_runs/prim_psu-task1-auto-both-P.tsv",
    "PSU-A2": "final_runs/prim_psu-task1-auto-both-A2.tsv",
    "MathDowsers": "notebooks/final_runs/prim_MathDowsers-task1-alpha05noReRank-auto-both-A.tsv",
    "MIRMU": "notebooks/final_runs/prim_MIRMU-task1-Ensemble-auto-both-A.tsv",
    "Approach0": "notebooks/final_runs/prim_Approach0.tsv",
    "DPRL": "notebooks/final_runs/DPRL_task1_auto_both_A3.tsv",
    "zbMATH": "notebooks/final_runs/prim_zbMATH-task1-auto-both-P.tsv",
}
BASELINE = "notebooks/final_runs/Linked_MSE.tsv"
NUMBER = re.compile(r"(?<![\w.])\d{5,}(?![\w.])")  # shorter ids are also sizes, times and places in figures


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Each team's run, and the baseline, under names that say nothing."""
    found = {}
    for name, path in {**TEAMS, "baseline": BASELINE}.items():
        resource = catalogue.resource({"source": "arqmath-psu", "path": path}, "f")
        assert isinstance(resource, Resource)
        fetch_resources([resource])
        found[name] = tmp_path / f"{name}.tsv"
        shutil.copyfile(local(resource), found[name])
    return found


def harness(*arguments: str | Path) -> tuple[int, str]:
    """Exit code and all that is printed."""
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    return result.exit_code, result.output


def held(lab: Path, collection: str, files: dict[str, Path], *settings: str) -> tuple[dict[str, int], str]:
    """The lab with all that is submitted: exit codes, and everything that was printed."""
    codes, printed = {}, []
    made: tuple[str | Path, ...] = ("--collection", collection, "--baseline", files["baseline"], *settings)
    codes["new"], said = harness("lab", "new", lab, *made)
    printed.append(said)
    if "--cap" in settings:  # a private lab
        enrol_in(lab, *TEAMS)
    for team in TEAMS:
        given = ("--lab", lab, "--team", team, "--organiser", "--description", "A run of 2020.")
        codes[team], said = harness("submit", files[team], *given)
        printed.append(said)
    codes["leaderboard"], said = harness("leaderboard", lab)
    return codes, "".join([*printed, said])


@pytest.mark.heavy
def test_private_judgments_are_in_nothing_that_participants_get(
    files: dict[str, Path], tmp_path: Path, conf: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(conf)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))  # in which other tests keep nothing
    public = load_collection("arqmath-1-task1")
    judged = public.qrels()
    qrels = tmp_path / "organisers" / "qrels.txt"
    qrels.parent.mkdir()
    lines = (f"{t} 0 {d} {g}" for t, docs in judged.to_dict().items() for d, g in docs.items())
    qrels.write_text("\n".join(lines) + "\n")
    shown = config.load("collection", "arqmath-1-task1")[0]
    conf(
        "collection",
        "secret",
        f"name: secret\ntitle: Secret\nlicence: none\nprotocol: arqmath-task1\n"
        f"editions: {{test: {{title: the test edition, private: true, qrels: {{file: '{qrels}'}}}}}}\n"
        f"topics: {{reader: arqmath-xml, source: {shown['topics']['source']}, path: {shown['topics']['path']}}}\n",
    )
    lab = tmp_path / "lab"
    codes, printed = held(lab, "secret", files, "--cap", "5", "--least-results", "1")
    # zbMATH answers a few topics: alone, such means tell grades.
    assert {name for name, code in codes.items() if code} == {"zbMATH"}, printed
    site = tmp_path / "site"
    assert harness("site", "build", lab, "-o", site)[0] == 0
    assert len(list((site / "lab" / "runs").rglob("*.html"))) == len(TEAMS)
    assert not (site / "lab" / "topics").exists()
    docs = {doc.decode() for doc in judged.doc.tolist()}
    own = set((lab / "submissions").rglob("run.txt"))
    assert len(own) == len(TEAMS)  # of seven teams, and the baseline
    seen = 0
    for folder in (lab, cache_root(), site):
        for path in sorted(folder.rglob("*")) if folder.exists() else ():
            if (
                not path.is_file() or path in own or lab / "private" in path.parents or "github.com" in path.parts
            ):  # the public files
                continue
            found = set(NUMBER.findall(path.read_bytes().decode("utf-8", "replace")))
            assert found & docs == set(), path
            seen += 1
    assert seen > 20
    assert set(NUMBER.findall(printed)) & docs == set()
    for path in site.rglob("*.*"):
        if path.suffix in (".json", ".csv") and path.parent.name != "schemas":
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"(?<![\d.])0\.\d{3}", text), path
            assert not re.search(r"\bA\.\d+\b", text), path
    assert not re.search(r"\bA\.\d+\b", (lab / "leaderboard" / "report.md").read_text(encoding="utf-8"))
    assert not re.search(r"0\.\d{3}", (lab / "leaderboard" / "report.md").read_text(encoding="utf-8").split("## ")[1])
