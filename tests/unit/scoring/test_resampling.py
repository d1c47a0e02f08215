"""Bootstrap of ranks against a loop in exact fractions; the price of a search by simulation; cases by hand."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from harness.errors import HarnessError
from harness.scoring import resampling
from harness.scoring.resampling import draws, price_of_selection, rank_intervals, ranks_of_means

Values = list[list[float]]


def by_hand(
    values: Values, clusters: Sequence[int], resamples: int, seed: int, confidence: float
) -> list[tuple[int, int, float]]:
    """(low, high, share of first places) of each run, resample by resample, in exact fractions."""
    found: list[list[int]] = [[] for _ in values]
    for drawn in draws(np.random.PCG64(seed), max(clusters) + 1, resamples).tolist():
        means: list[Fraction | None] = []
        for row in values:
            counted = [
                Fraction(value)
                for cluster in drawn
                for topic, value in enumerate(row)
                if clusters[topic] == cluster and not math.isnan(value)
            ]
            means.append(sum(counted, Fraction(0)) / len(counted) if counted else None)
        for run, mine in enumerate(means):
            above = sum(other is not None and (mine is None or other > mine) for other in means)
            found[run].append(1 + above)
    out = []
    for row, ranks in zip(values, found, strict=True):
        n = len({cluster for value, cluster in zip(row, clusters, strict=True) if not math.isnan(value)})
        t = stats.t.isf((1 - confidence) / 2, n - 1) if n > 1 else math.inf
        outside = math.floor(stats.norm.sf(math.sqrt(n / (n - 1)) * t) * resamples) if n > 1 else 0
        out.append((sorted(ranks)[outside], sorted(ranks)[resamples - 1 - outside], ranks.count(1) / resamples))
    return out


def listed(found: resampling.RankIntervals) -> list[tuple[int, int, float]]:
    return list(zip(found.low.tolist(), found.high.tolist(), found.first.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(8))
def test_equals_a_plain_loop(seed: int) -> None:
    """Values in sixths: sums that are equal in fractions differ in the last bit of floats."""
    chance = random.Random(seed)
    runs, topics = chance.randint(1, 7), chance.randint(1, 9)
    values = [[chance.randint(0, 6) / 6 for _ in range(topics)] for _ in range(runs)]
    fractions = [[Fraction(round(value * 6), 6) for value in row] for row in values]
    for row in values:
        if seed % 2:
            row[chance.randrange(topics)] = math.nan
    exact: Values = [
        [math.nan if math.isnan(value) else fraction for value, fraction in zip(row, same, strict=True)]  # type: ignore[misc]
        for row, same in zip(values, fractions, strict=True)
    ]
    clusters = list(range(topics)) if seed < 4 else sorted(chance.randrange(topics) for _ in range(topics))
    clusters = [sorted(set(clusters)).index(cluster) for cluster in clusters]
    found = rank_intervals(np.array(values), clusters, resamples=200, seed=seed, confidence=0.9)
    assert listed(found) == by_hand(exact, clusters, 200, seed, 0.9)


def test_in_parts_as_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(3).random((12, 20))
    whole = listed(rank_intervals(values, resamples=101, seed=7))
    monkeypatch.setattr(resampling, "CHUNK", 60)
    assert listed(rank_intervals(values, resamples=101, seed=7)) == whole


def test_the_order_of_runs_does_not_matter() -> None:
    values = np.random.default_rng(4).random((9, 15))
    values[3] = values[5]
    order = np.random.default_rng(5).permutation(9)
    whole, turned = (listed(rank_intervals(each, resamples=300, seed=1)) for each in (values, values[order]))
    assert turned == [whole[run] for run in order]


def test_what_cannot_vary() -> None:
    certain = np.array([[0.3, 0.4, 0.5], [0.2, 0.3, 0.4], [0.2, 0.3, 0.4], [0.0, 0.0, 0.0]])
    assert listed(rank_intervals(certain)) == [(1, 1, 1.0), (2, 2, 0.0), (2, 2, 0.0), (4, 4, 0.0)]
    assert listed(rank_intervals(np.array([[0.2], [0.7]]))) == [(2, 2, 0.0), (1, 1, 1.0)]
    assert listed(rank_intervals(np.full((3, 5), 0.1), resamples=1)) == [(1, 1, 1.0)] * 3
    assert listed(rank_intervals(np.array([[math.nan, math.nan], [0.0, 0.1]]))) == [(2, 2, 0.0), (1, 1, 1.0)]


def test_one_topic_that_decides() -> None:
    """The second run is first as well exactly if the first topic is not drawn, which has the chance (1 - 1/n)^n."""
    n, resamples = 10, 20_000
    values = np.full((2, n), 0.5)
    values[0, 0] = 0.75
    found = rank_intervals(values, resamples=resamples, seed=11)
    chance = (1 - 1 / n) ** n
    assert found.first[0] == 1.0
    assert abs(found.first[1] - chance) < 5 * math.sqrt(chance * (1 - chance) / resamples)


def test_draws_are_even_and_their_own() -> None:
    drawn = draws(np.random.PCG64(5), 7, 10_000)
    assert drawn.shape == (10_000, 7)
    counts = np.bincount(drawn.ravel(), minlength=7)
    assert counts.size == 7
    assert (np.abs(counts - 10_000) < 5 * math.sqrt(70_000 * 6 / 49)).all()
    assert (draws(np.random.PCG64(5), 7, 100) == drawn[:100]).all()
    assert (draws(np.random.PCG64(6), 7, 100) != drawn[:100]).any()


def test_places() -> None:
    assert ranks_of_means(np.array([0.3, 0.1 + 0.2, 0.4, math.nan, 0.1])).tolist() == [2, 2, 1, 5, 4]
    assert ranks_of_means(np.array([[1.0, 2.0], [2.0, 1.0]])).tolist() == [[2, 1], [1, 2]]
    assert ranks_of_means(np.array([math.nan, math.nan])).tolist() == [1, 1]
    assert ranks_of_means(np.array([300.0, 300.0 + 1e-11, 299.0])).tolist() == [1, 1, 3]
    assert ranks_of_means(np.array([0.5])).tolist() == [1]


@pytest.mark.parametrize(
    ("values", "options", "words"),
    [
        (np.zeros((0, 3)), {}, "bootstrap: values of shape (0, 3), expected (runs, topics), one of each or more"),
        (np.zeros(3), {}, "bootstrap: values of shape (3,), expected (runs, topics), one of each or more"),
        (np.zeros((1, 1)), {"resamples": 0}, "resamples: 0 is not between 1 and 1,000,000"),
        (np.zeros((1, 1)), {"confidence": 1.0}, "confidence: 1 is not between 0 and 1"),
    ],
)
def test_bad_input(values: np.ndarray, options: dict[str, float], words: str) -> None:
    with pytest.raises(HarnessError) as caught:
        rank_intervals(values, **options)  # type: ignore[arg-type]
    assert caught.value.lines == (words,)


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
