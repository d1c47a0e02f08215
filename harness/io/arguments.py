"""Validates arguments of public functions against their annotations, with one line per wrong argument."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from functools import cache, wraps
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from harness.errors import refuse

P = ParamSpec("P")
R = TypeVar("R")
_LISTS = (Sequence, Iterable, Collection)
_LONGEST = 60  # characters of a value in a message
_NAMES: Mapping[object, str] = {
    str: "text",
    Path: "a path",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    NoneType: "None",
    Sequence: "a list",
    Iterable: "a list",
    Collection: "a list",
    Mapping: "a mapping",
}
_EACH: Mapping[object, str] = {str: "texts", Path: "paths", int: "whole numbers", float: "numbers"}


def checked_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Decorates a public function, so that arguments of a wrong type raise HarnessError.

    Annotations whose names are imported only for type checkers are not checked.

    Examples
    --------
    >>> @checked_arguments
    ... def first(names: Sequence[str], count: int = 1) -> list[str]:
    ...     return list(names[:count])
    >>> first(("a", "b"), None)
    Traceback (most recent call last):
    harness.errors.HarnessError: first: argument 'count' is None, expected a whole number
    """
    signature = inspect.signature(function)

    @cache
    def kinds() -> dict[str, object]:
        names = _Names(getattr(function, "__globals__", {}))
        try:
            hints = get_type_hints(function, {}, names)
        except (AttributeError, TypeError):  # an attribute of a module that is not imported
            return {}
        return {name: hint for name, hint in hints.items() if name in signature.parameters}

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        given = signature.bind(*args, **kwargs).arguments
        faults = []
        for name, kind in kinds().items():
            if name not in given:
                continue
            parameter = signature.parameters[name]
            if parameter.kind is parameter.VAR_KEYWORD:
                continue
            for value in given[name] if parameter.kind is parameter.VAR_POSITIONAL else (given[name],):
                if not _fits(value, kind):
                    said = f"argument {name!r} is {repr(value)[:_LONGEST]}, expected {_name(kind)}"
                    faults.append(f"{function.__name__}: {said}")
        refuse(faults)
        return function(*args, **kwargs)

    return call


class _Names(dict[str, Any]):
    """Names of a module; unknown ones, which only type checkers import, stand for any type."""

    def __missing__(self, name: str) -> object:
        return getattr(builtins, name, Any)


def _fits(value: object, kind: object) -> bool:
    """Returns whether a value has a type; True for types that cannot be checked."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in arguments)
    if origin is Literal:
        return isinstance(value, str) and value in arguments
    if origin in _LISTS:
        if not isinstance(value, Iterable) or isinstance(value, bytes | Mapping):
            return False
        if not isinstance(value, Sequence | Set) or not arguments:  # an iterator can be read only once
            return True
        return all(_fits(each, arguments[0]) for each in value)
    if origin is Mapping:
        return isinstance(value, Mapping)
    if kind in (None, NoneType):
        return value is None
    if kind is bool:
        return isinstance(value, bool)
    if kind in (int, float):
        return isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
    if origin is not None or not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return True
    return isinstance(value, kind)


def _name(kind: object) -> str:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_name(each) for each in arguments))
    if origin is Literal:
        return "one of " + ", ".join(map(repr, arguments))
    if origin in _LISTS and arguments and arguments[0] in _EACH:
        return f"a list of {_EACH[arguments[0]]}"
    return _NAMES.get(origin or kind, getattr(kind, "__name__", str(kind)))
