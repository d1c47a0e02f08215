"""Neural systems on ARQMath Task 1 over `mse-pages`, three years: bi-encoders, their fusion with BM25 and formulas.

Every system runs as `harness run collection=arqmath-Y-task1 corpus=mse-pages system=NAME` would run it. The fusion
that a year reports is chosen on the other two years: of all those listed, at each of `KS`, the one with the best
pooled nDCG'; a cross-encoder that is tuned on the other two years re-ranks it in tiers. Each row is tested against
`bm25` with paired t-tests, corrected by Bonferroni and Holm for all rows, measures and years together, those of the
pooled topics included. The floor is the mean of `SEEDS` random orders of the judged documents. Prints Markdown for
bench/results; runs are kept below `--runs`.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from bench.tuning import reranked
from bench.years import NAMES, SEEDS, TESTED, YEARS, made, year_task
from harness.scoring.compare import Row, compare
from harness.scoring.scores import Scores, pooled

BASELINE, TREE = "bm25", "tree"
ENCODERS = ("bi-encoder-minilm", "bi-encoder-mpnet", "bi-encoder-e5")
KS = (10, 60, 180)
CHOSEN = "fusion chosen on the other years"
RERANKED = "cross-encoder in tiers over that fusion"
POOLED = "all years"
MEASURES = (*TESTED, "Judged@10")


def fusions(encoders: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """What is fused: BM25 with each encoder, with all of them, and the same with formulas."""
    sets: list[tuple[str, ...]] = [(BASELINE, name) for name in encoders]
    if len(encoders) > 1:
        sets.append((BASELINE, *encoders))
    sets += [(*names, TREE) for names in sets]
    return {" + ".join(name.removeprefix("bi-encoder-") for name in names): names for names in sets}


class Years:
    """The runs of all years, each made once."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs

    @cache  # noqa: B019  (one object a process)
    def single(self, year: int, name: str) -> tuple[Scores, Path]:
        """A configured system."""
        return made(year, name, {}, self.runs)

    @cache  # noqa: B019
    def fused(self, year: int, names: tuple[str, ...], k: int = 60) -> tuple[Scores, Path]:
        """The reciprocal rank fusion of some."""
        paths = [str(self.single(year, name)[1]) for name in names]
        label = f"rrf-{k}-" + "-".join(name.removeprefix("bi-encoder-") for name in names)
        return made(year, "fusion-rrf", {"runs": paths, "k": k, "name": label}, self.runs)

    def chosen(self, year: int, sets: Mapping[str, tuple[str, ...]]) -> tuple[tuple[Scores, Path], str]:
        """The fusion with the best nDCG' over the topics of the other years, and what it is."""
        others = [other for other in YEARS if other != year]

        def of_others(point: tuple[str, int]) -> float:
            scored = [self.fused(other, sets[point[0]], point[1])[0] for other in others]
            return pooled([labelled(scores, "others") for scores in scored]).mean("nDCG")

        best = max(((label, k) for label in sets for k in KS), key=of_others)
        return self.fused(year, sets[best[0]], best[1]), f"{best[0]}, k = {best[1]}"


def labelled(scores: Scores, name: str) -> Scores:
    """Under the name of its row."""
    return replace(scores, run=name)


def tests(sides: Sequence[Scores], family: int) -> dict[tuple[str, str], Row]:
    """Each row against the baseline: (row, measure) -> test."""
    found = compare(sides, BASELINE, measures=TESTED, family=family)
    return {(row.a, row.measure): row for row in found.rows}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--encoders", nargs="+", default=list(ENCODERS), metavar="SYSTEM")
    parser.add_argument("--more", nargs="*", default=[], metavar="SYSTEM", help="rows of further systems")
    options = parser.parse_args()
    years, sets = Years(options.runs), fusions(options.encoders)
    rows: dict[str, dict[int, Scores]] = {}
    for name in (BASELINE, TREE, *options.encoders, *options.more):
        rows[name] = {year: years.single(year, name)[0] for year in YEARS}
    for label, names in sets.items():
        rows[f"RRF of {label}"] = {year: years.fused(year, names)[0] for year in YEARS}
    choice = {year: years.chosen(year, sets) for year in YEARS}
    rows[CHOSEN] = {year: scores for year, ((scores, _), _) in choice.items()}
    rows[RERANKED] = {
        year: reranked(year, 1, str(path), {}, options.runs)[0] for year, ((_, path), _) in choice.items()
    }
    whole: dict[Any, dict[str, Scores]] = {
        year: {name: labelled(scored[year], name) for name, scored in rows.items()} for year in YEARS
    }
    whole[POOLED] = {name: pooled([whole[year][name] for year in YEARS]) for name in rows}
    family = (len(rows) - 1) * len(TESTED) * len(whole)
    found = {part: tests(list(scored.values()), family) for part, scored in whole.items()}
    heads = {part: f"ARQMath-{part}" if part in YEARS else POOLED for part in whole}
    print(f"| system | {' | '.join(f'{head} nDCG′ | MAP′ | P′@10 | Judged@10' for head in heads.values())} |")
    print(f"|---|{'---|' * 4 * len(whole)}")
    print(f"| random order of the judged | {' | '.join(floor(part, options.runs) for part in whole)} |")
    for name in rows:
        cells = []
        for part, scored in whole.items():
            for measure in MEASURES:
                row = found[part].get((name, measure))
                mark = "*" if row is not None and row.significant_bonferroni else ""
                cells.append(f"{scored[name].mean(measure):.3f}{mark}")
        print(f"| {name} | {' | '.join(cells)} |")
    print()
    for year in YEARS:
        coverage, scores = year_task(year).coverage, rows[BASELINE][year]
        assert coverage is not None
        n = "/".join(str(scores.n(measure)) for measure in TESTED)
        held = f"{coverage.present:,} of {coverage.pairs:,} judged pairs are in the corpus, n = {n}"
        print(f"- ARQMath-{year}: {held}; chosen on the other years: {choice[year][1]}")
    last = compare(list(whole[POOLED].values()), pairs=((RERANKED, CHOSEN),), measures=TESTED, family=len(TESTED))
    shown = [(found[POOLED][name, measure], family) for name in (CHOSEN, RERANKED) for measure in TESTED]
    for row, of in (*shown, *((row, len(TESTED)) for row in last.rows)):
        print(
            f"- {POOLED}, {row.a} − {row.b}, {NAMES[row.measure]}: {row.difference:+.4f} "
            f"(95 % {row.ci_low:+.4f} to {row.ci_high:+.4f}), n = {row.n}, p = {row.p:.5f}, "
            f"Bonferroni {row.p_bonferroni:.4f}, Holm {row.p_holm:.4f} of {of} tests"
        )
    print(
        f"- \\* differs from {BASELINE} after Bonferroni over {family} tests ({len(rows) - 1} rows, {len(TESTED)} "
        f"measures, {len(whole)} sets of topics; paired t, alpha .05); floor: mean of {SEEDS} seeds"
    )


@cache
def floor(part: object, runs: Path) -> str:
    """The cells of random orders of the judged documents."""
    of_years = [part] if part in YEARS else YEARS
    scored = [
        pooled([made(year, "shuffle", {"seed": s, "name": f"shuffle-{s}"}, runs, pool=True)[0] for year in of_years])
        for s in range(SEEDS)
    ]
    means = [f"{statistics.mean(scores.mean(measure) for scores in scored):.3f}" for measure in TESTED]
    return " | ".join([*means, "1.000"])


if __name__ == "__main__":
    main()
