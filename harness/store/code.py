"""Fingerprints of the code that a result depends on: hashes of modules, and versions of libraries.

Dependencies are found by parsing imports, including those inside functions, without importing anything. Only those of
our own modules count that are imported, so that a change of one system does not invalidate results of others. A
third-party package counts as a whole, and a single file with its imports. Data files next to a module whose name occurs
in its text count as well; for a single file, so do neighbouring modules and folders named in its strings, because it
may load them by name. Installed distributions and Python count by version.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.machinery import BYTECODE_SUFFIXES, all_suffixes
from pathlib import Path

from harness.io.files import sha256, sha256_file

OURS = __name__.partition(".")[0]
ROOT = Path(__file__).parents[1]
TARGET = "_target_"

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")  # statements of a statement
_SUFFIXES = tuple(suffix for suffix in all_suffixes() if suffix not in BYTECODE_SUFFIXES)
_INSTALLED = {"site-packages", "dist-packages"}
_DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_WORDS = re.compile(r"[\w-]+")
_WORD = re.compile(r"import(?!\w)")  # begins with letters, which is many times faster than `\b`
_CALL = re.compile(r"""\b(?:import_module|__import__)\([ \t]*["']([\w.]+)["']""")
_EXAMPLE = re.compile(r"^[ \t]*>>> .*", re.M)  # of a docstring; it is no Python
_TYPING = re.compile(r"^([ \t]*)if (?:typing\.)?TYPE_CHECKING:.*\n(?:(?:\1[ \t]+\S.*|[ \t]*)\n)*", re.M)
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<base>\.*[\w.]*)[ \t]+import\b[ \t]*(?P<names>\([^()#]*\)[ \t]*|[^\n()#;\\]+)"
    r"|import\b(?P<modules>[^\n()#;\\]+))(?:#.*)?$",
    re.M,
)


@cache
def digest(systems: frozenset[str], others: frozenset[str] = frozenset()) -> str:
    """Returns a SHA-256 of all dependencies of some modules.

    It is computed once per process, which keeps running the code that it has loaded even if files change.

    Parameters
    ----------
    systems : dotted names of modules whose packages count by content even if they are installed.
    others : further modules; installed ones count by version.
    """
    files, libraries = depends(systems, others)
    lines = [f"{name} {_checksum(path)}" for name, path in sorted(files.items())]
    lines += [f"{name} {version}" for name, version in sorted(libraries.items())]
    return sha256("\n".join(lines).encode("utf-8", "surrogateescape"))


@cache
def ours() -> str:
    """Returns a SHA-256 of all our modules, for results that compare systems."""
    return sha256("\n".join(f"{name} {_checksum(path)}" for name, path in sorted(_ours(ROOT).items())).encode())


def of(*modules: str) -> str:
    """Returns the `digest` of some modules, such as the calling one (`__name__`)."""
    return digest(frozenset(modules))


def forget() -> None:
    """Clears the caches of this process, so that changed code is read again."""
    for function in (digest, ours, _taken, _checksum, _places, _ours, _beside, _distributions, _top_level):
        function.cache_clear()


def known(module: str) -> bool:
    """Returns whether the code of a module is found, so that its digest is meaningful."""
    return bool(_module(module))


def named(value: object, key: str = "") -> Iterator[tuple[str, bool]]:
    """Yields the modules named anywhere in a configuration as `module.Name`, and whether each is a `_target_`."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from named(inner, str(name))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from named(inner)
    elif isinstance(value, str) and "." in value and _DOTTED.fullmatch(value) and (module := _module(value)):
        yield module, key == TARGET


def depends(systems: Iterable[str], others: Iterable[str] = ()) -> tuple[dict[str, Path], dict[str, str]]:
    """Returns the files that some modules depend on, by machine-independent names, and the versions of libraries.

    Modules that are not found are ignored: importing them fails, or is optional.
    """
    files: dict[str, Path] = {}
    libraries = {"Python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    whole = {name.partition(".")[0] for name in systems}
    waiting = [*systems, *others]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        top = name.partition(".")[0]
        if top != OURS:
            name = top
        if name in seen:
            continue
        seen.add(name)
        if top == OURS:
            if path := _ours(ROOT).get(name):
                above = name.rpartition(".")[0]
                package = name if path.stem == "__init__" else above
                imported, own = _taken(path, f"{OURS} {name}", package, path.parent, False)
                files |= own
                waiting += [above, *imported]
            continue
        for place in _places(top):
            if top not in whole and (found := _distribution(top, place)):
                libraries[found[0]] = found[1]
                continue
            deep = place.is_dir()
            root = place if deep else place.parent
            for path in _below(root) if deep else [place]:
                inner = path.relative_to(root)
                if path.name.endswith(_SUFFIXES):
                    package = ".".join((top, *inner.parts[:-1])) if deep else ""
                    imported, own = _taken(path, f"{top} {inner.as_posix()}", package, root, deep)
                    files |= own
                    waiting += imported
    return files, libraries


@cache
def _taken(path: Path, label: str, package: str, root: Path, deep: bool) -> tuple[frozenset[str], dict[str, Path]]:
    """Returns a module's imports, and its files: its own, and neighbouring files that its text names."""
    files = {label: path}
    if path.suffix != ".py":
        return frozenset(), files
    text = path.read_bytes().decode("utf-8", "replace")
    for name, beside in _beside(root, deep).items():
        if name in text or (not package and beside[0].stem == path.stem):
            files |= {f"{label}: {other.relative_to(root).as_posix()}": other for other in beside}
    if package:
        return frozenset(imports(text, package)), files
    words = _words_of_strings(text)
    for folder in (entry for entry in root.iterdir() if entry.name in words and entry.is_dir()):
        for other in _below(folder):
            if other.name.endswith(_SUFFIXES) or other.name in text:
                files[f"{label}: {other.relative_to(root).as_posix()}"] = other
    named = {other.stem for other in root.iterdir() if other.suffix == ".py" and other.stem in words}
    return frozenset(imports(text) | named), files


_checksum = cache(sha256_file)


def _module(dotted: str) -> str:
    """Returns the longest prefix of a dotted name that is a module with code on this machine, or ""."""
    top, *rest = dotted.split(".")
    for place in _places(top):
        if place.is_file():
            return top
        found, folder, name = top if (place / "__init__.py").is_file() else "", place, top
        for part in rest:
            name, folder = f"{name}.{part}", folder / part
            if (folder / "__init__.py").is_file() or any(Path(f"{folder}{end}").is_file() for end in _SUFFIXES):
                found = name
        if found:
            return found
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
    for path in _below(root):
        if path.suffix == ".py":
            parts = [OURS, *path.relative_to(root).with_suffix("").parts]
            out[".".join(parts[:-1] if path.stem == "__init__" else parts)] = path
    return out


def _below(folder: Path) -> Iterator[Path]:
    seen: set[str] = set()  # a link may lead to a folder above it
    for root, folders, names in os.walk(folder, followlinks=True):
        if (real := os.path.realpath(root)) in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        yield from (Path(root, name) for name in sorted(names))


@cache
def _beside(root: Path, deep: bool) -> dict[str, list[Path]]:
    """Returns name -> data files below a package or in the folder of a module."""
    out: dict[str, list[Path]] = {}
    for path in _below(root) if deep else sorted(path for path in root.iterdir() if path.is_file()):
        if not path.name.endswith((*_SUFFIXES, *BYTECODE_SUFFIXES)):
            out.setdefault(path.name, []).append(path)
    return out


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
    found = _scanned(plain)
    pairs = _parsed(text) if found is None else found
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
    for found in _IMPORT.finditer(text):
        count += 1
        base, names, modules = found["base"], found["names"], found["modules"]
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


def _words_of_strings(text: str) -> set[str]:
    """Returns the words in the strings of a module's text; empty for invalid Python."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError):
        return set()
    strings = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return {word for value in strings for word in _WORDS.findall(value)}


# ---- distributions ----------------------------------------------------------------------------------------------


def _distribution(top: str, place: Path) -> tuple[str, str] | None:
    """Returns name and version of the distribution that an installed module comes from; None for other modules.

    `importlib.metadata` would read the file lists of all distributions, which takes half a second.
    """
    site = next((folder for folder in place.parents if folder.name in _INSTALLED), None)
    if site is None:
        return None
    known = _distributions(site)
    own = [info for info in known if info[0].lower().replace("-", "_") == top.lower()]
    for holds in (_says, _lists):
        for name, version, path in (*own, *known):
            if holds(path, top):
                return name, version
    return None


@cache
def _distributions(site: Path) -> list[tuple[str, str, Path]]:
    """Returns name, version and folder of the distributions installed in a folder."""
    out = []
    for path in sorted(site.iterdir()):
        if path.suffix in (".dist-info", ".egg-info"):
            name, _, version = path.stem.partition("-")
            out.append((name, version.partition("-")[0], path))
    return out


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
