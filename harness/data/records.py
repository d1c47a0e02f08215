"""Records of JSON lines, JSON lists and Parquet files, and values of their columns under any of several names."""

from __future__ import annotations

import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.data.frames import import_library
from harness.errors import format_error
from harness.io.files import decoded

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
