"""Builds the pages of a lab again whenever the lab changes, by the command `site build` in a process of its own.

The pages are thus those of a static site, byte by byte. A build that ends while the lab changes is followed by another.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from harness.io.console import say
from harness.server.live import SITE, changed, set_site_state, site_state

POLL = 0.5  # seconds
PAUSE = 2.0  # least number of seconds between two builds
RETRY = 10.0  # seconds after which a failed build is tried again


def publish(lab: Path, state: Path, address: str, stopped: Callable[[], bool], pause: float = PAUSE) -> None:
    """Builds the pages of a lab below `state` until `stopped()`, at a lower priority than what answers and scores.

    Pages that were built for a server at another address are built again.
    """
    os.nice(5)
    failed = 0.0
    while not stopped():
        now, found = changed(lab), site_state(state)
        same = found.get("of") == now and found.get("server") == address
        if same and (not found.get("error") or time.monotonic() - failed < RETRY):
            time.sleep(POLL)
            continue
        ended = build(lab, state / SITE, address, stopped)
        if ended is None:
            return
        said, ok = ended
        at = datetime.now(UTC).isoformat(timespec="seconds")
        set_site_state(state, {"of": now, "server": address, "at": at, "error": "" if ok else said})
        if not ok:
            failed = time.monotonic()
            if said != found.get("error"):  # it is tried again and again
                say(f"pages: {said}")
        until = time.monotonic() + pause
        while time.monotonic() < until and not stopped():
            time.sleep(POLL / 5)


def build(lab: Path, site: Path, address: str, stopped: Callable[[], bool]) -> tuple[str, bool] | None:
    """Builds the pages once; returns the last line of the command and whether it succeeded, None if it was stopped."""
    command = [sys.executable, "-m", "harness", "site", "build", str(lab), "--output", str(site), "--quiet"]
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
