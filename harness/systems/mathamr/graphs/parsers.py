"""Sentence parsers by name, and checks of their dependencies."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, suggestion
from harness.io.files import sha256_file
from harness.sources.catalogue import resource
from harness.sources.fetch import fetch_resources
from harness.sources.resource import Resource
from harness.systems.mathamr.graphs import amr, dependency
from harness.systems.mathamr.graphs.data import Parser
from harness.systems.mathamr.graphs.graph import Graph

NAMES = ("dependency", "transition-amr", "amrlib", "penman-file")
PUBLISHED = {"source": "mathamr", "path": "results/mathamr_topics.tsv"}  # AMR graphs of ARQMath's topics of Task 2
_OF_AMR = {  # parser -> its module, its package, and its weights
    "transition-amr": ("transition_amr_parser", "transition-neural-parser", f"its weights, {amr.DOCUMENT_MODEL}"),
    "amrlib": ("amrlib", "amrlib", "a folder with the weights of a model"),
}
_NEEDS = ("torch", "spacy", dependency.MODEL)


def missing(mapping: Mapping[str, Any] | None = None) -> list[str]:
    """Returns what is not installed, one line each; for the key `needs` of a configuration.

    Parameters
    ----------
    mapping : the configuration; the dependencies of the parser in its key `parser` are checked as well.
    """
    lacking = [module for module in _NEEDS if importlib.util.find_spec(module) is None]
    lines = [f"{', '.join(lacking)} not installed: pip install 'mathir-harness[graphs]'"] if lacking else []
    parser = str((mapping or {}).get("parser", "")).partition(":")[0]
    module, package, weights = _OF_AMR.get(parser, ("", "", ""))
    if module and importlib.util.find_spec(module) is None:
        lines.append(f"parser {parser} is not installed: {amr.INSTALL[package]}, and bring {weights}")
    return lines


def load(name: str) -> Parser:
    """Returns a parser: `dependency`, `transition-amr[:MODEL]`, `amrlib:MODEL` or `penman-file[:PATH]`.

    `penman-file` reads the graphs of topics from a file with `amr.read_topics` (by default MathAMR's published file)
    and uses the dependency parser for all other posts.

    Raises
    ------
    HarnessError
        There is no such parser; a package is missing.
    """
    package, _, model = name.partition(":")
    if package not in NAMES:
        raise HarnessError(f"key 'parser' is {name!r}; {suggestion(package, NAMES)}")
    if package in ("dependency", "penman-file"):
        if lines := missing():
            raise HarnessError(lines[0])
        versions = {library: metadata.version(library) for library in ("spacy", dependency.MODEL)}
        parse, identity = dependency.DependencyParser(), {"parser": "dependency graphs", **versions}
        if package == "dependency":
            return Parser(parse, identity)
        file = Path(model).expanduser() if model else resource(PUBLISHED, "parser penman-file")
        if isinstance(file, Resource):  # fetched when read; its name and checksum are known before
            given_by = {"graphs of topics": Path(file.path).name, "sha256": file.sha256}
            return Parser(parse, identity, given=lambda: penman(fetch_resources([file])[0]), given_by=given_by)
        if not file.is_file():
            raise HarnessError(f"key 'parser': {file}: no such file; expected topics' graphs, an id and Penman a line")
        given_by = {"graphs of topics": file.name, "sha256": sha256_file(file)}
        return Parser(parse, identity, given=lambda: penman(file), given_by=given_by)
    if package == "amrlib" and not model:
        raise HarnessError("key 'parser' is 'amrlib', expected amrlib:FOLDER with the folder of a model")
    parser = amr.AMRParser(package, model) if model else amr.AMRParser(package)
    return Parser(parser, {"parser": f"{package} {parser.model}"})


@lru_cache(1)
def penman(path: Path) -> Mapping[str, Graph]:
    """Returns the graphs of a file by topic id; unreadable graphs are left out.

    Topic B.n of ARQMath Task 2 asks for a formula in the post of topic A.n of Task 1, so both share a graph.
    """
    graph_of = {name: graph for name, graph in amr.read_topics(path) if isinstance(graph, Graph)}
    return {**{f"A.{name[2:]}": graph for name, graph in graph_of.items() if name.startswith("B.")}, **graph_of}
