"""A lab's static site: CPU time and memory of building it, and of building it again.

    python -m bench.site [--runs 60] [--teams 60] [--real] [--markdown]

Simulated runs of ARQMath-3 rank the judged documents of each topic among others, half of them with metadata. With
`--real`, the runs are perturbed copies of nine runs of ARQMath-1 participants. The lab and its runs are made first and
not counted. Build times are CPU times of the command `harness site build`; memory is its peak.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import yaml

from bench.table import options, show
from harness.data.run_writers import run_text
from harness.data.trec import Run, read_run
from harness.experiments.task import Task
from harness.labs.lab import Lab, new_lab
from harness.labs.submit import Offer, submit_run
from harness.sources import catalogue
from harness.sources.fetch import fetch_resources

DEPTH = 1000  # results of a simulated run for a topic
METHODS = ("BM25 over text", "dense bi-encoder", "operator trees", "interpolation of two runs")


def simulated(number: int, judged: Mapping[str, Sequence[str]], docs: Sequence[str]) -> Run:
    """A run: judged documents of each topic among others; the higher the number, the more of them."""
    draw = random.Random(number)
    skill = 0.2 + 0.6 * draw.random()
    ranked = {}
    for topic, own in judged.items():
        found = [doc for doc in own if draw.random() < skill]
        others = draw.sample(docs, min(len(docs), DEPTH))
        mixed = list(dict.fromkeys(draw.sample([*found, *others], len(found) + len(others))))[:DEPTH]
        ranked[topic] = {doc: float(DEPTH - rank) for rank, doc in enumerate(mixed)}
    return Run.from_dict(f"run-{number}", ranked)


def perturbed(number: int, given: Run) -> Run:
    """A copy of a run with other ranks: the lower a result, the further it moves; one in twenty is lost."""
    draw = random.Random(number)
    ranked: dict[str, dict[str, float]] = {}
    kept: dict[str, list[str]] = {}
    for topic, doc in zip(given.topic.tolist(), given.doc.tolist(), strict=True):
        kept.setdefault(given.topics[topic], []).append(doc.decode())
    for topic, docs in kept.items():
        ranked[topic] = {
            doc: -(rank + draw.gauss(0, 0.5 + 0.3 * rank))
            for rank, doc in enumerate(docs)
            if rank == 0 or draw.random() > 0.05
        }
    return Run.from_dict(f"run-{number}", ranked)


def real_runs() -> list[Run]:
    """The nine public runs of ARQMath-1 Task 1."""
    return [read_run(path) for path in fetch_resources(catalogue.source_files("arqmath-psu"))]


def made_lab(folder: Path, runs: int, teams: int, real: Sequence[Run]) -> Lab:
    """A lab with simulated runs of ARQMath-3, or perturbed copies of real ones of ARQMath-1."""
    collection = "arqmath-1-task1" if real else "arqmath-3-task1"
    lab = new_lab(folder / "lab", {"title": "Bench", "collection": collection})
    task: Task = lab.task()
    judged = {topic: sorted(docs) for topic, docs in task.scorer.qrels.to_dict().items()}
    docs = sorted({doc for own in judged.values() for doc in own})
    for number in range(runs):
        path = folder / f"run-{number}.run"
        run = perturbed(number, real[number % len(real)]) if real else simulated(number, judged, docs)
        path.write_text(run_text(run))
        if number % 2:
            retrieval = [{"name": f"system {number}", "method": METHODS[number % 4]}]
            costs = {"latency": {"mean": f"{10 + 37 * number} ms"}, "parameters": 1_000_000 * (1 + number)}
            text = yaml.safe_dump({"method": {"retrieval": retrieval}, "resources": costs})
            path.with_suffix(".ir-metadata.yml").write_text(text)
        offer = Offer(path, f"team{number % teams}", f"run-{number}", description="A simulated run.")
        submit_run(lab, offer, bench=task, now=datetime(2026, 1, 1, tzinfo=UTC))
        path.unlink()
    return lab


def built(lab: Lab, output: Path) -> tuple[float, float, str]:
    """CPU seconds and peak memory in MiB of one build, and what it prints last."""
    command = [sys.executable, "-m", "harness", "site", "build", str(lab.folder), "--output", str(output), "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, said
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, said.strip().splitlines()[-1]


def main() -> None:
    """Print the table."""
    parser = options(__doc__)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--teams", type=int, help="default: as many as runs")
    parser.add_argument("--real", action="store_true", help="perturbed copies of the public runs of ARQMath-1")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = measured(Path(name), asked.runs, asked.teams or asked.runs, asked.real)
    show([("what", "value"), *((what, f"{value:,}") for what, value in found.items())], asked.markdown)


def measured(folder: Path, runs: int, teams: int, real: bool) -> dict[str, int | float]:
    """Builds the site twice."""
    lab = made_lab(folder, runs, teams, real_runs() if real else ())
    first, memory, _ = built(lab, folder / "site")
    again, _, said = built(lab, folder / "site")
    assert ": 0 files written" in said, said
    assert said.endswith(" 0 deleted"), said
    files = [path for path in (folder / "site").rglob("*") if path.is_file()]
    return {
        "runs": runs,
        "teams": teams,
        "topics": sum(path.match("lab/topics/*.html") for path in files) - 1,  # without their index
        "results": sum(1 for path in lab.folder.rglob("run.txt") for _ in path.open("rb")),
        "files": len(files),
        "size, MiB": round(sum(path.stat().st_size for path in files) / 2**20),
        "build, CPU s": round(first, 1),
        "build again, nothing written, CPU s": round(again, 1),
        "peak memory, MiB": round(memory),
    }


if __name__ == "__main__":
    main()
