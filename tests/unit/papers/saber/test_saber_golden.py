"""The builder's definitions against golden records of the authors' functions (`tests/tools/saber_golden.py`).

`tests/data/saber-golden.json` has made-up problems and two tournaments, with what functions of `nygeorgiev/sabermath`
at 9f015a7 return for them; the mirror has such records of 800 problems of MATH and of three tournaments.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from saber_golden import compare, read

DATA = Path(__file__).parents[3] / "data" / "saber-golden.json"
TOOL = Path(__file__).parents[3] / "tools" / "saber_golden.py"
MIRRORED = "derived/saber-authors-selection.json.xz"


def test_all_records_of_the_sample_are_equal() -> None:
    for each in compare(read(DATA)):
        assert each.equal == each.records > 0, each.kind


@pytest.mark.slow
def test_all_records_of_the_mirror_are_equal() -> None:
    path = Path(os.environ.get("HARNESS_MIRROR", "/nowhere")) / MIRRORED
    if not path.is_file():
        pytest.skip(f"no {MIRRORED} in the mirror")
    counts = compare(read(path))
    assert {each.kind: each.records for each in counts}["best-match averages"] == 20_000
    for each in counts:
        assert each.equal == each.records, each.kind


@pytest.mark.slow
def test_a_record_that_differs_is_counted(tmp_path: Path) -> None:
    records = read(DATA)
    records["selection"]["problems"][0]["words"].append("the")
    records["selection"]["pairs"][0][3] += 0.01
    records["swiss"][0]["rounds"][1]["scores"]["c0"] += 1
    (tmp_path / "other.json").write_text(json.dumps(records))
    done = subprocess.run([sys.executable, TOOL, tmp_path / "other.json"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    lines = dict(line.split(": ") for line in done.stdout.splitlines())
    assert lines["words of ideas"] == "9 of 10 equal"
    assert lines["Jaccard similarities"] == "44 of 45 equal"
    assert lines["scores before a round"] == "11 of 12 equal"
    assert lines["tags kept"] == "10 of 10 equal"
