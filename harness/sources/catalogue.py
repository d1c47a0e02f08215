"""Files that configurations name: of a source in `conf/source/`, embedded ones, and a person's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, suggestion
from harness.io.checks import check_keys, check_types
from harness.io.config import load
from harness.io.files import data_root
from harness.sources.resource import Resource


def resource(mapping: Mapping[str, Any], where: str, folder: Path | None = None) -> Resource | Path:
    """The file that `{source: NAME, path: P}`, `{embedded: P}` or `{file: P}` names.

    A source is a configuration of its own: `conf/source/NAME.yaml`, with repository, commit, licence and the
    checksum and size of each file.

    Parameters
    ----------
    folder : where a relative `file` begins: the folder of the configuration that names it. Default: the current one.
    """
    if not isinstance(mapping, Mapping):
        raise HarnessError(f"{where}: expected keys and values such as source and path, found {mapping!r}")
    if "embedded" in mapping:
        check_keys(mapping, ("embedded",), (), where)
        return data_root() / str(mapping["embedded"])
    if "file" in mapping:
        check_keys(mapping, ("file",), (), where)
        check_types(mapping, {"file": str}, where)
        if not mapping["file"].isprintable():
            raise HarnessError(f"{where}: key 'file' is {mapping['file']!r}, expected a path")
        return _beside(Path(str(mapping["file"])).expanduser(), folder)
    if not mapping:
        raise HarnessError(f"{where}: names no file; expected 'file', or 'source' and 'path', or 'embedded'")
    check_keys(mapping, ("source", "path"), (), where)
    source, source_path = load("source", str(mapping["source"]), where)
    check_keys(source, ("title", "licence", "files"), ("repository", "commit", "url", "by_hand"), source_path)
    check_types(source, {"files": dict}, source_path)
    path = str(mapping["path"])
    if path not in source["files"]:
        known = suggestion(path, source["files"])
        raise HarnessError(f"{where}: {path!r} is not a file of source {mapping['source']!r}; {known}")
    keys: dict[str, Any] = {
        key: source[key] for key in ("repository", "commit", "licence", "url", "by_hand") if key in source
    }
    entry = source["files"][path]
    check_keys(entry, ("sha256", "size"), (), f"{source_path}: files: {path}")
    return Resource.from_config({**keys, "path": path, **entry}, source_path)


def _beside(path: Path, folder: Path | None) -> Path:
    """A path that begins in `folder`; without `..` where that means the same, as messages name it."""
    if folder is None:
        return path
    joined = folder / path
    short = Path(os.path.normpath(joined))
    return short if os.path.realpath(short) == os.path.realpath(joined) else joined


def source_files(name: str) -> list[Resource]:
    """Every file of a source."""
    source, where = load("source", name)
    check_types(source, {"files": dict}, where)
    files = [resource({"source": name, "path": path}, f"source {name}") for path in source.get("files", {})]
    return [file for file in files if isinstance(file, Resource)]
