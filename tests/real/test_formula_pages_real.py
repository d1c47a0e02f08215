"""Formulas of pages as a corpus that brings its own keys: judged by visual ids, in runs and in `harness score`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.collections.corpora import load_corpus
from harness.data.trec import read_run
from harness.experiments.task import task

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("mirror")]

COVERED = {1: (320, 6_074), 2: (644, 8_115), 3: (934, 11_538)}


@pytest.mark.heavy
@pytest.mark.parametrize("year", COVERED)
def test_judgments_are_cut_to_the_visual_ids_of_the_corpus(year: int) -> None:
    found = task(f"arqmath-{year}-task2", "mse-formulas")
    assert found.coverage is not None
    assert (found.coverage.present, found.coverage.pairs) == COVERED[year]
    assert found.keys == load_corpus("mse-formulas").keys()


@pytest.mark.heavy
def test_score_takes_the_keys_of_the_corpus(tmp_path: Path) -> None:
    found = task("arqmath-3-task2", "mse-formulas")
    assert found.keys is not None
    judged = found.scorer.qrels.to_dict()
    place = {visual: formula for formula, visual in found.keys.items()}
    # For each topic its best formula that is there, so the first rank is judged and relevant.
    first = {topic: place[max(grades, key=lambda v: grades[v])] for topic, grades in judged.items()}
    path = tmp_path / "one.run"
    path.write_text("".join(f"{topic} Q0 {formula} 1 1.0 one\n" for topic, formula in first.items()))
    program = Path(sys.executable).with_name("harness")
    options = ["-c", "arqmath-3-task2", "--corpus", "mse-formulas", "--measures", "Judged@10,P@10"]
    done = subprocess.run([program, "score", path, *options], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert f"judged and present: {COVERED[3][0]} of {COVERED[3][1]:,} pairs" in done.stdout
    scores = found.scorer(read_run(path))
    assert scores.mean("Judged@10") == 1.0
    assert re.search(r"one +1\.0000 +0\.1000 +76/61", done.stdout)
