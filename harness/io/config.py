"""Configuration as data: named YAML files in groups (`conf/collection/arqmath-1-task1.yaml`), ours and the user's."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import yaml

from harness.errors import HarnessError, format_error, refuse, suggestion
from harness.io import extensions, rehearsal
from harness.io.arguments import checked_arguments
from harness.io.files import data_root, read_bytes

T = TypeVar("T")
_TICK = 2_000_000_000  # nanoseconds; the coarsest resolution of file times
_DEEPEST = 50  # maximum nesting of a configuration; ours have six levels
_MOST_BYTES = 1 << 22
_MOST = 100_000  # maximum number of nodes after expanding aliases
_WITH_PATHS = ("path", "runs", "first", "system", "training_runs")  # settings of systems that name run files
_NAME = re.compile(r"[^\W_][\w.-]*")  # of a variant
_NEEDED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*|[^\n]*/[^\n]*")  # a module, or a file
_OURS = "the harness"
_REHEARSAL = "the rehearsal"  # owner of the configurations that replace ours: of resources, nothing else
_REPLACED = ("source", "llm")
_LONGEST_NUMBER = 400  # characters
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_LOADER):  # type: ignore[misc, valid-type]
    """YAML loader that raises an error for duplicate keys."""


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


def _number(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int | float:
    if len(node.value) > _LONGEST_NUMBER:  # digits in base 60, and long numbers, take time by their square
        problem = f"a number of {len(node.value):,} characters, expected at most {_LONGEST_NUMBER}"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
    whole = node.tag == "tag:yaml.org,2002:int"
    number: int | float = loader.construct_yaml_int(node) if whole else loader.construct_yaml_float(node)
    return number


for _tag in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _number)


class _ConfigurationLoader(_Loader):
    """Reads numbers such as `1e-5`, and dates as text, as Hydra does with configurations."""


_ConfigurationLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in kinds if tag != "tag:yaml.org,2002:timestamp"]
    for first, kinds in _Loader.yaml_implicit_resolvers.items()
}
_ConfigurationLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d[\d_]*(\.[\d_]*)?|\.\d[\d_]*)[eE][-+]?\d+$"), list("-+0123456789.")
)


def folders() -> tuple[Path, ...]:
    """Returns the configuration folders: ours, the user's (`HARNESS_CONF`, else `./conf`), and those of packages.

    Packages declare theirs by entry points of the group `mathir_harness.conf`.

    Raises
    ------
    HarnessError
        `HARNESS_CONF` is not a folder, the current folder was deleted, or a package lacks its declared folder.
    """
    return tuple(folder for folder, _ in _folders())


def own_folders() -> tuple[Path, ...]:
    """Returns the configuration folders of the harness and of the user, without those of packages."""
    return tuple(folder for folder, owner in _folders() if owner in (_OURS, ""))


def _folders() -> list[tuple[Path, str]]:
    """Returns pairs of folder and owner: the harness or a distribution; empty for the user's folder."""
    try:
        here = os.getcwd()  # noqa: PTH109
    except OSError:
        raise HarnessError("the current folder is not there any more; go to another one") from None
    named = os.environ.get("HARNESS_CONF")
    if named and not Path(named).is_dir():
        raise HarnessError(f"HARNESS_CONF={named}: no such folder")
    user = named or os.path.join(here, "conf")  # noqa: PTH118  (Path's takes longer, as below)
    pairs = [(str(data_root() / "conf"), _OURS), *([(user, "")] if os.path.isdir(user) else [])]  # noqa: PTH112
    pairs += [(str(extensions.folder(entry)), entry.distribution) for entry in extensions.extensions("conf")]
    if (stand_ins := rehearsal.folder()) is not None:
        pairs.append((str(stand_ins / "conf"), _REHEARSAL))
    return _distinct(tuple(pairs))


@cache
def _distinct(pairs: tuple[tuple[str, str], ...]) -> list[tuple[Path, str]]:
    """Returns the folders without duplicates that differ only in their path."""
    distinct: dict[Path, tuple[Path, str]] = {}
    for path, owner in pairs:
        distinct.setdefault(Path(path).resolve(), (Path(path), owner))
    return list(distinct.values())


@checked_arguments
def names(group: str) -> dict[str, Path]:
    """Returns name -> file of the configurations of a group, without bases (such as `_bm25`).

    The file of a variant is that of its family: a base with a key `variants`, which holds name -> keys that are merged
    into the others of the file.

    Raises
    ------
    HarnessError
        There is no such group, a family cannot be read, or a name of the user or of a package is already used by us or
        by another package, which would silently change the meaning of published scores.

    Examples
    --------
    >>> [name for name in names("collection") if name.startswith("mini-")][:2]
    ['mini-task1', 'mini-task2']
    """
    if not os.path.isdir(f"{data_root()}/conf/{group}"):  # noqa: PTH112
        known = [path.name for path in (data_root() / "conf").iterdir() if path.is_dir()]
        raise HarnessError(f"configuration group {group!r} is unknown; {suggestion(group, known)}")
    return dict(_names(group, tuple((*place, _named(f"{place[0]}/{group}")) for place in _folders())))


def _named(folder: str) -> tuple[tuple[str, str], ...]:
    """Returns the configurations of a folder, each a name and its file: those of families after the others."""
    own, bases = _parted(_files(folder))
    return own + tuple((name, file) for file in bases for name in _variants(f"{folder}/{file}"))


@cache
def _parted(files: tuple[str, ...]) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Returns the configurations among the files of a folder, each a name and its file, and its bases."""
    own = tuple((file.removesuffix(".yaml"), file) for file in files if file[0] != "_")
    return own, tuple(file for file in files if file[0] == "_")


def _unless_changed(read: Callable[[str], T]) -> Callable[[str], T]:
    """Decorates a function of a file or folder, called thousands of times: it is read again only if it has changed.

    A change within the clock's resolution may not change the time, so what changed recently is always read.
    """
    known = cache(lambda path, *_state: read(path))

    def call(path: str) -> T:
        try:
            state = os.stat(path)  # noqa: PTH116  (Path's takes longer)
        except OSError:
            return read(path)  # which says what is wrong
        if time.time_ns() - state.st_mtime_ns <= _TICK:
            return read(path)
        return known(path, state.st_size, state.st_mtime_ns, state.st_ino)

    return call


@_unless_changed
def _variants(path: str) -> dict[str, Any]:
    """Returns the variants of a family, name -> keys; none of other bases, nor of a link to nothing."""
    if not os.path.exists(path):  # noqa: PTH110  (Path's takes longer)
        return {}
    data = read_bytes(Path(path), most=_MOST_BYTES)
    if not re.search(rb"^variants\s*:", data, re.MULTILINE):
        return {}
    variants = _parsed(data, path).get("variants")
    if not isinstance(variants, dict):
        raise HarnessError(f"{path}: key 'variants' is {variants!r}, expected names, each with its keys")
    for name, keys in variants.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise HarnessError(f"{path}: key 'variants' has {name!r}, expected names of letters, digits, '-', '.'")
        if not isinstance(keys, dict) or {"defaults", "variants"} & keys.keys():
            raise HarnessError(f"{path}: key 'variants.{name}': expected keys and values, but no defaults")
    return variants


@_unless_changed
def _files(folder: str) -> tuple[str, ...]:
    """Returns the names of the YAML files in a folder; none if there is no folder."""
    try:
        with os.scandir(folder) as entries:
            return tuple(sorted(each.name for each in entries if each.name.endswith(".yaml") and each.name[0] != "."))
    except (FileNotFoundError, NotADirectoryError):
        return ()


@cache  # keyed by the content of folders; called thousands of times
def _names(group: str, places: tuple[tuple[Path, str, tuple[tuple[str, str], ...]], ...]) -> dict[str, Path]:
    out: dict[str, Path] = {}
    owners: dict[str, str] = {}
    for folder, owner, listed in places:
        for name, path in ((name, folder / group / file) for name, file in listed):
            if owner == _REHEARSAL and group in _REPLACED:
                out[name], owners[name] = path, owner
                continue
            if owners.get(name) == _OURS and not owner and _equal(out[name], path):  # a checkout of it
                continue
            if name in out and owner and owners[name]:
                both = f"{owners[name]} has a {group} of this name already; uninstall one of the two"
                raise HarnessError(f"{path}: {owner}: {both}")
            if name in out:
                mine, theirs = (out[name], owner) if owner else (path, owners[name])
                way = "choose another file name"
                if (mine.parent.parent.parent / "harness" / "version.py").is_file():
                    way = "this checkout of the harness has another version of it; go to another folder, or install it"
                raise HarnessError(f"{mine}: {theirs} has a {group} of this name already; {way}")
            out[name], owners[name] = path, owner
    return out


def _equal(one: Path, other: Path) -> bool:
    """Returns whether two files have the same bytes, and their bases too, as far as both folders have these."""
    if read_bytes(one, most=_MOST_BYTES) != read_bytes(other, most=_MOST_BYTES):
        return False
    listed = read_file(one).get("defaults", [])
    bases = filter(_is_base, listed if isinstance(listed, list) else ())
    pairs = [[file.with_name(f"{base}.yaml") for file in (one, other)] for base in bases]
    return all(_equal(*pair) for pair in pairs if all(file.is_file() for file in pair))


def parse(data: bytes, path: str, most: int = _MOST, loader: type[_Loader] = _Loader) -> dict[str, Any]:
    """Parses a YAML mapping with at most `most` values after expanding aliases; faults are `path:line: reason`."""
    try:
        _check_nesting(data, path, most)
        value = yaml.load(data, loader)  # noqa: S506  (a safe loader, made stricter)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise format_error(path, line, f"not valid YAML: {error.problem or error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # ValueError: something that looks like a date or number but is invalid.
        raise format_error(path, 0, f"not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(value, dict):
        raise format_error(path, 1, "expected keys and values")
    return value


# Cached by content, so that a file edited during the process is parsed again.
_parsed = cache(partial(parse, loader=_ConfigurationLoader))


def read(group: str, name: str, where: str = "") -> tuple[dict[str, Any], str]:
    """Returns a configuration and its path like `load`, but without checking any key."""
    known = names(group)
    if not isinstance(name, str) or name not in known:
        place = f"{where}: " if where else ""
        raise HarnessError(f"{place}{group} {name!r} is unknown; {suggestion(str(name), known)}")
    return composed(group, name, known[name]), str(known[name])


def files(group: str, name: str) -> list[Path]:
    """Returns the files of a configuration: its bases in the order of composition, then its own.

    Raises
    ------
    HarnessError
        As `load`.
    """
    return [path for path, _ in _lineage(group, name, names(group)[name])]


def bases(group: str) -> list[Path]:
    """Returns the base files of a group in all folders."""
    return [folder / group / file for folder in folders() for file in _files(f"{folder}/{group}") if file[0] == "_"]


def read_file(path: Path, name: str = "") -> dict[str, Any]:
    """Returns the keys and values of one file, parsed once while it does not change; without its bases.

    Those of a variant, if the file is the family of one of this name.
    """
    content = dict(_content(str(path)))
    if path.name[0] == "_" and "variants" in content:
        del content["variants"]
        if name in (variants := _variants(str(path))):
            content = _merged(content, variants[name])
    return content


@_unless_changed
def _content(path: str) -> dict[str, Any]:
    return _parsed(read_bytes(Path(path), most=_MOST_BYTES), path)


def is_alone(group: str) -> bool:
    """Returns whether the configurations of a group set no keys but their own, and may begin with bases."""
    return group not in ("", "sweep", "paper") and not group.startswith("hydra")


def _is_base(entry: object) -> bool:
    """Returns whether an entry of the key `defaults` names a configuration of the same group."""
    return isinstance(entry, str) and entry != "_self_" and not set(entry) & set("/@")


def _lineage(group: str, name: str, path: Path, above: tuple[str, ...] = ()) -> list[tuple[Path, str]]:
    """Returns the bases of a configuration (from its key `defaults`) and itself, in the order of composition.

    Each is a file and the name of the configuration in it.
    """
    if name in above:
        raise HarnessError(f"{path}: key 'defaults' names the file itself, by way of {above[-1]}.yaml")
    listed = read_file(path).get("defaults", [])
    lineage: list[tuple[Path, str]] = []
    for base in listed if isinstance(listed, list) else ():
        if base == "_self_":
            lineage.append((path, name))
        if not _is_base(base):
            continue
        known = (folder / group / f"{base}.yaml" for folder in folders())
        file = next((file for file in known if file.is_file()), None) or names(group).get(base)
        if file is None:
            raise HarnessError(f"{path}: key 'defaults' names {base!r}, and no conf/{group}/ has {base}.yaml")
        lineage += _lineage(group, base, file, (*above, name))
    return lineage if (path, name) in lineage else [*lineage, (path, name)]


def composed(group: str, name: str, path: Path) -> dict[str, Any]:
    """Returns a configuration merged with its bases as by Hydra: mappings key by key, other values replaced.

    In a system, relative paths in the file become relative to the current folder, as those of overrides are, and a
    system whose own file has no key `name` has the name of that file. Entries of `defaults` other than names in the
    same group stay, for Hydra.

    Raises
    ------
    HarnessError
        A file is not valid YAML, or names a base that is not there.
    """
    own = read_file(path, name)
    if group != "system" and path.stem != name:  # a variant, whose name is not repeated in its keys
        own = {"name": name, **own}
    if not is_alone(group) or (group != "system" and "defaults" not in own):
        return own
    merged: dict[str, Any] = {}
    others: list[Any] = []
    for file, of in _lineage(group, name, path) if "defaults" in own else ((path, name),):
        mapping = read_file(file, of)
        listed = mapping.pop("defaults", [])
        listed = listed if isinstance(listed, list) else []
        others += [entry for entry in listed if entry != "_self_" and not _is_base(entry)]
        merged = _merged(merged, _anchored(mapping, file.parent) if group == "system" else mapping)
    if others:
        merged["defaults"] = [*others, "_self_"]
    if "name" not in own and "state" not in merged and group == "system":
        merged["name"] = name
    elif group != "system" and path.stem != name:
        merged["name"] = own["name"]
    return merged


def _anchored(mapping: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Returns a system's configuration with file paths relative to the current folder."""
    return {key: _with_paths(value, folder) if key in _WITH_PATHS else value for key, value in mapping.items()}


def _with_paths(value: object, folder: Path) -> object:
    if isinstance(value, list):
        return [_with_paths(each, folder) for each in value]
    if isinstance(value, dict):
        return _anchored(value, folder)
    if not isinstance(value, str) or not value or value[0] in "/~$" or value in names("system"):
        return value
    full, here = os.path.abspath(folder / value), Path.cwd()  # noqa: PTH100  (links stay)
    return os.path.relpath(full) if Path(full).is_relative_to(here) else full


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def _check_nesting(data: bytes, path: str, most: int) -> None:
    """Raises FormatError for nesting too deep for the recursive loader, or aliases that expand to too many values."""
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


def name_faults(mapping: Mapping[str, Any], name: str, path: str) -> list[str]:
    """Returns a line if a configuration names itself otherwise than its file is named."""
    if mapping.get("name", name) == name:
        return []
    return [f"{path}: key 'name' is {mapping['name']!r}, expected the file's name {name!r}"]


def load(group: str, name: str, where: str = "") -> tuple[dict[str, Any], str]:
    """Returns a named configuration and its path for messages; `where` is the place that names it.

    Raises
    ------
    HarnessError
        There is no such name (the message suggests the nearest one), the file is not valid YAML or has a different
        `name`, or a key shown in lists (`title`; for systems `extra`, `needs` and `by_hand`) has the wrong type.
    """
    mapping, path = read(group, name, where)
    # Reports show names, so a protocol with the name of another one would mislead. For systems, `name` is a parameter:
    # the name of the run.
    if group != "system":
        refuse(name_faults(mapping, name, path))
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
