"""Answers that were paid for, kept on disk by the content of what was asked, and verified whenever they are read."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from threading import Condition
from time import sleep
from typing import Any

from harness.errors import HarnessError
from harness.io.files import cache_root, write_atomic
from harness.store import artefacts

_LOCK = ".lock"
_AGAIN = 0.05  # seconds between two looks at a lock that another process has


@dataclass(frozen=True)
class Reply:
    """What a server answered to one call.

    Attributes
    ----------
    text : of a conversation.
    vector : of a text, as 32-bit floats in base64 (little endian).
    model : the name by which the server reported its model.
    finish : why the answer ended: `stop`, `length` (cut at the most tokens), `content_filter` ...; `refused` if the
        server would not answer this request, with the reason as text.
    """

    text: str = ""
    vector: str = ""
    model: str = ""
    finish: str = "stop"
    tokens_in: int = 0
    tokens_out: int = 0


def default_folder() -> Path:
    """Returns where answers are kept unless a client is told otherwise: `llm/` in the cache folder."""
    return cache_root() / "llm"


class Kept:
    """A folder of replies: `MODEL/KIND/xx/KEY.json`, one file each, which may be copied and published.

    Parameters
    ----------
    folder : need not exist; only `keep` and `locked` write to it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, request: Mapping[str, Any]) -> Reply | None:
        """Returns the reply to a request; None if there is none.

        Raises
        ------
        HarnessError
            The file is not as it was written: one line, with what to do.
        """
        path = self.path(request)
        found = _read(path)
        if found is None:
            return None
        if artefacts.key(found[0]) != path.stem:
            raise HarnessError(f"{path}: holds the answer to another request; delete it to ask again, or restore it")
        return found[1]

    def keep(self, request: Mapping[str, Any], reply: Reply) -> None:
        """Writes a reply; it is on the disk when this returns."""
        content = json.loads(json.dumps({"request": request, "reply": asdict(reply)}))
        content["sha256"] = artefacts.key(content)
        write_atomic(self.path(request), json.dumps(content, indent=1, sort_keys=True) + "\n")

    def path(self, request: Mapping[str, Any]) -> Path:
        """Returns the file of a request."""
        key = artefacts.key(request)
        return self._of(str(request["model"]), str(request["kind"])) / key[:2] / f"{key}.json"

    def of_model(self, model: str, kind: str, most: int) -> Iterator[tuple[dict[str, Any], Reply]]:
        """Yields the first so many requests and replies of a model, in the order of their keys."""
        for path in sorted(self._of(model, kind).glob("??/*.json"))[:most]:
            if found := _read(path):
                yield found

    def _of(self, model: str, kind: str) -> Path:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", model)[:60]
        return self.folder / f"{plain}-{hashlib.sha256(model.encode()).hexdigest()[:8]}" / kind

    @contextmanager
    def locked(self, request: Mapping[str, Any], pause: Callable[[float], object] = sleep) -> Iterator[None]:
        """One thread of one process at a time asks a request, so that two do not both pay for it.

        The lock ends with the process, however that ends.

        Parameters
        ----------
        pause : waits for so many seconds while another process has the lock; what it raises ends the waiting.
        """
        with _BUSY_CHANGED:  # two threads at once would open the file twice, and each take the lock of its own handle
            handle = _handle(self.folder.absolute())
        place = int(artefacts.key(request)[:15], 16)  # below 2^60, where a lock may stand beyond the end of the file
        with _BUSY_CHANGED:  # the lock of the file is of the process
            _BUSY_CHANGED.wait_for(lambda: (handle, place) not in _BUSY)
            _BUSY.add((handle, place))
        try:
            while not _taken(handle, place):
                pause(_AGAIN)
            yield
        finally:
            with suppress(OSError):
                fcntl.lockf(handle, fcntl.LOCK_UN, 1, place)
            with _BUSY_CHANGED:
                _BUSY.discard((handle, place))
                _BUSY_CHANGED.notify_all()


_BUSY: set[tuple[int, int]] = set()
_BUSY_CHANGED = Condition()


def _taken(handle: int, place: int) -> bool:
    """Takes a lock, unless another process has it.

    Never waits in the kernel: that takes two processes for locked in a circle whenever threads of each wait for the
    other, and then refuses the lock.
    """
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except (BlockingIOError, PermissionError):  # EAGAIN or EACCES, by POSIX
        return False
    except OSError:  # a file system without locks
        return True
    return True


@cache  # never closed: closing a file ends all of the process's locks on it
def _handle(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise HarnessError(f"{folder}: cannot be written: {error.strerror or error}") from None


def _read(path: Path) -> tuple[dict[str, Any], Reply] | None:
    try:
        content = json.loads(path.read_bytes())
        if content.pop("sha256") != artefacts.key(content):
            raise ValueError
        return content["request"], Reply(**content["reply"])
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise HarnessError(f"{path}: altered since it was written; delete it to ask again, or restore it") from None
