"""One row of each paper's main table, rehearsed at a scale: time, memory, disk; each step killed once, then resumed.

    python bench/rehearsal.py [--scale 1/100] [--folder rehearsal-large] [PAPER ...]
    python bench/rehearsal.py mirmu-msm --row "2: msm 4: tf-idf + BM25"

Each row is rehearsed twice. In the second rehearsal, every step is killed (SIGKILL to all its processes) after half of
the seconds that it took in the first, and the same command is called again. Both must end with the same runs, byte by
byte.
The table is printed as Markdown; `bench/results/rehearsal.md` has one.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from harness.io.files import sha256_file
from harness.papers.steps import file_name

ROWS = {
    "crossmath": "*: NLLB + Bi-encoder, Spanish",
    "mathamr-plus": "4.19*: Ours / MathAMR+",
    "mirmu-msm": "2: mirmu 1: Base",
    "mathlib4": "6: with query augmentation | E5_mistral-7b / formal corpus",
    "saber-math": "*: BGE-m3",
}


def started(paper: str, row: str, scale: str, folder: Path) -> subprocess.Popen[bytes]:
    """Starts a rehearsal in a group of processes of its own."""
    words = [sys.executable, "-m", "harness", "rehearse", paper, "--rows", row, "--scale", scale]
    with (folder.parent / f"{folder.name}-{paper}.log").open("ab") as log:
        return subprocess.Popen(
            [*words, "--folder", str(folder)], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def done(folder: Path, paper: str) -> list[dict[str, Any]]:
    """Returns the results of a rehearsal's steps."""
    found = (folder / paper / "work/runs/making" / paper / "steps").glob("*.json")
    return [json.loads(path.read_text()) for path in found]


def killed(paper: str, row: str, scale: str, folder: Path, seconds: dict[str, float]) -> int:
    """Rehearse a row in which every step is killed once; returns how many were."""
    hit: set[Path] = set()
    process = started(paper, row, scale, folder)
    while process.poll() is None:
        time.sleep(0.02)
        for path in (
            set((folder / paper / "work/runs/making" / paper / "logs").glob("*.txt")) - hit
        ):  # a step that has just begun
            hit.add(path)
            time.sleep(seconds[path.stem] / 2)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process = started(paper, row, scale, folder)
    if process.returncode:
        raise SystemExit(f"{paper}: ended with exit code {process.returncode}, see {folder}-{paper}.log")
    return len(hit)


def runs(folder: Path) -> dict[str, str]:
    """Returns run file -> checksum."""
    return {str(path.relative_to(folder)): sha256_file(path) for path in sorted(folder.rglob("*.run"))}


def size(folder: Path) -> float:
    """Returns the MB of all files below a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def main() -> None:
    """Prints the table; exit code 1 if the runs of a killed rehearsal differ."""
    parser = argparse.ArgumentParser()
    parser.add_argument("papers", nargs="*", default=list(ROWS))
    parser.add_argument("--scale", default="1/100")
    parser.add_argument("--folder", type=Path, default=Path("rehearsal-large"))
    parser.add_argument("--row", help="another row than that of ROWS")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    print("| paper | row | steps | seconds | CPU seconds | memory, MB | disk, MB | killed steps | runs | same bytes |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---|")
    differ = False
    for paper in given.papers:
        whole, cut = given.folder.absolute() / "whole", given.folder.absolute() / "killed"
        row, begin = given.row or ROWS[paper], time.monotonic()
        if started(paper, row, given.scale, whole).wait():
            raise SystemExit(f"{paper}: failed, see {whole}-{paper}.log")
        elapsed = time.monotonic() - begin
        steps = done(whole, paper)
        kills = killed(paper, row, given.scale, cut, {file_name(step["step"]): step["seconds"] for step in steps})
        first, second = (runs(folder / paper / "work" / "runs") for folder in (whole, cut))
        differ |= first != second
        fields = [
            paper,
            row.removeprefix("*: ").replace("|", r"\|"),
            str(len(steps)),
            f"{elapsed:.0f}",
            f"{sum(step['cpu'] for step in steps):.0f}",
            f"{max(step['memory'] for step in steps) / 1e6:,.0f}",
            f"{size(whole / paper):,.0f}",
            str(kills),
            str(len(first)),
            "yes" if first == second else "no",
        ]
        print(f"| {' | '.join(fields)} |", flush=True)
    sys.exit(differ)


if __name__ == "__main__":
    main()
