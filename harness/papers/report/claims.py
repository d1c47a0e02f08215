"""The sections of a report on a paper's claims: about runs of its archive, and about rows of its tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from types import MappingProxyType

from harness.papers.claims import POOLED, Claim, RowClaim, Test
from harness.render import figures
from harness.render.model import Block, Cell, Column, Figure, Prose, Records, Section, Table, number_cell
from harness.reports.pair_tests import pair_cells, pair_columns, shown_p
from harness.reports.parts import TEST_COLUMNS
from harness.scoring.scores import Scores

_ROW_NOTES = (
    "Difference: first row minus second. Printed: of the printed values. Here: of the runs that were made or brought, "
    "with a two-sided paired t-test, Bonferroni over the tests of the claim. Small scale: of the scale `here`, without "
    "a test, as its documents and models are not the paper's.",
)


def claims_section(
    claims: Sequence[Claim], notes: Mapping[str, str], labels: Mapping[str, str] = MappingProxyType({})
) -> Section | None:
    """Returns the paper's claims with their tests; None without claims.

    `notes`: run -> what a reader of a claim about it must know; `labels`: measure -> how it is shown.
    """
    if not claims:
        return None
    named = map(Column, ("collection", "run", "against", "measure"))
    agrees = (Column(name, "claim", "text") for name in ("supported", "corrected"))
    of_tests = (*named, *pair_columns("claims"), *agrees)
    of_margins = (Column("least margin", kind="number"), Column("outcome"))
    blocks: list[Block] = []
    for number, claim in enumerate(claims, 1):
        rows, drawn = [], []
        for test in claim.tests:
            row, measure = test.row, labels.get(test.row.measure, test.row.measure)
            agrees_cells = (Cell(_yes_or_no(each)) for each in (test.supported, test.supported_corrected))
            named_cells = map(Cell, (test.collection, row.a, row.b, measure))
            rows.append((*named_cells, *pair_cells("claims", row), *agrees_cells, *_equivalence_cells(test)))
            if test.collection == POOLED:
                ends = (row.difference, row.ci_low, row.ci_high)
                drawn.append((f"{row.a}, {measure}", *ends, bool(row.significant_bonferroni)))
        runs = [run for test in claim.tests for run in (test.row.a, test.row.b)]
        of_runs = dict.fromkeys(notes[run] for run in runs if run in notes)
        columns = of_tests + (of_margins if claim.margin else ())
        note = (
            f"Two-sided paired t-test, alpha {claim.alpha:g}; Bonferroni over {claim.family} tests in single "
            f"collections and {claim.family_pooled} over all topics; randomization test: sign flips."
        )
        name = f"claim-{number}"
        blocks.append(Prose((f"Claim {number}: {claim.title}.", *_claim_words(claim), *of_runs)))
        blocks.append(Table(name, claim.title, columns, tuple(rows), (note,), row_headers=3, collapsed=True))
        svg = figures.dot_interval(drawn, "mean difference over all topics, 95% interval")
        blocks.append(Figure(f"{name}-figure", f"{claim.title}: differences from the run compared with", svg))
    return Section("Claims of the paper", tuple(blocks))


def _claim_words(claim: Claim) -> tuple[str, ...]:
    out = []
    for among_pooled, scope in ((False, "in single collections"), (True, "over all topics together")):
        plain, n = claim.count(corrected=False, among_pooled=among_pooled)
        corrected, _ = claim.count(corrected=True, among_pooled=among_pooled)
        family = claim.family_pooled if among_pooled else claim.family
        out.append(
            f"{_verdict_word(plain, n)} {scope}: {plain} of {n} tests agree uncorrected, "
            f"{corrected} of {n} with Bonferroni over {family} tests ({_verdict_word(corrected, n).lower()})."
        )
    if claim.margin is not None:
        out.append(_equivalence_words(claim, claim.margin))
    elif claim.expect == "no difference":
        out.append(
            "A test that finds no difference does not prove that there is none: the column 'detectable' shows how "
            "large a difference it would find with a power of 0.8, without and with the correction."
        )
    return tuple(out)


def _equivalence_words(claim: Claim, margin: float) -> str:
    """Returns how many tests show a difference within the margin, and the margin within which all would be shown."""
    equivalences = [test.equivalence for test in claim.tests if test.equivalence is not None]
    counted = Counter(test.outcome for test in equivalences)
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in counted.most_common())
    largest = max((test.least_margin for test in equivalences if test.least_margin is not None), default=math.nan)
    return (
        f"A test that finds no difference does not show that there is none. Equivalence within {margin:g} (two "
        f"one-sided paired t-tests, corrected as the others): {outcomes}. All tests would show it for a margin above "
        f"{largest:.3f}."
    )


def _equivalence_cells(test: Test) -> tuple[Cell, ...]:
    if test.equivalence is None:
        return ()
    least = test.equivalence.least_margin
    return Cell("n/a") if least is None else number_cell(least, 4), Cell(test.equivalence.outcome)


def _verdict_word(agree: int, n: int) -> str:
    return "Supported" if agree == n else "Not supported"


def _yes_or_no(value: bool | None) -> str:
    return "undefined" if value is None else "yes" if value else "no"


def claim_records(claims: Sequence[Claim], scores: Mapping[tuple[str, str], Scores]) -> Records:
    """Returns one row per test of a claim, with the columns of `comparison_records`.

    Parameters
    ----------
    scores : (collection, run) -> its scores. A test that pools collections has no edition.
    """
    known = {name: (score.collection, score.edition, score.protocol.name) for (name, _), score in scores.items()}
    rows = []
    for claim in claims:
        for test in claim.tests:
            pooled = test.collection == POOLED
            same = (POOLED, "", next(iter(known.values()))[2]) if pooled else known[test.collection]
            plan = (claim.family_pooled if pooled else claim.family, claim.alpha)
            rows.append((claim.title, *same, *astuple(test.row), *plan))
    return Records(("claim", *TEST_COLUMNS), tuple(rows))


def row_claims_section(claims: Sequence[RowClaim], names: Callable[[str], str]) -> Section | None:
    """Returns the claims with a line each, and the numbers behind each; None without claims.

    Parameters
    ----------
    names : metric of the paper -> how it is shown.
    """
    if not claims:
        return None
    lines = tuple(f"Claim {number}: {claim.title}. {_row_claim_words(claim)}" for number, claim in enumerate(claims, 1))
    blocks: list[Block] = [Prose(lines)]
    columns = tuple(map(Column, ("first", "second", "collection", "measure")))
    columns += tuple(Column(name, "difference", "number") for name in ("printed", "here", "small scale"))
    columns += (Column("p, corrected", kind="number"), Column("n", kind="number"))
    for number, claim in enumerate(claims, 1):
        rows = []
        for test in claim.tests:
            named, tested = (test.first, test.second, test.collection, names(test.metric)), test.test
            small = Cell("") if test.small is None else number_cell(test.small, 4)
            difference, p, n = (Cell(""),) * 3
            if tested is not None:
                difference, p = number_cell(tested.difference, 4), shown_p(tested.p_bonferroni)
                n = Cell(str(tested.n), tested.n)
            rows.append((*map(Cell, named), number_cell(test.printed, 3), difference, small, p, n))
        name = f"row-claim-{number}"
        blocks.append(Table(name, claim.title, columns, tuple(rows), _ROW_NOTES, row_headers=4, collapsed=True))
    return Section("Claims of the paper", tuple(blocks))


def _row_claim_words(claim: RowClaim) -> str:
    agree, known = claim.agree([test.printed for test in claim.tests])
    words = [f"in print, {agree} of {known} differences are in favour of the first row"]
    tests = [test.test for test in claim.tests if test.test is not None]
    better = sum(bool(test.significant_bonferroni) and test.difference > 0 for test in tests)
    verdict = "Not tested here" if not tests else "Holds" if better == len(claim.tests) else "Not shown"
    words += [f"{better} of {len(tests)} tests here find it significantly better"] if tests else []
    agree, known = claim.agree([test.small for test in claim.tests])
    words += [f"at small scale {agree} of {known} differences are in its favour"] if known else []
    return f"{verdict}: {'; '.join(words)}."
