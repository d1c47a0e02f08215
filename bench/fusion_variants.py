"""What the variant of IBC, WIBC and RBC changes: the paper's formula against what the authors' library computes.

Two sets of real runs, prime protocol of ARQMath Task 1:

1. four systems over the answers that `mse-pages` holds, all three editions; weights and regressions are learned on the
   two other editions;
2. the nine public runs of ARQMath-1 over its 77 topics; weights and regressions are learned on the other half of the
   topics (odd against even, in the order of their ids).

For each method authors - paper, paired t over the topics, Bonferroni over the nine tests of a set (three methods, three
measures).

    python -m bench.fusion_variants --runs FOLDER
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy import stats

from bench.years import NAMES, TESTED, YEARS, made, year_task
from harness.collections.files import local
from harness.collections.load import load_collection
from harness.data.columns import Floats
from harness.data.trec import Qrels, Run, read_run
from harness.io import config
from harness.reports.parts import shown_p
from harness.scoring.scores import Scores
from harness.sources import catalogue
from harness.systems.fusion.system import Fusion

SYSTEMS = ("msm-tfidf", "msm-bm25", "msm-sum", "bi-encoder-minilm")
METHODS = ("ibc", "wibc", "rbc")
VARIANTS = ("paper", "authors")
HALVES = 2


def joined(runs: Sequence[Run]) -> Run:
    """Runs of one system on different topics as one."""
    return Run.from_dict(runs[0].name, {topic: docs for run in runs for topic, docs in run.to_dict().items()})


def only(run: Run, topics: Sequence[str]) -> Run:
    """The part of a run that answers some topics."""
    return Run.from_dict(run.name, {topic: docs for topic, docs in run.to_dict().items() if topic in set(topics)})


def fused(method: str, variant: str, runs: Sequence[Run], training: tuple[Sequence[Run], Qrels]) -> Run:
    """Runs fused by a method, which learns from the training runs if it learns at all."""
    names = [run.name for run in runs]
    return Fusion(names, method, variant=variant, name=f"{method}-{variant}").fused(
        runs, training if method != "ibc" else None
    )


def judged(parts: Sequence[Qrels]) -> Qrels:
    """Judgments of different topics as one."""
    return Qrels.from_dict("training", {topic: docs for part in parts for topic, docs in part.to_dict().items()})


def values(scores: Sequence[Scores], measure: str) -> Floats:
    """A measure of every topic that counts, of several editions."""
    found = np.concatenate([score.column(measure) for score in scores])
    return np.asarray(found[~np.isnan(found)])


def table(
    title: str, found: Mapping[tuple[str, str], Sequence[Scores]], singles: Mapping[str, Sequence[Scores]]
) -> None:
    """Print means, and each method's difference with its test."""
    first = next(iter(found.values()))
    print(f"\n## {title}\n")
    heads = [f"{NAMES[measure]} of {len(values(first, measure))} topics" for measure in TESTED]
    print("| run | " + " | ".join(heads) + " |\n|---|" + "---|" * len(TESTED))
    rows = [*singles.items(), *((f"{method}, {variant}", scores) for (method, variant), scores in found.items())]
    for name, scores in rows:
        print(f"| {name} | " + " | ".join(f"{values(scores, measure).mean():.4f}" for measure in TESTED) + " |")
    print("\n| method | measure | authors - paper | 95 % interval | p | corrected | topics better / equal / worse |")
    print("|---|---|---|---|---|---|---|")
    family = len(METHODS) * len(TESTED)
    for method in METHODS:
        for measure in TESTED:
            paper, authors = (values(found[method, variant], measure) for variant in VARIANTS)
            by = authors - paper
            result = stats.ttest_rel(authors, paper)
            low, high = result.confidence_interval()
            signs = " / ".join(str(int(count)) for count in ((by > 0).sum(), (by == 0).sum(), (by < 0).sum()))
            corrected = min(1.0, result.pvalue * family)
            star = " \\*" if corrected < 0.05 else ""
            print(
                f"| {method} | {NAMES[measure]} | {by.mean():+.4f}{star} | {low:+.4f} to {high:+.4f} | "
                f"{shown_p(result.pvalue).text} | {shown_p(corrected).text} | {signs} |"
            )


def years(folder: Path) -> None:
    """Four systems over `mse-pages`; what learns learns on the other two editions."""
    runs = {(year, name): read_run(made(year, name, {}, folder)[1]) for year in YEARS for name in SYSTEMS}
    qrels = {year: year_task(year).scorer.qrels for year in YEARS}
    scorers = {year: year_task(year).scorer for year in YEARS}
    found = {}
    for method in METHODS:
        for variant in VARIANTS:
            scores = []
            for year in YEARS:
                others = [other for other in YEARS if other != year]
                training = [joined([runs[other, name] for other in others]) for name in SYSTEMS]
                learned = (training, judged([qrels[other] for other in others]))
                scores.append(scorers[year](fused(method, variant, [runs[year, name] for name in SYSTEMS], learned)))
            found[method, variant] = scores
    singles = {name: [scorers[year](runs[year, name]) for year in YEARS] for name in SYSTEMS}
    table("Four systems over mse-pages, ARQMath-1 to -3", found, singles)


def archived() -> None:
    """The public runs of ARQMath-1; what learns learns on the other half of the topics."""
    source, where = config.load("source", "arqmath-psu")
    paths = [local(catalogue.resource({"source": "arqmath-psu", "path": path}, where)) for path in source["files"]]
    runs = [read_run(path) for path in paths]
    scorer = load_collection("arqmath-1-task1").scorer(measures=TESTED)
    names = sorted(scorer.qrels.topics)
    halves = [names[0::HALVES], names[1::HALVES]]
    found = {}
    for method in METHODS:
        for variant in VARIANTS:
            parts = []
            for test, train in ((0, 1), (1, 0)):
                known = scorer.qrels.to_dict()
                half = Qrels.from_dict("half", {topic: known[topic] for topic in halves[train]})
                learned = ([only(run, halves[train]) for run in runs], half)
                parts.append(fused(method, variant, [only(run, halves[test]) for run in runs], learned))
            found[method, variant] = [scorer(joined(parts))]
    table("Nine public runs of ARQMath-1", found, {})


def main() -> None:
    """Both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the runs that are fused")
    folder = parser.parse_args().runs
    archived()
    years(folder)


if __name__ == "__main__":
    main()
