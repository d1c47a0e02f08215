"""The two commands that compose a configuration, `reproduce` and `run`, with Hydra's own overrides and flags."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from harness.cli.overrides import GROUPS, check_alone, checked_overrides, gist
from harness.cli.settings import NOT_GIVEN, import_from_here, sweep_folder, swept
from harness.errors import HarnessError, SystemRaisedError
from harness.experiments import engines, trackers
from harness.experiments.composing import store_variants
from harness.experiments.overrides import OVERRIDE, has_several
from harness.io import config, interrupt
from harness.io.console import out, tell
from harness.store.artefacts import key as content_key

if TYPE_CHECKING:
    from omegaconf import DictConfig


_FLAGS = {"--dry-run": "dry=true", "--json": "json=true"}
_MULTIRUN = {"-m", "--multirun"}
_MOVING = re.compile(r"hydra[./]output|hydra\.(sweep|run)(\..*)?|hydra\.job\.chdir")
_REFUSED = ("config_path", "config_name", "config_dir", "experimental_rerun")
_PASSING = ("hydra/launcher", "hydra.launcher", "hydra/callbacks", "hydra.callbacks")


class _StoppedError(BaseException):
    """Carries the error of a job past Hydra, which would print it in its own way."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def main(command: str, arguments: Sequence[str]) -> None:
    """Composes `conf/COMMAND.yaml` with the arguments and runs the command.

    Raises
    ------
    HarnessError
        A configuration, an override or what it names is wrong.
    """
    # Hydra's parser takes overrides in one piece: `run system=a,b -m corpus=c` would be none.
    arguments = [_FLAGS.get(word, word) for word in arguments]
    arguments = sorted(arguments, key=lambda argument: argument not in _MULTIRUN)
    check_alone(command)
    checked = checked_overrides(command, arguments)
    interrupt.quiet_workers()
    import hydra
    from hydra.core.config_search_path import ConfigSearchPath
    from hydra.core.plugins import Plugins
    from hydra.plugins.search_path_plugin import SearchPathPlugin
    from omegaconf.errors import OmegaConfBaseException

    accept_lazy_help()
    _check_flags(command, arguments)

    class UserFolders(SearchPathPlugin):
        """Adds the user's `conf/` and those of packages to Hydra's search path."""

        def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
            for folder in config.folders()[1:]:
                search_path.append("user", f"file://{folder.resolve()}")

    Plugins.instance().register(UserFolders)
    # Hydra would print errors and exit by itself; ours are one line.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    named = next((a.partition("=")[2] for a in arguments if a.startswith("sweep=")), "null")
    sweep = {} if named == "null" else config.load("sweep", named)[0]
    store_variants(GROUPS[command], f"{arguments} {sweep}")
    multirun = bool(_MULTIRUN & set(arguments))
    if not multirun and (sweep or "hydra.mode=MULTIRUN" in arguments):
        multirun, arguments = True, ["--multirun", *arguments]
    whole = any(argument.startswith("experiment=") for argument in arguments)
    if multirun and whole:
        raise HarnessError("run: an experiment cannot be swept; its axes are what varies")
    launcher = next((a.partition("=")[2] for a in arguments[::-1] if a.startswith("hydra/launcher=")), engines.BASIC)
    engines.check(launcher, _others("launcher"))
    _check_sweep(command, arguments, named, sweep)
    if launcher != engines.BASIC and command != "run" and "make=true" not in arguments:
        raise HarnessError(f"{command}: hydra/launcher={launcher} is for the command run, and for make=true")
    if multirun or whole or launcher != engines.BASIC:
        engines.register()
    trackers.check(arguments)
    words, added = _words(command, arguments, sweep) if sweep or multirun else checked
    # Whatever runs and logs them, results are the same: these are no part of their names and reports.
    lasting = [word for word in arguments if not word.lstrip("+~").startswith(_PASSING)]
    # The points of a sweep find each other by this.
    kept = content_key({"command": command, "arguments": sorted(lasting), "sweep": sweep})[:12]
    told = [f"harness {command}", *lasting]
    sys.argv = [told[0], *words, *(_for_points(arguments, kept, added) if multirun else ())]
    ours = str(config.folders()[0].resolve())
    task = _task(command)

    @wraps(task)
    def job(cfg: DictConfig) -> float | None:
        sys.argv = told  # which reports show
        interrupt.in_worker()
        try:
            return task(cfg)
        except HarnessError as error:
            if not _failed_point(error):
                raise _StoppedError(error) from None
            return float("nan")
        except Exception as error:
            raise _StoppedError(error) from None

    if not multirun:
        from hydra._internal.hydra import Hydra

        # It would compose everything once more, only to learn whether this is a sweep.
        Hydra.get_mode = lambda *_, **__: None  # type: ignore[method-assign]
    stopped: Exception | None = None
    try:
        hydra.main(version_base="1.3", config_path=ours, config_name=command)(job)()
    except _StoppedError as error:
        stopped = error.error
        if isinstance(stopped, BrokenPipeError):
            raise stopped from None
        if isinstance(stopped, OmegaConfBaseException | OSError):
            raise HarnessError(f"{command}: {gist(stopped)}") from stopped
    except SystemExit as end:
        sys.exit(2 if end.code == 1 else end.code)  # 1: Hydra has said what is wrong
    except BrokenPipeError:  # whoever read the help has ended
        raise
    except Exception as error:  # of Hydra, its plugins and the configuration, before or after the work
        said = gist(error)
        said = said.replace("LexerNoViableAltException:", "Error parsing override")
        if said.startswith("Error parsing override"):
            said += f"; expected KEY=VALUE, such as {GROUPS[command][0]}=NAME"
        if said.endswith("requires --multirun"):
            said += "; add -m"
        if said.startswith("Ambiguous value"):
            said += "; for a sweep over values add -m, put a list in [], quote a text that contains a comma"
        raise HarnessError(f"{command}: {said}") from error
    sys.argv = told
    if stopped is not None:
        raise stopped
    if command == "run" and multirun:
        _summarise(arguments, kept)


def _others(group: str, plugins: bool = True) -> dict[str, object]:
    """Returns the launchers or sweepers of Hydra's other plugins, and those in the user's folders."""
    from hydra.core.config_store import ConfigStore

    stored = ConfigStore.instance().repo.get("hydra", {}).get(group, {}) if plugins else ()
    own = [path for folder in config.folders() for path in (folder / "hydra" / group).glob("*.yaml")]
    return {Path(name).stem: None for name in (*stored, *own)}


def _check_sweep(command: str, arguments: Sequence[str], name: str, sweep: Mapping[str, Any]) -> None:
    """Raises HarnessError for a sweeper that is not supported, and for settings of Hydra's that would move folders."""
    keys = [word.lstrip("+~").partition("=")[0] for word in arguments if "=" in word or word.startswith("~")]
    chosen = [word.partition("=")[2] for word in arguments if word.startswith("hydra/sweeper=")]
    defaults = sweep.get("defaults")
    for entry in defaults if isinstance(defaults, list) else ():
        for key, value in entry.items() if isinstance(entry, Mapping) else ():
            group = str(key).removeprefix("override ").lstrip("/")
            keys.append(group)
            if group == "hydra/sweeper":
                chosen.insert(0, str(value))
    for sweeper in chosen[-1:]:
        engines.check_sweeper(sweeper, _others("sweeper", plugins=False))
    given = sweep.get("hydra")
    keys += [f"hydra.{key}" for key in given] if isinstance(given, Mapping) else []
    for word in arguments:
        if word.lstrip("+~").startswith("hydra.sweeper.params"):
            said = "what varies is given as words, such as 'system.b=0.2,0.4', or in a file conf/sweep/NAME.yaml"
            raise HarnessError(f"{command}: hydra.sweeper.params: {said}")
    for key in keys:
        if _MOVING.fullmatch(key):
            said = "folders are set by output=FOLDER (reports and sweeps) and runs=FOLDER; leave it out"
            raise HarnessError(f"{command}: {key}: {said}")


def _words(command: str, arguments: Sequence[str], sweep: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """`checked_overrides` of the arguments and of a sweep's file.

    What the file says is said in its place where it sets keys that the system's file does not list.
    """
    sweeper = (sweep.get("hydra") or {}).get("sweeper") or {}
    params = sweeper.get("params") if isinstance(sweeper, Mapping) and "defaults" not in sweep else None
    swept_by_file = [f"{key}={value}" for key, value in params.items()] if isinstance(params, Mapping) else []
    words, added = checked_overrides(command, [*swept_by_file, *arguments])
    if words[: len(swept_by_file)] == swept_by_file:
        return words[len(swept_by_file) :], added
    # Hydra's parser takes overrides in one piece, behind the flag.
    return ["--multirun", "hydra.sweeper.params=null", *(word for word in words if word not in _MULTIRUN)], added


def _task(command: str) -> Callable[[DictConfig], float | None]:
    """Returns the function of the command; its modules are imported when it is needed."""
    if command == "reproduce":
        from harness.cli.reproduce import reproduce

        return reproduce

    def one_or_many(cfg: DictConfig) -> float | None:
        if not cfg.get("experiment"):
            from harness.cli.run import run

            return run(cfg)
        from harness.cli.experiment import experiment

        return experiment(cfg)

    return one_or_many


def _for_points(arguments: Sequence[str], kept: str, added: Sequence[str]) -> list[str]:
    """Returns what the points of a sweep need to know, as keys of Hydra, which launchers pass on.

    These are the folder in which they are kept (`sweep_folder`), the keys that do not vary (`fixed`), and those that
    nobody gave, which have no place in names (`added`).
    """
    given = [match for match in map(OVERRIDE.fullmatch, arguments) if match]
    fixed = [match["key"] for match in given if not has_several(match["value"])]
    fixed += [f"{NOT_GIVEN}{key}" for key in added]
    excluded = f"hydra.job.config.override_dirname.exclude_keys={json.dumps(fixed)}"
    return [f"hydra.sweep.dir='${{output}}/sweeps/{kept}'", excluded]


def _failed_point(error: HarnessError) -> bool:
    """Records the fault of one point of a sweep, which continues; returns whether this is a sweep."""
    from harness.experiments.sweep import Point, write_point

    overrides = swept()
    if not overrides:
        return False
    if isinstance(error, SystemRaisedError):
        tell(error.trace)
    write_point(sweep_folder(), Point(overrides, error=str(error).splitlines()[0]))
    return True


def _summarise(arguments: Sequence[str], kept: str) -> None:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    from harness.cli.run import summarise
    from harness.render.write import DEFAULT

    import_from_here()
    overrides = OverridesParser.create().parse_overrides([text for text in arguments if OVERRIDE.fullmatch(text)])
    given = {override.key_or_group: override.value() for override in overrides}
    formats = given.get("formats")
    folder = Path(str(given.get("output", "reports"))) / "sweeps" / kept
    summarise(folder, formats if isinstance(formats, list) else DEFAULT)


def accept_lazy_help() -> None:
    """Lets Hydra 1.3 declare its options on Python 3.14; on earlier versions there is nothing to do.

    From 3.14 on, argparse formats the help of an option when the option is added. Hydra's help of `--shell-completion`
    is an object that becomes text when it is printed, which argparse reports as a badly formed help string.
    """
    check = getattr(argparse.ArgumentParser, "_check_help", None)
    if check is None or hasattr(check, "__wrapped__"):
        return

    @wraps(check)
    def check_text(parser: argparse.ArgumentParser, action: argparse.Action) -> None:
        if isinstance(action.help, str):
            check(parser, action)

    setattr(argparse.ArgumentParser, "_check_help", check_text)  # noqa: B010  (mypy knows no such method before 3.14)


def _check_flags(command: str, arguments: Sequence[str]) -> None:
    """Checks Hydra's flags with its own parser; refuses those that have no meaning here."""
    from hydra._internal.utils import get_args_parser

    def refuse(message: str) -> NoReturn:
        raise HarnessError(f"{command}: {message}; 'harness {command} --hydra-help' lists the flags")

    if any(argument.startswith("--ver") for argument in arguments):
        refuse("--version is a flag of the harness itself: harness --version")
    if "-c" in arguments or "--collection" in arguments:
        hint = " (-c is Hydra's --cfg: --cfg job shows the configuration)" if "-c" in arguments else ""
        refuse(f"give the collection as collection=NAME{hint}")
    parser = get_args_parser()
    parser.error = refuse  # type: ignore[method-assign]
    given = parser.parse_args(list(arguments))
    if given.hydra_help:
        _print_hydra_help(command)
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


def _print_hydra_help(command: str) -> NoReturn:
    """Prints the flags and groups of Hydra that have a meaning here, and ends the program."""
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
            "launcher": (engines.BASIC, *engines.ENGINES, *_others("launcher", plugins=False)),
            "sweeper": ("basic", engines.OPTUNA, *_others("sweeper", plugins=False)),
            "sweeper/sampler": sorted(samplers),
            "callbacks": (*trackers.MODULES, *_others("callbacks", plugins=False)),
        }
        lines += [
            "",
            'Groups of Hydra, as hydra/GROUP=NAME (see "Launchers", "Sweeps" and "Exporting" in the documentation):',
        ]
        lines += [f"  hydra/{group:18} {', '.join(dict.fromkeys(names))}" for group, names in groups.items() if names]
    out("\n".join(lines))
    sys.exit(0)
