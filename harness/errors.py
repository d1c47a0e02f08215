"""The errors a user can mend: one clear line each, exit code 2, no traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


class HarnessError(Exception):
    """Something the user can mend. The message is one line: where, what is wrong, what would be right."""


@dataclass(frozen=True)
class Problem:
    """One fault in an input file. `line` counts from 1; 0 means the file as a whole."""

    path: str
    line: int
    reason: str

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else self.path
        return f"{where}: {self.reason}"


class FormatError(HarnessError):
    """All faults found in one input file (up to a limit), each as `path:line: reason`.

    Attributes
    ----------
    problems : tuple[Problem, ...]
        In the order of their lines.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(p) for p in self.problems))


def format_error(path: object, line: int, reason: str) -> FormatError:
    """A `FormatError` with a single fault."""
    return FormatError([Problem(str(path), line, reason)])


@contextmanager
def gather(faults: list[str]) -> Iterator[None]:
    """Keep the lines of a `HarnessError` instead of stopping at it, so that all faults of a file come together."""
    try:
        yield
    except HarnessError as error:
        faults += str(error).splitlines()


def refuse(faults: Sequence[str]) -> None:
    """Raise `HarnessError` with these faults, a line each; nothing if there are none."""
    if faults:
        raise HarnessError("\n".join(faults))


class SystemRaisedError(HarnessError):
    """A system raised something: the message names both.

    Attributes
    ----------
    trace : the traceback of the system's own frames.
    """

    def __init__(self, message: str, trace: str) -> None:
        super().__init__(message, trace)  # both, so that it can go from one process to another
        self.trace = trace

    def __str__(self) -> str:
        return str(self.args[0])


def system_raised(what: str, error: BaseException) -> SystemRaisedError:
    """What `error`, raised by code that is not the harness's, becomes; `what` names the system."""
    import traceback  # only for those who need it

    frames = traceback.extract_tb(error.__traceback__)
    # Our call, and the machinery of imports, say nothing about the fault.
    while frames and (frames[0].name in ("guarded", "<lambda>", "import_module") or "<frozen" in frames[0].filename):
        del frames[0]
    lines = traceback.format_list(frames) + traceback.format_exception_only(error)
    trace = "".join(("Traceback of the system (most recent call last):\n", *lines)).rstrip("\n")
    said = " ".join("".join(traceback.format_exception_only(error)[-1:]).split())
    return SystemRaisedError(f"{what}: {said}", trace)


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name: the nearest known one, else all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    if not names:
        return "there is none"
    return "known: " + ", ".join(names)
