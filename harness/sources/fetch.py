"""Public files and folders, named by source, path and SHA-256: from the cache, a mirror or the network; their terms."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import IO

from harness.errors import HarnessError, os_errors, reason_of
from harness.io import archives, console, staging_names
from harness.io.files import cache_root, read_bytes, sha256_file, write_atomic
from harness.io.locks import fetching
from harness.sources import cache, catalogue, hub, network, packages
from harness.sources.cache import CHUNK, LOG, TIMEOUT, Progress, is_cached, mirrored, put, stamp_of
from harness.sources.resource import RepositoryFolder, Resource


def fetch_resources(
    resources: Iterable[Resource | RepositoryFolder], *, progress: Progress | None = None, timeout: float = TIMEOUT
) -> list[Path]:
    """Returns the local paths of verified files and folders, in the order of `resources`.

    An archive is unpacked once for all files.

    Searches the cache, then `HARNESS_MIRROR`, then (for files of packages) the installed packages, then (unless
    `HARNESS_OFFLINE` is set) the network, where `timeout` is the maximum number of seconds without data; packages are
    downloaded by pip, with its own time-outs. If a file fails, those fetched before it stay in the cache. A missing
    file or a wrong checksum raises `HarnessError`, which lists the places searched and what to do.
    """
    wanted = list(resources)
    files: dict[Path, Resource] = {}
    for resource in wanted:
        if isinstance(resource, Resource) and files.setdefault(resource.cached, resource).sha256 != resource.sha256:
            raise HarnessError(f"{resource.name}: asked for with two checksums")
    archives: dict[Path, list[Resource]] = {}
    elsewhere: list[Resource] = []
    for resource in files.values():
        if is_cached(resource, progress or LOG.warning):
            continue
        plain, archive = mirrored(resource)
        if plain is not None:
            with os_errors(plain, "read"), plain.open("rb") as content:
                put(resource, content, str(plain))
        elif archive is not None:
            archives.setdefault(archive, []).append(resource)
        elif resource.package and (plain := packages.verified(resource)):
            with os_errors(plain, "read"), plain.open("rb") as content:
                put(resource, content, str(plain))
        else:
            elsewhere.append(resource)
    for archive, members in archives.items():
        (progress or LOG.info)(f"unpacking {archive}")
        elsewhere += _extract(archive, members)
    packaged: dict[str, list[Resource]] = {}
    for resource in elsewhere:
        if resource.hub:
            _of_hub(resource)
        elif resource.package:
            packaged.setdefault(resource.package, []).append(resource)
        else:
            network.download(resource, progress or LOG.info, timeout)
    for together in packaged.values():
        packages.download(together, progress or LOG.info)
    for folder in dict.fromkeys(entry for entry in wanted if not isinstance(entry, Resource)):
        _get_folder(folder, progress, timeout)
    return [resource.cached for resource in wanted]


def fetch_one(resource: Resource, *, progress: Progress | None = None, timeout: float = TIMEOUT) -> Path:
    """Returns the local path of one verified file; see `fetch_resources`."""
    return fetch_resources([resource], progress=progress, timeout=timeout)[0]


def resource_state(resource: Resource | RepositoryFolder) -> str:
    """Returns `here` (in the cache or mirror, or its archive or package is), `fetchable`, `manual download: HOW`, or
    `needs the data set NAME (hub)`.

    Reads no file. A `HARNESS_MIRROR` that does not exist raises `HarnessError`.
    """
    with os_errors(resource.cached, "read"):
        by_hand = resource.by_hand if isinstance(resource, Resource) else ""
        here = resource.cached.is_file() if isinstance(resource, Resource) else resource.cached.is_dir()
        here = here or any(mirrored(resource))
        if here or (isinstance(resource, Resource) and resource.package and packages.installed(resource)):
            return "here"
    if isinstance(resource, Resource) and resource.hub:
        return f"needs the data set {resource.hub.partition('@')[0]} (hub)"
    return f"manual download: {reason_of(by_hand)}" if by_hand else "fetchable"


def _of_hub(resource: Resource) -> None:
    """Writes the rows of a hub data set to the cache, in order, as JSON lines."""
    name, _, revision = resource.hub.partition("@")
    try:
        put(resource, BytesIO(b"".join(hub.json_lines(name, revision))), resource.hub)
    except HarnessError as error:
        raise HarnessError(f"{resource.name}: {error}; or bring it yourself: {reason_of(resource.by_hand)}") from None


def _extract(archive: Path, resources: list[Resource]) -> list[Resource]:
    """Extracts the wanted members of an archive to the cache in one pass; returns the resources that it lacks.

    Only members with exactly the wanted names are extracted, to paths determined by us.
    """
    wanted = {resource._member: resource for resource in resources}
    told = console.progress(f"unpacking {archive.name}, files", len(wanted))
    with archives.unpacked(archive) as (content, tar), told as shown:
        for member in archives.members(content, tar, archive):
            if resource := wanted.pop(member.name.removeprefix("./"), None):
                put(resource, archives.content(tar, member, archive), str(archive))
                shown.add()
            if not wanted:
                break
    return list(wanted.values())


# ---- folders of repositories ------------------------------------------------------------------------------------


def _get_folder(folder: RepositoryFolder, progress: Progress | None, timeout: float) -> None:
    """Writes a folder to the cache atomically, after verification."""
    part = folder.cached.parent / f".{folder.sha256}.part"
    with os_errors(folder.cached, "written"):
        part.parent.mkdir(parents=True, exist_ok=True)
        with fetching(part.parent):
            if _is_cached_folder(folder, progress or LOG.warning):
                return None
            say = progress or LOG.info
            if archive := mirrored(folder)[1]:
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


def _is_cached_folder(folder: RepositoryFolder, warn: Progress) -> bool:
    """Returns whether the cache has the right folder; removes a damaged one."""
    if not folder.cached.is_dir():
        return False
    if stamp_of(folder) in cache.VERIFIED:
        return True
    inside = (path for path in folder.cached.rglob("*") if not path.is_dir())
    digest = _folder_checksum({path.relative_to(folder.cached).as_posix(): sha256_file(path) for path in inside})
    if digest == folder.sha256:
        cache.VERIFIED.add(stamp_of(folder))
        return True
    shutil.rmtree(folder.cached)
    warn(f"{folder.name}: the cached folder was damaged (sha256 {digest}), getting it again")
    return False


def _folder_checksum(checksums: Mapping[str, str]) -> str:
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
        if (digest := _folder_checksum(checksums)) != folder.sha256:
            said = f"{len(checksums)} files with sha256 {digest}"
            raise cache.mismatch(folder, f"{folder.files} files with sha256 {folder.sha256}", said, source)
        temporary.replace(folder.cached)
        cache.VERIFIED.add(stamp_of(folder))
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write(path: Path, content: IO[bytes]) -> str:
    """Writes a new file and returns its checksum; read errors are left to the caller."""
    digest = hashlib.sha256()
    with os_errors(path, "written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(exist_ok=False)
    while chunk := content.read(CHUNK):
        digest.update(chunk)
        with os_errors(path, "written"), path.open("ab") as stream:
            stream.write(chunk)
    return digest.hexdigest()


# ---- terms of use, and files in parts ---------------------------------------------------------------------------


def accepted(name: str) -> bool:
    """Returns whether the current terms of a source were accepted; true if it has none."""
    terms, path = catalogue.terms(name), _acceptance_path(name)
    return not terms or (path.is_file() and read_bytes(path) == f"{terms}\n".encode())


def accept(name: str) -> None:
    """Records in the cache that the user has accepted the terms of a source."""
    write_atomic(_acceptance_path(name), f"{catalogue.terms(name)}\n")


def _acceptance_path(name: str) -> Path:
    return cache_root() / "accepted" / f"{name}.txt"


def whole(name: str, progress: Progress | None = None) -> Path:
    """Returns the verified file formed by the parts of a source; joins the parts if necessary.

    Raises
    ------
    HarnessError
        The terms were not accepted, the source's files are not parts, a part is unavailable, or the checksum is wrong.
    """
    described = catalogue.joined(name)
    if described is None:
        raise HarnessError(f"source {name!r} holds no file in parts")
    if not accepted(name):
        raise HarnessError(f"source {name!r} has terms of use: harness fetch {name} --accept")
    path = cache_root() / "joined" / name / described.file
    if path.is_file() and sha256_file(path) == described.sha256:
        return path
    parts = fetch_resources(catalogue.source_files(name), progress=progress)
    with os_errors(path, "written"), staging_names.opened(path) as (temporary, stream):
        for part in parts:
            with part.open("rb") as content:
                while chunk := content.read(1 << 20):
                    stream.write(chunk)
        stream.flush()
        if (digest := sha256_file(temporary)) != described.sha256:
            raise HarnessError(f"source {name!r}: expected sha256 {described.sha256} of {path.name}, found {digest}")
        temporary.rename(path)
    return path
