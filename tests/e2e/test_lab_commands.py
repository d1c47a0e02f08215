"""A lab at the command line: made, submitted to by several at once, checked; what goes wrong is one line a fault."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path

import pytest
from lab_tools import enrol_in, token_of
from tools import Place, table

from harness.io.files import data_root
from harness.labs.journal import NAME_RULE

RUNS = data_root() / "runs" / "mini" / "mini-task1"


def test_a_lab(tmp_path: Path) -> None:
    place = Place(tmp_path)
    made = place.good(
        "lab", "new", "labs/mini", "-c", "mini-task1", "--baseline", str(RUNS / "shuffle.run"), "--cap", "3"
    )
    assert made.startswith("labs/mini: a lab on mini-task1, edition official; settings: labs/mini/lab.yaml\n")
    shutil.copy(RUNS / "overlap.run", place.here / "mine.run")
    said = place.good("submit", "mine.run", "--lab", "labs/mini", "--team", "DPRL", "--label", "first", "--primary")
    first, header, row, rank, head, against, tests, *by_category = said.splitlines()
    expected = "DPRL / first, the team's primary run: kept in labs/mini/submissions/DPRL/first.v1 (submission 1 of 3)"
    assert first == expected
    assert table(f"{header}\n{row}") == [
        ["run", "nDCG′", "MAP′", "P′@10", "Bpref", "Judged@10", "n", "missing"],
        ["DPRL / first", "0.8302", "0.6839", "0.2976", "0.5906", "0.5810", "42", "0"],
    ]
    assert rank == "rank 1 of 2 by nDCG′"
    assert table(head)[0] == ["against", "it is", "nDCG′", "difference", "p"]
    assert table(against)[0] == ["baseline / shuffle", "baseline, best ranked run", "0.2118", "+0.6184", "<.0001*"]
    assert tests == "paired t-test, Holm's correction over 1 test, alpha 0.05"
    assert by_category[0].split() == ["topics", "with", "n", "nDCG′", "median", "of", "1", "other", "run", "difference"]

    refused = place.run("submit", "mine.run", "--lab", "labs/mini", "--team", "a b", "--kind", "robot")
    assert (refused.code, refused.out) == (2, "")
    wanted = ["team 'a b': expected", "kind 'robot' is unkn", "mine.run: the same r"]
    assert [line.partition(": ")[2][:20] for line in refused.err.splitlines()] == wanted
    found = place.good("withdraw", "--lab", "labs/mini", "--team", "DPRL", "--label", "first", "--reason", "x")
    assert found == "DPRL / first: withdrawn; it stays in labs/mini/submissions/DPRL/first.v1\n"
    again = place.run("withdraw", "--lab", "labs/mini", "--team", "DPRL", "--label", "first")
    assert (again.code, again.err) == (2, "harness: DPRL / first was withdrawn already\n")
    checked = place.good("lab", "check", "labs/mini")
    unchanged = "all files and scores are unchanged\n"
    assert checked == f"labs/mini: 0 submissions of 0 teams, 1 withdrawn, the baseline; {unchanged}"
    place.good("submit", "mine.run", "--lab", "labs/mini", "--team", "DPRL", "--label", "first")
    shown = place.good("lab", "check", "labs/mini")
    assert shown == f"labs/mini: 1 submission of 1 team, 1 withdrawn, the baseline; {unchanged}"


@pytest.mark.parametrize(
    ("output", "taken"),
    [
        (".", "lab"),
        ("lab", "lab"),
        ("other", "other"),
        ("lab/submissions", "lab"),
        ("other/submissions/A/new/site", "other"),
        ("within", "{here}/lab"),
        ("linking", "{here}/lab"),
    ],
)
def test_pages_are_not_written_where_a_lab_is(tmp_path: Path, output: str, taken: str) -> None:
    place = Place(tmp_path)
    for name in ("lab", "other"):
        place.good("lab", "new", name, "--collection", "mini-task1")
    here = place.here.resolve()
    (here / "within").symlink_to(here / "lab" / "submissions")
    (here / "linking").mkdir()
    (here / "linking" / "lab").symlink_to(here / "lab" / "submissions")
    taken = taken.format(here=here)
    before = place.files()
    done = place.run("site", "build", "lab", "-o", output)
    assert (done.code, done.out) == (2, "")
    expected = f"harness: --output {output}: pages would be written into the lab {taken}; choose another folder\n"
    assert done.err == expected
    assert place.files() == before


@pytest.mark.slow
@pytest.mark.parametrize("command", [("leaderboard", "lab"), ("score", str(RUNS / "overlap.run"), "-c", "mini-task1")])
def test_reports_are_not_written_among_submissions(tmp_path: Path, command: tuple[str, ...]) -> None:
    place = Place(tmp_path)
    place.good("lab", "new", "lab", "-c", "mini-task1", "--baseline", str(RUNS / "shuffle.run"))
    here = place.here.resolve()
    (here / "within").symlink_to(here / "lab" / "submissions")
    before = place.files()
    where = "the report would be written among the submissions or private files of the lab"
    for output, lab in (
        ("lab/submissions", "lab"),
        ("lab/submissions/baseline", "lab"),
        ("lab/private/new/deep", "lab"),
        ("within/new", f"{here}/lab"),
    ):
        done = place.run(*command, "-o", output)
        assert (done.code, done.out) == (2, "")
        assert done.err == f"harness: --output {output}: {where} {lab}; choose another folder\n"
    assert place.files() == before
    place.good(*command, "-o", "lab/leaderboard")
    place.good("lab", "check", "lab")


def test_the_help_says_which_names_are_allowed(tmp_path: Path) -> None:
    allowed = NAME_RULE.split(" ")[3]
    assert " ".join(Place(tmp_path).good("submit", "--help").split()).count(f"Letters, digits and {allowed} only.") == 2


@pytest.mark.slow
def test_several_at_once_and_one_that_is_stopped(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.good("lab", "new", "lab", "-c", "mini-task1", "--cap", "9", "--private", "--feedback", "noisy")
    enrol_in(place.here / "lab", "T0", "T1", "T2")
    started = [
        place.start("submit", str(RUNS / f"{name}.run"), "--lab", "lab", "--token", token_of(f"T{at}"))
        for at, name in enumerate(("overlap", "shuffle", "overlap-title"))
    ]
    time.sleep(0.5)
    started[2].send_signal(signal.SIGINT)
    done = [process.communicate(timeout=300) for process in started]
    assert [process.returncode for process in started[:2]] == [0, 0], done
    # Whenever it was stopped: all of it was kept, or nothing.
    stopped = started[2].returncode in (130, -signal.SIGINT)  # the latter before Python handles signals
    kept = 2 if stopped and not (place.here / "lab/submissions/T2/overlap-title.v1").exists() else 3
    checked = place.good("lab", "check", "lab")
    assert checked == f"lab: {kept} submissions of {kept} teams; all files and scores are unchanged\n"


@pytest.mark.slow
def test_participants_of_a_private_lab_make_runs_without_the_judgments(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.good("new", "collection", "club")
    configuration = place.here / "conf/collection/club.yaml"
    configuration.write_text(configuration.read_text().replace("  official:\n", "  official:\n    private: true\n"))
    place.good("run", "collection=club", "corpus=club", "system=bm25", "runs=organisers", "formats=[json]")
    place.good("lab", "new", "lab", "-c", "club", "--feedback", "noisy", "--cap", "3", "--least-results", "1")
    added = place.good("lab", "team", "add", "lab", "A")
    token = added.partition("HARNESS_TOKEN=")[2].strip()
    assert added == f"team A: may submit with HARNESS_TOKEN={token}\n"
    assert len(token) == 43
    qrels = place.here / "conf/collection/club.qrels"
    judgments = qrels.read_bytes()
    qrels.unlink()
    (place.here / "lab/private").rename(place.here / "kept")
    made = place.good("run", "collection=club", "corpus=club", "system=bm25", "formats=[json]")
    assert made == (
        "run: runs/club/bm25.run\n"
        "the judgments of club, edition official, are private: the run is made and not scored; "
        "send it to the organisers, who submit it with 'harness submit'\n"
    )
    files = place.files("runs", "organisers")
    assert files["runs/club/bm25.run"] == files["organisers/club/bm25.run"]
    faults = {
        ("submit", "runs/club/bm25.run", "-l", "none", "-t", "A"): "--lab none: no such folder; check the path; for a "
        "server, use --server URL",
        ("score", "runs/club/bm25.run", "-c", "club"): "club.qrels: cannot be read: the judgments of club, edition ",
        ("run", "collection=club", "corpus=club", "system=bm25", "rerank=true"): "club.qrels: cannot be read: ",
        ("lab", "check", "lab"): "club.qrels: cannot be read: ",
        ("submit", "runs/club/bm25.run", "-l", "lab", "-t", "A"): "lab: has a roster, so a team's name is not enough; "
        "set HARNESS_TOKEN to the team's token (organisers: --organiser)",
        ("submit", "runs/club/bm25.run", "-l", "lab", "--token", "guess"): "lab: the token is unknown or was revoked",
        ("submit", "runs/club/bm25.run", "-l", "lab", "--token", token): "lab: runs cannot be scored; the judgments "
        "are private and not here; only the organisers can score runs, so send them yours",
    }
    for arguments, fault in faults.items():
        done = place.run(*arguments)
        assert (done.code, done.out) == (2, "")
        assert fault in done.err.splitlines()[-1]
    qrels.write_bytes(judgments)
    (place.here / "kept").rename(place.here / "lab/private")
    assert (
        place.good("submit", "runs/club/bm25.run", "-l", "lab", "-t", "A", "--organiser")
        .splitlines()[-1]
        .endswith("Budget spent: 1 of 3 submissions.")
    )


@pytest.mark.slow
def test_a_private_lab_shows_no_scores_unless_it_is_told_to(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.good("run", "collection=mini-task1", "corpus=mini-answers", "system=bm25", "formats=[json]")
    for name, more, shown in (("quiet", (), False), ("noisy", ("--feedback", "noisy"), True)):
        place.good("lab", "new", name, "-c", "mini-task1", "--private", "--cap", "3", *more)
        place.good("lab", "team", "add", name, "A")
        said = place.good("submit", "runs/mini-task1/bm25.run", "-l", name, "-t", "A", "--organiser")
        expected = (not shown, shown)
        assert ("no score is shown before the end" in said, "Budget spent: 1 of 3 submissions." in said) == expected
