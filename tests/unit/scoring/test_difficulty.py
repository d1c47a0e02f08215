"""Difficulty and discrimination of topics, by hand."""

from __future__ import annotations

import math
import random
from statistics import correlation

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import HarnessError
from harness.scoring.difficulty import topic_difficulty

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
