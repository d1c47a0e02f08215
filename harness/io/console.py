"""Lines for a person: results on standard output, progress and faults on standard error."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager, suppress
from functools import cache
from threading import RLock, Thread
from typing import Literal, NoReturn, TextIO, TypeVar

from harness.errors import HarnessError, one_line

T = TypeVar("T")
NO_READER = 141  # exit code, as of a program that SIGPIPE ends
QUIET = 2.0  # seconds of work before any progress is shown
PAUSE = 10.0  # seconds between two lines of progress in a log
REWRITE = 0.2  # seconds between two states of the line on a terminal
WATCH = 1.0  # seconds between two looks at work whose items take long
clock = time.monotonic  # seconds; what progress is timed by
_sleep = time.sleep


def say(line: str) -> None:
    """Progress, warnings and faults, apart from results: one line, whatever the names in it hold (see `one_line`)."""
    _print(one_line(line), sys.stderr)


def tell(text: str) -> None:
    """Writes each line of a longer text, such as a traceback, by `say`."""
    for line in text.splitlines():
        say(line)


def out(line: str) -> None:
    """Writes a line of the result to standard output."""
    _print(line, sys.stdout)


def leave_pipe(stream: TextIO) -> NoReturn:
    """Ends quietly when nobody reads our output any more, with the code a shell gives to programs so ended."""
    _give_up(stream)
    sys.exit(NO_READER)


def _print(line: str, stream: TextIO) -> None:
    try:
        _clear()
        print(line, file=stream, flush=True)
    except BrokenPipeError:
        leave_pipe(stream)
    except OSError as error:
        _give_up(stream)
        raise HarnessError(f"the output cannot be written: {error.strerror or error}") from None


def _give_up(stream: TextIO) -> None:
    # What is left in the stream's buffer goes nowhere; else Python would fail again when it flushes at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class Progress:
    """How far a piece of work is: nothing for `QUIET` seconds, then lines on standard error.

    On a terminal one line is rewritten, in a log there is a line every `PAUSE` seconds; at the end, one line says what
    was done in which time. Of several at one time, the one that began last is shown. Made by `progress` and `track`.

    Attributes
    ----------
    done : how much there is of the work; total : how much there will be, None if nobody knows.
    unit : what it is counted in, as ` MB`; empty for items.
    detail : stands behind it in lines on the way.
    """

    def __init__(self, what: str, total: float | None = None, unit: str = "") -> None:
        self.what, self.total, self.unit, self.done, self.detail = what, total, unit, 0.0, ""
        self._terminal = sys.stderr.isatty()
        self._begin, self._shown = clock(), False
        self._next = self._begin + QUIET

    def add(self, count: float = 1) -> None:
        """Adds to the work done."""
        self.done += count
        if clock() >= self._next:
            self.show()

    def show(self) -> None:
        """Shows a line, if it is time for one."""
        with _LOCK:
            now = clock()
            if _HIDDEN or now < self._next or not _RUNNING or _RUNNING[-1] is not self:
                return
            self._next, self._shown = now + (REWRITE if self._terminal else PAUSE), True
            self._write(self._line(now - self._begin))

    def finish(self) -> None:
        """Shows the last line, if one was shown before."""
        if self._shown:
            seconds = clock() - self._begin
            self._write(f"{self._count()} in {in_time(seconds)}{self._rate(seconds)}")
            if self._terminal:
                sys.stderr.write("\n")
                _LIVE.clear()

    def _line(self, seconds: float) -> str:
        if not self.done:
            return f"{self._count()}, {in_time(seconds)} so far"
        left = "" if self.total is None else f", {in_time(seconds / self.done * max(self.total - self.done, 0))} left"
        return f"{self._count()}{self._rate(seconds)}{left}{self.detail}"

    def _count(self) -> str:
        done = f"{self.done:,.{1 if self.unit else 0}f}"
        if self.total is not None:
            return f"{self.what}: {done} of {self.total:,.{1 if self.unit else 0}f}{self.unit}"
        return f"{self.what}: {done}{self.unit}" if self.done else self.what

    def _rate(self, seconds: float) -> str:
        rate = self.done / seconds if seconds > 0 else 0.0
        if 0 < rate < 0.1 and not self.unit:
            return f", {in_time(1 / rate)} each"
        return f", {rate:,.{0 if rate >= 100 else 1 if rate >= 1 else 2}f}{self.unit}/s" if rate else ""

    def _write(self, line: str) -> None:
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{one_line(line)}")
            sys.stderr.flush()
            _LIVE[:] = [self]
        else:
            say(line)


_RUNNING: list[Progress] = []  # in the order in which they began
_LIVE: list[Progress] = []  # whose line stands on the terminal and has no end yet
_LOCK = RLock()  # of both, and of the lines
_HIDDEN: list[bool] = []  # not empty: no progress is shown


def in_time(seconds: float) -> str:
    """Returns a duration in words.

    >>> in_time(80), in_time(150), in_time(9000)
    ('80 s', '2 min', '2.5 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def hide_progress() -> None:
    """Shows no progress from now on, for as long as the process lives."""
    _HIDDEN[:] = [True]


@contextmanager
def progress(what: str, total: float | None = None, unit: str = "") -> Iterator[Progress]:
    """Show how far the work inside the block is, which says `add`; also while it says nothing for long.

    Parameters
    ----------
    what : the work, in a few words.
    total : how much there is to do, if that is known; `unit`: of both, items if empty.
    """
    made, good = Progress(what, total, unit), False
    _RUNNING.append(made)
    _watched()
    try:
        yield made
        good = True
    finally:
        with _LOCK:
            _RUNNING.remove(made)
            if good:
                made.finish()
            elif made in _LIVE:
                _clear()


@cache
def _watched() -> None:
    """Starts a thread that watches the work, which shows nothing itself while one item takes long."""
    Thread(target=_watch, name="progress", daemon=True).start()


def _watch() -> NoReturn:
    while True:
        _sleep(WATCH)
        look()


def look() -> None:
    """Shows how far the work is that began last, if it is time for a line."""
    with suppress(OSError, ValueError, HarnessError, SystemExit), _LOCK:  # where nobody reads it any more
        if _RUNNING:
            _RUNNING[-1].show()


def track(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """Iterates over `items` and shows progress; `total` defaults to their length."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    with progress(what, total) as made:
        for item in items:
            yield item
            made.add()


def _clear() -> None:
    """Takes the line of progress from the terminal, so that another one may stand there."""
    if _LIVE:
        _LIVE.clear()
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def on_terminal() -> bool:
    """Whether results go to a person's terminal: there tables have bold headings and may be cut to its width."""
    return sys.stdout.isatty()


def out_left(rows: Sequence[Sequence[str]], *, cut: bool = False, fold: bool = False) -> None:
    """Columns side by side, all to the left, the first row a heading.

    On a terminal they are `cut` to its width, or the last column is folded (`fold`).
    """
    _table(rows, right=False, cut=cut, fold=fold)


def out_table(rows: Sequence[Sequence[str]]) -> None:
    """Columns side by side, the first row a heading: the first column to the left, the others to the right.

    Nothing is cut: half a number would be another one.
    """
    _table(rows, right=True)


def _table(rows: Sequence[Sequence[str]], *, right: bool, cut: bool = False, fold: bool = False) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    if not on_terminal():
        for row in rows:
            fields = zip(row, widths, strict=True)
            out("  ".join(f.rjust(w) if right and i else f.ljust(w) for i, (f, w) in enumerate(fields)).rstrip())
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False, emoji=False)
    widths = fitted(widths, console.width) if cut or fold else widths
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for i, (heading, width) in enumerate(zip(rows[0], widths, strict=True)):
        side: Literal["left", "right"] = "right" if right and i else "left"
        folded = fold and i == len(widths) - 1
        table.add_column(
            heading, width=width, justify=side, no_wrap=not folded, overflow="fold" if folded else "ellipsis"
        )
    for row in rows[1:]:
        table.add_row(*row)
    console.width = sum(widths) + 2 * len(widths)  # what is wider than the terminal is folded by it
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        out(line.rstrip())


def fitted(widths: Sequence[int], whole: int, gap: int = 2) -> list[int]:
    """Widths of columns that fit into a line: the widest of all but the first are made smaller.

    Examples
    --------
    >>> fitted([10, 5, 40], 40)
    [10, 5, 21]
    """
    made = list(widths)
    while len(made) > 1 and sum(made) + gap * (len(made) - 1) > whole:
        widest = max(range(1, len(made)), key=lambda column: made[column])
        if made[widest] <= 8:
            break
        made[widest] -= 1
    return made
