"""Validates manually downloaded files and copies them to the cache, where collections and corpora find them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from harness.collections import forms
from harness.errors import HarnessError, os_errors, suggestion
from harness.io import config, rehearsal, staging_names
from harness.io.files import sha256_file
from harness.sources import catalogue
from harness.sources.resource import RepositoryFolder, Resource


def by_hand() -> list[str]:
    """Returns the sources whose files must be downloaded manually."""
    return [name for name in config.names("source") if config.load("source", name)[0].get("by_hand")]


def accept(path: Path, source: str) -> Path:
    """Checks a file of a source and copies it to the cache; returns its path there.

    Raises
    ------
    HarnessError
        The source is unknown or is not a manual download, or the file is unreadable, is the wrong file, or cannot be
        copied.
    """
    rehearsal.refuse_resource(path)
    mapping, _ = config.load("source", source)
    if not mapping.get("by_hand"):
        raise HarnessError(f"source {source!r} is fetched, not downloaded manually; {suggestion(source, by_hand())}")
    wanted = _wanted(path, source, list(mapping["files"]))
    resource = catalogue.resource({"source": source, "path": wanted}, f"source {source}")
    if not isinstance(resource, Resource):
        raise HarnessError(f"source {source!r}: {wanted} is not a manual download")
    if not path.is_file():
        raise HarnessError(f"{path}: {'is a folder, expected a file' if path.is_dir() else 'no such file'}")
    checksum = sha256_file(path) if resource.sha256 else ""
    if checksum != resource.sha256:
        raise HarnessError(f"{path}: expected sha256 {resource.sha256} for {wanted} of {source}, found {checksum}")
    for name, check in forms.checks():
        if name == source:
            check(path)
    _copy_to_cache(path, resource.cached)
    return resource.cached


def check_arrived(files: Iterable[Resource | RepositoryFolder]) -> None:
    """Raises HarnessError if a file downloaded from the hub fails the check of its source."""
    arrived = {file for file in files if isinstance(file, Resource) and file.hub}
    for name, check in forms.checks() if arrived else ():
        for file in arrived.intersection(catalogue.source_files(name)):
            check(file.cached)


def _wanted(path: Path, source: str, files: list[str]) -> str:
    """Returns the source's file that a path stands for: the only one, or the one with the same name."""
    same = [file for file in files if Path(file).name == path.name]
    if len(files) == 1 or len(same) == 1:
        return (same or files)[0]
    raise HarnessError(f"{path}: source {source!r} has the files {', '.join(files)}; name it as one of them")


def _copy_to_cache(path: Path, target: Path) -> None:
    with os_errors(target, "written"), path.open("rb") as content, staging_names.opened(target) as (made, stream):
        shutil.copyfileobj(content, stream, 1 << 20)
        stream.flush()
        os.fsync(stream.fileno())
        made.replace(target)
