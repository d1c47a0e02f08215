"""Provenance of results: command, versions, machine, checksums."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from harness.version import __version__

_LIBRARIES = ("numpy", "scipy", "bm25s", "snowballstemmer", "hydra-core")


@dataclass(frozen=True)
class Provenance:
    """Provenance of a result.

    Attributes
    ----------
    command : the command line, quoted for a shell.
    versions : versions of the harness, Python and numerical libraries.
    machine : operating system, processor and number of cores; no names of hosts or users.
    files : name of an input file -> its SHA-256.
    """

    command: str
    versions: Mapping[str, str]
    machine: str
    files: Mapping[str, str] = field(default_factory=dict)

    def reference(self) -> Provenance:
        """Returns the machine-independent part: checksums of input files except runs."""
        made = (".run",)
        return Provenance("", {}, "", {name: sha for name, sha in self.files.items() if not name.endswith(made)})


@cache
def _version(name: str) -> str:
    from importlib import metadata  # slow to import

    return metadata.version(name)


def provenance(files: Mapping[str, str], command: list[str] | None = None, libraries: Iterable[str] = ()) -> Provenance:
    """Returns the provenance of a result made by this process; `command` defaults to the process's own.

    `libraries` : further distributions used for this result, besides the standard ones.
    """
    # Hydra's commands set the program's name to `harness COMMAND`.
    name = sys.argv[0].split() if sys.argv[0].startswith("harness ") else ["harness"]
    arguments = command if command is not None else [*name, *sys.argv[1:]]
    versions = {"mathir-harness": __version__, "Python": platform.python_version()}
    versions |= {name: _version(name) for name in (*_LIBRARIES, *libraries)}
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return Provenance(shlex.join(arguments), versions, machine, dict(files))
