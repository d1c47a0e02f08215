"""MathAMR+ on dependency graphs, trained for real: held-out pairs, then ARQMath-3 over the posts of `mse-pages`.

Three seeds are trained as `harness run ... system=mathamr-dependency` trains them. Printed are, for each seed, the mean
reciprocal rank of held-out questions' answers by the untrained and by the trained model beside chance, and for Task 1
(Task 2 with `--task 2`) the measures of each seed's run, of the untrained model, and of the systems to compare with,
tested against the first of these by paired t-tests. Settings are those of the configuration, none chosen here.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.formula_search import baseline
from bench.years import NAMES, TESTED
from harness.experiments.produce import make
from harness.experiments.task import Task
from harness.experiments.task import task as task_of
from harness.io import config
from harness.reports.parts import shown_p
from harness.scoring import compare
from harness.scoring.scores import Scores
from harness.systems.build import build_system
from harness.systems.mathamr.system import MathAMR

SYSTEM = "mathamr-dependency"
SEEDS = (1, 2, 3)
BM25 = "bm25-slt-pairs"  # over the pairs of symbols of formulas
STRATEGIES = ("colbert", "rerank", "single")
LINEARISED = "linearised-dependency"
PEERS: Mapping[int, Sequence[str]] = {1: ("bm25", LINEARISED), 2: ("tree", LINEARISED)}
CORPORA: Mapping[int, str] = {1: "mse-pages", 2: "mse-formulas"}


def configured(changes: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The system's configuration with some keys changed, those of `training` and others key by key."""
    out = dict(config.load("system", SYSTEM)[0])
    for key, value in changes.items():
        out[key] = {**out[key], **value} if isinstance(value, Mapping) and out.get(key) else value
    return {**out, "name": name}


def system(changes: Mapping[str, Any], name: str) -> MathAMR:
    """The system with some keys changed."""
    built = build_system(configured(changes, name), SYSTEM).system
    assert isinstance(built, MathAMR)
    return built


def scores_of(bed: Task, mapping: Mapping[str, Any], runs: Path) -> Scores:
    """Of the run of a configured system."""
    built = build_system(dict(mapping), str(mapping["name"]))
    return bed.scorer(make(built, bed, runs=runs).run)


def held_out(runs: Path) -> None:
    """The table of held-out pairs."""
    print("| seed | untrained MRR | trained MRR | chance | untrained loss | trained loss | best epoch | temperature |")
    print("|---|---|---|---|---|---|---|---|")
    rows = []
    for seed in SEEDS:
        log = system({"training": {"seed": seed}}, "x").trained(runs / "workspace").log
        first, best = log[0], min(log[1:], key=lambda entry: float(entry["validation loss"]))
        rows.append((first["validation MRR"], best["validation MRR"]))
        print(
            f"| {seed} | {first['validation MRR']:.3f} | {best['validation MRR']:.3f} | {first['chance']:.3f} | "
            f"{first['validation loss']:.3f} | {best['validation loss']:.3f} | {best['epoch']} | "
            f"{best['temperature']:.4f} |"
        )
    untrained, trained = np.array(rows).T
    print(
        f"\nMean and standard deviation over seeds: untrained {untrained.mean():.3f} ± {untrained.std(ddof=1):.3f}, "
        f"trained {trained.mean():.3f} ± {trained.std(ddof=1):.3f}.\n"
    )


def variants(task: int) -> dict[str, dict[str, Any]]:
    """Row of the table -> configuration."""
    extra: dict[str, Any] = {} if task == 1 else {"task": "formulas"}
    out = {name: dict(config.load("system", name)[0]) for name in PEERS[task]}
    out[LINEARISED] |= extra
    for seed in SEEDS:
        changes = {**extra, "training": {"seed": seed}}
        out[f"{SYSTEM}, seed {seed}"] = configured(changes, f"{SYSTEM}-{seed}")
    first = {**extra, "training": {"seed": SEEDS[0]}}
    for strategy in STRATEGIES[1:] if task == 1 else ():
        name = f"{SYSTEM}-{SEEDS[0]}-{strategy}"
        out[f"{SYSTEM}, seed {SEEDS[0]}, {strategy}"] = configured({**first, "strategy": strategy}, name)
    out["the same, untrained"] = configured({**extra, "training": None}, f"{SYSTEM}-untrained")
    return out


def ranked(task: int, runs: Path) -> None:
    """The table of a task."""
    bed = task_of(f"arqmath-3-task{task}", CORPORA[task])
    assert bed.coverage is not None
    assert bed.corpus is not None
    scores = {}
    if task == 2:
        scores[BM25] = bed.scorer(baseline(BM25, bed.collection.topics(), bed.corpus))
    scores |= {row: replace(scores_of(bed, mapping, runs), run=row) for row, mapping in variants(task).items()}
    first = next(iter(scores))
    compared = compare.compare(list(scores.values()), first, measures=TESTED)
    mark = {(row.a, row.measure): "*" if row.significant_bonferroni else "" for row in compared.rows}
    print(f"| run | {' | '.join(NAMES[m] for m in TESTED)} |")
    print(f"|---|{'---|' * len(TESTED)}")
    for row, scored in scores.items():
        cells = [f"{scored.mean(m):.3f}{mark.get((row, m), '')}" for m in TESTED]
        print(f"| {row} | {' | '.join(cells)} |")
    trained = [scored for row, scored in scores.items() if row in {f"{SYSTEM}, seed {seed}" for seed in SEEDS}]
    of_seeds = [np.array([scored.mean(m) for scored in trained]) for m in TESTED]
    means = " | ".join(f"{values.mean():.3f} ± {values.std(ddof=1):.3f}" for values in of_seeds)
    print(f"| trained, mean ± sd of {len(trained)} seeds | {means} |")
    n = "/".join(str(scores[first].n(m)) for m in TESTED)
    print(
        f"\nn = {n} topics for nDCG′/MAP′/P′@10; {bed.coverage.present:,} of {bed.coverage.pairs:,} judged pairs are "
        f"in the corpus. \\* differs from {first} (paired t, Bonferroni over {len(compared.rows)} tests, alpha .05)."
    )
    for tested in compared.rows:
        if tested.measure == TESTED[0]:
            p = shown_p(tested.p_bonferroni).text
            print(f"- {tested.a}: difference {tested.difference:+.3f}, corrected p {p}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--task", type=int, choices=(1, 2), default=1)
    arguments = parser.parse_args()
    if arguments.task == 1:
        held_out(arguments.runs)
    ranked(arguments.task, arguments.runs)


if __name__ == "__main__":
    main()
