"""Records of JSON lines, JSON lists and Parquet files, and values of their columns under any of several names.

Also runs and judgments to and from pandas DataFrames, dictionaries, ir_measures and ir_datasets; these libraries are
imported on demand.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from harness.errors import HarnessError, format_error, suggestion
from harness.io.files import decoded

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


def name_of_run(name: str) -> str:
    """Returns what messages call a run; one that nobody named is `run` already."""
    return "run" if name == "run" else f"run {name}"


def name_of_judgments(edition: str) -> str:
    """Returns what messages call judgments; `given` are those without a name."""
    return "judgments" if edition == "given" else f"judgments {edition}"


def checked(what: str, make: Callable[[], T]) -> T:
    """Calls `make`; converts its errors for invalid values to a HarnessError that begins with `what`."""
    try:
        return make()
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise HarnessError(f"{what}: {error}") from None


Row = Mapping[str, Any]
Rows = Iterator[tuple[int, Row]]  # line (Parquet: row) from 1, and the record
PARQUET = b"PAR1"
# Names of columns in BEIR, ir_datasets, ir_measures and PyTerrier.
TOPIC = ("query-id", "query_id", "qid", "topic")
DOCUMENT = ("corpus-id", "corpus_id", "doc_id", "docid", "docno", "document")
GRADE = ("score", "relevance", "label", "grade", "rel")
_BLANK = re.compile(r"[ \t\r\n]*")


def json_lines(lines: Iterable[tuple[int, bytes | str]], path: object) -> Rows:
    """Yields the objects of JSON lines, given as (number, line); raises `FormatError` for other lines, names twice."""
    for number, line in lines:
        if not line.strip():
            continue
        try:
            row = json.loads(line, object_pairs_hook=unique_names)
        except json.JSONDecodeError as error:
            raise format_error(path, number, f"not valid JSON: {error.msg}") from None
        except RecursionError:
            raise format_error(path, number, "not valid JSON: too deep") from None
        except ValueError as error:
            raise format_error(path, number, str(error)) from None
        if not isinstance(row, dict):
            raise format_error(path, number, f"expected a JSON object, found {row!r:.40}")
        yield number, row


def json_items(data: bytes, path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the objects of a JSON list, each with the line on which it begins.

    Raises
    ------
    FormatError
        The data is not UTF-8, not JSON, not a list of objects, or has an object with duplicate names; the message names
        the line.
    """
    text = decoded(data, path, encoding="utf-8-sig")
    decoder, line, counted = json.JSONDecoder(object_pairs_hook=unique_names), 1, 0
    at, sign = _skip(text, 0), "["
    while text[at : at + 1] == sign:
        at = _skip(text, at + 1)
        if sign == "[" and text[at : at + 1] == "]":
            break
        line, counted = line + text.count("\n", counted, at), at
        try:
            item, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:  # its line numbers refer to the whole text
            raise format_error(path, error.lineno, f"not valid JSON: {error.msg}") from None
        except ValueError as error:
            raise format_error(path, line, str(error)) from None
        except RecursionError:
            raise format_error(path, line, "not valid JSON: too deep") from None
        if not isinstance(item, dict):
            raise format_error(path, line, f"expected an object, found {item!r:.40}")
        yield line, item
        at, sign = _skip(text, at), ","
    line += text.count("\n", counted, at)
    if text[at : at + 1] != "]":
        raise format_error(path, line, "expected a JSON list of objects" if sign == "[" else "expected , or ]")
    if text[at + 1 :].strip():
        raise format_error(path, line, "there is more after the end of the list")


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object; raises ValueError for duplicate names, of which Python would silently keep the last."""
    record = dict(pairs)
    if len(record) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"{twice!r:.60} occurs twice in an object")
    return record


def _skip(text: str, at: int) -> int:
    """Returns the index of the next character that is not a blank."""
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at


def parquet_rows(file: Path | bytes, path: object) -> Rows:
    """Yields the rows of a Parquet file, or of its content; raises `FormatError` if it is damaged."""
    parquet = import_library("pyarrow.parquet", "hub")
    try:
        number = 0
        with parquet.ParquetFile(io.BytesIO(file) if isinstance(file, bytes) else file) as opened:
            for batch in opened.iter_batches(batch_size=1024):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (OSError, ValueError) as error:  # base classes of pyarrow's errors
        raise format_error(path, 0, f"no whole Parquet file: {' '.join(str(error).split()):.100}") from None


def value(row: Row, names: tuple[str, ...], path: object, number: int) -> Any:  # noqa: ANN401
    """Returns the value of the first of some columns that is not empty in a row."""
    for name in names:
        if not is_empty(row.get(name)):
            return row[name]
    if empty := [name for name in names if name in row]:
        raise format_error(path, number, f"column {empty[0]!r} has no value")
    raise format_error(path, number, f"no column {' or '.join(map(repr, names))}; found {', '.join(row) or 'none'}")


def is_empty(value: object) -> bool:
    """Returns whether a value is missing: None, or NaN in tables written by pandas."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def as_text(value: object, path: object, number: int) -> str:
    """Returns text, or a number as text."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise format_error(path, number, f"{value!r:.60} is neither text nor a number")
    return str(value)


def text_of_columns(row: Row, names: tuple[str, ...], path: object, number: int) -> str:
    """Returns the value of one of some columns as text."""
    return as_text(value(row, names, path, number), path, number)
