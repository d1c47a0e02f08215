"""Completions for the shell: groups, names of configurations, overrides of `run` and `reproduce`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from harness.errors import HarnessError

_HYDRA = ("hydra/launcher", "hydra/sweeper")
_KEYS = {
    "run": ("collection", "corpus", "system", "experiment", "sweep", "protocol", *_HYDRA),
    "reproduce": ("paper", *_HYDRA[:1]),
}
_SYSTEM = re.compile(r"(?:^| )system ?= ?([\w.-]+)")  # bash has spaces around the sign
_SWITCHES = {
    "run": ("edition=", "rerank=true", "training=", "tune=", "scale=here", "only=", "reuse=false", "runs=", "output="),
    "reproduce": ("brought=", "rerun=true", "runs=", "output="),
}


def complete_groups(incomplete: str) -> list[str]:
    """Returns the groups of `harness list` that begin with a text."""
    from harness.cli.entries import GROUPS

    return [name for name in GROUPS if name.startswith(incomplete)]


def papers(incomplete: str) -> list[str]:
    """Returns the papers that begin with a text."""
    return _names_starting("paper", incomplete)


def of(group: str) -> Callable[[str], list[str]]:
    """Returns a function that completes the names of a group of configurations."""
    return lambda incomplete: _names_starting(group, incomplete)


def anything(incomplete: str) -> list[str]:
    """Returns the groups and names that `harness show` accepts."""
    from harness.cli.entries import GROUPS

    folders = [group.folder for group in GROUPS.values()]
    known = {name for folder in folders for name in _names_starting(folder, incomplete)}
    return [*(folder for folder in folders if folder.startswith(incomplete)), *sorted(known)]


def overrides(command: str, words: Sequence[str], incomplete: str) -> list[str]:
    """Returns the words of `run` or `reproduce` that begin with a text: keys, or `KEY=NAME` after the key of a group.

    The settings of a system are keys after the word that names it.

    bash takes `=` for the end of a word: then only the value is completed, and `words` ends with the key and `=`.

    Examples
    --------
    >>> overrides("run", [], "sys"), overrides("run", [], "system=bm25-p")
    (['system='], ['system=bm25-phrases', 'system=bm25-plus'])
    >>> overrides("run", ["system", "="], "bm25-p")
    ['bm25-phrases', 'bm25-plus']
    >>> overrides("run", ["system=bm25"], "system.k"), overrides("run", [], "hydra/launcher=sub")
    (['system.k1='], ['hydra/launcher=submitit_local', 'hydra/launcher=submitit_slurm'])
    """
    keys = _KEYS[command]
    if incomplete == "=" and words and words[-1] in keys:
        return [f"={name}" for name in _names_starting(words[-1], "")]
    if len(words) > 1 and words[-1] == "=" and words[-2] in keys:
        return _names_starting(words[-2], incomplete)
    key, equals, begun = incomplete.partition("=")
    if equals:
        return [f"{key}={name}" for name in _names_starting(key, begun)] if key in keys else []
    if incomplete.startswith("system."):
        return _settings(" ".join(words), incomplete)
    return [word for word in (*(f"{key}=" for key in keys), *_SWITCHES[command]) if word.startswith(incomplete)]


def _settings(words: str, incomplete: str) -> list[str]:
    """Returns the settings, `system.KEY=`, of the system that the words before name."""
    from harness.cli.key_descriptions import settings_of
    from harness.experiments.overrides import system_keys
    from harness.systems.states import ABOUT

    named = _SYSTEM.search(words)
    try:
        listed = system_keys(named[1]) if named else {}
        keys = {*listed, *settings_of(str(listed.get("_target_", "")))} - {*ABOUT, "_target_"}
    except HarnessError:
        return []
    keys |= {f"{key}.{inner}" for key, value in listed.items() if isinstance(value, dict) for inner in value}
    return sorted(word for key in keys if (word := f"system.{key}=").startswith(incomplete))


def _names_starting(group: str, incomplete: str) -> list[str]:
    from harness.io import config

    if group == "hydra/sweeper":
        return [name for name in ("basic", "optuna") if name.startswith(incomplete)]
    try:
        return [name for name in config.names(group) if name.startswith(incomplete)]
    except HarnessError:  # a shell is not a place to say so
        return []
