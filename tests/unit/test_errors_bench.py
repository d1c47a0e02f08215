"""The simulations of `bench.errors` on small inputs: rates near their level, and power where there is any."""

from __future__ import annotations

import numpy as np
import pytest

from bench import errors
from harness.data.columns import Floats

TRIALS = 60
ERROR = 3 * np.sqrt(0.05 * 0.95 / TRIALS)


@pytest.fixture(scope="module")
def matrix() -> Floats:
    """Scores of four runs on 40 topics by two measures that correlate."""
    random = np.random.default_rng(0)
    topics, runs = random.normal(0.4, 0.2, (1, 40, 1)), random.normal(0.0, 0.1, (1, 40, 4))
    return topics + runs + random.normal(0.0, 0.05, (2, 40, 4))


def test_corrections_hold_the_familywise_error_and_find_what_differs(matrix: Floats) -> None:
    none = errors.families(matrix, TRIALS, 0.0)
    assert none["none"][0] > 0.2
    assert max(none[name][0] for name in ("Bonferroni", "Holm", "maxT")) <= 0.05 + ERROR
    power = {name: power for name, (_, power) in errors.families(matrix, TRIALS, 0.08).items()}
    assert power["Bonferroni"] <= power["Holm"] <= power["none"]
    assert power["maxT"] > power["Bonferroni"]


def test_equivalence_at_the_margin_is_rare_and_with_many_topics_certain_at_none(matrix: Floats) -> None:
    assert errors.equivalent(matrix, 200, 300, errors.MARGIN) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
    assert errors.equivalent(matrix, 50, 3000, 0.0) > 0.95


def test_seeds_that_are_not_tested_make_errors() -> None:
    means, both = errors.seed_errors(100, 3, 0.0)
    assert means > 0.25 > both


def test_printed_differences_are_those_of_the_papers_tables() -> None:
    found = {(title, metric): values for title, metric, values in errors.printed_differences("mathamr-plus")}
    assert found["Many vectors are better than one", "ndcg_prime"] == [pytest.approx(0.124)]
