"""The launchers: the same runs and reports as in one process, and what a lost worker costs.

joblib works with processes, SLURM is a cluster of two nodes on the loopback (`tests/tools/slurm.py`), Ray one of two
nodes on this machine.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import slurm
import yaml
from tools import CODE, MINI, Place, alive, until, wait_for

pytestmark = pytest.mark.slow
NOTED = ("run", "experiment=noted", "formats=[json]")


# A system that notes each call and the process, and does in it what a file says.
SYSTEM = """
import os
import signal
import time
from pathlib import Path

from harness.store import artefacts
from harness.systems.baselines import Overlap

def build(folder):
    with Path("..", "told", "built").open("a") as file:
        file.write("once\\n")
    while len(Path("..", "told", "calls").read_text().splitlines()) < 4:  # until all others have asked
        time.sleep(0.02)
    (folder / "index").touch()

class Noted(Overlap):
    def __call__(self, request):
        told_in = Path("..", "told")  # elsewhere: files beside a module whose names it has are part of its code
        with (told_in / "calls").open("a") as file:
            file.write(f"{self.depth} {os.getpid()} {os.environ.get('OMP_NUM_THREADS')}\\n")
        print("a line of the system", flush=True)
        for told in (f"do-{self.depth}", "do"):
            path = told_in / told
            what = path.read_text() if path.exists() else ""
            if what == "kill" or what == "kill once":
                if what == "kill once":
                    path.unlink()
                time.sleep(0.5)
                os.kill(os.getpid(), signal.SIGKILL)
            if what == "share":
                artefacts.get_or_build("shared", {"of": "all"}, build)
            if what == "raise":
                raise ValueError("as told")
            while path.exists() and what == "wait":
                time.sleep(0.02)
        return super().__call__(request)
"""


# A system that maps the documents in shards of four, and notes each; a file may say that a shard kills its process.
MAPPED = """
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from harness.store import shards
from harness.systems.baselines import Overlap

TOLD = Path("..", "told").resolve()

@dataclass(frozen=True)
class Lengths:
    deadly: str = ""

    def __call__(self, ids):
        with (TOLD / "calls").open("a") as file:
            file.write(f"{ids[0]} {os.getpid()} -\\n")
        path = TOLD / "kill"
        if path.exists() and path.read_text() in ids:
            if (TOLD / "once").exists():
                path.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return "".join(f"{name} {len(name)}\\n" for name in ids).encode()

def crashed(name):
    return f"{name} crashed\\n".encode()

class Mapped(Overlap):
    def __call__(self, request):
        def join(folder, of):
            groups = shards.parts((document.id for document in request.corpus), 4)
            task = shards.ShardTask(of, Lengths(), None, crashed if (TOLD / "survives").exists() else None)
            files = shards.mapped(task, groups, "measuring documents")
            (folder / "lengths").write_bytes(b"".join(file.read_bytes() for file in files))
            return files

        folder = shards.joined("lengths", {"corpus": request.corpus.identity()}, join)
        (TOLD / "lengths").write_bytes((folder / "lengths").read_bytes())
        return super().__call__(request)
"""


def noted(place: Place, depths: int = 4, **system: object) -> Place:
    """A place with an experiment `noted` of so many cells of the noting system; `system`: more keys of it."""
    conf = {"title": "N", "_target_": "noted.Noted", "name": "noted", "depth": 10, **system}
    overrides = {f"d{n}": {"overrides": [*MINI, "system=noted", f"system.depth={n}"]} for n in range(1, depths + 1)}
    cells = {"title": "Noted", "conditions": overrides, "measures": ["nDCG"]}
    place.lay({"noted.py": SYSTEM, "../told/none": "", "conf/system/noted.yaml": yaml.safe_dump(conf)})
    place.write("conf/experiment/noted.yaml", yaml.safe_dump(cells, sort_keys=False))
    return place


def calls(here: Path) -> list[list[str]]:
    """Depth, process and threads of each call of the noting system."""
    path = here.parent / "told" / "calls"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def runs_in(here: Path) -> dict[str, bytes]:
    """The run files below a folder, and nothing else: no logs, no remains."""
    paths = [path for path in sorted((here / "runs").rglob("*")) if path.is_file() and path.suffix != ".yml"]
    found = {str(path.relative_to(here)): path.read_bytes() for path in paths}
    assert all(name.endswith(".run") for name in found), sorted(found)
    return found


def report_in(here: Path, name: str) -> dict[str, Any]:
    """The report of an experiment without the time at which it was written."""
    return dict(json.loads((here / "reports" / "experiments" / name / "report.json").read_text()))


def mapped_with_a_kill(place: Place, *words: str) -> str:
    """Makes a long map by a launcher (`words`) of which one worker is killed; what the command said.

    The bytes are those of one process, and the killed worker costs its shard.
    """
    place.lay({"mapped.py": MAPPED, "../told/none": ""})
    place.write("conf/system/mapped.yaml", "title: M\n_target_: mapped.Mapped\nname: mapped\ndepth: 10\n")
    command = ("run", *MINI, "system=mapped", "formats=[json]")
    place.good(*command)
    alone, told = runs_in(place.here), place.here / "../told"
    lengths, shards = (told / "lengths").read_bytes(), [first for first, *_ in calls(place.here)]
    assert len(shards) > 6
    shutil.rmtree(place.cache / "store")
    (told / "calls").unlink()
    for name in ("kill", "once"):
        place.write(f"../told/{name}", shards[3])
    done = place.run(*command, *words, "reuse=false")
    assert done.code == 0, done.err
    assert (told / "lengths").read_bytes() == lengths
    assert runs_in(place.here) == alone
    again = Counter(first for first, *_ in calls(place.here))
    assert again.keys() == {*shards} and again[shards[3]] == 2
    assert again.total() <= len(shards) + 1 + ("hydra/launcher=joblib" in words)  # joblib ends both of its processes
    return done.err


class Engine:
    """A launcher's words, and the variables that its clients need."""

    def __init__(self, name: str, *words: str, **environment: str) -> None:
        self.name, self.words, self.environment = name, (f"hydra/launcher={name}", *words), environment

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


@pytest.fixture
def slurm_engine(cluster: slurm.Cluster) -> Engine:
    return Engine("submitit_slurm", "hydra.launcher.mem_gb=1", **cluster.environment)


@pytest.fixture(scope="module")
def ray_nodes() -> Iterator[Any]:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("ray is not installed: pip install 'mathir-harness[ray]'")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", CODE)  # of this tree, for the processes of the nodes
        made: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        made.add_node(num_cpus=1)
        yield made
        made.shutdown()


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
        made: Engine = request.getfixturevalue("slurm_engine")
        return made
    if not slurm.missing() and "equal" not in request.node.name:
        pytest.skip("shares its code with submitit_slurm")
    return Engine("submitit_local")


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The experiment, run in one process."""
    place = Place(tmp_path_factory.mktemp("calm"))
    place.good("run", "experiment=mini", "formats=[json]")
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
    place = noted(engine.place(tmp_path))
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
    place = noted(engine.place(tmp_path), 5)
    for depth in (2, 3, 4):
        place.write(f"../told/do-{depth}", "wait")
    process = place.start(*NOTED, *engine.words)
    until(lambda: place.runs() and len(calls(place.here)) >= 3)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said.splitlines()[-1]) == (130, "harness: stopped; what was written is whole")
    assert "Traceback" not in said
    until(lambda: engine.name == "ray" or not any(alive(int(pid)) for _, pid, _ in calls(place.here)[1:]))
    time.sleep(1)
    assert "5" not in [depth for depth, *_ in calls(place.here)]
    for depth in (2, 3, 4):
        (place.here / f"../told/do-{depth}").unlink()
    place.good(*NOTED, *engine.words)
    assert [depth for depth, *_ in calls(place.here)].count("1") == 1
    assert len(runs_in(place.here)) == 5


def test_a_sweep_and_its_resources(engine: Engine, tmp_path: Path) -> None:
    place = noted(engine.place(tmp_path))
    words = ("run", "-m", *MINI, "system=noted", "system.depth=2,3", "system.resources.cpus=1", "formats=[json]")
    assert "2 configurations of noted on mini-task1: best nDCG" in place.good(*words, *engine.words)
    assert {Path(name).name for name in runs_in(place.here)} == {"noted-depth=2.run", "noted-depth=3.run"}


@pytest.mark.heavy
def test_a_lost_node_of_slurm(cluster: slurm.Cluster, slurm_engine: Engine, tmp_path: Path) -> None:
    """SLURM puts its job back into the queue; the run is made on the other node."""
    engine = slurm_engine
    place = noted(engine.place(tmp_path))
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


def test_resources_reach_the_engine(slurm_engine: Engine, tmp_path: Path) -> None:
    """A run that asks for a GPU is queued by SLURM until there is one; nothing here has any."""
    place = noted(slurm_engine.place(tmp_path), 1, resources={"gpus": 1})
    done = place.run(*NOTED, *slurm_engine.words)
    assert done.code == 2
    assert "hydra/launcher=submitit_slurm: no run was started" in done.err
    assert not calls(place.here)


# ---- joblib alone ----------------------------------------------------------------------------------------------------

joblib = pytest.mark.skipif(
    importlib.util.find_spec("hydra_plugins.hydra_joblib_launcher") is None,
    reason="hydra-joblib-launcher is not installed: pip install 'mathir-harness[joblib]'",
)
JOBLIB = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2")


@joblib
@pytest.mark.heavy
def test_a_run_that_needs_what_another_one_is_making(place: Place) -> None:
    """It ends at once, and is made in the next wave; what they share is made once, and `reuse=false` makes all anew."""
    noted(place)
    place.write("../told/do", "share")
    place.good(*NOTED, *JOBLIB)
    assert len(runs_in(place.here)) == 4
    assert (place.here / "../told/built").read_text() == "once\n"
    assert sorted(Counter(depth for depth, *_ in calls(place.here)).values()) == [1, 2, 2, 2]
    (place.here / "../told/do").unlink()
    place.good(*NOTED, *JOBLIB, "reuse=false")
    assert len(calls(place.here)) == 7 + 4


@joblib
def test_a_killed_driver_resumes(place: Place) -> None:
    noted(place)
    place.write("../told/do-3", "wait")
    process = place.start(*NOTED, *JOBLIB)
    wait_for(place.here / "../told/calls", 4)
    until(lambda: len(place.runs()) == 3)
    process.send_signal(signal.SIGKILL)
    process.wait()
    workers = {int(pid) for _, pid, _ in calls(place.here)}
    (place.here / "../told/do-3").unlink()
    until(lambda: not any(map(alive, workers)))  # they end after the run that they were making
    process.communicate()
    place.good(*NOTED, *JOBLIB)
    assert len(runs_in(place.here)) == 4  # and nothing of the killed driver
    assert sorted(depth for depth, *_ in calls(place.here)) == ["1", "2", "3", "4"]


@joblib
def test_wrong_launchers(place: Place) -> None:
    noted(place, 1, resources={"cpu": 2})
    done = place.run("run", *MINI, "system=bm25", "hydra/launcher=joblib")
    assert done.err.endswith("hydra/launcher=joblib: not used; no long part of this run was missing\n")
    said = "reproduce: hydra/launcher=joblib is for the command run, and for make=true"
    assert place.refused("reproduce", "hydra/launcher=joblib") == [said]
    assert "resources: key 'cpu' is unknown; did you mean 'cpus'?" in place.run(*NOTED, *JOBLIB).err
    assert "n_job" in place.refused(*NOTED, "hydra/launcher=joblib", "hydra.launcher.n_job=2")[0]


# ---- a launcher of another package: a class below `hydra_plugins` and a configuration ----

LAUNCHER = '''
import os
from pathlib import Path
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from harness.experiments.engines.shared import JobEngine, run_one


class Forks(JobEngine, Launcher):
    """A child for each job, one after the other."""

    one_kills_all = True

    def setup(self, *, hydra_context, task_function, config):
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def launch(self, job_overrides, initial_job_idx):
        found = []
        for at, (words, need) in enumerate(zip(job_overrides, self.needed(job_overrides))):
            if (child := os.fork()) == 0:
                try:
                    run_one(self.hydra_context, self.config, self.task_function, words, at, Singleton.get_state())
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
            with Path("asked").open("a") as file:
                file.write(f"{len(job_overrides)} {need.cpus} {self.task_function.local}\\n")
            found.append(JobReturn(status=JobStatus.COMPLETED))
        return found
'''


def test_a_launcher_from_outside(place: Place) -> None:
    noted(place, 2, resources={"cpus": 3})
    place.write("hydra_plugins/forks_of_theirs.py", LAUNCHER)
    place.write("conf/hydra/launcher/theirs.yaml", "_target_: hydra_plugins.forks_of_theirs.Forks\n")
    outside = {"PYTHONPATH": f"{CODE}:{place.here}"}
    done = place.run("run", "experiment=noted", "formats=[json]", "hydra/launcher=theirs", environment=outside)
    assert done.code == 0, done.err
    assert done.err.count(": made by hydra/launcher=theirs") == 2
    assert (place.here / "asked").read_text().split("\n") == ["2 3 True", "2 3 True", ""]
    assert "theirs" in place.good("run", "--hydra-help", environment=outside)
