"""Processes of one machine, by joblib."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

from hydra.core.utils import JobReturn
from hydra_plugins.hydra_joblib_launcher.joblib_launcher import JoblibLauncher

from harness.experiments.engines.shared import JobEngine, at_once, jobs_by_resources
from harness.io import interrupt
from harness.systems.hardware import cores

# Read when the libraries are loaded, so they are set before the processes start.
_THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


class Joblib(JobEngine, JoblibLauncher):  # type: ignore[misc]
    """Hydra's launcher of joblib processes, as many as the cores and the resources of the jobs allow.

    Jobs of equal resources run side by side. A process has as many threads as there are cores for it. Jobs that need a
    GPU run one at a time, because nothing would tell two processes to take different GPUs.
    """

    one_kills_all: ClassVar[bool] = True
    joblib: dict[str, Any]  # arguments of `joblib.Parallel`

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Runs the jobs; returns their results in order."""
        given, results = self.joblib, dict[int, JobReturn]()
        for need, places in jobs_by_resources(self.needed(job_overrides)):
            count = at_once(need, int(given.get("n_jobs") or -1))
            # One process is a process, too: joblib would run a single job within this one.
            settings = {"n_jobs": count} if count > 1 else {"n_jobs": 2, "pre_dispatch": 1}
            self.joblib = {**given, **settings}
            with _environment(max(cores() // count, 1)):
                words = [job_overrides[at] for at in places]
                made = interrupt.call_withheld(partial(super().launch, words, initial_job_idx))
            results.update(zip(places, made, strict=True))
        self.joblib = given
        return [results[at] for at in range(len(job_overrides))]


@contextmanager
def _environment(count: int) -> Iterator[None]:
    """Sets the threads of libraries in the processes that are started meanwhile; what the user has set stays."""
    # The process with which joblib tracks its resources would tell on a terminal what an interrupt left.
    ours = {"PYTHONWARNINGS": "ignore:resource_tracker:UserWarning", **dict.fromkeys(_THREADS, str(count))}
    ours = {name: value for name, value in ours.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)
