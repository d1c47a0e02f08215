"""Data that a person brings: checked on arrival, then kept in the cache where collections and corpora look for it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from harness.collections.readers import arqmath, leansearch, ntcir, saber
from harness.errors import HarnessError, suggestion
from harness.io import config
from harness.io.files import sha256_file
from harness.io.temporary import new_file
from harness.sources import catalogue
from harness.sources.resource import Folder, Resource

CHECKS: Mapping[str, Callable[[Path], None]] = {
    "arqmath-posts": arqmath.check,
    "leansearch": leansearch.check,
    "ntcir-12": ntcir.check,
    "saber-math-data": saber.check,
}


def by_hand() -> list[str]:
    """Returns the sources whose files a person must bring."""
    return [name for name in config.names("source") if config.load("source", name)[0].get("by_hand")]


def accept(path: Path, source: str) -> Path:
    """Checks a file that belongs to a source and copy it into the cache; where it lies there.

    Raises
    ------
    HarnessError
        The source is unknown or is no manual download, or the file cannot be read, is not what the source needs, or
        cannot be copied.
    """
    mapping, _ = config.load("source", source)
    if not mapping.get("by_hand"):
        raise HarnessError(f"source {source!r} is fetched, not downloaded manually; {suggestion(source, by_hand())}")
    wanted = _wanted(path, source, list(mapping["files"]))
    resource = catalogue.resource({"source": source, "path": wanted}, f"source {source}")
    if not isinstance(resource, Resource):
        raise HarnessError(f"source {source!r}: {wanted} is no file with manual download")
    if not path.is_file():
        raise HarnessError(f"{path}: {'is a folder, expected a file' if path.is_dir() else 'no such file'}")
    try:
        found = sha256_file(path) if resource.sha256 else ""
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read: {error.strerror or error}") from None
    if found != resource.sha256:
        raise HarnessError(f"{path}: expected sha256 {resource.sha256} for {wanted} of {source}, found {found}")
    if source in CHECKS:
        CHECKS[source](path)
    _copy(path, resource.cached)
    return resource.cached


def check_arrived(files: Iterable[Resource | Folder]) -> None:
    """Raises HarnessError if a file that came from the hub is not what its source needs."""
    arrived = {file for file in files if isinstance(file, Resource) and file.hub}
    for name, check in CHECKS.items() if arrived else ():
        for file in arrived.intersection(catalogue.source_files(name)):
            check(file.cached)


def _wanted(path: Path, source: str, files: list[str]) -> str:
    """Returns which of a source's files this is: the only one, or that of the same name."""
    same = [file for file in files if Path(file).name == path.name]
    if len(files) == 1 or len(same) == 1:
        return (same or files)[0]
    raise HarnessError(f"{path}: source {source!r} has the files {', '.join(files)}; name it as one of them")


def _copy(path: Path, target: Path) -> None:
    try:
        with path.open("rb") as content, new_file(target.parent) as (temporary, stream):
            shutil.copyfileobj(content, stream, 1 << 20)
            stream.flush()
            os.fsync(stream.fileno())
            temporary.replace(target)
    except OSError as error:
        raise HarnessError(f"{target}: cannot be written: {error.strerror or error}") from None
