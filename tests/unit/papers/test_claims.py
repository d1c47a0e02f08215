"""Claims of papers: about runs of their archives, and about rows of their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from refusals import refusal
from scipy import stats

from harness.errors import HarnessError
from harness.io.checks import typed
from harness.papers.claims import POOLED, Claim, check_claims, row_claims
from harness.papers.paper import Config, Paper, load_paper
from harness.papers.paper_settings import ClaimSettings
from harness.papers.report.claims import claims_section
from harness.papers.reproduce import PaperReproduction, recompute_paper
from harness.render.model import Figure, Prose, Table
from harness.scoring.protocol import Protocol
from harness.scoring.scores import Scores

PLAIN = Protocol("plain", ("RR",))
NOISE = np.array([0.01, -0.01, 0.02, -0.02, 0.0, 0.01, -0.01, 0.04])  # mean .005
BASE = np.array([0.5, 0.4, 0.3, 0.6, 0.5, 0.2, 0.4, 0.5])
RUNS = {"base": BASE, "same": BASE, "alike": BASE + NOISE, "better": BASE + 0.2 + NOISE, "constant": BASE + 0.125}


def reproduction(
    claims: object, collections: Sequence[str] = ("c1", "c2"), runs: Mapping[str, Any] = RUNS
) -> PaperReproduction:
    scores = {}
    for collection in collections:
        topics = tuple(f"{collection}-{n}" for n in range(len(BASE)))
        for run, values in runs.items():
            about = (run, collection, "first", PLAIN, ("RR",), topics)
            scores[collection, run] = Scores(*about, values[:, None], "q", run)
    config = typed(Config, {"key": "p", "title": "P", "claims": claims}, "f")
    paper = Paper("p", "P", (), (), config, "f")
    return PaperReproduction(paper, (), scores, {}, {}, {}, (), ())


def claim(
    expect: str, *pairs: list[str], collections: Sequence[str] = ("c1", "c2"), runs: Mapping[str, Any] = RUNS
) -> Claim:
    entry = {"title": "x", "expect": expect, "pairs": list(pairs)}
    (found,) = check_claims(reproduction([entry], collections, runs))
    return found


def verdicts(found: Claim) -> list[tuple[str, bool | None, bool | None]]:
    return [(test.collection, test.supported, test.supported_corrected) for test in found.tests]


def test_no_difference_is_supported_where_no_test_is_significant() -> None:
    found = claim("no difference", ["alike", "base"])
    assert verdicts(found) == [("c1", True, True), ("c2", True, True), (POOLED, True, True)]
    assert [test.row.n for test in found.tests] == [8, 8, 16]
    assert found.count(corrected=False, among_pooled=False) == (2, 2)
    assert found.count(corrected=True, among_pooled=True) == (1, 1)


def test_a_claim_of_no_difference_with_a_margin_is_tested_for_equivalence() -> None:
    entry = {"title": "x", "expect": "no difference", "pairs": [["alike", "base"], ["better", "base"]], "margin": 0.1}
    (found,) = check_claims(reproduction([entry]))
    assert found.margin == 0.1
    tests = [test.equivalence for test in found.tests]
    rows = [test.row for test in found.tests]
    assert [(test.a, test.b, test.margin) for test in tests if test] == [(row.a, row.b, 0.1) for row in rows]
    assert {test.outcome for test in tests if test and test.a == "alike"} == {"equivalent"}
    assert {test.outcome for test in tests if test and test.a == "better"} == {"different"}
    for test, row in zip(tests, rows, strict=True):
        family = found.family_pooled if row.n == 16 else found.family
        low, high = stats.t.interval(1 - 2 * 0.05 / family, row.n - 1, row.difference, row.sd / np.sqrt(row.n))
        assert test is not None
        assert [test.ci_low, test.ci_high] == pytest.approx([low, high])
    section = claims_section([found], {})
    assert section is not None
    said = " ".join(line for block in section.blocks if isinstance(block, Prose) for line in block.paragraphs)
    assert "0.1 (two one-sided paired t-tests, corrected as the others): 3 equivalent, 3 different." in said


@pytest.mark.parametrize(("expect", "margin"), [("first better", 0.1), ("no difference", 0.0), ("no difference", 1.0)])
def test_a_margin_belongs_to_a_claim_of_no_difference(expect: str, margin: float) -> None:
    entry = {"title": "x", "expect": expect, "pairs": [["alike", "base"]], "margin": margin}
    with pytest.raises(HarnessError, match="margin: belongs to a claim of no difference, and is above 0 and below 1"):
        reproduction([entry])


@pytest.mark.parametrize(
    ("expect", "pair", "supported"),
    [
        ("first better", ["better", "base"], True),
        ("first better", ["alike", "base"], False),  # not significant
        ("first better", ["base", "better"], False),  # the other way round
        ("first better", ["same", "base"], False),
        ("no difference", ["same", "base"], True),
    ],
)
def test_what_a_pair_supports(expect: str, pair: list[str], supported: bool) -> None:
    assert {test[1:] for test in verdicts(claim(expect, pair))} == {(supported, supported)}


def test_a_test_that_is_undefined_supports_nothing() -> None:
    found = claim("first better", ["constant", "base"])
    assert {test[1:] for test in verdicts(found)} == {(None, None)}
    assert found.count(corrected=False, among_pooled=False) == (0, 2)


def test_the_family_is_all_pairs_and_collections() -> None:
    pairs = (["better", "base"], ["alike", "base"], ["same", "base"])
    found = claim("first better", *pairs)
    assert (found.family, found.family_pooled) == (6, 3)
    first = found.tests[0].row
    assert first.p is not None
    assert first.p_bonferroni == pytest.approx(min(1.0, 6 * first.p))
    pooled_row = next(test.row for test in found.tests if test.collection == POOLED)
    assert pooled_row.p is not None
    assert pooled_row.p_bonferroni == pytest.approx(min(1.0, 3 * pooled_row.p))


def test_the_correction_can_change_the_answer() -> None:
    noisy = {"base": BASE, "a": BASE + np.array([0.1, 0.1, 0.2, -0.1, 0.1, 0.05, 0.1, -0.02])}
    found = claim("first better", ["a", "base"], collections=("c1", "c2", "c3"), runs=noisy)
    single = [test for test in found.tests if test.collection != POOLED]
    p = single[0].row.p
    assert p is not None
    assert 0.05 / 3 < p < 0.1
    entry = {"title": "x", "expect": "first better", "pairs": [["a", "base"]]}
    (strict,) = check_claims(reproduction([entry], ("c1", "c2", "c3"), noisy), alpha=p * 1.5)
    assert {test[1:] for test in verdicts(strict) if test[0] != POOLED} == {(True, False)}
    assert [strict.count(corrected=each, among_pooled=False) for each in (False, True)] == [(3, 3), (0, 3)]


GOOD = {"title": "x", "expect": "no difference", "pairs": [["alike", "base"]]}


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"expect": "second better"}, "key 'expect' is 'second better', expected one of no difference, first better"),
        ({"titel": "x"}, "key 'titel' is unknown; did you mean 'title'?"),
        *(
            ({"pairs": pairs}, f"pairs is {pairs!r}, expected a list of pairs of runs such as [[a, b], [a, c]]")
            for pairs in (None, [], "ab", ["ab"], [["a"]])
        ),
        ({"pairs": [["alik", "base"]]}, "run 'alik' is not in the archive; did you mean 'alike'?"),
        ({"pairs": [["x", "y"]]}, "run 'x' is not in the archive; known: alike, base, better, constant, same"),
    ],
)
def test_faults_of_a_claim(changed: dict[str, object], fault: str) -> None:
    assert refusal(lambda: check_claims(reproduction([{**GOOD, **changed}]))) == f"f: claims: {fault}"


def test_a_claim_that_is_no_mapping_is_a_fault() -> None:
    assert refusal(lambda: check_claims(reproduction(["x"]))) == "f: claims: expected keys and values, found 'x'"


# In the report


def test_the_report_says_what_was_tested_and_what_came_out() -> None:
    found = check_claims(reproduction([{**GOOD, "pairs": [["better", "base"], ["alike", "base"]]}]))
    section = claims_section(found, {"alike": "Beware of alike.", "other": "Not this."})
    assert section is not None
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    (figure,) = (block for block in section.blocks if isinstance(block, Figure))
    assert [line for block in section.blocks if isinstance(block, Prose) for line in block.paragraphs] == [
        "Claim 1: x.",
        "Not supported in single collections: 2 of 4 tests agree uncorrected, "
        "2 of 4 with Bonferroni over 4 tests (not supported).",
        "Not supported over all topics together: 1 of 2 tests agree uncorrected, "
        "1 of 2 with Bonferroni over 2 tests (not supported).",
        "A test that finds no difference does not prove that there is none: the column 'detectable' shows how "
        "large a difference it would find with a power of 0.8, without and with the correction.",
        "Beware of alike.",
    ]
    titles = [column.full_title for column in table.columns]
    rows = [dict(zip(titles, (cell.text for cell in row), strict=True)) for row in table.rows]
    assert len(rows) == 6
    heads = ("collection", "run", "against", "n", "difference", "p", "claim / supported", "claim / corrected")
    assert [rows[0][head] for head in heads] == ["c1", "better", "base", "8", "0.2050", "<.0001", "no", "no"]
    assert rows[1]["claim / supported"] == "yes"
    assert (rows[4]["collection"], rows[4]["n"]) == (POOLED, "16")
    assert table.notes == (
        "Two-sided paired t-test, alpha 0.05; Bonferroni over 4 tests in single collections and 2 over all topics; "
        "randomization test: sign flips.",
    )
    assert figure.id == "claim-1-figure"


@pytest.mark.slow
def test_printed_differences_of_mirmu_by_hand() -> None:
    first, second = row_claims(recompute_paper(load_paper("mirmu-msm")))
    assert [first.agree([test.printed for test in first.tests]), len(second.tests)] == [(9, 9), 27]
    (test,) = (t for t in first.tests if (t.second, t.metric) == ("2: mirmu 1: Base", "ndcg_prime"))
    assert (test.collection, round(test.printed, 3), test.test, test.small) == ("arqmath-3", 0.071, None, None)


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_fusions_without_some_of_their_runs_say_nothing_at_small_scale() -> None:
    found = recompute_paper(load_paper("mirmu-msm"))
    made = (replace(v, value=float(v.cell.value), in_part=v.cell.system.startswith("ens")) for v in found.verdicts)
    fusions, single = row_claims(found, replace(found, verdicts=tuple(made)))
    assert {test.small for test in fusions.tests} == {None}
    assert [test.small for test in single.tests] == [test.printed for test in single.tests]
