"""Leases as other processes find them: who holds one, and whether the owner is gone; see `harness.io.leases`."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.errors import HarnessError, printable, shortened
from harness.io import processes
from harness.io.console import in_time, say

SECONDS = 60.0  # without a beat, after which an owner counts as gone
BEATS = 6  # beats in that time
LOOK = 0.5  # seconds between two looks at a lease, at most
OWNER = re.compile(r"[0-9a-f]{16}")
FOLDER = re.compile(r"\.(.+)\.(?:[0-9]+\.lease|[0-9a-f]{16}\.new)")  # of a lease, or of one that is prepared
VANISHED = (errno.ENOENT, errno.ESTALE)
OURS: set[str] = set()  # owners in this process
_ENDING = re.compile(r"(?:([0-9]+)\.lease|[0-9a-f]{16}\.new)")  # of its name, after the one that it is for
_MOST = 1 << 20  # bytes that are read of a lease; one of a week has 120 KB
clock = time.monotonic
sleep = time.sleep

State = Literal["running", "gone", "unknown"]


def lease_seconds() -> float:
    """Returns after how many seconds without a beat an owner counts as gone: `HARNESS_LEASE_SECONDS`, else 60.

    Raises
    ------
    HarnessError
        The variable is not a number from 0.1 to 86,400.
    """
    named = os.environ.get("HARNESS_LEASE_SECONDS", "")
    if not named:
        return SECONDS
    with suppress(ValueError):
        if 0.1 <= (seconds := float(named)) <= 86400:
            return seconds
    raise HarnessError(f"HARNESS_LEASE_SECONDS={named}: expected a number of seconds, 0.1 to 86400")


# ---- leases of other processes ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Holder:
    """A lease as it was found.

    Attributes
    ----------
    path : folder of the lease.
    owner : random name of the owner; "" if the folder has none, because it is not a lease.
    host : identity of the owner's machine; "" if the file cannot be read.
    machine : name of the machine; process, user : of the owner; start : see `processes.started`.
    what : what the owner does, for messages.
    every : seconds between two beats; beats : number of beats found.
    uses : what the owner has noted by `Lease.note`, such as the artifacts that it reads.
    token : changes with every beat.
    """

    path: Path
    owner: str
    host: str = ""
    machine: str = ""
    process: int = 0
    start: str = ""
    user: str = ""
    what: str = ""
    every: float = 0.0
    beats: int = 0
    uses: tuple[str, ...] = ()
    token: object = None

    def __str__(self) -> str:
        if not self.host:
            return f"the unreadable lease {self.path}"
        doing = f", which {self.what}" if self.what else ""
        return shortened(printable(f"{self.machine}, process {self.process}{doing}"), 300)

    def state(self) -> State:
        """Returns whether the owner runs, as far as this machine knows at once."""
        if not self.host or self.host != processes.host():
            return "unknown"
        if self.process == os.getpid() and self.start == processes.started(self.process):
            return "running" if self.owner in OURS else "gone"
        return "gone" if processes.gone(self.process, self.start) else "running"


def read(path: Path) -> Holder | None:
    """Returns the lease of a folder; None if it was released."""
    try:
        if path.is_symlink():
            raise NotADirectoryError(errno.ENOTDIR, "a link")
        names = sorted(os.listdir(path))  # noqa: PTH208  (names of a folder that may vanish)
    except OSError as error:
        return None if error.errno in VANISHED else Holder(path, "", token=error.errno)
    if not names:
        return None  # its owner has released it
    owner = next(filter(OWNER.fullmatch, names), "")
    if not owner:
        return Holder(path, "", token=tuple(names))
    try:
        handle = os.open(path / owner, os.O_RDONLY | os.O_NONBLOCK)  # opened, so that NFS asks the server
        try:
            status = os.fstat(handle)
            content = os.read(handle, _MOST)
        finally:
            os.close(handle)
    except OSError as error:
        return None if error.errno in VANISHED else Holder(path, owner, token=error.errno)
    return _parsed(path, owner, content, (status.st_size, status.st_mtime_ns))


def _parsed(path: Path, owner: str, content: bytes, token: object) -> Holder:
    head, *lines = content.decode("utf-8", "replace").split("\n")
    uses = tuple(line.removeprefix("use ") for line in lines if line.startswith("use "))
    try:
        said = json.loads(head)
        texts = [said[name] for name in ("host", "machine", "start", "user", "what")]
        process, every = said["process"], said["every"]
        right = all(isinstance(text, str) for text in texts) and type(process) is int and process > 0
        if not (right and texts[0] and 0 < float(every) <= 86400):
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        return Holder(path, owner, token=token)
    host, machine, start, user, what = texts
    return Holder(path, owner, host, machine, process, start, user, what, float(every), lines.count("."), uses, token)


def numbered(folder: Path, name: str) -> tuple[dict[int, Holder], list[Path]]:
    """Returns the leases of a name by their numbers, and folders of released leases and of those being prepared."""
    found: dict[int, Holder] = {}
    others: list[Path] = []
    start = f".{name}."
    try:
        names = [each for each in os.listdir(folder) if each.startswith(start)]  # noqa: PTH208
    except OSError as error:
        if error.errno in VANISHED:
            return {}, []
        raise
    for each in names:
        if (match := _ENDING.fullmatch(each, len(start))) is None:
            continue
        if match[1] and (holder := read(folder / each)):
            found[int(match[1])] = holder
        else:
            others.append(folder / each)
    return dict(sorted(found.items())), others


# ---- which owners are gone --------------------------------------------------------------------------------------


@dataclass
class _Seen:
    """What this process saw of a lease: its last beat, the seconds since then, and whether any beat was seen."""

    token: object
    still: float
    looked: float
    beaten: bool = False


_SEEN: dict[tuple[Path, str], _Seen] = {}
_MOST_SEEN = 10_000


def is_dead(holder: Holder) -> bool:
    """Returns whether the owner of a lease is gone; each look counts the time in which there was no beat.

    The time between two looks counts as one beat at most, so that a process that was paused itself does not mistake its
    own pause for that of another.
    """
    if holder.state() == "gone":
        return True
    now, seen = clock(), _SEEN.get((holder.path, holder.owner))
    every = holder.every or lease_seconds() / BEATS
    if seen is None:
        if len(_SEEN) >= _MOST_SEEN:
            _SEEN.clear()
        _SEEN[holder.path, holder.owner] = _Seen(holder.token, 0.0, now)
        return False
    if seen.token != holder.token:
        seen.token, seen.still, seen.looked, seen.beaten = holder.token, 0.0, now, True
        return False
    seen.still += max(0.0, min(now - seen.looked, every))
    seen.looked = now
    return seen.still >= max(lease_seconds(), 3 * every)


def settle(paths: Iterable[Path]) -> None:
    """Watches leases until it is known for each whether its owner is gone, which takes `HARNESS_LEASE_SECONDS` at most.

    Only leases of other machines take time. What was seen is remembered for `held` and `is_dead`.
    """
    left = {path: holder for path in paths if (holder := read(path))}
    left = {path: holder for path, holder in left.items() if holder.state() == "unknown" and not is_dead(holder)}
    if left:
        many = "1 lease" if len(left) == 1 else f"{len(left)} leases"
        say(f"watching {many} of other machines for up to {in_time(lease_seconds())}")
    while left:
        sleep(min(LOOK, lease_seconds() / BEATS / 2))
        for path in list(left):
            found = read(path)
            if found is None or is_dead(found) or ((seen := _SEEN.get((path, found.owner))) and seen.beaten):
                del left[path]


# ---- remains ----------------------------------------------------------------------------------------------------


def remove(holder: Holder) -> None:
    """Deletes the lease of an owner that is gone, and what else is in its folder; never the lease of another owner."""
    path = holder.path
    _SEEN.pop((path, holder.owner), None)
    with suppress(OSError):
        if path.is_symlink() or not path.is_dir():
            path.unlink()
            return
        for each in list(path.iterdir()):
            if each.name == holder.owner or not OWNER.fullmatch(each.name):
                shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
        path.rmdir()
