"""Text files written line by line, and the lines of JSON files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

# Line ends to some readers (str.splitlines) that JSON need not escape.
_ENDS = str.maketrans({"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Writes lines as they come, so that a file larger than the memory can be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for line in lines:
            out.write(line)


def json_line(row: object) -> str:
    r"""Returns one line of a JSON file, in which only its end is a line end.

    Examples
    --------
    >>> json_line({"_id": "d1", "text": "a\u2028b ≤ c"})
    '{"_id": "d1", "text": "a\\u2028b ≤ c"}\n'
    """
    line = json.dumps(row, ensure_ascii=False).translate(_ENDS)
    try:
        line.encode()
    except UnicodeEncodeError:  # half of a pair of surrogates
        line = json.dumps(row)
    return f"{line}\n"
