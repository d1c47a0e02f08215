"""The report of CrossMath's 60 runs on 244 topics: CPU seconds and bytes, before and now.

    python -m bench.report --markdown --json bench/results/report.json
    python -m bench.report --before ../other-checkout

The report is made of scores (`paper_report`) and written in the formats of `harness reproduce` (html, md, tex, json,
csv); reading and scoring the runs is not measured. Before is the commit `BASE`, taken from the history into a
temporary folder, or another checkout. Each round measures both in new processes, one after the other, alternating. Each
process writes four reports: the first imports what is needed and does not count; of the others, the least seconds of
each part do, since other work on the machine only adds. Medians over the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

from bench.table import ROOT, Ratio, compared, machine, save, show

BASE = "0f4fd9e"
WORK = "report of 60 runs x 244 topics"
# Run in each checkout; uses nothing that only one of them has.
CODE = """
import json, sys, tempfile, time
from pathlib import Path
from harness.papers.paper import load_paper
from harness.papers.reproduce import reproduce
from harness.papers.report.paper import paper_report
from harness.store.provenance import provenance
found = reproduce(load_paper("crossmath"), lambda *rest: None, lambda items, *rest: items)
files = provenance(found.files)
least = {}
for round in range(4):
    spent, sizes = {}, {}
    start = time.process_time()
    report = paper_report(found, files, 0.05, 0)
    spent["sections"] = time.process_time() - start
    with tempfile.TemporaryDirectory() as folder:
        for name in ("html", "json", "csv", "md", "tex"):
            start = time.process_time()
            report.write(Path(folder) / name, [name])
            spent[name] = time.process_time() - start
            sizes[name] = sum(path.stat().st_size for path in (Path(folder) / name).rglob("*") if path.is_file())
    if round:
        least = {name: min(least.get(name, seconds), seconds) for name, seconds in spent.items()}
print(json.dumps([least, sizes]))
"""
Measured = tuple[dict[str, float], dict[str, int]]


def measured(checkout: Path) -> Measured:
    """CPU seconds and bytes of each part, by the code of a checkout."""
    environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, check=False)
    if done.returncode:
        sys.exit(done.stderr.decode())
    spent, sizes = json.loads(done.stdout.splitlines()[-1])
    return spent, sizes


def unpacked(commit: str, folder: Path) -> Path:
    """The files of a commit, in a folder."""
    done = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True)
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def measure(before: Path, rounds: int) -> tuple[list[tuple[str, ...]], list[Ratio]]:
    """The table, and the ratios of the whole report."""
    sides = {"before": before, "now": ROOT}
    found: dict[str, list[Measured]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in list(sides)[:: -1 if number % 2 else 1]:
            found[name].append(measured(sides[name]))
    parts = list(found["now"][0][0])
    rows: list[tuple[str, ...]] = [
        ("part", "before, CPU s", "after, CPU s", "before / after", "before, bytes", "after, bytes", "before / after")
    ]
    seconds = {(name, part): [spent[part] for spent, _ in runs] for name, runs in found.items() for part in parts} | {
        (name, "all"): [sum(spent.values()) for spent, _ in runs] for name, runs in found.items()
    }
    sizes = {name: runs[0][1] | {"all": sum(runs[0][1].values())} for name, runs in found.items()}
    for part in (*parts, "all"):
        old, new = (statistics.median(seconds[name, part]) for name in sides)
        bytes_of = [sizes[name].get(part, 0) for name in sides]
        size = [f"{count:,}" for count in bytes_of] + [f"{bytes_of[0] / bytes_of[1]:.2f}"] if bytes_of[0] else [""] * 3
        rows.append((part, f"{old:.2f}", f"{new:.2f}", f"{old / new:.2f}", *size))
    ratios = [compared(WORK, seconds["now", "all"], seconds["before", "all"], f"commit {BASE}", 2.0)]
    ratios += [
        Ratio(f"{WORK}, {label}", sizes["now"][part], sizes["before"][part], f"commit {BASE}", 2.0, "bytes")
        for part, label in (("all", "all files"), ("html", "the page"), ("json", "report.json"))
    ]
    return rows, ratios


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.add_argument("--json", type=Path, help="file for the ratios")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", type=Path, help=f"another checkout; default: commit {BASE}")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        before = chosen.before.resolve() if chosen.before else unpacked(BASE, Path(folder))
        rows, ratios = measure(before, chosen.rounds)
    show(rows, chosen.markdown)
    print(f"\n{machine(['jinja2', 'latex2mathml'])}")
    if chosen.json:
        save(chosen.json, ratios, ["jinja2", "latex2mathml"])


if __name__ == "__main__":
    main()
