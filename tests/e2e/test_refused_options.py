"""What is wrong with the files, names and options that a person gives: one exact line a fault, and nothing written."""

from __future__ import annotations

import gzip
import lzma
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest
from case_tables import refusals
from tools import Place, run_text

from harness.errors import LONGEST_LIST
from harness.io import config
from harness.io.names import NAME_RULE

GOOD = run_text()
TREC = "(topic Q0 document rank score tag)"
LAYOUTS = (
    f"expected 6 for trec {TREC}; 5 for arqmath-task1 (topic post rank score tag); "
    "6 for arqmath-task2 (topic formula post rank score tag)"
)
WHICH = "say which it is with --format trec or --format arqmath-task2"
FIVE = (
    "bad.run: 5 columns like a TREC run (topic Q0 document rank score tag) that lacks one; "
    "if column 2 is a post, say --format arqmath-task1"
)
TAG = f"is not a name: expected {NAME_RULE}"
KNOWN = sorted(config.names("collection"))
SHOWN = [name for at, name in enumerate(KNOWN) if len(", ".join(KNOWN[: at + 1])) <= LONGEST_LIST]
COLLECTIONS = f"{', '.join(SHOWN)} and {len(KNOWN) - len(SHOWN)} more"
DAMAGED = "compressed file is cut short or damaged"


def line(
    topic: str = "M.1", q0: str = "Q0", doc: str = "d", rank: str = "1", score: str = "1.5", tag: str = "t"
) -> str:
    return f"{topic}\t{q0}\t{doc}\t{rank}\t{score}\t{tag}\n"


RUN_FILES: dict[str, tuple[str | bytes, tuple[str, ...]]] = {
    "seven columns": (line(tag="t x"), (f"bad.run:1: 7 columns, {LAYOUTS}",)),
    "three columns": ("M.1 d 1.5\nM.1 e 1.4\n", (f"bad.run:1: 3 columns, {LAYOUTS}",)),
    "a web page": ("<html><title>Not found</title></html>\n", (f"bad.run:1: 2 columns, {LAYOUTS}",)),
    "one line short": (GOOD + "M.1\tQ0\td\t9\t0.1\n", (f"bad.run:7: 5 columns, expected 6 {TREC}",)),
    "NaN": (line(score="nan"), ("bad.run:1: score 'nan' is not a finite number",)),
    "infinities": (
        line(score="inf") + line(doc="e", score="-Infinity") + line(doc="f", score="1e999"),
        (
            "bad.run:1: score 'inf' is not a finite number",
            "bad.run:2: score '-Infinity' is not a finite number",
            "bad.run:3: score '1e999' is not a finite number",
        ),
    ),
    "text score": (line() + line(doc="e", score="high"), ("bad.run:2: score 'high' is not a finite number",)),
    "decimal comma": (line(score="1,5"), ("bad.run:1: score '1,5' is not a finite number",)),
    "duplicate": (
        GOOD + line(doc="x", tag="mine"),
        ("bad.run:7: document 'x' of topic 'M.1' is on line 3 already",),
    ),
    "rank text": (line(rank="first"), ("bad.run:1: rank 'first' is not a whole number of 1 to 8 digits",)),
    "negative rank": (line(rank="-1"), ("bad.run:1: rank '-1' is not a whole number of 1 to 8 digits",)),
    "tag of a line separator": (line(tag="a\u2028b"), (rf"bad.run:1: run tag 'a\u2028b' {TAG}",)),
    "mixed tags": (line() + line(doc="e", tag="u"), ("bad.run:2: run tag 'u' differs from line 1's 't'",)),
    "empty": ("", ("bad.run: empty file, expected at least one line",)),
    "blank": ("\n \t\r\n\n", ("bad.run: empty file, expected at least one line",)),
    "binary": (b"\x00\x7fELF" * 9, ("bad.run:1: binary file: byte 0x00, expected a text table",)),
    "UTF-16": (GOOD.encode("utf-16"), ("bad.run: is UTF-16 text, expected UTF-8",)),
    "undecodable": (line().encode() + b"M.1\tQ0\tg\xe9om\t2\t1\tt\n", ("bad.run:2: byte 0xe9 is not UTF-8 text",)),
    "cut gzip": (
        gzip.compress(GOOD.encode())[:-20],
        (f"bad.run: {DAMAGED}: it ends inside of a gzip member",),
    ),
    "no real gzip": (b"\x1f\x8bno gzip at all", (f"bad.run: {DAMAGED}: a gzip member: unknown compression method",)),
    "cut xz": (
        lzma.compress(GOOD.encode())[:-20],
        (f"bad.run: {DAMAGED}: it ends inside of an xz stream",),
    ),
    "unknown topics": (
        line() + line(topic="A.1") + line(topic="A.2"),
        (
            "bad.run:2: topic 'A.1' is not among the collection's topics",
            "bad.run:3: topic 'A.2' is not among the collection's topics",
        ),
    ),
    "five columns with Q0": (
        "M.1\tQ0\td\t1.5\tt\n",
        (FIVE,),
    ),
    "odd constant column 2": (
        line(q0="run") + line(q0="run", doc="e"),
        (f"bad.run: column 2 is 'run' on every line, neither Q0, 0, _ nor formula ids; {WHICH}",),
    ),
    "odd column 2": (GOOD + line(q0="Q1", tag="mine"), ("bad.run:7: column 2 is 'Q1', expected Q0, 0 or _",)),
    "long document id": (line(doc="d" * 300), ("bad.run:1: document id of 300 bytes, at most 255",)),
    "header": (
        "topic\tQ0\tdoc\trank\tscore\tt\n" + line(),
        (
            "bad.run:1: score 'score' is not a finite number",
            "bad.run:1: rank 'rank' is not a whole number of 1 to 8 digits",
            "bad.run:1: topic 'topic' is not among the collection's topics",
        ),
    ),
    "many faults": (
        "".join(line(doc=f"d{i}", score="?") for i in range(50)),
        ("bad.run:1: score '?' is not a finite number (and 49 more: 2, 3, 4, 5, 6, ...)",),
    ),
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


@pytest.fixture(scope="module")
def run_faults(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What one command says of all the broken run files at once."""
    place = Place(tmp_path_factory.mktemp("runs"))
    earlier(place)
    for kind, (content, _) in RUN_FILES.items():
        place.write(f"{kind}.run", content)
    before = place.files()
    done = place.run("score", *(f"{kind}.run" for kind in RUN_FILES), "-c", "mini-task1", "-o", "reports")
    assert (done.code, done.out) == (2, "")
    assert place.files() == before
    return done.err.splitlines()


@pytest.mark.parametrize("kind", RUN_FILES)
def test_run_files(run_faults: list[str], kind: str) -> None:
    found = [fault for fault in run_faults if fault.startswith(f"harness: {kind}.run:")]
    assert found == [f"harness: {fault.replace('bad.run', f'{kind}.run')}" for fault in RUN_FILES[kind][1]]


def test_nothing_else_is_said_of_run_files(run_faults: list[str]) -> None:
    assert len(run_faults) == sum(len(faults) for _, faults in RUN_FILES.values())


@pytest.mark.parametrize("kind", ["NaN", "cut gzip", "unknown topics"])
def test_one_run_file(place: Place, kind: str) -> None:
    content, faults = RUN_FILES[kind]
    place.write("bad.run", content)
    assert refused(place, ("score", "bad.run", "-c", "mini-task1", "-o", "reports"), *faults) == ""


@pytest.mark.parametrize(("command", "fault"), refusals("options"))
def test_names_and_options(place: Place, command: str, fault: str) -> None:
    assert (
        refused(place, tuple(shlex.split(command)), fault.replace("{COLLECTIONS}", COLLECTIONS)) == ""
        or "one.txt/" in command
    )
