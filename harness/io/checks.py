"""Validates the keys of configurations, with one line per fault."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from harness.errors import HarnessError, gather, refuse, suggestion

T = TypeVar("T")


def typed(cls: type[T], mapping: object, where: str) -> T:
    """Validates the keys and values of a configuration, and returns them as a frozen dataclass.

    Fields without a default are required keys that must not be null. Supported types of fields: `str`, `int`, `float`,
    `bool`, a `Literal`, `tuple[X, ...]` (a list), `Mapping[str, X]` (not empty), another dataclass, `X | None`, `Any`.
    For `Annotated[X, check]`, the value is the result of `check(key, value)`, such as `partial(whole, low=1)`.

    Parameters
    ----------
    where : the file and the keys that lead to the mapping; every line of an error begins with it.

    Raises
    ------
    HarnessError
        Keys are unknown, missing or wrong; the message lists all of them, one per line.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Cut:
    ...     measure: str
    ...     depth: int = 10
    >>> typed(Cut, {"measure": "P"}, "conf/cut.yaml")
    Cut(measure='P', depth=10)
    """
    faults: list[str] = []
    value = _fields(cls, mapping, where, faults)
    refuse(faults)
    return cast(T, value)


@cache  # by class, which is code
def _kinds(cls: type) -> dict[str, tuple[object, bool]]:
    """Returns field of a dataclass -> its type, and whether it has a default."""
    hints = get_type_hints(cls, include_extras=True)
    given = ((field, field.default is not MISSING or field.default_factory is not MISSING) for field in fields(cls))
    return {field.name: (hints[field.name], default) for field, default in given}


def _fields(cls: type, mapping: object, where: str, faults: list[str]) -> object:
    """Returns the dataclass, or None after adding faults to the list, like `_value` and `_item`."""
    if not isinstance(mapping, Mapping):
        faults.append(f"{where}: expected keys and values, found {mapping!r}")
        return None
    kinds, before = _kinds(cls), len(faults)
    unknown = [key for key in mapping if key not in kinds]
    missing = [key for key, (_, default) in kinds.items() if not default and mapping.get(key) is None]
    faults += [f"{where}: key {key!r} is unknown; {suggestion(str(key), kinds)}" for key in unknown]
    faults += [f"{where}: key {key!r} is missing" for key in missing]
    given = [key for key in kinds if key in mapping and key not in missing]
    values = {key: _value(kinds[key][0], key, mapping[key], where, faults) for key in given}
    if len(faults) > before:
        return None
    with gathered(where, faults):
        return cls(**values)


@contextmanager
def gathered(where: str, faults: list[str]) -> Iterator[None]:
    """Keeps the lines of a `HarnessError` with `where` before each."""
    lines: list[str] = []
    with gather(lines):
        yield
    faults += [f"{where}: {line}" for line in lines]


def _value(kind: object, key: str, value: object, where: str, faults: list[str]) -> object:
    """Returns the value of a key."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        with gathered(where, faults):
            return arguments[1](key, value)
        return None
    if origin in (Union, UnionType):
        (inner,) = (argument for argument in arguments if argument is not NoneType)
        return None if value is None else _value(inner, key, value, where, faults)
    if kind in (Any, object):
        return value
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_item(arguments[0], key, item, where, faults) for item in value)
    if origin is Mapping and isinstance(value, Mapping) and value:
        return _entries(arguments, value, f"{where}: {key}", faults)
    if is_dataclass(kind) and isinstance(value, Mapping) and value:
        return _fields(cast(type, kind), value, f"{where}: {key}", faults)
    if origin is Literal and any(value == known and type(value) is type(known) for known in arguments):
        return value
    if kind is float and type(value) is int and abs(value) <= sys.float_info.max:
        return float(value)
    if kind in _EXPECTED and type(value) is kind:
        return value
    expected = (
        f"one of {', '.join(arguments)}" if origin is Literal else _EXPECTED.get(origin or kind, "keys and values")
    )
    faults.append(f"{where}: key {key!r} is {value!r}, expected {expected}")
    return None


def _item(kind: object, key: str, item: object, where: str, faults: list[str]) -> object:
    """Returns one value of a list."""
    if is_dataclass(kind):
        return _fields(cast(type, kind), item, f"{where}: {key}", faults)
    if kind is str and not isinstance(item, str):
        faults.append(f"{where}: key {key!r}: {item!r} is not text; put it in quotes")
        return None
    return _value(kind, key, item, where, faults)


def _entries(
    kinds: tuple[object, object], mapping: Mapping[object, object], where: str, faults: list[str]
) -> dict[object, object]:
    """Returns the values of keys without fixed names; converts numeric keys to text if the type requires it."""
    named, kind = {str(name) if kinds[0] is str else name: value for name, value in mapping.items()}, kinds[1]
    if is_dataclass(kind):
        return {name: _fields(cast(type, kind), value, f"{where}: {name}", faults) for name, value in named.items()}
    return {name: _value(kind, str(name), value, where, faults) for name, value in named.items()}


_EXPECTED: Mapping[object, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    tuple: "a list",
}


def text(key: str, value: object) -> str:
    """Returns text, or a number as text: names such as `1` need no quotes."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise HarnessError(f"key {key!r} is {value!r}, expected text")
    return str(value)


Words = Annotated[str, text]


Lack = Literal["needs", "not implemented", "blocked"]
_STATE = re.compile(r"(blocked|not implemented): *(\S.*)|(needs) +(\S.*)")


def state(text: object, where: str) -> tuple[Lack, str]:
    """Parses `blocked: WHY`, `not implemented: WHY` or `needs WHAT` to (state, WHY or WHAT).

    `blocked` means unavailable anywhere, `not implemented` that it could be built, `needs` that a resource is missing.

    Raises
    ------
    HarnessError
        The text is anything else, or more than one line.
    """
    match = _STATE.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None or not match[0].isprintable():
        expected = "one line: 'blocked: WHY', 'not implemented: WHY' or 'needs WHAT'"
        raise HarnessError(f"{where}: key 'state' is {text!r}, expected {expected}")
    return cast(Lack, match[1] or match[3]), match[2] or match[4]


def check_number(key: str, value: object, *, low: float = 0.0, high: float = math.inf) -> float:
    """Returns a finite number from `low` to `high`."""
    # NaN, infinity and whole numbers that no float can hold are not at most the largest float.
    good = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    if not good or not low <= value <= high:  # type: ignore[operator]
        to = f" to {high:g}" if math.isfinite(high) else " up"
        raise HarnessError(f"key {key!r} is {value!r}, expected a number from {low:g}{to}")
    return float(value)  # type: ignore[arg-type]


def check_whole_number(key: str, value: object, *, low: int = 0) -> int:
    """Returns a whole number from `low` up."""
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise HarnessError(f"key {key!r} is {value!r}, expected a whole number from {low} up")
    return value


def choice(key: str, value: object, known: Iterable[str]) -> str:
    """Validates that a value is one of some names, and returns it."""
    if not isinstance(value, str) or value not in known:
        raise HarnessError(f"key {key!r} is {value!r}; {suggestion(str(value), known)}")
    return value


def check_fields(made: object) -> None:
    """Validates the values of a dataclass whose types say how: a truth value, a `Literal`, or `Annotated[X, check]`.

    Raises
    ------
    HarnessError
        A value is wrong; the message names the first one.
    """
    cls: type = type(made)
    for key, (kind, _) in _kinds(cls).items():
        value, inner = getattr(made, key), kind
        if get_origin(kind) in (Union, UnionType):
            if value is None:
                continue
            inner = next(each for each in get_args(kind) if each is not NoneType)
        if get_origin(inner) is Annotated:
            get_args(inner)[1](key, value)
        elif get_origin(inner) is Literal:
            choice(key, value, get_args(inner))
        elif kind is bool and type(value) is not bool:
            raise HarnessError(f"key {key!r} is {value!r}, expected true or false")


class Checked:
    """Base of dataclasses that validate their values when they are made: see `check_fields`."""

    def __post_init__(self) -> None:
        check_fields(self)


Natural = Annotated[int, check_whole_number]
Positive = Annotated[int, partial(check_whole_number, low=1)]
Number = Annotated[float, check_number]
Share = Annotated[float, partial(check_number, high=1.0)]


def weights(key: str, value: object) -> dict[str, int]:
    """Returns field -> weight of its tokens, without fields of weight 0; at least one must remain."""
    if not isinstance(value, Mapping):
        raise HarnessError(f"key {key!r} is {value!r}, expected fields and weights such as {{title: 2, body: 1}}")
    out = {str(field): check_whole_number(f"{key}.{field}", weight) for field, weight in value.items()}
    if not any(out.values()):
        raise HarnessError(f"key {key!r} has no field of a weight above 0")
    return {field: weight for field, weight in out.items() if weight}
