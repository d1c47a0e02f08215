"""Console output: results on standard output, progress and errors on standard error."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager, suppress
from functools import cache
from itertools import accumulate
from textwrap import wrap
from threading import RLock, Thread
from typing import Literal, NoReturn, TextIO, TypeVar

from harness.errors import HarnessError, printable_line
from harness.io import interrupt

T = TypeVar("T")
NO_READER = 141  # exit code of a program ended by SIGPIPE
QUIET = 2.0  # seconds of work before any progress is shown
PAUSE = 10.0  # seconds between two lines of progress in a log
REWRITE = 0.2  # seconds between two states of the line on a terminal
BAR = 24  # columns of the bar on a terminal
WORD = 28  # columns of a word that a table does not break
WATCH = 1.0  # seconds between updates for work whose items take long
clock = time.monotonic  # clock for progress, in seconds


def log_line(line: str) -> None:
    """Writes progress, warnings and errors to standard error, as one line (see `printable_line`)."""
    _print(printable_line(line), sys.stderr)


def log_text(text: str) -> None:
    """Writes each line of a longer text, such as a traceback, by `log_line`."""
    for line in text.splitlines():
        log_line(line)


def print_line(line: str) -> None:
    """Writes a line of the result to standard output."""
    _print(line, sys.stdout)


def leave_pipe(stream: TextIO) -> NoReturn:
    """Exits silently when the reader of the output is gone, with the exit code of SIGPIPE."""
    _give_up(stream)
    sys.exit(NO_READER)


def _print(line: str, stream: TextIO) -> None:
    try:
        _clear()
        stream.write(f"{line}\n")  # at once, so that lines of processes that write to one file are not mixed
        stream.flush()
    except BrokenPipeError:
        leave_pipe(stream)
    except OSError as error:
        _give_up(stream)
        raise HarnessError(f"the output cannot be written: {error.strerror or error}") from None


def _give_up(stream: TextIO) -> None:
    # Discards the stream's buffer; otherwise Python would fail again when flushing at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class Progress:
    """Progress of a piece of work: nothing for `QUIET` seconds, then lines on standard error.

    On a terminal, one line is rewritten; in a log, there is a line every `PAUSE` seconds. The last line reports the
    work done and its time. Of several concurrent ones, the most recent is shown. Created by `progress` and `track`.

    Attributes
    ----------
    done : amount of work done; total : total amount, None if unknown.
    unit : unit of both, such as ` MB`; empty for items.
    detail : text appended to progress lines.
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
        """Shows a line if one is due."""
        with _LOCK:
            now = clock()
            if _HIDDEN or now < self._next or not _RUNNING or _RUNNING[-1] is not self:
                return
            self._next, self._shown = now + (REWRITE if self._terminal else PAUSE), True
            self._write(self._line(now - self._begin), bar=True)

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

    def _write(self, line: str, *, bar: bool = False) -> None:
        if self._terminal:
            share = min(self.done / self.total, 1.0) if bar and self.total else None
            sys.stderr.write(f"\r\x1b[K{_drawn(printable_line(line), share)}")
            sys.stderr.flush()
            _LIVE[:] = [self]
        else:
            log_line(line)


def _drawn(line: str, share: float | None) -> str:
    """Returns a line of progress for the terminal: a bar if the total is known, then the text cut to the width."""
    from rich.console import Console
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    console = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
    row = Table.grid(padding=(0, 1))
    bars = [ProgressBar(1.0, share, BAR)] if share is not None and console.width >= 3 * BAR else []
    for _ in bars:
        row.add_column(min_width=BAR)
    row.add_column(no_wrap=True, overflow="ellipsis", max_width=max(console.width - 1 - len(bars) * (BAR + 1), 1))
    row.add_row(*bars, line)
    with console.capture() as captured:
        console.print(row, end="")
    return captured.get().rstrip(" \n")


_RUNNING: list[Progress] = []  # in order of their start
_LIVE: list[Progress] = []  # the one whose unfinished line is on the terminal
_LOCK = RLock()  # for both lists and for output
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
    """Hides progress for the rest of the process."""
    _HIDDEN[:] = [True]


@contextmanager
def progress(what: str, total: float | None = None, unit: str = "") -> Iterator[Progress]:
    """Shows the progress of the work inside the block, which calls `add`; also updates while an item takes long.

    Parameters
    ----------
    what : description of the work, in a few words.
    total : total amount of work, if known.
    unit : unit of the amounts; empty for items.
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
    """Starts a thread that updates progress while a single item takes long."""
    with suppress(RuntimeError):  # too many threads, or no memory for one: progress then has pauses
        Thread(target=_watch, name="progress", daemon=True).start()


def _watch() -> NoReturn:
    while True:
        interrupt.pause(WATCH)
        look()


def look() -> None:
    """Shows the progress of the most recent work, if a line is due."""
    with suppress(OSError, ValueError, HarnessError, SystemExit), _LOCK:  # the reader of the output may be gone
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
    """Removes the progress line from the terminal, so that another line can be written."""
    if _LIVE:
        _LIVE.clear()
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def on_terminal() -> bool:
    """Returns whether results go to a terminal, where tables have bold headings and may be cut to its width."""
    return sys.stdout.isatty()


def width() -> int | None:
    """Returns the width of the terminal that results go to; None for a pipe or a file."""
    from rich.console import Console

    return Console().width if on_terminal() else None


def out_wrapped(line: str, label: str = "", indent: int = 0) -> None:
    """Writes a line of the result after its label; on a terminal it is wrapped at words.

    Parameters
    ----------
    indent : spaces before the second and further lines, in addition to the width of the label.
    """
    whole = width()
    if whole is None:
        print_line(label + line)
        return
    columns, later = max(whole - len(label), 20), " " * indent
    for part in wrap(line, columns, subsequent_indent=later, break_long_words=False, break_on_hyphens=False):
        print_line(label + part)
        label = " " * len(label)


def out_left(rows: Sequence[Sequence[str]], *, cut: bool = False, fold: bool = False) -> None:
    """Writes a table with left-aligned columns; the first row is the heading.

    On a terminal, columns are cut to its width (`cut`), or all but the first are folded (`fold`); a table that is too
    wide for it even then becomes a block of lines for each row.
    """
    _table(rows, right=False, cut=cut, fold=fold)


def out_table(rows: Sequence[Sequence[str]]) -> None:
    """Writes a table; the first row is the heading, the first column is left-aligned, the others right-aligned.

    Nothing is cut, because a truncated number would be wrong: on a terminal that is too narrow, the last columns go to
    a line below each row.
    """
    _table(rows, right=True)


def _table(rows: Sequence[Sequence[str]], *, right: bool, cut: bool = False, fold: bool = False) -> None:
    if not on_terminal():
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        for row in rows:
            fields = zip(row, widths, strict=True)
            print_line("  ".join(f.rjust(w) if right and i else f.ljust(w) for i, (f, w) in enumerate(fields)).rstrip())
        return
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False, emoji=False)
    widths = [max(cell_len(row[i]) for row in rows) for i in range(len(rows[0]))]  # Han letters take two cells
    if fold:
        words = [max(cell_len(word) for row in rows for word in (row[i].split() or [""])) for i in range(len(widths))]
        # Only words longer than `WORD` are broken.
        for least in (words, [min(word, WORD) for word in words]):
            widths = fitted(widths, console.width, least=least)
        if sum(widths) + 2 * (len(widths) - 1) > console.width:
            _blocks(rows)
            return
    widths = fitted(widths, console.width) if cut else widths
    shown = max(1, sum(end - 2 <= console.width for end in accumulate(width + 2 for width in widths)))
    shown = shown if right else len(widths)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for i, (heading, width) in enumerate(zip(rows[0][:shown], widths, strict=False)):
        side: Literal["left", "right"] = "right" if right and i else "left"
        folded = fold and i > 0
        table.add_column(
            heading, width=width, justify=side, no_wrap=not folded, overflow="fold" if folded else "ellipsis"
        )
    for row in rows[1:]:
        table.add_row(*row[:shown])
    console.width = sum(widths) + 2 * len(widths)  # what is wider than the terminal is folded by it
    with console.capture() as captured:
        console.print(table)
    for number, line in enumerate(captured.get().splitlines()):
        print_line(line.rstrip())
        if number and shown < len(widths):
            _named_fields(rows[0][shown:], rows[number][shown:])


def _blocks(rows: Sequence[Sequence[str]]) -> None:
    """Writes a table that is too wide for the terminal: for each row its first field, then `heading: field`."""
    heading, *others = rows
    for first, *fields in others:
        out_wrapped(first, "", 4)
        _named_fields(heading[1:], fields)


def _named_fields(names: Sequence[str], fields: Sequence[str]) -> None:
    if named := [f"{name}: {text}" for name, text in zip(names, fields, strict=True) if text]:
        out_wrapped("; ".join(named), "    ")


def fitted(widths: Sequence[int], whole: int, gap: int = 2, least: Sequence[int] = ()) -> list[int]:
    """Returns widths of columns that fit in a line, by shrinking the widest ones except the first.

    Parameters
    ----------
    least : widths below which columns do not shrink, even if the line is then too long; by default 8.

    Examples
    --------
    >>> fitted([10, 5, 40], 40), fitted([10, 30, 30], 60, least=[10, 9, 26])
    ([10, 5, 21], [10, 20, 26])
    """
    made = list(widths)
    least = least or [8] * len(made)
    while sum(made) + gap * (len(made) - 1) > whole:
        wide = [column for column in range(1, len(made)) if made[column] > least[column]]
        if not wide:
            break
        made[max(wide, key=lambda column: made[column])] -= 1
    return made
