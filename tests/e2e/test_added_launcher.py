"""A launcher of another package: a class below `hydra_plugins`, which says what it needs, and a configuration."""

from __future__ import annotations

import pytest
from launch_tools import experiment
from tools import CODE, Place

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


@pytest.mark.slow
def test_a_launcher_from_outside(place: Place) -> None:
    for name, text in experiment(2, resources={"cpus": 3}).items():
        place.write(name, text)
    place.write("hydra_plugins/forks_of_theirs.py", LAUNCHER)
    place.write("conf/hydra/launcher/theirs.yaml", "_target_: hydra_plugins.forks_of_theirs.Forks\n")
    outside = {"PYTHONPATH": f"{CODE}:{place.here}"}
    done = place.run("run", "experiment=noted", "formats=[json]", "hydra/launcher=theirs", environment=outside)
    assert done.code == 0, done.err
    assert done.err.count(": made by hydra/launcher=theirs") == 2
    assert (place.here / "asked").read_text().split("\n") == ["2 3 True", "2 3 True", ""]
    assert "theirs" in place.good("run", "--hydra-help", environment=outside)
