"""Damaged archives, configurations, copies and stores end well, or with a line; more of it: `make fuzz`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def fuzz(kinds: str, cases: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--cases", str(cases), "--kinds", kinds],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"0 of {cases} cases ended badly" in done.stdout


def test_damaged_archives() -> None:
    fuzz("archives", 60)


def test_damaged_configurations() -> None:
    fuzz("configurations", 60)


def test_damaged_copies() -> None:
    """Files in the cache, and runs that are used again."""
    fuzz("copies", 20)


def test_damaged_stores() -> None:
    fuzz("stores", 60)
