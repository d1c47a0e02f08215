"""Variation between seeds of one system, separate from the variation between topics."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from harness.errors import HarnessError, suggestion
from harness.scoring.compare import common_identity, common_measures
from harness.scoring.scores import Scores


@dataclass(frozen=True)
class SeedRow:
    """Statistics of one measure over the means of seeds; the sd has ddof 1 and is None for a single seed."""

    measure: str
    mean: float
    sd: float | None
    minimum: float
    maximum: float
    best: float


@dataclass(frozen=True)
class SeedSummary:
    """One system under several seeds.

    The run `best` is best by the measure `by`; each row's `best` is the mean of that run. `selected_on_evaluation`
    states that it was selected on the reported topics, so its scores are optimistic.
    """

    runs: tuple[str, ...]
    rows: tuple[SeedRow, ...]
    by: str
    best: str
    selected_on_evaluation: bool
    collection: str
    edition: str
    protocol: str
    qrels_sha256: str


def aggregate_seeds(scores: Sequence[Scores], by: str, selected_on_evaluation: bool) -> SeedSummary:
    """Returns mean, spread and best seed of one system run with several seeds; `by` is the measure that picks the best.

    Ties are broken by name. Raises HarnessError if runs are not comparable, the measure is unknown, or no topic counts.
    """
    identity = common_identity(scores)
    measures = common_measures(scores, None)
    if by not in measures:
        raise HarnessError(f"unknown measure {by!r}; {suggestion(by, measures)}")
    for score, measure in product(scores, measures):
        if score.n(measure) == 0:
            raise HarnessError(f"run {score.run} has no topics that count for {measure}")
    best = min(scores, key=lambda score: (-score.mean(by), score.run))
    rows = []
    for measure in measures:
        x = [score.mean(measure) for score in scores]
        sd = statistics.stdev(x) if len(x) > 1 else None
        rows.append(SeedRow(measure, statistics.mean(x), sd, min(x), max(x), best.mean(measure)))
    return SeedSummary(
        runs=tuple(score.run for score in scores),
        rows=tuple(rows),
        by=by,
        best=best.run,
        selected_on_evaluation=selected_on_evaluation,
        **identity,
    )
