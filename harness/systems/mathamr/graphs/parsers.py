"""Parsers of sentences by name, and what is missing for them."""

from __future__ import annotations

import importlib.util
from importlib import metadata

from harness.errors import HarnessError, suggestion
from harness.systems.mathamr.graphs import amr, dependency
from harness.systems.mathamr.graphs.data import Parser

NAMES = ("dependency", "transition-amr", "amrlib")
_NEEDS = ("torch", "spacy", dependency.MODEL)


def missing() -> list[str]:
    """What is not installed, one line each; for the key `needs` of a configuration."""
    lacking = [module for module in _NEEDS if importlib.util.find_spec(module) is None]
    return [f"{', '.join(lacking)} not installed: pip install 'mathir-harness[graphs]'"] if lacking else []


def load(name: str) -> Parser:
    """A parser: `dependency`, `transition-amr` or `amrlib`, the latter two with `:MODEL` behind them.

    Raises
    ------
    HarnessError
        There is no such parser; a package is missing.
    """
    package, _, model = name.partition(":")
    if package not in NAMES:
        raise HarnessError(f"key 'parser' is {name!r}; {suggestion(package, NAMES)}")
    if package == "dependency":
        if lines := missing():
            raise HarnessError(lines[0])
        versions = {library: metadata.version(library) for library in ("spacy", dependency.MODEL)}
        return Parser(dependency.DependencyParser(), {"parser": "dependency graphs", **versions})
    if package == "amrlib" and not model:
        raise HarnessError("key 'parser' is 'amrlib', expected amrlib:FOLDER with the folder of a model")
    parse = amr.AMRParser(package, model) if model else amr.AMRParser(package)
    return Parser(parse, {"parser": f"{package} {parse.model}"})
