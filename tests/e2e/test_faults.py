"""Commands that are killed, without room on the disk, memory or rights; more of it: `python -m tests.faults`."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SMALL = "run bm25,run tree,sweep,experiment,build,submit,fetch"


def _end_well(cases: int, fault: str, commands: str) -> None:
    chosen = ["--faults", fault, "--cases", str(cases), "--others", str(cases), "--commands", commands, "--once"]
    command = [sys.executable, "-m", "tests.faults", "--seed", "3", *chosen]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if "skipped: " in done.stdout and f" of {cases} cases" not in done.stdout:
        pytest.skip(done.stdout.partition("skipped: ")[2].partition("\n")[0])
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"0 of {cases} cases ended badly" in done.stdout


@pytest.mark.slow
def test_commands_killed_at_a_change_of_a_file() -> None:
    _end_well(7, "kill at a change", SMALL)


@pytest.mark.slow
def test_commands_with_models_killed() -> None:
    if importlib.util.find_spec("sentence_transformers") is None:
        pytest.skip("sentence_transformers is not installed (extra sentences)")
    _end_well(3, "kill at a change", "run bi-encoder,training,translation")


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["disk", "read-only", "memory", "clock"])
def test_other_faults(fault: str) -> None:
    _end_well(2, fault, "run bm25,fetch")
