"""Readers in a module of the current folder: imported by what reads, and never by what only looks."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_tools import explored
from tools import Place, run_text

READERS = """
import pathlib

from harness.collections.corpus import Document
from harness.data.topics import Topic

pathlib.Path("imported").touch()


def topics(data, path, language):
    return [Topic(*line.split(" ", 1)) for line in data.decode().splitlines()]


def judgments(data, path, edition):
    return {"T1": {"a": 1, "b": 0}, "T2": {"b": 2}}


def documents(paths):
    for line in paths[0].read_text().splitlines():
        yield Document(*line.split(" ", 1))
"""
COLLECTION = """
name: theirs
title: Theirs
licence: CC0
protocol: trec_eval
editions:
  first: {title: E, qrels: {reader: "own_readers:judgments", file: j.txt}, topics: 2, judgments: 3}
topics: {reader: "own_readers:topics", file: t.txt}
corpus: theirs
"""
RUN = ("run", "collection=theirs", "corpus=theirs", "system=overlap", "formats=[json]")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    text = "name: theirs\ntitle: Theirs\nlicence: CC0\nreader: own_readers:documents\nfile: {file: d.txt}\n"
    made.lay({"own_readers.py": READERS, "conf/collection/theirs.yaml": COLLECTION, "conf/collection/j.txt": ""})
    made.write("conf/collection/t.txt", "T1 the sum of integers\nT2 a root\n")
    made.lay({"conf/corpus/theirs.yaml": text, "conf/corpus/d.txt": "a sum of squares\nb root of two\nc integers\n"})
    return made


def imported(place: Place) -> bool:
    """Whether the module was imported since this was asked before."""
    mark = place.here / "imported"
    found = mark.exists()
    mark.unlink(missing_ok=True)
    return found


@pytest.mark.slow
def test_what_reads_imports_them(place: Place) -> None:
    assert "overlap" in place.good(*RUN)
    assert imported(place)
    run = "runs/theirs/overlap.run"
    place.write("other.run", run_text("other", ("T1", "T2"), ("c", "b", "a")))
    for command in (("score", run), ("score", run, "--corpus", "theirs"), ("compare", run, "other.run", "-o", "out")):
        printed = place.good(*command, "--collection", "theirs", "--measures", "RR")
        assert "overlap  1.0000  2        0" in printed
        assert imported(place)
    assert "root of two" in explored((place.here / "out" / "index.html").read_text())


@pytest.mark.heavy
def test_what_looks_does_not(place: Place) -> None:
    place.write("mini.run", run_text())
    looks = ("list --json", "show collection theirs", "show corpus theirs", "doctor", "fetch --probe theirs", "--help")
    for command in (*looks, "score mini.run --collection mini-task1 -o out"):
        place.good(*command.split())
        assert not imported(place)


@pytest.mark.slow
def test_check_runs_no_code_of_the_current_folder(place: Place) -> None:
    place.write("mini.run", run_text("mini", ("T1", "T2"), ("a", "b")))
    place.good("check", "mini.run")
    for more in (("--collection", "theirs"), ("--corpus", "theirs")):
        done = place.run("check", "mini.run", *more)
        assert (done.code, done.err.count("\n"), "module 'own_readers' is not installed" in done.err) == (2, 1, True)
        assert not imported(place)


@pytest.mark.slow
def test_a_run_is_made_again_when_its_reader_changed(place: Place) -> None:
    said = [place.run(*RUN).err, place.run(*RUN).err]
    place.write("own_readers.py", READERS.replace("yield Document", "yield  Document"))
    said.append(place.run(*RUN).err)
    assert ["reused, same configuration" in text for text in said] == [False, True, False]


@pytest.mark.slow
def test_faults_are_one_line(place: Place) -> None:
    place.good(*RUN)
    run = "runs/theirs/overlap.run"
    place.write("own_readers.py", READERS.replace("line.split", "line.splitt"))
    path = place.here / "conf/collection/t.txt"
    said = f"AttributeError: 'str' object has no attribute 'splitt' ({place.here}/own_readers.py, line 11)"
    for command in (("score", run, "--collection", "theirs"), RUN):
        done = place.run(*command)
        assert (done.code, done.err) == (2, f"harness: {path}: reader own_readers:topics: {said}\n")
    (place.here / "own_readers.py").unlink()
    lost = "module 'own_readers' is not installed"
    assert place.refused("score", run, "--collection", "theirs") == [  # told together
        f"{path.with_stem('j')}: reader own_readers:judgments: {lost}",
        f"{path}: reader own_readers:topics: {lost}",
    ]
