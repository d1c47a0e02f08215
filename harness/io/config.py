"""Configuration as data: named YAML files in groups (`conf/collection/arqmath-1-task1.yaml`), ours and the user's."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from harness.errors import HarnessError, format_error, suggestion
from harness.io import extensions
from harness.io.files import data_root, read_bytes

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
    """The configuration folders: ours, the user's (`HARNESS_CONF`, else `conf/` below the current folder), packages'.

    Those of packages are named by entry points of the group `mathir_harness.conf`.

    Raises
    ------
    HarnessError
        `HARNESS_CONF` is no folder, the current folder was deleted, or a package lacks the folder that it names.
    """
    return tuple(folder for folder, _ in _folders())


def _folders() -> list[tuple[Path, str]]:
    """Returns the folders, each with whose it is: of the harness, of a distribution; empty for the user's."""
    try:
        here = Path.cwd()
    except OSError:
        raise HarnessError("the current folder is not there any more; go to another one") from None
    named = os.environ.get("HARNESS_CONF")
    if named and not Path(named).is_dir():
        raise HarnessError(f"HARNESS_CONF={named}: no such folder")
    user = Path(named) if named else here / "conf"
    found = [(data_root() / "conf", "the harness"), *([(user, "")] if user.is_dir() else [])]
    found += [(extensions.folder(entry), entry.distribution) for entry in extensions.extensions("conf")]
    return _distinct(tuple(found))


@cache
def _distinct(found: tuple[tuple[Path, str], ...]) -> list[tuple[Path, str]]:
    """Returns the folders without those that are another one by another path."""
    distinct: dict[Path, tuple[Path, str]] = {}
    for path, owner in found:
        distinct.setdefault(path.resolve(), (path, owner))
    return list(distinct.values())


def names(group: str) -> dict[str, Path]:
    """Returns name -> file of the configurations of a group, without the bases that others begin with (`_saber`).

    Raises
    ------
    HarnessError
        There is no such group; or a file of the user's or of a package's has a name of ours, or of another package: it
        would silently change what published numbers mean.

    Examples
    --------
    >>> [name for name in names("collection") if name.startswith("mini-")][:2]
    ['mini-task1-ces', 'mini-task1-hrv']
    """
    if not (data_root() / "conf" / group).is_dir():
        known = [path.name for path in (data_root() / "conf").iterdir() if path.is_dir()]
        raise HarnessError(f"configuration group {group!r} is unknown; {suggestion(group, known)}")
    return dict(_names(group, tuple((*place, _files(place[0] / group)) for place in _folders())))


def _files(folder: Path) -> tuple[str, ...]:
    try:
        with os.scandir(folder) as found:
            return tuple(sorted(each.name for each in found if each.name.endswith(".yaml") and each.name[0] != "."))
    except (FileNotFoundError, NotADirectoryError):
        return ()


@cache  # by what the folders hold: a list asks for the names a thousand times
def _names(group: str, places: tuple[tuple[Path, str, tuple[str, ...]], ...]) -> dict[str, Path]:
    out: dict[str, Path] = {}
    owners: dict[str, str] = {}
    for folder, owner, files in places:
        for path in (folder / group / file for file in files if file[0] != "_"):
            name = path.stem
            if name in out and owner and owners[name]:
                both = f"{owners[name]} has a {group} of this name already; uninstall one of the two"
                raise HarnessError(f"{path}: {owner}: {both}")
            if name in out:
                mine, theirs = (out[name], owner) if owner else (path, owners[name])
                raise HarnessError(f"{mine}: {theirs} has a {group} of this name already; choose another file name")
            out[name], owners[name] = path, owner
    return out


def parse(data: bytes, path: str, most: int = _MOST) -> dict[str, Any]:
    """Returns a YAML mapping of at most so many values, every alias written out; faults as `path:line: reason`."""
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
    """Returns `load` for who checks the keys itself, `name` among them."""
    known = names(group)
    if not isinstance(name, str) or name not in known:
        place = f"{where}: " if where else ""
        raise HarnessError(f"{place}{group} {name!r} is unknown; {suggestion(str(name), known)}")
    return _composed(group, known[name]), str(known[name])


def files(group: str, name: str) -> list[Path]:
    """Returns the files of a configuration: its bases in the order of composition, then its own.

    Raises
    ------
    HarnessError
        As `load`.
    """
    return _lineage(group, names(group)[name], ())


def bases(group: str) -> list[Path]:
    """Returns the files of a group that others begin with, of all folders."""
    return [folder / group / file for folder in folders() for file in _files(folder / group) if file[0] == "_"]


def _read(path: Path) -> dict[str, Any]:
    return dict(_parsed(read_bytes(path, most=_MOST_BYTES), str(path)))


def _lineage(group: str, path: Path, above: tuple[Path, ...]) -> list[Path]:
    """Returns the files that a file begins with by its key `defaults`, in the order of composition, then itself.

    Lists that are more than names of the same group are Hydra's alone.
    """
    if path in above:
        raise HarnessError(f"{path}: key 'defaults' names the file itself, by way of {above[-1].name}")
    listed = _read(path).get("defaults", [])
    found: list[Path] = []
    for name in listed if isinstance(listed, list) else ():
        if name == "_self_" or not isinstance(name, str) or "/" in name or "@" in name:
            continue
        known = (folder / group / f"{name}.yaml" for folder in folders())
        base = next((file for file in known if file.is_file()), None)
        if base is None:
            raise HarnessError(f"{path}: key 'defaults' names {name!r}, and no conf/{group}/ has {name}.yaml")
        found += _lineage(group, base, (*above, path))
    return [*found, path]


def _composed(group: str, path: Path) -> dict[str, Any]:
    """Returns a configuration with its bases, merged as Hydra merges them: mappings key by key, anything else whole."""
    own = _read(path)
    if "defaults" not in own or group in ("sweep", "paper"):
        return own
    merged: dict[str, Any] = {}
    for file in _lineage(group, path, ()):
        merged = _merged(merged, _read(file))
    merged.pop("defaults", None)
    return merged


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = _merged(found[key], value) if both else value
    return found


def _check_nesting(data: bytes, path: str, most: int) -> None:
    """Raises FormatError for what would break the loader, which recurses, or fill the memory of who follows aliases."""
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
    """Returns a named configuration and the path that messages give for it; `where` is who names it.

    Raises
    ------
    HarnessError
        No such name (with the nearest one), a file that is not valid YAML or calls itself otherwise, or one of the
        keys that lists show (`title`; of a system `extra`, `needs` and `by_hand`) is of another type.
    """
    mapping, path = read(group, name, where)
    # Reports name what they used: a protocol that calls itself by another one's name would mislead. A system's
    # name is a parameter, the name of its run.
    if group != "system" and mapping.get("name", name) != name:
        raise HarnessError(f"{path}: key 'name' is {mapping['name']!r}, expected the file's name {name!r}")
    for key in ("title", "extra", "by_hand") if group == "system" else ("title",):
        if not isinstance(mapping.get(key, ""), str):
            raise HarnessError(f"{path}: key {key!r} is {mapping[key]!r}, expected text")
    if group == "system":
        _check_needs(mapping.get("needs", ()), path)
    return mapping, path


def _check_needs(needs: object, where: str) -> None:
    for name in needs if isinstance(needs, list | tuple) else [needs]:
        if not isinstance(name, str) or not _NEEDED.fullmatch(name):
            expected = "the name of a module, or a file's path (with a /), or a list of such; functions are not called"
            raise HarnessError(f"{where}: key 'needs' is {needs!r}, expected {expected}")
