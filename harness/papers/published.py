"""Published values beside those of an experiment that reproduces a paper's systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from harness.experiments.experiment import FULL
from harness.experiments.results import ExperimentResults, Outcome
from harness.papers.cells import PublishedCell as Published
from harness.papers.cells import judge
from harness.papers.paper import Paper
from harness.render.model import Cell, Column, Prose, Section, Table, number_cell
from harness.scoring.scores import Scores

Place = Callable[[Outcome, Scores, str], tuple[str, str, str, str]]


def metric_of(paper: Paper, measure: str) -> str:
    """Returns the paper's name of a measure; empty if it prints no values of it."""
    measures = {} if paper.scored is None else paper.scored.measures
    return next((metric for metric, name in measures.items() if name == measure), "")


def published_values(
    results: ExperimentResults, printed: Mapping[tuple[str, str, str, str], Published], place: Place
) -> Sequence[Section]:
    """Returns the outcomes whose rows the paper prints, by their place in its tables.

    Rows on part of the corpus, or with overrides on the command line, have no verdict, and the section says so.
    """
    rows, whole = [], True
    other = bool(results.extra) or results.scale != FULL
    for outcome in results.outcomes:
        scores, task = outcome.scores, outcome.task
        if scores is None or task is None:
            continue
        for measure in results.experiment.measures:
            if (printed_value := printed.get(place(outcome, scores, measure))) is None:
                continue
            complete = task.coverage is None or task.coverage.complete
            lacking = "another setting" if other else "" if complete else "partial"
            whole &= not lacking
            value, n = scores.aggregate(measure), scores.n(measure)
            verdict = judge(printed_value.value, value)
            named = (printed_value.table, ", ".join(filter(None, (printed_value.group, printed_value.system))))
            words = map(Cell, (*named, printed_value.collection, scores.protocol.label(measure)))
            numbers = (Cell(str(n), n), Cell(printed_value.value, float(printed_value.value)), number_cell(value))
            rows.append((*words, *numbers, Cell(lacking) if lacking else Cell(verdict, marks=(verdict,))))
    if not rows:
        return []
    heads = map(Column, ("table", "row", "collection", "measure"))
    columns = (*heads, *(Column(name, kind="number") for name in ("n", "printed", "here")), Column("verdict"))
    notes = ("exact: rounds to the printed digits; close: within two units of the last digit.",)
    table = Table("published", "Published and recomputed values", columns, tuple(rows), notes)
    partial = "A partial re-run: the corpus lacks some judged answers, so the numbers cannot equal the paper's."
    if results.scale != FULL:
        says = results.experiment.scale_of(results.scale).says
        partial = f"Scaled down, not the paper's setting ({says}): the numbers cannot equal the paper's."
    if results.extra:
        partial = f"Not the paper's setting ({' '.join(results.extra)}): the numbers cannot equal the paper's."
    return [Section("Published values", (*(() if whole else (Prose((partial,)),)), table))]
