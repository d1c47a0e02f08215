"""What is wrong with files that must be fetched or written."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from archive_tools import tar
from broken_tools import COLLECTION, QRELS, RUN, SCORE, place, refused
from tools import Place

__all__ = ["place"]

EARLIER = '<meta name="generator" content="mathir-harness">an earlier report'
COMMIT = "0123456789abcdef0123456789abcdef01234567"
ARCHIVE = f"mirror/github.com/owner/name/{COMMIT}.tar.xz"

# --- files that are fetched ---


def fetched(place: Place, content: bytes = QRELS, **source: str) -> None:
    """Let the judgments of the person's collection come from a source instead of a file."""
    digest = hashlib.sha256(content).hexdigest()
    about = "".join(f"{key}: {value}\n" for key, value in source.items())
    entry = f"files:\n  judged.txt: {{sha256: {digest}, size: {len(content)}}}\n"
    place.write("conf/source/theirs.yaml", f"title: Theirs\nlicence: MIT\n{about}{entry}")
    changed = COLLECTION.replace("{file: ../../judged.txt}", "{source: theirs, path: judged.txt}")
    place.write("conf/collection/mine.yaml", changed)


def packed(content: bytes) -> bytes:
    """An archive as the mirror holds it."""
    return tar({f"name-{COMMIT}/judged.txt": content})


@pytest.mark.slow
def test_a_mirror_that_is_not_there(place: Place) -> None:
    fetched(place, repository="owner/name", commit=COMMIT)
    refused(place, SCORE, "HARNESS_MIRROR: no such folder: nowhere", {"HARNESS_MIRROR": "nowhere"})
    refused(place, ("list", "collections"), "HARNESS_MIRROR: no such folder: nowhere", {"HARNESS_MIRROR": "nowhere"})


def test_a_wrong_checksum(place: Place) -> None:
    fetched(place, content=b"T1 0 a 1\nT1 0 b 2\n", repository="owner/name", commit=COMMIT)
    place.write(ARCHIVE, packed(QRELS))
    expected, found = (hashlib.sha256(text).hexdigest() for text in (b"T1 0 a 1\nT1 0 b 2\n", QRELS))
    wrong = f"expected sha256 {expected}, found {found} in {ARCHIVE}; nothing was kept"
    refused(place, SCORE, f"owner/name@0123456/judged.txt: {wrong}", {"HARNESS_MIRROR": "mirror"})
    assert not [path for path in place.cache.rglob("*") if path.is_file()]


# --- files that are written ---


@pytest.mark.slow
def test_runs_below_a_file(place: Place) -> None:
    before = place.files()
    done = place.run(*RUN, "runs=good.run/runs")
    fault = f"{place.here}/good.run: cannot be written: Not a directory"
    assert (done.code, done.out, done.err) == (2, "", f"harness: {fault}\n")
    assert place.files() == before


@pytest.mark.slow
def test_a_disk_that_is_full_before_the_run_is_written(place: Place) -> None:
    before = place.files()
    done = place.run(*RUN, largest=4096)
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith("harness: runs/mini-task1: cannot be written: File too large\n")
    assert "running overlap" not in done.err
    assert place.files() == before


@pytest.mark.slow
def test_a_disk_that_is_full_before_the_report_is_written(place: Place) -> None:
    earlier = place.write("reports/mini-task1/mine/index.html", EARLIER)
    arguments = ("run", "collection=mini-task1", "system=external", "system.path=good.run", "formats=[html]")
    done = place.run(*arguments, largest=70_000)
    fault = "reports/mini-task1/mine/index.html: cannot be written: File too large"
    assert (done.code, done.err) == (2, f"running External on mini-task1\nharness: {fault}\n")
    assert earlier.read_text() == EARLIER
    assert {path.name for path in (place.here / "reports").rglob("*") if path.is_file()} == {"index.html"}
    # The run is whole, and `score` takes it.
    assert {name for name in place.files("runs") if name.endswith(".run")} == {
        "runs/mini-task1/mine.run",
        "runs/mini-task1/overlap.run",
    }
    place.good("score", "runs/mini-task1/mine.run", "-c", "mini-task1")


@pytest.mark.slow
def test_standard_output_that_is_full(place: Place) -> None:
    with Path("/dev/full").open("w") as full:
        done = place.run("list", out=full)
    assert (done.code, done.err) == (2, "harness: the output cannot be written: No space left on device\n")
