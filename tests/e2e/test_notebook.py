"""The notebooks of examples/ run from the first cell to the last, on the embedded data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import harness

ROOT = Path(harness.__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs(tmp_path: Path, path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--nbmake",
        str(path),
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(
        [*command, "-c", "/dev/null", "--rootdir", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
