"""Artifacts that are being made: by whom, and whether a request for one of them waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path

from harness.errors import HarnessError
from harness.io import locks
from harness.io.locks import HeldError, Holder, Lock, held

_WAITS: ContextVar[bool] = ContextVar("waits", default=True)


class ArtefactBusy(HarnessError):  # noqa: N818  (a state, not a fault)
    """An artifact that was asked for in `without_waiting` is being made by another process.

    Attributes
    ----------
    kind, key : of the artifact.
    machine, process : of its maker.
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
    the next request.
    """
    token = _WAITS.set(False)
    try:
        yield
    finally:
        _WAITS.reset(token)


@contextmanager
def making(folder: Path, key: str, why: str = "") -> Iterator[Lock]:
    """Holds the lock of an artifact; waits for another maker, unless in `without_waiting`.

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
            lock = stack.enter_context(held(folder, key, f"makes {kind}", wait=_WAITS.get()))
        except HeldError as error:
            raise ArtefactBusy(kind, key, error.holder.machine, error.holder.process) from None
        except OSError as error:
            raise HarnessError(f"{folder}: cannot be written: {error.strerror or error}{why}") from None
        yield lock


def found(root: Path) -> list[tuple[str, str, Holder]]:
    """Returns kind, key and maker of the artifacts of a store that are being made."""
    paths = [path for path in sorted(root.glob("*/.*.lock")) if locks.is_held(path)]
    return [(path.parent.name, path.name[1:].removesuffix(".lock"), locks.read(path)) for path in paths]
