"""Pair similarity of the SABER-Math builder at scale: time, memory, the exponent of time, and what 283,000 would take.

Problems are synthetic, with the statistics that the annotator by keywords has on the 5,000 MATH problems: 7.7 topics
of a problem with those above them, some 3,000 topics in use, drawn by Zipf's law from a tree of four levels; 7.5 words
of a core idea, from 4,000. Each size runs in a process of its own, on two threads. First the pairs and both
similarities of 2,000 problems are compared with the double loop, bit by bit.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from harness.papers.saber.ontology import ancestors, information, most_specific
from harness.papers.saber.pairs import (
    Features,
    PairSettings,
    Thresholds,
    features,
    find_pairs,
    idea_words,
    row_of_tiles,
    thresholds,
)

CHECKED = 2000
AUTHORS = 283_000
SIZES = (12_500, 25_000, 50_000, 100_000)
CHILDREN = (11, 20, 12, 3)  # of a node, level by level: 11 + 220 + 2,640 + 7,920 topics


def problems(count: int, seed: int = 0) -> tuple[list[list[str]], list[str]]:
    """Topics and core ideas of synthetic problems."""
    rng = random.Random(seed)

    def zipf(n: int) -> int:
        return min(int(n ** rng.random()), n) - 1  # probability of k about 1 / k

    tags, ideas = [], []
    for _ in range(count):
        mine: set[str] = set()
        for _ in range(rng.choice((1, 2, 2, 3, 3, 4))):
            path = [str(zipf(n)) for n in CHILDREN[: rng.choice((2, 3, 3, 4))]]
            mine.update(ancestors("/".join(path)))
        tags.append(list(most_specific(mine)))
        ideas.append(" ".join(f"w{_letters(zipf(4000))}" for _ in range(rng.randint(4, 14))))
    return tags, ideas


def _letters(number: int) -> str:
    return np.base_repr(number, 26).translate(str.maketrans("0123456789", "qrstuvwxyz")).lower()


def made(count: int) -> Features:
    """The features of so many problems."""
    tags, ideas = problems(count)
    return features(tags, ideas, information(tags))


def check(count: int) -> int:
    """Compare with the double loop; the number of pairs found. Raises SystemExit if anything differs."""
    tags, ideas = problems(count)
    info = information(tags)
    mine = features(tags, ideas, info)
    limits = thresholds(mine, PairSettings())
    rows = [row_of_tiles(mine, start, 512, limits) for start in range(0, count, 512)]
    found = {
        (int(i), int(j)): (float(bma), float(jaccard))
        for row in rows
        for i, j, bma, jaccard in zip(row.left, row.right, row.bma, row.jaccard, strict=True)
    }
    bags = [idea_words(idea) for idea in ideas]
    # The similarities of two topics are looked up: the loop is over pairs of problems, one by one.
    known: dict[tuple[str, str], float] = {}

    def lin(a: str, b: str) -> float:
        if (a, b) not in known:
            known[a, b] = info.lin(a, b)
        return known[a, b]

    expected = {}
    for i in range(count):
        for j in range(i + 1, count):
            there = back = 0.0
            for a in tags[i]:
                there += max(lin(a, b) for b in tags[j])
            for b in tags[j]:
                back += max(lin(b, a) for a in tags[i])
            bma = (there + back) / (len(tags[i]) + len(tags[j]))
            both = len(bags[i] & bags[j])
            jaccard = both / (len(bags[i]) + len(bags[j]) - both) if both else 0.0
            if np.float16(bma) >= limits.bma or np.float16(jaccard) >= limits.jaccard:
                expected[i, j] = (bma, jaccard)
    if found != expected:
        raise SystemExit(f"{len(found)} pairs in tiles, {len(expected)} in the double loop, or other similarities")
    return len(found)


def measure(count: int, threads: int) -> list[float]:
    """Wall and CPU seconds, peak memory in MiB, topics in use, pairs kept."""
    mine = made(count)
    settings = PairSettings(threads=threads)
    limits: Thresholds = thresholds(mine, settings)
    wall, cpu = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HARNESS_CACHE"] = f"{folder}/cache"
        (Path(folder) / "out").mkdir()
        kept = find_pairs(mine, settings, Path(folder) / "out", limits)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))
    return [wall, cpu, peak, len(mine.lins), sum(kept.values())]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--check", type=int, default=CHECKED, help="problems compared with the double loop; 0: none")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.threads)))
        return
    if arguments.check:
        print(
            f"{arguments.check:,} problems: {check(arguments.check):,} pairs, identical to the double loop\n",
            flush=True,
        )
    rows: list[tuple[str, ...]] = [
        ("problems", "pairs, million", "wall s", "CPU s", "peak MiB", "topics in use", "pairs kept")
    ]
    points = []
    for size in arguments.sizes:
        command = [sys.executable, "-m", "bench.saber", "--one", str(size), "--threads", str(arguments.threads)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        wall, cpu, peak, topics, kept = json.loads(done.stdout)
        points.append((size, wall, cpu))
        rows.append(
            (
                f"{size:,}",
                f"{size * (size - 1) / 2e6:,.0f}",
                f"{wall:.1f}",
                f"{cpu:.1f}",
                f"{peak:,.0f}",
                f"{topics:,.0f}",
                f"{kept:,.0f}",
            )
        )
    if len(points) > 1:
        logs = np.log(np.array(points))
        last = points[-1]
        rows.append((f"{AUTHORS:,}, extrapolated", f"{AUTHORS * (AUTHORS - 1) / 2e6:,.0f}"))
        exponents = []
        for column in (1, 2):
            exponent = float(np.polyfit(logs[:, 0], logs[:, column], 1)[0])
            exponents.append(exponent)
            rows[-1] += (f"{last[column] * math.pow(AUTHORS / last[0], exponent):,.0f}",)
        rows[-1] += ("", "", "")
    for i, row in enumerate(rows):
        print("| " + " | ".join(row) + " |" if arguments.markdown else "  ".join(field.rjust(22) for field in row))
        if arguments.markdown and not i:
            print("|" + "---|" * len(row))
    if len(points) > 1:
        print(
            f"\nexponent of wall time {exponents[0]:.2f}, of CPU time {exponents[1]:.2f}; {arguments.threads} threads"
        )
    print(f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, numpy {np.__version__}")


if __name__ == "__main__":
    main()
