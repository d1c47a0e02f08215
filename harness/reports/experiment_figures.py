"""Figures of an experiment: means of the rows, differences from the baseline, and effectiveness against cost."""

from __future__ import annotations

import math

from harness.errors import counted_text
from harness.experiments.costs import COLUMNS
from harness.experiments.experiment import Labels, labels_text
from harness.experiments.results import ExperimentResults
from harness.render import figures
from harness.render.model import Figure
from harness.reports.experiment_parts import measure_label
from harness.reports.parts import best_mean, equal, mean_interval
from harness.scoring.scores import Scores


def experiment_means_figure(results: ExperimentResults) -> Figure | None:
    """Draws the mean of each row with its interval, in the order of the experiment's file; None below two rows.

    Draws only the best `figures.MOST_ROWS` rows, on the last set of topics, which is all topics if sets can be pooled.
    """
    measure, part = results.experiment.measures[0], results.parts[-1]
    scored = [(row, scores) for row in results.rows if (scores := results.scores(row, part, partial=True)) is not None]
    means = {row: scores.aggregate(measure) for row, scores in scored}
    kept = [row for row, mean in means.items() if not math.isnan(mean)]
    if len(kept) < 2:
        return None
    best = max(kept, key=lambda row: means[row])
    some = ""
    if len(kept) > figures.MOST_ROWS:
        some = f", the best {figures.MOST_ROWS} of {len(kept)} rows"
        first = sorted(kept, key=lambda row: -means[row])[: figures.MOST_ROWS]
        kept = [row for row in kept if row in first]
    top = best_mean([scores for _, scores in scored], measure)
    drawn = [
        (labels_text(row), means[row], *_interval(results, row, part, measure), equal(means[row], top)) for row in kept
    ]
    label = measure_label(results, measure)
    caption = f"{label} by condition{some}; {_topics(results, dict(scored)[best], part)}"
    caption += "" if math.isnan(top) else "; diamond: the best"
    svg = figures.dot_interval(drawn, f"{label}, 95% interval over topics", zero=False)
    return Figure("means-figure", caption, svg)


def _interval(results: ExperimentResults, row: Labels, part: str, measure: str) -> tuple[float, float]:
    """Returns the t interval of a row's mean over topics."""
    scores = results.scores(row, part, partial=True)
    if scores is None:
        return math.nan, math.nan
    return mean_interval(scores, measure, results.clusters(row, part))


def _topics(results: ExperimentResults, scores: Scores, part: str) -> str:
    """Describes topics, edition and protocol."""
    where = part if part else f"{scores.collection}, edition {scores.edition}"
    return f"{where}, n = {scores.n(results.experiment.measures[0])}, protocol {scores.protocol.name}"


def differences_figure(results: ExperimentResults) -> Figure | None:
    """Draws the differences from the baseline with their intervals (a forest plot); None without tests."""
    if results.comparison is None:
        return None
    measure, part = results.experiment.measures[0], results.parts[-1]
    tests = [test for test in results.tests if test.result.measure == measure]
    tests = [test for test in tests if test.part == part] or tests
    several = len({test.against for test in tests}) > 1
    drawn = []
    for test in tests[: figures.MOST_ROWS]:
        names = [labels_text(test.row), *([f"- {labels_text(test.against)}"] if several else [])]
        row = test.result
        drawn.append((" ".join(names), row.difference, row.ci_low, row.ci_high, bool(row.significant_bonferroni)))
    if not drawn:
        return None
    label = measure_label(results, measure)
    some = f", the first {figures.MOST_ROWS} of {len(tests)}" if len(tests) > figures.MOST_ROWS else ""
    base = "the baselines" if several else labels_text(tests[0].against)
    where = f"{tests[0].part}, " if tests[0].part else ""
    n = sorted({test.result.n for test in tests})
    topics = str(n[0]) if len(n) == 1 else f"{n[0]} to {n[-1]}"
    caption = (
        f"Differences in {label} from {base}{some}; {where}n = {topics}; "
        f"diamond: significant after Bonferroni's correction over {counted_text(results.comparison.family, 'test')}"
    )
    svg = figures.dot_interval(drawn, f"difference in {label}, {results.comparison.confidence:.0%} interval")
    return Figure("differences-figure", caption, svg)


def cost_figure(results: ExperimentResults) -> Figure | None:
    """Draws the first measure against the first requested cost that at least two rows have."""
    measure, part = results.experiment.measures[0], results.parts[-1]
    label = measure_label(results, measure)
    for name in results.experiment.costs:
        column, points = COLUMNS[name], []
        for row in results.rows:
            scores = results.scores(row, part, partial=True)
            sides = [outcome.costs for outcome in results.of(row, part) if outcome.run is not None]
            value = column.of(sides)
            if scores is not None and value is not None:
                points.append((labels_text(row), value / column.per, scores.aggregate(measure)))
        if len(points) > 1:
            svg = figures.scatter(points, column.title, label)
            return Figure("cost-figure", f"{label} against cost ({column.title}){f' ({part})' if part else ''}", svg)
    return None
