"""What runs and judgments are elsewhere: pandas DataFrames, dictionaries, the values of ir_measures and ir_datasets.

Libraries are imported here alone, and only when somebody asks for their values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from harness.errors import HarnessError, suggestion

if TYPE_CHECKING:
    from pandas import DataFrame


T = TypeVar("T")
BLANK = re.compile("[\t-\r ]")  # what separates the columns of a file; a no-break space does not


class Line(Protocol):
    """What ir_measures and ir_datasets have a line of a run or of judgments by."""

    @property
    def query_id(self) -> str:
        """The topic."""

    @property
    def doc_id(self) -> str:
        """The document."""


class ScoredDoc(Line, Protocol):
    """A line of a run."""

    @property
    def score(self) -> float:
        """Higher is better."""


class Judgment(Line, Protocol):
    """A judgment."""

    @property
    def relevance(self) -> int:
        """The grade."""


def frame(columns: Mapping[str, Any]) -> DataFrame:
    """Returns a DataFrame of columns of one length. Needs `pip install 'mathir-harness[frames]'`."""
    made: DataFrame = library("pandas", "frames").DataFrame(dict(columns))
    return made


def columns_of(table: DataFrame, names: Sequence[str], what: str) -> list[list[Any]]:
    """Returns the values of some columns, row by row; other columns are passed over.

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
    """Returns the columns of several tables of one form, one below the other."""
    return {name: [value for part in parts for value in part[name]] for name in parts[0]}


def library(name: str, extra: str) -> Any:  # noqa: ANN401  (a module)
    """Returns an optional library; without it, an error that says how to get it."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise HarnessError(f"{name} is not installed; install it with: pip install 'mathir-harness[{extra}]'") from None


def flat(rows: Mapping[str, Mapping[str, float]]) -> Iterator[tuple[str, str, float]]:
    """Yields topic -> document -> value as rows."""
    return ((topic, doc, value) for topic, docs in rows.items() for doc, value in docs.items())


def check_ids(columns: Iterable[Iterable[object]]) -> None:
    """Raises ValueError for what cannot be an id in a file."""
    for column in columns:
        for field in column:
            if isinstance(field, str):
                if BLANK.search(field) or not field or field.startswith("\ufeff"):
                    raise ValueError("an id is empty or holds blanks")
            elif isinstance(field, bool) or not isinstance(field, Integral):  # 1.0 or None would be other names
                raise ValueError(f"an id is {field!r}, expected text or a whole number")


def checked(what: str, make: Callable[[], T]) -> T:
    """Returns what `make` gives; values that cannot be a run or judgments are an error that says `what` they are of."""
    try:
        return make()
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise HarnessError(f"{what}: {error}") from None
