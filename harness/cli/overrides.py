"""The overrides of `reproduce` and `run`, checked before Hydra composes them: what is wrong, and the nearest key."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from pathlib import Path

from harness.cli.key_descriptions import settings_of
from harness.errors import HarnessError, one_of, suggestion
from harness.experiments.experiment import load_experiment
from harness.experiments.overrides import OVERRIDE, system_keys
from harness.io import config
from harness.io.files import read_bytes
from harness.systems.keys import unlisted

GROUPS = {"reproduce": ("paper",), "run": ("collection", "corpus", "system", "protocol", "sweep", "experiment")}

FLAGS = {"--dry-run": "dry=true", "--json": "json=true"}
_PLAIN = re.compile(r"[a-z_]+=([A-Za-z][\w-]*)", re.ASCII)
_NO_TEXT = ("null", "true", "false", "nan", "inf")  # words that Hydra takes for values of other types
_UNREAD = ("no viable", "mismatched", "extraneous", "missing", "LexerNoViable")  # what its parser says
_BETWEEN = re.compile(r""",(?=(?:[^'"]|'[^']*'|"[^"]*")*$)""")  # a comma that is in no quotes
_WHOLE = {"only": "{AXIS:[LABEL]}"}  # keys that are not given in parts


def gist(error: Exception) -> str:
    """Returns the first line of an error of Hydra or OmegaConf, with its key and cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    cause = str(error.__cause__ or "").splitlines()
    said = lines[0] if lines else type(error).__name__
    key = getattr(error, "full_key", None)
    said = f"key {key!r}: {said}" if key else said
    said = f"{said} ({cause[0].strip()})" if cause and cause[0].strip() not in said else said
    there, absent = getattr(error.__cause__, "parent_node", None), getattr(error.__cause__, "key", None)
    known = there.keys() if isinstance(there, Mapping) else ()
    return f"{said}; {suggestion(str(absent), known)}" if known and absent not in known else said


def is_plain(override: str) -> bool:
    """Returns whether an override is a key and one word, as Hydra reads it.

    >>> is_plain("system=bm25-plus"), is_plain("system=NaN"), is_plain("system.k1=2"), is_plain("system=a,b")
    (True, False, False, False)
    """
    match = _PLAIN.fullmatch(override)
    return match is not None and match[1].lower() not in _NO_TEXT


def is_literal(value: object) -> bool:
    """Returns whether OmegaConf takes a value of a configuration as it is; not where it refers to other keys.

    >>> is_literal({"a": [1, "b"]}), is_literal({"a": "${b}"})
    (True, False)
    """
    if isinstance(value, Mapping):
        return all(isinstance(key, str | int) and is_literal(inner) for key, inner in value.items())
    if isinstance(value, list):
        return all(map(is_literal, value))
    return not isinstance(value, str) or ("${" not in value and value != "???")


def check_alone(command: str) -> None:
    """Raises HarnessError if a configuration sets keys outside of its group."""
    ours = config.folders()[0]
    for group in GROUPS[command]:
        for path in (*config.names(group).values(), *config.bases(group)):
            if path.parent.parent != ours:
                _check_alone(group, path)


def checked_overrides(
    command: str, arguments: Sequence[str], checked: set[tuple[str, str]] | None = None
) -> tuple[list[str], list[str]]:
    """Returns the checked arguments as Hydra takes them, and the keys that are set to their defaults for an inner key.

    Hydra refuses keys that no file lists: those that the class of a system takes get `++`. Names of groups and keys
    come first, as Hydra's own messages name neither the file nor the nearest key.

    Parameters
    ----------
    checked : the (group, name) of configurations that earlier calls have checked; those of this call are added.

    Raises
    ------
    HarnessError
        A name or a key is unknown, or a value cannot be read.
    """
    primary = config.folders()[0] / f"{command}.yaml"
    keys = {key: str(primary) for key in config.read_file(primary) if key != "defaults"}
    groups = GROUPS[command]
    chosen: dict[str, list[str]] = {}
    overrides = [match for argument in arguments if (match := OVERRIDE.fullmatch(argument))]
    for argument in arguments:
        if meant := [f"{group}={argument}" for group in groups if argument in config.names(group)]:
            raise HarnessError(f"{command}: {argument}: expected KEY=VALUE; did you mean {one_of(meant)}?")
        if (flag := f"--{argument.replace('_', '-')}") in FLAGS:
            raise HarnessError(f"{command}: {argument}: expected KEY=VALUE; did you mean {flag}?")
        if argument.startswith("~") and not argument.startswith("~hydra"):
            raise HarnessError(f"{command}: {argument}: no key of {primary} can be removed")
    for group, value in ((match["key"], match["value"]) for match in overrides):
        if group in groups and value[:1] in ("[", "{"):
            raise HarnessError(
                f"{command}: {group}={value}: expected one name, such as {group}={next(iter(config.names(group)))}"
            )
        if group in groups and not set(value) & set("{}[]()*"):
            known = config.names(group)
            several = _BETWEEN.split(value)
            names = [_unquoted(name) for name in several]
            for name, given in zip(names, several, strict=True):
                if name not in known:
                    raise HarnessError(f"{group}={name}: no such {group}; {suggestion(name, known)}")
                if name == given and (kind := _other_than_text(name)):
                    raise HarnessError(f"{group}={name}: Hydra reads {name} as a {kind}; give the {group} another name")
                if checked is None or (group, name) not in checked:
                    _check_chosen(group, name)
                    (checked if checked is not None else set()).add((group, name))
            chosen[group] = names
    for match in overrides:
        _check_readable(command, match[0])
        first, _, rest = match["key"].partition(".")
        if first == "hydra" or "/" in match["key"] or "@" in match["key"]:
            continue
        if first not in keys and first not in groups:
            near = suggestion(first, [*keys, *groups])
            near = near.replace("'system'", f"'system.{rest}'") if rest else near
            if any(first in _settings(name) for name in chosen.get("system", ())):
                near = f"a setting of the system is given as system.{match['key']}=VALUE"
            raise HarnessError(f"{command}: {match[0]}: key {match['key']!r} is unknown; {near}")
        if rest and first in groups and first != "system":
            a = "an" if first == "experiment" else "a"
            said = f"{a} {first} is used as its file says; to change it, write a conf/{first}/NAME.yaml of your own"
            raise HarnessError(f"{command}: {match['key']}: {said}")
        if rest and first not in groups:
            raise HarnessError(
                f"{command}: {match['key']}: {first} is given as a whole, {first}={_WHOLE.get(first, '...')}"
            )
        if rest and "experiment" in chosen:
            raise HarnessError(f"{command}: {match['key']}: the systems of an experiment are as its file says")
    if "system" not in chosen:
        return list(arguments), []
    return _settable(command, arguments, chosen["system"], {match["key"] for match in overrides})


def _settings(system: str) -> set[str]:
    """Returns the names of a system's settings, listed in its file or not."""
    listed = system_keys(system)
    return {*listed, *settings_of(str(listed.get("_target_", "")))}


def _settable(
    command: str, arguments: Sequence[str], systems: Sequence[str], given: Set[str]
) -> tuple[list[str], list[str]]:
    """Returns the arguments, with `++` before keys that the systems take and their files do not list."""
    words: list[str] = []
    added: list[str] = []
    for argument in arguments:
        match = OVERRIDE.fullmatch(argument)
        first, _, rest = match["key"].partition(".") if match else ("", "", "")
        if match is None or first != "system" or not rest:
            words.append(argument)
            continue
        above = [rest[: dot.start()] for dot in re.finditer(r"\.", rest)]
        if any(f"system.{name}" in given for name in above) or any(
            ".".join(filter(None, ("system", name, "_target_"))) in given - {match["key"]} for name in ("", *above)
        ):  # whoever builds the system knows what these keys are in
            words.append(argument if match["sign"] else f"++{argument}")
            continue
        keys = [unlisted(system_keys(name), rest, f"{command}: {argument}: system {name}") for name in systems]
        if match["sign"]:
            words.append(f"+{argument}" if (match["sign"], rest) == ("+", "name") else argument)
            continue
        default = keys[0] if keys[0] is not None and keys[0].default and keys.count(keys[0]) == len(keys) else None
        if default is not None and (key := f"system.{default.above}") not in added:
            words.append(f"++{key}={_written(default.default)}")
            added.append(key)
        # Every system has a name; its file need not list it. Hydra lets an empty mapping take keys only with `++`.
        free = (
            bool(systems)
            and match["value"].startswith("{")
            and all(_empty(system_keys(name), rest) for name in systems)
        )
        words.append(f"++{argument}" if any(keys) or rest == "name" or free else argument)
    return words, added


def _empty(listed: object, key: str) -> bool:
    """Returns whether a configuration lists an empty mapping for a key, which takes any names.

    >>> _empty({"a": {"b": {}}}, "a.b"), _empty({"a": {"b": None}}, "a.b"), _empty({"a": {}}, "b")
    (True, False, False)
    """
    for part in key.split("."):
        listed = listed.get(part) if isinstance(listed, Mapping) else None
    return isinstance(listed, Mapping) and not listed


def _written(value: object) -> str:
    """Returns a value of a configuration in Hydra's override syntax.

    >>> _written({"name": "latex", "stop": None, "weights": [1, 0.5, True]})
    "{name:'latex',stop:null,weights:[1,0.5,true]}"
    """
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_written(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_written, value)) + "]"
    if isinstance(value, str):
        return "'" + value.replace("'", r"\'") + "'"
    return json.dumps(value)


@lru_cache(maxsize=4096)  # the cells of an experiment share most of them
def _parsed(override: str) -> tuple[object, Exception | None]:
    """Returns the value of an override as Hydra parses it, and the error if it cannot."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        return OverridesParser.create().parse_override(override).value(), None
    except HydraException as error:
        return "", error


def _check_readable(command: str, override: str) -> None:
    """Raises HarnessError for a value that Hydra cannot parse, with the key and the quotes needed."""
    if is_plain(override) or (error := _parsed(override)[1]) is None:
        return
    said = gist(error)
    if said.startswith(_UNREAD):
        said = "cannot be read; close brackets, and put text with []{}(),:= in quotes, but no keys in {}"
        if (right := _in_quotes(override)) and _parsed(right)[1] is None:
            said = f"cannot be read; write {shlex.quote(right)}"
    # The parser's own error, for a character that no rule of its lexer has.
    if (at := getattr(error.__cause__, "startIndex", None)) is not None:
        key, _, value = override.partition("=")
        sign = override[at:][:1]
        plain = not set(value) & set("[]{}(),'\"")
        right = f"write \"{key.lstrip('+~')}='{value}'\"" if plain else "put the text in quotes"
        said = "a quote is not closed" if sign in "'\"" else f"Hydra reads {sign!r} in quotes only; {right}"
    raise HarnessError(f"{command}: {override}: {said}")


def _in_quotes(override: str) -> str:
    """Returns an override with quotes around a value, or the items of a list, that contain `=` or `:`.

    Returns an empty text if the value or an item contains other signs with a meaning.

    >>> _in_quotes("system.runs=[bm25,runs/k=1.run]")
    'system.runs=[bm25,"runs/k=1.run"]'
    """
    key, _, value = override.partition("=")
    listed = value[:1] == "[" and value[-1:] == "]"
    items = value[1:-1].split(",") if listed else [value]
    if any(set(item) & set("[]{}()'\",") for item in items):
        return ""
    quoted = [f'"{item}"' if set(item) & set("=:") else item for item in items]
    return f"{key}=[{','.join(quoted)}]" if listed else f"{key}={quoted[0]}"


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


def _other_than_text(name: str) -> str:
    """Returns the type as which Hydra reads a name such as `nan` or `1e5`; empty if it is text."""
    read = name if is_plain(f"x={name}") else _parsed(f"x={name}")[0]
    return "" if isinstance(read, str) else {"float": "number", "int": "number"}.get(type(read).__name__, "value")


NAME = {"collection": "name", "corpus": "name", "protocol": "name", "paper": "key"}  # what must be in each


def _check_alone(group: str, path: Path) -> None:
    """Raises HarnessError for a configuration that sets keys outside of its group by a directive of Hydra.

    It could set keys of Hydra itself, some of which name code to be run. Sweeps do set keys outside of their group.
    """
    if group == "sweep":
        return
    text = read_bytes(path)
    if re.search(rb"^\s*#+\s*@package\b", text, re.MULTILINE):
        raise HarnessError(f"{path}: '@package' has no use here; a {group} sets no keys but its own")
    if group == "paper" and "defaults" in config.parse(text, str(path)):
        raise HarnessError(f"{path}: key 'defaults' has no use here; a paper is one file")


def _check_chosen(group: str, name: str) -> None:
    """Raises HarnessError for what Hydra cannot read in a configuration, and for a missing or wrong name."""
    mapping, where = config.load(group, name)
    if group == "experiment":
        load_experiment(name)
    if group in NAME and mapping.get(NAME[group]) != name:
        stated = mapping.get(NAME[group])
        raise HarnessError(f"{where}: key {NAME[group]!r} is {stated!r}, expected the file's name {name!r}")
    texts = {key: value for key, value in mapping.items() if group != "system" or key == "title"}
    for key, value in texts.items():
        if isinstance(value, str) and "${" in value:
            said = "holds '${', which Hydra reads as the name of another key; leave it out, or put a space between"
            raise HarnessError(f"{where}: key {key!r} {said}")
    if is_literal(mapping):
        return
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    for key, value in mapping.items():
        try:
            OmegaConf.create({key: value})
        except OmegaConfBaseException as error:
            raise HarnessError(f"{where}: {gist(error)}") from None
