"""The marks of significance that a paper prints, beside the same tests on the recomputed runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from harness.errors import HarnessError
from harness.papers.cells import CellVerdict
from harness.papers.effects import baseline_of
from harness.papers.reproduce import PaperReproduction
from harness.scoring.compare import compare


@dataclass(frozen=True)
class MarkVerdict:
    """A printed mark of significance, tested on the recomputed runs.

    Attributes
    ----------
    cell : the number that is marked, or that the table tests and does not mark.
    baseline : row that it is tested against.
    family : tests of the table, over which the paper corrects (Bonferroni).
    p : of the two-sided paired t-test, not corrected; None where it is undefined.
    here : whether p is below alpha / family.
    """

    cell: CellVerdict
    baseline: str
    n: int
    family: int
    p: float | None
    here: bool

    @property
    def agrees(self) -> bool:
        """Whether the test here says what the paper prints."""
        return self.here == self.cell.cell.significant


def mark_verdicts(reproduction: PaperReproduction, alpha: float = 0.05) -> tuple[MarkVerdict, ...]:
    """Tests each number that a table tests against its baseline, where both rows are recomputed.

    A table's family is all numbers of it that the paper tests, recomputed or not.
    """
    scored = reproduction.paper.scored
    if scored is None:
        return ()
    tested = [v for v in reproduction.verdicts if v.cell.significant is not None and not v.cell.baseline]
    families = Counter(v.cell.table for v in tested)
    columns: dict[tuple[str, ...], dict[str, CellVerdict]] = {}
    for v in reproduction.verdicts:
        columns.setdefault(_column_key(v), {})[v.cell.row] = v
    made = []
    for verdict in tested:
        column = columns[_column_key(verdict)]
        base = column.get(baseline_of(verdict.cell.row, {row: other.cell for row, other in column.items()}))
        if base is None or verdict.value is None or base.value is None or verdict.run == base.run:
            continue
        place = scored.place(verdict.cell)
        sides = [reproduction.scores.get((place, each.run)) for each in (verdict, base)]
        if sides[0] is None or sides[1] is None:
            continue
        try:
            (row,) = compare([sides[0], sides[1]], base.run, measures=[verdict.measure], permutations=1).rows
        except HarnessError:  # fewer than two common topics
            continue
        family = families[verdict.cell.table]
        below = row.p is not None and row.p < alpha / family
        made.append(MarkVerdict(verdict, base.cell.row, row.n, family, row.p, below))
    return tuple(made)


def _column_key(verdict: CellVerdict) -> tuple[str, ...]:
    cell = verdict.cell
    return cell.table, cell.collection, cell.slice, cell.metric, cell.aggregate
