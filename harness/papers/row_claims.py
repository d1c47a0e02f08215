"""Claims of a paper about rows of its tables: printed differences, and those of the runs that were made here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.errors import HarnessError, suggestion
from harness.papers.cells import CellVerdict
from harness.papers.map import row_labels
from harness.papers.paper import Paper
from harness.papers.paper_settings import ClaimSettings
from harness.papers.reproduce import PaperReproduction
from harness.scoring.compare import PairDifference, compare

_Key = tuple[str, str, str, str]  # row as TABLE: LABEL, collection, slice, metric


@dataclass(frozen=True)
class RowTest:
    """A pair of rows of a claim in one column: the first row's value minus the second's.

    Attributes
    ----------
    printed : difference of the printed values.
    test : of the recomputed runs; None if one of them is missing, or is a mean over seeds.
    small : difference at the scale `here`; None without both values.
    """

    first: str
    second: str
    table: str
    collection: str
    metric: str
    printed: float
    test: PairDifference | None
    small: float | None


@dataclass(frozen=True)
class RowClaim:
    """A claim, with a test for each pair of rows, collection and metric."""

    title: str
    tests: tuple[RowTest, ...]

    def agree(self, differences: Sequence[float | None]) -> tuple[int, int]:
        """Returns how many differences are known and in favour of the first row, and how many are known."""
        known = [each for each in differences if each is not None]
        return sum(each > 0 for each in known), len(known)


def row_claims(
    found: PaperReproduction, small: PaperReproduction | None = None, alpha: float = 0.05
) -> tuple[RowClaim, ...]:
    """Returns the claims that the paper's configuration makes of rows.

    The family of a claim's tests are all of its tests that can be made.

    Raises
    ------
    HarnessError
        A claim names an unknown row, or rows without a common column.
    """
    here, there = _values(found.paper, found.verdicts), _values(found.paper, () if small is None else small.verdicts)
    return tuple(_claim(found, claim, here, there, alpha) for claim in found.paper.config.claims if claim.rows)


def _values(paper: Paper, verdicts: Sequence[CellVerdict]) -> dict[_Key, CellVerdict]:
    labels = row_labels(paper)
    return {
        (f"{c.table}: {labels[c.table, c.group, c.system]}", c.collection, c.slice, c.metric): verdict
        for verdict in verdicts
        for c in (verdict.cell,)
    }


def _claim(
    found: PaperReproduction,
    claim: ClaimSettings,
    here: Mapping[_Key, CellVerdict],
    there: Mapping[_Key, CellVerdict],
    alpha: float,
) -> RowClaim:
    where, known = f"{found.paper.where}: claims", {row for row, *_ in here}
    pairs: list[tuple[str, str, _Key, _Key]] = []
    for first, second in claim.rows:
        for row in (first, second):
            if row not in known:
                raise HarnessError(f"{where}: row {row!r} is unknown; {suggestion(row, known)}")
        able = [key for key in here if key[0] == first and key[3] in claim.metrics and (second, *key[1:]) in here]
        columns = [
            key for key in able if key[1] in (claim.collections or (key[1],)) and key[2] in (claim.slices or (key[2],))
        ]
        if not columns:
            raise HarnessError(f"{where}: {first!r} and {second!r} have no column in common of {claim.metrics}")
        pairs += [(first, second, key, (second, *key[1:])) for key in columns]
    testable = [pair for pair in pairs if _run(found, here[pair[2]]) and _run(found, here[pair[3]])]
    tests = []
    for first, second, a, b in pairs:
        one, other = here[a], here[b]
        tested = _test(found, one, other, len(testable), alpha) if (first, second, a, b) in testable else None
        values = [there[key].value if key in there and not there[key].in_part else None for key in (a, b)]
        small = None if values[0] is None or values[1] is None else values[0] - values[1]
        printed = float(one.cell.value) - float(other.cell.value)
        part = f"{one.cell.collection}, {one.cell.slice}" if one.cell.slice else one.cell.collection
        tests.append(RowTest(first, second, one.cell.table, part, one.cell.metric, printed, tested, small))
    return RowClaim(claim.title, tuple(tests))


def _run(found: PaperReproduction, verdict: CellVerdict) -> bool:
    return verdict.value is not None and (verdict.collection, verdict.run) in {
        (scores.collection, run) for (_, run), scores in found.scores.items()
    }


def _test(found: PaperReproduction, one: CellVerdict, other: CellVerdict, family: int, alpha: float) -> PairDifference:
    by_run = {(scores.collection, run): scores for (_, run), scores in found.scores.items()}
    scores = [by_run[verdict.collection, verdict.run] for verdict in (one, other)]
    (row,) = compare(
        scores, pairs=[(one.run, other.run)], measures=[one.measure], alpha=alpha, family=family, permutations=1
    ).rows
    return row
