"""Checked settings of a composed configuration, and the folder of a sweep's points."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from harness.errors import HarnessError
from harness.io.checks import Words, check_whole_number, typed

if TYPE_CHECKING:
    from omegaconf import DictConfig

S = TypeVar("S")
NOT_GIVEN = "default of "  # before a key among those that do not vary: nobody gave it


def _alpha(key: str, value: object) -> float:
    if not isinstance(value, float) or not 0 < value < 1:
        raise HarnessError(f"key {key!r} is {value!r}, expected a number between 0 and 1")
    return value


def _folder(key: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise HarnessError(f"key {key!r} is {value!r}, expected a folder's name")
    return value


def _checked_formats(key: str, value: object) -> tuple[str, ...]:
    from harness.render.write import FORMATS, check_pdf

    if not isinstance(value, list | tuple) or not value or not all(name in FORMATS for name in value):
        raise HarnessError(f"key {key!r} is {value!r}, expected a list of {', '.join(FORMATS)}")
    check_pdf(value, f"key {key!r}")
    return tuple(value)


def _checked_list(key: str, value: object, *, of: str, kinds: tuple[type, ...] = (str,)) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not value or not all(isinstance(name, kinds) for name in value):
        raise HarnessError(f"key {key!r} is {value!r}, expected a list of {of}")
    return tuple(map(str, value))


def _scale(key: str, value: object) -> str:
    if value != "here":
        raise HarnessError(f"key {key!r} is {value!r}, expected here, or nothing for the paper's own resources")
    return "here"


def _budget(key: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
        raise HarnessError(f"key {key!r} is {value!r}, expected dollars, such as 20")
    return float(value)


_TABLES = "tables, such as [2]; put a number with a point in quotes, such as ['4.10']"
_Tables = Annotated[tuple[str, ...], partial(_checked_list, of=_TABLES, kinds=(str, int))]
_Collections = Annotated[tuple[str, ...], partial(_checked_list, of="collections, such as [mini-task1]")]


@dataclass(frozen=True, kw_only=True)
class _Settings:
    formats: Annotated[tuple[str, ...], _checked_formats]
    output: Annotated[str, _folder] = "reports"
    runs: Annotated[str, _folder] = "runs"
    alpha: Annotated[float, _alpha] = 0.05
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class ReproduceSettings(_Settings):
    """Settings of the command `reproduce`: the keys of `conf/reproduce.yaml`."""

    paper: Mapping[str, object]
    brought: Annotated[str, _folder] | None = None
    reference: bool = False
    rerun: bool = False
    make: bool = False
    dry: bool = False
    json: bool = False
    tables: _Tables | None = None
    rows: Words | None = None
    collections: _Collections | None = None
    scale: Annotated[str, _scale] | None = None
    seeds: Annotated[int, partial(check_whole_number, low=1)] | None = None
    budget: Annotated[float, _budget] | None = None


@dataclass(frozen=True, kw_only=True)
class RunSettings(_Settings):
    """Settings of the command `run`: the keys of `conf/run.yaml`, and the whole configuration of each group.

    Attributes
    ----------
    training, tune : names of collections, each with `/EDITION` or without.
    experiment, only : what is run in place of one configuration, and the labels that it is restricted to.
    scale : of the experiment; `dry` only says what it would run.
    jobs : number of jobs at most into which a launcher divides the long maps of one run.
    """

    collection: Mapping[str, object] | None = None
    corpus: Mapping[str, object] | None = None
    system: Mapping[str, object] | None = None
    protocol: Mapping[str, object] | None = None
    edition: Words | None = None
    rerank: bool = False
    training: _Collections | None = None
    allow_test_judgments: bool = False
    tune: _Collections | None = None
    reuse: bool = True
    experiment: Mapping[str, object] | None = None
    only: Mapping[str, tuple[Words, ...]] | None = None
    scale: Words | None = None
    dry: bool = False
    jobs: Annotated[int, partial(check_whole_number, low=1)] = 64


def import_from_here() -> None:
    """Lets `_target_` name modules of the current folder, as `python -m` does; also in the processes of a launcher.

    Called when all that a run always needs is imported, so that nothing in that folder is in its place.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def checked(cls: type[S], cfg: DictConfig | dict[str, Any], command: str) -> S:
    """Returns the checked settings of a configuration."""
    if isinstance(cfg, dict):
        return typed(cls, cfg, command)
    from omegaconf import OmegaConf

    return typed(cls, cast("dict[str, Any]", OmegaConf.to_container(cfg, resolve=True)), command)


def sweep_overrides() -> dict[str, str]:
    """Returns the overrides of this point of a sweep; empty outside of one."""
    if "hydra" not in sys.modules:
        return {}
    from hydra.core.hydra_config import HydraConfig

    if not HydraConfig.initialized():
        return {}
    config_ = HydraConfig.get()
    if config_.mode is None or config_.mode.name != "MULTIRUN":
        return {}
    pairs = (override.partition("=") for override in config_.overrides.task)
    given = {name.lstrip("+"): value for name, _, value in pairs if name != "sweep"}
    known = fixed()
    return {name: value for name, value in given.items() if f"{NOT_GIVEN}{name}" not in known}


def fixed() -> frozenset[str]:
    """Returns the keys of the command line that do not vary in this sweep."""
    from hydra.core.hydra_config import HydraConfig

    return frozenset(HydraConfig.get().job.config.override_dirname.exclude_keys)


def unvaried(cfg: DictConfig) -> dict[str, object]:
    """Returns the configuration of this point of a sweep without the system's parameters that vary.

    Interpolations are left as they stand, since their values may vary with those.
    """
    from omegaconf import OmegaConf

    rest = copy.deepcopy(cfg)
    for name in sweep_overrides().keys() - fixed():
        if name.startswith("system."):
            OmegaConf.update(rest, name, None)
    return {str(name): value for name, value in cast("dict[Any, object]", OmegaConf.to_container(rest)).items()}


def sweep_folder() -> Path:
    """Returns the folder of this sweep's points; every command line has its own."""
    from hydra.core.hydra_config import HydraConfig

    sweep = HydraConfig.get().sweep
    return Path(sweep.dir) / sweep.subdir
