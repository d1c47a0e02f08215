"""Does once what every command does first, for processes that fork a child for each command.

A command takes 0.2 to 0.4 s of CPU time in a child of such a process, and 1 to 1.5 s in a process of its own.
"""

from __future__ import annotations

import gc
from contextlib import suppress
from pathlib import Path

_MODULES = (Path(__file__).parents[1] / "data" / "warm-modules.txt").read_text(encoding="utf-8").split()
_HASHED = ("harness.systems.lexical.system", "harness.systems.structural.tree", "harness.systems.fusion.system")
_OVERRIDES = (
    "a=b",
    "+a.b=1.5",
    "~a",
    "a=[x,y]",
    "++a={b:1,c:'d e'}",
    "a=1,2",
    "a=range(1,3)",
    "a=null",
    "a=${b}/c.d-e",
)


def warm() -> None:
    """Imports modules, and fills the caches of parsers and of hashes of code, none of which depends on a command."""
    for name in _MODULES:
        with suppress(ImportError):
            __import__(name)
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.plugins import Plugins
    from omegaconf import OmegaConf

    from harness.store import code

    parser = OverridesParser.create()
    for override in _OVERRIDES:
        parser.parse_override(override)
    Plugins.instance()
    assert OmegaConf.create({"a": "b", "c": "${a}/d.e-${a}"}).c == "b/d.e-b"
    for module in _HASHED:
        code.of(module)
    gc.collect()
    gc.freeze()  # so that children do not look through it again
