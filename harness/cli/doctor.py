"""What a machine lacks, and the command that installs it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path

from harness.errors import HarnessError
from harness.formulas.mathml import latexml
from harness.io import config
from harness.io.files import cache_root
from harness.sources.network import reachable
from harness.systems.dense import models
from harness.systems.lexical import anserini
from harness.systems.states import missing_modules, needed_models, parts, registered


def findings() -> list[list[str]]:
    """Rows of (check, state, what to do); what to do is empty where nothing is amiss."""
    rows = [["Python", platform.python_version(), ""], _cache(), _mirror(), _network(), _conf()]
    return [*rows, *_anserini(), *_latexml(), *_extras(), *_models()]


def _cache() -> list[str]:
    folder = cache_root()
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if os.access(there, os.W_OK):
        return ["cache", str(folder), ""]
    return ["cache", f"{folder} cannot be written to", "set HARNESS_CACHE to a folder of yours"]


def _mirror() -> list[str]:
    named = os.environ.get("HARNESS_MIRROR")
    if not named:
        return ["mirror", "none", "set HARNESS_MIRROR to a folder of local copies to work without a network"]
    if Path(named).is_dir():
        return ["mirror", named, ""]
    return ["mirror", f"{named} does not exist", "set HARNESS_MIRROR to an existing folder, or unset it"]


def _network() -> list[str]:
    if reachable():
        return ["network", "answers", ""]
    return ["network", "does not answer", "data must come from HARNESS_MIRROR or the cache"]


def _conf() -> list[str]:
    folders = config.folders()
    return ["configuration", ", ".join(str(folder) for folder in folders), ""]


def _anserini() -> Iterator[list[str]]:
    """The Java runtime and the jar that Anserini's systems need."""
    lacking = anserini.missing()
    if not lacking:
        _, version = anserini.find_java()
        yield ["Anserini", f"Java {version}, {anserini.find_jar().name}", ""]
    for line in lacking:
        what, _, command = line.partition(": ")
        yield ["Anserini", what, command]


def _latexml() -> Iterator[list[str]]:
    """Perl and LaTeXML, which read formulas as those of ARQMath were read."""
    lacking = latexml.missing()
    if not lacking:
        yield ["LaTeXML", latexml.version(), ""]
    for line in lacking:
        what, _, command = line.partition(": ")
        yield ["LaTeXML", what, command]


def _extras() -> Iterator[list[str]]:
    """Systems that lack a module or file. Anserini's have their own lines; registered ones are left out."""
    for name in config.names("system"):
        mapping, _ = config.load("system", name)
        found = list(parts(mapping))
        skipped = registered(found, f"system {name}") or mapping.get("needs") == anserini.__name__
        if not skipped and (lacking := missing_modules(found)):
            what, _, command = lacking.partition(": ")
            yield [f"system {name}", what, command]


def _models() -> Iterator[list[str]]:
    """Models of systems that are not here, each once."""
    for model in needed_models(config.load("system", name)[0] for name in config.names("system")):
        try:
            missing = models.missing(model)
        except HarnessError:  # of the mirror or the cache, which have lines of their own
            missing = []
        for line in missing:
            yield [f"model {model}", "is not here", line.partition(": ")[2]]
