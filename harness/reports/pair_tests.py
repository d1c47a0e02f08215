"""Tables of significance tests: their columns are declared once, for commands, reports, experiments and claims.

Tables of planned tests: how many topics find which difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from harness.errors import capitalised, counted_text
from harness.render.model import Cell, Column, Table, cells, columns, number_cell
from harness.scoring.comparison import Comparison, Marks, PairDifference, corrected_test
from harness.scoring.equivalence import describe_equivalence
from harness.scoring.measures import parse_measure

if TYPE_CHECKING:
    from harness.scoring.planning import TestPlan

_NOT_MEANS = {"sum": ("totals over topics", "per topic"), "geometric": ("geometric means", "means of logarithms")}
TEST_MARKS = ("baseline", "better", "worse", "nominally-better", "nominally-worse")


def shown_p(value: float | None) -> Cell:
    """Returns the cell of a p-value, or `undefined`."""
    if value is None:
        return Cell("undefined")
    return Cell("<.0001" if value < 0.0001 else f"{value:.4f}", value)


def shown_drawn_p(value: float, error: float | None) -> Cell:
    """Returns the p-value of a randomization test; if it was sampled, with its standard error.

    A value that is only known to be small has no error: `<.0001 ± 0.0001` would say nothing.
    """
    shown = shown_p(value)
    return shown if error is None or shown.text.startswith("<") else replace(shown, text=f"{shown.text} ± {error:.4f}")


def correction_name(comparison: Comparison) -> str:
    """Returns the correction after which tables of a comparison mark a difference, in words."""
    return "maxT" if comparison.marks == "maxT" else "Bonferroni's correction"


def test_marks(row: PairDifference | None) -> tuple[str, ...]:
    """Returns the mark of a test: better or worse, after correction or only without it; none if not significant."""
    if row is None or not (row.significant or row.marked):
        return ()
    return (mark_of(row.difference, corrected=bool(row.marked)),)


def mark_of(difference: float, *, corrected: bool = True) -> str:
    """Returns the mark of a significant difference; `corrected`: whether it is significant after the correction."""
    direction = "better" if difference > 0 else "worse"
    return direction if corrected else f"nominally-{direction}"


def difference_interval(low: float, high: float, digits: int = 4) -> Cell:
    """Returns the cell of a confidence interval of a difference."""
    return Cell(f"{low:+.{digits}f} to {high:+.{digits}f}", values=(low, high))


@dataclass(frozen=True)
class PairTestColumn:
    """A column of tables of tests.

    Attributes
    ----------
    titles : form (`command`, `paper`, `report`, `experiment`, `claims`) -> title; other forms do not show the column.
    cell : what it shows of a test.
    cells : form -> what it shows there instead.
    parts : names of its columns in CSV files, if its cells have several numbers.
    shown : whether tables of a comparison with these marks (`Comparison.marks`) have the column.
    """

    titles: Mapping[str, str]
    cell: Callable[[PairDifference], Cell]
    cells: Mapping[str, Callable[[PairDifference], Cell]] = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    shown: Callable[[Marks], bool] = lambda _: True


def _detectable(row: PairDifference) -> Cell:
    """Returns the least difference that a test finds, at its own level and at that of Bonferroni's correction."""
    if not row.sd:
        return Cell("n/a")
    least = (row.detectable, row.detectable_corrected)
    values = tuple(math.nan if value is None else value for value in least)
    return Cell(" / ".join("none" if value is None else f"{value:.3f}" for value in least), values=values)


def _effect(row: PairDifference) -> Cell:
    return Cell("undefined") if row.effect_size is None else number_cell(row.effect_size, 2)


TESTS: list[PairTestColumn] = [
    PairTestColumn(
        dict.fromkeys(("command", "paper", "report", "experiment", "claims"), "n"),
        lambda row: Cell(f"{row.n:,}", row.n),
        {"command": lambda row: Cell(str(row.n), row.n)},
    ),
    PairTestColumn(
        {"command": "a - b", **dict.fromkeys(("paper", "report", "experiment", "claims"), "difference")},
        lambda row: number_cell(row.difference, 4, test_marks(row)),
        {
            "command": lambda row: Cell(f"{row.difference:+.4f}{'*' if row.marked else ''}"),
            "claims": lambda row: number_cell(row.difference, 4),
        },
    ),
    PairTestColumn(
        dict.fromkeys(("command", "paper", "report", "experiment", "claims"), "95% interval"),
        lambda row: difference_interval(row.ci_low, row.ci_high),
        {
            "command": lambda row: Cell(f"[{row.ci_low:+.4f}, {row.ci_high:+.4f}]"),
            "claims": lambda row: difference_interval(row.ci_low, row.ci_high, 3),
        },
        parts=("95% low", "95% high"),
    ),
    PairTestColumn(
        {"command": "d", "report": "effect size d"},
        _effect,
        {"command": lambda row: Cell("n/a") if row.effect_size is None else _effect(row)},
    ),
    PairTestColumn(
        dict.fromkeys(("command", "paper", "report", "experiment", "claims"), "p"), lambda row: shown_p(row.p)
    ),
    PairTestColumn(
        {**dict.fromkeys(("command", "paper", "report", "experiment"), "Bonferroni"), "claims": "p, Bonferroni"},
        lambda row: shown_p(row.p_bonferroni),
    ),
    PairTestColumn(dict.fromkeys(("command", "report", "experiment"), "Holm"), lambda row: shown_p(row.p_holm)),
    PairTestColumn(
        dict.fromkeys(("command", "paper", "report"), "maxT"),
        lambda row: shown_p(row.p_max_t),
        shown=lambda marks: marks == "maxT",
    ),
    PairTestColumn(
        {"command": "randomization", "report": "randomization", "claims": "p, randomization"},
        lambda row: shown_drawn_p(row.p_randomization, row.p_randomization_error),
    ),
    PairTestColumn(
        dict.fromkeys(("report", "experiment"), "wins / ties / losses"),
        lambda row: Cell(f"{row.wins} / {row.ties} / {row.losses}", values=(row.wins, row.ties, row.losses)),
        parts=("wins", "ties", "losses"),
    ),
    PairTestColumn(
        dict.fromkeys(("report", "claims"), "detectable / Bonferroni"),
        _detectable,
        parts=("detectable", "detectable, Bonferroni"),
    ),
]


def pair_columns(form: str, marks: Marks = "bonferroni") -> tuple[Column, ...]:
    """Returns the columns of a form, after those that name the pair of runs."""
    return tuple(
        Column(each.titles[form], kind="text" if each.parts else "number", parts=each.parts)
        for each in _shown(form, marks)
    )


def pair_cells(form: str, row: PairDifference, marks: Marks = "bonferroni") -> tuple[Cell, ...]:
    """Returns the cells of a test in the columns of a form."""
    return tuple(each.cells.get(form, each.cell)(row) for each in _shown(form, marks))


def _shown(form: str, marks: Marks) -> list[PairTestColumn]:
    return [each for each in TESTS if form in each.titles and each.shown(marks)]


def tests_table(comparison: Comparison, label: Callable[[str], str] = str, form: str = "report") -> Table:
    """Returns every test of a comparison, in its order; `label`: measure -> its name in tables."""
    named = ("a", "b", "measure") if form == "command" else ("run", "against", "measure")
    heads = (*columns(*named), *pair_columns(form, comparison.marks))
    rows = tuple(
        (*cells(row.a, row.b, label(row.measure)), *pair_cells(form, row, comparison.marks)) for row in comparison.rows
    )
    lacking = any(row.sd and row.detectable_corrected is None for row in comparison.rows)
    power = f"Detectable: the least difference found with a power of {comparison.power:g}, without and with Bonferroni"
    power += "; none: not even the largest possible one." if lacking else "."
    correction = corrected_test(comparison) if form == "paper" else comparison.correction
    notes = [f"{capitalised(correction)}.", *not_means((row.measure for row in comparison.rows), label)]
    notes += [power] if form == "report" and any(row.sd for row in comparison.rows) else []
    return Table("tests", "Tests", heads, rows, tuple(notes), row_headers=3)


def paper_tests_table(comparison: Comparison, label: Callable[[str], str] = str) -> Table:
    """Returns the tests for the width of a page: a note has what all rows share, a report the other columns."""
    table = tests_table(comparison, label, "paper")
    alike = [at for at in range(1, 4) if len({row[at].text for row in table.rows}) == 1]
    shared = [at for at in alike if table.columns[at].title != "against" or comparison.baseline]
    kept = [at for at in range(len(table.columns)) if at not in shared]
    rows = tuple(tuple(row[at] for at in kept) for row in table.rows)
    said = ", ".join(f"{table.columns[at].title} {table.rows[0][at].text}" for at in shared)
    return replace(
        table,
        columns=tuple(table.columns[at] for at in kept),
        rows=rows,
        notes=(*([f"All rows: {said}."] if said else []), *table.notes),
        row_headers=sum(at < 3 for at in kept),
    )


def not_means(measures: Iterable[str], label: Callable[[str], str], *, tested: bool = True) -> list[str]:
    """Returns what values of runs are, and differences where they are `tested`, by measures that are no means."""
    names: dict[str, list[str]] = {}
    for measure in dict.fromkeys(measures):
        names.setdefault(parse_measure(measure).aggregate, []).append(label(measure))
    said = {how: f"{whole}{f'; differences are {apart}' * tested}" for how, (whole, apart) in _NOT_MEANS.items()}
    return [f"{', '.join(names[how])}: values of runs are {what}." for how, what in said.items() if how in names]


def equivalence_table(comparison: Comparison, label: Callable[[str], str] = str) -> Table:
    """Returns every test of equivalence or non-inferiority; `label`: measure -> its name in tables."""
    heads = (
        *columns("a", "b", "measure", numbers=("n", "margin", "a - b")),
        Column("interval", parts=("low", "high")),
        *columns(numbers=("p", "Bonferroni", "least margin")),
        Column("outcome"),
    )
    rows = tuple(
        cells(
            *(row.a, row.b, label(row.measure), row.n, Cell(f"{row.margin:g}", row.margin)),
            *(number_cell(row.difference, 4), difference_interval(row.ci_low, row.ci_high), shown_p(row.p)),
            *(shown_p(row.p_bonferroni), number_cell(row.least_margin, 4), row.outcome),
        )
        for row in comparison.equivalence
    )
    notes = (f"{capitalised(describe_equivalence(comparison.equivalence, comparison.family, comparison.alpha))}.",)
    kind = comparison.equivalence[0].kind if comparison.equivalence else "equivalence"
    caption = f"Tests of {kind} {'within' if kind == 'equivalence' else 'by'} a margin"
    return Table("equivalence", caption, heads, rows, notes, row_headers=3)


def methods_text(comparison: Comparison) -> str:
    """Returns sentences for the methods section of a paper."""
    family = counted_text(comparison.family, "test")
    name = "t-tests" if comparison.test == "t" else "randomization tests"
    how = f"Bonferroni's correction for {family}"
    if comparison.marks == "maxT":
        how = (
            f"the step-down max-statistic permutation test (Westfall and Young, 1993) over {family}, which share "
            f"{comparison.permutations:,} sign flips of topics"
        )
    said = f"Runs were compared by two-sided paired {name} over topics, alpha {comparison.alpha:g}, after {how}."
    if "cluster-robust" in comparison.correction:
        said += " Errors are cluster-robust: topics of one cluster are dependent, and clusters are drawn."
    if comparison.equivalence:
        tested = describe_equivalence(comparison.equivalence, comparison.family, comparison.alpha).split(";")[0]
        said += f" We tested {tested} (Schuirmann, 1987)."
    return said


def plan_table(plans: Sequence[TestPlan], family: int, label: Callable[[str], str] = str) -> Table:
    """Returns the topics that each difference needs, by measure; `label`: measure -> its name in tables."""
    rows = tuple(
        cells(
            *(label(plan.measure), plan.topics, number_cell(plan.detectable, 4), number_cell(size.sd, 4)),
            number_cell(size.difference, 3),
            "over 100,000" if size.topics is None else size.topics,
            number_cell(size.resampled, 2),
        )
        for plan in plans
        for size in plan.sizes
    )
    names = ("topics", "detectable", "sd of differences", "difference", "topics needed", "power by resampling")
    first = plans[0]
    notes = (
        f"Two-sided paired t-tests of two of {first.runs} runs like these, power {first.power:g}, level "
        f"{first.alpha:.3g} (alpha over a family of {family}). Detectable: the least difference that the topics at "
        "hand find. Standard deviation: sqrt(2) times that of the residual of a two-way analysis of variance (Sakai, "
        "2016); two runs that resemble each other need fewer topics. Resampling: the same power when topics are drawn "
        "from those at hand.",
        f'For a paper: "The number of topics was planned for paired t-tests at level {first.alpha:.3g} with a power of '
        f'{first.power:g}, from the variance of {first.runs} runs on {first.topics:,} topics (Sakai, 2016)."',
    )
    return Table("plan", "Topics that a difference needs", columns("measure", numbers=names), rows, notes)
