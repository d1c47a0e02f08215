"""Damaged archives, configurations, copies and stores end well, or with a line; more of it: `make fuzz`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CASES = {"archives": 80, "configurations": 60, "copies": 20, "stores": 40}


def test_whatever_is_damaged_ends_well_or_with_a_line() -> None:
    kinds = ",".join(",".join([kind] * (count // 20)) for kind, count in CASES.items())
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--cases", str(sum(CASES.values())), "--kinds", kinds],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 of 200 cases ended badly" in done.stdout
