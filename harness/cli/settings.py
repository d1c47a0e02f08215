"""What a composed configuration says, checked; and where the points of a sweep are kept."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import HarnessError

if TYPE_CHECKING:
    from omegaconf import DictConfig

SWITCHES = ("rerank", "reuse", "allow_test_judgments")


def import_from_here() -> None:
    """Let `_target_` name modules of the current folder, as `python -m` has it; also in the processes of a launcher.

    Called when all that a run always needs is imported, so that nothing in that folder stands in its place.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def checked_settings(cfg: DictConfig, command: str) -> dict[str, Any]:
    """The configuration as plain values, checked before any work is done."""
    from omegaconf import OmegaConf

    from harness.render.write import FORMATS

    value = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(value, dict)  # noqa: S101
    settings = {str(key): item for key, item in value.items()}
    formats = settings["formats"]
    alpha = settings["alpha"]
    for key, right, expected in (
        ("alpha", type(alpha) is float and 0 < alpha < 1, "a number between 0 and 1"),
        ("seed", type(settings["seed"]) is int, "a whole number"),
        *((key, type(settings[key]) is bool, "true or false") for key in SWITCHES if key in settings),
        ("output", isinstance(settings["output"], str) and settings["output"], "a folder's name"),
        ("runs", isinstance(settings["runs"], str) and settings["runs"], "a folder's name"),
        (
            "formats",
            isinstance(formats, list) and formats and all(name in FORMATS for name in formats),
            f"a list of {', '.join(FORMATS)}",
        ),
    ):
        if not right:
            raise HarnessError(f"{command}: key {key!r} is {settings[key]!r}, expected {expected}")
    return settings


def swept() -> dict[str, str]:
    """The overrides of this point of a sweep; empty outside of one."""
    from hydra.core.hydra_config import HydraConfig

    config_ = HydraConfig.get()
    if config_.mode is None or config_.mode.name != "MULTIRUN":
        return {}
    pairs = (override.partition("=") for override in config_.overrides.task)
    return {name.lstrip("+"): value for name, _, value in pairs if name != "sweep"}


def fixed() -> frozenset[str]:
    """The keys that do not vary in this sweep, among those that its command line gives."""
    from hydra.core.hydra_config import HydraConfig

    return frozenset(HydraConfig.get().job.config.override_dirname.exclude_keys)


def unvaried(cfg: DictConfig) -> object:
    """The configuration of this point of a sweep without the system's parameters that vary.

    Interpolations are left as they stand, since their values may vary with those.
    """
    from omegaconf import OmegaConf

    rest = copy.deepcopy(cfg)
    for name in swept().keys() - fixed():
        if name.startswith("system."):
            OmegaConf.update(rest, name, None)
    return OmegaConf.to_container(rest)


def sweep_folder() -> Path:
    """Where the points of this sweep are kept: a folder of its own for every command line."""
    from hydra.core.hydra_config import HydraConfig

    sweep = HydraConfig.get().sweep
    return Path(sweep.dir) / sweep.subdir
