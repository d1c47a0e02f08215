"""The randomization test alone: exact or drawn, with its error, and what differences of 0 do to it: nothing."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples

from harness.scoring import randomization
from harness.scoring.randomization import sign_flips

THOUSANDTHS = st.lists(st.integers(-1000, 1000).filter(bool), max_size=9)


def flips(thousandths: list[int], permutations: int, seed: int = 0) -> tuple[float, float | None]:
    return sign_flips(np.array(thousandths, dtype=np.float64) / 1000, permutations, seed, 1e-12)


def share(thousandths: list[int]) -> float:
    """Of all sign patterns, those whose sum is as far from 0 as the observed one."""
    patterns = product((1, -1), repeat=len(thousandths))
    sums = [abs(sum(s * d for s, d in zip(pattern, thousandths, strict=True))) for pattern in patterns]
    return sum(found >= abs(sum(thousandths)) for found in sums) / len(sums)


@given(THOUSANDTHS, st.integers(0, 20), st.integers(1, 600))
@settings(max_examples=examples(150), deadline=None)
def test_it_is_exact_where_the_patterns_are_no_more_than_the_permutations(
    differences: list[int], zeros: int, permutations: int
) -> None:
    p, error = flips(differences + [0] * zeros, permutations)
    assert (error is None) == (2 ** len(differences) <= permutations)
    if error is None:
        assert p == share(differences)


def test_three_differences_of_many_topics() -> None:
    """Of 67 topics three differ, by .1 -.2 .3: six of their eight sign patterns reach .2."""
    assert flips([0] * 64 + [100, -200, 300], 8) == (6 / 8, None)
    assert flips([0] * 64 + [100, -200, 300], 7)[1] is not None
    assert flips([0] * 70, 1) == (1.0, None)
    assert flips([], 1) == (1.0, None)


def test_differences_of_0_change_neither_p_nor_its_error() -> None:
    rng = np.random.default_rng(4)
    differences = rng.integers(1, 1000, 40).tolist()
    assert flips([-differences[0], *differences[1:]], 500) == flips(
        [-differences[0], *[0] * 100, *differences[1:]], 500
    )


def test_the_standard_error_is_the_spread_of_p_over_seeds() -> None:
    differences = [int(d) for d in np.random.default_rng(9).normal(150, 500, 30)]
    found = [flips(differences, 400, seed) for seed in range(400)]
    p = np.array([value for value, _ in found])
    assert 0.05 < p.mean() < 0.95
    assert np.mean([error or 0 for _, error in found]) == pytest.approx(p.std(), rel=0.15)


def test_what_is_drawn_nears_the_exact_p() -> None:
    differences = [int(d) for d in np.random.default_rng(3).normal(100, 400, 14)]
    (exact, _), (drawn, error) = flips(differences, 2**14), flips(differences, 2**14 - 1)
    assert 0.05 < exact < 0.95
    assert drawn != exact
    assert abs(drawn - exact) < 5 * (error or 0)


@pytest.mark.parametrize(("n", "permutations"), [(12, 4096), (20, 3000), (70, 3000), (130, 1001)])
def test_memory_chunks_do_not_change_p(n: int, permutations: int, monkeypatch: pytest.MonkeyPatch) -> None:
    differences = [int(d) for d in np.random.default_rng(1).normal(50, 400, n)]
    whole = flips(differences, permutations)
    monkeypatch.setattr(randomization, "CHUNK_WORDS", 100)
    assert flips(differences, permutations) == whole
