"""Planned numbers of topics: against the power of statsmodels' t-test, by simulation, and wrong options."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.power import TTestPower

from harness.errors import HarnessError
from harness.scoring.planning import plan_tests, resampled_power, topics_needed


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
    with pytest.raises(HarnessError) as raised:
        plan_tests(np.random.default_rng(0).random((9, 3)), "AP", differences, family=family, power=power)
    assert str(raised.value) == said


def test_runs_that_differ_by_a_constant_have_no_plan() -> None:
    values = np.linspace(0, 1, 9)[:, None] + [0.0, 0.1]
    with pytest.raises(HarnessError, match="AP: the runs differ by the same amount on all topics"):
        plan_tests(values, "AP", (0.1,))
