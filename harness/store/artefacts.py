"""Artifacts that take long to compute, such as indexes and models, stored under the hash of their inputs."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash

from harness.errors import HarnessError
from harness.io import temporary
from harness.io.console import progress, say
from harness.io.files import cache_root, read_bytes, sha256, sha256_file, write_atomic
from harness.store import cost

SPEC = "spec.json"
ABSENT = "not there"
LARGE = 1 << 20  # bytes; larger files are verified once per process, unless they change


@dataclass(frozen=True)
class Artefact:
    """One folder of the store.

    Attributes
    ----------
    kind : kind of artifact, such as `bm25-index`.
    spec : the inputs; their hash is the key.
    size : bytes on disk.
    used : time of last use, in seconds since 1970.
    """

    kind: str
    key: str
    path: Path
    spec: Mapping[str, Any]
    size: int
    used: float


def store_root() -> Path:
    """Returns the folder of artifacts: `store/` in the cache folder."""
    return cache_root() / "store"


def key(spec: Mapping[str, Any]) -> str:
    """Returns the hash of a specification, which does not depend on the order of keys.

    Raises
    ------
    HarnessError
        The specification has a value that cannot be written as JSON.
    """
    try:
        plain = json.loads(json.dumps(spec, allow_nan=False))  # keys become text, as after reading
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    except (TypeError, ValueError) as error:
        raise HarnessError(f"artifact: specification cannot be written as JSON: {error}") from None
    return sha256(text.encode())


def get_or_build(kind: str, spec: Mapping[str, Any], build: Callable[[Path], None]) -> Path:
    """Returns the folder of an artifact; builds it if it is missing or damaged.

    `build` fills a given empty folder, which gets its final name only when it is complete: a killed process leaves no
    partial artifact, and concurrent processes build an artifact once. Files are verified at every request; a damaged
    artifact is reported and rebuilt. A complete store is only read, so it may be read-only.
    """
    name = key(spec)
    folder = store_root() / kind / name
    if damage(folder, kind):
        _build(folder, kind, name, spec, build)
    with suppress(OSError):  # the store may be read-only
        os.utime(folder / SPEC)  # time of last use, for `collect`
    cost.artefact(folder)
    return folder


def _build(folder: Path, kind: str, name: str, spec: Mapping[str, Any], build: Callable[[Path], None]) -> None:
    with _locked(folder.parent, name, damage(folder, kind)):
        if not (found := damage(folder, kind)):  # another process built it meanwhile
            return
        if found != ABSENT:
            say(f"{folder}: {found}; rebuilding it")
        making = folder.parent / f".{name}.making"
        try:
            shutil.rmtree(making, ignore_errors=True)  # remains of a killed process
            if os.path.lexists(folder):  # renamed first, so that no process finds a partial artifact
                folder.rename(making)
                shutil.rmtree(making) if making.is_dir() else making.unlink()
            making.mkdir(parents=True)
            with progress(f"making {kind}"):
                build(making)
            write_atomic(making / SPEC, _manifest(making, kind, spec))
            making.rename(folder)
        except OSError as error:
            shutil.rmtree(making, ignore_errors=True)
            # NumPy reports the number of bytes written, but not the reason of the failure.
            why = error.strerror or f"disk full, or files may not grow so large ({error})"
            raise HarnessError(f"{error.filename or folder}: {why}") from None
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise


# ---- verification -----------------------------------------------------------------------------------------------


def _manifest(folder: Path, kind: str, spec: Mapping[str, Any]) -> str:
    """Returns the content of `spec.json`: an artifact's specification and files, and a checksum of both."""
    files = {
        name: {"size": path.stat().st_size, "sha256": sha256_file(path), "xxh3": fast_checksum(path)}
        for name, path in _files(folder).items()
    }
    return _text({"kind": kind, "spec": spec, "files": files})


def _text(content: Mapping[str, Any]) -> str:
    plain = json.loads(json.dumps(content))  # as it is when it is read again
    return json.dumps({**plain, "sha256": key(plain)}, indent=1, sort_keys=True)


def damage(folder: Path, kind: str) -> str:
    """Checks an artifact by sizes and fast checksums; returns its fault, `ABSENT` if missing, or "" if intact.

    Raises
    ------
    HarnessError
        The artifact exists but cannot be read.
    """
    try:
        if not os.path.lexists(folder):
            return ABSENT
        if not (folder / SPEC).is_file():
            return f"damaged: it has no {SPEC}"
        expected = _expected(folder, kind)
        if expected is None:
            return f"damaged: {SPEC} differs from what was written"
        found = _files(folder)
        found.pop(SPEC)
        for name in sorted(expected.keys() ^ found.keys()):
            return f"damaged: {name!r} is {'missing' if name in expected else 'no file of it'}"
        for name, path in found.items():
            if not _is_whole(path, expected[name]):
                return f"damaged: {name!r} differs from what was written"
    except PermissionError as error:
        raise HarnessError(f"{error.filename or folder}: cannot be read: {error.strerror}") from None
    except OSError as error:  # a disk fault, or concurrent deletion
        return f"damaged: {error.filename or folder} cannot be read: {error.strerror or error}"
    return ""


def _expected(folder: Path, kind: str) -> dict[str, Mapping[str, Any]] | None:
    """Returns the files listed in an artifact's `spec.json`; None if that file was changed."""
    try:
        written = (folder / SPEC).read_text(encoding="utf-8")
        content = json.loads(written)
        checksum = content.pop("sha256")
        right = key(content) == checksum and _text(content) == written
        right = right and (content["kind"], key(content["spec"])) == (kind, folder.name)
        return dict(content["files"]) if right else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, HarnessError):
        return None


VERIFIED: set[tuple[str, int, int, str]] = set()  # path, mtime in ns, size, checksum of large files


def _is_whole(path: Path, entry: Mapping[str, Any]) -> bool:
    status = path.stat()
    stamp = (str(path), status.st_mtime_ns, status.st_size, str(entry["xxh3"]))
    if status.st_size != entry["size"]:
        return False
    if stamp not in VERIFIED:
        if fast_checksum(path) != entry["xxh3"]:
            return False
        if status.st_size > LARGE:
            VERIFIED.add(stamp)
    return True


def fast_checksum(path: Path) -> str:
    """Returns the 128-bit XXH3 of a file in hexadecimal: detects accidental damage, ten times as fast as SHA-256."""
    state = xxhash.xxh3_128()
    with path.open("rb", buffering=0) as stream:
        while block := stream.read(LARGE):
            state.update(block)
    return state.hexdigest()


def _files(folder: Path) -> dict[str, Path]:
    """Returns the files of an artifact by their paths in it, sorted."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if not path.is_dir()}
    return dict(sorted(found.items()))


# ---- locks and garbage collection -------------------------------------------------------------------------------


@contextmanager
def _locked(folder: Path, name: str, found: str = ABSENT) -> Iterator[None]:
    """Locks an artifact for one process at a time; the lock ends with the process."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / f".{name}.lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        why = "" if found == ABSENT else f"; {name} there is {found}, and has to be rebuilt"
        raise HarnessError(f"{folder}: cannot be written: {error.strerror or error}{why}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def artefacts() -> list[Artefact]:
    """Returns all artifacts in the store, least recently used first."""
    out = []
    for folder in (folder for folder in store_root().glob("*/[!.]*") if folder.is_dir()):
        path = folder / SPEC
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        try:
            spec = dict(json.loads(read_bytes(path))["spec"])
        except (HarnessError, ValueError, KeyError, TypeError, RecursionError):
            spec = {"damaged": str(path)}  # listed and deleted like any other
        used = (path if path.exists() else folder).stat().st_mtime
        out.append(Artefact(folder.parent.name, folder.name, folder, spec, size, used))
    return sorted(out, key=lambda artefact: (artefact.used, artefact.key))


def collect(days: float) -> list[Artefact]:
    """Deletes artifacts unused for some days and remains of killed processes; returns the deleted artifacts.

    Interrupted downloads are kept for the same time, because they can be resumed.
    """
    limit = time.time() - days * 86400
    temporary.clear(limit)
    old = [artefact for artefact in artefacts() if artefact.used <= limit]
    for artefact in old:
        with _locked(artefact.path.parent, artefact.key):
            # Renamed first, so that no process finds a partially deleted artifact.
            gone = artefact.path.parent / f".{artefact.key}.making"
            shutil.rmtree(gone, ignore_errors=True)
            artefact.path.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
    for making in store_root().glob("*/.*.making"):
        name = making.name[1 : -len(".making")]
        with _locked(making.parent, name):
            shutil.rmtree(making, ignore_errors=True)
    return old
