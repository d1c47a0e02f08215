"""Identity of this machine and of processes on it: tells whether the writer of a temporary file still runs."""

from __future__ import annotations

import os
import platform
import pwd
from contextlib import suppress
from functools import cache
from pathlib import Path

PROC = Path("/proc")


def host() -> str:
    """Returns the identity of this machine: processes of one identity see each other by their numbers.

    It consists of the host name, the identifier of the last boot and the namespace of process numbers, so that two
    containers differ, and so does a machine that was started again. `HARNESS_HOST` replaces all of them.
    """
    return os.environ.get("HARNESS_HOST") or _host()


def host_name() -> str:
    """Returns the name of this machine for messages: `HARNESS_HOST`, else the host name."""
    return os.environ.get("HARNESS_HOST") or platform.node() or "unknown"


@cache
def _host() -> str:
    boot, space = "", ""
    with suppress(OSError):
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
    with suppress(OSError):
        space = str((PROC / "self/ns/pid").readlink())
    return f"{platform.node()} {boot} {space}"


def user() -> str:
    """Returns the name of the user of this process, or the number of a user without a name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def started(process: int) -> str:
    """Returns when a process of this machine was started, in clock ticks since boot; "" if that is unknown."""
    return _status(process)[1]


def gone(process: int, start: str) -> bool:
    """Returns whether a process of this machine has ended, even if another one has its number now.

    Parameters
    ----------
    start : what `started` returned while the process ran; "" if unknown.
    """
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass  # another user's process
    state, current = _status(process)
    # A killed process stays as a zombie until its parent asks for its exit code.
    return state in ("Z", "X") or bool(start and current and start != current)


def _status(process: int) -> tuple[str, str]:
    """Returns the state and the start of a process; empty where the system does not tell."""
    try:
        text = (PROC / str(process) / "stat").read_text(errors="replace")
    except OSError:
        return "", ""
    fields = text.rpartition(")")[2].split()  # the name of the program, in parentheses, may contain blanks
    return (fields[0], fields[19]) if len(fields) > 19 else ("", "")
