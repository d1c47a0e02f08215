"""The two commands that compose a configuration, `reproduce` and `run`, with Hydra's own overrides and flags."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from harness.cli.settings import import_from_here, sweep_folder, swept
from harness.errors import HarnessError, SystemRaisedError, suggestion
from harness.io import config, interrupt
from harness.io.console import tell
from harness.io.files import read_bytes
from harness.store.artefacts import key as content_key

if TYPE_CHECKING:
    from omegaconf import DictConfig

GROUPS = {"reproduce": ("paper",), "run": ("collection", "corpus", "system", "protocol", "sweep")}
OVERRIDE = re.compile(r"(?P<sign>\+{0,2})(?P<key>[A-Za-z_][\w.@/]*)=(?P<value>.*)", re.DOTALL)


class _StoppedError(BaseException):
    """Carries the error of a job past Hydra, which would print lines of its own about it."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def main(command: str, arguments: Sequence[str]) -> None:
    """Compose `conf/COMMAND.yaml` with the arguments and do the command.

    Raises
    ------
    HarnessError
        A configuration, an override or what it names is wrong.
    """
    # Hydra's parser takes overrides in one piece: `run system=a,b -m corpus=c` would be none.
    arguments = sorted(arguments, key=lambda argument: argument not in ("-m", "--multirun"))
    _check(command, arguments)
    interrupt.quiet_workers()
    import hydra
    from hydra.core.config_search_path import ConfigSearchPath
    from hydra.core.plugins import Plugins
    from hydra.plugins.search_path_plugin import SearchPathPlugin
    from omegaconf.errors import OmegaConfBaseException

    _check_flags(command, arguments)

    class UserFolders(SearchPathPlugin):
        """The user's own `conf/` beside ours."""

        def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
            for folder in config.folders()[1:]:
                search_path.append("user", f"file://{folder.resolve()}")

    Plugins.instance().register(UserFolders)
    # Hydra would print errors and exit by itself; ours are one line.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    named = next((a.partition("=")[2] for a in arguments if a.startswith("sweep=")), "null")
    sweep = {} if named == "null" else config.load("sweep", named)[0]
    multirun = bool({"-m", "--multirun"} & set(arguments))
    if not multirun and (sweep or "hydra.mode=MULTIRUN" in arguments):
        multirun, arguments = True, ["--multirun", *arguments]
    # The points of a sweep find each other by this.
    kept = content_key({"command": command, "arguments": sorted(arguments), "sweep": sweep})[:12]
    told = [f"harness {command}", *arguments]
    sys.argv = [*told, *_for_points(arguments, kept)] if multirun else told
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

    stopped: Exception | None = None
    try:
        hydra.main(version_base="1.3", config_path=ours, config_name=command)(job)()
    except _StoppedError as error:
        stopped = error.error
        if isinstance(stopped, OmegaConfBaseException | OSError):
            raise HarnessError(f"{command}: {_line(stopped)}") from stopped
    except SystemExit as end:
        sys.exit(2 if end.code == 1 else end.code)  # 1: Hydra has said what is wrong
    except Exception as error:  # of Hydra, its plugins and the configuration, before or after the work
        said = _line(error)
        if said.startswith("Error parsing override"):
            said += f"; expected KEY=VALUE, such as {GROUPS[command][0]}=NAME"
        raise HarnessError(f"{command}: {said}") from error
    sys.argv = told
    if stopped is not None:
        raise stopped
    if command == "run" and multirun:
        _summarise(arguments, kept)


def _task(command: str) -> Callable[[DictConfig], float | None]:
    """What does the command, loaded when its configuration has been checked."""
    from harness.cli.reproduce import reproduce
    from harness.cli.run import run

    return {"reproduce": reproduce, "run": run}[command]


def _for_points(arguments: Sequence[str], kept: str) -> list[str]:
    """What the points of a sweep must know, as keys of Hydra's own, which go with them to whatever machine they run on.

    These are the folder in which they are kept (`sweep_folder`), and the keys that do not vary (`fixed`).
    """
    given = [match for match in map(OVERRIDE.fullmatch, arguments) if match]
    fixed = [match["key"] for match in given if not _has_several(match["value"])]
    excluded = f"hydra.job.config.override_dirname.exclude_keys={json.dumps(fixed)}"
    return [f"hydra.sweep.subdir='sweeps/{kept}'", excluded]


def _has_several(value: str) -> bool:
    """Whether an override gives its key several values."""
    outside = re.sub(r"\[[^\]]*\]|\{[^}]*\}|'[^']*'|\"[^\"]*\"", "", value)
    return "," in outside or bool(re.search(r"\b(?:choice|range|interval|glob|sort|shuffle|tag)\(", outside))


def _failed_point(error: HarnessError) -> bool:
    """Whether the fault is one point's of a sweep: then it is kept, and the sweep goes on."""
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
    from harness.render.write import FORMATS

    import_from_here()
    overrides = OverridesParser.create().parse_overrides([text for text in arguments if OVERRIDE.fullmatch(text)])
    given = {override.key_or_group: override.value() for override in overrides}
    formats = given.get("formats")
    folder = Path(str(given.get("output", "reports"))) / "sweeps" / kept
    summarise(folder, formats if isinstance(formats, list) else FORMATS)


def _line(error: Exception) -> str:
    """The gist of an error of Hydra's or OmegaConf's, without its hints on several lines."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    cause = str(error.__cause__ or "").splitlines()
    gist = lines[0] if lines else type(error).__name__
    key = getattr(error, "full_key", None)
    gist = f"key {key!r}: {gist}" if key else gist
    return f"{gist} ({cause[0].strip()})" if cause and cause[0].strip() not in gist else gist


def _check_flags(command: str, arguments: Sequence[str]) -> None:
    """Hydra's flags, by its own parser, whose messages take several lines, as far as they make sense here."""
    from hydra._internal.utils import get_args_parser

    def refuse(message: str) -> NoReturn:
        raise HarnessError(f"{command}: {message}; 'harness {command} --hydra-help' lists the flags")

    if any(argument.startswith("--ver") for argument in arguments):
        refuse("--version is a flag of the harness itself: harness --version")
    parser = get_args_parser()
    parser.error = refuse  # type: ignore[method-assign]
    given = parser.parse_args(list(arguments))
    for flag in ("config_path", "config_name", "config_dir", "experimental_rerun"):
        if getattr(given, flag) is not None:
            refuse(
                f"--{flag.replace('_', '-')} has no use here; configurations of your own go below conf/ or HARNESS_CONF"
            )
    does = [given.run, given.multirun, given.cfg is not None, given.info is not None, given.shell_completion]
    if sum(does) > 1:
        refuse("only one of --run, --multirun, --cfg, --info and --shell-completion can be given")
    if given.resolve and not (given.cfg or given.help):
        refuse("--resolve is for the configuration that --cfg job shows")


def _check(command: str, arguments: Sequence[str]) -> None:
    """Names of groups and keys first: Hydra's own messages name neither the file nor the nearest key."""
    primary = config.folders()[0] / f"{command}.yaml"
    keys = {key: str(primary) for key in config.parse(read_bytes(primary), str(primary)) if key != "defaults"}
    groups = GROUPS[command]
    for group in groups:
        for path in config.names(group).values():
            _check_alone(group, path)
    chosen: dict[str, str] = {}
    overrides = [match for argument in arguments if (match := OVERRIDE.fullmatch(argument))]
    for argument in arguments:
        if argument.startswith("~") and not argument.startswith("~hydra"):
            raise HarnessError(f"{command}: {argument}: no key of {primary} can be removed")
    for group, value in ((match["key"], match["value"]) for match in overrides):
        if group in groups and not set(value) & set("{}[]()*"):
            known = config.names(group)
            for name in value.split(","):
                if name not in known:
                    raise HarnessError(f"{group}={name}: no such {group}; {suggestion(name, known)}")
                _check_chosen(group, name)
            chosen[group] = value.partition(",")[0]
    for match in overrides:
        first, _, rest = match["key"].partition(".")
        if first == "hydra" or "/" in match["key"] or "@" in match["key"]:
            continue
        if first not in keys and first not in groups:
            raise HarnessError(f"{primary}: key {match['key']!r} is unknown; {suggestion(first, [*keys, *groups])}")
        if rest and first in groups and first != "system":
            said = f"a {first} is used as its file says; to change it, write a conf/{first}/NAME.yaml of your own"
            raise HarnessError(f"{command}: {match['key']}: {said}")
        if rest and first in chosen and not match["sign"]:
            mapping, where = config.load(first, chosen[first])
            if rest.partition(".")[0] not in mapping:
                raise HarnessError(f"{where}: key {rest!r} is unknown; {suggestion(rest, mapping)}")


NAME = {"collection": "name", "corpus": "name", "protocol": "name", "paper": "key"}  # what must stand in each


def _check_alone(group: str, path: Path) -> None:
    """Raise HarnessError for a configuration that reaches out of its own group, by a directive of Hydra's.

    It could set keys of Hydra itself, some of which name code to be run. Sweeps do set keys outside of their group.
    """
    if path.parent.parent == config.folders()[0] or group == "sweep":
        return
    text = read_bytes(path)
    if re.search(rb"^\s*#+\s*@package\b", text, re.MULTILINE):
        raise HarnessError(f"{path}: '@package' has no use here; a {group} sets no keys but its own")
    if group == "paper" and "defaults" in config.parse(text, str(path)):
        raise HarnessError(f"{path}: key 'defaults' has no use here; a paper is one file")


def _check_chosen(group: str, name: str) -> None:
    """Raise HarnessError for what Hydra would stumble over in a configuration, or what it would lack."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    mapping, where = config.load(group, name)
    if group in NAME and mapping.get(NAME[group]) != name:
        found = mapping.get(NAME[group])
        raise HarnessError(f"{where}: key {NAME[group]!r} is {found!r}, expected the file's name {name!r}")
    texts = {key: value for key, value in mapping.items() if group != "system" or key == "title"}
    for key, value in texts.items():
        if isinstance(value, str) and "${" in value:
            said = "holds '${', which Hydra reads as the name of another key; leave it out, or put a space between"
            raise HarnessError(f"{where}: key {key!r} {said}")
    for key, value in mapping.items():
        try:
            OmegaConf.create({key: value})
        except OmegaConfBaseException as error:
            raise HarnessError(f"{where}: {_line(error)}") from None
