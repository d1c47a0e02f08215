"""Two machines on one store, killed and paused at random; more of it: `python -m tests.interleavings --cases 1000`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _ends_well(cases: int, seed: int) -> None:
    command = [sys.executable, "-m", "tests.interleavings", "--cases", str(cases), "--seed", str(seed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"0 of {cases} cases ended badly" in done.stdout


@pytest.mark.slow
def test_a_few_interleavings() -> None:
    _ends_well(3, 4)


@pytest.mark.slow
def test_interleavings() -> None:
    _ends_well(24, 2)
