"""Compositions of `conf/COMMAND.yaml` by Hydra, of files that `harness.io.config` reads and merges, each of them once.

Hydra's public interface has all but `Callbacks`, a class that its public `HydraContext` is made of. It is the only
private name of Hydra in this package.
"""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from hydra import compose, initialize_config_dir
from hydra._internal.callbacks import Callbacks
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness.io import config
from harness.io.files import read_bytes

_PACKAGE = re.compile(rb"(?:\s*#\s*@(?!package\b)[^\n]*\n|\s*\n)*\s*#\s*@package\s+(\S+)")


class ConfigurationFolder(ConfigSource):
    """A folder of configurations for Hydra, read by `harness.io.config`: merged with their bases, paths from here."""

    @staticmethod
    def scheme() -> str:
        """Returns the beginning of these folders' addresses."""
        return "harness"

    def load_config(self, config_path: str) -> ConfigResult:
        """Returns a configuration such as `system/bm25`."""
        path = self._file(config_path)
        if path is None:
            raise ConfigLoadError(f"Config not found : {config_path}")
        group, _, name = config_path.removesuffix(".yaml").rpartition("/")
        content = OmegaConf.create(config.composed(group, name, path))
        # Only sweeps and groups of Hydra set keys outside of their group.
        header = None if config.is_alone(group) else _PACKAGE.match(read_bytes(path))
        package = header and header[1].decode()
        return ConfigResult(self.provider, self.full_path(), content, {"package": package})

    def available(self) -> bool:
        """Returns whether the folder is there."""
        return self.is_group("")

    def is_group(self, config_path: str) -> bool:
        """Returns whether there is such a folder."""
        return Path(self.path, config_path).is_dir()

    def is_config(self, config_path: str) -> bool:
        """Returns whether there is such a file, or a family with such a variant."""
        return self._file(config_path) is not None

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Returns the names of a group: of configurations, of groups, or of both."""
        names = set()
        for path in Path(self.path, config_path).iterdir():
            if path.is_dir() and results_filter in (None, ObjectType.GROUP):
                names.add(path.name)
            elif path.suffix == ".yaml" and results_filter in (None, ObjectType.CONFIG):
                names.add(path.stem)
        if results_filter in (None, ObjectType.CONFIG):
            names |= self._variants(config_path).keys()
        return sorted(names)

    def _file(self, config_path: str) -> Path | None:
        path = Path(self.path, f"{config_path.removesuffix('.yaml')}.yaml")
        return path if path.is_file() else self._variants(str(path.parent.relative_to(self.path))).get(path.stem)

    def _variants(self, group: str) -> dict[str, Path]:
        """Returns name -> file of the families in this folder."""
        if group == "." or not config.is_alone(group) or not (config.folders()[0] / group).is_dir():
            return {}
        mine = Path(self.path, group)
        families = ((name, path) for name, path in config.names(group).items() if path.stem != name)
        return {name: path for name, path in families if path.parent.resolve() == mine}


class ConfigurationFolders(SearchPathPlugin):
    """Replaces our `conf/` on Hydra's search path by all folders of configurations, ours first."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Called by Hydra when a search path is made."""
        first, *others = (f"{ConfigurationFolder.scheme()}://{folder.resolve()}" for folder in config.folders())
        for element in search_path.get_path():
            if element.provider == "main":
                element.path = first
        for address in others:
            search_path.append("user", address)


@contextmanager
def initialized(command: str) -> Iterator[Any]:
    """Lets Hydra compose configurations of a command from our folders, the user's and those of packages.

    Yields Hydra's object for a command line, with `run`, `multirun` and what shows a configuration.
    """
    for plugin in (ConfigurationFolder, ConfigurationFolders):
        Plugins.instance().register(plugin)
    ours = str(config.folders()[0].resolve())
    with initialize_config_dir(ours, job_name=command, version_base="1.3"):
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None  # noqa: S101  (for mypy)
        hydra.config_loader = cast("ConfigLoader", SweepLoader(hydra.config_loader))
        yield hydra


def job_context(loader: ConfigLoader, configuration: DictConfig) -> HydraContext:
    """Returns what a launcher needs to run jobs with the callbacks of a configuration."""
    return HydraContext(config_loader=loader, callbacks=Callbacks(configuration))


_MOST_KEPT = 64  # compositions of choices of groups


class _Compositions:
    """Compositions by Hydra, one for each choice of groups (`collection=..., system=...`).

    All other overrides are merged into a copy, in their order, as Hydra does after it has composed the groups.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], bytes | DictConfig] = {}
        self.parsed = lru_cache(4096)(OverridesParser.create().parse_override)

    def composed(
        self,
        words: Sequence[str],
        groups: Container[str],
        compose_words: Callable[[list[str]], DictConfig],
        about: Sequence[str] = (),
    ) -> DictConfig:
        """Returns the configuration with these overrides.

        Parameters
        ----------
        compose_words : composes a configuration with overrides, as Hydra does.
        about : what else the compositions of the same groups depend on.
        """
        parsed = [self.parsed(word) for word in words]
        values = [each for each in parsed if not each.is_hydra_override() and each.get_key_element() not in groups]
        chosen = [str(each.input_line) for each in parsed if each not in values]
        known = (*about, "", *chosen)
        if known not in self._kept:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[known] = _packed(compose_words(chosen))
        kept = self._kept[known]
        # The bytes are this process's own.
        configuration: DictConfig = pickle.loads(kept) if isinstance(kept, bytes) else copy.deepcopy(kept)  # noqa: S301
        return configuration if _updated(configuration, values) else compose_words(list(words))


def _packed(configuration: DictConfig) -> bytes | DictConfig:
    """Returns a configuration as bytes, copied faster, unless pickle refuses a class that Hydra loaded twice."""
    try:
        return pickle.dumps(configuration)
    except pickle.PicklingError:
        return configuration


def _updated(configuration: DictConfig, values: Sequence[Override]) -> bool:
    """Merges values as Hydra does; returns False where Hydra itself has to do it, or to say what is wrong."""
    try:
        for value in values:
            if value.is_add() or value.is_delete() or value.is_sweep_override() or value.package is not None:
                return False
            OmegaConf.update(configuration, value.key_or_group, value.value(), force_add=value.is_force_add())
    except OmegaConfBaseException:
        return False
    return True


class SweepLoader:
    """Hydra's loader of configurations, which composes each choice of groups once for all points of a sweep."""

    def __init__(self, loader: ConfigLoader) -> None:
        self._loader = loader
        self._compositions = _Compositions()

    def __reduce__(self) -> tuple[type[SweepLoader], tuple[ConfigLoader]]:
        """Leaves the compositions behind when a launcher hands the loader to its processes."""
        return SweepLoader, (self._loader,)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """Does everything else as Hydra's loader."""
        return getattr(self._loader, name)

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: Sequence[str]) -> DictConfig:
        """Returns the configuration of a point."""
        of_hydra, groups = master_config.hydra.overrides.hydra, master_config.hydra.runtime.choices
        configuration = self._compositions.composed(
            sweep_overrides, groups, lambda words: self._loader.load_sweep_config(master_config, words), of_hydra
        )
        task = [each for each in map(self._compositions.parsed, sweep_overrides) if not each.is_hydra_override()]
        configuration.hydra.overrides.task = [each.input_line for each in task]
        how = configuration.hydra.job.config.override_dirname
        named = sorted(str(each.input_line) for each in task if each.key_or_group not in how.exclude_keys)
        configuration.hydra.job.override_dirname = how.item_sep.join(named).replace("=", how.kv_sep)
        return configuration


def composer(command: str, groups: Container[str]) -> Callable[[Sequence[str]], DictConfig]:
    """Returns a function that composes a command with overrides; the result equals that of `hydra.compose`.

    Parameters
    ----------
    groups : the groups of configurations that the command takes.

    Raises
    ------
    HydraException, OmegaConfBaseException
        By the function, as `hydra.compose` does.
    """
    compositions = _Compositions()

    def composition(overrides: Sequence[str]) -> DictConfig:
        return compositions.composed(overrides, groups, lambda words: compose(config_name=command, overrides=words))

    return composition
