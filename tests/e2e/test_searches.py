"""Searches by Optuna: they end near the best point, repeat themselves, and resume."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import yaml
from sweep_tools import MINI, killed_at_random, points, runs, summary
from tools import Place

from harness.experiments.sweep_progress import rounded

SEARCH = ("run", "-m", *MINI, "system=bm25", "hydra/sweeper=optuna", "system.b=interval(0,1)", "formats=[json]")
needs_optuna = pytest.mark.skipif(
    importlib.util.find_spec("hydra_plugins.hydra_optuna_sweeper") is None, reason="optuna is not installed"
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def results(place: Place) -> dict[str, Any]:
    """The results of the one search in the folder."""
    (path,) = (place.here / "reports").rglob("optimization_results.yaml")
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


@pytest.mark.heavy
@needs_optuna
def test_a_search_ends_near_the_maximum_and_the_same_command_adds_nothing(place: Place) -> None:
    """nDCG′ is 0.8591 for b near 0, and falls to 0.77 to 0.81 from 0.6 on."""
    arguments = (*SEARCH, "hydra.sweeper.n_trials=30")
    printed = place.good(*arguments)
    found = results(place)
    tried = {trial["params"]["system.b"]: trial["value"] for trial in found["trials"]}
    assert len(tried) == len(runs(place)) == len(points(place)) == 30
    assert found["best_value"] == max(tried.values()) == tried[found["best_params"]["system.b"]] >= 0.859
    assert found["best_params"]["system.b"] < 0.05
    assert sum(b < 0.3 for b in list(tried)[10:]) > 15  # of the 20 trials after the random ones
    best = f"best nDCG′ {found['best_value']:.4f} with b={rounded(str(found['best_params']['system.b']))}"
    assert f"30 configurations of bm25 on mini-task1: {best}, chosen on the same topics" in printed
    before = place.files()
    again = place.run(*arguments)
    assert again.err.count("reused, same configuration") == 30
    assert (again.out, place.files()) == (printed, before)


@pytest.mark.heavy
@needs_optuna
def test_a_search_that_was_killed_ends_with_the_same_bytes(tmp_path: Path) -> None:
    calm, killed = Place(tmp_path / "calm"), Place(tmp_path / "killed")
    arguments = (*SEARCH, "hydra.sweeper.n_trials=14")
    calm.good(*arguments)
    killed_at_random(killed, arguments, times=2)
    assert runs(killed) == runs(calm)
    assert (summary(killed), results(killed)) == (summary(calm), results(calm))
    if importlib.util.find_spec("joblib") is not None:  # whatever runs the points, they are the same
        parallel = Place(tmp_path / "parallel")
        parallel.good(*arguments, "hydra/launcher=joblib")
        assert (runs(parallel), results(parallel)) == (runs(calm), results(calm))


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
    assert found["best_value"] == min(trial["value"] for trial in found["trials"])
    assert f"3 configurations of bm25 on mini-task1: lowest nDCG′ {found['best_value']:.4f} with b=" in printed
    place.good("run", "-m", "sweep=least", *search, *minimize, "hydra.sweeper.sampler.seed=4")
    assert len(runs(place)) == 3


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


@needs_optuna
@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("hydra.sweeper.direction=max",), "hydra.sweeper.direction=max: expected maximize or minimize, of the first"),
        (("hydra.sweeper.direction=[maximize,minimize]",), "expected maximize or minimize, of the first measure"),
        (("hydra.sweeper.n_jobs=0",), "hydra.sweeper.n_jobs=0: expected a whole number from 1"),
        (("hydra.sweeper.n_trials=0",), "hydra.sweeper.n_trials=0: expected a whole number from 1"),
        (
            ("hydra.sweeper.storage=sqlite:///s.db",),
            "hydra.sweeper.storage: a study is in memory, and the same command repeats it",
        ),
        (("hydra.sweeper.max_failure_rate=0",), "a search goes on after points that fail; leave it out"),
        (("hydra.sweeper.sampler.seed=null",), "hydra.sweeper.sampler.seed is null: expected a whole number"),
        (("hydra/sweeper/sampler=grid",), "GridSampler has no seed, so its points are other ones each time; for all"),
        (("system.b=0.5",), "hydra/sweeper=optuna: no key varies; add one such as 'system.b=interval(0,1)'"),
        (
            ("collection=mini-task1,mini-theorems", "system.k1=1,2"),
            "hydra/sweeper=optuna: collection varies: values on other topics",
        ),
        (("+hydra.sweeper.params={system.k1: '1,2'}",), "hydra.sweeper.params: what varies is given as words, such as"),
        (("hydra/sweeper=nevergrad",), "hydra/sweeper=nevergrad: not supported, since it may minimise the measure; "),
        (("hydra.sweep.dir=out",), "hydra.sweep.dir: folders are set by output=FOLDER"),
    ],
)
def test_searches_that_could_not_be_repeated_or_have_no_best_point_are_refused(
    place: Place, words: tuple[str, ...], line: str
) -> None:
    done = place.run(*SEARCH, *words)
    assert done.code == 2
    (said,) = done.err.splitlines()
    assert said.startswith("harness: ")
    assert line in said
    assert runs(place) == {}
