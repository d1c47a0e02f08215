"""Lines for a person: results on standard output, progress and faults on standard error."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NoReturn, TextIO, TypeVar

from harness.errors import HarnessError

T = TypeVar("T")
PAUSE = 10.0  # seconds between two lines of progress in a log


def say(line: str) -> None:
    """Progress for the person who waits, apart from results."""
    _print(line, sys.stderr)


def out(line: str) -> None:
    """A line of the result."""
    _print(line, sys.stdout)


def leave_pipe(stream: TextIO) -> NoReturn:
    """End quietly when nobody reads our output any more, with the code a shell gives to programs so ended."""
    _give_up(stream)
    sys.exit(141)


def _print(line: str, stream: TextIO) -> None:
    try:
        print(line, file=stream, flush=True)
    except BrokenPipeError:
        leave_pipe(stream)
    except OSError as error:
        _give_up(stream)
        raise HarnessError(f"the output cannot be written: {error.strerror or error}") from None


def _give_up(stream: TextIO) -> None:
    # What is left in the stream's buffer goes nowhere; else Python would fail again when it flushes at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def track(items: Sequence[T], what: str) -> Iterator[T]:
    """Go through `items` and show how far it is and how long it still takes.

    On a terminal one line is rewritten; in a log there is a line at the start, at the end, and every `PAUSE` seconds.
    """
    terminal = sys.stderr.isatty()
    begin = shown = time.monotonic()
    if not terminal:
        say(f"{what}: {len(items)} to do")
    for done, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        left = (now - begin) / done * (len(items) - done)
        line = f"{what}: {done} of {len(items)}, {left:.0f} s left"
        if done == len(items):
            line = f"{what}: {done} of {len(items)} in {now - begin:.1f} s"
        if terminal:
            end = "\n" if done == len(items) else ""
            sys.stderr.write(f"\r\x1b[K{line}{end}")
            sys.stderr.flush()
        elif done == len(items) or now - shown >= PAUSE:
            say(line)
            shown = now
