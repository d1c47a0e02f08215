"""Installed distributions that modules come from: their versions, their content, and what they require.

`importlib.metadata` would read the file lists of all distributions, which takes half a second.
"""

from __future__ import annotations

import hashlib
import os
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from harness.io.files import sha256

_INSTALLED = {"site-packages", "dist-packages"}
_REQUIRED = re.compile(rb"^Requires-Dist: *([\w.-]+)(?![^\n]*\bextra *==)", re.M)
_SLACK = 2.0  # seconds between the writing of a file and of RECORD, the last one of an installation


class Distribution(NamedTuple):
    """An installed distribution: its name, its version, and the folder with its metadata."""

    name: str
    version: str
    info: Path


@cache
def distribution(top: str, place: Path) -> Distribution | None:
    """Returns the distribution that an installed module comes from; None for other modules.

    Parameters
    ----------
    top : name of the module or package.
    place : its file or folder.
    """
    site = next((folder for folder in place.parents if folder.name in _INSTALLED), None)
    if site is None:
        return None
    known = _distributions(site)
    own = [known[_plain(top)]] if _plain(top) in known else []
    asked = [(package, holds) for among in (own, known.values()) for holds in (_says, _lists) for package in among]
    return next((package for package, holds in asked if holds(package.info, top)), None)


def with_required(root: Distribution) -> Iterable[Distribution]:
    """Yields a distribution and all installed ones that it requires, directly or not, without those of its extras."""
    waiting, seen = [root], {root}
    while waiting:
        yield (last := waiting.pop())
        new = {each for name in _required(last.info) if (each := _installed(last.info.parent, name))} - seen
        seen |= new
        waiting += new


@cache
def content(info: Path) -> str:
    """Returns a hash of the files of a distribution, as listed at its installation; "" without such a list.

    A file that was changed or deleted afterwards counts with its present content. Compiled Python (`.pyc`), scripts and
    metadata do not count, since they depend on the place and the tool of the installation.
    """
    try:
        record = info / "RECORD"
        last, lines = record.stat().st_mtime + _SLACK, record.read_bytes().split(b"\n")
    except OSError:
        return ""
    site = f"{info.parent}{os.sep}"
    files = []
    for line in lines:
        if line.count(b",") < 2 or line.startswith(b"../") or b".dist-info/" in line or b".pyc," in line:
            continue
        name, claimed, size = line.rstrip(b"\r").rsplit(b",", 2)
        path = site + os.fsdecode(name)
        try:
            state = os.stat(path)  # noqa: PTH116  (of thousands of files)
            if state.st_mtime > last or (size and state.st_size != int(size)):
                claimed = _claim(path)
        except (OSError, ValueError):
            claimed = b"missing"
        files.append(name + b"," + claimed)
    return sha256(b"\n".join(sorted(files)))


def _claim(path: str) -> bytes:
    """Returns the checksum of a file in the form of RECORD."""
    with open(path, "rb") as stream:  # noqa: PTH123
        digest = hashlib.file_digest(stream, "sha256").digest()
    return b"sha256=" + urlsafe_b64encode(digest).rstrip(b"=")


def forget() -> None:
    """Clears the caches of this module."""
    for function in (content, distribution, _distributions, _required, _top_level):
        function.cache_clear()


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


@cache
def _distributions(site: Path) -> dict[str, Distribution]:
    """Returns the distributions installed in a folder, by plain names."""
    out = {}
    for path in sorted(site.iterdir()):
        if path.suffix in (".dist-info", ".egg-info"):
            name, _, version = path.stem.partition("-")
            out[_plain(name)] = Distribution(name, version.partition("-")[0], path)
    return out


def _installed(site: Path, name: str) -> Distribution | None:
    """Returns a distribution by its name: of a folder of installed ones, or of another one on the path."""
    import sys

    folders = [site, *(Path(entry) for entry in sys.path if Path(entry).name in _INSTALLED)]
    known = (_distributions(folder).get(_plain(name)) for folder in folders if folder.is_dir())
    return next((package for package in known if package), None)


@cache
def _required(info: Path) -> list[str]:
    """Returns the names of the distributions that one requires."""
    try:
        return [name.decode() for name in _REQUIRED.findall((info / "METADATA").read_bytes())]
    except OSError:
        return []


def _says(info: Path, top: str) -> bool:
    return top in _top_level(info)


@cache
def _top_level(info: Path) -> frozenset[str]:
    """Returns the modules declared by a distribution; many declare none."""
    try:
        return frozenset((info / "top_level.txt").read_text(encoding="utf-8").split())
    except OSError:
        return frozenset()


def _lists(info: Path, top: str) -> bool:
    """Returns whether a module is among the files of a distribution."""
    try:
        record = (info / "RECORD").read_bytes()
    except OSError:
        return False
    return any(f"\n{top}{end}".encode() in b"\n" + record for end in ("/", ".py,", ".cpython", ".abi3"))
