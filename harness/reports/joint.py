"""Tables and report of runs on several collections: means by collection, tests over all topics, heterogeneity.

Evaluations and comparisons as HTML tables for notebooks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from harness.errors import counted_text
from harness.experiments.evaluate import Evaluation, inputs
from harness.experiments.evaluation import JointEvaluation, heterogeneity
from harness.render import figures
from harness.render.model import Cell, Figure, Prose, Section, Table, cells, columns, number_cell, slug
from harness.render.svg import SERIES
from harness.render.write import Report
from harness.reports.comparison import equivalence_section
from harness.reports.means import comparison_means_table, evaluation_document
from harness.reports.pair_tests import correction_name, methods_text, shown_p, test_marks, tests_table
from harness.reports.parts import (
    best_mean,
    best_words,
    comparison_records,
    equal,
    protocol_text,
    provenance_section,
    score_records,
)
from harness.scoring.comparison import Comparison, comparison_to_json
from harness.scoring.measures import shown_decimals
from harness.scoring.random_effects import StratifiedTest
from harness.scoring.scores import Scores

ALL = "all topics"


def joint_means_table(
    evaluation: JointEvaluation, measure: str, comparison: Comparison | None = None, decimals: int = 4
) -> Table:
    """Returns runs x collections: means of a measure, then the mean over the topics of all collections.

    A cell is empty where a run has no results for the collection, and so is then its mean over all topics.
    """
    whole = {scores.run: scores for scores in evaluation.scores}
    rows_of = comparison.rows if comparison is not None and comparison.baseline else ()
    tests = {row.a: row for row in rows_of if row.measure == measure}
    scored = {run: [*evaluation.of(run), whole.get(run)] for run in evaluation.runs}
    best = [
        best_mean([scores for scores in column if scores is not None], measure)
        for column in zip(*scored.values(), strict=True)
    ]
    digits = shown_decimals(measure, decimals)

    def cell(scores: Scores | None, top: float, marks: tuple[str, ...]) -> Cell:
        if scores is None:
            return Cell("", marks=("missing",))
        mean = scores.aggregate(measure)
        return number_cell(mean, digits, (*marks, *(("best",) if equal(mean, top) else ())))

    rows = []
    for run in evaluation.runs:
        marks = [() for _ in evaluation.parts] + [test_marks(tests.get(run))]
        shown = [cell(*each) for each in zip(scored[run], best, marks, strict=True)]
        named = Cell(run, marks=("baseline",) if comparison is not None and run == comparison.baseline else ())
        rows.append(((named, *shown), -whole[run].aggregate(measure) if run in whole else math.inf))
    counted = {name: part.scores[0].n(measure) for name, part in evaluation.parts.items()}
    label = next(iter(evaluation.parts.values())).scores[0].protocol.label(measure)
    n = ", ".join(f"{name} {count}" for name, count in counted.items())
    notes = [f"Topics of the first run: {n}. The last column is the mean over the topics of all collections."]
    if tests and comparison is not None:
        notes.append(f"Tests: {comparison.correction}; marks after {correction_name(comparison)}.")
    ordered = tuple(row for row, _ in sorted(rows, key=lambda each: each[1]))
    caption = f"{label} by collection"
    return Table(
        f"collections-{slug(measure)}",
        caption,
        columns("run", numbers=(*evaluation.parts, ALL)),
        ordered,
        tuple(notes),
        row_headers=1,
    )


def heterogeneity_table(tests: Sequence[StratifiedTest], label: Callable[[str], str] = str) -> Table:
    """Returns for each pair and measure the difference on each collection, and how far the collections agree."""
    rows = tuple(
        cells(
            *(test.a, test.b, label(test.measure)),
            *(number_cell(difference, 4) for difference in (*test.differences.values(), test.fixed.difference)),
            number_cell(None if test.random is None else test.random.difference, 4),
            shown_p(None if test.random is None else test.random.p),
            *(number_cell(test.i_squared, 2), shown_p(test.q_p)),
        )
        for test in tests
    )
    names = (*tests[0].differences, ALL, "collections like these", "p of these", "I²", "p of Q")
    heads = columns("a", "b", "measure", numbers=names)
    notes = (
        "Differences a - b. All topics: of these collections, each topic weighs the same. Collections like these: the "
        "collection as a random effect (Paule and Mandel; Hartung and Knapp), p not corrected; with few collections it "
        "rarely finds anything.",
        "I²: share of the variance between collections that is not the sampling of topics; Q: the test that there is "
        "none (Cochran).",
    )
    return Table("heterogeneity", "Agreement of the collections", heads, rows, notes, row_headers=3)


def joint_methods(comparison: Comparison, collections: int) -> str:
    """Returns sentences for the methods section of a paper."""
    return (
        f"{methods_text(comparison)} t-tests are over the topics of {counted_text(collections, 'collection')}, each a "
        "stratum (Cochran, 1977; degrees of freedom by Satterthwaite); heterogeneity by Cochran's Q and I²."
    )


def joint_report(evaluation: JointEvaluation, comparison: Comparison | None = None) -> Report:
    """Builds the report of runs on several collections; with a comparison, also of their differences."""
    first = next(iter(evaluation.parts.values())).scores[0]
    protocol, measure = first.protocol, evaluation.measures[0]
    shown = evaluation.runs[:SERIES]
    bars = [
        [math.nan if scores is None else scores.aggregate(measure) for scores in column]
        for column in zip(*(evaluation.of(run) for run in shown), strict=True)
    ]
    drawn = "" if len(shown) == len(evaluation.runs) else f", the first {len(shown)} runs"
    label = protocol.label(measure)
    svg = figures.grouped_bars(list(evaluation.parts), list(shown), bars, label)
    figure = Figure("collections", f"{label} by collection{drawn}", svg)
    tables = [joint_means_table(evaluation, each, comparison, 3) for each in evaluation.measures]
    sections = [Section("Results", (figure, *tables))]
    records = {"scores": score_records([s for part in evaluation.parts.values() for s in part.scores])}
    if comparison is not None:
        agree = heterogeneity_table(heterogeneity(evaluation, comparison), protocol.label)
        sections.append(Section("Significance tests", (tests_table(comparison, protocol.label), agree)))
        if (equivalent := equivalence_section(comparison, protocol.label)) is not None:
            sections.append(equivalent)
        sections.append(Section("Methods, for a paper", (Prose((joint_methods(comparison, len(evaluation.parts)),)),)))
        records["comparison"] = comparison_records(comparison)
    sections.append(Section("Data and protocol", (protocol_text(protocol),)))
    made = [inputs(part) for part in evaluation.parts.values()]
    whole = {name: digest for each in made for name, digest in each.files.items()}
    sections.append(provenance_section(replace(made[0], files=whole)))
    means = {scores.run: scores.aggregate(measure) for scores in evaluation.scores}
    best = best_words(measure, label, means) if means else "no run has results for all"
    headline = f"{counted_text(len(evaluation.runs), 'run')} on {', '.join(evaluation.parts)}: {best}"
    return Report(" and ".join(evaluation.parts), headline, tuple(sections), records=records)


def joint_document(evaluation: JointEvaluation, comparison: Comparison | None = None) -> dict[str, Any]:
    """Returns evaluations by collection (schema mathir-harness/evaluation), the comparison and the heterogeneity."""
    tests = [] if comparison is None else heterogeneity(evaluation, comparison)
    return {
        "evaluations": {name: evaluation_document(part) for name, part in evaluation.parts.items()},
        "comparison": None if comparison is None else comparison_to_json(comparison),
        "heterogeneity": [asdict(test) for test in tests],
    }


def table_html(value: Evaluation | JointEvaluation | Comparison) -> str:
    """Returns the means of runs, or the tests between them, as an HTML table."""
    from harness.render.html import render_html_table

    if isinstance(value, JointEvaluation):
        return "".join(render_html_table(joint_means_table(value, measure)) for measure in value.measures)
    return render_html_table(
        comparison_means_table(value, None) if isinstance(value, Evaluation) else tests_table(value)
    )
