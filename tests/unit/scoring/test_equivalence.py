"""Tests of equivalence: against scipy's one-sided tests, by hand, and their size by simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refusal
from scipy import stats
from scoring_tools import ap

from harness.cli.scoring_options import parse_margin
from harness.data.columns import Floats
from harness.errors import HarnessError
from harness.experiments.evaluate import Evaluation, evaluate
from harness.experiments.evaluate import compare as compare_runs
from harness.experiments.task import task
from harness.render.model import Figure, Table
from harness.reports.comparison import report
from harness.scoring.compare import compare
from harness.scoring.comparison import Comparison


def compared(*values: Floats, **options: Any) -> Comparison:  # noqa: ANN401  (options of `compare`)
    return compare([ap(f"r{at}", each) for at, each in enumerate(values)], permutations=10, **options)


def three_runs(seed: int = 3) -> list[Floats]:
    random = np.random.default_rng(seed)
    first = random.random(60)
    return [first, first + random.normal(0.001, 0.02, 60), first + random.normal(0.08, 0.05, 60)]


def test_p_is_the_larger_of_two_one_sided_tests_and_corrected_over_the_family() -> None:
    values = three_runs()
    found = compared(*values, margin=0.02)
    for test, (a, b) in zip(found.equivalence, ((0, 1), (0, 2), (1, 2)), strict=True):
        difference = values[a] - values[b]
        upper = stats.ttest_1samp(difference, 0.02, alternative="less").pvalue
        lower = stats.ttest_1samp(difference, -0.02, alternative="greater").pvalue
        assert test.p == pytest.approx(max(upper, lower))
        assert test.p_bonferroni == pytest.approx(min(1.0, 3 * max(upper, lower)))
        low, high = stats.t.interval(1 - 2 * 0.05 / 3, 59, difference.mean(), stats.sem(difference))
        assert [test.ci_low, test.ci_high] == pytest.approx([low, high])
        assert test.least_margin == pytest.approx(max(-low, high))
    assert [test.outcome for test in found.equivalence] == ["equivalent", "different", "different"]


@pytest.mark.parametrize(
    ("mean", "sd", "margin", "outcome"),
    [
        (0.001, 0.02, 0.02, "equivalent"),
        (0.01, 0.01, 0.02, "both"),
        (0.05, 0.02, 0.02, "different"),
        (0.01, 0.2, 0.02, "undecided"),
    ],
)
def test_the_four_outcomes(mean: float, sd: float, margin: float, outcome: str) -> None:
    spread = np.random.default_rng(0).normal(size=50)
    difference = mean + sd * (spread - spread.mean()) / spread.std(ddof=1)
    base = np.full(50, 0.4)
    (test,) = compared(base + difference, base, margin=margin).equivalence
    assert test.outcome == outcome
    assert test.least_margin is not None
    # The corrected test is significant for each margin above the least one, and for none below it.
    for factor, significant in ((1.001, True), (0.999, False)):
        (again,) = compared(base + difference, base, margin=test.least_margin * factor).equivalence
        assert again.p_bonferroni is not None
        assert (again.p_bonferroni < 0.05) == significant


def test_non_inferiority_is_one_sided() -> None:
    values = three_runs()
    found = compared(*values[::-1], margin={"AP": 0.02}, kind="non-inferiority").equivalence
    assert [test.outcome for test in found] == ["not inferior", "not inferior", "not inferior"]
    difference = values[1] - values[0]
    assert found[2].p == pytest.approx(stats.ttest_1samp(difference, -0.02, alternative="greater").pvalue)
    worse = compared(*values, margin=0.02, kind="non-inferiority").equivalence
    assert [test.outcome for test in worse] == ["not inferior", "inferior", "inferior"]


def test_equal_runs_are_equivalent_and_constant_differences_are_undefined() -> None:
    base = np.linspace(0.1, 0.5, 9)
    equal, constant, _ = compared(base, base, base + 0.01, margin=0.02).equivalence
    assert (equal.outcome, equal.p, equal.least_margin) == ("equivalent", 0.0, 0.0)
    assert (constant.outcome, constant.p, constant.least_margin) == ("undecided", None, None)


def test_holm_is_between_p_and_bonferroni() -> None:
    for test in compared(*three_runs(), margin=0.06).equivalence:
        assert test.p is not None
        assert test.p_holm is not None
        assert test.p_bonferroni is not None
        assert test.p <= test.p_holm <= test.p_bonferroni


@pytest.mark.slow
def test_at_the_margin_the_error_rate_is_alpha() -> None:
    random = np.random.default_rng(8)
    base, trials = np.full(30, 0.3), 1000
    wrong = 0
    for _ in range(trials):
        (test,) = compared(base + random.normal(0.02, 0.02, 30), base, margin=0.02).equivalence
        wrong += test.p is not None and test.p < 0.05
    assert wrong / trials == pytest.approx(0.05, abs=3 * np.sqrt(0.05 * 0.95 / trials))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"margin": 0.0}, "margin: 0 for AP; expected more than 0 and less than its largest value"),
        ({"margin": 1.0}, "margin: 1 for AP; expected more than 0 and less than its largest value"),
        ({"margin": {"MAP": 0.1}}, "margin: measure 'MAP' is not compared; did you mean 'AP'?"),
        ({"margin": 0.1, "kind": "equal"}, "unknown kind of test 'equal'; did you mean 'equivalence'?"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], said: str) -> None:
    assert refusal(compared, *three_runs(), **options) == said


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0.02", 0.02),
        ("nDCG=0.02, P@10=0.05", {"nDCG": 0.02, "P@10": 0.05}),
        ("nDCG(gains=1)@5=0.1", {"nDCG(gains=1)@5": 0.1}),
    ],
)
def test_margins_of_the_command_line(text: str, found: float | dict[str, float]) -> None:
    assert parse_margin(text) == found


@pytest.mark.parametrize("text", ["x", "nDCG=", "0.1,nDCG=0.1", ""])
def test_wrong_margins_of_the_command_line(text: str) -> None:
    with pytest.raises(HarnessError, match=r"margin: .*nDCG=0.02,P@10=0.05"):
        parse_margin(text)


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    runs = [f"runs/mini/mini-task1/{name}.run" for name in ("overlap", "overlap-title", "shuffle")]
    return evaluate(task("mini-task1", measures=["nDCG", "P@10"]), *runs)


def test_max_t_and_equivalence_are_in_a_report_if_asked_for(evaluation: Evaluation) -> None:
    plain = report(evaluation, compare_runs(evaluation))
    assert "maxT" not in [column.title for column in {t.id: t for t in plain.tables()}["tests"].columns]
    found = compare_runs(evaluation, correction="maxT", margin={"ndcg": 0.4, "P_10": 0.2})
    assert {test.measure: test.margin for test in found.equivalence} == {"nDCG": 0.4, "P@10": 0.2}
    page = report(evaluation, found)
    tables = {table.id: table for table in page.tables()}
    titles = [column.title for column in tables["tests"].columns]
    shown = [row[titles.index("maxT")].value for row in tables["tests"].rows]
    assert sorted(map(str, shown)) == sorted(str(row.p_max_t) for row in found.rows)
    assert "marks after maxT" in " ".join(tables["means"].notes)
    assert [row[-1].text for row in tables["equivalence"].rows] == [test.outcome for test in found.equivalence]
    (section,) = [section for section in page.sections if section.title == "Equivalence"]
    figures = [block for block in section.blocks if isinstance(block, Figure)]
    assert len(figures) == 2
    assert all(figure.svg.count('class="margin"') == 2 for figure in figures)


def test_a_report_of_non_inferiority_does_not_speak_of_equivalence(evaluation: Evaluation) -> None:
    found = compare_runs(evaluation, baseline="shuffle", measures=["nDCG"], margin=0.4, kind="non-inferiority")
    assert {test.outcome for test in found.equivalence} == {"not inferior"}
    (section,) = [section for section in report(evaluation, found).sections if section.title == "Non-inferiority"]
    shown, figure = section.blocks
    assert isinstance(shown, Table) and isinstance(figure, Figure)
    assert shown.caption == "Tests of non-inferiority by a margin"
    assert shown.notes[0].startswith("Non-inferiority by 0.4: a one-sided paired t-test, ")
    assert figure.caption.endswith("bold: not worse by it")
    assert figure.svg.count('Z" class="f1"') == 2  # both runs
