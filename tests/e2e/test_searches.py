"""Searches by Optuna: they end near the best point, repeat themselves, and resume."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import yaml
from case_tables import literals
from tools import MINI, Place, points

from harness.experiments.sweep import rounded

SEARCH = ("run", "-m", *MINI, "system=bm25", "hydra/sweeper=optuna", "system.b=interval(0,1)", "formats=[json]")
needs_optuna = pytest.mark.skipif(
    importlib.util.find_spec("hydra_plugins.hydra_optuna_sweeper") is None, reason="optuna is not installed"
)


def results(place: Place) -> dict[str, Any]:
    """The results of the one search in the folder."""
    (path,) = (place.here / "reports").rglob("optimization_results.yaml")
    return dict(yaml.safe_load(path.read_text()))


@pytest.mark.heavy
@needs_optuna
def test_a_search_ends_near_the_maximum_and_the_same_command_adds_nothing(place: Place) -> None:
    """nDCG′ is 0.8591 for b near 0, and falls to 0.77 to 0.81 from 0.6 on."""
    arguments = (*SEARCH, "hydra.sweeper.n_trials=30")
    printed = place.good(*arguments)
    found = results(place)
    tried = {trial["params"]["system.b"]: trial["value"] for trial in found["trials"]}
    assert len(tried) == len(place.runs()) == len(points(place)) == 30
    assert found["best_value"] == max(tried.values()) == tried[found["best_params"]["system.b"]] >= 0.859
    assert found["best_params"]["system.b"] < 0.05
    assert sum(b < 0.3 for b in list(tried)[10:]) > 15  # of the 20 trials after the random ones
    best = f"best nDCG′ {found['best_value']:.4f} with b={rounded(str(found['best_params']['system.b']))}"
    assert f"30 configurations of bm25 on mini-task1: {best}, chosen on the same topics" in printed
    before = place.files()
    again = place.run(*arguments)
    assert again.err.count("reused, same configuration") == 30
    assert (again.out, place.files()) == (printed, before)


@pytest.mark.slow
@needs_optuna
@pytest.mark.parametrize("sampler", ["tpe", "cmaes", "nsgaii", "random"])
def test_each_sampler_has_a_seed_and_minimizes_on_request(place: Place, sampler: str) -> None:
    place.write("conf/sweep/least.yaml", "# @package _global_\ndefaults:\n  - override /hydra/sweeper: optuna\n")
    minimize = ("hydra.sweeper.direction=minimize", f"hydra/sweeper/sampler={sampler}", "hydra.sweeper.n_trials=3")
    search = (*MINI, "system=bm25", "system.b=interval(0,1)", "formats=[json]")
    printed = place.good("run", "-m", "sweep=least", *search, *minimize, "seed=4")
    found = results(place)
    assert found["direction"] == "minimize"
    assert found["sampler"].lower() == f"{sampler}sampler"
    assert found["best_value"] == min(trial["value"] for trial in found["trials"])
    assert f"3 configurations of bm25 on mini-task1: lowest nDCG′ {found['best_value']:.4f} with b=" in printed
    place.good("run", "-m", "sweep=least", *search, *minimize, "hydra.sweeper.sampler.seed=4")
    assert len(place.runs()) == 3


@pytest.mark.slow
@needs_optuna
def test_a_search_goes_on_after_points_that_fail(place: Place) -> None:
    """Values of b above 1 are refused."""
    arguments = [word.replace("interval(0,1)", "interval(0.4,1.4)") for word in SEARCH]
    done = place.run(*arguments, "hydra.sweeper.n_trials=6")
    assert done.code == 2
    values = {trial["params"]["system.b"]: trial["value"] for trial in results(place)["trials"]}
    failed = [b for b, value in values.items() if value is None]
    assert failed == [b for b in values if b > 1]
    assert 0 < len(failed) < 6
    assert f"{6 - len(failed)} configurations of bm25 on mini-task1, {len(failed)} more failed: best nDCG′" in done.out
    assert done.err.count("expected a number from 0 to 1") == len(failed)


@pytest.mark.slow
@needs_optuna
@pytest.mark.parametrize(("words", "line"), literals("commands/searches"))
def test_searches_that_could_not_be_repeated_or_have_no_best_point_are_refused(
    place: Place, words: tuple[str, ...], line: str
) -> None:
    (said,) = place.refused(*SEARCH, *words)
    assert line in said
