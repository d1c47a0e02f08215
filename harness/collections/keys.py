"""De-duplication keys: document -> the key (visual id) that is judged instead."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from harness.data.layouts import without_comments
from harness.data.tables import check_text
from harness.errors import counted_text, format_error
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
        _add_key(out, name, key, path, number)
    return out


def read_key_pairs(path: Path) -> dict[str, str]:
    """Returns id -> key from lines of two columns; omits ids with an empty key.

    A header is read as one more pair, which no document of a run has, or is skipped if it cannot be one.

    Raises
    ------
    HarnessError
        A line has another number of columns, an id or key contains blanks, or an id has two keys; the message names
        the line.
    """
    data = without_comments(read_bytes(path))
    check_text(data, str(path))
    out: dict[str, str] = {}
    lines = [(number, line) for number, line in enumerate(data.decode("utf-8-sig").split("\n"), 1) if line.strip()]
    for number, line in lines:
        fields = line.rstrip("\r").split("\t") if "\t" in line else line.split()
        if len(fields) != 2:
            columns = counted_text(len(fields), "column")
            raise format_error(path, number, f"{columns}, expected two: the id of a document and its key (visual id)")
        if number > lines[0][0] or all(len(field.split()) < 2 for field in fields):
            _add_key(out, fields[0], fields[1], path, number)
    return out


def _add_key(out: dict[str, str], name: str, key: str, path: Path, number: int) -> None:
    check_id(name, "document", path, number)
    if not key:  # treated like a missing document
        return
    check_id(key, "key", path, number)  # a key with a trailing blank, for example, would match no judged key
    if out.setdefault(name, key) != key:
        raise format_error(path, number, f"{name!r} has the key {out[name]!r} on an earlier line, {key!r} here")


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
            raise format_error(path, number, f"{counted_text(len(fields), 'column')}, expected {len(header)}")
        yield number, fields[at], fields[to]
