"""De-duplication keys: document -> the key (visual id) that is judged instead."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from harness.errors import counted, format_error
from harness.io.files import read_bytes
from harness.io.ids import check_id

Lines = list[tuple[int, str]]


def read_keys(path: Path, id_column: str, key_column: str) -> dict[str, str]:
    """Returns id -> key from a tab-separated file with a header, or from JSON lines; omits ids with an empty key.

    Raises
    ------
    HarnessError
        A column is missing, a line is not a JSON object, an id or key contains blanks, or an id has two keys; the
        message names the line.
    """
    data = read_bytes(path).decode("utf-8-sig", "replace")
    lines = [(number, line.rstrip("\r")) for number, line in enumerate(data.split("\n"), 1) if line.strip()]
    rows = _keys_jsonl if ".jsonl" in path.suffixes else _keys_table
    out: dict[str, str] = {}
    for number, name, key in rows(lines, path, id_column, key_column):
        check_id(name, "document", path, number)
        if not key:  # treated like a missing document
            continue
        check_id(key, "key", path, number)  # a key with a trailing blank, for example, would match no judged key
        if out.setdefault(name, key) != key:
            raise format_error(path, number, f"{name!r} has the key {out[name]!r} on an earlier line, {key!r} here")
    return out


def _keys_jsonl(lines: Lines, path: Path, id_column: str, key_column: str) -> Iterator[tuple[int, str, str]]:
    for number, line in lines:
        try:
            row = json.loads(line)
            key = row[key_column]
            yield number, str(row[id_column]), "" if key is None else str(key)
        except (ValueError, KeyError, TypeError, RecursionError):
            reason = f"expected a JSON object with {id_column!r} and {key_column!r}"
            raise format_error(path, number, reason) from None


def _keys_table(lines: Lines, path: Path, id_column: str, key_column: str) -> Iterator[tuple[int, str, str]]:
    header = lines[0][1].split("\t") if lines else []
    for column in (id_column, key_column):
        if column not in header:
            raise format_error(path, 1, f"column {column!r} is missing; found {', '.join(header) or 'nothing'}")
    at, to = header.index(id_column), header.index(key_column)
    for number, line in lines[1:]:
        fields = line.split("\t")
        if len(fields) != len(header):
            raise format_error(path, number, f"{counted(len(fields), 'column')}, expected {len(header)}")
        yield number, fields[at], fields[to]
