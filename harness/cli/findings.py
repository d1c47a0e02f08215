"""Missing packages, models and programs of a machine, and the commands that install them."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from harness.errors import HarnessError
from harness.formulas.mathml import latexml
from harness.io import config, kernels
from harness.io.files import cache_root
from harness.sources.catalogue import model_names
from harness.sources.network import download_address, offline, reachable
from harness.store.llm.endpoint import load_endpoint
from harness.systems.dense import models
from harness.systems.lexical import runtime
from harness.systems.states import (
    by_hand,
    by_language,
    model_lines,
    module_lines,
    needed_models,
    nested_configurations,
    registered,
)


def findings() -> list[list[str]]:
    """Returns rows of (check, state, command to run); the command is empty where the check passes."""
    configuration = ", ".join(map(str, config.folders()))
    return [
        ["Python", platform.python_version(), ""],
        _cache(),
        _mirror(),
        _network(),
        ["configuration", configuration, ""],
        ["kernels", *kernels.state()],  # the compiled code, without which some work takes longer
        *_anserini(),
        *_latexml(),
        *_extras(),
        *_models(),
        *_endpoints(),
    ]


def writable(folder: Path) -> bool:
    """Returns whether the folder, or its nearest existing parent, is writable."""
    standing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return standing.is_dir() and os.access(standing, os.W_OK)


def _cache() -> list[str]:
    folder = cache_root()
    if writable(folder):
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
    state = "forbidden by HARNESS_OFFLINE" if offline() else f"{download_address()} does not answer"
    return ["network", state, "data must come from HARNESS_MIRROR or the cache"]


def _rows(check: str, lines: Iterable[str]) -> list[list[str]]:
    """Returns a row for each line `WHAT: REMEDY`."""
    return [[check, what, remedy] for what, _, remedy in (line.partition(": ") for line in lines)]


def _anserini() -> list[list[str]]:
    """Checks the Java runtime and the jar that Anserini's systems need."""
    if lacking := runtime.missing():
        return _rows("Anserini", lacking)
    return [["Anserini", f"Java {runtime.find_java()[1]}, {runtime.find_jar().name}", ""]]


def _latexml() -> list[list[str]]:
    """Checks Perl and LaTeXML, the parser of ARQMath's formulas."""
    return _rows("LaTeXML", latexml.missing()) or [["LaTeXML", latexml.version(), ""]]


def _extras() -> Iterator[list[str]]:
    """Yields a row for each module or file that systems lack; Anserini's systems have rows of their own.

    Registered systems are excluded.
    """
    lack: dict[str, list[str]] = {}
    for name in config.names("system"):
        try:
            mapping, _ = config.load("system", name)
            parts = list(nested_configurations(mapping))
            skipped = registered(parts, f"system {name}") or mapping.get("needs") == runtime.__name__
            lines = [] if skipped else module_lines(parts) or [*filter(None, by_language(parts).values())]
        except HarnessError as error:
            yield [f"system {name}", error.lines[0], "correct this file"]
            continue
        for line in lines:
            lack.setdefault(line, []).append(name)
    for line, (first, *more) in lack.items():
        what, _, command = line.partition(": ")
        yield [f"system {first}" + f" and {len(more)} more" * bool(more), what, command or "install it yourself"]


def _models() -> Iterator[list[str]]:
    """Yields the models that systems name, each once, and the model sources that are fetched."""
    try:
        here = [name for name in model_names() if not models.missing(name)]
    except HarnessError:  # of the mirror, which has its own line
        here = []
    if here:
        yield ["models", ", ".join(here), ""]
    configurations = []
    for name in config.names("system"):
        with suppress(HarnessError):  # it has a line of its own
            configurations.append(config.load("system", name)[0])
    brought = by_hand(configurations)
    for model in needed_models(configurations):
        try:
            missing = model_lines(model, brought) if models.missing(model) else []
        except HarnessError:  # of the mirror or the cache, which have lines of their own
            missing = []
        for line in missing:
            yield [f"model {model}", "is not here", line.partition(": ")[2]]


def _endpoints() -> Iterator[list[str]]:
    """Yields language models: what a call needs; of a local one, whether its server answers."""
    for name in config.names("llm"):
        endpoint = load_endpoint(name)
        yield from _rows(f"llm {name}", endpoint.missing())
        if endpoint.local and not endpoint.answers():
            yield [f"llm {name}", f"no server at {endpoint.address}", "start one (page Language models)"]
