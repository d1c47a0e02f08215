"""The two commands that compose a configuration, `reproduce` and `run`, with Hydra's own overrides and flags."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from harness.cli.overrides import FLAGS, GROUPS, check_alone, checked_overrides, gist, is_literal, is_plain
from harness.cli.settings import NOT_GIVEN, fixed, import_from_here, sweep_folder, sweep_overrides
from harness.errors import HarnessError, SystemRaisedError
from harness.experiments import engines, trackers
from harness.experiments.overrides import OVERRIDE, has_several
from harness.io import config, interrupt
from harness.io.console import log_text, print_line
from harness.store.artefacts import key as content_key

if TYPE_CHECKING:
    from omegaconf import DictConfig

_MULTIRUN = {"-m", "--multirun"}
_MOVING = re.compile(r"hydra[./]output|hydra\.(sweep|run)(\..*)?|hydra\.job\.chdir")
_OF_SEARCH = re.compile(  # how Hydra refuses a setting of a search where its own sweeper is used
    r"Key '(.*?)' not in 'BasicSweeperConf'|BasicSweeper\b.* keyword argument '(.*?)'|'hydra/sweeper/(\w+)'\. No match"
)
_PASSING = ("hydra/launcher", "hydra.launcher", "hydra/callbacks", "hydra.callbacks")


class _JobStoppedError(BaseException):
    """Carries the error of a job past Hydra, which would print it in its own way."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def run_with_hydra(command: str, arguments: Sequence[str]) -> None:
    """Composes `conf/COMMAND.yaml` with the arguments and runs the command.

    Raises
    ------
    HarnessError
        A configuration, an override or what it names is wrong.
    """
    arguments = [FLAGS.get(word, word) for word in arguments]
    arguments = sorted(arguments, key=lambda argument: argument not in _MULTIRUN)  # so are they shown
    check_alone(command)
    given = read_flags(command, arguments)
    if given.hydra_help:
        print_hydra_help(command)
        return
    words, added = checked_overrides(command, given.overrides)
    named = next((word.partition("=")[2] for word in words if word.startswith("sweep=")), "null")
    sweep = {} if named == "null" else config.load("sweep", named)[0]
    multirun = given.multirun or bool(sweep) or "hydra.mode=MULTIRUN" in words
    if multirun and not given.multirun:
        arguments = ["--multirun", *arguments]
    _check_plugins(command, given.overrides, sweep, multirun)
    if multirun:
        words, added = _words_of_sweep(command, given.overrides, sweep)
    # Whatever runs and logs them, results are the same: these are no part of their names and reports.
    lasting = [word for word in arguments if not word.lstrip("+~").startswith(_PASSING)]
    # The points of a sweep find each other by this.
    kept = content_key({"command": command, "arguments": sorted(lasting), "sweep": sweep})[:12]
    sys.argv = [f"harness {command}", *lasting]  # which reports show
    if multirun:
        words = [*words, *_for_points(arguments, kept, added)]
    elif (alone := composed_alone(command, given)) is not None:
        if "hydra" in sys.modules:  # another command of this process may have left its settings
            from hydra.core.hydra_config import HydraConfig

            HydraConfig.instance().cfg = None
        with _in_one_line(command):
            _job(command)(alone)
        return
    from harness.experiments.cell_composition import initialized

    with _in_one_line(command), initialized(command) as hydra:
        given.overrides = words
        if show_instead(command, hydra, given):
            return
        if multirun:
            from harness.experiments.sweep import planned_points, show_points

            if command == "run":
                try:
                    _check_all_points(arguments)
                except HarnessError as error:
                    raise _JobStoppedError(error) from None
            total, lowest = planned_points(sweep, arguments)
            shown = show_points(_sweep_folder(arguments, kept), total, lowest=lowest)
            with shown if command == "run" else nullcontext():
                hydra.multirun(command, _job(command), [*words, "hydra.mode=MULTIRUN"])
        else:
            hydra.run(command, _job(command), [*words, "hydra.mode=RUN"])
    if command == "run" and multirun:
        from harness.cli.run import summarise
        from harness.render.write import DEFAULT

        import_from_here()
        formats = _given(arguments).get("formats")
        summarise(_sweep_folder(arguments, kept), formats if isinstance(formats, list) else DEFAULT)


def composed_alone(command: str, given: argparse.Namespace) -> dict[str, Any] | None:
    """Returns what Hydra would compose, if nothing but a name of some groups is given; else None.

    Most commands are such, and Hydra takes longer than many runs.
    """
    chosen = dict(word.split("=", 1) for word in given.overrides if is_plain(word))
    flags, alone = vars(given) | {"overrides": None, "run": None}, set(GROUPS[command]) - {"sweep", "experiment"}
    if any(flags.values()) or len(chosen) < len(given.overrides) or chosen.keys() - alone:
        return None
    composed = config.read_file(config.folders()[0] / f"{command}.yaml")
    del composed["hydra"]
    named = dict(pair for entry in composed.pop("defaults") if isinstance(entry, dict) for pair in entry.items())
    for group, name in (named | chosen).items():
        if group in alone and name is not None:
            composed[group] = config.composed(group, name, config.names(group)[name])
            if "defaults" in composed[group] or not is_literal(composed[group]):
                return None
    return composed


def _check_plugins(command: str, overrides: Sequence[str], sweep: Mapping[str, Any], multirun: bool) -> None:
    """Checks the launcher, the sweeper and the trackers, and registers ours; raises HarnessError if one is not here."""
    whole = any(word.startswith("experiment=") for word in overrides)
    if multirun and whole:
        raise HarnessError("run: an experiment cannot be swept; its axes are what varies")
    launcher = next((a.partition("=")[2] for a in overrides[::-1] if a.startswith("hydra/launcher=")), engines.BASIC)
    if launcher != engines.BASIC:
        engines.check_launcher(launcher, other_plugins("launcher"))
    _check_sweep(command, overrides, sweep)
    if launcher != engines.BASIC and command != "run" and "make=true" not in overrides:
        raise HarnessError(f"{command}: hydra/launcher={launcher} is for the command run, and for make=true")
    if multirun or whole or launcher != engines.BASIC:
        engines.register()
    trackers.check_tracker_choice(overrides)


def _job(command: str) -> Callable[[DictConfig | dict[str, Any]], float | None]:
    """Returns the function of the command as Hydra calls it, also in the processes of a launcher."""
    told = list(sys.argv)

    def job(cfg: DictConfig | dict[str, Any]) -> float | None:
        sys.argv = told
        interrupt.in_worker()
        try:
            return _perform(command, cfg)
        except HarnessError as error:
            if not _failed_point(error):
                raise _JobStoppedError(error) from None
            return float("nan")
        except Exception as error:
            raise _JobStoppedError(error) from None

    return job


def _perform(command: str, cfg: DictConfig | dict[str, Any]) -> float | None:
    """Calls the function of the command; its modules are imported when it is needed."""
    if command == "reproduce":
        from harness.cli.reproduce import reproduce

        reproduce(cfg)
        return None
    if cfg.get("experiment"):
        from harness.cli.experiment import experiment

        return experiment(cast("DictConfig", cfg))  # Hydra has composed it
    from harness.cli.run import run

    return run(cfg)


@contextmanager
def _in_one_line(command: str) -> Iterator[None]:
    """Turns errors of Hydra, its plugins and the configuration into a HarnessError; those of the job stay."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra would print some errors and exit by itself
    try:
        yield
    except _JobStoppedError as end:
        stopped = end.error
        from omegaconf.errors import OmegaConfBaseException

        if isinstance(stopped, OmegaConfBaseException | OSError) and not isinstance(stopped, BrokenPipeError):
            raise HarnessError(f"{command}: {gist(stopped)}") from stopped
        raise stopped from stopped.__cause__
    except SystemExit as end:
        sys.exit(2 if end.code == 1 else end.code)  # 1: Hydra has said what is wrong
    except BrokenPipeError:  # whoever read the help has ended
        raise
    except Exception as error:
        said = gist(error).replace("LexerNoViableAltException:", "Error parsing override")
        if said.startswith("Error parsing override"):
            said += f"; expected KEY=VALUE, such as {GROUPS[command][0]}=NAME"
        if said.endswith("requires --multirun"):
            said += "; add -m"
        if "INTERVAL_SWEEP" in said:
            said = "interval() needs hydra/sweeper=optuna; without it, list values, such as system.b=0.2,0.4"
        if key := _OF_SEARCH.search(said):
            name = next(filter(None, key.groups()))
            said = f"hydra.sweeper.{name}: the default sweeper has no such key; a search needs hydra/sweeper=optuna"
        if said.startswith("Ambiguous value"):
            said += "; for a sweep over values add -m, put a list in [], quote a text that contains a comma"
        raise HarnessError(f"{command}: {said}") from error


def _check_sweep(command: str, arguments: Sequence[str], sweep: Mapping[str, Any]) -> None:
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
        engines.check_sweeper(sweeper, other_plugins("sweeper", plugins=False))
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


def _check_all_points(arguments: Sequence[str]) -> None:
    """Raises HarnessError, before the first point of a sweep, for what would stop all of them."""
    from harness.cli.run import check_tune

    given = _given(arguments)
    if given.get("dry") is True:
        said = "'harness show NAME' lists what sweep=NAME varies"
        raise HarnessError(f"run: --dry-run (dry=true) is for an experiment, and this is a sweep; {said}")
    collection, edition, tune = (given.get(key) for key in ("collection", "edition", "tune"))
    if isinstance(collection, str) and isinstance(edition, str | None) and isinstance(tune, list):
        check_tune(collection, edition, [str(name) for name in tune])


def _words_of_sweep(command: str, overrides: Sequence[str], sweep: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Returns `checked_overrides` of the command line and of a sweep's file.

    The words replace those of the file where it varies keys that the system's file does not list.
    """
    sweeper = (sweep.get("hydra") or {}).get("sweeper") or {}
    params = sweeper.get("params") if isinstance(sweeper, Mapping) and "defaults" not in sweep else None
    swept_by_file = [f"{key}={value}" for key, value in params.items()] if isinstance(params, Mapping) else []
    words, added = checked_overrides(command, [*swept_by_file, *overrides])
    if words[: len(swept_by_file)] == swept_by_file:
        return words[len(swept_by_file) :], added
    return ["hydra.sweeper.params=null", *words], added


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
    from harness.experiments.sweep import SweepPoint, note_point, write_point

    overrides = sweep_overrides()
    if not overrides:
        return False
    if isinstance(error, SystemRaisedError):
        log_text(error.trace)
    failed = SweepPoint(overrides, error=str(error).splitlines()[0])
    write_point(sweep_folder(), failed)
    note_point(sweep_folder(), failed, overrides.keys() - fixed())
    return True


def _given(arguments: Sequence[str]) -> dict[str, Any]:
    """Returns key -> value of the overrides of a command line."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    overrides = OverridesParser.create().parse_overrides([text for text in arguments if OVERRIDE.fullmatch(text)])
    return {override.key_or_group: override.value() for override in overrides}


def _sweep_folder(arguments: Sequence[str], kept: str) -> Path:
    """Returns the folder of a sweep's points, as the command that waits for them knows it."""
    return Path(str(_given(arguments).get("output", "reports"))) / "sweeps" / kept


# ---- flags, and what they show in place of running the command --------------------------------------------------

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
