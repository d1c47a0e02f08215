"""What is wrong with the files, names and options that a person gives: one exact line a fault, and nothing written."""

from __future__ import annotations

import gzip
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest
from case_tables import refusals
from tools import Place, run_text

from harness.errors import LONGEST_LIST
from harness.io import config

GOOD = run_text()
KNOWN = sorted(config.names("collection"))
SHOWN = [name for at, name in enumerate(KNOWN) if len(", ".join(KNOWN[: at + 1])) <= LONGEST_LIST]
COLLECTIONS = f"{', '.join(SHOWN)} and {len(KNOWN) - len(SHOWN)} more"


def line(
    topic: str = "M.1", q0: str = "Q0", doc: str = "d", rank: str = "1", score: str = "1.5", tag: str = "t"
) -> str:
    return f"{topic}\t{q0}\t{doc}\t{rank}\t{score}\t{tag}\n"


RUN_FILES: dict[str, tuple[str | bytes, str]] = {
    "NaN": (line(score="nan"), "bad.run:1: score 'nan' is not a finite number"),
    "cut gzip": (
        gzip.compress(GOOD.encode())[:-20],
        "bad.run: compressed file is cut short or damaged: it ends inside of a gzip member",
    ),
    "unknown topic": (line() + line(topic="A.1"), "bad.run:2: topic 'A.1' is not among the collection's topics"),
}


def earlier(place: Place) -> None:
    """Results of earlier work, which must stay as they are."""
    place.write("runs/good.run", GOOD)
    place.write("reports/index.html", "an earlier report")
    place.write("reports/tables/means.csv", "earlier means")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    earlier(made)
    made.write("good.run", GOOD)
    made.write("other.run", run_text("other"))
    made.write("one.run", line())
    made.write("my run.run", GOOD)
    made.write("one.txt", "id visual_id\n")
    made.write("keys.tsv", "id\tvisual_id\nq_1\tv_1\n")
    made.write("three.tsv", "id\tpost_id\tvisual_id\nq_1\t7\tv_1\n")
    made.write("short.tsv", "id\tvisual_id\nq_1\tv_1\nq_2\n")
    return made


def refused(
    place: Place, arguments: tuple[str, ...], *faults: str, environment: Mapping[str, str] | None = None
) -> str:
    """Assert that a command ends with exactly these faults and leaves all files as they were; what it printed."""
    before = place.files()
    done = place.run(*arguments, environment=environment)
    assert done.err == "".join(f"harness: {fault}\n" for fault in faults)
    assert done.code == 2
    assert place.files() == before
    return done.out


@pytest.mark.parametrize("kind", RUN_FILES)
def test_one_run_file(place: Place, kind: str) -> None:
    content, fault = RUN_FILES[kind]
    place.write("bad.run", content)
    assert refused(place, ("score", "bad.run", "-c", "mini-task1", "-o", "reports"), fault) == ""


@pytest.mark.parametrize(("command", "fault"), refusals("options"))
def test_names_and_options(place: Place, command: str, fault: str) -> None:
    assert (
        refused(place, tuple(shlex.split(command)), fault.replace("{COLLECTIONS}", COLLECTIONS)) == ""
        or "one.txt/" in command
    )
