"""A pytest plugin that prints the CPU time of each suite, and of the files and tests that take most.

Child processes count, also those that still run:
`PYTHONPATH=tests/tools python -m pytest -p cpu_seconds -n 2 --dist worksteal -m "not slow and not heavy"`.
The variable CPU_SECONDS names a file for the seconds of every test.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

_TICKS = os.sysconf("SC_CLK_TCK")
_MOST = 30  # files and tests that are listed
_PROPERTY = "seconds of CPU time"
_begun: dict[str, float] = {}
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


def pytest_runtest_logstart(nodeid: str) -> None:
    _begun[nodeid] = _now()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "teardown":
        report.user_properties.append((_PROPERTY, _now() - _begun.pop(item.nodeid)))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _spent.update((report.nodeid, float(str(value))) for name, value in report.user_properties if name == _PROPERTY)


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
    if named := os.environ.get("CPU_SECONDS"):
        lines = (f"{seconds:.2f}\t{name}\n" for name, seconds in sorted(_spent.items(), key=lambda item: -item[1]))
        Path(named).write_text("".join(lines), encoding="utf-8")
    terminalreporter.write_line(f"{sum(_spent.values()):8.1f}  in all")
