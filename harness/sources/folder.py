"""Public folders: all files below one folder of a repository, fetched and verified as a whole."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from harness.errors import os_errors
from harness.io import archives, console, staging_names
from harness.io.files import sha256_file
from harness.io.temporary import fetching
from harness.sources import cache, network
from harness.sources.resource import RepositoryFolder


def get_folder(folder: RepositoryFolder, progress: cache.Progress | None, timeout: float) -> None:
    """Writes a folder to the cache atomically, after verification."""
    part = folder.cached.parent / f".{folder.sha256}.part"
    with os_errors(folder.cached, "written"):
        part.parent.mkdir(parents=True, exist_ok=True)
        with fetching(part.parent):
            if _is_cached_folder(folder, progress or cache.LOG.warning):
                return None
            say = progress or cache.LOG.info
            if archive := cache.mirrored(folder)[1]:
                say(f"unpacking {archive}")
                return _unpack(folder, archive, str(archive))
            if reason := network.forbidden():
                raise cache.unavailable(folder, reason)
            say(f"downloading {folder.address}")
            network.completed(folder, part, timeout)
            try:
                return _unpack(folder, part, folder.address)
            finally:
                part.unlink()


def _is_cached_folder(folder: RepositoryFolder, warn: cache.Progress) -> bool:
    """Returns whether the cache has the right folder; removes a damaged one."""
    if not folder.cached.is_dir():
        return False
    if cache.stamp_of(folder) in cache.VERIFIED:
        return True
    inside = (path for path in folder.cached.rglob("*") if not path.is_dir())
    digest = _checksum_of({path.relative_to(folder.cached).as_posix(): sha256_file(path) for path in inside})
    if digest == folder.sha256:
        cache.VERIFIED.add(cache.stamp_of(folder))
        return True
    shutil.rmtree(folder.cached)
    warn(f"{folder.name}: the cached folder was damaged (sha256 {digest}), getting it again")
    return False


def _checksum_of(checksums: Mapping[str, str]) -> str:
    listed = sorted(path.encode() + b"\0" + sha256.encode() + b"\n" for path, sha256 in checksums.items())
    return hashlib.sha256(b"".join(listed)).hexdigest()


def _unpack(folder: RepositoryFolder, archive: Path, source: str) -> None:
    """Extracts the folder's files from an archive in one pass, to paths below a new folder."""
    temporary = staging_names.new_name(folder.cached)
    checksums: dict[str, str] = {}
    try:
        told = console.progress(f"unpacking {folder.name}, files", folder.files)
        with archives.unpacked(archive) as (content, tar), told as shown:
            for member in archives.members(content, tar, source):
                name = member.name.removeprefix("./")
                if not name.startswith(folder._member) or member.isdir():
                    continue
                if len(checksums) == folder.files:
                    raise cache.mismatch(folder, f"{folder.files} files", "more", source)
                inside = name.removeprefix(folder._member)
                checksums[inside] = _write(temporary / inside, archives.content(tar, member, source))
                shown.add()
        if (digest := _checksum_of(checksums)) != folder.sha256:
            said = f"{len(checksums)} files with sha256 {digest}"
            raise cache.mismatch(folder, f"{folder.files} files with sha256 {folder.sha256}", said, source)
        temporary.replace(folder.cached)
        cache.VERIFIED.add(cache.stamp_of(folder))
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write(path: Path, content: IO[bytes]) -> str:
    """Writes a new file and returns its checksum; read errors are left to the caller."""
    digest = hashlib.sha256()
    with os_errors(path, "written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(exist_ok=False)
    while chunk := content.read(cache.CHUNK):
        digest.update(chunk)
        with os_errors(path, "written"), path.open("ab") as stream:
            stream.write(chunk)
    return digest.hexdigest()
