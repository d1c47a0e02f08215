"""Claims of a paper: about runs of its archive, tested on the recomputed scores, and about rows of its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from harness.errors import HarnessError, suggestion
from harness.papers.cells import CellVerdict
from harness.papers.map import row_labels
from harness.papers.paper import Paper
from harness.papers.paper_settings import ClaimSettings
from harness.papers.reproduce import PaperReproduction
from harness.scoring.compare import compare
from harness.scoring.comparison import Comparison, EquivalenceTest, PairDifference
from harness.scoring.scores import Scores, pooled

POOLED = "all topics"
_Key = tuple[str, str, str, str]  # row as TABLE: LABEL, collection, slice, metric


@dataclass(frozen=True)
class Test:
    """One test of a claim on a collection of the paper, or on all topics pooled."""

    collection: str
    row: PairDifference
    supported: bool | None
    supported_corrected: bool | None
    equivalence: EquivalenceTest | None = None


@dataclass(frozen=True)
class Claim:
    """A claim and its tests.

    Attributes
    ----------
    expect : `no difference` (no test is significant) or `first better` (every test is, in favour of the first run).
    tests : per collection, then over all topics pooled; the two groups are separate families.
    family, family_pooled : number of tests in the Bonferroni correction of each group.
    margin : differences below it are negligible; None if the claim is not tested for equivalence.
    """

    title: str
    expect: str
    tests: tuple[Test, ...]
    family: int
    family_pooled: int
    alpha: float
    margin: float | None = None

    def count(self, *, corrected: bool, among_pooled: bool) -> tuple[int, int]:
        """Returns the number of tests that agree with the claim, and the number of tests."""
        chosen = [test for test in self.tests if (test.collection == POOLED) == among_pooled]
        agree = [test.supported_corrected if corrected else test.supported for test in chosen]
        return sum(value is True for value in agree), len(chosen)


def check_claims(reproduction: PaperReproduction, alpha: float = 0.05, seed: int = 0) -> tuple[Claim, ...]:
    """Tests every claim in the paper's configuration, per collection and over all topics.

    Raises
    ------
    HarnessError
        A claim names a run that is not in the archive.
    """
    where = f"{reproduction.paper.where}: claims"
    out = []
    runs = {run for _, run in reproduction.scores}
    for entry in reproduction.paper.config.claims:
        if entry.rows:
            continue
        named = {run for pair in entry.pairs for run in pair}
        if unknown := sorted(named - runs):
            raise HarnessError(f"{where}: run {unknown[0]!r} is not in the archive; {suggestion(unknown[0], runs)}")
        by_collection: dict[str, list[Scores]] = {}
        for (collection, run), score in reproduction.scores.items():
            if run in named:
                by_collection.setdefault(collection, []).append(score)
        measures = len(next(iter(by_collection.values()))[0].measures)
        family = len(entry.pairs) * measures * len(by_collection)
        every = [score for scores in by_collection.values() for score in scores]
        together = [pooled([score for score in every if score.run == run]) for run in sorted(named)]
        compared = partial(compare, pairs=entry.pairs, alpha=alpha, seed=seed, margin=entry.margin)
        tests = []
        for collection, scores in by_collection.items():
            tests += _tests(collection, compared(scores, family=family), entry.expect)
        comparison = compared(together)
        tests += _tests(POOLED, comparison, entry.expect)
        out.append(Claim(entry.title, entry.expect, tuple(tests), family, comparison.family, alpha, entry.margin))
    return tuple(out)


def _tests(collection: str, comparison: Comparison, expect: str) -> list[Test]:
    """Returns the tests of a comparison; `equivalence` is None for a claim without a margin."""
    equivalence = comparison.equivalence or [None] * len(comparison.rows)
    tests = []
    for row, within in zip(comparison.rows, equivalence, strict=True):
        single, corrected = (_agrees(each, row, expect) for each in (row.significant, row.significant_bonferroni))
        tests.append(Test(collection, row, single, corrected, within))
    return tests


def _agrees(significant: bool | None, row: PairDifference, expect: str) -> bool | None:
    """Returns whether a test's outcome is as a claim expects; None if its significance is not defined."""
    if significant is None:
        return None
    return not significant if expect == "no difference" else significant and row.difference > 0


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
    reproduction: PaperReproduction, small: PaperReproduction | None = None, alpha: float = 0.05
) -> tuple[RowClaim, ...]:
    """Returns the claims that the paper's configuration makes of rows.

    The family of a claim's tests are all of its tests that can be made.

    Raises
    ------
    HarnessError
        A claim names an unknown row, or rows without a common column.
    """
    here = _verdicts_by_place(reproduction.paper, reproduction.verdicts)
    there = _verdicts_by_place(reproduction.paper, () if small is None else small.verdicts)
    return tuple(
        _row_claim(reproduction, claim, here, there, alpha) for claim in reproduction.paper.config.claims if claim.rows
    )


def _verdicts_by_place(paper: Paper, verdicts: Sequence[CellVerdict]) -> dict[_Key, CellVerdict]:
    labels = row_labels(paper)
    return {
        (f"{c.table}: {labels[c.table, c.group, c.system]}", c.collection, c.slice, c.metric): verdict
        for verdict in verdicts
        for c in (verdict.cell,)
    }


def _row_claim(
    reproduction: PaperReproduction,
    claim: ClaimSettings,
    here: Mapping[_Key, CellVerdict],
    there: Mapping[_Key, CellVerdict],
    alpha: float,
) -> RowClaim:
    where, known = f"{reproduction.paper.where}: claims", {row for row, *_ in here}
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
    by_run = {(scores.collection, run): scores for (_, run), scores in reproduction.scores.items()}
    testable = [pair for pair in pairs if all(_scores_of(here[key], by_run) for key in pair[2:])]
    tests = []
    for first, second, a, b in pairs:
        one, other = here[a], here[b]
        tested = None
        sides = [scores for each in (one, other) if (scores := _scores_of(each, by_run)) is not None]
        if len(sides) == 2:
            plan = partial(compare, pairs=[(one.run, other.run)], measures=[one.measure], alpha=alpha)
            (tested,) = plan(sides, family=len(testable), permutations=1).rows
        values = [there[key].value if key in there and not there[key].in_part else None for key in (a, b)]
        small = None if values[0] is None or values[1] is None else values[0] - values[1]
        printed = float(one.cell.value) - float(other.cell.value)
        part = f"{one.cell.collection}, {one.cell.slice}" if one.cell.slice else one.cell.collection
        tests.append(RowTest(first, second, one.cell.table, part, one.cell.metric, printed, tested, small))
    return RowClaim(claim.title, tuple(tests))


def _scores_of(verdict: CellVerdict, by_run: Mapping[tuple[str, str], Scores]) -> Scores | None:
    """Returns the scores of the run behind a value; None if it was not recomputed, or is a mean over seeds."""
    return None if verdict.value is None else by_run.get((verdict.collection, verdict.run))
