"""Leases of artifacts: who makes which, and whether a request for one that is being made waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path

from harness.errors import HarnessError
from harness.io import holders
from harness.io.holders import Holder
from harness.io.leases import HeldError, Lease, held

_WAITS: ContextVar[bool] = ContextVar("waits", default=True)


class ArtefactBusy(HarnessError):  # noqa: N818  (a state, not a fault)
    """An artifact that was asked for in `without_waiting` is being made by another process.

    Attributes
    ----------
    kind, key : of the artifact.
    machine, process : of its owner.
    """

    def __init__(self, kind: str, key: str, machine: str, process: int) -> None:
        super().__init__(f"{kind} {key[:12]} is being made by {machine}, process {process}")
        self.kind, self.key, self.machine, self.process = kind, key, machine, process

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.kind, self.key, self.machine, self.process)


@contextmanager
def without_waiting() -> Iterator[None]:
    """Makes requests for artifacts in the block raise `ArtefactBusy` instead of waiting for another process.

    It holds for this thread only. A build in the block that asks for a busy artifact is given up, and starts again with
    the next request. Whether an owner on another machine still runs is known only after
    `HARNESS_LEASE_SECONDS`; until then it counts as running. This process remembers what it saw, so that a request that
    is repeated succeeds in the end; a scheduler that starts a new process for each request, and has nothing else to do,
    should let the last ones wait.
    """
    token = _WAITS.set(False)
    try:
        yield
    finally:
        _WAITS.reset(token)


@contextmanager
def making(folder: Path, key: str, *, bury: Callable[[str], object] | None = None, why: str = "") -> Iterator[Lease]:
    """Holds the lease of an artifact; waits for another owner, unless in `without_waiting`.

    Parameters
    ----------
    folder : folder of the artifacts of a kind.
    why : end of the message if the folder cannot be written.

    Raises
    ------
    ArtefactBusy
        Another process makes the artifact, and this one does not wait.
    HarnessError
        The folder cannot be written.
    """
    kind = folder.name
    with ExitStack() as stack:
        try:
            lease = stack.enter_context(held(folder, key, f"makes {kind}", wait=_WAITS.get(), bury=bury))
        except HeldError as error:
            raise ArtefactBusy(kind, key, error.holder.machine or "unknown", error.holder.process) from None
        except OSError as error:
            raise HarnessError(f"{folder}: cannot be written: {error.strerror or error}{why}") from None
        yield lease


def found(root: Path) -> list[tuple[str, str, Holder]]:
    """Returns (kind, key, lease) of all leases in a store that are not known to be remains."""
    out = []
    for path in sorted(root.glob("*/.*.lease")):
        match = holders.FOLDER.fullmatch(path.name)
        holder = holders.read(path)
        if match and holder and holder.state() != "gone":
            out.append((path.parent.name, match[1], holder))
    return out
