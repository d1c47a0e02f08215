"""A lab at the command line: made, submitted to by several at once, checked; what goes wrong is one line a fault."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path

from tools import Place, table

from harness.io.files import data_root

RUNS = data_root() / "runs" / "mini" / "mini-task1"


def test_a_lab(tmp_path: Path) -> None:
    place = Place(tmp_path)
    made = place.good(
        "lab", "new", "labs/mini", "-c", "mini-task1", "--baseline", str(RUNS / "shuffle.run"), "--cap", "3"
    )
    assert made.startswith("labs/mini: a lab on mini-task1, edition official; settings: labs/mini/lab.yaml\n")
    shutil.copy(RUNS / "overlap.run", place.here / "mine.run")
    said = place.good("submit", "mine.run", "--lab", "labs/mini", "--team", "DPRL", "--label", "first", "--primary")
    first, header, row, rank, head, against, tests = said.splitlines()
    assert (
        first == "DPRL / first, the team's primary run: kept in labs/mini/submissions/DPRL/first.v1 (submission 1 of 3)"
    )
    assert table(f"{header}\n{row}") == [
        ["run", "nDCG′", "MAP′", "P′@10", "Bpref", "Judged@10", "topics"],
        ["DPRL / first", "0.8302", "0.6839", "0.2976", "0.5906", "0.5810", "42"],
    ]
    assert rank == "rank 1 of 2 by nDCG′"
    assert table(head)[0] == ["against", "it is", "nDCG′", "difference", "p"]
    assert table(against)[0] == ["baseline / shuffle", "baseline, best so far", "0.2118", "+0.6184", "<.0001*"]
    assert tests == "paired t-test, Holm's correction over 1 test, alpha 0.05"

    refused = place.run("submit", "mine.run", "--lab", "labs/mini", "--team", "a b", "--kind", "robot")
    assert (refused.code, refused.out) == (2, "")
    assert [line.partition(": ")[2][:20] for line in refused.err.splitlines()] == [
        "team 'a b': expected",
        "kind 'robot' is unkn",
        "mine.run: the same r",
    ]
    assert place.good("withdraw", "--lab", "labs/mini", "--team", "DPRL", "--label", "first", "--reason", "x") == (
        "DPRL / first: withdrawn; it stays in labs/mini/submissions/DPRL/first.v1\n"
    )
    checked = place.good("lab", "check", "labs/mini")
    assert checked == "labs/mini: 2 submissions of 2 teams, all as they were written and scored\n"


def test_several_at_once_and_one_that_is_stopped(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.good("lab", "new", "lab", "-c", "mini-task1", "--cap", "9", "--private")
    started = [
        place.start("submit", str(RUNS / f"{name}.run"), "--lab", "lab", "--team", f"T{at}")
        for at, name in enumerate(("overlap", "shuffle", "overlap-title"))
    ]
    time.sleep(0.5)
    started[2].send_signal(signal.SIGINT)
    done = [process.communicate(timeout=300) for process in started]
    assert [process.returncode for process in started[:2]] == [0, 0], done
    # Whenever it was stopped: all of it was kept, or nothing.
    kept = (
        2 if started[2].returncode == 130 and not (place.here / "lab/submissions/T2/overlap-title.v1").exists() else 3
    )
    checked = place.good("lab", "check", "lab")
    assert checked == f"lab: {kept} submissions of {kept} teams, all as they were written and scored\n"
