"""An epoch of the relational encoder beside that of an earlier commit, and a step beside PyTorch Geometric's.

Each commit's code runs in a process of its own, which waits for its turn: the sides alternate, over the same synthetic
pairs (`bench.graph.epoch`), with the same seeds. An epoch of 45,000 pairs has 1,407 steps of 32 pairs; a sample of them
is measured, whose graphs have the distribution of sizes of the whole. Equal mean losses show that both train the same.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from bench import graph
from bench.table import ROOT, Ratio, compared, save, show

BEFORE = "4dfda59"  # the last commit whose convolution on CPUs was differentiated by torch
GOAL = 417 / 250  # CPU seconds of an epoch: before, and asked for
STEPS = 1407  # of an epoch of 45,000 pairs
BATCH = 32
PEER = "FastRGCNConv"

# Runs in the folder of either commit, so it uses only what both have: an epoch for each line that comes in.
WORKER = f"""
import functools, json, sys
import torch
torch.set_num_threads(int(sys.argv[2]))
from bench import graph
from harness.systems.mathamr.training import trainer
graph.training = functools.cache(graph.training)
losses, step = [], trainer.Trainer.step
def kept(*given):
    losses.append(step(*given))
    return losses[-1]
trainer.Trainer.step = kept
for line in sys.stdin:
    losses.clear()
    found = graph.epoch(int(sys.argv[1]), {BATCH}, "cpu")
    print(json.dumps(found | {{"loss": sum(losses) / len(losses)}}), flush=True)
"""


class Side:
    """A process that trains with the code in a folder, one epoch at a time."""

    def __init__(self, folder: Path, pairs: int, threads: int) -> None:
        command = [sys.executable, "-c", WORKER, str(pairs), str(threads)]
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=folder, env=environment)

    def epoch(self) -> dict[str, float]:
        """Trains an epoch from the same initial weights; returns steps, CPU and wall seconds, and the mean loss."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        found: dict[str, float] = json.loads(self.process.stdout.readline())
        return found

    def end(self) -> None:
        """Ends the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def exported(commit: str, folder: Path) -> Path:
    """Writes the files of a commit that an epoch needs."""
    archive = subprocess.run(
        ["git", "archive", commit, "harness", "bench"], cwd=ROOT, check=True, stdout=subprocess.PIPE
    )
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


def epochs(against: str, pairs: int, threads: int, rounds: int) -> dict[str, list[dict[str, float]]]:
    """Returns the measured epochs of both commits, after one that is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        places: Mapping[str, Path] = {"ours": ROOT, against: exported(against, Path(folder))}
        sides = {name: Side(place, pairs, threads) for name, place in places.items()}
        try:
            found: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
            for number in range(rounds + 1):
                for name in list(sides)[:: -1 if number % 2 else 1]:
                    found[name].append(sides[name].epoch())
        finally:
            for side in sides.values():
                side.end()
    return {name: each[1:] for name, each in found.items()}


def steps(threads: int, rounds: int) -> dict[str, list[float]]:
    """Returns CPU seconds of a step on 32 graphs, ours and PyTorch Geometric's in turn."""
    torch.set_num_threads(threads)
    found: dict[str, list[float]] = {"ours": [], PEER: []}
    for number in range(rounds):
        for name in list(found)[:: -1 if number % 2 else 1]:
            found[name].append(graph.measure(name, 32, "cpu", 5 if name == "ours" else 1)["cpu"])
    return found


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", default=BEFORE, help=f"the commit to compare with (default: {BEFORE})")
    parser.add_argument("--pairs", type=int, default=640, help="pairs of the sample (default: 640, 20 steps)")
    parser.add_argument("--threads", type=int, default=1, help="of the CPU (default: 1)")
    parser.add_argument("--rounds", type=int, default=5, help="default: 5")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    threads = f"{asked.threads} thread{'s' * (asked.threads > 1)}"
    found = epochs(asked.against, asked.pairs, asked.threads, asked.rounds)
    rows = [("commit", "step, ms: CPU", "wall", "epoch of 45,000 pairs, CPU s", "mean loss")]
    cpu: dict[str, list[float]] = {}
    for name, each in found.items():
        cpu[name], wall = ([one[key] / one["steps"] for one in each] for key in ("cpu", "wall"))
        middle, slow = statistics.median(cpu[name]), statistics.median(wall)
        values = (f"{1000 * middle:.0f}", f"{1000 * slow:.0f}", f"{STEPS * middle:.0f}", f"{each[-1]['loss']:.6f}")
        rows.append((name, *values))
    show(rows, asked.markdown)
    work = f"training steps of {BATCH} pairs, {threads}"
    ratios: list[Ratio] = [compared(work, cpu["ours"], cpu[asked.against], f"commit {asked.against}", round(GOAL, 2))]
    beside: dict[str, Any] = steps(asked.threads, asked.rounds)
    ratios.append(compared(f"a training step of 32 graphs, {threads}", beside["ours"], beside[PEER], PEER))
    for ratio in ratios:
        print(f"{ratio.work}: {ratio.peer} takes {ratio.ratio:.2f} times the CPU time.")
    if asked.json:
        save(asked.json, ratios, ("torch", "torch_geometric"))


if __name__ == "__main__":
    main()
