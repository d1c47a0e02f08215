"""Searches by Optuna: sweeps whose points depend on the means of earlier ones."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn
from hydra.types import HydraContext, TaskFunction
from hydra_plugins.hydra_optuna_sweeper.optuna_sweeper import OptunaSweeper
from omegaconf import DictConfig, OmegaConf

from harness.errors import HarnessError
from harness.experiments.overrides import override_key
from harness.experiments.sweep import RESULTS, natural
from harness.io.files import write_atomic

_DIRECTIONS = ("maximize", "minimize")
_SCORED_BY = ("collection", "corpus", "edition", "protocol", "tune", "rerank")  # values of two are not comparable


class Optuna(OptunaSweeper):
    """Hydra's sweeper of Optuna with studies that can be repeated.

    A study is in memory. Its points follow from the seed and the means of earlier points, so the same command goes
    through the same points again and takes the runs that are there, also after an interruption. A point that failed has
    no value in the study. The file `optimization_results.yaml` in the folder of the sweep lists all trials.
    """

    sweeper: Any

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Raises HarnessError for settings with which a study could not be repeated, or has no single best point."""
        self._direction = _checked(config.hydra.sweeper)
        # What fails is listed after the sweep.
        optuna.logging.set_verbosity(logging.ERROR)
        logging.getLogger("hydra_plugins.hydra_optuna_sweeper").setLevel(logging.CRITICAL)
        self._study = optuna.storages.InMemoryStorage()
        self.sweeper.direction, self.sweeper.storage = self._direction, self._study
        super().setup(hydra_context=hydra_context, task_function=task_function, config=config)
        launch = self.sweeper.launcher.launch

        def launch_with_failures(overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
            returned: Sequence[JobReturn] = launch(overrides, initial_job_idx=initial_job_idx)
            for job in returned:
                if math.isnan(job.return_value):  # raises what a launcher lost, as in other sweeps
                    job.return_value = None  # a NaN would stop the sweeper
            return returned

        self.sweeper.launcher.launch = launch_with_failures

    def sweep(self, arguments: list[str]) -> None:
        """Runs the trials; raises HarnessError if nothing varies, or if values of points would not be comparable."""
        words = [*(f"{key}={value}" for key, value in (self.sweeper.params or {}).items()), *arguments]
        words = list(
            {override_key(word): word for word in words}.values()
        )  # the last one of a key holds, as without Optuna
        self.sweeper.params = None
        parsed = OverridesParser.create().parse_overrides(words)
        varied = {override.key_or_group for override in parsed if override.is_sweep_override()}
        if not varied and not self.sweeper.search_space and not self.sweeper.custom_search_space_extender:
            raise HarnessError("hydra/sweeper=optuna: no key varies; add one such as 'system.b=interval(0,1)'")
        if topics := sorted(varied.intersection(_SCORED_BY)):
            why = (
                "values on other topics or judgments, or by another protocol, are not comparable; run a search for each"
            )
            raise HarnessError(f"hydra/sweeper=optuna: {topics[0]} varies: {why}")
        try:
            super().sweep(words)
        except ValueError:  # also raised if all trials failed, since none is the best
            states = [each.state for each in self._trials()]
            if states != [optuna.trial.TrialState.FAIL] * self.sweeper.n_trials:
                raise
        self._write_results(Path(self.sweeper.config.hydra.sweep.dir))

    def _trials(self) -> list[optuna.trial.FrozenTrial]:
        names = optuna.study.get_all_study_summaries(self._study)
        return [each for study in names for each in optuna.load_study(study.study_name, self._study).trials]

    def _write_results(self, folder: Path) -> None:
        """Writes the results: those of the plugin, with the direction and all trials in order."""
        trials: list[dict[str, Any]] = [
            {"params": {key.lstrip("+"): value for key, value in each.params.items()}, "value": each.value}
            for each in self._trials()
        ]
        # Of equal values the first is best in the order of a sweep's report.
        done = sorted((each for each in trials if each["value"] is not None), key=_order)
        choose = max if self._direction == "maximize" else min
        nothing = {"params": None, "value": None}
        best = choose(done, key=lambda each: float(each["value"])) if done else nothing
        results = {"name": "optuna", "best_params": best["params"], "best_value": best["value"]}
        results |= {"direction": self._direction, "sampler": type(self.sweeper.sampler).__name__, "trials": trials}
        write_atomic(folder / RESULTS, OmegaConf.to_yaml(results))


def _order(trial: Mapping[str, Any]) -> list[tuple[float, str]]:
    return [natural(str(value)) for _, value in sorted(trial["params"].items())]


def _checked(settings: DictConfig) -> str:
    """Checks the settings of the sweeper; returns the direction."""
    for key in ("n_trials", "n_jobs"):
        if settings[key] < 1:
            raise HarnessError(f"hydra.sweeper.{key}={settings[key]}: expected a whole number from 1")
    direction = settings.direction[0] if OmegaConf.is_list(settings.direction) else settings.direction
    if direction not in _DIRECTIONS or settings.direction not in (direction, [direction]):
        said = f"hydra.sweeper.direction={settings.direction}: expected {' or '.join(_DIRECTIONS)}"
        raise HarnessError(f"{said}, of the first measure of the protocol")
    if settings.storage is not None:
        raise HarnessError("hydra.sweeper.storage: a study is in memory, and the same command repeats it; leave it out")
    if settings.max_failure_rate != 1:
        raise HarnessError("hydra.sweeper.max_failure_rate: a search goes on after points that fail; leave it out")
    sampler = settings.sampler
    if "seed" not in sampler:
        name = str(sampler.get("_target_")).rpartition(".")[2]
        grid = "; for all combinations of values, leave hydra/sweeper=optuna out" if name == "GridSampler" else ""
        raise HarnessError(f"hydra/sweeper/sampler: {name} has no seed, so its points are other ones each time{grid}")
    if sampler.seed is None:
        raise HarnessError("hydra.sweeper.sampler.seed is null: expected a whole number; default: that of seed=")
    return str(direction)
