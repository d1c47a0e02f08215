"""What takes long to make, such as indexes and models: kept under the hash of what it was made from."""

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
LARGE = 1 << 20  # bytes; a larger file is read once in a process to be verified, unless it changes


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
    """Returns where artefacts lie: `store/` in the cache folder."""
    return cache_root() / "store"


def key(spec: Mapping[str, Any]) -> str:
    """Returns the hash of a specification: equal contents have equal keys, whatever their order.

    Raises
    ------
    HarnessError
        The specification holds something that JSON cannot write.
    """
    try:
        plain = json.loads(json.dumps(spec, allow_nan=False))  # keys are text, as they are when it is read again
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    except (TypeError, ValueError) as error:
        raise HarnessError(f"artefact: specification cannot be written as JSON: {error}") from None
    return sha256(text.encode())


def get_or_build(kind: str, spec: Mapping[str, Any], build: Callable[[Path], None]) -> Path:
    """Returns the folder of an artefact, built if it is not there yet.

    `build` fills the empty folder that it is given. It appears under its key only when it is complete: a process
    that is killed leaves nothing half-made, and two processes that want the same artefact build it once. Its files are
    verified whenever it is asked for; one that is damaged is built anew, with a line that says so. A store that is
    complete is only read.
    """
    name = key(spec)
    folder = store_root() / kind / name
    if damage(folder, kind):
        _build(folder, kind, name, spec, build)
    with suppress(OSError):  # of a store that may not be written
        os.utime(folder / SPEC)  # when it was last used, for `collect`
    cost.artefact(folder)
    return folder


def _build(folder: Path, kind: str, name: str, spec: Mapping[str, Any], build: Callable[[Path], None]) -> None:
    with _locked(folder.parent, name, damage(folder, kind)):
        if not (found := damage(folder, kind)):  # somebody else built it meanwhile
            return
        if found != ABSENT:
            say(f"{folder}: {found}; building it anew")
        making = folder.parent / f".{name}.making"
        try:
            shutil.rmtree(making, ignore_errors=True)  # what a killed process left
            if os.path.lexists(folder):  # out of sight in one step, so that nobody finds half of it
                folder.rename(making)
                shutil.rmtree(making) if making.is_dir() else making.unlink()
            making.mkdir(parents=True)
            with progress(f"making {kind}"):
                build(making)
            write_atomic(making / SPEC, _manifest(making, kind, spec))
            making.rename(folder)
        except OSError as error:
            shutil.rmtree(making, ignore_errors=True)
            # NumPy says how much it could write, not why not all.
            why = error.strerror or f"disk full, or files may not grow so large ({error})"
            raise HarnessError(f"{error.filename or folder}: {why}") from None
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise


# ---- what is kept is what was written ---------------------------------------------------------------------------


def _manifest(folder: Path, kind: str, spec: Mapping[str, Any]) -> str:
    """Returns the content of `spec.json`: what an artefact was made from and its files, with a checksum of all this."""
    files = {
        name: {"size": path.stat().st_size, "sha256": sha256_file(path), "xxh3": fast_checksum(path)}
        for name, path in _files(folder).items()
    }
    return _text({"kind": kind, "spec": spec, "files": files})


def _text(content: Mapping[str, Any]) -> str:
    plain = json.loads(json.dumps(content))  # as it is when it is read again
    return json.dumps({**plain, "sha256": key(plain)}, indent=1, sort_keys=True)


def damage(folder: Path, kind: str) -> str:
    """Returns the fault of an artefact, by size and fast checksums; `ABSENT` if it is missing, "" if whole.

    Raises
    ------
    HarnessError
        It is there and may not be read.
    """
    try:
        if not os.path.lexists(folder):
            return ABSENT
        if not (folder / SPEC).is_file():
            return f"damaged: it has no {SPEC}"
        expected = _expected(folder, kind)
        if expected is None:
            return f"damaged: {SPEC} is not as it was written"
        found = _files(folder)
        found.pop(SPEC)
        for name in sorted(expected.keys() ^ found.keys()):
            return f"damaged: {name!r} is {'missing' if name in expected else 'no file of it'}"
        for name, path in found.items():
            if not _is_whole(path, expected[name]):
                return f"damaged: {name!r} is not as it was written"
    except PermissionError as error:
        raise HarnessError(f"{error.filename or folder}: cannot be read: {error.strerror}") from None
    except OSError as error:  # a fault of the disk, or it was just deleted
        return f"damaged: {error.filename or folder} cannot be read: {error.strerror or error}"
    return ""


def _expected(folder: Path, kind: str) -> dict[str, Mapping[str, Any]] | None:
    """Returns the files of an artefact as its `spec.json` has them; None if that is not the one that was written."""
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
    """Returns the XXH3 of a file, 128 bits as hexadecimal digits: finds accidents, in a tenth of SHA-256's time."""
    state = xxhash.xxh3_128()
    with path.open("rb", buffering=0) as stream:
        while block := stream.read(LARGE):
            state.update(block)
    return state.hexdigest()


def _files(folder: Path) -> dict[str, Path]:
    """Returns the files of an artefact by their paths in it, sorted."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if not path.is_dir()}
    return dict(sorted(found.items()))


# ---- what is no longer used -------------------------------------------------------------------------------------


@contextmanager
def _locked(folder: Path, name: str, found: str = ABSENT) -> Iterator[None]:
    """One process at a time works on an artefact; the lock ends with the process."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / f".{name}.lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        why = "" if found == ABSENT else f"; {name} there is {found}, and has to be built anew"
        raise HarnessError(f"{folder}: cannot be written: {error.strerror or error}{why}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def artefacts() -> list[Artefact]:
    """Returns everything in the store, the longest unused first."""
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
    """Deletes artefacts not used for so many days, and what killed processes left; the artefacts deleted.

    Downloads that were broken off are kept for as long, as a new one goes on where they end.
    """
    limit = time.time() - days * 86400
    temporary.clear(limit)
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
