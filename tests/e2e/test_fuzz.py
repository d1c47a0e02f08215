"""Damaged archives, configurations, copies and stores end well, or with a line; more of it: `make fuzz`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _ends_well(cases: int, kinds: str) -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--cases", str(cases), "--kinds", kinds]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"0 of {cases} cases ended badly" in done.stdout


@pytest.mark.heavy
def test_a_few_damaged_files() -> None:
    _ends_well(6, "archives,archives,configurations,stores")


@pytest.mark.heavy
@pytest.mark.parametrize(("kind", "cases"), [("archives", 20), ("configurations", 15), ("copies", 5), ("stores", 10)])
def test_damaged_files(kind: str, cases: int) -> None:
    _ends_well(cases, kind)
