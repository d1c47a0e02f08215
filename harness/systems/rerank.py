"""Re-ranking: any system on the documents of a pool, such as a topic's judged ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from harness.data.trec import Run
from harness.errors import HarnessError
from harness.io import config
from harness.systems.base import MARK, Request
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

    def trains_without(self) -> frozenset[str] | None:
        """What the other system says."""
        return self._system.trains_without()

    def reads(self) -> dict[str, Any]:
        """The configuration of the other system, if it is named, and what that system reads."""
        named = {self.system: config.load("system", self.system)[0]} if isinstance(self.system, str) else {}
        return named | self._system.reads()

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
        if isinstance(self.system, str):
            check_cycle(self.system)
            return load_system(self.system)
        if not isinstance(self.system, Mapping):
            expected = "expected the name of a system, or a configuration with '_target_'"
            raise HarnessError(f"key 'system' is {self.system!r}, {expected}")
        return build_system(self.system, "system")
