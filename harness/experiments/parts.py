"""Parts of an experiment's file: conditions, seeds and scales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Literal

from harness.experiments.overrides import Overrides
from harness.io.checks import Words

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
