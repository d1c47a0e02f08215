"""Extensions by other packages through entry points, and code named by `module:function`.

Discovery reads only metadata and folders; `load` imports the code.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.io import interrupt
from harness.io.console import NO_READER

NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")  # module:function
_FOLDER = re.compile(r"(?P<package>[^\W\d]\w*(?:\.[^\W\d]\w*)*)(?::(?P<folder>[\w-]+(?:[./][\w-]+)*))?")
_GROUPS = "mathir_harness."
_DECLARED = re.compile(rb"\[(mathir_harness\.[^\]]*)\]")
# Parts of paths of stack frames above third-party code (our code, imports, contexts, argument parsing).
_BEFORE = (f"{Path(__file__).parents[1]}{os.sep}", "<frozen", importlib.__file__, contextlib.__file__, "/typer/")


@dataclass(frozen=True)
class Extension:
    """One entry point of an installed package.

    Attributes
    ----------
    name, value : as the package declares them: `NAME = "VALUE"`.
    distribution : name and version of the package, such as `mathir-example 0.1`.
    """

    group: str
    name: str
    value: str
    distribution: str

    def __str__(self) -> str:
        return f"{self.distribution}: entry point {_GROUPS}{self.group}: {self.name}"


def extensions(group: str) -> tuple[Extension, ...]:
    """Returns the entry points of the group `mathir_harness.GROUP`, sorted by distribution and name; imports nothing.

    Packages installed or removed during the process are taken into account.
    """
    return _extensions(group, tuple(_dated()))


def _dated() -> Iterator[tuple[str, int]]:
    """Yields the folders of `sys.path` with their modification times, which change at installation."""
    for folder in sys.path:
        try:
            yield folder, os.stat(folder or ".").st_mtime_ns  # noqa: PTH116  (Path's takes longer)
        except OSError:
            continue


@lru_cache(8)
def _extensions(group: str, folders: tuple[tuple[str, int], ...]) -> tuple[Extension, ...]:
    # Usually there is none, which a search in the text of the entry-point files shows quickly.
    if not any(f"{_GROUPS}{group}".encode() in _declared(folder, changed) for folder, changed in folders):
        return ()
    from importlib import metadata  # slow to import

    entries = [
        Extension(group, entry.name, entry.value, f"{entry.dist.name} {entry.dist.version}")
        for entry in metadata.entry_points(group=f"{_GROUPS}{group}")
        if entry.dist is not None
    ]
    return tuple(sorted(entries, key=lambda entry: (entry.distribution, entry.name, entry.value)))


@lru_cache(64)  # by the folder's modification time, for all groups
def _declared(folder: str, _changed: int) -> frozenset[bytes]:
    """Returns our groups in the entry-point files of packages installed in a folder; skips unreadable ones."""
    groups: set[bytes] = set()
    try:
        names = os.listdir(folder or ".")  # noqa: PTH208  (Path.glob takes several times as long)
    except OSError:
        return frozenset()
    for name in names:
        if name.endswith("-info"):
            try:
                with open(os.path.join(folder, name, "entry_points.txt"), "rb") as file:  # noqa: PTH118, PTH123
                    text = file.read()
            except OSError:
                continue
            if _GROUPS.encode() in text:
                groups.update(_DECLARED.findall(text))
    return frozenset(groups)


def folder(extension: Extension) -> Path:
    """Returns the folder of an installed package that an entry point names, as `package` or `package:folder`.

    Raises
    ------
    HarnessError
        There is no such package or folder.
    """
    match = _FOLDER.fullmatch(extension.value)
    if match is None:
        raise HarnessError(f"{extension}: is {extension.value!r}, expected a package, or 'package:folder'")
    top, *inner = match["package"].split(".")
    inner += re.split("[./]", match["folder"] or "")
    try:
        spec = importlib.util.find_spec(top)  # imports nothing for a top-level package
    except ValueError:  # for a running module without a file
        spec = None
    places = (spec.submodule_search_locations if spec is not None else None) or ()
    for place in places:
        if (path := Path(place, *inner)).is_dir():
            return path
    raise HarnessError(f"{extension}: {extension.value!r} is not a folder of an installed package; install it again")


def load(name: str, what: str) -> Any:  # noqa: ANN401  (whatever the package has there)
    """Returns the object that `module:name` (or `module`) names, imported.

    Raises
    ------
    HarnessError
        The module or name is missing, or the import fails; one line that begins with `what`.
    """
    module, _, attribute = name.partition(":")
    with guarded(what):
        try:
            imported = importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise HarnessError(f"{what}: module {error.name!r} is not installed") from error
    if attribute and not hasattr(imported, attribute):
        raise HarnessError(f"{what}: {module} has no {attribute!r}")
    return getattr(imported, attribute) if attribute else imported


@contextlib.contextmanager
def guarded(what: str, passed: tuple[type[BaseException], ...] = ()) -> Iterator[None]:
    """Converts exceptions of third-party code to one line: `what`, the error, and its location in that code.

    Parameters
    ----------
    passed : exceptions that are passed on unchanged, as HarnessError is.

    Raises
    ------
    HarnessError
        With the error as its cause.
    """
    try:
        yield
    except HarnessError:
        raise
    except passed:
        raise
    except (Exception, SystemExit) as error:  # third-party code must not exit the program
        if isinstance(error, SystemExit) and error.code == NO_READER:
            raise
        if interrupt.stopping():  # the error is only a consequence of the interrupt
            raise KeyboardInterrupt from None
        import traceback

        said = " ".join("".join(traceback.format_exception_only(error)[-1:]).split())
        raise HarnessError(f"{what}: {said}{_place(error)}") from error


def _place(error: BaseException) -> str:
    """Returns the location of an error in third-party code: in the folder of its first file in the traceback."""
    import traceback

    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    frames = [frame for frame in frames if not any(part in frame[0] for part in _BEFORE)]
    frames = [frame for frame in frames if Path(frame[0]).is_relative_to(Path(frames[0][0]).parent)]
    if isinstance(error, SyntaxError) and error.filename:
        frames.append((error.filename, error.lineno))
    return f" ({frames[-1][0]}, line {frames[-1][1]})" if frames else ""
