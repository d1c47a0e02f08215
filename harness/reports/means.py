"""Tables of means as papers print them: chosen columns, order and decimals, n stated once."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.errors import HarnessError, suggestion
from harness.experiments.evaluate import Evaluation
from harness.render.model import Cell, Column, Table, number_cell
from harness.reports.comparison import test_marks
from harness.reports.parts import best_mean, equal
from harness.scoring.compare import Comparison
from harness.scoring.measures import shown_decimals
from harness.scoring.scores import Scores
from harness.scoring.spellings import our_spelling

OTHERS = ("run", "n", "missing")  # columns that are not measures
MOST_DECIMALS = 6


def paper_means_table(
    evaluation: Evaluation,
    comparison: Comparison | None = None,
    *,
    columns: Sequence[str] = (),
    decimals: int = 3,
    order: str = "",
) -> Table:
    """Returns a table of the means of runs: a column per measure, the best in bold, tests against the baseline marked.

    Parameters
    ----------
    columns : columns in order: `run`, `n`, `missing` (topics without results) and measures. Default: the run, all
        measures, and n if it differs between runs or measures; a common n is stated in the caption.
    decimals : decimals of means, 0 to 6.
    order : order of the rows: `given`, `name`, or a measure, whose best run comes first; default: the first measure.

    Raises
    ------
    HarnessError
        For an unknown column or order, a column named twice, or decimals out of range.
    """
    first = evaluation.scores[0]
    if not 0 <= decimals <= MOST_DECIMALS:
        raise HarnessError(f"decimals: {decimals} is not between 0 and {MOST_DECIMALS}")
    counted = {scores.n(measure) for scores in evaluation.scores for measure in first.measures}
    chosen = [our_spelling(name) for name in columns]
    chosen = chosen or ["run", *first.measures, *(["n"] if len(counted) > 1 else [])]
    for name in chosen:
        if name not in (*OTHERS, *first.measures):
            raise HarnessError(f"columns: unknown column {name!r}; {suggestion(name, (*OTHERS, *first.measures))}")
        if chosen.count(name) > 1:
            raise HarnessError(f"columns: {name!r} appears twice")
    tests = {(row.a, row.measure): row for row in comparison.rows} if comparison and comparison.baseline else {}
    ranked = _ordered(evaluation, order)
    best = {name: best_mean(ranked, name) for name in first.measures}

    def cell(scores: Scores, name: str) -> Cell:
        if name == "run":
            is_baseline = comparison is not None and scores.run == comparison.baseline
            return Cell(scores.run, marks=("baseline",) if is_baseline else ())
        if name == "missing":
            return Cell(str(scores.counts["topics missing"]), scores.counts["topics missing"])
        if name == "n":
            found = list(dict.fromkeys(scores.n(measure) for measure in first.measures if measure in chosen))
            return Cell("/".join(map(str, found)), found[0] if len(found) == 1 else None)
        mean = scores.aggregate(name)
        marks = test_marks(tests.get((scores.run, name)))
        return number_cell(mean, shown_decimals(name, decimals), (*marks, "best") if equal(mean, best[name]) else marks)

    rows = tuple(tuple(cell(scores, name) for name in chosen) for scores in ranked)
    titles = [name if name in OTHERS else first.protocol.label(name) for name in chosen]
    kinds = [Column(title, kind="text" if title == "run" else "number") for title in titles]
    n = f", n = {next(iter(counted))}" if len(counted) == 1 and "n" not in chosen else ""
    notes = [f"Protocol {first.protocol.name}; edition {first.edition}{n}."]
    if tests and comparison is not None:
        notes.append(f"Tests: {comparison.correction}; marks after Bonferroni correction.")
    caption = f"Mean effectiveness: {evaluation.task.collection.title}"
    return Table("means", caption, tuple(kinds), rows, tuple(notes), row_headers=1 if chosen[0] == "run" else 0)


def _ordered(evaluation: Evaluation, order: str) -> list[Scores]:
    """Returns the runs in the order of the rows."""
    first = evaluation.scores[0]
    by = our_spelling(order) if order else first.measures[0]
    if by in first.measures:
        keys = {scores.run: -scores.aggregate(by) if scores.n(by) else math.inf for scores in evaluation.scores}
        return sorted(evaluation.scores, key=lambda scores: (keys[scores.run], scores.run))
    if order == "name":
        return sorted(evaluation.scores, key=lambda scores: scores.run)
    if order != "given":
        raise HarnessError(f"order: unknown order {order!r}; {suggestion(order, ('given', 'name', *first.measures))}")
    return list(evaluation.scores)
