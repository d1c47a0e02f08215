"""Analysis of variance, plans of tests and difficulty of topics: by hand, by statsmodels and scipy, by simulation."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from statistics import correlation
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal
from scipy import stats
from statsmodels.stats.power import TTestPower

from harness.data.columns import Floats
from harness.errors import HarnessError
from harness.scoring.anova import Anova, anova, studentized_range_sf
from harness.scoring.difficulty import topic_difficulty
from harness.scoring.planning import plan_tests, resampled_power, topics_needed

KEPT: dict[str, Any] = json.loads(Path(__file__).with_name("statsmodels_values.json").read_text("utf-8"))
NAMES = ("a", "b", "c", "d")


def sources(found: Anova) -> dict[str, tuple[float, int, float | None, float | None]]:
    return {each.name: (each.squares, each.freedom, each.f, each.p) for each in found.sources}


def test_two_systems_are_the_paired_t_test() -> None:
    """With two systems F is t squared, and Tukey's p is that of the t-test too."""
    values = np.array([[0.5, 0.4], [0.7, 0.4], [0.9, 0.4]])
    found = anova(values, ("a", "b"))
    t = 1.5 * math.sqrt(3)  # differences .1 .3 .5: mean .3, sd .2
    p = 1 - t / math.sqrt(t * t + 2)
    squares, freedom, f, system_p = sources(found)["system"]
    assert (freedom, found.sources[2].freedom, found.topics) == (1, 2, 3)
    assert (f, system_p) == pytest.approx((t * t, p))
    # Means .7 and .4 over three topics: 3 x 2 x .15^2; residual: half the squares of the differences about their mean.
    assert (squares, found.sources[2].squares) == pytest.approx((0.135, 0.04))
    assert found.sources[0].omega == pytest.approx((t * t - 1) / (t * t - 1 + 6))
    (pair,) = found.pairs
    assert (pair.difference, pair.p, pair.significant) == pytest.approx((0.3, p, False))
    half = 4.302652729911275 * 0.2 / math.sqrt(3)  # the .975 quantile of t with 2 degrees of freedom
    assert (pair.low, pair.high) == pytest.approx((0.3 - half, 0.3 + half))


def check_statsmodels(found: Anova, expected: dict[str, Any]) -> None:
    for name, (squares, freedom, f, p) in sources(found).items():
        known = expected["sources"][name]
        assert (squares, freedom) == pytest.approx((known["squares"], known["freedom"]))
        assert (f, p) == pytest.approx((known["f"], known["p"]))
    for pair, known in zip(found.pairs, expected["pairs"], strict=True):
        assert (pair.a, pair.b) == (NAMES[known["a"]], NAMES[known["b"]])
        # Theirs are second - first.
        given_values = (-pair.difference, -pair.high, -pair.low)
        assert given_values == pytest.approx((known["difference"], known["low"], known["high"]), abs=1e-8)
        assert pair.p == pytest.approx(known["p"], abs=1e-9)
        assert pair.significant == (known["p"] < 0.05)


def test_statsmodels_kept_values() -> None:
    assert KEPT["origin"]["statsmodels"]
    check_statsmodels(anova(np.array(KEPT["values"]), NAMES), KEPT)


@pytest.mark.slow
def test_statsmodels_itself() -> None:
    reason = "statsmodels is not installed (its values are kept in statsmodels_values.json): pip install statsmodels"
    formulas = pytest.importorskip("statsmodels.formula.api", reason=reason)
    tables = pytest.importorskip("statsmodels.stats.anova", reason=reason)
    frame = pytest.importorskip("pandas").DataFrame
    values = np.random.default_rng(8).random((9, 5)) + np.linspace(0, 0.6, 5)
    rows = [(topic, system, values[topic, system]) for topic in range(9) for system in range(5)]
    fitted = formulas.ols("y ~ C(s) + C(t)", frame(rows, columns=["t", "s", "y"])).fit()
    table = tables.anova_lm(fitted, typ=2)
    found = sources(anova(values, "abcde"))
    for name, row in (("system", "C(s)"), ("topic", "C(t)"), ("residual", "Residual")):
        squares, freedom, f, p = found[name]
        assert (squares, freedom) == pytest.approx((table.loc[row, "sum_sq"], table.loc[row, "df"]))
        if name != "residual":
            assert (f, p) == pytest.approx((table.loc[row, "F"], table.loc[row, "PR(>F)"]))


@pytest.mark.parametrize(("means", "freedom"), [(2, 1), (3, 2), (3, 20), (8, 500), (60, 4000)])
def test_studentized_range_is_scipys(means: int, freedom: int) -> None:
    q = np.array([0.0, 0.5, 3.5, 6.0])
    assert studentized_range_sf(q, means, freedom) == pytest.approx(
        stats.studentized_range.sf(q, means, freedom), abs=1e-10
    )


TABLES = st.integers(2, 5).flatmap(
    lambda k: st.lists(st.lists(st.integers(0, 10), min_size=k, max_size=k), min_size=2, max_size=6)
)


@pytest.mark.slow
@given(TABLES, st.randoms(use_true_random=False))
def test_squares_add_up_and_no_order_matters(rows: list[list[int]], rng: random.Random) -> None:
    values = np.array(rows, dtype=np.float64) / 10
    names = [f"s{i}" for i in range(values.shape[1])]
    found = anova(values, names)
    total = float(((values - values.mean()) ** 2).sum())
    assert sum(each.squares for each in found.sources) == pytest.approx(total, abs=1e-9)
    assert sum(each.share for each in found.sources) == pytest.approx(1 if total > 1e-9 else 0)
    columns = rng.sample(range(len(names)), len(names))
    topics = rng.sample(range(len(values)), len(values))
    again = anova(values[topics][:, columns], [names[i] for i in columns])
    for one, two in zip(found.sources, again.sources, strict=True):
        assert (one.squares, one.p) == pytest.approx((two.squares, two.p), abs=1e-9)
    p = {frozenset((pair.a, pair.b)): pair.p for pair in found.pairs}
    assert p == pytest.approx({frozenset((pair.a, pair.b)): pair.p for pair in again.pairs})


def test_runs_that_differ_by_a_constant_have_no_error_to_test_with() -> None:
    values = np.array([[0.1, 0.3], [0.2, 0.4], [0.7, 0.9]])
    found = anova(values, ("a", "b"))
    assert [(each.f, each.p, each.omega) for each in found.sources] == [(None, None, None)] * 3
    # Means of systems 1/3 and 8/15, of topics .2 .3 .8.
    whole = 0.06 + 2 * (0.7**2 + 0.4**2 + 1.1**2) / 9
    assert [each.share for each in found.sources] == pytest.approx([0.06 / whole, 1 - 0.06 / whole, 0])
    assert (found.hsd, found.pairs[0].p, found.pairs[0].significant) == (0.0, None, None)


def test_topics_that_do_not_count_for_all_are_left_out() -> None:
    values = np.array([[0.1, 0.3], [math.nan, 0.4], [0.7, 0.5], [0.2, 0.9]])
    assert anova(values, ("a", "b")) == anova(values[[0, 2, 3]], ("a", "b"))
    assert anova(values, ("a", "b")).topics == 3


@pytest.mark.parametrize(
    ("values", "names", "alpha", "fault"),
    [
        (np.zeros((3, 1)), ("a",), 0.05, "ANOVA: values of shape (3, 1), expected topics x 1 systems, 2 or more"),
        (np.zeros((3, 2)), ("a", "b", "c"), 0.05, "expected topics x 3 systems"),
        (np.full((3, 2), math.nan), ("a", "b"), 0.05, "ANOVA: 0 topics count for all systems; it needs 2 or more"),
        (np.zeros((3, 2)), ("a", "b"), 1.0, "alpha: 1 is not between 0 and 1"),
    ],
)
def test_what_cannot_be_analysed(values: Floats, names: tuple[str, ...], alpha: float, fault: str) -> None:
    assert fault in refusal(anova, values, names, alpha)


@pytest.mark.parametrize(("sd", "difference"), [(0.25, 0.1), (0.2, 0.02), (0.3, 0.05), (0.1, 0.2)])
@pytest.mark.parametrize(("alpha", "power"), [(0.05, 0.8), (0.001, 0.9)])
def test_the_least_number_of_topics_with_the_power(sd: float, difference: float, alpha: float, power: float) -> None:
    n = topics_needed(sd, difference, alpha, power)
    assert n is not None
    reached = [TTestPower().power(difference / sd, topics, alpha) for topics in (n - 1, n)]
    assert reached[0] < power <= reached[1]


def test_more_topics_than_any_collection_has() -> None:
    assert topics_needed(1.0, 0.0001, 0.05, 0.8) is None


def test_a_plan_from_pilot_scores() -> None:
    random = np.random.default_rng(0)
    topic, noise = random.normal(0.4, 0.2, (60, 1)), random.normal(0.0, 0.1, (60, 8))
    values = topic + noise
    values[3, 2] = np.nan
    plan = plan_tests(values, "AP", (0.02, 0.05), family=4)
    assert (plan.runs, plan.topics, plan.alpha) == (8, 59, 0.0125)
    # Two runs differ by noise alone, whose standard deviation is 0.1 each: the topics' own spread does not count.
    assert plan.sizes[0].sd == pytest.approx(0.1 * np.sqrt(2), rel=0.1)
    for size in plan.sizes:
        assert size.topics == topics_needed(size.sd, size.difference, 0.0125, 0.8)
        assert size.resampled == pytest.approx(0.8, abs=0.05)
    found = topics_needed(plan.sizes[0].sd, plan.detectable, 0.0125, 0.8)
    assert found in (59, 60)


def test_resampled_power_is_alpha_without_a_difference() -> None:
    values = np.random.default_rng(4).random((400, 4))
    assert resampled_power(values, 0.0, 40, 0.05) == pytest.approx(0.05, abs=0.02)


@pytest.mark.parametrize(
    ("differences", "family", "power", "said"),
    [
        ((0.0,), 1, 0.8, "difference: 0 is not above 0"),
        ((0.1,), 0, 0.8, "family: 0 is less than 1"),
        ((0.1,), 1, 0.01, "power: 0.01 is not between 0.05 and 1"),
    ],
)
def test_wrong_options(differences: tuple[float, ...], family: int, power: float, said: str) -> None:
    assert (
        refusal(plan_tests, np.random.default_rng(0).random((9, 3)), "AP", differences, family=family, power=power)
        == said
    )


def test_runs_that_differ_by_a_constant_have_no_plan() -> None:
    values = np.linspace(0, 1, 9)[:, None] + [0.0, 0.1]
    with pytest.raises(HarnessError, match="AP: the runs differ by the same amount on all topics"):
        plan_tests(values, "AP", (0.1,))


NAN = math.nan


def test_by_hand() -> None:
    values = np.array([[0.0, 0.2, 0.4], [0.9, 0.5, 0.1], [0.3, 0.3, 0.3], [NAN, NAN, NAN], [NAN, 0.8, NAN]])
    found = {each.topic: each for each in topic_difficulty(values, ("A.1", "A.2", "A.3", "A.4", "A.5"))}
    assert list(found) == ["A.1", "A.3", "A.2", "A.5"]  # the hardest first; nobody has A.4
    first = found["A.1"]
    assert (first.runs, first.mean, first.sd) == pytest.approx((3, 0.2, 0.2))
    assert (first.low, first.high, first.zeros) == (0.0, 0.4, 1)
    # The runs' means over the other topics: (.9 + .3) / 2, (.5 + .3 + .8) / 3, (.1 + .3) / 2.
    assert first.discrimination == pytest.approx(correlation([0.0, 0.2, 0.4], [0.6, 1.6 / 3, 0.2]))
    assert found["A.3"].discrimination is None  # constant
    assert (found["A.5"].runs, found["A.5"].sd, found["A.5"].discrimination) == (1, None, None)


def test_a_topic_that_orders_runs_as_the_others_do_discriminates() -> None:
    rising = np.outer([1, 2, 3, 1], [0.1, 0.2, 0.3, 0.25])
    rising[3] = 0.5 - rising[3]
    found = {each.topic: each.discrimination for each in topic_difficulty(rising, "abcd")}
    assert found["d"] == pytest.approx(-1)
    assert all(found[topic] == pytest.approx(1) for topic in "abc")


@given(st.lists(st.lists(st.integers(0, 9), min_size=4, max_size=4), min_size=2, max_size=6), st.randoms())
def test_no_order_matters(rows: list[list[int]], rng: random.Random) -> None:
    values = np.array(rows) / 10
    topics = [f"t{i}" for i in range(len(rows))]
    order = rng.sample(range(len(rows)), len(rows))
    runs = rng.sample(range(4), 4)
    one = topic_difficulty(values, topics)
    two = topic_difficulty(values[order][:, runs], [topics[i] for i in order])
    assert [each.topic for each in one] == [each.topic for each in two]
    for a, b in zip(one, two, strict=True):
        assert (a.mean, a.sd, a.zeros) == pytest.approx((b.mean, b.sd, b.zeros))
        assert a.discrimination == pytest.approx(b.discrimination, abs=1e-9)


def test_a_shape_that_does_not_fit() -> None:
    with pytest.raises(HarnessError, match=r"values of shape \(2, 1\), expected 1 topics x runs"):
        topic_difficulty(np.zeros((2, 1)), ("a",))
