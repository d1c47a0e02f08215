"""Claims of papers about rows of their tables: printed differences, and tests of runs that are here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.errors import HarnessError
from harness.papers.paper import load_paper
from harness.papers.paper_settings import ClaimSettings
from harness.papers.reproduce import recompute_paper
from harness.papers.row_claims import row_claims


def test_printed_differences_of_mirmu_by_hand() -> None:
    first, second = row_claims(recompute_paper(load_paper("mirmu-msm")))
    assert [first.agree([test.printed for test in first.tests]), len(second.tests)] == [(9, 9), 27]
    (test,) = (t for t in first.tests if (t.second, t.metric) == ("2: mirmu 1: Base", "ndcg_prime"))
    assert (test.collection, round(test.printed, 3), test.test, test.small) == ("arqmath-3", 0.071, None, None)


@pytest.mark.real
@pytest.mark.usefixtures("mirror")
def test_runs_that_are_here_are_tested() -> None:
    """By the t-test that the report of CrossMath makes for the same two runs."""
    paper = load_paper("crossmath")
    rows = (("1: Bi-encoder", "1: Cross-encoder"),)
    claim = ClaimSettings("The first is better", rows=rows, metrics=("p10_prime",), collections=("arqmath-2",))
    found = recompute_paper(replace(paper, config=replace(paper.config, claims=(claim,))))
    ((test,),) = (each.tests for each in row_claims(found))
    scores = {run: found.scores["arqmath-2", run] for run in ("eng-NLLB-bi", "eng-NLLB-cross")}
    assert test.test is not None
    means = [one.aggregate("P@10") for one in scores.values()]
    assert test.test.difference == pytest.approx(means[0] - means[1])
    assert test.test.p_bonferroni == test.test.p
    assert (test.test.p or 1.0) < 0.001
    assert test.printed == pytest.approx(test.test.difference, abs=0.0011)


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"rows": (("2: msm 2: tf-idf", "2: nobody"),), "metrics": ("ndcg_prime",)}, "row '2: nobody' is unknown;"),
        ({"rows": (("2: msm 2: tf-idf", "2: msm 3: BM25"),), "metrics": ("bpref",)}, "have no column in common"),
    ],
)
def test_rows_that_cannot_be_compared(settings: dict[str, object], fault: str) -> None:
    paper = load_paper("mirmu-msm")
    claim = ClaimSettings("x", **settings)  # type: ignore[arg-type]
    with pytest.raises(HarnessError, match=fault):
        row_claims(recompute_paper(replace(paper, config=replace(paper.config, claims=(claim,)))))


@pytest.mark.parametrize("settings", [{}, {"rows": (("a", "b"),)}, {"pairs": (("a", "b"),), "metrics": ("x",)}])
def test_a_claim_is_of_runs_or_of_rows_with_metrics(settings: dict[str, object]) -> None:
    with pytest.raises(HarnessError, match="either pairs of runs, or pairs of rows with metrics"):
        ClaimSettings("x", **settings)  # type: ignore[arg-type]


def test_fusions_without_some_of_their_runs_say_nothing_at_small_scale() -> None:
    found = recompute_paper(load_paper("mirmu-msm"))
    made = (replace(v, value=float(v.cell.value), in_part=v.cell.system.startswith("ens")) for v in found.verdicts)
    fusions, single = row_claims(found, replace(found, verdicts=tuple(made)))
    assert {test.small for test in fusions.tests} == {None}
    assert [test.small for test in single.tests] == [test.printed for test in single.tests]
