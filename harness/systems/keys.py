"""The keys of a system that its file does not list: which its class takes, and which of them decide nothing.

A configuration lists the keys that people change most. The other parameters of its class (`_target_`), and of the
classes inside it (a translator, a training), have defaults, and can be given like listed keys. Where no `_target_`
names the class of an inner key, the outer class does, by an attribute `nested = {"training": Tuning}`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Any

from harness.errors import HarnessError, suggestion
from harness.store.code import OURS, TARGET

Factory = Callable[..., Any]


@dataclass(frozen=True)
class Unlisted:
    """A key that a configuration does not list, and that can be given.

    Attributes
    ----------
    above, default : the outermost key above it that is not listed, and that one's default, where this is a mapping
        with keys of its own, which stay; else empty.
    """

    above: str = ""
    default: Mapping[str, Any] | None = None


@cache  # by class, which is code
def defaults(factory: Factory) -> Mapping[str, Any] | None:
    """Returns the parameters of a class or function with their defaults, `MISSING` where there is none.

    None if any key may be given, or nothing says which.

    Examples
    --------
    >>> from harness.systems.baselines import Shuffle
    >>> defaults(Shuffle)["depth"]
    1000
    """
    if is_dataclass(factory):
        made = {each.name: each.default_factory for each in fields(factory) if each.init}
        plain = {each.name: each.default for each in fields(factory) if each.init}
        return {name: make() if (make := made[name]) is not MISSING else plain[name] for name in plain}
    try:
        known = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # written in C
        return None
    if any(each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL) for each in known):
        return None
    return {each.name: MISSING if each.default is each.empty else each.default for each in known}


def unlisted(configuration: Mapping[str, Any], key: str, where: str) -> Unlisted | None:
    """Returns what is known of a key below `system`; None if the configuration lists it.

    Classes of other packages are not imported: they are checked when the system is built.

    Parameters
    ----------
    key : such as `k1` or `translator.beams`.

    Raises
    ------
    HarnessError
        The key is unknown, or would stand inside a value that is no mapping; the line begins with `where`.

    Examples
    --------
    >>> shuffle = {"_target_": "harness.systems.baselines.Shuffle", "seed": 1}
    >>> unlisted(shuffle, "seed", "shuffle"), unlisted(shuffle, "depth", "shuffle")
    (None, Unlisted(above='', default=None))
    >>> unlisted(shuffle, "dept", "shuffle")
    Traceback (most recent call last):
    harness.errors.HarnessError: shuffle: key 'dept' is unknown; did you mean 'depth'?
    """
    names = key.split(".")
    node: Any = configuration
    factory = _class_of(configuration, None)
    first: Unlisted | None = None
    for end, name in enumerate(names, 1):
        if node is not None and not isinstance(node, Mapping):
            whole = ".".join(names[: end - 1])
            said = f"{whole!r} is {node!r}, which has no keys; give {whole!r} as a whole"
            raise HarnessError(f"{where}: key {key!r}: {said}")
        known = None if factory is None else defaults(factory)
        listed = node is not None and name in node and first is None
        if not listed:
            choices = {**(node or {}), **(known or {})}
            if name not in choices and (known is not None or (end == 1 and TARGET not in configuration)):
                raise HarnessError(f"{where}: key {key!r} is unknown; {suggestion(name, choices)}")
            value = (node or {}).get(name, (known or {}).get(name, MISSING))
            value = None if value is MISSING else value
            if first is None:
                kept = value if isinstance(value, Mapping) and value and end < len(names) else None
                first = Unlisted(".".join(names[:end]) if kept else "", kept)
        else:
            value = (node or {})[name]
        factory, node = _class_of(value, _nested(factory, name)), value
    return first


def decisive(configuration: Mapping[str, Any], factory: Factory | None = None) -> dict[str, Any]:
    """A configuration without the keys that have the default of their class: a run's key does not depend on them.

    Parameters
    ----------
    factory : the class whose keys they are; by default the one that `_target_` names.

    Examples
    --------
    >>> decisive({"_target_": "harness.systems.baselines.Shuffle", "seed": 7, "depth": 1000})
    {'_target_': 'harness.systems.baselines.Shuffle', 'seed': 7}
    """
    factory = _class_of(configuration, factory, any_package=True)
    known = (defaults(factory) if factory is not None else None) or {}
    found = {}
    for key, value in configuration.items():
        inner = _nested(factory, key)
        reduced, default = _reduced(value, inner), _reduced(known.get(key, MISSING), inner)
        if default is MISSING or not _same(reduced, default):
            found[key] = reduced
    return found


def _reduced(value: Any, factory: Factory | None) -> Any:  # noqa: ANN401
    if isinstance(value, Mapping):
        return decisive(value, factory)
    if isinstance(value, list | tuple):
        return [_reduced(each, None) for each in value]
    return value


def _same(one: object, other: object) -> bool:
    """Returns whether two values of a configuration mean the same: 1 is 1.0, and not true."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return isinstance(one, str | int | float | None) and one == other


def _nested(factory: Factory | None, key: str) -> Factory | None:
    found: Factory | None = getattr(factory, "nested", {}).get(key)
    return found


def _class_of(value: object, otherwise: Factory | None, *, any_package: bool = False) -> Factory | None:
    """The class that a configuration names, or `otherwise`; None if it is not ours and not `any_package` is asked."""
    target = value.get(TARGET) if isinstance(value, Mapping) else None
    if target is None:
        return otherwise
    module, _, name = str(target).rpartition(".")
    if not any_package and module.partition(".")[0] != OURS:
        return None
    try:
        found = getattr(importlib.import_module(module), name, None)
    except Exception:  # whoever builds the system says what is wrong
        return None
    return found if callable(found) else None
