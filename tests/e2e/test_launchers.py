"""Experiments and sweeps on joblib's processes: the same runs and reports, whatever happens to a process."""

from __future__ import annotations

import importlib.util
import signal
import time
from collections import Counter

import pytest
from launch_tools import MINI, alive, calls, experiment, runs_in, wait_for
from tools import Place

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("hydra_plugins.hydra_joblib_launcher") is None,
        reason="hydra-joblib-launcher is not installed: pip install 'mathir-harness[joblib]'",
    ),
]
JOBLIB = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
NOTED = ("run", "experiment=noted", "formats=[json]")


def prepared(place: Place, depths: int = 4, **system: object) -> Place:
    for name, text in experiment(depths, **system).items():
        place.write(name, text)
    return place


@pytest.mark.heavy
def test_a_run_that_needs_what_another_one_is_making(place: Place) -> None:
    """It ends at once, and is made in the next wave; what they share is made once."""
    prepared(place)
    place.write("../told/do", "share")
    place.good(*NOTED, *JOBLIB)
    assert len(runs_in(place.here)) == 4
    assert (place.here / "../told/built").read_text() == "once\n"
    assert sorted(Counter(depth for depth, *_ in calls(place.here)).values()) == [1, 2, 2, 2]


@pytest.mark.heavy
def test_reuse_false_makes_each_run_once(place: Place) -> None:
    prepared(place, 3)
    for count in (3, 6):
        place.good(*NOTED, *JOBLIB, "reuse=false")
        assert len(calls(place.here)) == count


def test_a_killed_driver_resumes(place: Place) -> None:
    prepared(place)
    place.write("../told/do-3", "wait")
    process = place.start(*NOTED, *JOBLIB)
    wait_for(place.here / "../told/calls", 4)
    deadline = time.monotonic() + 60
    while len(list(place.here.glob("runs/mini-task1/*.run"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    workers = {int(pid) for _, pid, _ in calls(place.here)}
    (place.here / "../told/do-3").unlink()
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, workers))  # they end after the run that they were making
    process.communicate()
    place.good(*NOTED, *JOBLIB)
    assert len(runs_in(place.here)) == 4  # and nothing of the killed driver
    assert sorted(depth for depth, *_ in calls(place.here)) == ["1", "2", "3", "4"]


def test_wrong_launchers(place: Place) -> None:
    prepared(place, 1, resources={"cpu": 2})
    done = place.run(*NOTED, "hydra/launcher=jobli")
    assert (done.code, done.err) == (2, "harness: hydra/launcher=jobli: no such launcher; did you mean 'joblib'?\n")
    done = place.run("run", *MINI, "system=bm25", "hydra/launcher=joblib")
    assert done.err.endswith("hydra/launcher=joblib: not used; no long part of this run was missing\n")
    done = place.run("run", *MINI, "system=bm25", "jobs=0")
    assert done.err == "harness: run: key 'jobs' is 0, expected a whole number from 1 up\n"
    done = place.run("reproduce", "hydra/launcher=joblib")
    assert done.err == "harness: reproduce: hydra/launcher=joblib is for the command run, and for make=true\n"
    done = place.run(*NOTED, *JOBLIB)
    assert "resources: key 'cpu' is unknown; did you mean 'cpus'?" in done.err
    done = place.run(*NOTED, "hydra/launcher=joblib", "hydra.launcher.n_job=2")
    assert done.code == 2 and "n_job" in done.err
