"""Conversion of runs and judgments to and from pandas DataFrames, dictionaries, ir_measures and ir_datasets.

Optional libraries are imported only here, on demand.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from harness.errors import HarnessError, suggestion

if TYPE_CHECKING:
    from pandas import DataFrame


T = TypeVar("T")
BLANK = re.compile("[\t-\r ]")  # separates the columns of a file; does not include no-break spaces


class FrameLine(Protocol):
    """Fields of a line of a run or of judgments in ir_measures and ir_datasets."""

    @property
    def query_id(self) -> str:
        """The topic."""

    @property
    def doc_id(self) -> str:
        """The document."""


class ScoredDoc(FrameLine, Protocol):
    """A line of a run."""

    @property
    def score(self) -> float:
        """Higher is better."""


class Judgment(FrameLine, Protocol):
    """A judgment."""

    @property
    def relevance(self) -> int:
        """The grade."""


def frame(columns: Mapping[str, Any]) -> DataFrame:
    """Returns a DataFrame of columns of one length. Needs `pip install 'mathir-harness[frames]'`."""
    made: DataFrame = import_library("pandas", "frames").DataFrame(dict(columns))
    return made


def columns_of(table: DataFrame, names: Sequence[str], what: str) -> list[list[Any]]:
    """Returns the values of some columns; other columns are ignored.

    Raises
    ------
    HarnessError
        The table is not a frame, a column is missing or occurs twice, or a value is missing (NaN, None).
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


def concatenated_columns(parts: Sequence[Mapping[str, Sequence[Any]]]) -> dict[str, list[Any]]:
    """Concatenates the columns of several tables with the same columns."""
    return {name: [value for part in parts for value in part[name]] for name in parts[0]}


def import_library(name: str, extra: str) -> Any:  # noqa: ANN401  (a module)
    """Imports an optional library; raises HarnessError with an install instruction if it is missing."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise HarnessError(f"{name} is not installed; install it with: pip install 'mathir-harness[{extra}]'") from None


def flat(rows: Mapping[str, Mapping[str, float]], values: str) -> Iterator[tuple[str, str, float]]:
    """Yields topic -> document -> value as rows; raises TypeError for what is no such mapping, which has `values`."""
    if not isinstance(rows, Mapping):
        raise TypeError(f"expected a mapping of topics to documents, got {_kind_of(rows)}")
    for topic, docs in rows.items():
        if not isinstance(docs, Mapping):
            raise TypeError(f"topic {topic!r}: expected a mapping of documents to {values}, got {_kind_of(docs)}")
        yield from ((topic, doc, value) for doc, value in docs.items())


def _kind_of(value: object) -> str:
    if isinstance(value, Real):
        return "a number"
    return "None" if value is None else "text" if isinstance(value, str) else f"a {type(value).__name__}"


def numeric(rows: Iterable[tuple[Any, Any, Any]], value: str) -> list[tuple[Any, Any, float]]:
    """Returns rows of topic, document and `value` (what it is called) as a float.

    Raises
    ------
    ValueError
        There are no rows, or a value is not a finite number.
    """
    out = []
    for topic, doc, given in rows:
        try:
            number = float(given)
        except (TypeError, ValueError, OverflowError):
            where = f"topic {topic!r}, document {doc!r}"
            raise ValueError(f"{where}: {value} {given!r:.60} is not a number") from None
        if not math.isfinite(number):
            raise ValueError(f"topic {topic!r}, document {doc!r}: {value} {number} is not a finite number")
        out.append((topic, doc, number))
    if not out:
        raise ValueError("no results" if value == "score" else "no judgments")
    return out


def check_ids(columns: Iterable[Iterable[object]]) -> None:
    """Raises ValueError for values that cannot be ids in a file."""
    for column in columns:
        fields = list(column)
        for field in set(fields) if set(map(type, fields)) == {str} else fields:
            if isinstance(field, str):
                if BLANK.search(field) or not field or field.startswith("\ufeff"):
                    raise ValueError("an id is empty or holds blanks")
            elif isinstance(field, bool) or not isinstance(field, Integral):  # 1.0 or None would be other names
                raise ValueError(f"an id is {field!r}, expected text or a whole number")


def encoded(lines: Sequence[str]) -> bytes:
    """Returns lines of a table as UTF-8; raises ValueError for a topic that a file could not hold."""
    text = "\n".join(lines)
    if text.startswith("#") or "\n#" in text:
        raise ValueError("a topic id begins with '#', which begins a comment in files of runs and judgments")
    return text.encode()


def run_text(name: str) -> str:
    """Returns what messages call a run; one that nobody named is `run` already."""
    return "run" if name == "run" else f"run {name}"


def judgments_text(edition: str) -> str:
    """Returns what messages call judgments; `given` are those without a name."""
    return "judgments" if edition == "given" else f"judgments {edition}"


def checked(what: str, make: Callable[[], T]) -> T:
    """Calls `make`; converts its errors for invalid values to a HarnessError that begins with `what`."""
    try:
        return make()
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise HarnessError(f"{what}: {error}") from None
