"""The price of a search: nothing for settings that do not differ, little for one that is far ahead."""

from __future__ import annotations

import numpy as np
import pytest

from harness.errors import HarnessError
from harness.scoring.selection import price_of_selection


def test_cross_validation_finds_the_bias_of_equal_settings() -> None:
    """Of equal settings the best one's mean is luck, which cross-validation takes back, on average."""
    random = np.random.default_rng(1)
    found = [price_of_selection(random.normal(0.3, 0.1, (40, 30))) for _ in range(60)]
    assert np.mean([each.value for each in found]) > 0.325
    assert np.mean([each.cross_validated for each in found]) == pytest.approx(0.3, abs=0.004)


def test_a_setting_that_is_far_ahead_costs_nothing() -> None:
    values = np.random.default_rng(2).normal(0.3, 0.02, (40, 12))
    values[:, 5] += 0.4
    found = price_of_selection(values)
    assert (found.best, found.chosen_again) == (5, 1.0)
    assert found.cross_validated == pytest.approx(found.value)
    assert found.optimism == pytest.approx(0.0)


def test_smaller_is_better_and_missing_topics() -> None:
    values = np.random.default_rng(3).random((30, 6))
    up, down = price_of_selection(values), price_of_selection(-values, maximize=False)
    assert down.best == up.best
    assert [down.value, down.optimism] == pytest.approx([-up.value, up.optimism])
    assert down.cross_validated == pytest.approx(-up.cross_validated)
    values[4, 2] = np.nan
    assert price_of_selection(values) == price_of_selection(np.delete(values, 4, axis=0))


@pytest.mark.parametrize("shape", [(30, 1), (4, 3)])
def test_too_little_to_choose_from(shape: tuple[int, int]) -> None:
    with pytest.raises(HarnessError, match=f"a search over {shape[1]} settings and {shape[0]} topics has no price"):
        price_of_selection(np.random.default_rng(0).random(shape))
