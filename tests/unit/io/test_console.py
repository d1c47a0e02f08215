"""Progress: silent for two seconds, then how much, how fast and how long still, on standard error alone."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterator

import pytest

from harness.io import console
from harness.io.console import log_line, look, print_line, progress, track


class Clock:
    """Seconds that go by when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(console, "clock", made)
    return made


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def spend(clock: Clock, items: Iterator[int], seconds: float) -> None:
    for _ in items:
        clock.now += seconds


def test_what_is_fast_is_quiet(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    spend(clock, track(range(19), "counting"), 0.1)
    assert capsys.readouterr() == ("", "")


def test_items_rate_and_what_remains(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    spend(clock, track(range(8000), "counting"), 2**-8)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "counting: 512 of 8,000, 256/s, 29 s left",
        "counting: 3,072 of 8,000, 256/s, 19 s left",
        "counting: 5,632 of 8,000, 256/s, 9 s left",
        "counting: 8,000 of 8,000 in 31 s, 256/s",
    ]


def test_unknown_totals(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    spend(clock, track(iter(range(30)), "reading"), 0.5)
    assert capsys.readouterr().err.splitlines() == [
        "reading: 4, 2.0/s",
        "reading: 24, 2.0/s",
        "reading: 30 in 15 s, 2.0/s",
    ]
    spend(clock, track(iter(range(4)), "reading", total=4), 600)
    assert capsys.readouterr().err.splitlines()[1] == "reading: 2 of 4, 10 min each, 20 min left"


def test_a_long_item_is_told_before_it_ends(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """A thread looks while the work says nothing; here it is asked for its look."""
    with progress("indexing", 10) as made:
        assert [thread.daemon for thread in threading.enumerate() if thread.name == "progress"] == [True]
        look()
        clock.now += 3
        look()
        look()
        clock.now += 11
        look()
        made.add(10)
    clock.now += 11
    look()
    assert capsys.readouterr().err.splitlines() == [
        "indexing: 0 of 10, 3 s so far",
        "indexing: 0 of 10, 14 s so far",
        "indexing: 10 of 10 in 14 s, 0.71/s",
    ]


def test_the_innermost_is_shown(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in track(range(2), "outer"):
        spend(clock, track(range(2), "inner"), 4)
    said = capsys.readouterr().err.splitlines()
    assert said == [
        *("inner: 1 of 2, 0.25/s, 4 s left", "inner: 2 of 2 in 8 s, 0.25/s"),
        "outer: 1 of 2, 0.12/s, 8 s left",
        *("inner: 1 of 2, 0.25/s, 4 s left", "inner: 2 of 2 in 8 s, 0.25/s"),
        "outer: 2 of 2 in 16 s, 0.12/s",
    ]


def test_left_alone_and_failed(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in track(range(9), "counting"):
        break
    with pytest.raises(KeyError), progress("working"):
        clock.now += 5
        raise KeyError
    spend(clock, track(range(1), "after"), 3)
    assert capsys.readouterr().err.splitlines() == ["after: 1 of 1, 0.33/s, 0 s left", "after: 1 of 1 in 3 s, 0.33/s"]


def test_a_terminal_has_one_line(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    monkeypatch.setenv("COLUMNS", "50")  # too few for a bar
    monkeypatch.setenv("NO_COLOR", "1")
    made = track(range(3), "counting")
    next(made)
    clock.now += 3
    next(made)
    log_line("a remark")
    clock.now += 0.1
    next(made)  # too soon to write again
    clock.now += 1
    print_line("a result")
    assert list(made) == []
    clear = "\r\x1b[K"
    assert terminal.getvalue() == (
        f"{clear}counting: 1 of 3, 0.33/s, 6 s left{clear}a remark\n"
        f"{clear}counting: 3 of 3, 0.73/s, 0 s left{clear}counting: 3 of 3 in 4 s, 0.73/s\n"
    )
    assert capsys.readouterr().out == "a result\n"


def test_a_terminal_has_a_bar_and_no_line_wider_than_itself(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    with progress("a piece of work with a rather long name that goes on and on", 4) as made:
        clock.now += 3
        made.add(2)
    shown = re.sub(r"\x1b\[[0-9;]*[mK]", "", terminal.getvalue()).split("\r")
    bar, _, text = shown[1].partition(" ")
    assert len(bar) == 24 and set(bar) <= set("\u2501\u2578\u257a")
    assert text.startswith("a piece of work") and text.endswith("\u2026")
    assert len(shown[1]) < 80
    assert re.search(r"\x1b\[[0-9;]+m", terminal.getvalue())
    monkeypatch.setenv("NO_COLOR", "1")
    terminal.truncate(0)
    with progress("work", 4) as made:
        clock.now += 3
        made.add(2)
    assert not re.search(r"\x1b\[[0-9;]+m", terminal.getvalue())
    assert "work: 2 of 4" in terminal.getvalue()


def test_a_terminal_is_left_clean_after_a_fault(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    with pytest.raises(KeyError), progress("working", 2) as made:
        clock.now += 5
        made.add()
        raise KeyError
    assert terminal.getvalue().endswith("left\r\x1b[K")
    log_line("the fault")
    assert terminal.getvalue().endswith("\r\x1b[Kthe fault\n")
