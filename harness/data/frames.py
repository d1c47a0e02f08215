"""Columns as pandas DataFrames and back. pandas is imported here alone, and only when a frame is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.errors import HarnessError, suggestion

if TYPE_CHECKING:
    from pandas import DataFrame


def frame(columns: Mapping[str, Any]) -> DataFrame:
    """A DataFrame of columns of one length."""
    import pandas as pd

    return pd.DataFrame(dict(columns))


def columns_of(table: DataFrame, names: Sequence[str], what: str) -> list[list[Any]]:
    """The values of some columns, row by row; other columns are passed over.

    Raises
    ------
    HarnessError
        It is no frame, a column is missing or there twice, or a value of one is missing (NaN, None).
    """
    if not hasattr(table, "columns"):
        raise HarnessError(f"{what}: is a {type(table).__name__}, expected a pandas DataFrame")
    if lacking := [name for name in names if name not in table.columns]:
        known = [str(name) for name in table.columns]
        raise HarnessError(f"{what}: the frame has no column {lacking[0]!r}; {suggestion(lacking[0], known)}")
    for name in names:
        if list(table.columns).count(name) > 1:
            raise HarnessError(f"{what}: the frame has several columns {name!r}")
        missing = table[name].isna().to_numpy()
        if missing.any():
            raise HarnessError(f"{what}: column {name!r} has no value in row {int(missing.argmax())}")
    return [table[name].tolist() for name in names]


def joined(parts: Sequence[Mapping[str, Sequence[Any]]]) -> dict[str, list[Any]]:
    """The columns of several tables of one form, one below the other."""
    return {name: [value for part in parts for value in part[name]] for name in parts[0]}
