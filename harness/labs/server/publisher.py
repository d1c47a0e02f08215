"""Builds the pages of a lab again whenever the lab changes, by the command `site build` in a process of its own.

The pages are thus those of a static site, byte by byte. A build that ends while the lab changes is followed by another.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from harness.errors import HarnessError
from harness.io.console import log_line
from harness.labs.downloads import write_downloads
from harness.labs.lab import read_lab
from harness.labs.server.lab_snapshot import DOWNLOADS, SITE, lab_state, set_site_state, site_state
from harness.render.pages import MANIFEST

POLL = 0.5  # seconds
PAUSE = 2.0  # least number of seconds between two builds
LOCK = "site.lock"
RETRY = 10.0  # seconds after which a failed build is tried again


def publish(lab: Path, state: Path, address: str, stopped: Callable[[], bool], pause: float = PAUSE) -> None:
    """Builds the pages of a lab below `state` until `stopped()`, at a lower priority than what answers and scores.

    Pages that were built for a server at another address are built again, and so are pages that somebody deleted. Of
    several servers with one `state`, the first one builds; another begins when that one has ended.
    """
    os.nice(5)
    with (state / LOCK).open("ab") as lock:
        said = False
        while not _is_first(lock):
            if not said:
                log_line(f"pages: another server builds those in {state / SITE}; this one waits until it ends")
            said = True
            if stopped():
                return
            time.sleep(POLL)
        _publish(lab, state, address, stopped, pause)


def _is_first(lock: IO[bytes]) -> bool:
    """Returns whether no other process builds these pages; the lock of a process ends with it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # the file system has no locks
        return True
    return True


def _publish(lab: Path, state: Path, address: str, stopped: Callable[[], bool], pause: float) -> None:
    failed = tried = 0.0
    written: tuple[int, tuple[str, ...]] | None = None  # time of the settings, and lines on what is not offered
    while not stopped():
        now, published = lab_state(lab), site_state(state)
        if written is None or written[0] != now[0] or (written[1] and time.monotonic() - tried > 60 * RETRY):
            written, tried = (now[0], _offer(lab, state, written)), time.monotonic()
        same = published.get("of") == now and published.get("server") == address
        same = same and (not published.get("there", True) or _is_there(state / SITE))
        if same and (not published.get("error") or time.monotonic() - failed < RETRY):
            time.sleep(POLL)
            continue
        ended = build_pages(lab, state / SITE, address, stopped)
        if ended is None:
            return
        said, ok = ended
        at = datetime.now(UTC).isoformat(timespec="seconds")
        there = _is_there(state / SITE)
        set_site_state(state, {"of": now, "server": address, "at": at, "error": "" if ok else said, "there": there})
        if not ok:
            failed = time.monotonic()
            if said != published.get("error"):  # it is tried again and again
                log_line(f"pages: {said}")
        until = time.monotonic() + pause
        while time.monotonic() < until and not stopped():
            time.sleep(POLL / 5)


def _offer(lab: Path, state: Path, before: tuple[int, tuple[str, ...]] | None) -> tuple[str, ...]:
    """Writes the files that the lab offers for download; logs and returns why others are not offered."""
    try:
        lines = tuple(write_downloads(read_lab(lab), state / DOWNLOADS))
    except HarnessError as error:
        lines = error.lines
    if before is None or before[1] != lines:  # it is tried again and again
        for line in lines:
            log_line(f"downloads: {line}")
    return lines


def _is_there(site: Path) -> bool:
    """Returns whether the pages are there; the list of files is written last."""
    return all((site / name).is_file() for name in (MANIFEST, "index.html"))


def build_pages(lab: Path, site: Path, address: str, stopped: Callable[[], bool]) -> tuple[str, bool] | None:
    """Builds the pages once; returns the last line of the command and whether it succeeded, None if it was stopped."""
    command = [sys.executable, "-P", "-m", "harness", "site", "build", str(lab), "--output", str(site), "--quiet"]
    command += ["--server", address] if address else []
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    while True:
        try:
            text, _ = process.communicate(timeout=POLL)
            break
        except subprocess.TimeoutExpired:
            if stopped():
                process.terminate()
                process.communicate()
                return None
    lines = [line.removeprefix("harness: ") for line in text.splitlines() if line.strip()]
    return (lines[-1] if lines else f"exit code {process.returncode}"), process.returncode == 0
