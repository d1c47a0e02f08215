"""The flags of `reproduce` and `run`, which are Hydra's, and what they show in place of running the command."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from harness.errors import HarnessError
from harness.experiments import engines, trackers
from harness.io import config
from harness.io.console import print_line

_REFUSED = ("config_path", "config_name", "config_dir", "experimental_rerun")
_SWITCHES = ("help", "hydra-help", "resolve", "run", "multirun", "shell-completion")
_SHORT = {"help": "-h", "cfg": "-c", "package": "-p", "run": "-r", "multirun": "-m", "shell-completion": "-sc",
          "config-path": "-cp", "config-name": "-cn", "config-dir": "-cd", "info": "-i"}  # fmt: skip
_INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")


def read_flags(command: str, arguments: Sequence[str]) -> argparse.Namespace:
    """Returns the flags and, as `overrides`, all other words; raises HarnessError for flags without a meaning here."""

    def refuse(message: str) -> NoReturn:
        raise HarnessError(f"{command}: {message}; 'harness {command} --hydra-help' lists the flags")

    if any(argument.startswith("--ver") for argument in arguments):
        refuse("--version is a flag of the harness itself: harness --version")
    if "-c" in arguments or "--collection" in arguments:
        hint = " (-c is Hydra's --cfg: --cfg job shows the configuration)" if "-c" in arguments else ""
        refuse(f"give the collection as collection=NAME{hint}")
    given = _parser(refuse).parse_intermixed_args(list(arguments))
    for flag in _REFUSED:
        if getattr(given, flag) is not None:
            refuse(
                f"--{flag.replace('_', '-')} has no use here; configurations of your own go below conf/ or HARNESS_CONF"
            )
    does = [given.run, given.multirun, given.cfg is not None, given.info is not None, given.shell_completion]
    if sum(does) > 1:
        refuse("only one of --run, --multirun, --cfg, --info and --shell-completion can be given")
    if (given.cfg or given.info) and any(word.startswith("sweep=") for word in given.overrides):
        refuse(f"{'--cfg' if given.cfg else '--info'} shows one configuration, sweep= makes several; leave sweep= out")
    if given.resolve and not (given.cfg or given.help):
        refuse("--resolve is for the configuration that --cfg job shows")
    return given


def _parser(refuse: object) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False, prog="harness")
    parser.error = refuse  # type: ignore[method-assign, assignment]
    parser.add_argument("overrides", nargs="*", help="KEY=VALUE")
    for name in _SWITCHES:
        parser.add_argument(*filter(None, [_SHORT.get(name), f"--{name}"]), action="store_true")
    for name in ("package", *(flag.replace("_", "-") for flag in _REFUSED)):
        parser.add_argument(*filter(None, [_SHORT.get(name), f"--{name}"]))
    parser.add_argument("-c", "--cfg", choices=("job", "hydra", "all"))
    parser.add_argument("-i", "--info", const="all", nargs="?", choices=_INFO)
    return parser


def show_instead(command: str, hydra: Any, given: argparse.Namespace) -> bool:  # noqa: ANN401
    """Shows what the flags ask for, in place of running the command; returns False if they ask for nothing."""
    if given.help:
        hydra.app_help(command, _parser(None), given)
    elif given.cfg:
        hydra.show_cfg(command, given.overrides, given.cfg, given.package, given.resolve)
    elif given.info:
        hydra.show_info(given.info, command, given.overrides)
    elif given.shell_completion:
        hydra.shell_completion(command, given.overrides)
    return bool(given.help or given.cfg or given.info or given.shell_completion)


def print_hydra_help(command: str) -> None:
    """Prints the flags and groups of Hydra that have a meaning here."""
    from hydra.core.config_store import ConfigStore
    from hydra.core.plugins import Plugins

    lines = [
        "Flags of Hydra (https://hydra.cc) that this command takes:",
        "  --help, -h               help of the command",
        "  --hydra-help             this list",
        "  --cfg, -c job|hydra|all  show the composed configuration; --resolve fills in references to other keys,",
        "                           --package, -p KEY shows a part",
        "  --info, -i [WHAT]        its origin: all, config, defaults, defaults-tree, plugins or searchpath",
        "  --multirun, -m           sweep: all combinations of the values of KEY=A,B",
        "  --run, -r                run one configuration, which is the default",
    ]
    if command == "run":
        Plugins.instance()  # which store their configurations
        stored = ConfigStore.instance().repo.get("hydra", {}).get("sweeper", {})
        samplers = [Path(name).stem for name in stored.get("sampler", {}) if name != "grid.yaml"]
        groups = {
            "launcher": (engines.BASIC, *engines.ENGINES, *other_plugins("launcher", plugins=False)),
            "sweeper": ("basic", engines.OPTUNA, *other_plugins("sweeper", plugins=False)),
            "sweeper/sampler": sorted(samplers),
            "callbacks": (*trackers.MODULES, *other_plugins("callbacks", plugins=False)),
        }
        lines += [
            "",
            'Groups of Hydra, as hydra/GROUP=NAME (see "Launchers", "Sweeps" and "Exporting" in the documentation):',
        ]
        lines += [f"  hydra/{group:18} {', '.join(dict.fromkeys(names))}" for group, names in groups.items() if names]
    print_line("\n".join(lines))


def other_plugins(group: str, plugins: bool = True) -> dict[str, object]:
    """Returns the launchers or sweepers of Hydra's other plugins, and those in the user's folders."""
    from hydra.core.config_store import ConfigStore

    stored = ConfigStore.instance().repo.get("hydra", {}).get(group, {}) if plugins else ()
    own = [path for folder in config.folders() for path in (folder / "hydra" / group).glob("*.yaml")]
    return {Path(name).stem: None for name in (*stored, *own)}
