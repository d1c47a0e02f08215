"""Temporary names of files that are being written: those of killed processes are told apart and deleted.

A name says which process writes the file: `.NAME.PROCESS-START-HOST.RANDOM.staged`. A process that writes into a folder
for the first time deletes the files there whose processes have ended, so that a command that was killed leaves nothing
once it is repeated. Files of other machines, whose processes cannot be seen, are deleted after a week.
"""

from __future__ import annotations

import os
import platform
import pwd
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO

_NAME = re.compile(r"\..*\.(\d+)-(\d*)-([0-9a-f]{8})\.\w+\.staged", re.DOTALL)
_LONGEST = 40  # characters of the file's own name; names of files have 255 bytes at most
_OLD = 7 * 86400  # seconds
_CLEARED: set[str] = set()  # folders in which this process has looked for remains


def new_name(path: Path) -> Path:
    """Returns an unused temporary name next to `path`."""
    _clear(path.parent)
    return path.parent / f"{_prefix(path)}{secrets.token_hex(8)}.staged"


@contextmanager
def opened(path: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """Creates a temporary file next to `path`, in a folder that is made if it is missing.

    It is deleted at the end of the block unless it was moved.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    made = new_name(path)
    with made.open("xb") as stream:
        try:
            yield made, stream
        finally:
            made.unlink(missing_ok=True)


def new_file(path: Path) -> tuple[int, Path]:
    """Creates an empty temporary file in the folder of `path`; returns its descriptor and its path.

    Only its owner can read it, as with `tempfile.mkstemp`.

    Raises
    ------
    OSError
        The folder cannot be written.
    """
    _clear(path.parent)
    descriptor, name = tempfile.mkstemp(prefix=_prefix(path), suffix=".staged", dir=path.parent)
    return descriptor, Path(name)


def second_name(path: Path) -> Path:
    """Gives a file a temporary second name in its folder; a copy where the file system has no hard links.

    Raises
    ------
    OSError
        The folder cannot be written.
    """
    descriptor, name = new_file(path)
    os.close(descriptor)
    name.unlink()
    try:
        os.link(path, name, follow_symlinks=False)
    except OSError:
        shutil.copy2(path, name, follow_symlinks=False)
    return name


def new_folder(path: Path) -> Path:
    """Creates an empty temporary folder next to `path`; see `new_file`."""
    _clear(path.parent)
    return Path(tempfile.mkdtemp(prefix=_prefix(path), suffix=".staged", dir=path.parent))


def share(path: Path) -> None:
    """Gives a file or folder that only its owner may read the rights of a new one."""
    umask = os.umask(0)
    os.umask(umask)
    path.chmod((0o777 if path.is_dir() else 0o666) & ~umask)


@contextmanager
def folder(name: str, parent: Path | None = None) -> Iterator[Path]:
    """Creates a temporary folder, by default in that of the system; deletes it at the end of the block."""
    made = new_folder((parent or Path(tempfile.gettempdir())) / name)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def is_left(path: Path) -> bool:
    """Returns whether a path is the temporary one of a process that has ended, by its name.

    Examples
    --------
    >>> is_left(Path("runs/bm25.run")), is_left(Path(f"runs/.bm25.run.{os.getpid()}--00000000.x.staged"))
    (False, False)
    """
    match = _NAME.fullmatch(path.name)
    if match is None:
        return False
    process, start, machine = match.groups()
    if machine == _short(host()):
        return gone(int(process), start)
    try:
        return time.time() - path.lstat().st_mtime > _OLD
    except OSError:
        return False


def delete(path: Path) -> None:
    """Deletes a temporary file or folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _clear(folder: Path) -> None:
    """Deletes what killed processes left in a folder; looks once per process."""
    name = os.path.abspath(folder)  # noqa: PTH100  (symbolic links need not be followed)
    if name in _CLEARED:
        return
    _CLEARED.add(name)
    with suppress(OSError), os.scandir(folder) as entries:
        for path in [Path(entry.path) for entry in entries if entry.name.endswith(".staged")]:
            if is_left(path):
                with suppress(OSError):
                    delete(path)


@cache
def _short(identity: str) -> str:
    import hashlib

    return hashlib.sha256(identity.encode()).hexdigest()[:8]


def _prefix(path: Path) -> str:
    process = os.getpid()
    return f".{path.name[:_LONGEST]}.{process}-{started(process)}-{_short(host())}."


# ---- this machine and its processes -----------------------------------------------------------------------------

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
