"""Sources with terms of use, which a user accepts once, and files distributed in parts."""

from __future__ import annotations

from pathlib import Path

from harness.errors import HarnessError, os_errors
from harness.io import staging_names
from harness.io.files import cache_root, read_bytes, sha256_file, write_atomic
from harness.sources import cache, catalogue, fetch


def accepted(name: str) -> bool:
    """Returns whether the current terms of a source were accepted; true if it has none."""
    terms, path = catalogue.terms(name), _acceptance_path(name)
    return not terms or (path.is_file() and read_bytes(path) == f"{terms}\n".encode())


def accept(name: str) -> None:
    """Records in the cache that the user has accepted the terms of a source."""
    write_atomic(_acceptance_path(name), f"{catalogue.terms(name)}\n")


def _acceptance_path(name: str) -> Path:
    return cache_root() / "accepted" / f"{name}.txt"


def whole(name: str, progress: cache.Progress | None = None) -> Path:
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
    parts = fetch.fetch_resources(catalogue.source_files(name), progress=progress)
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
