"""Waves of jobs: what waits for another process comes again, and what was lost is tried once more."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from refusals import refuses

from harness.errors import HarnessError
from harness.experiments import launch, spread
from harness.experiments.engines import ENGINES, check_launcher
from harness.experiments.engines.shared import at_once
from harness.experiments.launch import Job, JobWorker, MissingResourceError
from harness.io import interrupt
from harness.store.artefacts import ArtefactBusy
from harness.store.shards import ShardTask
from harness.systems.keys import unlisted
from harness.systems.resources import Resources, declared

Told = Mapping[str, Any]
Waves = list[list[int]]


def work(content: Told) -> Told:
    """Does what the job says."""
    what = content.get("what")
    if what == "raise":
        raise HarnessError("as told")
    if what == "missing":
        raise MissingResourceError("no model")
    if what == "bug":
        raise ZeroDivisionError("as told")
    os.write(1, b"done\n")  # as a library in another language does
    return {"path": content["name"]}


@pytest.fixture
def waves(monkeypatch: pytest.MonkeyPatch) -> Waves:
    """The waves that are handed over: an engine in this process, which does what the jobs say happens to them."""
    seen: Waves = []
    attempts: dict[int, int] = {}

    def hand_over(worker: JobWorker, wave: Sequence[int], jobs: Sequence[Job]) -> dict[int, str]:
        seen.append(list(wave))
        for number in wave:
            attempts[number] = attempts.get(number, 0) + 1
            told = jobs[number].content
            name = f"run-{number:05d}"
            if attempts[number] <= told.get("unstarted", 0):
                continue
            (worker.folder / f"{name}.started").write_text("here 1")
            if attempts[number] <= told.get("killed", 0):
                continue
            busy = attempts[number] <= told.get("busy", 0) and not worker.waits
            end = {"state": "busy", "lines": [], "lacking": False, "made": {}}
            if not busy:
                found = worker._ended(told)
                end = {"state": found.state, "lines": found.lines, "lacking": found.lacking, "made": dict(found.made)}
            (worker.folder / f"{name}.ended").write_text(json.dumps(end))
        return dict.fromkeys(wave, "the engine says so")

    monkeypatch.setattr(launch, "_hand_over", hand_over)
    monkeypatch.setattr(launch, "_one_kills_all", lambda: False)
    return seen


def ended(tmp_path: Path, *jobs: Told) -> list[launch.Ended]:
    return launch.launch([Job({"name": str(n), **job}, str(n)) for n, job in enumerate(jobs)], work, tmp_path / "x/y")


def test_results_come_in_order_and_nothing_stays(tmp_path: Path, waves: Waves) -> None:
    found = ended(tmp_path, {}, {"what": "raise"}, {"what": "missing"}, {"what": "bug"})
    assert [end.state for end in found] == ["made", "failed", "failed", "failed"]
    assert [end.lacking for end in found] == [False, False, True, False]
    assert found[0].made == {"path": "0"}
    assert found[1].lines == ("as told",)
    assert "ZeroDivisionError: as told" in found[3].lines[0]
    assert waves == [[0, 1, 2, 3]]
    assert not (tmp_path / "x").exists()


def test_what_waits_comes_in_the_next_wave(tmp_path: Path, waves: Waves) -> None:
    found = ended(tmp_path, {}, {"busy": 1}, {"busy": 2}, {"unstarted": 1})
    assert {end.state for end in found} == {"made"}
    assert waves == [[0, 1, 2, 3], [1, 2, 3], [2]]


def test_if_all_wait_one_of_them_waits_for_the_others(tmp_path: Path, waves: Waves) -> None:
    """Another program makes what they need: one job may wait for it, and holds a single slot."""
    found = ended(tmp_path, *[{"busy": 5}] * 3)
    assert {end.state for end in found} == {"made"}
    assert waves[:3] == [[0, 1, 2], [0], [1, 2]]


def spawned(number: int) -> int:
    """What a map does in a process of its own, started by a worker."""
    interrupt.in_worker()
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(abs, -number).result()


@pytest.mark.slow
def test_a_worker_of_joblib_starts_processes() -> None:
    joblib = pytest.importorskip("joblib", reason="joblib is not installed")
    assert joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(spawned)(number) for number in (1, 2)) == [1, 2]


@pytest.mark.parametrize("name", ["ray", "joblib"])
def test_what_was_lost_is_tried_once_more(
    tmp_path: Path, waves: Waves, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(launch, "_one_kills_all", lambda: name == "joblib")
    found = ended(tmp_path, {"killed": 1}, {}, {"killed": 9}, {"unstarted": 9})
    assert [end.state for end in found] == ["made", "made", "lost", "lost"]
    assert found[2].lines == ("its process or machine was lost (the engine says so); the same command tries it again",)
    assert "could not be started" in found[3].lines[0]
    # One process of joblib that dies takes the others with it: those that died run one at a time.
    assert waves[2:] == ([[0], [2]] if name == "joblib" else [[0, 2]])


def test_a_worker_defers_and_logs(tmp_path: Path) -> None:
    def busy(_: Told) -> Told:
        raise ArtefactBusy("index", "0" * 64, "node", 7)

    for waits in (False, True):
        end = JobWorker(tmp_path, busy, waits, ("harness run",))._ended({})
        assert (end.state, end.lines) == ("busy", ("index 000000000000 is being made by node, process 7",))
    log = tmp_path / "log"
    with launch._printing_to(log):
        work({"name": "x"})
    assert log.read_text() == "done\n"


def test_remains_of_killed_drivers(tmp_path: Path) -> None:
    import socket

    dead, here, logs = (tmp_path / "launched" / name for name in ("dead", "here", "logs"))
    for folder, owner in ((dead, f"{socket.gethostname()} 4194399"), (here, "elsewhere 1"), (logs, "")):
        folder.mkdir(parents=True)
        (folder / "run-00001.log").touch()
        if owner:
            (folder / "owner").write_text(owner)
    launch.clear_remains(tmp_path)
    assert sorted(path.name for path in (tmp_path / "launched").iterdir()) == ["here", "logs"]


@pytest.mark.parametrize(
    ("need", "slots", "count"),
    [
        (Resources(), 4, 4),
        (Resources(cpus=3), 4, 1),
        (Resources(cpus=9), 4, 1),
        (Resources(gpus=1), 4, 1),
        (Resources(gpus=0), 4, 4),
        (Resources(memory=1_000_000), 4, 1),
    ],
)
def test_jobs_side_by_side(need: Resources, slots: int, count: int) -> None:
    assert at_once(need, slots) == count


def test_resources_of_parts() -> None:
    found = declared([{"resources": {"cpus": 4}}, {}, {"resources": {"cpus": 2, "gpus": 1, "time": 90}}], "x")
    assert found == Resources(cpus=4, gpus=1, time=90)
    for wrong in ({"cpus": 0}, {"gpus": "1"}, {"gpu": 1}, 3):
        refuses("x: resources", partial(declared, [{"resources": wrong}], "x"))


def test_the_key_can_be_set_for_every_system() -> None:
    shuffle = {"_target_": "harness.systems.baselines.Shuffle"}
    assert unlisted(shuffle, "resources.gpus", "x") is not None
    assert unlisted({**shuffle, "resources": {"gpus": 1}}, "resources.gpus", "x") is None
    refuses(r"did you mean 'cpus'", lambda: unlisted(shuffle, "resources.cpu", "x"))


def test_a_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, extra in (("joblib", "joblib"), ("submitit_slurm", "slurm"), ("ray", "ray")):
        monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
        refuses(rf"is not installed: pip install 'mathir-harness\[{extra}\]'", partial(check_launcher, name, {}))
    assert set(ENGINES) == {"joblib", "submitit_local", "submitit_slurm", "ray"}
    check_launcher("mine", {"mine": None})


def test_shards_are_not_made_by_other_code_than_was_planned(tmp_path: Path) -> None:
    task: ShardTask[int] = ShardTask("vectors/key", bytes)
    (tmp_path / "map.pickle").write_bytes(pickle.dumps(task))
    content = {"folder": str(tmp_path), "shards": [], "code": spread._code_of(task)}
    assert spread.make_shards(content) == {}
    refuses("the code changed since the work was planned", lambda: spread.make_shards({**content, "code": "another"}))
