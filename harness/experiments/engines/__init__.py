"""Launchers of Hydra that give each run the resources that its system declares, and survive lost workers."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import HarnessError, suggestion
from harness.io.modules import installed

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


_SLURM = ("hydra_plugins.hydra_submitit_launcher", "submitit")
ENGINES: Mapping[str, _Launcher] = {
    "joblib": _Launcher("processes", "Joblib", ("hydra_plugins.hydra_joblib_launcher", "joblib"), "joblib"),
    "submitit_local": _Launcher("jobs", "Local", _SLURM, "slurm"),
    "submitit_slurm": _Launcher("jobs", "Slurm", _SLURM, "slurm"),
    "ray": _Launcher("tasks", "Ray", ("ray",), "ray"),
}


def check(name: str, others: Mapping[str, object]) -> None:
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
