"""Whether modules are installed, found without importing anything."""

from __future__ import annotations

import importlib.util
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
        found = PathFinder.find_spec(top, [str(Path.cwd())])
        spec = found if found is not None and found.origin is not None else None  # not every folder is a package
    for name in rest:
        if spec is None or spec.submodule_search_locations is None:
            return False
        spec = PathFinder.find_spec(f"{spec.name}.{name}", list(spec.submodule_search_locations))
    return spec is not None
