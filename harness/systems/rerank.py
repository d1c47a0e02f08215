"""Re-ranking: any system on the documents of a pool, such as a topic's judged ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.data.trec import Run
from harness.errors import HarnessError, suggestion
from harness.io import config
from harness.systems.base import MARK, Request
from harness.systems.baselines import External
from harness.systems.build import Built, build_system, check_cycle, load_system
from harness.systems.ranking import within


@dataclass(frozen=True)
class RerankPool:
    """Another system, which then ranks the pool of each topic and nothing else; it refuses to run without a pool.

    What the other system returns beside the pool is left out (a run file, for one, knows of no pool).

    Parameters
    ----------
    system : the name of a system in `conf/system/`, or the configuration of one.
    name : of the run; by default the other run's name with `-pool`.
    """

    system: str | Mapping[str, Any]
    name: str | None = None

    def __post_init__(self) -> None:
        if self.name is not None and not isinstance(self.name, str):
            raise HarnessError(f"key 'name' is {self.name!r}, expected text")
        self._system  # noqa: B018  (a fault in the other system is found at once)

    def searches(self) -> bool:
        """Returns what the other system says."""
        return self._system.searches()

    def trains_without(self) -> frozenset[str] | None:
        """Returns what the other system says."""
        return self._system.trains_without()

    def notes(self) -> tuple[str, ...]:
        """Returns what the other system says of its numbers."""
        return self._system.notes()

    def reads(self) -> dict[str, Any]:
        """Returns the configuration of the other system, if it is named, and what that system reads."""
        return reads_of(self.system, self._system)

    def __call__(self, request: Request) -> Run:
        """Pass everything on, and keep the results that are in the pool.

        Raises HarnessError if there is no pool, or nothing of the run is in it.
        """
        if request.pool is None:
            raise HarnessError(f"system {self.name or 'rerank-pool'}: has no pool to rank; run it with rerank=true")
        run = within(self._system(request), request.pool)
        if not len(run):
            raise HarnessError(f"system {self.name or 'rerank-pool'}: nothing that {run.name} returns is in the pool")
        name = self.name or f"{run.name.removesuffix(MARK)}-pool"
        return replace(run, name=name + MARK * run.name.endswith(MARK))

    @cached_property
    def _system(self) -> Built:
        return another("system", self.system)


def another(key: str, value: object, *, files: bool = False) -> Built:
    """Returns the system that a configuration's key names or describes.

    Parameters
    ----------
    files : whether it may be a run file as well. One whose name is also a system's is written with its folder.

    Raises
    ------
    HarnessError
        It is none, is made from itself, or one of the faults of `build_system`.

    Examples
    --------
    >>> another("system", "bm25").name
    'bm25'
    >>> another("system", "bm52", files=True)
    Traceback (most recent call last):
    harness.errors.HarnessError: key 'system': 'bm52' is no file and no system; did you mean 'bm25'?
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
        raise HarnessError(f"key {key!r}: {value!r} is no file and no system; {suggestion(value, systems)}")
    return Built(External(value))


def reads_of(value: str | Mapping[str, Any], built: Built) -> dict[str, Any]:
    """Returns what the run of such a system depends on: its configuration if it is named, and what it reads."""
    named = isinstance(value, str) and value in config.names("system")
    return ({str(value): config.load("system", str(value))[0]} if named else {}) | built.reads()
