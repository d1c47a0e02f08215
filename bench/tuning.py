"""Fine-tuning on real judgments over `mse-pages`: tuned against untuned bi-encoder, re-ranking against none.

`bi-encoder-tuned` and `cross-encoder-tuned` as configured, each year left out by the models that are run on it and the
other two trained on: ARQMath-3 with the seeds of `--seeds`, the others with the first of them. The cross-encoder
re-ranks BM25. Each row is tested against what it starts from with paired t-tests, corrected
by Bonferroni and Holm for all rows, measures and sets of topics together. Prints Markdown for bench/results; runs are
kept below `--runs`. Models are trained once: what was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.years import NAMES, TESTED, YEARS, made, year_task
from harness.io import config
from harness.scoring.compare import Row, compare
from harness.scoring.scores import Scores, pooled
from harness.systems import hardware
from harness.systems.dense.training.tuned import CARD, tuned

BI, CROSS, UNTUNED = "bi-encoder-tuned", "cross-encoder-tuned", "bi-encoder-minilm"
BASELINE = "bm25"
FIRST = (BASELINE, UNTUNED)
KINDS = {BI: "bi", CROSS: "cross"}
LAST, POOLED = YEARS[-1], "all years"


def training(system: str, year: int, seed: int) -> dict[str, Any]:
    """The configured training, with a year left out and the others trained on."""
    others = [f"arqmath-{other}-task1" for other in YEARS if other != year]
    changes = {"collections": others, "leave_out": [f"arqmath-{year}-task1"], "seed": seed}
    return {**config.load("system", system)[0]["training"], **changes}


def reranked(year: int, seed: int, first: str, changes: Mapping[str, Any], runs: Path) -> tuple[Scores, Path]:
    """A system or run file, re-ranked by the cross-encoder that is tuned for a year."""
    name = f"{CROSS}-{Path(first).stem}-{seed}"
    return made(year, CROSS, {"training": training(CROSS, year, seed), "first": first, "name": name, **changes}, runs)


def rows_of(year: int, seed: int, changes: Mapping[str, Any], runs: Path) -> dict[str, Scores]:
    """The rows of a year and a seed: what is started from, and what is tuned."""
    out = {name: made(year, name, {}, runs)[0] for name in FIRST}
    name = f"{BI}-{seed}"
    out[BI] = made(year, BI, {"training": training(BI, year, seed), "name": name}, runs)[0]
    out[CROSS], _ = reranked(year, seed, BASELINE, changes, runs)
    return {row: replace(scores, run=row) for row, scores in out.items()}


def start(row: str) -> str:
    """What a tuned row is tested against."""
    return UNTUNED if row == BI else BASELINE


def tests(scored: Mapping[str, Scores], family: int) -> dict[tuple[str, str], Row]:
    """Each tuned row against what it starts from: (row, measure) -> test."""
    pairs = [(row, start(row)) for row in scored if row not in FIRST]
    found = compare(list(scored.values()), pairs=pairs, measures=TESTED, family=family)
    return {(row.a, row.measure): row for row in found.rows}


def trained(system: str, year: int, seed: int, runs: Path) -> str:
    """What the card of a model says."""
    corpus = year_task(year).corpus
    assert corpus is not None
    mapping = config.load("system", system)[0]
    device = hardware.device(mapping["device"])
    folder = tuned(KINDS[system], mapping["model"], training(system, year, seed), corpus, runs / "workspace", device)
    card = json.loads((folder / CARD).read_text(encoding="utf-8"))
    data, before, best = card["data"], card["epochs"][0], card["epochs"][card["best epoch"]]
    return (
        f"| {system} | {year} | {seed} | {data['judged pairs trained on']:,} | {data['judged pairs left out']:,} | "
        f"{data['judged pairs held out']:,} | {card['best epoch']} of {len(card['epochs']) - 1} | "
        f"{before['validation loss']:.3f} → {best['validation loss']:.3f} | "
        f"{before['validation order']:.3f} → {best['validation order']:.3f} |"
    )


def cell(scores: Scores, measure: str, row: Row | None) -> str:
    """A mean, with a mark if it differs."""
    return f"{scores.mean(measure):.3f}{'*' if row is not None and row.significant_bonferroni else ''}"


def print_years(seed: int, parts: Mapping[str, Mapping[str, Scores]], family: int) -> None:
    """The table of all years with one seed, and the tests of the pooled topics."""
    found = {part: tests(scored, family) for part, scored in parts.items()}
    print(f"Seed {seed}, each year with models that are trained on the other two:\n")
    print(f"| system | {' | '.join(f'{part} nDCG′ | MAP′ | P′@10' for part in parts)} |")
    print(f"|---|{'---|' * len(TESTED) * len(parts)}")
    for name in parts[POOLED]:
        cells = [cell(parts[part][name], m, found[part].get((name, m))) for part in parts for m in TESTED]
        print(f"| {name} | {' | '.join(cells)} |")
    print()
    for part, scored in parts.items():
        print(f"- {part}: n = {'/'.join(str(scored[FIRST[0]].n(measure)) for measure in TESTED)}")
    for (name, measure), row in found[POOLED].items():
        print(
            f"- {POOLED}, {name} − {start(name)}, {NAMES[measure]}: {row.difference:+.4f} "
            f"(95 % {row.ci_low:+.4f} to {row.ci_high:+.4f}), n = {row.n}, p = {row.p:.4f}, "
            f"Bonferroni {row.p_bonferroni:.4f}, Holm {row.p_holm:.4f}"
        )


def print_seeds(of_seeds: Mapping[int, Mapping[str, Scores]], family: int) -> None:
    """The table of the last year with all seeds."""
    print(f"\nARQMath-{LAST}, every seed:\n")
    print("| system | seed | nDCG′ | MAP′ | P′@10 |")
    print(f"|---|---|{'---|' * len(TESTED)}")
    found = {seed: tests(scored, family) for seed, scored in of_seeds.items()}
    first = next(iter(of_seeds.values()))
    for name in FIRST:
        print(f"| {name} | | {' | '.join(cell(first[name], measure, None) for measure in TESTED)} |")
    for name in [row for row in first if row not in FIRST]:
        for seed, scored in of_seeds.items():
            cells = [cell(scored[name], measure, found[seed].get((name, measure))) for measure in TESTED]
            print(f"| {name} | {seed} | {' | '.join(cells)} |")
        if len(of_seeds) > 1:
            means = [[scored[name].mean(measure) for scored in of_seeds.values()] for measure in TESTED]
            shown = [f"{statistics.mean(values):.3f} ± {statistics.stdev(values):.3f}" for values in means]
            print(f"| {name} | mean ± sd | {' | '.join(shown)} |")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--k", type=int, help="re-rank so many documents as a whole, instead of in tiers")
    options = parser.parse_args(arguments)
    seeds, runs = options.seeds, options.runs
    changes = {} if options.k is None else {"tiers": None, "k": options.k}
    of_years = {year: rows_of(year, seeds[0], changes, runs) for year in YEARS}
    parts: dict[str, Mapping[str, Scores]] = {f"ARQMath-{year}": scored for year, scored in of_years.items()}
    parts[POOLED] = {row: pooled([of_years[year][row] for year in YEARS]) for row in of_years[LAST]}
    of_seeds = {seed: of_years[LAST] if seed == seeds[0] else rows_of(LAST, seed, changes, runs) for seed in seeds}
    count = len(of_years[LAST]) - len(FIRST)
    family = count * len(TESTED) * (len(parts) + len(seeds) - 1)
    print_years(seeds[0], parts, family)
    print_seeds(of_seeds, family)
    print(
        f"\n\\* differs from what it starts from after Bonferroni over {family} tests ({count} rows, {len(TESTED)} "
        f"measures, {len(parts)} sets of topics and {len(seeds) - 1} more seeds; paired t, alpha .05).\n"
    )
    print("| model | left out | seed | judged pairs | left out | validate | epoch | validation loss | order |")
    print("|---|---|---|---|---|---|---|---|---|")
    for system in KINDS:
        for year in YEARS:
            for seed in seeds if year == LAST else seeds[:1]:
                print(trained(system, year, seed, runs))
    print("\nOrder: share of a held-out question's pairs of a relevant and another answer in that order; chance is .5.")


if __name__ == "__main__":
    main()
