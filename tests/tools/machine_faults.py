"""Faults of the machine around a running server: a disk that is full or read-only, and a clock that is set."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

SOURCE = Path(__file__).with_name("moved_clock.c")
STEPS = (-86400, 3600, -3600, 86400, 0)  # seconds between the set clock and the real one, in turn


def unmountable() -> str:
    """Why nothing can be mounted here; empty if something can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "file systems are mounted by root"
    done = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, text=True)  # noqa: PLW1510
    return done.stderr.strip()


@contextmanager
def small_disk(folder: Path, mebibytes: int = 64) -> Iterator[None]:
    """Mounts a disk of this size at a new folder, for the block."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path, seconds: float) -> None:
    """Leaves no byte free on a disk for some seconds."""
    ballast, until = disk / ".ballast", time.monotonic() + seconds
    with ballast.open("wb", buffering=0) as stream:
        while time.monotonic() < until:
            with suppress(OSError):
                while True:
                    stream.write(bytes(1 << 12))
            time.sleep(0.05)
    ballast.unlink()


def lock_up(folder: Path, seconds: float) -> None:
    """Makes a folder read-only for some seconds, even for root."""
    subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        time.sleep(seconds)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


class MovedClock:
    """A clock that programs with `environment` see, and that `set` moves while they run."""

    def __init__(self, folder: Path) -> None:
        library, self._file = folder / "moved_clock.so", folder / "moved"
        command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE)]
        subprocess.run(command, check=True)
        self.set(0)
        self.environment: Mapping[str, str] = {"LD_PRELOAD": str(library), "MOVED_CLOCK": str(self._file)}

    def set(self, seconds: int) -> None:
        """Sets the clock to so many seconds after the real one."""
        mode = "r+b" if self._file.exists() else "wb"
        with self._file.open(mode) as stream:  # in place, since it is mapped
            stream.write(struct.pack("l", seconds))
