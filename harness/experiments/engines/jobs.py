"""Jobs of submitit: of a SLURM cluster, or processes of this machine that are started anew for each job.

Hydra's launchers of the same names end at the first job that is lost and leave the others running, and start all local
processes at once. These collect every job, start as many as fit, and cancel all of them at an interrupt.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus
from hydra_plugins.hydra_submitit_launcher.submitit_launcher import LocalLauncher, SlurmLauncher

from harness.experiments.engines.shared import JobEngine, at_once, failed, jobs_by_resources
from harness.systems.hardware import cores
from harness.systems.resources import Resources

_COMMON = ("timeout_min", "cpus_per_task", "gpus_per_node", "mem_gb", "tasks_per_node", "nodes", "name")
_AT_START = ("submitit_folder", "max_num_timeout")  # the executor takes these when it is made
_LOOK = 5.0  # seconds between two looks at the queue
_MISSES = 3  # looks at which a job may be missing before it counts as ended
_PATIENCE = 15.0  # seconds that the result of an ended job may take to be seen in a shared folder
_OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "GONE")


class LostJobError(Exception):
    """A job ended without a result."""


class _Submitit(JobEngine):
    """Hands jobs to submitit and collects all of their results."""

    _EXECUTOR: ClassVar[str]
    params: dict[str, Any]

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Runs the jobs; returns their results in order. A lost job is one that failed."""
        results: dict[int, JobReturn] = {}
        running: dict[int, Any] = {}
        needed = self.needed(job_overrides)
        arguments = [
            (list(words), "hydra.sweep.dir", initial_job_idx + at, f"job_{initial_job_idx + at}", Singleton.get_state())
            for at, words in enumerate(job_overrides)
        ]
        waiting = list(range(len(arguments)))
        try:
            while waiting or running:
                for need, places in jobs_by_resources([needed[at] for at in waiting]):
                    fitting = self._fitting([waiting[place] for place in places], need, len(running))
                    if fitting:
                        jobs = self._submitted(need, [arguments[at] for at in fitting])
                        running.update(zip(fitting, jobs, strict=True))
                waiting = [at for at in waiting if at not in running and at not in results]
                ended = {at: why for at, job in running.items() if (why := self._ended(job)) is not None}
                for at, why in ended.items():
                    results[at] = self._result(running.pop(at), why)
                if not ended:
                    time.sleep(0.1 if self._EXECUTOR == "local" else 0.5)
        finally:
            if running:
                self._cancel(list(running.values()))
        if all(job.status == JobStatus.COMPLETED for job in results.values()):
            shutil.rmtree(Path(str(self.params["submitit_folder"]).partition("%")[0]), ignore_errors=True)
        return [results[at] for at in range(len(arguments))]

    def _executor(self, need: Resources) -> Any:  # noqa: ANN401  (submitit is imported where it is used)
        import submitit

        asked = {
            "cpus_per_task": need.cpus,
            "gpus_per_node": need.gpus,
            "mem_gb": need.memory,
            "timeout_min": need.time,
        }
        given = {**self.params, **{key: value for key, value in asked.items() if value is not None}}
        made = {f"{self._EXECUTOR}_max_num_timeout": given["max_num_timeout"]} if "max_num_timeout" in given else {}
        executor = submitit.AutoExecutor(folder=given["submitit_folder"], cluster=self._EXECUTOR, **made)
        settings = {
            key if key in (*_COMMON, "stderr_to_stdout") else f"{self._EXECUTOR}_{key}": value
            for key, value in given.items()
            if key not in _AT_START and value is not None and not (key == "gpus_per_node" and not value)
        }
        executor.update_parameters(**settings)
        return executor

    def _submitted(self, need: Resources, arguments: Sequence[tuple[Any, ...]]) -> Sequence[Any]:
        """Hands jobs of equal resources to submitit."""
        jobs: Sequence[Any] = self._executor(need).map_array(self, *zip(*arguments, strict=True))
        return jobs

    def _fitting(self, places: list[int], need: Resources, running: int) -> list[int]:
        """Returns those of the waiting jobs that may be started now."""
        raise NotImplementedError

    def _ended(self, job: Any) -> str | None:  # noqa: ANN401
        """Returns the state in which a job ended; None if it has not."""
        raise NotImplementedError

    def _cancel(self, jobs: Sequence[Any]) -> None:
        """Ends jobs, also those that wait."""
        raise NotImplementedError

    def _result(self, job: Any, state: str) -> JobReturn:  # noqa: ANN401
        patience = time.monotonic() + (_PATIENCE if self._EXECUTOR == "slurm" else 0.0)
        while not job.paths.result_pickle.exists():
            if time.monotonic() >= patience:
                return failed(LostJobError(f"job {job.job_id} ended without a result, state {state}"))
            time.sleep(0.5)
        try:
            returned = job.result()
        except Exception as error:
            return failed(error)
        return (
            returned if isinstance(returned, JobReturn) else failed(LostJobError(f"job {job.job_id} returned nothing"))
        )


class Local(_Submitit, LocalLauncher):  # type: ignore[misc]
    """Processes of this machine, as many as its cores allow."""

    _EXECUTOR = "local"

    def _fitting(self, places: list[int], need: Resources, running: int) -> list[int]:
        most = at_once(need.most(Resources(cpus=self.params.get("cpus_per_task"))), cores())
        return places[: max(most - running, 0)]

    def _ended(self, job: Any) -> str | None:  # noqa: ANN401
        return str(job.state) if job.done() else None

    def _submitted(self, need: Resources, arguments: Sequence[tuple[Any, ...]]) -> Sequence[Any]:
        # A terminal interrupts all processes of its group; those of submitit would print tracebacks.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super()._submitted(need, arguments)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _cancel(self, jobs: Sequence[Any]) -> None:
        for job in jobs:
            controller = job.job_id  # which has the process of the job as its child
            children = Path(f"/proc/{controller}/task/{controller}/children")
            for process in (controller, *(children.read_text().split() if children.exists() else ())):
                with suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGKILL)


class Slurm(_Submitit, SlurmLauncher):  # type: ignore[misc]
    """Jobs of a SLURM cluster: one array for all jobs of equal resources.

    Whether a job has ended is read from `squeue`, which needs no accounting database.
    """

    _EXECUTOR = "slurm"

    def __init__(self, **params: Any) -> None:  # noqa: ANN401
        super().__init__(**params)
        self._states: dict[str, str] = {}  # of jobs, at the last look
        self._missed: dict[str, int] = {}  # job -> the number of looks at which it was not in the queue
        self._looked = 0.0

    def _fitting(self, places: list[int], need: Resources, running: int) -> list[int]:
        return places  # SLURM has a queue

    def _ended(self, job: Any) -> str | None:  # noqa: ANN401
        if job.paths.result_pickle.exists():
            return "COMPLETED"
        self._missed.setdefault(job.job_id, 0)
        if time.monotonic() - self._looked > _LOOK:
            self._look()
        # Ended jobs leave the queue after some minutes, and new ones may not be seen at once.
        state = "GONE" if self._missed.get(job.job_id, 0) > _MISSES else self._states.get(job.job_id, "PENDING")
        return state if state in _OVER else None

    def _look(self) -> None:
        """Reads the states of this user's jobs."""
        self._looked = time.monotonic()
        command = ["squeue", "--me", "--noheader", "--array", "--states=all", "--format=%i %T"]
        with suppress(subprocess.SubprocessError, OSError):  # the controller may be away for a while
            listed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
            self._states = {line.split()[0]: line.split()[-1] for line in listed.splitlines() if line.strip()}
            self._missed = {job: 0 if job in self._states else n + 1 for job, n in self._missed.items()}

    def _cancel(self, jobs: Sequence[Any]) -> None:
        subprocess.run(["scancel", *(job.job_id for job in jobs)], check=False, capture_output=True)
