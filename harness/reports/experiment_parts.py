"""Parts of the report of an experiment: best seeds, tuned settings, costs and curves.

Figures of an experiment: means of the rows, differences from the baseline, and effectiveness against cost.

Sections that an experiment's file may ask for by name, `sections: [seeds, collections]`: `NAME_sections` here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from harness.errors import HarnessError, counted_text
from harness.experiments.costs import COLUMNS, losses, together
from harness.experiments.experiment import Labels, labels_text
from harness.experiments.results import POOLED, BestSetting, ExperimentResults
from harness.render import figures
from harness.render.model import (
    Block,
    Cell,
    Column,
    Figure,
    Prose,
    Records,
    Section,
    Table,
    cells,
    columns,
    number_cell,
    slug,
)
from harness.render.svg import SERIES
from harness.reports.joint import heterogeneity_table
from harness.reports.parts import best_mean, equal, mean_interval
from harness.scoring.intervals import numbers_of_names
from harness.scoring.random_effects import (
    SeedTest,
    SeedVariance,
    seed_test,
    seed_variance,
    seeds_needed,
    stratified_test,
)
from harness.scoring.scores import Scores, values_of


def row_columns(results: ExperimentResults) -> tuple[Column, ...]:
    """Returns the columns that identify a row: the condition and each axis but the pooled one."""
    experiment = results.experiment
    return tuple(Column(name) for name in experiment.coordinates if name != experiment.pool)


def measure_label(results: ExperimentResults, measure: str) -> str:
    """Returns the name of a measure under the first run's protocol."""
    known = (outcome.scores.protocol for outcome in results.outcomes if outcome.scores is not None)
    return next(known).label(measure)


# ---- chosen seeds and settings ----------------------------------------------------------------------------------


def seeds_section(results: ExperimentResults) -> Section | None:
    """Returns the best of several seeds, marked if it was chosen on the reported topics."""
    plan, first = results.experiment.seeds, results.experiment.measures[0]
    if plan is None:
        return None
    best = {(row, part): results.best_seed(row, part) for row in results.rows for part in results.parts}
    if not any(best.values()):
        return None
    label = measure_label(results, first)
    if plan.best == "evaluation":
        how = f"The seed is the best of several by {label} on the reported topics themselves, which is optimistic."
    else:
        how = f"The seed is the best of several by {label} on the other sets of topics."
    mark = ("chosen",) if plan.best == "evaluation" else ()
    return Section("Best seed", (_chosen_table(results, best, "best-seed", "The best seed", "seed", mark, how),))


def settings_section(results: ExperimentResults) -> Section | None:
    """Returns the settings chosen for tuned conditions."""
    sets = [part for part in results.parts if part in results.sets]
    tuned = [row for row in results.rows if results.is_tuned(row)]
    best = {(row, part): results.setting(row, part) for row in tuned for part in sets}
    if not best:
        return None
    numbers = {row: len({o.cell.point for o in results.of(row, sets[0])}) for row in tuned}
    tried = "; ".join(f"{labels_text(row)} ({counted_text(number, 'setting')})" for row, number in numbers.items())
    label = measure_label(results, results.experiment.measures[0])
    others = "other sets" if results.experiment.tune_on == "sets" else "other half of the set (odd and even topics)"
    how = f"The settings of each set of topics are the best by {label} on the {others}. Tried: {tried}."
    return Section("Settings", (_chosen_table(results, best, "settings", "Chosen settings", "setting", (), how),))


def _chosen_table(
    results: ExperimentResults,
    best: Mapping[tuple[Labels, str], BestSetting | None],
    name: str,
    caption: str,
    heading: str,
    mark: tuple[str, ...],
    how: str,
) -> Table:
    measures = results.experiment.measures
    parts = [part for part in results.parts if any(at == part for _, at in best)]
    rows = []
    for row in [row for row in results.rows if any(best.get((row, part)) for part in parts)]:
        shown = [*cells(*row)]
        for part in parts:
            chosen = best.get((row, part))
            if chosen is None:
                shown += [Cell("", marks=("missing",))] * (1 + len(measures))
            else:
                shown.append(Cell(chosen.name))
                shown += [number_cell(chosen.scores.aggregate(measure), 3, mark) for measure in measures]
        rows.append(tuple(shown))
    labels = [measure_label(results, measure) for measure in measures]
    heads = [*row_columns(results)]
    for part in parts:
        heads += [Column(heading, part), *columns(numbers=labels, group=part)]
    return Table(name, caption, tuple(heads), tuple(rows), (how,), len(row_columns(results)))


# ---- costs ------------------------------------------------------------------------------------------------------


def costs_section(results: ExperimentResults) -> Section | None:
    """Returns the table of the costs that the experiment asks for."""
    if not results.experiment.costs:
        return None
    rows = []
    for row, runs, values in _cost_rows(results):
        shown = (
            number_cell(None if value is None else value / COLUMNS[name].per, COLUMNS[name].digits)
            for name, value in values.items()
        )
        rows.append(cells(*row, runs, *shown))
    titles = (COLUMNS[name].title for name in results.experiment.costs)
    notes = [
        "Measured when the runs were made, on the machines in their metadata files; for a cached training, when it was "
        "trained. n/a: not measured.",
        "Over several runs, times are means, the query time is the median of all, and memory, index and vectors are "
        "maxima. Memory is that of the process that made the run: it excludes building a cached index and may include "
        "memory of earlier rows.",
    ]
    several = max((together(outcome.costs) for outcome in results.outcomes), default=1)
    if {"latency", "rate"} & set(results.experiment.costs):
        notes.append(
            "Topics that are searched in one batch share its time equally, so this is not the waiting time of a query; "
            "encoding topics is not included." + (f" Batches have up to {several} topics." if several > 1 else "")
        )
    heads = (*row_columns(results), *columns(numbers=("runs", *titles)))
    named = len(row_columns(results))
    return Section("Costs", (Table("costs", "Costs", heads, tuple(rows), tuple(notes), named),))


def _cost_rows(results: ExperimentResults) -> Iterator[tuple[Labels, int, dict[str, float | None]]]:
    """Yields each row with the number of its runs and its costs, in seconds and bytes."""
    for row in results.rows:
        sides = [outcome.costs for part in results.sets for outcome in results.of(row, part) if outcome.run is not None]
        yield row, len(sides), {name: COLUMNS[name].of(sides) for name in results.experiment.costs}


def cost_records(results: ExperimentResults) -> Records:
    """Returns one record for each row of the table and cost, in seconds, bytes and numbers."""
    names = [column.title for column in row_columns(results)]
    rows = tuple((*row, name, value) for row, _, values in _cost_rows(results) for name, value in values.items())
    return Records((*names, "cost", "value"), rows)


# ---- curves -----------------------------------------------------------------------------------------------------


def curves_section(results: ExperimentResults) -> Section | None:
    """Returns means over numeric axes, and training losses if the experiment asks for them."""
    blocks: list[Block] = [block for axis in results.experiment.numeric for block in _axis_figures(results, axis)]
    if results.experiment.curves:
        blocks += _losses(results)
    return Section("Learning curves", tuple(blocks)) if blocks else None


def _axis_figures(results: ExperimentResults, axis: str) -> Iterator[Figure]:
    """Yields the first measure over the labels of an axis: means over seeds, with deviations."""
    place = [column.title for column in row_columns(results)].index(axis)
    measure = results.experiment.measures[0]
    label = measure_label(results, measure)
    part = results.parts[-1]
    lines: dict[str, list[tuple[float, float]]] = {}
    rows = []
    for row in sorted(results.rows, key=lambda row: float(row[place])):
        scores = results.scores(row, part, partial=True)
        if scores is None:
            continue
        name = labels_text(label for at, label in enumerate(row) if at != place)
        mean, sd = scores.aggregate(measure), results.deviation(row, part, measure)
        seeds = len(results.seeds(row, part, partial=True))
        lines.setdefault(name, []).append((float(row[place]), mean))
        at = Cell(row[place], float(row[place]))
        spread = Cell("") if sd is None else number_cell(sd, 4)
        rows.append(cells(name, at, seeds, number_cell(mean, 4), spread))
    heads = columns("row", numbers=(axis, "seeds", label, f"{label} sd"))
    caption = f"{label} by {axis}{f' ({part})' if part else ''}: means over seeds"
    note = "sd: the standard deviation of the seeds' means; empty for a single seed."
    table = Table(f"over-{slug(axis)}", caption, heads, tuple(rows), (note,), 2)
    for number, some in enumerate(_line_groups(list(lines.items()))):
        name = f"curve-{slug(axis)}{f'-{number + 1}' if number else ''}"
        yield Figure(name, caption, figures.curves(some, axis, label, caption), None if number else table)


def _losses(results: ExperimentResults) -> list[Block]:
    """Returns losses by step and by epoch, a line for each training; shared trainings are drawn once."""
    by_kind: dict[str, dict[str, list[tuple[float, float]]]] = {}
    seen: set[str] = set()
    for outcome in results.outcomes:
        recorded = losses(outcome.costs)
        if not recorded or repr(recorded) in seen:
            continue
        seen.add(repr(recorded))
        row = results.experiment.row(outcome.cell.labels)
        part = results.experiment.part(outcome.cell.labels)
        seed = f"seed {outcome.cell.seed}" if outcome.cell.seed else ""
        name = labels_text(filter(None, (*row, part, seed)))
        for kind, points in recorded.items():
            by_kind.setdefault(kind, {})[name] = points
    if not by_kind:
        return [Prose(("No training recorded its losses.",))]
    blocks: list[Block] = []
    for kind, lines in by_kind.items():
        x, _, y = kind.partition(": ")
        heads = columns("training", numbers=(x, y))
        rows = tuple(
            cells(name, number_cell(at, 0), number_cell(value, 4))
            for name, points in lines.items()
            for at, value in points
        )
        for number, some in enumerate(_line_groups(list(lines.items()))):
            name = f"{slug(y)}-by-{x}"
            table = Table(f"{name}-values", f"{y} by {x}", heads, rows, (), 2, collapsed=True) if not number else None
            caption = f"{y} by {x}"
            svg = figures.curves(some, x, y, caption)
            blocks.append(Figure(f"{name}{f'-{number + 1}' if number else ''}", caption, svg, table))
    return blocks


Line = tuple[str, Sequence[tuple[float, float]]]


def _line_groups(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    """Yields as many lines at a time as a figure can distinguish."""
    for begin in range(0, len(lines), SERIES):
        yield lines[begin : begin + SERIES]


def experiment_means_figure(results: ExperimentResults) -> Figure | None:
    """Draws the mean of each row with its interval, in the order of the experiment's file; None below two rows.

    Draws only the best `figures.MOST_ROWS` rows, on the last set of topics, which is all topics if sets can be pooled.
    """
    measure, part = results.experiment.measures[0], results.parts[-1]
    scored = {row: scores for row in results.rows if (scores := results.scores(row, part, partial=True)) is not None}
    means = {row: scores.aggregate(measure) for row, scores in scored.items()}
    kept = [row for row, mean in means.items() if not math.isnan(mean)]
    if len(kept) < 2:
        return None
    best = max(kept, key=lambda row: means[row])
    some = ""
    if len(kept) > figures.MOST_ROWS:
        some = f", the best {figures.MOST_ROWS} of {len(kept)} rows"
        first = sorted(kept, key=lambda row: -means[row])[: figures.MOST_ROWS]
        kept = [row for row in kept if row in first]
    top = best_mean(list(scored.values()), measure)
    ends = {row: mean_interval(scored[row], measure, results.clusters(row, part)) for row in kept}
    drawn = [(labels_text(row), means[row], *ends[row], equal(means[row], top)) for row in kept]
    label, scores = measure_label(results, measure), scored[best]
    where = part or f"{scores.collection}, edition {scores.edition}"
    caption = f"{label} by condition{some}; {where}, n = {scores.n(measure)}, protocol {scores.protocol.name}"
    caption += "" if math.isnan(top) else "; diamond: the best"
    svg = figures.dot_interval(drawn, f"{label}, 95% interval over topics", zero=False)
    return Figure("means-figure", caption, svg)


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
        named = labels_text(test.row) + (f" - {labels_text(test.against)}" if several else "")
        row = test.result
        drawn.append((named, row.difference, row.ci_low, row.ci_high, bool(row.significant_bonferroni)))
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


CLUSTERED = (
    "Topics that depend on each other are tested by their means over seeds, with errors that are robust to clusters: "
    "there is no such test over both, so that other seeds may change these results more than their p-values say."
)
FOR_A_PAPER = (
    'For a paper: "Trained systems were compared over topics and seeds, both random samples, by a t-test of the '
    "crossed design with Satterthwaite's degrees of freedom.\""
)


def seeds_sections(results: ExperimentResults) -> Sequence[Section]:
    """Returns the variance of seeds, topics and their interaction, and how many seeds the differences need."""
    part, measure = results.parts[-1], results.experiment.measures[0]
    components = {row: variance for row in results.rows if (variance := _components(results, row, part)) is not None}
    if not components:
        return []
    label = measure_label(results, measure)
    rows = tuple(
        cells(
            *row,
            *(variance.seeds, variance.topics),
            *(number_cell(value, 4) for value in (variance.seed, variance.topic, variance.interaction)),
        )
        for row, variance in components.items()
    )
    names = ("seeds", "topics", "sd of seeds", "sd of topics", "sd of both")
    heads = (*row_columns(results), *columns(numbers=names))
    note = (
        "Crossed random effects from mean squares: seeds' true means, topics' true means, and what is left, as seeds "
        "do better on some topics than on others."
    )
    named = len(row_columns(results))
    of = f"{label}{f', {part}' if part else ''}"
    blocks: list[Block] = [Table("seed-variance", f"Variance of {of}", heads, rows, (note,), named)]
    clustered = any(results.clusters(row, part) is not None for row in components)
    needs = () if clustered else _needs(results, part, components)
    if needs:
        further = ("difference", "error", "of topics alone", "seeds needed")
        heads = (*row_columns(results), *columns("against", numbers=further))
        note = (
            f"Seeds needed: of each trained system, to find a difference as large as this one in {label} with a power "
            f"of 0.8 at alpha {results.alpha:g}, on these topics and without correction; none: more seeds do not "
            "suffice, it takes more topics."
        )
        blocks.append(Table("seeds-needed", f"Seeds that a difference in {of} needs", heads, needs, (note,), named))
    blocks.append(Prose((CLUSTERED if clustered else FOR_A_PAPER,)))
    return [Section("Variance of seeds", tuple(blocks))]


def _table_of(results: ExperimentResults, row: Labels, part: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Returns the first measure of each seed, shape (seeds, topics); NaN where a topic does not count."""
    seeds = results.seeds(row, part, partial=True)
    return values_of(seeds, results.experiment.measures[0]).T if seeds else np.zeros((0, 0))


def _components(results: ExperimentResults, row: Labels, part: str) -> SeedVariance | None:
    values = _table_of(results, row, part)
    values = values[:, ~np.isnan(values).any(axis=0)]
    return seed_variance(values) if values.shape[0] > 1 and values.shape[1] > 1 else None


def _needs(
    results: ExperimentResults, part: str, components: dict[Labels, SeedVariance]
) -> tuple[tuple[Cell, ...], ...]:
    """Returns for each tested row with seeds its difference, errors, and the seeds that find it."""
    rows = []
    for test in results.tests:
        of = components.get(test.row, components.get(test.against))
        if of is None or (test.part, test.result.measure) != (part, results.experiment.measures[0]):
            continue
        result = _seed_test(results, test.row, test.against, part)
        other = components.get(test.against) if test.row in components else None
        need = seeds_needed(of, other, result.topics_error, abs(result.difference), results.alpha)
        values = (number_cell(value, 4) for value in (result.difference, result.error, result.topics_error))
        rows.append(cells(*test.row, labels_text(test.against), *values, "none" if need is None else need))
    return tuple(rows)


def _seed_test(results: ExperimentResults, row: Labels, against: Labels, part: str) -> SeedTest:
    a, b = (_table_of(results, side, part) for side in (row, against))
    counted = ~np.isnan(np.concatenate((a, b))).any(axis=0)
    return seed_test(a[:, counted], b[:, counted])


def collections_sections(results: ExperimentResults) -> Sequence[Section]:
    """Returns how far the sets of topics agree on the differences of rows from their baselines, and a test over all."""
    tests, refused = [], []
    pairs = dict.fromkeys((test.row, test.against) for test in results.tests if test.part == POOLED)
    for row, against in pairs:
        for measure in results.experiment.of_tests:
            apart, units = {}, {}
            for part in results.sets:
                sides = [results.scores(side, part) for side in (row, against)]
                a, b = (_checked(side) for side in sides)
                values = a.column(measure) - b.column(measure)
                counted = ~np.isnan(values)
                clusters = results.clusters(row, part) or {topic: topic for topic in a.topics}
                topics = [topic for topic, counts in zip(a.topics, counted.tolist(), strict=True) if counts]
                apart[part] = values[counted]
                units[part] = numbers_of_names([clusters[topic] for topic in topics]).tolist()
            try:
                tests.append(stratified_test(labels_text(row), labels_text(against), measure, apart, clusters=units))
            except HarnessError as error:
                refused.append(f"Not tested: {error}.")
    label = next((o.scores.protocol.label for o in results.outcomes if o.scores is not None), str)
    blocks: list[Block] = [heterogeneity_table(tests, label)] if tests else []
    blocks += [Prose(tuple(refused))] if refused else []
    return [Section("Agreement of the sets of topics", tuple(blocks))] if blocks else []


def _checked(scores: Scores | None) -> Scores:
    if scores is None:
        raise HarnessError("a tested row has no scores")
    return scores
