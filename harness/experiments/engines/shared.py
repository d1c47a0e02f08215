"""What the launchers share: the resources of each job, and the work of one job in its process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from hydra.core.hydra_config import HydraConfig
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus, run_job, setup_globals
from omegaconf import OmegaConf, open_dict

from harness.experiments.overrides import override_key
from harness.io.memory import available
from harness.systems import states
from harness.systems.hardware import cores
from harness.systems.resources import RESOURCES, Resources, declared

if TYPE_CHECKING:
    from hydra.types import HydraContext, TaskFunction
    from omegaconf import DictConfig


class JobEngine:
    """A launcher that asks for resources job by job.

    Attributes
    ----------
    asked : resources of the jobs of the next call of `launch`; None: as the systems of a sweep's points declare.
    one_kills_all : whether its processes are children of the driver that all end when one of them dies.
    """

    one_kills_all: ClassVar[bool] = False
    asked: Sequence[Resources] | None = None
    config: DictConfig | None
    hydra_context: HydraContext | None

    def needed(self, job_overrides: Sequence[Sequence[str]]) -> list[Resources]:
        """Returns the resources of each job."""
        if self.asked is not None:
            return list(self.asked)
        known: dict[tuple[str, ...], Resources] = {}
        resources = []
        for words in job_overrides:
            decide = tuple(word for word in words if override_key(word) == "system" or f"system.{RESOURCES}" in word)
            if decide not in known:
                known[decide] = self._of_point(decide)
            resources.append(known[decide])
        return resources

    def _of_point(self, words: Sequence[str]) -> Resources:
        assert self.config is not None and self.hydra_context is not None  # noqa: S101  (Hydra has called `setup`)
        composed = self.hydra_context.config_loader.load_sweep_config(self.config, list(words))
        if not composed.get("system"):
            return Resources()
        system = cast("dict[str, Any]", OmegaConf.to_container(composed.system))
        return declared(states.nested_configurations(system), "run: system")


def jobs_by_resources(needed: Sequence[Resources]) -> Iterator[tuple[Resources, list[int]]]:
    """Yields resources, and the positions of the jobs that need just these."""
    positions: dict[Resources, list[int]] = {}
    for at, need in enumerate(needed):
        positions.setdefault(need, []).append(at)
    yield from positions.items()


def at_once(need: Resources, slots: int) -> int:
    """Returns how many jobs with these resources run side by side.

    Parameters
    ----------
    slots : `n_jobs` of joblib: the number of jobs of one core each; -1 for all cores, -2 for all but one.

    Examples
    --------
    >>> at_once(Resources(cpus=2), 8), at_once(Resources(), 3), at_once(Resources(gpus=1), 8)
    (4, 3, 1)
    """
    slots = slots if slots > 0 else max(cores() + 1 + slots, 1)
    if need.gpus:
        return 1
    count = slots // (need.cpus or 1)
    if need.memory:
        count = min(count, int(available() // (need.memory * 10**9)))
    return max(count, 1)


def run_one(
    context: HydraContext,
    config: DictConfig,
    task: TaskFunction,
    overrides: Sequence[str],
    number: int,
    state: Mapping[Any, Any],
) -> JobReturn:
    """Composes and runs one job in its own process, as Hydra's launchers do."""
    Singleton.set_state(dict(state))
    setup_globals()
    composed = context.config_loader.load_sweep_config(config, list(overrides))
    with open_dict(composed):
        composed.hydra.job.id = composed.hydra.job.name
        composed.hydra.job.num = number
    HydraConfig.instance().set_config(composed)
    return run_job(
        hydra_context=context,
        config=composed,
        task_function=task,
        job_dir_key="hydra.sweep.dir",
        job_subdir_key="hydra.sweep.subdir",
    )


def failed(error: BaseException) -> JobReturn:
    """Returns the result of a job that its engine lost."""
    result = JobReturn()
    result.return_value = error
    result.status = JobStatus.FAILED
    return result
