"""Streams files that are too large for memory: lines and blocks, decompressed on the fly."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from harness.errors import format_error
from harness.io import compression

Place = tuple[Path, int]  # file, line from 1 (0: the file as a whole)
BLOCK = 1 << 18  # bytes
LONGEST_LINE = 1 << 26  # bytes
_BLANK = re.compile(r"[ \t\r\n]*")


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file, decompressing it if necessary; raises the errors of `harness.io.compression.opened`."""
    with compression.opened(path) as raw:
        yield cast("IO[bytes]", io.BufferedReader(compression.Unpacked(raw.read), compression.CHUNK))


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yields (line number, line without its end) for each line of a file."""
    with opened(path) as stream:
        number = 0
        while line := stream.readline(LONGEST_LINE):
            number += 1
            if len(line) == LONGEST_LINE:
                raise format_error(path, number, f"longer than {LONGEST_LINE} bytes")
            yield number, line.rstrip(b"\r\n")


def json_items(data: bytes, path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the objects of a JSON list, each with the line on which it begins.

    Raises
    ------
    FormatError
        The data is not UTF-8, not JSON, not a list of objects, or has an object with duplicate names; the message names
        the line.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise format_error(path, line, f"byte 0x{data[error.start]:02x} is not UTF-8 text") from None
    decoder, line, counted = json.JSONDecoder(object_pairs_hook=_once), 1, 0
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


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object; raises ValueError for duplicate names, of which Python would silently keep the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"{twice!r:.60} occurs twice in an object")
    return found


def _skip(text: str, at: int) -> int:
    """Returns the index of the next character that is not a blank."""
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at
