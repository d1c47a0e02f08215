"""What every system can do, and what it may say of itself. It never sees the judgments it is scored with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from harness.collections.corpus import Corpus
from harness.data.topics import Topics
from harness.data.trec import Qrels, Run

Pool = Mapping[str, frozenset[str]]
MARK = "+test-judgments"  # ends the name of a run that learnt from judgments of topics it ranks


class System(Protocol):
    """What every system can do."""

    def __call__(
        self,
        topics: Topics,
        corpus: Corpus | None,
        workspace: Path,
        training: Qrels | None = None,
        pool: Pool | None = None,
    ) -> Run:
        """Rank documents for each topic.

        Parameters
        ----------
        workspace : a folder of the system's own, for what it keeps between calls.
        training : judgments of topics other than `topics`.
        pool : topic -> documents to rank, when the task is re-ranking; None for the whole corpus.
        """
        ...


def reads(system: System) -> dict[str, Any]:
    """What a system's run depends on besides its own configuration: run files by checksum, other systems.

    A system that reads anything of the kind has a method `reads`.
    """
    found = getattr(system, "reads", None)
    return dict(found()) if found is not None else {}


def trains_without(systems: Iterable[System]) -> frozenset[str] | None:
    """The collections whose judged posts none of some systems has seen; None if none of them trains on posts."""
    asked = (getattr(system, "trains_without", None) for system in systems)
    left_out = [found for ask in asked if ask is not None and (found := ask()) is not None]
    return frozenset.intersection(*left_out) if left_out else None


def notes(system: System) -> tuple[str, ...]:
    """What a reader of a system's numbers must know; one that has anything of the kind has a method `notes`."""
    found = getattr(system, "notes", None)
    return tuple(found()) if found is not None else ()
