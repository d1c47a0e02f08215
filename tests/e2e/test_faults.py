"""Commands that are killed, without room on the disk, memory or rights; more of it: `python -m tests.faults`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _end_well(faults: str, commands: str) -> None:
    """One case of each fault and command."""
    names = commands.split(",")
    command = [sys.executable, "-m", "tests.faults", "--seed", "3", "--once", "--faults", faults]
    command += ["--commands", commands]
    command += ["--cases", str(len(names)), "--others", str(len(names))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    left = len(faults.split(",")) - done.stdout.count("skipped: ")
    assert f"0 of {len(names) * left} cases ended badly" in done.stdout


@pytest.mark.heavy
def test_commands_killed_at_a_change_of_a_file() -> None:
    _end_well("kill at a change", "run bm25,sweep,experiment,build,submit,fetch")


@pytest.mark.heavy
def test_other_faults() -> None:
    _end_well("disk,read-only,memory", "run bm25")
