"""Reads and writes JSON lines: writes are atomic, errors name the line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from harness.data.records import unique_names
from harness.errors import FormatError, HarnessError, format_error
from harness.io.files import read_bytes, write_atomic

T = TypeVar("T")


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes one JSON object per line, with its keys in order."""
    write_atomic(path, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))


def read_lines(path: Path, make: Callable[[dict[str, Any]], T], data: bytes | None = None) -> Iterator[T]:
    """Reads the JSON object of each line and applies `make`; skips blank lines.

    Parameters
    ----------
    data : content of the file, if it was read before.

    Raises
    ------
    FormatError
        A line is not a JSON object, or `make` raises a `HarnessError`, `KeyError`, `TypeError` or `ValueError`; the
        message names file and line.
    """
    for number, line in enumerate((read_bytes(path) if data is None else data).splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, object_pairs_hook=unique_names)
            if not isinstance(row, dict):
                raise TypeError("expected an object")
            yield make(row)
        except KeyError as error:
            raise format_error(path, number, f"key {error.args[0]!r} is missing") from None
        except FormatError as error:  # raised by a check that does not know the line
            raise format_error(path, number, error.problems[0].reason) from None
        except HarnessError as error:
            raise format_error(path, number, error.lines[0]) from None
        except (ValueError, TypeError, RecursionError) as error:
            raise format_error(path, number, f"unexpected value: {error}") from None
