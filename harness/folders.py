"""Public folders: all files below one folder of a repository, got as a whole and verified as a whole."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Any

from harness import archives, console, fetch
from harness.errors import HarnessError, suggestion
from harness.files import cache_root, sha256_file

ARCHIVE_BASE = "https://codeload.github.com"


@dataclass(frozen=True)
class Folder:
    """All files below one folder of a repository.

    Attributes
    ----------
    files : how many there are.
    sha256 : of a line `path NUL sha256 LF` for each of them, sorted by path; paths are relative to the folder.

    The other attributes and the errors are those of `Resource`.
    """

    repository: str
    commit: str
    path: str
    files: int
    sha256: str
    licence: str = ""

    def __post_init__(self) -> None:
        fetch.Resource(self.repository, self.commit, self.path, self.sha256, licence=self.licence)
        if not self.repository or type(self.files) is not int or self.files < 1:
            raise HarnessError(f"a folder needs a repository and its number of files, got {self.files!r}")

    @classmethod
    def from_config(cls, mapping: Mapping[str, Any], where: str) -> Folder:
        """A folder from configuration. Unknown, missing and malformed keys raise `HarnessError`, after `where`."""
        known = [field.name for field in fields(cls)]
        for key in mapping:
            if key not in known:
                raise HarnessError(f"{where}: unknown key {str(key)!r}; {suggestion(str(key), known)}")
        for key in known:
            if key not in mapping:
                raise HarnessError(f"{where}: key {key!r} is missing")
        try:
            return cls(**mapping)
        except HarnessError as error:
            raise HarnessError(f"{where}: {error}") from None

    @property
    def name(self) -> str:
        """What messages call it: `owner/name@commit/path/` with 7 digits of the commit."""
        return f"{self.repository}@{self.commit[:7]}/{self.path}/"

    @property
    def size(self) -> int:
        """Unknown: that of the archive it comes in changes with the program that packs it."""
        return 0

    @property
    def cached(self) -> Path:
        """Where the cache keeps it."""
        return cache_root() / "folders" / self._folder / self.path

    @property
    def _folder(self) -> str:
        return f"github.com/{self.repository}/{self.commit}"

    @property
    def _member(self) -> str:
        return f"{self.repository.rpartition('/')[2]}-{self.commit}/{self.path}/"

    @property
    def _address(self) -> str:
        base = os.environ.get("HARNESS_ARCHIVE_BASE") or ARCHIVE_BASE
        return f"{base.rstrip('/')}/{self.repository}/tar.gz/{self.commit}"


def get_folder(folder: Folder, progress: fetch.Progress | None, timeout: float) -> None:
    """Put a folder into the cache, all of it and verified or not at all."""
    part = folder.cached.parent / f".{folder.sha256}.part"
    with fetch._reported(folder.cached, "written"):
        part.parent.mkdir(parents=True, exist_ok=True)
        with fetch._locked(part.parent):
            if _is_cached_folder(folder, progress or fetch.LOG.warning):
                return None
            say = progress or fetch.LOG.info
            if archive := fetch._mirrored(folder)[1]:
                say(f"unpacking {archive}")
                return _unpack(folder, archive, str(archive))
            if fetch._offline():
                raise fetch._unavailable(folder, "HARNESS_OFFLINE forbids the network")
            say(f"downloading {folder._address}")
            fetch._complete(folder, part, timeout)
            try:
                return _unpack(folder, part, folder._address)
            finally:
                part.unlink()


def _is_cached_folder(folder: Folder, warn: fetch.Progress) -> bool:
    """Whether the cache holds the folder as it should be. A damaged one is removed."""
    if not folder.cached.is_dir():
        return False
    if fetch._stamp(folder) in fetch._verified:
        return True
    inside = (path for path in folder.cached.rglob("*") if not path.is_dir())
    found = _digest({path.relative_to(folder.cached).as_posix(): sha256_file(path) for path in inside})
    if found == folder.sha256:
        fetch._verified.add(fetch._stamp(folder))
        return True
    shutil.rmtree(folder.cached)
    warn(f"{folder.name}: the cached folder was damaged (sha256 {found}), getting it again")
    return False


def _digest(checksums: Mapping[str, str]) -> str:
    listed = sorted(path.encode() + b"\0" + sha256.encode() + b"\n" for path, sha256 in checksums.items())
    return hashlib.sha256(b"".join(listed)).hexdigest()


def _unpack(folder: Folder, archive: Path, source: str) -> None:
    """Stream once through an archive and take the folder's files, to paths below one of our own making."""
    temporary = folder.cached.parent / f".{secrets.token_hex(8)}.tmp"
    checksums: dict[str, str] = {}
    try:
        told = console.progress(f"unpacking {folder.name}, files", folder.files)
        with archives.unpacked(archive) as (content, tar), told as shown:
            for member in archives.members(content, tar, source):
                name = member.name.removeprefix("./")
                if not name.startswith(folder._member) or member.isdir():
                    continue
                if len(checksums) == folder.files:
                    raise fetch._wrong(folder, f"{folder.files} files", "more", source)
                inside = name.removeprefix(folder._member)
                checksums[inside] = _write(temporary / inside, archives.content(tar, member, source))
                shown.add()
        if (found := _digest(checksums)) != folder.sha256:
            said = f"{len(checksums)} files with sha256 {found}"
            raise fetch._wrong(folder, f"{folder.files} files with sha256 {folder.sha256}", said, source)
        temporary.replace(folder.cached)
        fetch._verified.add(fetch._stamp(folder))
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write(path: Path, content: IO[bytes]) -> str:
    """Write a new file; its checksum. What goes wrong in reading is left to the caller."""
    digest = hashlib.sha256()
    with fetch._reported(path, "written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(exist_ok=False)
    while chunk := content.read(fetch.CHUNK):
        digest.update(chunk)
        with fetch._reported(path, "written"), path.open("ab") as stream:
            stream.write(chunk)
    return digest.hexdigest()
