"""The launchers: the same runs and reports as in one process, and what a lost worker costs.

joblib works with processes, SLURM is a cluster of two nodes on the loopback (`tests/tools/slurm.py`), Ray one of two
nodes on this machine.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import slurm
from launch_tools import MINI, alive, calls, experiment, mapped_with_a_kill, report_in, runs_in, wait_for
from tools import CODE, Place

pytestmark = pytest.mark.slow
NOTED = ("run", "experiment=noted", "formats=[json]")


class Engine:
    """A launcher's words, and the variables that its clients need."""

    def __init__(self, name: str, *words: str, environment: Mapping[str, str] | None = None) -> None:
        self.name, self.words = name, (f"hydra/launcher={name}", *words)
        self.environment = dict(environment or {})

    def place(self, root: Path) -> Place:
        """A folder from which the launcher works."""
        made = Place(root)
        made.environment |= self.environment
        return made


@pytest.fixture(scope="module")
def cluster() -> Iterator[slurm.Cluster]:
    if why := slurm.missing():
        pytest.skip(why)
    with slurm.cluster() as running:
        yield running


@pytest.fixture(scope="module")
def ray_nodes() -> Iterator[Any]:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("ray is not installed: pip install 'mathir-harness[ray]'")
    from ray.cluster_utils import Cluster

    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = CODE  # of this tree, for the processes of the nodes
    made: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
    yield made
    made.shutdown()
    del os.environ["PYTHONPATH"]
    os.environ.update({} if before is None else {"PYTHONPATH": before})


@pytest.fixture(params=["joblib", "submitit_local", "submitit_slurm", "ray"])
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "ray":
        nodes = request.getfixturevalue("ray_nodes")
        return Engine("ray", f"hydra.launcher.address={nodes.address}")
    if request.param == "joblib":
        if importlib.util.find_spec("hydra_plugins.hydra_joblib_launcher") is None:
            pytest.skip("hydra-joblib-launcher is not installed: pip install 'mathir-harness[joblib]'")
        return Engine("joblib", "hydra.launcher.n_jobs=2")
    if importlib.util.find_spec("hydra_plugins.hydra_submitit_launcher") is None:
        pytest.skip("hydra-submitit-launcher is not installed: pip install 'mathir-harness[slurm]'")
    if request.param == "submitit_slurm":
        running = request.getfixturevalue("cluster")
        return Engine("submitit_slurm", "hydra.launcher.mem_gb=1", environment=running.environment)
    return Engine("submitit_local")


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The experiment, run in one process."""
    place = Place(tmp_path_factory.mktemp("calm"))
    place.good("run", "experiment=mini", "formats=[json]")
    return place


def prepared(place: Place, depths: int = 4, **system: object) -> Place:
    for name, text in experiment(depths, **system).items():
        place.write(name, text)
    return place


@pytest.mark.heavy
def test_runs_and_reports_are_equal(engine: Engine, tmp_path: Path, calm: Place) -> None:
    place = engine.place(tmp_path)
    done = place.run("run", "experiment=mini", "formats=[json]", *engine.words)
    assert done.code == 0, done.err
    assert done.err.count(f": made by hydra/launcher={engine.name}") == 9
    assert report_in(place.here, "mini") == report_in(calm.here, "mini")
    assert runs_in(place.here) == runs_in(calm.here)
    again = place.run("run", "experiment=mini", "formats=[json]", *engine.words)
    assert "hydra/launcher" not in again.err  # nothing was left to launch
    assert (again.code, again.err.count("reused, same configuration")) == (0, 9)


@pytest.mark.heavy
def test_a_killed_worker_and_a_failure(engine: Engine, tmp_path: Path) -> None:
    """The others go on; the run whose worker was killed is tried once more."""
    place = prepared(engine.place(tmp_path))
    place.write("../told/do-1", "kill once")
    place.write("../told/do-2", "raise")
    done = place.run(*NOTED, *engine.words)
    assert done.code == 2
    assert "not run: d2: system noted: ValueError: as told" in done.err
    (log,) = re.findall(r"^log of d2: (\S+)$", done.err, re.MULTILINE)
    text = (place.here / log).read_text()
    assert "a line of the system\n" in text and 'raise ValueError("as told")' in text
    assert "harness: experiment noted: 1 of 4 cells failed" in done.err
    depths = sorted(depth for depth, *_ in calls(place.here))
    if engine.name == "joblib":  # which kills all processes with one
        assert {*depths} == {"1", "2", "3", "4"} and len(depths) <= 7
    else:
        assert depths == ["1", "1", "2", "3", "4"]
    (place.here / "../told/do-2").unlink()
    place.good(*NOTED, *engine.words)
    assert len(calls(place.here)) == len(depths) + 1


def test_the_long_map_of_one_run(engine: Engine, tmp_path: Path) -> None:
    mapped_with_a_kill(engine.place(tmp_path), *engine.words, "jobs=2")


@pytest.mark.heavy
def test_an_interrupt_cancels_what_is_queued(engine: Engine, tmp_path: Path) -> None:
    place = prepared(engine.place(tmp_path), 5)
    for depth in (2, 3, 4):
        place.write(f"../told/do-{depth}", "wait")
    process = place.start(*NOTED, *engine.words)
    deadline = time.monotonic() + 60
    while len(list(place.here.glob("runs/mini-task1/*.run"))) < 1 or len(calls(place.here)) < 3:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said.splitlines()[-1]) == (130, "harness: stopped; what was written is whole")
    assert "Traceback" not in said
    while any(alive(int(pid)) for _, pid, _ in calls(place.here)[1:]) and engine.name != "ray":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(1)
    assert "5" not in [depth for depth, *_ in calls(place.here)]
    for depth in (2, 3, 4):
        (place.here / f"../told/do-{depth}").unlink()
    place.good(*NOTED, *engine.words)
    assert [depth for depth, *_ in calls(place.here)].count("1") == 1
    assert len(runs_in(place.here)) == 5


def test_a_sweep_and_its_resources(engine: Engine, tmp_path: Path) -> None:
    if engine.name == "submitit_local":
        pytest.skip("shares its code with submitit_slurm")
    place = prepared(engine.place(tmp_path))
    words = ("run", "-m", *MINI, "system=noted", "system.depth=2,3", "system.resources.cpus=1", "formats=[json]")
    assert "2 configurations of noted on mini-task1: best nDCG" in place.good(*words, *engine.words)
    assert {Path(name).name for name in runs_in(place.here)} == {"noted-depth=2.run", "noted-depth=3.run"}


@pytest.mark.heavy
def test_a_lost_node_of_slurm(cluster: slurm.Cluster, tmp_path: Path) -> None:
    """SLURM puts its job back into the queue; the run is made on the other node."""
    engine = Engine("submitit_slurm", "hydra.launcher.mem_gb=1", environment=cluster.environment)
    place = prepared(engine.place(tmp_path), 4)
    place.write("../told/do-1", "wait")
    process = place.start(*NOTED, *engine.words)
    wait_for(place.here / "../told/calls", 2)
    (pid,) = (int(pid) for depth, pid, _ in calls(place.here) if depth == "1")
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    (node,) = (word.partition(b"=")[2].decode() for word in variables if word.startswith(b"SLURMD_NODENAME="))
    cluster.lose(node)
    time.sleep(0.5)
    assert not alive(pid)
    (place.here / "../told/do-1").unlink()
    try:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        assert sorted(depth for depth, *_ in calls(place.here)) == ["1", "1", "2", "3", "4"]
    finally:
        cluster.start(node)


def test_resources_reach_the_engine(cluster: slurm.Cluster, tmp_path: Path) -> None:
    """A run that asks for a GPU is queued by SLURM until there is one; nothing here has any."""
    engine = Engine("submitit_slurm", "hydra.launcher.mem_gb=1", environment=cluster.environment)
    place = prepared(engine.place(tmp_path), 1, resources={"gpus": 1})
    done = place.run(*NOTED, *engine.words)
    assert done.code == 2
    assert "hydra/launcher=submitit_slurm: no run was started" in done.err
    assert not calls(place.here)
