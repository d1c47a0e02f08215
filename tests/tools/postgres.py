"""A PostgreSQL server of its own for tests, on a socket in a temporary folder."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

USER = "postgres"  # the server refuses to run as root


def programs() -> Path | None:
    """The folder of PostgreSQL's programs; None if it is not installed, or there is no user to run it as."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        return None
    if os.getuid() == 0:
        try:
            pwd.getpwnam(USER)
        except KeyError:
            return None
    return found[-1].parent


@contextmanager
def postgres() -> Iterator[str]:
    """Runs a server; yields its address."""
    at = programs()
    assert at is not None
    user = USER if os.getuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        if user:
            shutil.chown(folder, USER)
        data = folder / "data"
        made = [at / "initdb", "-D", data, "-U", USER, "--auth", "trust", "--no-sync"]
        _run(made, user, folder)
        options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
        _run([at / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start"], user, folder)
        try:
            yield f"postgresql:///postgres?host={folder}&user={USER}"
        finally:
            _run([at / "pg_ctl", "-D", data, "-m", "immediate", "stop"], user, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(command: list[object], user: str | None, folder: Path) -> None:
    words = [str(each) for each in command]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, user=user)
    assert done.returncode == 0, done.stdout + done.stderr
