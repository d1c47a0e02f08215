"""The section of a paper's report on its claims about rows of its tables, for a reviewer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.papers.row_claims import RowClaim
from harness.render.model import Block, Cell, Column, Prose, Section, Table, number_cell
from harness.reports.pair_tests import shown_p

_NOTES = (
    "Difference: first row minus second. Printed: of the printed values. Here: of the runs that were made or brought, "
    "with a two-sided paired t-test, Bonferroni over the tests of the claim. Small scale: of the scale `here`, without "
    "a test, as its documents and models are not the paper's.",
)


def row_claims_section(claims: Sequence[RowClaim], names: Callable[[str], str]) -> Section | None:
    """Returns the claims with a line each, and the numbers behind each; None without claims.

    Parameters
    ----------
    names : metric of the paper -> how it is shown.
    """
    if not claims:
        return None
    lines = tuple(f"Claim {number}: {claim.title}. {_claim_text(claim)}" for number, claim in enumerate(claims, 1))
    blocks: list[Block] = [Prose(lines)]
    columns = tuple(map(Column, ("first", "second", "collection", "measure")))
    columns += tuple(Column(name, "difference", "number") for name in ("printed", "here", "small scale"))
    columns += (Column("p, corrected", kind="number"), Column("n", kind="number"))
    for number, claim in enumerate(claims, 1):
        rows = tuple(
            (
                *(Cell(part) for part in (test.first, test.second, test.collection)),
                Cell(names(test.metric)),
                number_cell(test.printed, 3),
                Cell("") if test.test is None else number_cell(test.test.difference, 4),
                Cell("") if test.small is None else number_cell(test.small, 4),
                Cell("") if test.test is None else shown_p(test.test.p_bonferroni),
                Cell("") if test.test is None else Cell(str(test.test.n), test.test.n),
            )
            for test in claim.tests
        )
        blocks.append(Table(f"row-claim-{number}", claim.title, columns, rows, _NOTES, row_headers=4, collapsed=True))
    return Section("Claims of the paper", tuple(blocks))


def _claim_text(claim: RowClaim) -> str:
    agree, known = claim.agree([test.printed for test in claim.tests])
    words = [f"In print, {agree} of {known} differences are in favour of the first row"]
    tests = [test.test for test in claim.tests if test.test is not None]
    if tests:
        better = sum(bool(test.significant_bonferroni) and test.difference > 0 for test in tests)
        words.append(f"{better} of {len(tests)} tests here find it significantly better")
    else:
        words.append("no run here tests it")
    agree, known = claim.agree([test.small for test in claim.tests])
    words += [f"at small scale {agree} of {known} differences are in its favour"] if known else []
    return "; ".join(words) + "."
