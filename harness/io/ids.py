"""Ids of topics, documents and formulas: one printable word of bounded length."""

from __future__ import annotations

from harness.errors import format_error

LONGEST_ID = 255  # bytes


def check_id(name: str, what: str, path: object, line: int) -> None:
    """Raises `FormatError` unless a name is a valid id in a run file."""
    if name.isascii() and name.isprintable() and " " not in name and 0 < len(name) <= LONGEST_ID:
        return  # the usual case, found faster
    if name.split() != [name] or not name.isprintable():
        raise format_error(path, line, f"{what} id {name!r} is empty or holds blanks or unprintable characters")
    check_length(name, what, path, line)


def check_length(name: str, what: str, path: object, line: int) -> None:
    """Raises `FormatError` if a name exceeds the maximum length of an id."""
    length = len(name) if name.isascii() else len(name.encode(errors="replace"))
    if length > LONGEST_ID:
        raise format_error(path, line, f"{what} id of {length} bytes, at most {LONGEST_ID}")
