"""Comparisons as JSON documents (`harness/data/schemas/comparison.json`), written and read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, TypeVar

from harness.errors import HarnessError, suggestion
from harness.scoring.compare import MARKS, TESTS, Comparison, PairDifference
from harness.scoring.equivalence import KINDS, EquivalenceTest

Typed = TypeVar("Typed")
SCHEMA = "mathir-harness/comparison"
VERSION = 3
# What documents of version 2 lack.
_ADDED: Mapping[type, Mapping[str, object]] = {
    Comparison: {"marks": "bonferroni", "equivalence": []},
    PairDifference: {"freedom": None, "p_max_t": None, "significant_max_t": None, "seeds_a": 1, "seeds_b": 1},
}
_ONE_OF = {"Test": TESTS, "Marks": MARKS, "Kind": KINDS}


def to_json(comparison: Comparison) -> dict[str, Any]:
    """Returns the comparison as standard JSON (undefined values are null), with schema name and version."""
    content = asdict(comparison)
    lists = {name: list(content[name]) for name in ("equivalence", "rows")}
    return {"schema": SCHEMA, "version": VERSION, **content, **lists}


def from_json(data: dict[str, Any]) -> Comparison:
    """Reads the result of `to_json`, also of version 2.

    Raises
    ------
    HarnessError
        Another schema or version, or wrong keys or types.
    """
    content = dict(data) if isinstance(data, dict) else {}
    version = content.get("version")
    for key, expected in (("schema", (SCHEMA,)), ("version", (VERSION, 2))):
        value = content.pop(key, None)
        if value not in expected or isinstance(value, bool):
            raise HarnessError(f"comparison: {key} is {value!r:.60}, expected {expected[0]!r}")
    header = _typed(Comparison, content, "comparison", version)
    rows = _typed_list(PairDifference, header.pop("rows"), "rows", version)
    equivalence = _typed_list(EquivalenceTest, header.pop("equivalence"), "equivalence", version)
    return Comparison(rows=rows, equivalence=equivalence, **header)


def _typed_list(cls: type[Typed], items: list[object], name: str, version: object) -> tuple[Typed, ...]:
    return tuple(cls(**_typed(cls, item, f"comparison: {name}[{i}]", version)) for i, item in enumerate(items))


def _typed(cls: type, data: object, where: str, version: object) -> dict[str, Any]:
    """Returns the mapping if its keys are exactly the fields of `cls` and its values have the fields' types."""
    kinds = {field.name: str(field.type) for field in fields(cls)}
    if not isinstance(data, dict):
        raise HarnessError(f"{where} is {data!r:.60}, expected an object")
    if version == 2:
        data = {**_ADDED.get(cls, {}), **data}
    for key in sorted(kinds.keys() ^ data.keys(), key=str):
        fault = f"unknown key {key!r}; {suggestion(str(key), kinds)}" if key in data else f"key {key!r} is missing"
        raise HarnessError(f"{where}: {fault}")
    types: dict[str, Any] = {"str": str, "bool": bool, "int": int, **dict.fromkeys(_ONE_OF, str)}
    for key, kind in kinds.items():
        base, value = kind.removesuffix(" | None"), data[key]
        if value is None and base != kind:
            continue
        of = list if base.startswith("tuple[") else types.get(base, (int, float))
        fits = isinstance(value, of) and isinstance(value, bool) == (base == "bool")
        if not fits or (base == "float" and not abs(value) < math.inf) or value not in _ONE_OF.get(base, (value,)):
            wanted = "list" if of is list else " | ".join(_ONE_OF[base]) if base in _ONE_OF else kind
            raise HarnessError(f"{where}: key {key!r} is {value!r:.60}, expected {wanted}")
    return dict(data)
