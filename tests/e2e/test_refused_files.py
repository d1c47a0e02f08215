"""What is wrong with files that must be fetched or written."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from archive_tools import tar
from broken_tools import COLLECTION, QRELS, RUN, SCORE, place, refused
from encoder_models import BROKEN, save
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


def unavailable(place: Place, reason: str, looked: str) -> str:
    return (
        f"owner/name@0123456/judged.txt: {reason}; not in the cache, {looked}; set HARNESS_MIRROR to a folder with "
        f"github.com/owner/name/{COMMIT}.tar.xz, or put the file "
        f"(sha256 {hashlib.sha256(QRELS).hexdigest()}) at {place.cache}/github.com/owner/name/{COMMIT}/judged.txt"
    )


def test_from_a_mirror(place: Place) -> None:
    fetched(place, repository="owner/name", commit=COMMIT)
    place.write(ARCHIVE, packed(QRELS))
    assert "mine, edition official" in place.good(*SCORE[:-2], environment={"HARNESS_MIRROR": "mirror"})


def test_without_a_network(place: Place) -> None:
    fetched(place, repository="owner/name", commit=COMMIT)
    refused(place, SCORE, unavailable(place, "HARNESS_OFFLINE forbids the network", "HARNESS_MIRROR is not set"))


@pytest.mark.slow
def test_a_mirror_that_is_not_there(place: Place) -> None:
    fetched(place, repository="owner/name", commit=COMMIT)
    refused(place, SCORE, "HARNESS_MIRROR: no such folder: nowhere", {"HARNESS_MIRROR": "nowhere"})
    refused(place, ("list", "collections"), "HARNESS_MIRROR: no such folder: nowhere", {"HARNESS_MIRROR": "nowhere"})


def test_a_damaged_archive(place: Place) -> None:
    fetched(place, repository="owner/name", commit=COMMIT)
    place.write(ARCHIVE, b"<html>Not found</html>")
    fault = f"{ARCHIVE}: cannot be read: truncated header"
    refused(place, SCORE, fault, {"HARNESS_MIRROR": "mirror"})
    place.write(ARCHIVE, packed(QRELS)[:100])
    cut = "it ends inside of an xz stream"
    refused(place, SCORE, f"{ARCHIVE}: cannot be read: {cut}", {"HARNESS_MIRROR": "mirror"})
    assert not list(place.cache.rglob("*.txt"))


def test_a_wrong_checksum(place: Place) -> None:
    fetched(place, content=b"T1 0 a 1\nT1 0 b 2\n", repository="owner/name", commit=COMMIT)
    place.write(ARCHIVE, packed(QRELS))
    expected, found = (hashlib.sha256(text).hexdigest() for text in (b"T1 0 a 1\nT1 0 b 2\n", QRELS))
    wrong = f"expected sha256 {expected}, found {found} in {ARCHIVE}; nothing was kept"
    refused(place, SCORE, f"owner/name@0123456/judged.txt: {wrong}", {"HARNESS_MIRROR": "mirror"})
    assert not [path for path in place.cache.rglob("*") if path.is_file()]


def test_a_checksum_that_is_none(place: Place) -> None:
    fetched(place, repository="owner/name", commit="main")
    known = "commit must be 40 lower-case hex digits (empty without a repository), got 'main'"
    refused(place, SCORE, f"{{here}}/conf/source/theirs.yaml: {known}")


@pytest.mark.slow
def test_got_by_hand(place: Place) -> None:
    fetched(place, by_hand="ask the organisers")
    target = place.cache / "files" / "judged.txt"
    digest = hashlib.sha256(QRELS).hexdigest()
    refused(
        place,
        SCORE,
        "judged.txt: must be downloaded manually: ask the organisers; not in the cache, HARNESS_MIRROR is not set; "
        f"set HARNESS_MIRROR to a folder with judged.txt, or put the file (sha256 {digest}) at {target}",
    )
    target.parent.mkdir(parents=True)
    target.write_bytes(QRELS)
    place.good(*SCORE[:-2])


def test_a_cache_that_cannot_be_written_to(place: Place) -> None:
    fetched(place, repository="owner/name", commit=COMMIT)
    place.write(ARCHIVE, packed(QRELS))
    place.cache.write_text("a file where the folder should be")
    target = f"{place.cache}/github.com/owner/name/{COMMIT}/judged.txt"
    refused(place, SCORE, f"{target}: cannot be written: Not a directory", {"HARNESS_MIRROR": "mirror"})


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


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["cross_encoder.CrossEncoder", "bi_encoder.BiEncoder"])
def test_a_model_to_train_that_has_the_tokenizer_of_another_one(place: Place, kind: str) -> None:
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed (extra sentences)")
    damage, said = BROKEN["vocabulary"]
    damage(save(place.here / "model"))
    training = "{collections: [mini-task2], leave_out: [mini-task1], additional: 0, length: 16}"
    system = f"_target_: harness.systems.dense.{kind}\nname: tuned\nmodel: model\ntraining: {training}\n"
    place.write("conf/system/tuned.yaml", f"title: Tuned\n{system}device: cpu\n")
    before = place.files("model", "runs")
    done = place.run("run", "collection=mini-task1", "corpus=mini-answers", "system=tuned")
    fault = f"model model: tokenizer.json: its tokenizer has 105 word pieces, its weights 104{said}"
    lines = [line for line in done.err.splitlines() if not line.startswith("making ")]  # how long, on a busy machine
    assert (done.code, done.out, lines) == (2, "", ["running tuned on mini-task1", f"harness: {fault}"])
    assert place.files("model", "runs") == before


@pytest.mark.slow
def test_standard_output_that_is_full(place: Place) -> None:
    with Path("/dev/full").open("w") as full:
        done = place.run("list", out=full)
    assert (done.code, done.err) == (2, "harness: the output cannot be written: No space left on device\n")


@pytest.mark.slow
def test_a_disk_that_is_full_leaves_the_whole_earlier_report(place: Place) -> None:
    place.write("reports/index.html", EARLIER)
    place.write("reports/tables/means.csv", "earlier means")
    before = place.files()
    done = place.run("score", "good.run", "-c", "mini-task1", "-o", "reports", largest=4096)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert done.err.endswith(": cannot be written: File too large\n")
    assert place.files() == before
