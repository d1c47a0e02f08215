"""Streams files that are too large for memory: lines and blocks, decompressed on the fly."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from harness.errors import format_error
from harness.io import compression

Place = tuple[Path, int]  # file, line from 1 (0: the file as a whole)
BLOCK = 1 << 18  # bytes
LONGEST_LINE = 1 << 26  # bytes


@contextmanager
def open_decompressed(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file, decompressing it if necessary; raises the errors of `harness.io.compression.open_uncompressed`."""
    with compression.open_uncompressed(path) as raw:
        yield cast("IO[bytes]", io.BufferedReader(compression.Unpacked(raw.read), compression.CHUNK))


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yields (line number, line without its end) for each line of a file."""
    with open_decompressed(path) as stream:
        number = 0
        while line := stream.readline(LONGEST_LINE):
            number += 1
            if len(line) == LONGEST_LINE:
                raise format_error(path, number, f"longer than {LONGEST_LINE} bytes")
            yield number, line.rstrip(b"\r\n")
