"""Sections that an experiment's file may ask for by name, `sections: [seeds, collections]`: `NAME_sections` here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.errors import HarnessError
from harness.experiments.experiment import Labels, labels_text
from harness.experiments.results import POOLED, ExperimentResults
from harness.render.model import Block, Cell, Column, Prose, Section, Table, number_cell
from harness.reports.experiment_parts import measure_label, row_cells, row_columns
from harness.reports.joint import heterogeneity_table
from harness.scoring.intervals import numbers_of_names
from harness.scoring.scores import Scores, values_of
from harness.scoring.seeds import SeedTest, SeedVariance, seed_test, seed_variance, seeds_needed
from harness.scoring.strata import stratified_test

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
        (
            *row_cells(row),
            Cell(str(variance.seeds), variance.seeds),
            Cell(f"{variance.topics:,}", variance.topics),
            *(number_cell(value, 4) for value in (variance.seed, variance.topic, variance.interaction)),
        )
        for row, variance in components.items()
    )
    names = ("seeds", "topics", "sd of seeds", "sd of topics", "sd of both")
    columns = (*row_columns(results), *(Column(name, kind="number") for name in names))
    note = (
        "Crossed random effects from mean squares: seeds' true means, topics' true means, and what is left, as seeds "
        "do better on some topics than on others."
    )
    named = len(row_columns(results))
    of = f"{label}{f', {part}' if part else ''}"
    blocks: list[Block] = [Table("seed-variance", f"Variance of {of}", columns, rows, (note,), named)]
    clustered = any(results.clusters(row, part) is not None for row in components)
    needs = () if clustered else _needs(results, part, components)
    if needs:
        further = ("difference", "error", "of topics alone", "seeds needed")
        columns = (*row_columns(results), Column("against"), *(Column(name, kind="number") for name in further))
        note = (
            f"Seeds needed: of each trained system, to find a difference as large as this one in {label} with a power "
            f"of 0.8 at alpha {results.alpha:g}, on these topics and without correction; none: more seeds do not "
            "suffice, it takes more topics."
        )
        blocks.append(Table("seeds-needed", f"Seeds that a difference in {of} needs", columns, needs, (note,), named))
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
        rows.append(
            (
                *row_cells(test.row),
                Cell(labels_text(test.against)),
                *(number_cell(value, 4) for value in (result.difference, result.error, result.topics_error)),
                Cell("none") if need is None else Cell(f"{need:,}", need),
            )
        )
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
