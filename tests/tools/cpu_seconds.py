"""A pytest plugin that prints the CPU time of each suite, and of the files and tests that take most.

Child processes count, also those that still run. It measures one process, so it is used without `-n`:
`PYTHONPATH=tests/tools python -m pytest -p cpu_seconds -m "not slow"`.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

_TICKS = os.sysconf("SC_CLK_TCK")
_MOST = 30  # files and tests that are listed
_spent: dict[str, float] = {}


def _below(process: str) -> int:
    """Returns the clock ticks of the processes below a process and of those that they have waited for."""
    total = 0
    try:
        children = [path.read_text().split() for path in Path("/proc", process, "task").glob("*/children")]
    except OSError:  # it has ended
        return 0
    for child in (child for each in children for child in each):
        try:
            fields = Path("/proc", child, "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15])) + _below(child)
    return total


def _now() -> float:
    own = os.times()
    return own.user + own.system + own.children_user + own.children_system + _below("self") / _TICKS


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    before = _now()
    if not _spent:
        _spent["start and collection"] = before
    try:
        return (yield)
    finally:
        _spent[item.nodeid] = _now() - before


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    suites: dict[str, float] = defaultdict(float)
    files: dict[str, float] = defaultdict(float)
    for name, seconds in _spent.items():
        file = name.partition("::")[0]
        suites["/".join(file.split("/")[:2])] += seconds
        files[file] += seconds
    for title, counts in (("suites", suites), ("files", files), ("tests", _spent)):
        terminalreporter.section(f"seconds of CPU time: {title}", sep="-")
        for name, seconds in sorted(counts.items(), key=lambda item: -item[1])[:_MOST]:
            terminalreporter.write_line(f"{seconds:8.1f}  {name}")
    terminalreporter.write_line(f"{sum(_spent.values()):8.1f}  in all")
