"""Tables of the means of runs: their columns are declared once, for commands, papers, reports and experiments."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import HarnessError, suggestion
from harness.experiments.evaluate import Evaluation, evaluation_to_json
from harness.render.model import Cell, Column, Table, number_cell
from harness.reports.pair_tests import correction_name, not_means, test_marks
from harness.reports.parts import best_mean, counted_topics, equal
from harness.scoring.comparison import Comparison
from harness.scoring.measures import parse_measure, shown_decimals
from harness.scoring.scores import Scores
from harness.scoring.spellings import our_spelling

MOST_DECIMALS = 6
_AGGREGATES = {"mean": "mean", "sum": "sum", "geometric": "geometric mean"}


@dataclass(frozen=True)
class MeansColumn:
    """A column of tables of means beside the names of the runs and the means themselves.

    Attributes
    ----------
    titles : form -> title; other forms do not show the column. Forms: `command` (`score`, `compare`), `paper` (LaTeX,
        where `--columns` names it by its title), `report`, `experiment` (for each set of topics), `data` (JSON).
        Redacted tables have means only.
    cell : what it shows of the scores of a run, given the measures of the table.
    """

    titles: Mapping[str, str]
    cell: Callable[[Scores, Sequence[str]], Cell]


def _n(scores: Scores, measures: Sequence[str]) -> Cell:
    """Returns the number of topics in the means; that of each measure in turn if measures count different topics."""
    counted = [scores.n(measure) for measure in measures]
    one = counted[0] if len(set(counted)) == 1 else None
    return Cell("/".join(map(str, counted)) if one is None else str(one), one)


def _missing(scores: Scores, _: Sequence[str]) -> Cell:
    return Cell(f"{scores.counts['topics missing']:,}", scores.counts["topics missing"])


MEANS: list[MeansColumn] = [
    MeansColumn({"command": "n", "paper": "n"}, _n),  # reports have it beside the measures that count these topics
    MeansColumn({"command": "missing", "paper": "missing", "report": "topics missing"}, _missing),
]


def further_columns(form: str) -> dict[str, Callable[[Scores, Sequence[str]], Cell]]:
    """Returns title -> cell of the columns that a form has beside the means."""
    return {each.titles[form]: each.cell for each in MEANS if form in each.titles}


def ranked_by_mean(runs: Sequence[Scores], measure: str = "") -> list[Scores]:
    """Returns runs, best first, by a mean (default: of the first measure); by name where means differ in last bits."""

    def key(scores: Scores) -> tuple[float, str]:
        mean = scores.aggregate(measure or runs[0].measures[0])
        return math.inf if math.isnan(mean) else -round(mean, 9), scores.run

    return sorted(runs, key=key)


class _MeanCells:
    """Cells of a table of means: the names of the runs and their means, marked by the tests against a baseline."""

    def __init__(self, evaluation: Evaluation, comparison: Comparison | None) -> None:
        self.baseline = None if comparison is None else comparison.baseline
        rows = comparison.rows if comparison is not None and comparison.baseline else ()
        self.tests = {(row.a, row.measure): row for row in rows}
        self.best = {name: best_mean(evaluation.scores, name) for name in evaluation.scores[0].measures}

    def run(self, scores: Scores) -> Cell:
        return Cell(scores.run, marks=("baseline",) if scores.run == self.baseline else ())

    def mean(self, scores: Scores, measure: str, decimals: int) -> Cell:
        mean, marks = scores.aggregate(measure), test_marks(self.tests.get((scores.run, measure)))
        marks += ("best",) if equal(mean, self.best[measure]) else ()
        return number_cell(mean, shown_decimals(measure, decimals), marks)


def paper_means_table(
    evaluation: Evaluation,
    comparison: Comparison | None = None,
    *,
    columns: Sequence[str] = (),
    decimals: int = 3,
    order: str = "",
    form: str = "paper",
) -> Table:
    """Returns a table of the means of runs: a column per measure, the best in bold, tests against the baseline marked.

    Parameters
    ----------
    columns : columns in order: `run`, `n`, `missing` (topics without results) and measures. Default: the run, all
        measures, and n if it differs between runs or measures; a common n is stated in the caption. Of a command: the
        run, all measures and its further columns.
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
    further = further_columns(form)
    chosen = [our_spelling(name) for name in columns]
    default = (["n"] if len(counted) > 1 else []) if form == "paper" else further
    chosen = chosen or ["run", *first.measures, *default]
    known = ("run", *further, *first.measures)
    for name in chosen:
        if name not in known:
            raise HarnessError(f"columns: unknown column {name!r}; {suggestion(name, known)}")
        if chosen.count(name) > 1:
            raise HarnessError(f"columns: {name!r} appears twice")
    shown = [name for name in chosen if name in first.measures]
    cells = _MeanCells(evaluation, comparison)

    def cell(scores: Scores, name: str) -> Cell:
        if name == "run":
            return cells.run(scores)
        return further[name](scores, shown) if name in further else cells.mean(scores, name, decimals)

    rows = tuple(tuple(cell(scores, name) for name in chosen) for scores in _ordered(evaluation, order))
    titles = [first.protocol.label(name) if name in first.measures else name for name in chosen]
    kinds = [Column(title, kind="text" if title == "run" else "number") for title in titles]
    n = f", n = {next(iter(counted))}" if len(counted) == 1 and "n" not in chosen else ""
    notes = [f"Protocol {first.protocol.name}; edition {first.edition}{n}."]
    notes += not_means(shown, first.protocol.label, tested=comparison is not None)
    if cells.tests and comparison is not None:
        notes.append(f"Tests: {comparison.correction}; marks after Bonferroni correction.")
    caption = f"Mean effectiveness: {evaluation.task.collection.title}"
    return Table("means", caption, tuple(kinds), rows, tuple(notes), row_headers=1 if chosen[0] == "run" else 0)


def _ordered(evaluation: Evaluation, order: str) -> list[Scores]:
    """Returns the runs in the order of the rows."""
    measures = evaluation.scores[0].measures
    by = our_spelling(order) if order else measures[0]
    if by in measures:
        return ranked_by_mean(evaluation.scores, by)
    if order == "name":
        return sorted(evaluation.scores, key=lambda scores: scores.run)
    if order != "given":
        raise HarnessError(f"order: unknown order {order!r}; {suggestion(order, ('given', 'name', *measures))}")
    return list(evaluation.scores)


def comparison_means_table(evaluation: Evaluation, comparison: Comparison | None) -> Table:
    """Returns the means of every run with n, marked by the tests against the baseline if there is one."""
    first, further = evaluation.scores[0], further_columns("report")
    ranked, cells = ranked_by_mean(evaluation.scores), _MeanCells(evaluation, comparison)
    shared = all(scores.n(measure) == scores.n(first.measures[0]) for scores in ranked for measure in first.measures)
    rows = []
    for scores in ranked:
        row = [cells.run(scores), *([counted_topics([scores], first.measures[0])] if shared else [])]
        for measure in first.measures:
            row += [cells.mean(scores, measure, 3), *([] if shared else [counted_topics([scores], measure)])]
        rows.append((*row, *(cell(scores, first.measures) for cell in further.values())))
    columns = [Column("run"), *([Column("n", kind="number")] if shared else [])]
    for measure in first.measures:
        label = first.protocol.label(measure)
        columns.append(Column(_AGGREGATES[parse_measure(measure).aggregate], label, "number"))
        columns += [] if shared else [Column("n", label, "number")]
    columns += [Column(title, kind="number") for title in further]
    notes = [f"Protocol {first.protocol.name}; edition {first.edition}."]
    if comparison is not None:
        notes.append(f"Tests: {comparison.correction}; marks after {correction_name(comparison)}.")
    return Table("means", "Means over topics", tuple(columns), tuple(rows), tuple(notes))


def evaluation_document(evaluation: Evaluation, comparison: Comparison | None = None) -> dict[str, Any]:
    """Returns the JSON document of scores, as `evaluation_to_json` does, with the columns declared for `data`."""
    document, further = evaluation_to_json(evaluation, comparison), further_columns("data")
    for scores, content in zip(evaluation.scores, document["scores"], strict=True):
        for title, cell in further.items():
            shown = cell(scores, scores.measures)
            content[title] = shown.text if shown.value is None else shown.value
    return document
