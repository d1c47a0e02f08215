"""Formulas for ARQMath Task 1 over `mse-pages`: BM25, BM25 with tokens of formulas, structural systems, and fusions.

Every system runs as `harness run collection=arqmath-Y-task1 corpus=mse-pages system=NAME` would run it. The row
`bm25-formulas-tuned` takes alpha and the kind of tokens that are best on the other two years. Each row is tested
against `bm25` with paired t-tests, on each year and on the topics of all years together, corrected by Bonferroni for
all rows, measures and sets of topics. Prints Markdown for bench/results; runs are kept below `--runs`.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from bench.years import TESTED, YEARS, made, year_task
from harness.scoring import compare
from harness.scoring.scores import Scores

BASELINE, TOKENS = "bm25", "bm25-formulas"
SYSTEMS = (BASELINE, TOKENS, "structural", "tangent", "l2l")
FUSED = {
    "rrf of bm25, structural": ("fusion-rrf", (BASELINE, "structural")),
    "rrf of bm25, l2l": ("fusion-rrf", (BASELINE, "l2l")),
    "combsum of bm25, structural": ("fusion-combsum", (BASELINE, "structural")),
    "rrf of bm25-formulas, structural": ("fusion-rrf", (TOKENS, "structural")),
}
ALPHAS = (0.2, 0.4, 0.6, 0.8)
FUNCTIONS = ("symbol_pairs", "wide_symbol_pairs", "operator_paths", "pairs_and_paths")
TOGETHER = "all years"


def grid() -> list[dict[str, Any]]:
    """The configurations among which `bm25-formulas-tuned` is chosen, as changes to `bm25-formulas`."""
    view = {"name": "latex", "lower": True, "stop": None, "stem": "porter"}
    return [
        {
            "alpha": alpha,
            "view": {**view, "formulas": f"harness.systems.structural.tokens.{function}"},
            "name": f"{TOKENS}-{function}-{alpha:g}",
        }
        for function, alpha in product(FUNCTIONS, ALPHAS)
    ]


def rows(year: int, runs: Path) -> dict[str, Scores]:
    """Row of the table -> scores, without the tuned one."""
    out: dict[str, Scores] = {}
    paths: dict[str, Path] = {}
    for name in SYSTEMS:
        out[name], paths[name] = made(year, name, {}, runs)
    for name, (system, parts) in FUSED.items():
        changes = {"runs": [str(paths[part]) for part in parts], "name": name.replace(" ", "-").replace(",", "")}
        out[name], _ = made(year, system, changes, runs)
    return out


def tuned(runs: Path) -> dict[int, tuple[Scores, str]]:
    """Year -> scores of the configuration with the best nDCG' over the topics of the other years, and its name."""
    scored = {change["name"]: {year: made(year, TOKENS, change, runs)[0] for year in YEARS} for change in grid()}

    def pooled(name: str, year: int) -> float:
        return together([scores for other, scores in scored[name].items() if other != year]).mean("nDCG")

    best = {year: max(scored, key=lambda name, year=year: pooled(name, year)) for year in YEARS}  # type: ignore[misc]
    return {year: (scored[name][year], name.removeprefix(f"{TOKENS}-")) for year, name in best.items()}


def together(scores: list[Scores]) -> Scores:
    """The scores of several years as one; years share no topic."""
    topics = tuple(topic for each in scores for topic in each.topics)
    values = np.concatenate([each.values for each in scores])
    return replace(scores[0], collection=TOGETHER, qrels_sha256="", topics=topics, values=values, missing=())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    runs = parser.parse_args().runs
    of_year = {year: rows(year, runs) for year in YEARS}
    chosen = tuned(runs)
    for year, (scores, _) in chosen.items():
        of_year[year][f"{TOKENS}-tuned"] = scores
    names = list(of_year[YEARS[0]])
    sets = {f"ARQMath-{year}": {name: replace(of_year[year][name], run=name) for name in names} for year in YEARS}
    sets[TOGETHER] = {name: together([each[name] for each in sets.values()]) for name in names}
    family = (len(names) - 1) * len(TESTED) * len(sets)
    marks: dict[tuple[str, str, str], str] = {}
    smallest = 1.0
    for where, scored in sets.items():
        for row in compare.compare(list(scored.values()), BASELINE, measures=TESTED, family=family).rows:
            marks[where, row.a, row.measure] = "*" if row.significant_bonferroni else ""
            smallest = min(smallest, 1.0 if row.p_bonferroni is None else row.p_bonferroni)
    print(f"| system | {' | '.join(f'{where} nDCG′ | MAP′ | P′@10' for where in sets)} |")
    print(f"|---|{'---|' * len(TESTED) * len(sets)}")
    for name in names:
        cells = [f"{sets[w][name].mean(m):.3f}{marks.get((w, name, m), '')}" for w, m in product(sets, TESTED)]
        print(f"| {name} | {' | '.join(cells)} |")
    counts = [f"{'/'.join(str(sets[where][BASELINE].n(m)) for m in TESTED)} ({where})" for where in sets]
    print(f"\n- n, topics for nDCG′/MAP′/P′@10: {', '.join(counts)}")
    for year in YEARS:
        coverage = year_task(year).coverage
        assert coverage is not None
        print(f"- ARQMath-{year}: {coverage.present:,} of {coverage.pairs:,} judged pairs are in the corpus")
    best = ", ".join(f"{name} (ARQMath-{year})" for year, (_, name) in chosen.items())
    print(f"- bm25-formulas-tuned, tokens and alpha chosen on the other years among {len(grid())}: {best}")
    print(
        f"- \\* differs from {BASELINE} after Bonferroni over {family} tests (paired t, alpha .05); "
        f"smallest corrected p {smallest:.4f}"
    )


if __name__ == "__main__":
    main()
