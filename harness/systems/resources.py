"""What one run of a system asks of the machine that makes it: the key `resources` of a system's configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Annotated, Any

from harness.io.checks import check_whole_number, typed

RESOURCES = "resources"  # the key; it never reaches the system's class, and does not change a run


@dataclass(frozen=True)
class Resources:
    """Resources that one run of a system asks a launcher for; None leaves the choice to the launcher.

    Attributes
    ----------
    cpus : processor cores.
    gpus : graphics processors.
    memory : gigabytes; indexes are built in a quarter of them, by default of the machine's (`harness.io.memory`).
    time : minutes after which a cluster may end the run.

    Examples
    --------
    >>> Resources(cpus=4).most(Resources(cpus=2, memory=8))
    Resources(cpus=4, gpus=None, memory=8, time=None)
    """

    cpus: Annotated[int | None, partial(check_whole_number, low=1)] = None
    gpus: Annotated[int | None, partial(check_whole_number, low=0)] = None
    memory: Annotated[int | None, partial(check_whole_number, low=1)] = None
    time: Annotated[int | None, partial(check_whole_number, low=1)] = None

    def most(self, other: Resources) -> Resources:
        """Returns the larger value of each resource."""
        pairs = ((getattr(self, each.name), getattr(other, each.name)) for each in fields(Resources))
        return Resources(*(max((n for n in pair if n is not None), default=None) for pair in pairs))


def declared(configurations: Iterable[Mapping[str, Any]], where: str) -> Resources:
    """Returns the resources of a system: of each, the most that one of its parts declares.

    Parameters
    ----------
    configurations : those of the system and of its parts (see `harness.systems.states.nested_configurations`).
    where : start of the lines of an error.

    Raises
    ------
    HarnessError
        The key `resources` has an unknown key, or another value than a whole number.

    Examples
    --------
    >>> declared([{"resources": {"gpus": 1}}, {"k1": 0.9}], "system")
    Resources(cpus=None, gpus=1, memory=None, time=None)
    """
    most = Resources()
    for mapping in configurations:
        if mapping.get(RESOURCES) is not None:
            most = most.most(typed(Resources, mapping[RESOURCES], f"{where}: {RESOURCES}"))
    return most
