"""What is far larger than it looks, and what never ends: one line, exit code 2, and little memory."""

from __future__ import annotations

import lzma
import os
import resource

import pytest
from tools import Place, run_text

GIB = 1 << 30
COLLECTION = """\
name: mine
title: Mine
licence: CC0
protocol: trec_eval
editions: {official: {title: ours, qrels: {file: ../../judged.txt}, topics: 1, judgments: 1}}
topics: {reader: jsonl, file: ../../topics.jsonl}
corpus: mine
"""
CORPUS = "name: mine\ntitle: Mine\nlicence: CC0\nfile: {file: ../../corpus.jsonl}\nfields: {id: id, text: body}\n"
FILES = {
    **{"mine.run": run_text("mine", ["T1"]), "judged.txt": "T1 0 x 1\n"},
    **{"topics.jsonl": '{"id": "T1", "title": "sums"}\n', "corpus.jsonl": '{"id": "x", "text": "sums"}\n'},
}
SCORE = ("score", "mine.run", "-c", "mine")
RUN = ("run", "collection=mine", "corpus=mine", "system=overlap")
RATIO = "unpacks to more than 100 times its size; set HARNESS_MAX_BYTES to raise the limit"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = Place(tmp_path_factory.mktemp("bombs"))
    made.write("conf/collection/mine.yaml", COLLECTION)
    made.write("conf/corpus/mine.yaml", CORPUS)
    made.write("xz.bomb", lzma.compress(bytes(GIB // 64), preset=0) * 256)  # 4 GiB, of many small streams
    os.mkfifo(made.here / "pipe")
    return made


@pytest.fixture
def good(place: Place) -> Place:
    """The place with good files in it."""
    for path, content in FILES.items():
        (place.here / path).unlink(missing_ok=True)
        place.write(path, content)
    return place


def stopped(place: Place, *arguments: str) -> str:
    """The one line of a command that is refused, having taken less than 1 GiB of memory.

    Linux counts what the parent had before the program began as the child's: beside large tests the limit is that.
    """
    process = place.start(*arguments, environment={"HARNESS_PIPE_SECONDS": "0.2"})
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.communicate()
    assert process.returncode == 2, said
    parent = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB
    assert used.ru_maxrss <= max(GIB // 1024, parent)
    # What takes long may show its progress before.
    (fault,) = (line for line in said.splitlines() if line.startswith("harness: "))
    assert said.endswith(f"{fault}\n")
    return fault.removeprefix("harness: ").replace(f"{place.here}/", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "what", "said"),
    [
        ("mine.run", "xz.bomb", f" {RATIO}"),
        ("judged.txt", "xz.bomb", f" {RATIO}"),
        ("topics.jsonl", "xz.bomb", f" {RATIO}"),
        ("corpus.jsonl", "xz.bomb", "1: longer than 67108864 bytes"),
        ("judged.txt", "pipe", " cannot be read: is a pipe, and nobody wrote to it for 0.2 s"),
        ("corpus.jsonl", "/dev/zero", " is a device, expected a file"),
    ],
)
def test_what_is_of_4_gib_or_never_ends(good: Place, file: str, what: str, said: str) -> None:
    (good.here / file).unlink()
    (good.here / file).symlink_to(what)
    assert stopped(good, *(RUN if file == "corpus.jsonl" else SCORE)) == f"{file}:{said}"
