"""Lines for a person: results on standard output, progress and faults on standard error."""

from __future__ import annotations

import sys


def say(line: str) -> None:
    """Progress for the person who waits, apart from results."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def out(line: str) -> None:
    """A line of the result."""
    print(line, flush=True)  # noqa: T201
