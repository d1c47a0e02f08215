"""Configuration as data: named YAML files in groups (`conf/collection/arqmath-1-task1.yaml`), ours and the user's."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

import yaml

from harness.errors import HarnessError, format_error, refuse, suggestion
from harness.fetch import Resource
from harness.files import data_root, read_bytes

_DEEPEST = 50  # levels of a configuration; ours have six
_MOST_BYTES = 1 << 22
_MOST = 100_000  # nodes with every alias written out
_NEEDED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*|[^\n]*/[^\n]*")  # a module, or a file
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_LOADER):  # type: ignore[misc, valid-type]
    """YAML in which a key given twice is an error, not the last one's victory."""


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, int] = {}
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        line = key_node.start_mark.line + 1
        if not isinstance(key, str | int | float | bool | None):
            problem = f"a key must be text or a number, found {key!r}"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
        if key in seen:
            raise yaml.MarkedYAMLError(
                problem=f"key {key!r} is on line {seen[key]} already", problem_mark=key_node.start_mark
            )
        seen[key] = line
    return dict(loader.construct_pairs(node, deep=True))


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def folders() -> tuple[Path, ...]:
    """The configuration folders: ours, then the user's (`HARNESS_CONF`, else `conf/` below the current folder).

    Raises
    ------
    HarnessError
        `HARNESS_CONF` is no folder, or the current folder was deleted.
    """
    try:
        here = Path.cwd()
    except OSError:
        raise HarnessError("the current folder is not there any more; go to another one") from None
    ours = data_root() / "conf"
    named = os.environ.get("HARNESS_CONF")
    if named and not Path(named).is_dir():
        raise HarnessError(f"HARNESS_CONF={named}: no such folder")
    user = Path(named) if named else here / "conf"
    if not user.is_dir() or user.resolve() == ours.resolve():
        return (ours,)
    return (ours, user)


def names(group: str) -> dict[str, Path]:
    """The configurations of a group and their files, by name.

    Raises
    ------
    HarnessError
        A user's file has a name of ours: it would silently change what published numbers mean.
    """
    out: dict[str, Path] = {}
    for folder in folders():
        for path in sorted((folder / group).glob("*.yaml")):
            if path.stem in out:
                raise HarnessError(f"{path}: the harness has a {group} of this name already; choose another file name")
            out[path.stem] = path
    return out


def parse(data: bytes, path: str, most: int = _MOST) -> dict[str, Any]:
    """A YAML mapping of at most so many values, every alias written out; faults as `path:line: reason`."""
    try:
        _check_nesting(data, path, most)
        value = yaml.load(data, _Loader)  # noqa: S506  (a safe loader, made stricter)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise format_error(path, line, f"not valid YAML: {error.problem or error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # ValueError: a date or number that looks like one and is none.
        raise format_error(path, 0, f"not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(value, dict):
        raise format_error(path, 1, "expected keys and values")
    return value


# Kept by content: a file that is edited while the process lives is read anew.
_parsed = cache(parse)


def read(group: str, name: str, where: str = "") -> tuple[dict[str, Any], str]:
    """`load` for who checks the keys itself, `name` among them."""
    known = names(group)
    if not isinstance(name, str) or name not in known:
        place = f"{where}: " if where else ""
        raise HarnessError(f"{place}{group} {name!r} is unknown; {suggestion(str(name), known)}")
    return dict(_parsed(read_bytes(known[name], most=_MOST_BYTES), str(known[name]))), str(known[name])


def _check_nesting(data: bytes, path: str, most: int) -> None:
    """Raise FormatError for what would break the loader, which recurses, or fill the memory of who follows aliases."""
    sizes = [0]  # nodes of the whole, then of each collection that is open
    names: list[str | None] = []
    anchors: dict[str | None, int] = {}
    for event in yaml.parse(data, _Loader):
        name, size = getattr(event, "anchor", None), 1
        if isinstance(event, yaml.CollectionStartEvent):
            sizes.append(1)
            names.append(name)
            size = 0
        elif isinstance(event, yaml.CollectionEndEvent):
            name, size = names.pop(), sizes.pop()
        elif isinstance(event, yaml.AliasEvent):
            name, size = None, anchors.get(name, 1)
        sizes[-1] += size
        if name is not None:
            anchors[name] = size
        line = event.start_mark.line + 1 if event.start_mark else 0
        if len(names) > _DEEPEST:
            raise format_error(path, line, f"more than {_DEEPEST} levels, one inside the other")
        if sizes[-1] > most:
            raise format_error(path, line, f"more than {most:,} values where all aliases are followed")


def load(group: str, name: str, where: str = "") -> tuple[dict[str, Any], str]:
    """A named configuration and the path that messages give for it; `where` is who names it.

    Raises
    ------
    HarnessError
        No such name (with the nearest one), a file that is not valid YAML or calls itself otherwise, or one of the
        keys that lists show (`title`; of a system `extra` and `needs`) is of another type.
    """
    mapping, path = read(group, name, where)
    # Reports name what they used: a protocol that calls itself by another one's name would mislead. A system's
    # name is a parameter, the name of its run.
    if group != "system" and mapping.get("name", name) != name:
        raise HarnessError(f"{path}: key 'name' is {mapping['name']!r}, expected the file's name {name!r}")
    check_types(mapping, {"title": str}, path)
    if group == "system":
        _check_system(mapping, path)
    return mapping, path


def key_faults(
    mapping: Mapping[str, Any], required: tuple[str, ...], optional: tuple[str, ...], where: str
) -> list[str]:
    """A line for each key that is missing or that is not known."""
    if not isinstance(mapping, Mapping):
        return [f"{where}: expected keys and values, found {mapping!r}"]
    known = required + optional
    unknown = [key for key in mapping if key not in known]
    missing = [key for key in required if mapping.get(key) is None]
    return [
        *(f"{where}: key {key!r} is unknown; {suggestion(str(key), known)}" for key in unknown),
        *(f"{where}: key {key!r} is missing" for key in missing),
    ]


def _check_system(mapping: Mapping[str, Any], where: str) -> None:
    check_types(mapping, {"extra": str}, where)
    needs = mapping.get("needs", ())
    for name in needs if isinstance(needs, list | tuple) else [needs]:
        if not isinstance(name, str) or not _NEEDED.fullmatch(name):
            expected = "the name of a module, or a file's path (with a /), or a list of such; functions are not called"
            raise HarnessError(f"{where}: key 'needs' is {needs!r}, expected {expected}")


def check_keys(mapping: Mapping[str, Any], required: tuple[str, ...], optional: tuple[str, ...], where: str) -> None:
    """Raise HarnessError for a key that is missing or that is not known."""
    refuse(key_faults(mapping, required, optional, where)[:1])


Lack = Literal["needs", "not implemented", "blocked"]
_STATE = re.compile(r"(blocked|not implemented): *(\S.*)|(needs) +(\S.*)")


def state(text: object, where: str) -> tuple[Lack, str]:
    """What a line such as `blocked: WHY`, `not implemented: WHY` or `needs WHAT` says: (state, WHY or WHAT).

    `blocked` is what cannot be had anywhere, `not implemented` what could be built, `needs` what lacks a resource.

    Raises
    ------
    HarnessError
        The text is anything else, or more than one line.
    """
    found = _STATE.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None or not found[0].isprintable():
        expected = "one line: 'blocked: WHY', 'not implemented: WHY' or 'needs WHAT'"
        raise HarnessError(f"{where}: key 'state' is {text!r}, expected {expected}")
    return cast(Lack, found[1] or found[3]), found[2] or found[4]


def check_states(paper: Mapping[str, Any], tables: Collection[str], where: str) -> None:
    """Raise HarnessError for a fault in a paper's `state` (required without an archive) or `states` (by table)."""
    if "state" in paper or not paper.get("archive"):
        state(paper.get("state"), where)
    for table, text in paper.get("states", {}).items():
        if table not in tables:
            raise HarnessError(f"{where}: states: table {table!r} is unknown; {suggestion(str(table), tables)}")
        state(text, f"{where}: states: {table}")


_KINDS = {dict: "keys and values", list: "a list", str: "text", int: "a whole number", bool: "true or false"}


def type_faults(mapping: Mapping[str, Any], kinds: Mapping[str, type], where: str) -> list[str]:
    """A line for each key whose value is of another type or, where keys are expected, has none."""
    faults = []
    for key, kind in kinds.items():
        value = mapping.get(key)
        right = isinstance(value, kind) and isinstance(value, bool) == (kind is bool) and (kind is not dict or value)
        if key in mapping and not right:
            faults.append(f"{where}: key {key!r} is {value!r}, expected {_KINDS[kind]}")
    return faults


def check_types(mapping: Mapping[str, Any], kinds: Mapping[str, type], where: str) -> None:
    """Raise HarnessError for a key whose value is of another type or, where keys are expected, has none."""
    refuse(type_faults(mapping, kinds, where)[:1])


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
