"""Public files and folders, each named by source, commit, path and SHA-256: from the cache, a mirror or the network."""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import HarnessError, os_errors, reason_of
from harness.io import archives, console
from harness.sources import hub, packages
from harness.sources.cache import LOG, TIMEOUT, Progress, is_cached, mirrored, put
from harness.sources.network import download
from harness.sources.resource import Resource

if TYPE_CHECKING:
    from harness.sources.resource import RepositoryFolder


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
            download(resource, progress or LOG.info, timeout)
    for together in packaged.values():
        packages.download(together, progress or LOG.info)
    for folder in dict.fromkeys(entry for entry in wanted if not isinstance(entry, Resource)):
        from harness.sources.folder import get_folder

        get_folder(folder, progress, timeout)
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
