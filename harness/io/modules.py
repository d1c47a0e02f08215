"""Whether modules are installed, found without importing anything, and which modules a package has."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from importlib.machinery import PathFinder
from pathlib import Path


def installed(module: str, here: bool = True) -> bool:
    """Returns whether a module is installed or (unless not `here`) in the current folder, without importing it.

    `importlib.util.find_spec` imports the package around a module: for one of sentence-transformers, all of PyTorch.

    Examples
    --------
    >>> installed("json.decoder"), installed("json.nothing"), installed("nothing.at.all")
    (True, False, False)
    """
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:  # raised for a running module without a file
        return not rest
    if not here:
        spec = PathFinder.find_spec(top, [path for path in sys.path if path not in ("", str(Path.cwd()))])
    elif spec is None:
        local = PathFinder.find_spec(top, [str(Path.cwd())])
        spec = local if local is not None and local.origin is not None else None  # not every folder is a package
    for name in rest:
        if spec is None or spec.submodule_search_locations is None:
            return False
        spec = PathFinder.find_spec(f"{spec.name}.{name}", list(spec.submodule_search_locations))
    return spec is not None


def inside(package: str, module: str = "") -> list[str]:
    """Returns the names of the modules of a package, or of the modules of one name in its packages; imports only it.

    Examples
    --------
    >>> "harness.io.modules" in inside("harness.io"), inside("harness", "trec")
    (True, ['harness.data.trec'])
    """
    paths = sorted(importlib.import_module(package).__path__)
    names = [f"{package}.{each.name}" for each in pkgutil.iter_modules(paths) if not module or each.ispkg]
    return [f"{name}.{module}" for name in names if installed(f"{name}.{module}")] if module else names
