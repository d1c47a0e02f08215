"""Tournaments of an oracle: how near 20 Swiss rounds come to the order of all pairs, and how ratings beat wins.

150 candidates with known strengths; a judge that knows them, without and with errors. After each round the order by
ratings (Bradley-Terry) and by wins is held against the known order and against the order by ratings of all 11,175
comparisons of the same judge. Prints Markdown; `--report FOLDER` writes the curves as a report too.
"""

from __future__ import annotations

import argparse
import platform
import time
from pathlib import Path

import numpy as np
import scipy

from harness.papers.saber.orders import means, study
from harness.papers.saber.report import study_report

CANDIDATES = 150
ROUNDS = tuple(range(1, 21))
SHOWN = (1, 2, 3, 5, 8, 10, 12, 15, 20)


def main() -> None:
    """Run the study and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="tournaments of each level of noise, seeds from 1")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.1, 0.3, 1.0])
    parser.add_argument("--report", type=Path, help="folder for a report with the figures")
    arguments = parser.parse_args()
    seeds = range(1, arguments.seeds + 1)
    begun = time.process_time()
    points = study(CANDIDATES, arguments.noise, seeds, ROUNDS)
    seconds = time.process_time() - begun
    found = means(points)
    pairs = CANDIDATES * (CANDIDATES - 1) // 2
    print(f"{CANDIDATES} candidates, {pairs:,} pairs, seeds 1 to {arguments.seeds}; mean (deviation over seeds).\n")
    titles = ("inversions by ratings", "tau", "by wins", "tau", "by ratings, to all pairs", "tau")
    print(f"| noise | rounds | comparisons | {' | '.join(titles)} |")
    print("|---|---|---|---|---|---|---|---|---|")
    wanted = (("ratings", "truth"), ("wins", "truth"), ("ratings", "all pairs"))
    for noise in arguments.noise:
        for number in SHOWN:
            values = [found[noise, number, by, against] for by, against in wanted]
            cells = " | ".join(f"{i:,.1f} ({s:.1f}) | {t:.3f} ({d:.3f})" for i, s, t, d in values)
            print(f"| {noise:g} | {number} | {number * CANDIDATES // 2:,} | {cells} |")
    versions = f"Python {platform.python_version()}, numpy {np.__version__}, scipy {scipy.__version__}"
    print(f"\n{seconds:.0f} s of CPU; {versions}, {platform.machine()}.")
    if arguments.report is not None:
        study_report(points, CANDIDATES).write(arguments.report, formats=["html", "md"])


if __name__ == "__main__":
    main()
