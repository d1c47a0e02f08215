"""Values in the store: how they were made, for artifacts that are made from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from harness.io import staging_names
from harness.store import artefacts
from harness.store.cost import phase

T = TypeVar("T")
Spec = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Stored(Generic[T]):
    """A value whose arrays are mapped from files.

    Attributes
    ----------
    spec : its specification in the store; None if it is not stored, because its code has no fingerprint.
    """

    value: T
    spec: Spec | None


def stored(kind: str, spec: Spec | None, build: Callable[[Path], None], load: Callable[[Path], T]) -> Stored[T]:
    """Returns a value from the store, or builds it.

    Without a specification it is built in a temporary folder, whose files are deleted but stay mapped.

    Parameters
    ----------
    build : writes the value to an empty folder.
    load : maps the value in a folder.
    """
    if spec is not None:
        return Stored(load(artefacts.get_or_build(kind, spec, build)), spec)
    with staging_names.folder(kind) as folder:
        build(folder)
        return Stored(load(folder), None)


@contextmanager
def index_folder(kind: str, spec: Spec | None, build: Callable[[Path], None]) -> Iterator[Path]:
    """Opens the folder of an index, from the store or built; a temporary one without a specification."""
    if spec is not None:
        with phase("index"):
            folder = artefacts.get_or_build(kind, spec, build)
        yield folder
        return
    with staging_names.folder(kind) as folder:
        with phase("index"):
            build(folder)
        yield folder
