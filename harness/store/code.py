"""Fingerprints of the code that a result depends on: hashes of modules and data files, and installed libraries.

Dependencies are found by parsing imports, including those inside functions, without importing anything. Only those of
our own modules count that are imported, so that a change of one system does not invalidate results of others. A
third-party package counts as a whole, and a single file with its imports. Data files next to a module that its strings
name count as well; for a single file, so do neighbouring modules and folders named in its strings, because it may load
them by name. Installed distributions count by version and by the files of their installation, Python by version. Code
of others also counts with the values of the environment variables that it names, and with what its libraries require.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from glob import glob
from importlib.machinery import BYTECODE_SUFFIXES, ModuleSpec, all_suffixes
from pathlib import Path
from typing import Any, NamedTuple

from harness.errors import HarnessError
from harness.io.files import (
    cache_root,
    forget_checksums,
    known_checksums,
    sha256,
    sha256_file,
    sha256_known,
    write_atomic,
)
from harness.store import distributions
from harness.store.distributions import content, distribution, with_required
from harness.store.literals import Literals, literals

OURS = __name__.partition(".")[0]
ROOT = Path(__file__).parents[1]
TARGET = "_target_"

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")  # statements of a statement
_SUFFIXES = tuple(suffix for suffix in all_suffixes() if suffix not in BYTECODE_SUFFIXES)
_CODE = (*_SUFFIXES, *BYTECODE_SUFFIXES)
_DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_OBJECT = re.compile(rf"({_DOTTED.pattern})(?::{_DOTTED.pattern})?")  # `module`, `module.name`, `module:name`
_WORD = re.compile(r"import(?!\w)")  # begins with letters, which is many times faster than `\b`
_CALL = re.compile(r"""\b(?:import_module|__import__)\([ \t]*["']([\w.]+)["']""")
_EXAMPLE = re.compile(r"^[ \t]*>>> .*", re.M)  # of a docstring; it is no Python
_TYPING = re.compile(r"^([ \t]*)if (?:typing\.)?TYPE_CHECKING:.*\n(?:(?:\1[ \t]+\S.*|[ \t]*)\n)*", re.M)
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<base>\.*[\w.]*)[ \t]+import\b[ \t]*(?P<names>\([^()#]*\)[ \t]*|[^\n()#;\\]+)"
    r"|import\b(?P<modules>[^\n()#;\\]+))(?:#.*)?$",
    re.M,
)


class Dependencies(NamedTuple):
    """What some modules depend on.

    Attributes
    ----------
    files : machine-independent name -> path.
    libraries : name of a distribution, or Python -> version.
    contents : name of a distribution -> hash of its files.
    variables : names of environment variables that code of others reads.
    lists, unseen : places in code of others, as `FILE:LINE`, that list files, and that read the environment in a way
        that does not tell which variable.
    """

    files: dict[str, Path]
    libraries: dict[str, str]
    contents: dict[str, str]
    variables: set[str]
    lists: list[str]
    unseen: list[str]


def digest(systems: Iterable[str], others: Iterable[str] = (), *, modules_only: bool = False) -> str:
    """Returns a SHA-256 of all dependencies of some modules.

    A loaded module counts as it was when it was first asked for, since the process keeps running the code that it has
    loaded even if files change; `importlib.reload` makes it count as it is then. Other files count as they are.

    Parameters
    ----------
    systems : dotted names of modules whose packages count by content even if they are installed.
    others : further modules; installed ones count by version and by the files of their installation.
    modules_only : leave out data files, libraries and environment variables.
    """
    dependencies = depends(systems, others)
    files = {name: path for name, path in dependencies.files.items() if not modules_only or _module_of(name)}
    lines = [f"{name} {_checksum(path, name)}" for name, path in sorted(files.items())]
    if modules_only:
        return sha256("\n".join(lines).encode("utf-8", "surrogateescape"))
    lines += [f"{name} {version}" for name, version in sorted(dependencies.libraries.items())]
    lines += [f"{name} {checksum}" for name, checksum in sorted(dependencies.contents.items())]
    # Launchers set the numbers of threads, which do not decide what a run holds.
    named = (name for name in sorted(dependencies.variables) if not name.endswith("_THREADS"))
    lines += [f"{name}={os.environ[name]}" for name in named if name in os.environ]
    return sha256("\n".join(lines).encode("utf-8", "surrogateescape"))


def ours() -> str:
    """Returns a SHA-256 of all our modules, for results that compare systems."""
    lines = (f"{name} {_checksum(path, f'{OURS} {name}')}" for name, path in sorted(_ours(ROOT).items()))
    return sha256("\n".join(lines).encode())


def of(*modules: str) -> str:
    """Returns the `digest` of some modules, such as the calling one (`__name__`)."""
    return digest(modules)


def forget() -> None:
    """Clears the caches of this process, so that changed code is read again."""
    for function in (_taken, _ours_taken, _places, _ours, _beside, _literals, _module_of, code_cache):
        function.cache_clear()
    _LOADED.clear()
    forget_checksums()
    distributions.forget()


def known(module: str) -> bool:
    """Returns whether the code of a module is found, so that its digest is meaningful."""
    return bool(_module(module))


def named(value: object, key: str = "", theirs: bool = False) -> Iterator[tuple[str, bool]]:
    """Yields the modules named anywhere in a configuration, and whether each is that of a `_target_`.

    A module is named as `module.name`, `module:name`, or, in a system of another author, as `module`.

    Parameters
    ----------
    theirs : whether the value is in the configuration of a system of another author.
    """
    if isinstance(value, Mapping):
        theirs = is_theirs(value, theirs)
        for name, inner in value.items():
            yield from named(inner, str(name), theirs)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from named(inner, key, theirs)
    elif isinstance(value, str) and key != "name" and (match := _OBJECT.fullmatch(value)):
        module = _module(match[1]) if theirs or "." in value or ":" in value else ""
        if module:
            yield module, key == TARGET


def is_theirs(configuration: Mapping[str, object], otherwise: bool = False) -> bool:
    """Returns whether a configuration is that of a system of another author; `otherwise` if it names no class."""
    target = configuration.get(TARGET)
    return otherwise if target is None else not str(target).startswith(f"{OURS}.")


def depends(systems: Iterable[str], others: Iterable[str] = ()) -> Dependencies:
    """Returns what some modules depend on.

    Modules that are not found are ignored: importing them fails, or is optional.
    """
    python = {"Python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    out = Dependencies({}, python, {}, set(), [], [])
    systems = list(systems)
    whole = {name.partition(".")[0] for name in systems}
    waiting = [(name, True) for name in (*systems, *others)]  # and whether code of others imports it
    seen: set[tuple[str, bool]] = set()
    while waiting:
        name, theirs = waiting.pop()
        top = name.partition(".")[0]
        name, theirs = (name, False) if top == OURS else (top, theirs)
        if (name, theirs) in seen:
            continue
        seen.add((name, theirs))
        if top == OURS:
            if path := _ours(ROOT).get(name):
                above, label = name.rpartition(".")[0], f"{OURS} {name}"
                package = name if path.stem == "__init__" else above
                imported, beside = _ours_taken(path, _checksum(path, label), package)
                out.files.update({label: path, **{f"{label}: {each}": path.with_name(each) for each in beside}})
                waiting += [(each, False) for each in (above, *imported)]
            continue
        for place in _places(top):
            if top not in whole and (origin := distribution(top, place)):
                for each in with_required(origin) if theirs else (origin,):
                    out.libraries[each.name] = each.version
                    if files := content(each.info):
                        out.contents[each.name] = files
                continue
            deep = place.is_dir()
            root = place if deep else place.parent
            there = files_below(root) if deep else [each for each in root.iterdir() if each.is_file()]
            for path in there if deep else [place]:
                if path.name.endswith(_SUFFIXES):
                    waiting += [(each, True) for each in _others(out, path, top, root, there, deep)]
    code_cache(ROOT).write()
    return out


@cache
def _ours_taken(path: Path, checksum: str, package: str) -> tuple[list[str], list[str]]:
    """Returns our modules and others' packages that one of ours imports, and the files beside it that it names."""
    beside = _beside(path.parent)
    kept, key = code_cache(ROOT).modules, " ".join((checksum, package, *beside))
    if key not in kept:
        text = path.read_bytes().decode("utf-8", "replace")
        kept[key] = sorted(imports(text, package)), [name for name in beside if name in text]
    imported, named = kept[key]
    ours = _ours(ROOT)
    tops = {each.partition(".")[0] for each in imported} - {OURS}
    return [each for each in imported if each in ours] + sorted(tops), named


def _others(out: Dependencies, path: Path, top: str, root: Path, there: list[Path], deep: bool) -> frozenset[str]:
    """Adds a file of another author's code, and what its strings name; returns its imports.

    Parameters
    ----------
    top : name of its package (`deep`) or module.
    root, there : folder of the package and all its files, or folder of the module and the files in it.
    """
    inner = path.relative_to(root)
    label = f"{top} {inner.as_posix()}"
    out.files[label] = path
    imported, text = _taken(path, _checksum(path, label), ".".join((top, *inner.parts[:-1])) if deep else "")
    if not text:
        return imported
    named = _literals(text)
    data = [each for each in there if not each.name.endswith(_CODE) and _names(named, each, path)]
    if not deep:
        for folder in (each for each in root.iterdir() if each.name in named.names and each.is_dir()):
            below = files_below(folder)
            data += [each for each in below if each.name.endswith(_SUFFIXES) or each.name in named.names]
        imported |= {each.stem for each in there if each.suffix == ".py" and each.stem in named.words}
    listed = _listed(root, named) if named.lists else []
    out.files.update({f"{label}: {os.path.relpath(each, root)}": each for each in (*data, *listed)})
    out.files.update({f"{label}: {each}": Path(each).expanduser() for each in named.paths if _is_data(each)})
    out.variables.update(named.variables)
    out.unseen.extend(f"{path}:{line}" for line in named.unseen)
    out.lists.extend(f"{path}:{line}" for line in ([] if listed else named.lists))
    return imported


def _names(named: Literals, data: Path, path: Path) -> bool:
    """Returns whether the strings of a module name a file beside it, or its suffix if it is called like the module."""
    return data.name in named.names or (data.stem == path.stem and data.suffix in named.names)


def _is_data(name: str) -> bool:
    """Returns whether a string is the path of a file, from the current folder; those of the system's state are none."""
    return not name.startswith(("/proc/", "/sys/", "/dev/")) and os.path.isfile(os.path.expanduser(name))  # noqa: PTH111, PTH113


def _listed(root: Path, named: Literals) -> list[Path]:
    """Returns the files in the folders that strings name, of code that lists files; without such folders, by patterns.

    Folders and patterns are relative to the code's folder or to the current one. A folder that holds one of these two,
    or that is at the top of the file system, does not count.
    """
    places = list(dict.fromkeys((root, Path.cwd())))
    folders = {place / name for place in places for name in named.paths | named.names}
    inside = {
        folder
        for folder in folders
        if len(folder.parts) > 2
        and folder.is_dir()
        and not any(p.resolve().is_relative_to(folder.resolve()) for p in places)
    }
    files = [each for folder in sorted(inside) for each in files_below(folder)]
    if not inside:
        patterns = [(place, pattern) for place in places for pattern in named.patterns]
        files = [place / each for place, pattern in patterns for each in glob(pattern, root_dir=place)]  # noqa: PTH207
    return [each for each in files if each.is_file()]


@cache
def _taken(path: Path, checksum: str, package: str) -> tuple[frozenset[str], str]:
    """Returns a module's imports and its text, "" if it is compiled; `checksum` is that of the file."""
    if path.suffix != ".py":
        return frozenset(), ""
    text = path.read_bytes().decode("utf-8", "replace")
    return frozenset(imports(text, package)), text


_literals = cache(literals)
_LOADED: dict[Path, tuple[ModuleSpec, str]] = {}  # the specification of a loaded module, and the SHA-256 of its file


def _checksum(path: Path, label: str) -> str:
    """Returns the SHA-256 of a dependency: of a loaded module, as it was when it was first asked for.

    Parameters
    ----------
    label : see `Dependencies.files`.
    """
    module = _module_of(label)
    loaded = getattr(sys.modules.get(module), "__spec__", None) if module else None
    if loaded is None:
        return sha256_known(path)
    before = _LOADED.get(path)
    if before is None or before[0] is not loaded:  # a module that is loaded again has another specification
        before = _LOADED[path] = loaded, sha256_known(path)
    return before[1]


@cache
def _module_of(label: str) -> str:
    """Returns the module of a dependency by its label; "" of a data file."""
    top, _, inner = label.partition(" ")
    if ": " in inner:
        return ""
    if top == OURS and not inner.endswith(_SUFFIXES):
        return inner
    parts = inner.partition(".")[0].split("/")
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return top if parts == [top] else ".".join((top, *parts))


def _module(dotted: str) -> str:
    """Returns the longest prefix of a dotted name that is a module with code on this machine, or ""."""
    top, *rest = dotted.split(".")
    for place in _places(top):
        if place.is_file():
            return top
        prefix, folder, name = top if (place / "__init__.py").is_file() else "", place, top
        for part in rest:
            name, folder = f"{name}.{part}", folder / part
            if (folder / "__init__.py").is_file() or any(Path(f"{folder}{end}").is_file() for end in _SUFFIXES):
                prefix = name
        if prefix:
            return prefix
    return ""


@cache
def _places(top: str) -> tuple[Path, ...]:
    """Returns the folders of a package, or the file of a module; empty for built-in and unknown ones."""
    if top == OURS:
        return (ROOT,)
    if not top or top in sys.stdlib_module_names:
        return ()
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):  # a module without a specification, such as `__main__`
        spec = None
    if spec is None:
        own = getattr(sys.modules.get(top), "__file__", None)
        return (Path(own),) if own and Path(own).is_file() else ()
    if spec.submodule_search_locations is not None:
        return tuple(path for path in map(Path, spec.submodule_search_locations) if path.is_dir())
    return (Path(spec.origin),) if spec.origin and Path(spec.origin).is_file() else ()


@cache
def _ours(root: Path) -> dict[str, Path]:
    """Returns our modules and packages, by name."""
    out = {}
    for path in files_below(root):
        if path.suffix == ".py":
            parts = [OURS, *path.relative_to(root).with_suffix("").parts]
            out[".".join(parts[:-1] if path.stem == "__init__" else parts)] = path
    return out


@cache
def _beside(folder: Path) -> tuple[str, ...]:
    """Returns the names of the files in one of our folders that are not modules."""
    return tuple(sorted(each.name for each in folder.iterdir() if each.is_file() and not each.name.endswith(_CODE)))


def files_below(folder: Path) -> list[Path]:
    """Returns the files in a folder and below, without those in hidden folders and in `__pycache__`."""
    files = []
    seen: set[str] = set()  # a link may lead to a folder above it
    for root, folders, names in os.walk(folder, followlinks=True):
        if (real := os.path.realpath(root)) in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        files += [Path(root, name) for name in sorted(names)]
    return files


# ---- imports ----------------------------------------------------------------------------------------------------


def imports(text: str, package: str = "") -> set[str]:
    """Returns the modules that a module's text imports, and imported names, which may be submodules.

    Imports under `if TYPE_CHECKING:` are ignored.

    Parameters
    ----------
    package : package of the module, for relative imports.
    """
    text = text if text.endswith("\n") else f"{text}\n"
    plain = _EXAMPLE.sub("", _TYPING.sub("", text))
    scanned = _scanned(plain)
    pairs = _parsed(text) if scanned is None else scanned
    if "import_module(" in plain or "__import__(" in plain:
        pairs |= {(name, "") for name in _CALL.findall(plain)}
    out: set[str] = set()
    for base, name in pairs:
        above = len(base) - len(base.lstrip("."))
        parts = package.split(".")
        start = ".".join(parts[: len(parts) - above + 1]) if above else ""
        module = ".".join(part for part in (start, base.lstrip(".")) if part)
        out |= {module, f"{module}.{name}"} if name else {module}
    return out


def _scanned(text: str) -> set[tuple[str, str]] | None:
    """Returns pairs (module, imported name or "") of imports in common forms; None if another form occurs.

    A full parse of all modules behind a run would take longer than many runs.
    """
    out: set[tuple[str, str]] = set()
    count = 0
    for statement in _IMPORT.finditer(text):
        count += 1
        base, names, modules = statement["base"], statement["names"], statement["modules"]
        for item in (modules or names.strip(" \t()")).split(","):
            match item.split():
                case [name] | [name, "as", _] if name == "*" or _DOTTED.fullmatch(name):
                    out.add((name, "") if modules else (base, "" if name == "*" else name))
                case [] if names:
                    pass
                case _:
                    return None
    # Every occurrence of the word, even in comments, must have been matched.
    return out if count == len(_WORD.findall(text)) else None


def _parsed(text: str) -> set[tuple[str, str]]:
    """Returns the same pairs for any text with Python's parser; empty for invalid Python."""
    try:
        waiting: list[ast.AST] = [ast.parse(text)]
    except (SyntaxError, ValueError, RecursionError):
        return set()
    out: set[tuple[str, str]] = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            out |= {(alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            out |= {(base, "" if alias.name == "*" else alias.name) for alias in node.names}
        elif isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            waiting += node.orelse
        else:  # no expression holds an import
            waiting += [inner for field in _BLOCKS for inner in getattr(node, field, ())]
    return out


_MOST = 4000  # entries; beyond, those of earlier versions are dropped


class CodeCache:
    """The content of the file for the modules below a folder; without a writable cache folder, of this process only.

    A checksum is trusted as long as device, inode, size and times of its file are the same. Imports are kept by the
    checksum of the module, in one file for each version of the code that finds them, so they are never out of date.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path: Path | None = None
        self.modules: dict[str, Any] = {}
        self._kept = 0
        with suppress(HarnessError, OSError, ValueError, TypeError, KeyError, AttributeError):
            name = sha256(f"{root} {sha256_file(Path(__file__))}".encode())[:16]
            self._path = cache_root() / "code" / f"{name}.json"
            read = json.loads(self._path.read_text(encoding="utf-8"))
            known_checksums({root / name: (tuple(state), str(sha)) for name, (state, sha) in read["files"].items()})
            self.modules = dict(read["modules"])
            self._kept = len(self.modules)

    def write(self) -> None:
        """Writes what was added since the file was read."""
        if self._path is None or len(self.modules) == self._kept:
            return
        files = {str(path.relative_to(self._root)): entry for path, entry in known_checksums().items()
                 if path.is_relative_to(self._root)}  # fmt: skip
        modules = dict(list(self.modules.items())[-_MOST:])
        with suppress(HarnessError, OSError):
            write_atomic(self._path, json.dumps({"files": files, "modules": modules}))
        self._kept = len(self.modules)


@cache
def code_cache(root: Path) -> CodeCache:
    """Returns the cache for the modules below a folder."""
    return CodeCache(root)
