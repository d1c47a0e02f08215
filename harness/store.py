"""What results stand on: artefacts kept under the hash of what they were made from, and the provenance of numbers."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from harness import __version__, meter
from harness.console import progress
from harness.errors import HarnessError
from harness.files import cache_root, sha256, write_atomic

SPEC = "spec.json"
_LIBRARIES = ("numpy", "scipy", "bm25s", "snowballstemmer", "hydra-core")


@dataclass(frozen=True)
class Provenance:
    """What somebody needs to make a result again.

    Attributes
    ----------
    command : the command line, quoted for a shell.
    versions : of the harness, Python and the libraries that compute.
    machine : operating system, processor and number of cores; no names of hosts or users.
    files : name of an input file -> its SHA-256.
    """

    command: str
    versions: Mapping[str, str]
    machine: str
    files: Mapping[str, str] = field(default_factory=dict)


def provenance(files: Mapping[str, str], command: list[str] | None = None) -> Provenance:
    """The provenance of a result made by this process; `command` defaults to the process's own."""
    # Hydra's commands set the program's name to `harness COMMAND`.
    name = sys.argv[0].split() if sys.argv[0].startswith("harness ") else ["harness"]
    arguments = command if command is not None else [*name, *sys.argv[1:]]
    versions = {"mathir-harness": __version__, "Python": platform.python_version()}
    versions |= {name: metadata.version(name) for name in _LIBRARIES}
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return Provenance(shlex.join(arguments), versions, machine, dict(files))


@dataclass(frozen=True)
class Artefact:
    """One folder of the store.

    Attributes
    ----------
    kind : what it is, such as `bm25-index`.
    spec : what it was made from; its hash is the key.
    size : bytes on the disk.
    used : when it was last asked for, in seconds since 1970.
    """

    kind: str
    key: str
    path: Path
    spec: Mapping[str, Any]
    size: int
    used: float


def store_root() -> Path:
    """Where artefacts lie: `store/` in the cache folder."""
    return cache_root() / "store"


def key(spec: Mapping[str, Any]) -> str:
    """The hash of a specification: equal contents have equal keys, whatever their order.

    Raises
    ------
    HarnessError
        The specification holds something that JSON cannot write.
    """
    try:
        text = json.dumps(spec, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise HarnessError(f"artefact: specification cannot be written as JSON: {error}") from None
    return sha256(text.encode())


def get_or_build(kind: str, spec: Mapping[str, Any], build: Callable[[Path], None]) -> Path:
    """The folder of an artefact, built if it is not there yet.

    `build` fills the empty folder that it is given. It appears under its key only when it is complete: a process
    that is killed leaves nothing half-made, and two processes that want the same artefact build it once.
    """
    name = key(spec)
    folder = store_root() / kind / name
    if not _complete(folder):
        _build(folder, kind, name, spec, build)
    meter.artefact(folder)
    return folder


def _build(folder: Path, kind: str, name: str, spec: Mapping[str, Any], build: Callable[[Path], None]) -> None:
    with _locked(folder.parent, name):
        if _complete(folder):  # somebody else built it meanwhile
            return
        making = folder.parent / f".{name}.making"
        try:
            shutil.rmtree(making, ignore_errors=True)  # what a killed process left
            making.mkdir(parents=True)
            with progress(f"making {kind}"):
                build(making)
            write_atomic(making / SPEC, json.dumps({"kind": kind, "spec": spec}, indent=1, sort_keys=True))
            making.rename(folder)
        except OSError as error:
            shutil.rmtree(making, ignore_errors=True)
            # NumPy says how much it could write, not why not all.
            why = error.strerror or f"disk full, or files may not grow so large ({error})"
            raise HarnessError(f"{error.filename or folder}: {why}") from None
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise


def _complete(folder: Path) -> bool:
    if not (folder / SPEC).is_file():
        return False
    os.utime(folder / SPEC)  # when it was last used, for `collect`
    return True


@contextmanager
def _locked(folder: Path, name: str) -> Iterator[None]:
    """One process at a time works on an artefact; the lock ends with the process."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / f".{name}.lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise HarnessError(f"{folder}: cannot be written: {error.strerror or error}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def artefacts() -> list[Artefact]:
    """Everything in the store, the longest unused first."""
    out = []
    for path in store_root().glob(f"*/*/{SPEC}"):
        folder = path.parent
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        try:
            spec = dict(json.loads(path.read_text(encoding="utf-8"))["spec"])
        except (ValueError, KeyError, TypeError):
            spec = {"damaged": str(path)}  # listed and deleted like any other
        out.append(Artefact(folder.parent.name, folder.name, folder, spec, size, path.stat().st_mtime))
    return sorted(out, key=lambda artefact: (artefact.used, artefact.key))


def collect(days: float) -> list[Artefact]:
    """Delete artefacts not used for so many days, and what killed processes left; the artefacts deleted."""
    limit = time.time() - days * 86400
    old = [artefact for artefact in artefacts() if artefact.used <= limit]
    for artefact in old:
        with _locked(artefact.path.parent, artefact.key):
            # Out of sight in one step first, so that nobody finds a half-deleted artefact.
            gone = artefact.path.parent / f".{artefact.key}.making"
            shutil.rmtree(gone, ignore_errors=True)
            artefact.path.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
    for making in store_root().glob("*/.*.making"):
        name = making.name[1 : -len(".making")]
        with _locked(making.parent, name):
            shutil.rmtree(making, ignore_errors=True)
    return old
