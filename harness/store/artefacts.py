"""Artifacts that take long to compute, such as indexes and models, stored under the hash of their inputs."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash

from harness.errors import HarnessError, os_errors
from harness.io import locks, staging_names
from harness.io.console import log_line, progress
from harness.io.files import cache_root, read_bytes, sha256, sha256_file, write_atomic
from harness.io.locks import HeldError, Holder, Lock, held
from harness.store import cost

SPEC = "spec.json"
ABSENT = "not there"
LARGE = 1 << 20  # bytes; larger files are verified once per process, unless they change
_RECENT = 64  # artifacts that this process asked for last, which a lock names
_TRIES = 5  # to replace a damaged artifact


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
    partial artifact, and concurrent processes, also of several machines that share the store, build an artifact once
    (see `harness.io.locks`). Files are verified at every request; a damaged artifact is reported and rebuilt. A
    complete store is only read, so it may be read-only.

    Raises
    ------
    ArtefactBusy
        Another process makes the artifact, and this one does not wait (see `harness.store.artefacts.without_waiting`).
    """
    folder = ensure(kind, spec, build)
    with suppress(OSError):  # the store may be read-only
        os.utime(folder / SPEC)  # time of last use, for `collect`
    _note_use(kind, folder.name)
    cost.artefact(folder)
    return folder


def ensure(kind: str, spec: Mapping[str, Any], build: Callable[[Path], None], *, quiet: bool = False) -> Path:
    """Does what `get_or_build` does, without counting as a use of the artifact: neither in locks nor in costs.

    Parameters
    ----------
    quiet : show no progress.
    """
    folder = folder_of(kind, spec)
    if damage(folder, kind):
        _build(folder, kind, spec, build, quiet)
    return folder


def folder_of(kind: str, spec: Mapping[str, Any]) -> Path:
    """Returns the folder of an artifact, which may not exist."""
    return store_root() / kind / key(spec)


def discard(*folders: Path) -> None:
    """Deletes artifacts that nobody needs any more, and locks that killed processes left."""
    for folder in folders:
        with suppress(OSError):
            _remove(folder)
            (folder.parent / f".{folder.name}.lock").unlink(missing_ok=True)


def _build(folder: Path, kind: str, spec: Mapping[str, Any], build: Callable[[Path], None], quiet: bool) -> None:
    fault = damage(folder, kind)
    why = "" if fault == ABSENT else f"; {folder.name} there is {fault}, and has to be rebuilt"
    with making_lock(folder.parent, folder.name, why) as lock:
        if not (fault := damage(folder, kind)):  # another process built it meanwhile
            return
        if fault != ABSENT:
            log_line(f"{folder}: {fault}; rebuilding it")
        lock.note(*_USED)
        _MAKING.append(lock)
        try:
            if fault != ABSENT:
                _discard(folder, kind)
            _make(folder, kind, spec, build, quiet)
        except OSError as error:
            # NumPy reports the number of bytes written, but not the reason of the failure.
            why = error.strerror or f"disk full, or files may not grow so large ({error})"
            raise HarnessError(f"{error.filename or folder}: {why}") from None
        finally:
            _MAKING.remove(lock)


def _make(folder: Path, kind: str, spec: Mapping[str, Any], build: Callable[[Path], None], quiet: bool) -> None:
    making, process = staging_names.new_name(folder), os.getpid()
    try:
        making.mkdir()
        handle = os.open(making, os.O_RDONLY)  # keeps the number of the folder from being used again
        try:
            with nullcontext() if quiet else progress(f"making {kind}"):
                build(making)
            write_atomic(making / SPEC, _manifest(making, kind, spec))
            # A folder that somebody deleted may have been made again, with what was written afterwards.
            if not os.path.samestat(os.fstat(handle), making.stat()):
                raise FileNotFoundError(errno.ENOENT, "deleted while it was made", str(making))
        finally:
            os.close(handle)
        _publish(making, folder, kind)
    finally:
        if os.getpid() == process:  # not in a child that was forked by `build`
            shutil.rmtree(making, ignore_errors=True)


def _publish(making: Path, folder: Path, kind: str) -> None:
    """Gives an artifact its final name; if an intact one is there, which another process made, it is kept."""
    for tries in range(_TRIES):
        try:
            making.rename(folder)
            return
        except OSError as error:
            if not damage(folder, kind):
                return
            if tries == _TRIES - 1 or error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            _discard(folder, kind)


def _discard(folder: Path, kind: str) -> None:
    """Deletes a damaged artifact."""
    away = staging_names.new_name(folder)
    with suppress(FileNotFoundError):
        folder.rename(away)  # first, so that no process finds a part of it
        if not damage(away, kind, folder.name):  # another process has just replaced it
            with suppress(OSError):
                away.rename(folder)
                return
        _delete(away)


def _remove(path: Path) -> None:
    """Deletes a file or folder that another process may be using; renames it first, so that nobody finds a part."""
    gone = staging_names.new_name(path)
    try:
        path.rename(gone)
    except FileNotFoundError:
        return
    _delete(gone)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


# ---- use --------------------------------------------------------------------------------------------------------

_USED: dict[str, None] = {}  # `KIND/KEY` of artifacts that this process asked for, the last ones
_MAKING: list[Lock] = []  # of what this process makes


def _note_use(kind: str, name: str) -> None:
    """Notes in the locks of this process that it reads an artifact, which `collect` then keeps."""
    use = f"{kind}/{name}"
    _USED.pop(use, None)
    _USED[use] = None
    for old in list(_USED)[:-_RECENT]:
        _USED.pop(old, None)
    for lock in list(_MAKING):
        lock.note(use)


# ---- verification -----------------------------------------------------------------------------------------------


def _manifest(folder: Path, kind: str, spec: Mapping[str, Any]) -> str:
    """Returns the content of `spec.json`: an artifact's specification and files, and a checksum of both."""
    files = {
        name: {"size": path.stat().st_size, "sha256": sha256_file(path), "xxh3": fast_checksum(path)}
        for name, path in _files(folder).items()
    }
    return _checksummed_json({"kind": kind, "spec": spec, "files": files})


def _checksummed_json(content: Mapping[str, Any]) -> str:
    plain = json.loads(json.dumps(content))  # as it is when it is read again
    return json.dumps({**plain, "sha256": key(plain)}, indent=1, sort_keys=True)


def damage(folder: Path, kind: str, name: str = "") -> str:
    """Checks an artifact by sizes and fast checksums; returns its fault, `ABSENT` if missing, or "" if intact.

    Parameters
    ----------
    name : key of the artifact; by default the name of its folder.

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
        expected = _expected(folder, kind, name or folder.name)
        if expected is None:
            return f"damaged: {SPEC} differs from what was written"
        files = _files(folder)
        if files.pop(SPEC, None) is None:  # deleted since it was looked for
            return f"damaged: it has no {SPEC}" if os.path.lexists(folder) else ABSENT
        for file in sorted(expected.keys() ^ files.keys()):
            return f"damaged: {file!r} is {'missing' if file in expected else 'no file of it'}"
        for file, path in files.items():
            if not _is_whole(path, expected[file]):
                return f"damaged: {file!r} differs from what was written"
    except PermissionError as error:
        raise HarnessError(f"{error.filename or folder}: cannot be read: {error.strerror}") from None
    except OSError as error:  # a disk fault, or concurrent deletion
        return f"damaged: {error.filename or folder} cannot be read: {error.strerror or error}"
    return ""


def _expected(folder: Path, kind: str, name: str) -> dict[str, Mapping[str, Any]] | None:
    """Returns the files listed in an artifact's `spec.json`; None if that file was changed."""
    try:
        written = (folder / SPEC).read_text(encoding="utf-8")
        content = json.loads(written)
        checksum = content.pop("sha256")
        right = key(content) == checksum and _checksummed_json(content) == written
        right = right and (content["kind"], key(content["spec"])) == (kind, name)
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
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if not path.is_dir()}
    return dict(sorted(files.items()))


# ---- list and garbage collection --------------------------------------------------------------------------------


def artefacts() -> list[Artefact]:
    """Returns all artifacts in the store, least recently used first.

    The clock of files moves in steps of some milliseconds, so artifacts can have the same time. They are then in the
    order of making: the specification of an artifact includes those of what it was made from, and so is longer.
    """
    out = []
    for folder in (folder for folder in store_root().glob("*/[!.]*") if folder.is_dir()):
        path = folder / SPEC
        try:
            size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        except FileNotFoundError:  # deleted by another process
            continue
        try:
            spec = dict(json.loads(read_bytes(path))["spec"])
        except (HarnessError, ValueError, KeyError, TypeError, RecursionError):
            spec = {"damaged": str(path)}  # listed and deleted like any other
        if (used := _last_use(folder)) is not None:
            out.append(Artefact(folder.parent.name, folder.name, folder, spec, size, used))
    return sorted(out, key=lambda artefact: (artefact.used, len(str(artefact.spec)), artefact.key))


def collect(days: float) -> list[Artefact]:
    """Deletes artifacts unused for some days and remains of killed processes; returns the deleted artifacts.

    Artifacts that are being made, and those that their makers have read, are kept. Interrupted downloads are kept for
    the same number of days, because they can be resumed.
    """
    limit = time.time() - days * 86400 if days else math.inf  # clocks of machines that share a store may differ
    locks.clear_remains(limit)
    living = being_made(store_root())
    used = {use for *_, holder in living for use in holder.uses}
    making = {f"{kind}/{name}" for kind, name, _ in living}
    gone = []
    for artefact in artefacts():
        whole = artefact.spec.get("shard of")  # see `harness.store.shards`
        if whole in making:
            continue
        joined = isinstance(whole, str) and (store_root() / whole / SPEC).is_file()
        old = artefact.used <= limit and f"{artefact.kind}/{artefact.key}" not in used
        if (joined or old) and _collected(artefact, math.inf if joined else limit):
            gone.append(artefact)
    return gone


def _collected(artefact: Artefact, limit: float) -> bool:
    """Deletes an artifact, unless it is being made or was used meanwhile; returns whether it did."""
    folder = artefact.path.parent
    lock = held(folder, artefact.key, f"deletes {artefact.kind}", wait=False)
    with suppress(HeldError), os_errors(folder, "written"), lock:
        if (used := _last_use(artefact.path)) is not None and used <= limit:
            _remove(artefact.path)
            return True
    return False


def _last_use(folder: Path) -> float | None:
    """Returns the time of an artifact's last use; None if it was deleted."""
    for path in (folder / SPEC, folder):
        with suppress(FileNotFoundError, NotADirectoryError):
            return path.stat().st_mtime
    return None


# ---- artifacts that are being made -------------------------------------------------------------------------------

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
def making_lock(folder: Path, key: str, why: str = "") -> Iterator[Lock]:
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


def being_made(root: Path) -> list[tuple[str, str, Holder]]:
    """Returns kind, key and maker of the artifacts of a store that are being made."""
    paths = [path for path in sorted(root.glob("*/.*.lock")) if locks.is_held(path)]
    return [(path.parent.name, path.name[1:].removesuffix(".lock"), locks.read(path)) for path in paths]
