"""Re-ranking of a pool, such as the judged documents of each topic, by any system."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from harness.data.trec import Run
from harness.errors import HarnessError, suggestion
from harness.io import config
from harness.systems.base import MARK, Request
from harness.systems.baselines import External
from harness.systems.build import BuiltSystem, build_system, check_cycle, load_system
from harness.systems.ranking import within


class MadeOfSystems(ABC):
    """Base of systems that run others: what these say of themselves holds for the whole."""

    @abstractmethod
    def _systems(self) -> Sequence[BuiltSystem]:
        """Returns the systems that are run."""

    def searches(self) -> bool:
        """Returns whether any of the systems reads a corpus; run files need none."""
        return any(system.searches() for system in self._systems())

    def trains_without(self) -> frozenset[str] | None:
        """Returns the collections that all trained systems left out of training; None if no system is trained."""
        left_out = [names for system in self._systems() if (names := system.trains_without()) is not None]
        return frozenset.intersection(*left_out) if left_out else None

    def notes(self) -> tuple[str, ...]:
        """Returns the notes of the systems, without duplicates."""
        return tuple(dict.fromkeys(note for system in self._systems() for note in system.notes()))

    def libraries(self) -> tuple[str, ...]:
        """Returns the libraries of the systems."""
        return tuple(dict.fromkeys(each for system in self._systems() for each in system.libraries()))


@dataclass(frozen=True)
class RerankPool(MadeOfSystems):
    """Re-ranks the pool of each topic with another system; requires a pool.

    Results of the other system outside the pool are removed, such as those of a run file, which ignores the pool.

    Parameters
    ----------
    system : the name of a system in `conf/system/`, or the configuration of one.
    name : name of the run; by default that of the other system's run with `-pool`.
    """

    work: ClassVar[str] = "parts"  # see `harness.papers.work`

    system: str | Mapping[str, Any]
    name: str | None = None

    def __post_init__(self) -> None:
        if self.name is not None and not isinstance(self.name, str):
            raise HarnessError(f"key 'name' is {self.name!r}, expected text")
        self._system  # noqa: B018  (validates the other system at once)

    def _systems(self) -> list[BuiltSystem]:
        return [self._system]

    def reads(self) -> dict[str, Any]:
        """Returns the configuration of the other system, if it is given by name, and its inputs."""
        return reads_of(self.system, self._system)

    def __call__(self, request: Request) -> Run:
        """Runs the other system and keeps its results in the pool.

        Raises HarnessError if there is no pool, or if it contains no result.
        """
        if request.pool is None:
            raise HarnessError(f"system {self.name or 'rerank-pool'}: has no pool to rank; run it with rerank=true")
        run = within(self._system(request), request.pool)
        if not len(run):
            raise HarnessError(f"system {self.name or 'rerank-pool'}: nothing that {run.name} returns is in the pool")
        name = self.name or f"{run.name.removesuffix(MARK)}-pool"
        return replace(run, name=name + MARK * run.name.endswith(MARK))

    @cached_property
    def _system(self) -> BuiltSystem:
        return another("system", self.system)


def another(key: str, value: object, *, files: bool = False) -> BuiltSystem:
    """Returns the system given by a configuration's key, by name or as a configuration.

    Parameters
    ----------
    files : whether a run file is allowed as well. A file with the name of a system must be written with its folder.

    Raises
    ------
    HarnessError
        The value is not a system, the system is its own input, or `build_system` fails.

    Examples
    --------
    >>> another("system", "bm25").name
    'bm25'
    >>> another("system", "bm52", files=True)
    Traceback (most recent call last):
    harness.errors.HarnessError: key 'system': 'bm52' is neither a file nor a system; did you mean 'bm25'?
    """
    check_cycle(value)
    if isinstance(value, Mapping):
        return build_system(value, key)
    if not isinstance(value, str):
        expected = "expected the name of a system, or a configuration with '_target_'"
        raise HarnessError(f"key {key!r} is {value!r}, {expected}")
    if not files or value in (systems := config.names("system")):
        return load_system(value)
    if not Path(value).expanduser().exists():
        raise HarnessError(f"key {key!r}: {value!r} is neither a file nor a system; {suggestion(value, systems)}")
    return BuiltSystem(External(value))


def reads_of(value: str | Mapping[str, Any], built: BuiltSystem) -> dict[str, Any]:
    """Returns the inputs of a nested system's run: its configuration, if it is given by name, and what it reads."""
    named = isinstance(value, str) and value in config.names("system")
    return ({str(value): config.load("system", str(value))[0]} if named else {}) | built.reads()
