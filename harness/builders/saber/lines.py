"""Values as JSON lines: written whole or not at all, read with the line of what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import FormatError, HarnessError, format_error
from harness.io.files import read_bytes, write_atomic

T = TypeVar("T")


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """One JSON object a line, its keys in their order."""
    write_atomic(path, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))


def read_lines(path: Path, make: Callable[[dict[str, Any]], T], data: bytes | None = None) -> Iterator[T]:
    """What `make` makes of the object of each line; blank lines are left out.

    Parameters
    ----------
    data : of the file, if it is read already.

    Raises
    ------
    FormatError
        A line that is no JSON object, or of which `make` says a `HarnessError`, `KeyError`, `TypeError` or
        `ValueError`: one line with file and line.
    """
    for number, line in enumerate((read_bytes(path) if data is None else data).splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise TypeError("expected an object")
            yield make(row)
        except KeyError as error:
            raise format_error(path, number, f"key {error.args[0]!r} is missing") from None
        except FormatError as error:  # of a check that knows no line
            raise format_error(path, number, error.problems[0].reason) from None
        except HarnessError as error:
            raise format_error(path, number, error.lines[0]) from None
        except (ValueError, TypeError, RecursionError) as error:
            raise format_error(path, number, f"not what is expected: {error}") from None
