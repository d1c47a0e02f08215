"""Lexical systems on ARQMath Task 1 over `mse-pages`, three years: effectiveness, significance, Judged@10.

Every system runs as `harness run collection=arqmath-Y-task1 corpus=mse-pages system=NAME` would run it. BM25 tuned is
chosen on the other two years among the points of `conf/sweep/bm25-k1-b.yaml`. Each system is tested against untuned
BM25 with paired t-tests, corrected by Bonferroni for all systems, measures and years together. The floor is the mean
of `SEEDS` random orders of the judged documents. Prints Markdown for bench/results; runs are kept below `--runs`.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from harness.experiments.produce import make
from harness.experiments.task import Task, task
from harness.io import config
from harness.scoring import compare
from harness.scoring.scores import Scores
from harness.systems.build import build_system
from harness.systems.states import missing_modules

YEARS = (1, 2, 3)
CORPUS = "mse-pages"
SYSTEMS = ("bm25", "bm25-plus", "tfidf-ltn", "msm-bm25", "msm-tfidf", "msm-sum", "anserini-bm25", "anserini-latex")
TESTED = ("nDCG", "AP", "P@10")
SEEDS = 20


@cache
def year_task(year: int) -> Task:
    """Collection, corpus and judgments of a year."""
    return task(f"arqmath-{year}-task1", CORPUS)


def made(year: int, name: str, changes: Mapping[str, Any], runs: Path, *, pool: bool = False) -> tuple[Scores, Path]:
    """A configured system on a year: its scores and its run file."""
    found = year_task(year)
    mapping = {**config.load("system", name)[0], **changes}
    produced = make(build_system(mapping, name), found, runs=runs, rerank=pool)
    return found.scorer(produced.run), produced.path


def grid() -> list[dict[str, float]]:
    """The points of the shipped sweep over k1 and b."""
    params = config.load("sweep", "bm25-k1-b")[0]["hydra"]["sweeper"]["params"]
    values = {key.rpartition(".")[2]: [float(value) for value in text.split(",")] for key, text in params.items()}
    return [dict(zip(values, point, strict=True)) for point in product(*values.values())]


def tuned(year: int, runs: Path) -> tuple[Scores, Path, dict[str, float]]:
    """BM25 with the point that has the best nDCG' over the topics of the other two years."""
    others = [other for other in YEARS if other != year]

    def pooled(point: dict[str, float]) -> float:
        name = "bm25-" + "-".join(f"{key}={value:g}" for key, value in point.items())
        scored = [made(other, "bm25", {**point, "name": name}, runs)[0] for other in others]
        n = [scores.n("nDCG") for scores in scored]
        return sum(scores.mean("nDCG") * count for scores, count in zip(scored, n, strict=True)) / sum(n)

    best = max(grid(), key=pooled)
    return (*made(year, "bm25", {**best, "name": "bm25-tuned"}, runs), best)


def rows(year: int, systems: Sequence[str], runs: Path) -> tuple[list[Scores], dict[str, float], dict[str, float]]:
    """All scores of a year, the best point of the other years, and the floor: measure -> mean over the seeds."""
    scored, paths = [], []
    for name in systems:
        scores, path = made(year, name, {}, runs)
        scored.append(scores)
        paths.append(path)
    of_tuned, _, point = tuned(year, runs)
    fused, _ = made(year, "fusion-rrf", {"runs": [str(path) for path in paths], "name": "rrf-of-all"}, runs)
    shuffled = [
        made(year, "shuffle", {"seed": seed, "name": f"shuffle-{seed}"}, runs, pool=True)[0] for seed in range(SEEDS)
    ]
    floor = {m: statistics.mean(scores.mean(m) for scores in shuffled) for m in shuffled[0].measures}
    return [*scored, of_tuned, fused], point, floor


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    runs = parser.parse_args().runs
    systems = [name for name in SYSTEMS if not missing_modules([config.load("system", name)[0]])]
    found = {year: rows(year, systems, runs) for year in YEARS}
    family = (len(found[1][0]) - 1) * len(TESTED) * len(YEARS)
    print(f"| system | {' | '.join(f'ARQMath-{year} nDCG′ | MAP′ | P′@10 | Judged@10' for year in YEARS)} |")
    print(f"|---|{'---|' * 4 * len(YEARS)}")
    floors = [found[year][2] for year in YEARS]
    cells = [f"{floor[m]:.3f}" if m != "Judged@10" else "1.000" for floor in floors for m in (*TESTED, "Judged@10")]
    print(f"| random order of the judged | {' | '.join(cells)} |")
    marks: dict[tuple[int, str, str], str] = {}
    smallest = 1.0
    for year, (scored, _, _) in found.items():
        for row in compare.compare(scored, "bm25", measures=TESTED, family=family).rows:
            marks[year, row.a, row.measure] = "*" if row.significant_bonferroni else ""
            smallest = min(smallest, 1.0 if row.p_bonferroni is None else row.p_bonferroni)
    for index, name in enumerate(scores.run for scores in found[1][0]):
        cells = []
        for year in YEARS:
            scores = found[year][0][index]
            cells += [f"{scores.mean(m):.3f}{marks.get((year, name, m), '')}" for m in TESTED]
            cells.append(f"{scores.mean('Judged@10'):.3f}")
        print(f"| {name} | {' | '.join(cells)} |")
    print()
    for year in YEARS:
        coverage, scores = year_task(year).coverage, found[year][0][0]
        assert coverage is not None
        n = "/".join(str(scores.n(m)) for m in TESTED)
        best = ", ".join(f"{key} = {value:g}" for key, value in found[year][1].items())
        held = f"{coverage.present:,} of {coverage.pairs:,} judged pairs are in the corpus, n = {n}"
        print(f"- ARQMath-{year}: {held}; tuned on the other years: {best}, of {len(grid())} configurations tried")
    print(
        f"- \\* differs from bm25 after Bonferroni over {family} tests (paired t, alpha .05); "
        f"smallest corrected p {smallest:.4f}; floor: mean of {SEEDS} seeds"
    )


if __name__ == "__main__":
    main()
