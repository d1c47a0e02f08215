"""Composition of many configurations that share their choices of groups, as the cells of an experiment do."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from harness.experiments.overrides import OVERRIDE
from harness.io import config

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override
    from omegaconf import DictConfig


def store_variants(groups: Sequence[str], words: str) -> None:
    """Lets Hydra find the variants of families (see `harness.io.config.names`) that occur in a command's words."""
    from hydra.core.config_store import ConfigStore

    for group in groups:
        for name, path in config.names(group).items():
            if path.stem != name and (name in words or "glob(" in words):
                ConfigStore.instance().store(name, config.read(group, name)[0], group=group, provider="variants")


def composer(command: str, groups: Sequence[str]) -> Callable[[Sequence[str]], DictConfig]:
    """Returns a function that composes a command with overrides; the result equals that of `hydra.compose`.

    Hydra composes each choice of groups (`collection=..., system=...`) once. The other overrides are then merged into
    a copy, in their order, which is what Hydra does after it has composed the groups.

    Parameters
    ----------
    groups : the groups of configurations that the command takes.

    Raises
    ------
    HydraException, OmegaConfBaseException
        By the function, as `hydra.compose` does.
    """
    from hydra import compose
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra.core.override_parser.overrides_parser import OverridesParser

    composed: dict[tuple[str, ...], bytes] = {}
    parsed: dict[str, Override] = {}
    parser = OverridesParser.create()

    def composition(overrides: Sequence[str]) -> DictConfig:
        matches = [OVERRIDE.fullmatch(word) for word in overrides]
        chosen = tuple(
            word for word, match in zip(overrides, matches, strict=True) if match is not None and match["key"] in groups
        )
        if chosen not in composed:
            store_variants(groups, " ".join(chosen))
            composed[chosen] = pickle.dumps(compose(config_name=command, overrides=list(chosen)))
        # Faster than a deep copy; the bytes are this process's own.
        configuration: DictConfig = pickle.loads(composed[chosen])  # noqa: S301
        values = [word for word in overrides if word not in chosen]
        parsed.update({word: parser.parse_override(word) for word in values if word not in parsed})
        ConfigLoaderImpl._apply_overrides_to_config([parsed[word] for word in values], configuration)
        return configuration

    return composition
