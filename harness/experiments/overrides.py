"""Overrides `KEY=VALUE` of `harness run`: which a cell may contain; conditions, seeds and scales of experiments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, Literal

from harness.errors import HarnessError, suggestion
from harness.io import config
from harness.io.checks import Words

OVERRIDE = re.compile(r"(?P<sign>\+{0,2})(?P<key>[A-Za-z_][\w.@/-]*)=(?P<value>.*)", re.DOTALL)
# Keys that a cell may override: those that decide its run and scores. The others are set on the command line.
SETS = ("collection", "corpus", "system", "protocol", "edition", "rerank", "training", "allow_test_judgments")


def has_several(value: str) -> bool:
    """Returns whether an override gives its key several values."""
    outside = re.sub(r"\[[^\]]*\]|\{[^}]*\}|'[^']*'|\"[^\"]*\"", "", value)
    return "," in outside or bool(re.search(r"\b(?:choice|range|interval|glob|sort|shuffle|tag)\(", outside))


def override_key(override: str) -> str:
    """Returns the key that an override sets.

    >>> override_key("+system.k1=2")
    'system.k1'
    """
    return override.partition("=")[0].lstrip("+")


def checked_override(key: str, value: object) -> str:
    """Checks and returns an override of a cell; `key` is its place in the experiment's file.

    Raises
    ------
    HarnessError
        The value is not an override, sets no key of a run, refers to another key, or gives several values.

    Examples
    --------
    >>> checked_override("shared", "system.pairs.mse-pages=null")
    'system.pairs.mse-pages=null'
    """
    match = OVERRIDE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise HarnessError(f"key {key!r}: {value!r} is not an override; expected KEY=VALUE, such as system=bm25")
    if match["key"].partition(".")[0] not in SETS:
        raise HarnessError(f"key {key!r}: {value!r} sets no key of a run; {suggestion(match['key'], SETS)}")
    if "${" in match["value"]:
        raise HarnessError(f"key {key!r}: {value!r} contains '${{', a reference to another key; write the value itself")
    if has_several(match["value"]):
        raise HarnessError(f"key {key!r}: {value!r} gives several values; make each a label of an axis")
    return str(value)


Overrides = tuple[Annotated[str, checked_override], ...]


def unclear(where: str, labels: object) -> list[str]:
    """Returns the faults of labels that YAML reads as another type, or that occur as number and text.

    >>> unclear("conditions", {2020: {}, "2020": {}})
    ["conditions: key '2020' occurs as a number and as text"]
    """
    names = list(labels) if isinstance(labels, Mapping) else []
    said = "is not text (YAML reads on, off, yes, no and ~ as other values); put it in quotes"
    texts = [str(name) for name in names]
    return [
        *(f"{where}: key {name!r} {said}" for name in names if isinstance(name, bool | None)),
        *(f"{where}: key {name!r} occurs as a number and as text" for name in dict.fromkeys(texts)
          if texts.count(name) > 1),
    ]  # fmt: skip


def has(words: Mapping[str, str], change: str) -> bool:
    """Returns whether a change applies to a cell: its system must have the key, or with `+` the key's parent.

    Parameters
    ----------
    words : key -> override of the cell.
    """
    group, *rest = override_key(change).split(".")
    if group != "system" or not rest:
        return True
    for end in range(len(rest), 0, -1):  # overrides of the cell take precedence over the file
        if (word := words.get(".".join((group, *rest[:end])))) is not None:
            return end == len(rest) or word.partition("=")[2] != "null"  # a removed part has no keys
    level: object = system_keys(words.get(group, "").partition("=")[2])
    for name in rest[:-1] if change.startswith("+") else rest:
        if not isinstance(level, Mapping) or name not in level:
            return False
        level = level[name]
    return level is not None or not change.startswith("+")


def hides(override: str, key: str) -> bool:
    """Returns whether a later override replaces `key` by setting a parent of it; `{...}` replaces only its own keys.

    >>> hides("system.training=null", "system.training.rate"), hides("system.model={dim:8}", "system.model.out")
    (True, False)
    """
    above, value = override_key(override), override.partition("=")[2].strip()
    if above == "system" or not key.startswith(f"{above}."):  # the choice of a system precedes its keys
        return False
    inner = key.removeprefix(f"{above}.").partition(".")[0]
    return not value.startswith("{") or bool(re.search(rf"[{{,]\s*{re.escape(inner)}\s*:", value))


def system_keys(system: str) -> dict[str, Any]:
    """Returns the configuration of a system; empty if there is none.

    >>> system_keys("bm25-robertson")["variant"]
    'robertson'
    """
    return config.load("system", system)[0] if system in config.names("system") else {}


Only = Mapping[str, tuple[Words, ...]]


@dataclass(frozen=True)
class Condition:
    """A condition of an experiment.

    Attributes
    ----------
    overrides : arguments of `harness run`.
    only : axis -> labels that the condition is restricted to.
    tune : key -> values to try: all combinations are run, and each set of topics sees the one whose mean of the first
        measure is best over the other sets; of equal ones, the first. See `Experiment.tune_on`.
    """

    overrides: Overrides = ()
    only: Only | None = None
    tune: Mapping[str, tuple[Words, ...]] | None = None

    def points(self) -> tuple[tuple[str, ...] | None, ...]:
        """Returns the overrides of each combination that is tried; a single None where nothing is tuned."""
        if self.tune is None:
            return (None,)
        keys = tuple(self.tune)
        return tuple(
            tuple(f"{key}={value}" for key, value in zip(keys, values, strict=True))
            for values in product(*self.tune.values())
        )


@dataclass(frozen=True)
class Seeds:
    """Seeds of an experiment.

    Attributes
    ----------
    key, values : the key that takes the seed, and its values.
    only : `condition` or axis -> labels that have a seed.
    best : topics that choose the best seed: those that are reported, or those of the other sets of topics.
    """

    key: Words
    values: tuple[Words, ...]
    only: Only | None = None
    best: Literal["evaluation", "others"] = "evaluation"


@dataclass(frozen=True)
class ExperimentScale:
    """A scale of an experiment, smaller or for a larger machine: its changes in words and as overrides.

    Attributes
    ----------
    says : description of the changes.
    changes : overrides of every cell; a key of a system (`system.KEY`) changes those systems that have it.
    seeds : in place of those of the experiment.
    needs : what the machine must have.
    """

    says: Words = ""
    changes: Overrides = ()
    seeds: tuple[Words, ...] = ()
    needs: tuple[Literal["gpu"], ...] = ()
