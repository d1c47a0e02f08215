"""Checks of the keys that configurations have, each fault in one line."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, cast

from harness.errors import HarnessError, refuse, suggestion


def key_faults(
    mapping: Mapping[str, Any], required: tuple[str, ...], optional: tuple[str, ...], where: str
) -> list[str]:
    """A line for each key that is missing or that is not known."""
    if not isinstance(mapping, Mapping):
        return [f"{where}: expected keys and values, found {mapping!r}"]
    known = required + optional
    unknown = [key for key in mapping if key not in known]
    missing = [key for key in required if mapping.get(key) is None]
    return [
        *(f"{where}: key {key!r} is unknown; {suggestion(str(key), known)}" for key in unknown),
        *(f"{where}: key {key!r} is missing" for key in missing),
    ]


def check_keys(mapping: Mapping[str, Any], required: tuple[str, ...], optional: tuple[str, ...], where: str) -> None:
    """Raise HarnessError for a key that is missing or that is not known."""
    refuse(key_faults(mapping, required, optional, where)[:1])


Lack = Literal["needs", "not implemented", "blocked"]
_STATE = re.compile(r"(blocked|not implemented): *(\S.*)|(needs) +(\S.*)")


def state(text: object, where: str) -> tuple[Lack, str]:
    """What a line such as `blocked: WHY`, `not implemented: WHY` or `needs WHAT` says: (state, WHY or WHAT).

    `blocked` is what cannot be had anywhere, `not implemented` what could be built, `needs` what lacks a resource.

    Raises
    ------
    HarnessError
        The text is anything else, or more than one line.
    """
    found = _STATE.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None or not found[0].isprintable():
        expected = "one line: 'blocked: WHY', 'not implemented: WHY' or 'needs WHAT'"
        raise HarnessError(f"{where}: key 'state' is {text!r}, expected {expected}")
    return cast(Lack, found[1] or found[3]), found[2] or found[4]


def check_states(paper: Mapping[str, Any], tables: Collection[str], where: str) -> None:
    """Raise HarnessError for a fault in a paper's `state` (required without an archive) or `states` (by table)."""
    if "state" in paper or not paper.get("archive"):
        state(paper.get("state"), where)
    for table, text in paper.get("states", {}).items():
        if table not in tables:
            raise HarnessError(f"{where}: states: table {table!r} is unknown; {suggestion(str(table), tables)}")
        state(text, f"{where}: states: {table}")


_KINDS = {dict: "keys and values", list: "a list", str: "text", int: "a whole number", bool: "true or false"}


def type_faults(mapping: Mapping[str, Any], kinds: Mapping[str, type], where: str) -> list[str]:
    """A line for each key whose value is of another type or, where keys are expected, has none."""
    faults = []
    for key, kind in kinds.items():
        value = mapping.get(key)
        right = isinstance(value, kind) and isinstance(value, bool) == (kind is bool) and (kind is not dict or value)
        if key in mapping and not right:
            faults.append(f"{where}: key {key!r} is {value!r}, expected {_KINDS[kind]}")
    return faults


def check_types(mapping: Mapping[str, Any], kinds: Mapping[str, type], where: str) -> None:
    """Raise HarnessError for a key whose value is of another type or, where keys are expected, has none."""
    refuse(type_faults(mapping, kinds, where)[:1])


def number(key: str, value: object, *, low: float = 0.0, high: float = math.inf) -> float:
    """A finite number from `low` to `high`."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not good or not low <= value <= high:  # type: ignore[operator]
        to = f" to {high:g}" if math.isfinite(high) else " up"
        raise HarnessError(f"key {key!r} is {value!r}, expected a number from {low:g}{to}")
    return float(value)  # type: ignore[arg-type]


def whole(key: str, value: object, *, low: int = 0) -> int:
    """A whole number from `low` up."""
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise HarnessError(f"key {key!r} is {value!r}, expected a whole number from {low} up")
    return value


def choice(key: str, value: object, known: Iterable[str]) -> str:
    """One of some names."""
    if not isinstance(value, str) or value not in known:
        raise HarnessError(f"key {key!r} is {value!r}; {suggestion(str(value), known)}")
    return value


def weights(key: str, value: object) -> dict[str, int]:
    """Field -> how often its tokens count; fields with 0 are left out, at least one must be left."""
    if not isinstance(value, Mapping):
        raise HarnessError(f"key {key!r} is {value!r}, expected fields and weights such as {{title: 2, body: 1}}")
    out = {str(field): whole(f"{key}.{field}", weight) for field, weight in value.items()}
    if not any(out.values()):
        raise HarnessError(f"key {key!r} has no field of a weight above 0")
    return {field: weight for field, weight in out.items() if weight}
