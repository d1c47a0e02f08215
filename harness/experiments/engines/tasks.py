"""Tasks of a Ray cluster, by Ray's public functions.

The launcher of Hydra (`hydra-ray-launcher`) asks for the same resources for all jobs, gives up at the first lost
worker, cancels nothing at an interrupt, and needs Ray's dashboard and the client of Amazon's cloud.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher

from harness.experiments.engines.shared import JobEngine, failed, run_one
from harness.systems.resources import Resources

if TYPE_CHECKING:
    from hydra.types import HydraContext, TaskFunction
    from omegaconf import DictConfig

_OURS = ("HARNESS_", "PYTHONPATH", "HF_", "OPENBLAS_NUM_THREADS")  # variables of the driver that the jobs get


class Ray(JobEngine, Launcher):
    """Runs jobs as tasks of a Ray cluster; without an address, of this machine.

    Parameters
    ----------
    address : as in `ray.init`; None starts Ray on this machine.
    num_cpus, num_gpus, memory : of a job whose system declares none; memory in gigabytes.
    max_retries : how often Ray itself runs a job again whose machine was lost.
    init : further arguments of `ray.init`.
    """

    def __init__(
        self,
        address: str | None = None,
        num_cpus: float = 1,
        num_gpus: float = 0,
        memory: float | None = None,
        max_retries: int = 0,
        init: Mapping[str, Any] | None = None,
    ) -> None:
        self.address, self.max_retries, self.init = address, max_retries, dict(init or {})
        self.defaults = {"cpus": num_cpus, "gpus": num_gpus, "memory": memory}  # Ray takes a part of a GPU, too

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Takes what Hydra gives every launcher."""
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Runs the jobs; returns their results in order. A lost job is one that failed."""
        import ray
        from ray.exceptions import RayError

        if not ray.is_initialized():
            # The jobs write logs of their own.
            quiet = {"log_to_driver": False, "logging_level": "ERROR", "include_dashboard": False}
            local = quiet if self.address is None else {"log_to_driver": False, "logging_level": "ERROR"}
            ray.init(**{"address": self.address or "local", **local, **self.init})
        state, here = Singleton.get_state(), str(Path.cwd())
        settings = {name: value for name, value in os.environ.items() if name.startswith(_OURS)}
        run = ray.remote(_on_node)
        shared = ray.put((self.hydra_context, self.config, self.task_function, state))
        waiting: dict[Any, int] = {}
        results: dict[int, JobReturn] = {}
        try:
            for at, (words, need) in enumerate(zip(job_overrides, self.needed(job_overrides), strict=True)):
                task = run.options(max_retries=self.max_retries, **self._ray_options(need))
                waiting[task.remote(shared, list(words), initial_job_idx + at, here, settings)] = at
            while waiting:
                for done in ray.wait(list(waiting), timeout=1.0)[0]:
                    at = waiting.pop(done)
                    try:
                        results[at] = ray.get(done)
                    except RayError as error:
                        results[at] = failed(error)
        finally:
            for task in waiting:
                ray.cancel(task, force=True)
        return [results[at] for at in range(len(job_overrides))]

    def _ray_options(self, need: Resources) -> dict[str, Any]:
        declared = {name: getattr(need, name) for name in self.defaults}
        cpus, gpus, memory = (self.defaults[name] if n is None else n for name, n in declared.items())
        options = {"num_cpus": cpus, "num_gpus": gpus}
        return options if memory is None else options | {"memory": int(memory * 1e9)}


def _on_node(
    shared: tuple[Any, ...], words: Sequence[str], number: int, here: str, settings: Mapping[str, str]
) -> JobReturn:
    """Runs one job on a machine of the cluster, in the folder of the driver."""
    os.environ.update(settings)
    os.chdir(here)
    sys.path[:] = [*(path for path in settings.get("PYTHONPATH", "").split(os.pathsep) if path), *sys.path]
    context, config, task, state = shared
    return run_one(context, config, task, words, number, state)
