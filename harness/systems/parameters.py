"""Checks of systems' parameters: one line that names the key, what it is and what it should be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from harness.errors import HarnessError, suggestion


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
