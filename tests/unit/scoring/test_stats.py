from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from refusals import refusal

from harness.errors import HarnessError
from harness.scoring import compare as stats
from harness.scoring.compare import compare
from harness.scoring.comparison import PairDifference
from harness.scoring.intervals import detectable_shift
from harness.scoring.protocol import Protocol
from harness.scoring.scores import Scores

NAN = float("nan")
TASK1 = Protocol("arqmath-task1", ("AP",), prime=True)
GRADES = st.integers(0, 1000).map(lambda thousandths: thousandths / 1000)
CORRECTED = ("p_bonferroni", "p_holm", "significant", "significant_bonferroni", "significant_holm")
UNMARKED: dict[str, Any] = dict.fromkeys(CORRECTED)
TWICE = "name two different runs, and each pair once, in either order"
PAIRED = st.lists(st.tuples(GRADES, GRADES), min_size=2, max_size=30)


def scores(run: str, columns: Mapping[str, Sequence[float]], topics: Sequence[str] = ()) -> Scores:
    """A run's scores from its values by measure; the topics are t000, t001, ... unless named."""
    values = np.array(list(columns.values()), dtype=np.float64).T
    return Scores(
        run=run,
        collection="arqmath-3-task1",
        edition="official",
        protocol=replace(TASK1, measures=tuple(columns)),
        measures=tuple(columns),
        topics=tuple(topics) or tuple(f"t{i:03}" for i in range(len(values))),
        values=values,
        qrels_sha256="ab12",
    )


def ap(run: str, values: Sequence[float], topics: Sequence[str] = ()) -> Scores:
    return scores(run, {"AP": values}, topics)


def random_runs(names: Sequence[str], n: int, measures: Sequence[str] = ("AP", "nDCG"), seed: int = 1) -> list[Scores]:
    rng = np.random.default_rng(seed)
    return [scores(name, {m: list(rng.random(n) * (1 + 0.1 * i)) for m in measures}) for i, name in enumerate(names)]


def only_row(
    a: Sequence[float], b: Sequence[float], permutations: int = 10_000, confidence: float = 0.95
) -> PairDifference:
    (row,) = compare([ap("a", a), ap("b", b)], permutations=permutations, confidence=confidence).rows
    return row


def test_three_topics_by_hand() -> None:
    # Differences .1 .3 .5: mean .3, sd .2, t = 1.5 sqrt 3. With 2 degrees of freedom p = 1 - t / sqrt(t^2 + 2).
    row = only_row([0.5, 0.7, 0.9], [0.4, 0.4, 0.4])
    t = 1.5 * math.sqrt(3)
    assert (row.a, row.b, row.measure, row.n, row.n_a, row.n_b) == ("a", "b", "AP", 3, 3, 3)
    assert (row.wins, row.ties, row.losses) == (3, 0, 0)
    assert [row.mean_a, row.mean_b, row.difference, row.sd] == pytest.approx([0.7, 0.4, 0.3, 0.2])
    assert [row.effect_size, row.t] == pytest.approx([1.5, t])
    assert row.p == pytest.approx(1 - t / math.sqrt(t * t + 2), rel=1e-12)
    half = 4.302652729911275 * 0.2 / math.sqrt(3)  # the .975 quantile of t with 2 degrees of freedom
    assert [row.ci_low, row.ci_high] == pytest.approx([0.3 - half, 0.3 + half])
    assert row.p_randomization == 2 / 8  # of eight sign patterns only +++ and --- reach a sum of .9
    assert row.significant is False
    narrower = only_row([0.5, 0.7, 0.9], [0.4, 0.4, 0.4], confidence=0.9)
    assert narrower.ci_high - row.difference == pytest.approx(2.919985580355516 * 0.2 / math.sqrt(3))


def test_wins_ties_and_losses_ignore_rounding() -> None:
    row = only_row([0.3, 0.5, 0.1, 0.9], [0.1 + 0.2, 0.4, 0.6, 0.2])
    assert 0.3 != 0.1 + 0.2
    assert (row.wins, row.ties, row.losses) == (2, 1, 1)


def exact_p(a: Sequence[float], b: Sequence[float]) -> float:
    differences = [round(x * 1000) - round(y * 1000) for x, y in zip(a, b, strict=True)]
    signs = product((1, -1), repeat=len(a))
    sums = [abs(sum(s * d for s, d in zip(flip, differences, strict=True))) for flip in signs]
    return sum(s >= abs(sum(differences)) for s in sums) / len(sums)


@given(st.lists(st.tuples(GRADES, GRADES), min_size=2, max_size=9))
def test_randomization_is_exact_for_few_topics(pairs: list[tuple[float, float]]) -> None:
    a, b = zip(*pairs, strict=True)
    assert only_row(a, b, permutations=512).p_randomization == exact_p(a, b)


@given(st.lists(st.integers(0, 3), min_size=2, max_size=9))
def test_randomization_counts_tied_sums(tenths: list[int]) -> None:
    # Sums such as .1 + .2 and .3 differ in float64 but are equal.
    a = [0.1 * k for k in tenths]
    assert only_row(a, [0.1] * len(a)).p_randomization == exact_p(a, [0.1] * len(a))


def test_randomization_enumerates_up_to_the_number_of_permutations() -> None:
    a, b = [0.9, 0.8, 0.7, 0.6], [0.1, 0.2, 0.3, 0.4]
    assert only_row(a, b, permutations=16).p_randomization == 2 / 16
    drawn = only_row(a, b, permutations=15).p_randomization * 16
    assert drawn >= 1
    assert drawn == pytest.approx(round(drawn))  # (count + 1) / (15 + 1)
    certain = only_row(list(np.linspace(0.5, 0.9, 70)), [0.1] * 70, permutations=999)
    assert certain.p_randomization == 1 / 1000  # never 0


def test_p_depends_on_the_seed_but_not_on_the_other_rows() -> None:
    runs = random_runs(["a", "b", "c"], 40)
    rows = {(row.a, row.b, row.measure): row.p_randomization for row in compare(runs, seed=7).rows}
    assert len(rows) == 6
    alone = compare([runs[2], runs[1]], pairs=[("b", "c")], measures=["nDCG"], seed=7)
    assert alone.rows[0].p_randomization == rows["b", "c", "nDCG"]
    for row in compare(runs[::-1], measures=["nDCG", "AP"], seed=7).rows:
        assert row.p_randomization == rows[row.b, row.a, row.measure]
    assert {row.p_randomization for row in compare(runs, seed=8).rows} != set(rows.values())


@given(PAIRED)
def test_swapping_the_runs_flips_the_signs(pairs: list[tuple[float, float]]) -> None:
    a, b = zip(*pairs, strict=True)
    row = only_row(a, b, permutations=200)
    back = compare([ap("a", a), ap("b", b)], pairs=[("b", "a")], permutations=200).rows[0]
    assert (back.difference, back.ci_low, back.ci_high) == (-row.difference, -row.ci_high, -row.ci_low)
    assert (back.mean_a, back.mean_b, back.wins, back.losses) == (row.mean_b, row.mean_a, row.losses, row.wins)
    same = ("n", "ties", "sd", "p", "p_randomization", "p_holm", "detectable", "significant")
    assert [getattr(back, name) for name in same] == [getattr(row, name) for name in same]
    if row.t is not None and row.effect_size is not None:
        assert (back.t, back.effect_size) == (-row.t, -row.effect_size)


def test_identical_runs() -> None:
    row = only_row([0.1, 0.5, 0.9], [0.1, 0.5, 0.9])
    assert (row.difference, row.ci_low, row.ci_high, row.sd, row.effect_size, row.t) == (0, 0, 0, 0, 0, 0)
    assert (row.p, row.p_randomization, row.p_bonferroni, row.p_holm) == (1, 1, 1, 1)
    assert (row.wins, row.ties, row.losses, row.significant, row.detectable) == (0, 3, 0, False, None)


@pytest.mark.parametrize("a", [[0.5, 0.5, 0.5], [0.3, 0.6, 0.9], [0.11, 0.35, 0.77]])
def test_constant_differences_leave_t_undefined(a: list[float]) -> None:
    row = only_row(a, [value - 0.1 for value in a])
    assert row.difference == pytest.approx(0.1)
    assert (row.sd, row.ci_low, row.ci_high) == (0, row.difference, row.difference)
    assert {getattr(row, name) for name in ("t", "p", "effect_size", "detectable", *CORRECTED)} == {None}
    assert row.p_randomization == 2 / 8


def test_undefined_tests_count_in_the_family() -> None:
    runs = [ap("a", [0.5, 0.7, 0.9]), ap("b", [0.4, 0.4, 0.4]), ap("c", [0.6, 0.6, 0.6])]
    comparison = compare(runs, pairs=[("a", "b"), ("b", "c")])
    first, second = comparison.rows
    assert second.p is None
    assert first.p is not None
    assert first.p_bonferroni == first.p_holm == 2 * first.p
    assert comparison.correction == (
        "two-sided paired t-test, alpha 0.05; Bonferroni and Holm over a family of 2 tests, "
        "1 of them undefined (constant differences) but counted; randomization tests are exact"
    )


def test_topics_are_those_that_count_for_both_runs() -> None:
    a = ap("a", [0.1, 0.2, NAN, 0.4, 0.9], ["A.1", "A.2", "A.3", "A.4", "A.6"])
    b = ap("b", [0.8, NAN, 0.3, 0.0, 0.1], ["A.4", "A.2", "A.3", "A.1", "A.5"])
    row = compare([a, b]).rows[0]
    assert (row.n, row.n_a, row.n_b) == (2, 4, 4)
    assert [row.mean_a, row.mean_b] == pytest.approx([0.25, 0.4])
    assert row.difference == pytest.approx(-0.15)
    assert (row.wins, row.losses) == (1, 1)


def test_means_are_those_of_the_scores_to_the_last_bit() -> None:
    a, b = random_runs(["a", "b"], 97, ("AP",))
    order = np.random.default_rng(0).permutation(97)
    shuffled = replace(b, topics=tuple(b.topics[i] for i in order), values=b.values[order])
    row, moved = compare([a, b]).rows[0], compare([a, shuffled]).rows[0]
    assert (row.mean_a, row.mean_b) == (a.mean("AP"), b.mean("AP"))
    assert moved.mean_b == shuffled.mean("AP")
    assert replace(moved, mean_b=row.mean_b) == row


def test_rows_with_a_baseline_with_pairs_and_without() -> None:
    runs = random_runs(["a", "b", "c"], 9)

    def keys(options: dict[str, Any]) -> list[str]:
        return [f"{row.a}{row.b} {row.measure}" for row in compare(runs, **options).rows]

    assert keys({"baseline": "b"}) == ["ab AP", "ab nDCG", "cb AP", "cb nDCG"]
    assert keys({"pairs": [("c", "a")], "measures": ["nDCG"]}) == ["ca nDCG"]
    assert keys({"measures": ["AP"]}) == ["ab AP", "ac AP", "bc AP"]


def with_p(ps: Sequence[float | None], family: int, alpha: float = 0.05) -> tuple[PairDifference, ...]:
    base = only_row([0.5, 0.7, 0.9], [0.4, 0.4, 0.4])
    plan = replace(compare(random_runs(["a", "b"], 3)), family=family, alpha=alpha)
    unmarked = replace(base, **UNMARKED)
    return stats.corrected(plan, [replace(unmarked, p=p) for p in ps])


def test_corrections_by_hand() -> None:
    rows = with_p([0.015, 0.04, 0.03, 0.005], family=4)
    # Holm: .005 x 4, .015 x 3, .03 x 2, then .04 x 1 raised to .06.
    assert [row.p_holm for row in rows] == pytest.approx([0.045, 0.06, 0.06, 0.02])
    assert [row.p_bonferroni for row in rows] == pytest.approx([0.06, 0.16, 0.12, 0.02])
    assert [row.significant for row in rows] == [True, True, True, True]
    assert [row.significant_holm for row in rows] == [True, False, False, True]
    assert [row.significant_bonferroni for row in rows] == [False, False, False, True]


def test_a_declared_family_weighs_more_and_undefined_p_rank_last() -> None:
    rows = with_p([0.01, None, 0.002], family=10)
    assert [row.p_holm for row in rows] == [pytest.approx(0.09), None, pytest.approx(0.02)]
    assert [row.p_bonferroni for row in rows] == [pytest.approx(0.1), None, pytest.approx(0.02)]
    assert [row.significant_holm for row in rows] == [False, None, True]
    assert with_p([0.3, 0.4], family=5)[0].p_holm == 1.0


def test_the_family_is_the_number_of_rows_or_the_declared_one() -> None:
    runs = random_runs(["a", "b", "c"], 9)
    assert compare(runs, baseline="a").family == 4
    declared = compare(runs, baseline="a", family=12)
    assert declared.family == 12
    assert "Bonferroni and Holm over a family of 12 tests, 4 of them shown; " in declared.correction
    single = compare(runs, pairs=[("a", "b")], measures=["AP"], test="randomization")
    assert (
        single.correction
        == "two-sided paired randomization test, alpha 0.05; Bonferroni and Holm over a family of 1 test; "
        "randomization tests are exact"
    )


def test_randomization_can_decide() -> None:
    runs = [ap("a", [0.6] * 8), ap("b", [0.5] * 8), ap("c", [0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.4])]
    row = compare(runs, baseline="b", test="randomization").rows[0]
    assert row.p is None  # constant differences
    assert row.p_randomization == 2 / 256
    assert (row.p_bonferroni, row.significant, row.significant_bonferroni) == (4 / 256, True, True)


@given(st.lists(st.lists(GRADES, min_size=6, max_size=6), min_size=2, max_size=5), st.integers(0, 20))
def test_invariants(columns: list[list[float]], more: int) -> None:
    runs = [ap(f"r{i}", column) for i, column in enumerate(columns)]
    count = len(runs) * (len(runs) - 1) // 2
    for row in compare(runs, family=count + more, permutations=64).rows:
        assert row.wins + row.ties + row.losses == row.n == 6
        assert row.ci_low <= row.difference <= row.ci_high
        assert row.difference == pytest.approx(row.mean_a - row.mean_b, abs=1e-12)
        assert 0 < row.p_randomization <= 1
        if row.p is None or row.p_holm is None or row.p_bonferroni is None:
            continue
        assert 1 >= row.p_bonferroni >= row.p_holm >= row.p >= 0
        if abs(row.p - 0.05) > 1e-9:
            assert (row.ci_low > 0 or row.ci_high < 0) == (row.p < 0.05) == row.significant
        if row.detectable is not None and row.detectable_corrected is not None:
            assert 0 < row.detectable <= row.detectable_corrected


@given(st.lists(st.floats(0, 0.06), min_size=1, max_size=12), st.integers(0, 5))
def test_holm_decides_as_the_step_down_procedure(ps: list[float], more: int) -> None:
    m = len(ps) + more
    assume(all(abs(p * k - 0.05) > 1e-9 for p in ps for k in range(1, m + 1)))
    rejected = []
    for rank, p in enumerate(sorted(ps)):
        if p > 0.05 / (m - rank):
            break
        rejected.append(p)
    assert [row.significant_holm for row in with_p(ps, m)] == [p in rejected for p in ps]


def test_detectable_difference_matches_published_power() -> None:
    # G*Power's standard example: paired, d = .5, alpha .05, power .8 takes 34 pairs; 33 are too few.
    assert detectable_shift(33, 0.05, 0.8) < 0.5 * math.sqrt(34)
    assert detectable_shift(32, 0.05, 0.8) > 0.5 * math.sqrt(33)
    # Large n: z(.975) + z(.8).
    assert detectable_shift(99_999, 0.05, 0.8) == pytest.approx(1.959964 + 0.841621, rel=1e-4)


def test_detectable_difference_scales_with_sd_and_shrinks_with_alpha() -> None:
    row = compare(random_runs(["a", "b"], 20, ("AP",)), family=10).rows[0]
    assert row.detectable == pytest.approx(detectable_shift(19, 0.05, 0.8) * row.sd / math.sqrt(20))
    assert row.detectable_corrected == pytest.approx(detectable_shift(19, 0.005, 0.8) * row.sd / math.sqrt(20))
    assert math.isfinite(detectable_shift(1, 1e-7, 0.99))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"collection": "ntcir"}, "collection is 'arqmath-3-task1' for the first, 'ntcir' for the second"),
        ({"edition": "all"}, "edition is 'official' for the first, 'all' for the second"),
        ({"protocol": replace(TASK1, name="x")}, "protocol.name is 'arqmath-task1' for the first, 'x' for the second"),
        ({"protocol": replace(TASK1, depth=100)}, "protocol.depth is 1000 for the first, 100 for the second"),
        ({"qrels_sha256": "cd34"}, "qrels_sha256 is 'ab12' for the first, 'cd34' for the second"),
    ],
)
def test_runs_must_be_scored_alike(change: dict[str, Any], words: str) -> None:
    runs = [ap("x", [0.1, 0.2]), ap("y", [0.1, 0.3]), replace(ap("z", [0.2, 0.4]), **change)]
    expected = f"runs x and z cannot be compared: {words}"
    assert refusal(lambda: compare(runs, pairs=[("x", "y")])) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"baseline": "Approach"},
            "unknown run 'Approach'; did you mean 'Approach0'? (a run is named by its tag, or as NAME=FILE)",
        ),
        (
            {"pairs": [("DPRL", "q")]},
            "unknown run 'q'; known: Approach0, DPRL, MIRMU (a run is named by its tag, or as NAME=FILE)",
        ),
        ({"pairs": [("DPRL", "DPRL")]}, f"pair 'DPRL', 'DPRL': {TWICE}"),
        ({"pairs": [("DPRL", "MIRMU"), ("MIRMU", "DPRL")]}, f"pair 'DPRL', 'MIRMU': {TWICE}"),
        ({"pairs": []}, "there are no pairs of runs to compare; give at least two runs"),
        ({"pairs": [("DPRL", "MIRMU")], "baseline": "DPRL"}, "give a baseline or pairs, not both"),
        ({"measures": ["NDCG"]}, "run Approach0: measure 'NDCG' was not scored; did you mean 'nDCG'?"),
        ({"measures": ["AP", "AP"]}, "measure 'AP' is named twice"),
        ({"measures": []}, "there are no measures to compare"),
        ({"family": 5}, "family: 5 is less than the 6 tests compared here; give 6 or more"),
        ({"test": "wilcoxon"}, "unknown test 'wilcoxon'; known: randomization, t"),
        ({"permutations": 0}, "permutations: 0 is less than 1"),
        ({"alpha": 0.0}, "alpha: 0 is not between 0 and 1"),
        ({"alpha": NAN}, "alpha: nan is not between 0 and 1"),
        ({"confidence": 95}, "confidence: 95 is not between 0 and 1"),
        ({"power": 0.01}, "power: 0.01 is not between 0.05 and 0.9999"),
    ],
)
def test_bad_options(options: dict[str, Any], expected: str) -> None:
    runs = random_runs(["Approach0", "DPRL", "MIRMU"], 4)
    assert refusal(lambda: compare(runs, **options)) == expected


def test_bad_runs() -> None:
    a, b = ap("a", [0.1, NAN, 0.3]), ap("b", [NAN, 0.2, 0.3])
    words = "runs a and b have {} for AP in common; a test needs 2 or more"
    assert refusal(lambda: compare([a, b])) == words.format("1 topic")
    assert refusal(lambda: compare([a, ap("b", [0.1], ["other"])])) == words.format("0 topics")
    assert refusal(lambda: compare([a, b, a])) == "2 runs are named 'a'; give each its own name"
    assert refusal(lambda: compare([])) == "there are no runs to compare"
    assert refusal(lambda: compare([a])) == "there are no pairs of runs to compare; give at least two runs"
    missing = scores("c", {"nDCG": [0.1, 0.2, 0.3]})
    assert refusal(lambda: compare([a, missing])) == "run c: measure 'AP' was not scored; known: nDCG"


def test_import_is_light() -> None:
    heavy = "('scipy.stats', 'scipy', 'pandas')"
    code = f"import sys, harness.scoring.compare; print([m for m in {heavy} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"


def test_a_randomization_test_can_find_something_in_a_large_family() -> None:
    """All topics differ by about the same: with 10,000 flips, no p is below 0.05 / 525."""
    low = np.random.default_rng(0).uniform(0, 0.5, 77)
    runs = [ap("a", list(low + 0.25 + low / 8)), ap("b", list(low))]
    found = compare(runs, test="randomization", family=525)
    assert found.permutations == 105_000
    assert found.rows[0].significant_bonferroni
    assert "105,000 sign flips" in found.correction
    assert compare(runs, family=525).permutations == 10_000  # beside the t-test
    with pytest.raises(HarnessError, match=r"10,000 sign flips give no corrected p below 0\.05 in a family of 525"):
        compare(runs, test="randomization", family=525, permutations=10_000)
    with pytest.raises(HarnessError, match="draw at least 10,500, or use"):
        compare(runs, test="randomization", family=525, permutations=10_499)
    assert compare(runs, test="randomization", family=525, permutations=10_500).rows[0].significant is not None
    with pytest.raises(HarnessError, match="test fewer pairs or measures"):
        compare(runs, test="randomization", family=10**8)
