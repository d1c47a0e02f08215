"""Objects that a configuration names as `package.module:name`."""

from __future__ import annotations

import importlib
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

from harness.errors import HarnessError, SystemRaisedError, suggestion
from harness.store import code
from harness.systems.build import guarded


def module_of(key: str, named: object) -> str:
    """Returns the module of a named object.

    Raises
    ------
    HarnessError
        The value of the key has another form; the message names the key.

    Examples
    --------
    >>> module_of("pipeline", "my_package.pipelines:bm25")
    'my_package.pipelines'
    >>> module_of("pipeline", "bm25")
    Traceback (most recent call last):
    harness.errors.HarnessError: key 'pipeline' is 'bm25', expected package.module:name
    """
    module, colon, name = named.partition(":") if isinstance(named, str) else ("", "", "")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        raise HarnessError(f"key {key!r} is {named!r}, expected package.module:name")
    return module


def load(key: str, named: str) -> object:
    """Imports a module and returns the named object.

    Raises
    ------
    HarnessError
        The module, or a module that it imports, is neither installed nor in the current folder; or it has no such name.
    SystemRaisedError
        The module raises another exception.
    """
    module, name = module_of(key, named), named.partition(":")[2]
    where = f"key {key!r}: {named}"
    try:
        target: object = guarded(where, lambda: importlib.import_module(module))
    except SystemRaisedError as fault:
        if not isinstance(error := fault.__cause__, ModuleNotFoundError):
            raise
        lacking = f"module {error.name!r} is neither in the current folder nor installed"
        raise HarnessError(f"{where} cannot be loaded: {lacking}") from None
    for part in name.split("."):
        if not hasattr(target, part):
            known = [each for each in vars(target) if not each.startswith("_")] if hasattr(target, "__dict__") else []
            raise HarnessError(f"{where}: {module} has no {name!r}; {suggestion(name, known)}")
        target = getattr(target, part)
    return target


def digest(key: str, named: str) -> str:
    """Returns a hash of the code that a named object depends on: its whole package, and versions of libraries.

    Raises
    ------
    HarnessError
        The module is not found, or is not a file.
    """
    module = module_of(key, named)
    if not code.known(module):
        raise HarnessError(f"key {key!r}: module {module!r} is neither in the current folder nor installed")
    return code.of(module)


def missing(key: str, named: object) -> tuple[str, ...]:
    """Returns what is missing to load a named object, without importing it; empty if nothing is, or none is named."""
    if not isinstance(named, str) or ":" not in named or not named.partition(":")[0].partition(".")[0].isidentifier():
        return ()
    top = named.partition(":")[0].partition(".")[0]
    if find_spec(top) is not None or PathFinder.find_spec(top, [str(Path.cwd())]) is not None:
        return ()
    return (f"module {top!r} of key {key!r} is neither in the current folder nor installed",)
