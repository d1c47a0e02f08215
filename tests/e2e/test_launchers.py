"""Experiments and sweeps on joblib's processes: the same runs and reports, whatever happens to a process."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import time
from collections import Counter

import pytest
from launch_tools import (
    MINI,
    alive,
    calls,
    experiment,
    mapping,
    runs_in,
    wait_for,
)
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
def test_failures_are_listed_with_their_logs(place: Place) -> None:
    prepared(place)
    place.write("../told/do-2", "raise")
    done = place.run(*NOTED, *JOBLIB)
    assert done.code == 2
    line = "not run: d2: system noted: ValueError: as told\n"
    assert line in done.err
    (log,) = re.findall(r"^log of d2: (\S+)$", done.err, re.MULTILINE)
    text = (place.here / log).read_text()
    assert "a line of the system\n" in text and 'raise ValueError("as told")' in text
    assert done.err.endswith("harness: experiment noted: 1 of 4 cells failed; see 'not run' above\n")
    assert len(calls(place.here)) == 4  # it was not tried again
    (place.here / "../told/do-2").unlink()
    assert place.good(*NOTED, *JOBLIB).startswith("4 runs of experiment noted")
    assert [depth for depth, *_ in calls(place.here)].count("2") == 2
    assert len(calls(place.here)) == 5


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


MAP = ("run", *MINI, "system=mapped", "formats=[json]")


@pytest.mark.heavy
def test_a_document_that_kills_its_process(place: Place) -> None:
    for name, text in mapping().items():
        place.write(name, text)
    place.good(*MAP)
    told = place.here / "../told"
    lengths, deadly = (told / "lengths").read_text(), (told / "lengths").read_text().split()[10]
    shutil.rmtree(place.cache / "store")
    place.write("../told/kill", deadly)
    done = place.run(*MAP, *JOBLIB, "reuse=false", "jobs=3")
    assert done.code == 2
    assert "harness: lengths-shard 0 to " in done.err and "its process or machine was lost" in done.err
    finished = len(list((place.cache / "store" / "lengths-shard").glob("[!.]*")))
    assert finished > 4
    place.write("../told/survives", "")
    (told / "calls").unlink()
    place.good(*MAP, *JOBLIB, "reuse=false", "jobs=3")
    length = f"{deadly} {len(deadly)}\n"
    assert (told / "lengths").read_text() == lengths.replace(length, f"{deadly} crashed\n")


@pytest.mark.heavy
def test_a_run_that_kills_its_worker(place: Place) -> None:
    """As one does that needs too much memory: the others are finished, and it is tried twice."""
    prepared(place)
    place.write("../told/do-1", "kill")
    done = place.run(*NOTED, *JOBLIB)
    assert done.code == 2
    assert "not run: d1: its process or machine was lost (TerminatedWorkerError: " in done.err
    assert "log of d1: " in done.err
    assert [depth for depth, *_ in calls(place.here)].count("1") == 2
    (place.here / "../told/do-1").unlink()
    before = len(calls(place.here))
    place.good(*NOTED, *JOBLIB)
    assert len(calls(place.here)) == before + 1  # nothing that was finished is made again


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


@pytest.mark.heavy
def test_threads_and_processes_follow_the_resources(place: Place) -> None:
    prepared(place, 3, resources={"cpus": 2})
    place.good(*NOTED, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
    found = calls(place.here)
    assert {threads for *_, threads in found} == {str(len(os.sched_getaffinity(0)))}
    assert not any("resources" in path.read_text() for path in place.here.glob("runs/mini-task1/*.yml"))


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
