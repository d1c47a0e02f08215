"""Launchers of Hydra that give each run the resources that its system declares, and survive lost workers.

Its sweeper of Optuna is made to maximise, by a seed.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from harness.errors import HarnessError, suggestion
from harness.io.modules import installed

if TYPE_CHECKING:
    from hydra.plugins.sweeper import Sweeper

BASIC = "basic"  # Hydra's own launcher: one run after the other, in this process
_PLUGINS = "hydra_plugins.mathir_harness"  # Hydra instantiates no launcher whose name begins otherwise


@dataclass(frozen=True)
class _Launcher:
    """The class of a launcher, the modules that it needs, and the extra of this package that installs them."""

    module: str
    name: str
    needs: tuple[str, ...]
    extra: str

    def missing(self) -> str:
        """Returns the first module that is not installed; empty if all are."""
        for module in self.needs:
            if not installed(module):
                return module.removeprefix("hydra_plugins.")
        return ""


OPTUNA = "optuna"
_OPTUNA_PLUGIN = "hydra_plugins.hydra_optuna_sweeper"
_SLURM = ("hydra_plugins.hydra_submitit_launcher", "submitit")
ENGINES: Mapping[str, _Launcher] = {
    "joblib": _Launcher("processes", "Joblib", ("hydra_plugins.hydra_joblib_launcher", "joblib"), "joblib"),
    "submitit_local": _Launcher("jobs", "Local", _SLURM, "slurm"),
    "submitit_slurm": _Launcher("jobs", "Slurm", _SLURM, "slurm"),
    "ray": _Launcher("tasks", "Ray", ("ray",), "ray"),
}


def check_launcher(name: str, others: Mapping[str, object]) -> None:
    """Raises HarnessError if there is no such launcher, or if what it needs is not installed.

    Parameters
    ----------
    others : names of launchers that the user or a plugin of Hydra brings.
    """
    known = (BASIC, *ENGINES, *others)
    if name not in known:
        raise HarnessError(f"hydra/launcher={name}: no such launcher; {suggestion(name, known)}")
    if name in ENGINES and (lacking := ENGINES[name].missing()):
        right = f"pip install 'mathir-harness[{ENGINES[name].extra}]'"
        raise HarnessError(f"hydra/launcher={name}: {lacking} is not installed: {right}")


def check_sweeper(name: str, others: Mapping[str, object]) -> None:
    """Raises HarnessError for a sweeper that is not supported or not installed; `others` are the user's own."""
    if name not in ("basic", OPTUNA, *others):
        known = suggestion(name, ("basic", OPTUNA, *others))
        raise HarnessError(f"hydra/sweeper={name}: not supported, since it may minimise the measure; {known}")
    if name == OPTUNA and not installed(_OPTUNA_PLUGIN):
        raise HarnessError("hydra/sweeper=optuna: is not installed: pip install 'mathir-harness[optuna]'")


def register() -> None:
    """Makes the launchers that are installed known to Hydra, in place of those that plugins register by these names.

    Hydra would merge the plugin's configuration of the same name into ours, with a warning.
    """
    from hydra.core.config_store import ConfigStore
    from hydra.core.plugins import Plugins

    classes = Plugins.instance().class_name_to_class
    stored = ConfigStore.instance().repo.get("hydra", {}).get("launcher", {})
    for name, engine in ENGINES.items():
        stored.pop(f"{name}.yaml", None)
        if not engine.missing():
            module = importlib.import_module(f"{__name__}.{engine.module}")
            classes[f"{_PLUGINS}.{engine.name}"] = getattr(module, engine.name)
    if installed(_OPTUNA_PLUGIN):
        classes[f"{_PLUGINS}.Optuna"] = cast("Any", _optuna)
        sweepers = ConfigStore.instance().repo["hydra"]["sweeper"]
        defaults = {"_target_": f"{_PLUGINS}.Optuna", "direction": "maximize", "max_failure_rate": 1.0}
        sweepers[f"{OPTUNA}.yaml"].node.merge_with(defaults)
        for sampler in sweepers["sampler"].values():
            if "seed" in sampler.node:
                sampler.node.seed = "${seed}"


def _optuna(**given: object) -> Sweeper:
    """Makes the sweeper of Optuna, which is imported only if it is chosen."""
    from harness.experiments.engines.search import Optuna

    return Optuna(**cast("dict[str, Any]", given))
