"""Keys of a system that its file does not list: which keys its class accepts, and which have their defaults.

A configuration lists only the keys that are changed most often. The other parameters of its class (`_target_`), and of
nested classes (such as a translator or a training), have defaults and can be set like listed keys. If no `_target_`
names the class of a nested key, the outer class does by an attribute `nested = {"training": Tuning}`.
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
from harness.systems.resources import RESOURCES, Resources

Factory = Callable[..., Any]


@dataclass(frozen=True)
class Unlisted:
    """A key that a configuration does not list but that can be set.

    Attributes
    ----------
    above, default : the outermost unlisted parent key and its default, if the default is a non-empty mapping, whose
        other keys must be kept; otherwise empty.
    """

    above: str = ""
    default: Mapping[str, Any] | None = None


@cache  # defaults do not change while the program runs
def defaults(factory: Factory) -> Mapping[str, Any] | None:
    """Returns the parameters of a class or function with their defaults, `MISSING` for those without.

    Returns None if it accepts any key, or has no signature.

    Examples
    --------
    >>> from harness.systems.baselines import Shuffle
    >>> defaults(Shuffle)["depth"]
    1000
    """
    if is_dataclass(factory) and _has_own_fields(factory):
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


def _has_own_fields(factory: Factory) -> bool:
    """Returns whether the parameters of a data class are its fields: a class derived from it may have others."""
    assert isinstance(factory, type)  # noqa: S101  (for mypy)
    maker = next(each for each in factory.__mro__ if "__init__" in vars(each))
    return "__dataclass_fields__" in vars(maker)


def unlisted(configuration: Mapping[str, Any], key: str, where: str) -> Unlisted | None:
    """Looks up a key of a system; returns None if the configuration lists it.

    Classes of other packages are not imported; their keys are checked when the system is built.

    Parameters
    ----------
    key : such as `k1` or `translator.beams`.

    Raises
    ------
    HarnessError
        The key is unknown, or is inside a value that is not a mapping; the message begins with `where`.

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
            reason = f"{whole!r} is {node!r}, which has no keys; give {whole!r} as a whole"
            raise HarnessError(f"{where}: key {key!r}: {reason}")
        known = None if factory is None else defaults(factory)
        listed = node is not None and name in node and first is None
        if not listed:
            if end == 1 and known is not None:
                known = {RESOURCES: None, **known}
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
        inner = Resources if end == 1 and name == RESOURCES else _inner_class_of(factory, name)
        factory, node = _class_of(value, inner), value
    return first


def inner_classes(configuration: Mapping[str, Any], factory: Factory | None = None) -> dict[str, Factory]:
    """Returns key -> class of the mappings inside a system's configuration, listed or not; inner keys are dotted.

    Parameters
    ----------
    factory : class of the configuration; by default the one named by `_target_`.

    Examples
    --------
    >>> found = inner_classes({"_target_": "harness.systems.lexical.system.BM25"})
    >>> [(key, made.__name__) for key, made in found.items()]
    [('view', 'view')]
    """
    factory = _class_of(configuration, factory)
    class_of: dict[str, Factory] = {}
    for key in {**configuration, **getattr(factory, "nested", {})}:
        value = configuration.get(key)
        inner = _class_of(value, _inner_class_of(factory, key))
        if inner is not None:
            class_of[key] = inner
            below = inner_classes(value if isinstance(value, Mapping) else {}, inner)
            class_of |= {f"{key}.{name}": each for name, each in below.items()}
    return class_of


def decisive(configuration: Mapping[str, Any], factory: Factory | None = None) -> dict[str, Any]:
    """Removes the keys with default values from a configuration, so that a run's key does not depend on them.

    Whole numbers are returned as such: 2.0 as 2.

    Parameters
    ----------
    factory : class of the configuration; by default the one named by `_target_`.

    Examples
    --------
    >>> decisive({"_target_": "harness.systems.baselines.Shuffle", "seed": 7, "depth": 1000})
    {'_target_': 'harness.systems.baselines.Shuffle', 'seed': 7}
    """
    factory = _class_of(configuration, factory, any_package=True)
    known = (defaults(factory) if factory is not None else None) or {}
    kept = {}
    for key, value in configuration.items():
        inner = _inner_class_of(factory, key)
        reduced, default = _decisive_value(value, inner), _decisive_value(known.get(key, MISSING), inner)
        if default is MISSING or not _same(reduced, default):
            kept[key] = reduced
    return kept


def changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Returns key -> value in `before` of the keys whose values differ in two configurations of a system.

    A key that is not listed has the default of the class that `now` names; `MISSING` if that is unknown. If `before`
    names another class, only `_target_` is returned. The name of a system is ignored.

    Examples
    --------
    >>> shuffle = {"_target_": "harness.systems.baselines.Shuffle"}
    >>> changed(shuffle | {"depth": 10}, shuffle | {"seed": 7, "depth": 10})
    {'seed': 0}
    """
    if before.get(TARGET) != now.get(TARGET):
        return {TARGET: before.get(TARGET)}
    factory = _class_of(now, None, any_package=True)
    known = {} if factory is None else defaults(factory) or {}
    listed = {key: value for key, value in known.items() if value is not MISSING}
    one, other = (_flat({**listed, **configuration, "name": None}) for configuration in (before, now))
    keys = [key for key in {**one, **other} if not _same(one.get(key, MISSING), other.get(key, MISSING))]
    return {key: one.get(key, MISSING) for key in keys}


def _flat(configuration: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Returns the values of a configuration and of its inner mappings by dotted key."""
    values: dict[str, Any] = {}
    for key, value in configuration.items():
        if isinstance(value, Mapping) and value:
            values |= _flat(value, f"{above}{key}.")
        else:
            values[f"{above}{key}"] = _decisive_value(value, None)
    return values


def _decisive_value(value: Any, factory: Factory | None) -> Any:  # noqa: ANN401
    """Returns a value as it counts in a run's key: mappings without defaults, whole floats as integers."""
    if isinstance(value, Mapping):
        return decisive(value, factory)
    if isinstance(value, list | tuple):
        return [_decisive_value(each, None) for each in value]
    # 2 and 2.0 are one number, and JSON writes two.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _same(one: object, other: object) -> bool:
    """Returns whether two values of a configuration are equal: 1 equals 1.0, but not true."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return isinstance(one, str | int | float | None) and one == other


def _inner_class_of(factory: Factory | None, key: str) -> Factory | None:
    inner_class: Factory | None = getattr(factory, "nested", {}).get(key)
    return inner_class


def _class_of(value: object, otherwise: Factory | None, *, any_package: bool = False) -> Factory | None:
    """Returns the class that a configuration names, or `otherwise`; None for other packages unless `any_package`."""
    target = value.get(TARGET) if isinstance(value, Mapping) else None
    if target is None:
        return otherwise
    module, _, name = str(target).rpartition(".")
    if not any_package and module.partition(".")[0] != OURS:
        return None
    try:
        factory = getattr(importlib.import_module(module), name, None)
    except Exception:  # `build_system` reports the error
        return None
    return factory if callable(factory) else None
