"""The benchmark of full size: its generated inputs, what it measures, and what it extrapolates."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from bench.full_size import made
from bench.full_size.__main__ import RESULTS, Limits, run
from bench.full_size.paths import ROUTES, Route
from bench.full_size.tables import Growth, Record, as_records, tables
from harness.collections.corpora import corpus_reader
from harness.collections.corpus import Corpus
from harness.formulas.opt.read import read_latex
from harness.systems.dense.maxsim import Vectors

ROOT = Path(__file__).parents[2]
SCALES = ("1/20000", "1/10000")


@pytest.mark.slow
def test_generated_posts_are_read_like_the_organisers_file_and_depend_on_the_seed(tmp_path: Path) -> None:
    formulas = made.posts(tmp_path / "a.xml", 300)
    made.posts(tmp_path / "b.xml", 300)
    made.posts(tmp_path / "c.xml", 300, seed=5)
    assert (tmp_path / "a.xml").read_bytes() == (tmp_path / "b.xml").read_bytes() != (tmp_path / "c.xml").read_bytes()
    corpus = Corpus(
        "posts", "", "", tmp_path / "a.xml", keep=("question", "accepted"), reader=corpus_reader("arqmath-posts")
    )
    answers = list(corpus)
    assert 140 < len(answers) < 210
    assert corpus.remarks().get("answers without their question", 0) == 0
    words = [len(answer.body.split()) for answer in answers]
    assert 40 < np.median(words) < 110
    assert any(answer.columns["accepted"] == "yes" for answer in answers)
    found = [formula.id for answer in answers for formula in answer.formulas]
    assert 0 < len(set(found)) <= formulas


@pytest.mark.slow
def test_frequent_formulas_are_short_and_most_distinct_ones_occur_once() -> None:
    found = list(made.formulas(20_000))
    often = Counter(found)
    assert 10_000 < len(often) < 15_000  # 6,362 of 10,000 and 16,523 of 30,000 real ones
    assert max(len(text) for text, _ in often.most_common(10)) == 1
    assert sum(count == 1 for count in often.values()) > 0.7 * len(often)
    some = list(often)[:500]
    readings = [read_latex(text) for text in some]
    assert not any(reading.reason for reading in readings)
    assert 12 < np.mean([len(reading.tree) for reading in readings]) < 26


def test_distinct_formulas_are_distinct(tmp_path: Path) -> None:
    assert made.distinct_formulas(tmp_path / "distinct.txt", 3000) == 3000
    assert len(set((tmp_path / "distinct.txt").read_text().splitlines())) == 3000


def test_generated_vectors_are_loaded_as_documents(tmp_path: Path) -> None:
    assert made.vector_folder(tmp_path / "vectors", 100) == 6
    vectors = Vectors.load(tmp_path / "vectors")
    assert vectors.values.shape == (6 * made.EACH, made.DIMENSIONS)
    assert np.linalg.norm(vectors.values, axis=1) == pytest.approx(1, abs=1e-5)
    assert vectors.document.tolist() == [made.EACH * n - 1 for n in range(1, 7)]


def test_growth_keeps_a_constant_part_apart_and_follows_a_steeper_power() -> None:
    linear = Growth((100, 12.0), (1000, 30.0))
    assert linear.at(10_000) == pytest.approx(210)
    assert linear.exponent() == pytest.approx(0.398, abs=1e-3)
    assert Growth((10, 1.0), (100, 100.0)).at(1000) == pytest.approx(10_000)
    assert Growth((10, 5.0), (100, 5.0)).at(1000) == 5
    assert Growth((10, 0.0), (100, 5.0)).exponent() is None


def _record(scale: str, cpu: float, stopped: str = "") -> Record:
    items = int(1000 * Fraction(scale))
    return Record(
        "a", scale, items, {"things": items}, cpu, cpu, items * 2**20, items * 2**20, 0, stopped, {"map": cpu}
    )


def test_tables_divide_only_what_is_a_map_and_leave_out_what_was_ended() -> None:
    def work(*_: object) -> None:
        """Never called."""

    inputs = ("none", lambda _folder, _sizes: None)
    routes = {"a": Route("things", "things", {"things": 1000}, inputs, work, split={"map": "items"})}
    records = [_record("1/100", 36.0), _record("1/10", 360.0), _record("1/2", 9.0, "more than 1 GiB of memory")]
    lines = list(tables(records, routes, "a machine"))
    last = [cell.strip() for cell in lines[-1].split("|")]
    assert last[1:6] == ["things", "1,000", "60 min", "56 s", "6 s"]
    assert last[7] == "1.0"
    (ended,) = (line for line in lines if "ended: more than 1 GiB" in line)
    assert "> 9.0" in ended


def test_a_step_that_grows_faster_than_all_is_extrapolated_by_itself() -> None:
    inputs = ("none", lambda _folder, _sizes: None)
    routes = {"a": Route("things", "things", {"things": 1000}, inputs)}
    small, large = _record("1/100", 5.0), _record("1/10", 14.0)
    steps = [{"steep": 0.1, "flat": 4.0, "of it known": 1.0}, {"steep": 10.0, "flat": 4.0, "of it known": 1.0}]
    records = [replace(each, steps=found) for each, found in zip((small, large), steps, strict=True)]
    last = next(reversed(list(tables(records, routes, "a machine"))))
    assert last.split("|")[3].strip() == "17 min"  # 1,000 s of the steep step, 4 s of the flat one


def test_the_page_has_the_tables_of_what_was_measured() -> None:
    content = json.loads(RESULTS.read_text())
    page = RESULTS.with_suffix(".md").read_text()
    assert "\n".join(tables(as_records(content["records"]), ROUTES, content["machine"])) in page


def test_a_process_beyond_its_memory_is_ended_and_said_to_be(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; a = bytearray(200 << 20); time.sleep(60)"]
    spent = run(command, tmp_path, tmp_path / "log", Limits(100 * 2**20, 60))
    assert spent.stopped == "more than 0 GiB of memory"
    assert spent.own > 100 * 2**20
    assert spent.wall < 50


def test_a_process_that_fails_ends_the_measurement(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no such thing')"]
    with pytest.raises(SystemExit, match="ended with 1\nno such thing"):
        run(command, tmp_path, tmp_path / "log", Limits(2**40, 60))


@pytest.mark.heavy
def test_paths_are_measured_once_and_kept(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.full_size", "--json", str(tmp_path / "found.json")]
    command += ["--paths", "posts,vectors,leaderboard", "--scales", ",".join(SCALES)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    first = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    content = json.loads((tmp_path / "found.json").read_text())
    sizes = {"posts": (123, 247), "vectors": (1095, 2190), "leaderboard": (71, 100)}  # of two numbers, each by the root
    there = [(each["path"], each["scale"], each["items"]) for each in content["records"]]
    assert there == [(name, scale, n) for name, two in sizes.items() for scale, n in zip(SCALES, two, strict=True)]
    assert all(each["cpu"] > 0 and each["peak"] >= each["own"] > 2**20 for each in content["records"])
    assert content["records"][3]["disk"] > 2190 * made.DIMENSIONS * 4
    assert content["records"][0]["steps"]["read"] > 0
    again = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert json.loads((tmp_path / "found.json").read_text()) == content
    assert again.stdout == first.stdout
    assert not again.stderr
