"""Does once what every command does first, for processes that fork a child for each command.

A command takes 0.2 to 0.4 s of CPU time in a child of such a process, and 1 to 1.5 s in a process of its own.
"""

from __future__ import annotations

import gc
from contextlib import suppress

_MODULES = (
    "bm25s",
    "huggingface_hub._snapshot_download",
    "hydra._internal.hydra",
    "hydra._internal.instantiate._instantiate2",
    "hydra_plugins.hydra_joblib_launcher.joblib_launcher",
    "hydra_plugins.hydra_optuna_sweeper.optuna_sweeper",
    "jinja2",
    "latex2mathml.converter",
    "rich.console",
    "scipy.stats",
    "typer._adapters",
    "harness.__main__",
    "harness.cli.compose",
    "harness.cli.doctor",
    "harness.cli.entries",
    "harness.cli.experiment",
    "harness.cli.leaderboard",
    "harness.cli.list",
    "harness.cli.main",
    "harness.cli.team_runs",
    "harness.cli.rehearse",
    "harness.cli.reproduce",
    "harness.cli.run",
    "harness.cli.score",
    "harness.cli.show",
    "harness.cli.store",
    "harness.experiments.produce",
    "harness.experiments.sweep",
    "harness.papers.paper",
    "harness.papers.reproduce",
    "harness.render.tabular",
    "harness.reports.comparison",
    "harness.reports.experiment",
    "harness.reports.organisers",
    "harness.papers.report.paper",
    "harness.reports.sweep",
    "harness.reports.topics",
    "harness.store.llm.client",
    "harness.systems.dense.models",
    "harness.systems.fusion.system",
    "harness.systems.lexical.system",
    "harness.systems.structural.tree",
    "harness.systems.structural.tokens",
)
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
