"""Cache of paid answers on disk, keyed by the content of requests and verified at every read."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from time import sleep
from typing import Any

from harness.errors import HarnessError, os_errors
from harness.io.files import read_bytes, sha256, sha256_file, write_atomic
from harness.io.locks import held
from harness.store import artefacts

_LOCKS = ".locks"  # folder of the locks of requests that are being paid for


@dataclass(frozen=True)
class Reply:
    """Reply of a server to one call.

    Attributes
    ----------
    text : answer to a conversation.
    vector : embedding of a text, as 32-bit floats in base64 (little endian).
    model : model name reported by the server.
    finish : reason for the end of the answer: `stop`, `length` (token limit), `content_filter` ...; `refused` if the
        server refuses the request, with the reason as text.
    """

    text: str = ""
    vector: str = ""
    model: str = ""
    finish: str = "stop"
    tokens_in: int = 0
    tokens_out: int = 0


class AnswerCache:
    """Cached replies: a folder with one file `MODEL/KIND/xx/KEY.json` each, or a file NAME.jsonl with one line each.

    Either may be copied and published.

    Parameters
    ----------
    folder : the folder or file, which need not exist; only `keep` and `locked` write to it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._in_one = folder.suffix == ".jsonl"

    def find(self, request: Mapping[str, Any]) -> Reply | None:
        """Returns the reply to a request; None if there is none.

        Raises
        ------
        HarnessError
            The file was altered; the message says what to do.
        """
        if self._in_one:
            return self._lines.get(artefacts.key(request), (None, None))[1]
        path = self.path(request)
        entry = _read(path)
        if entry is None:
            return None
        if artefacts.key(entry[0]) != path.stem:
            raise HarnessError(f"{path}: holds the answer to another request; delete it to ask again, or restore it")
        return entry[1]

    def keep(self, request: Mapping[str, Any], reply: Reply) -> None:
        """Writes a reply to disk."""
        content = json.loads(json.dumps({"request": request, "reply": asdict(reply)}))
        content["sha256"] = artefacts.key(content)
        if self._in_one:
            self._lines[artefacts.key(request)] = content["request"], reply
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            with self.folder.open("ab", buffering=0) as stream:
                stream.write(json.dumps(content, sort_keys=True).encode() + b"\n")
            return
        write_atomic(self.path(request), json.dumps(content, indent=1, sort_keys=True) + "\n")

    def path(self, request: Mapping[str, Any]) -> Path:
        """Returns the file of a request."""
        key = artefacts.key(request)
        return self._of(str(request["model"]), str(request["kind"])) / key[:2] / f"{key}.json"

    def of_model(self, model: str, kind: str, most: int) -> Iterator[tuple[dict[str, Any], Reply]]:
        """Yields at most `most` requests and replies of a model, in the order of their keys."""
        if self._in_one:
            lines = (self._lines[key] for key in sorted(self._lines))
            yield from islice((each for each in lines if (each[0]["model"], each[0]["kind"]) == (model, kind)), most)
            return
        for path in sorted(self._of(model, kind).glob("??/*.json"))[:most]:
            if entry := _read(path):
                yield entry

    @cached_property
    def _lines(self) -> dict[str, tuple[dict[str, Any], Reply]]:
        """Requests and replies of the file, by the keys of the requests."""
        lines = read_bytes(self.folder).splitlines() if self.folder.exists() else []
        entries = (_parsed(line, f"{self.folder}:{number}") for number, line in enumerate(lines, 1))
        return {artefacts.key(request): (request, reply) for request, reply in entries}

    def _of(self, model: str, kind: str) -> Path:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", model)[:60]
        return self.folder / f"{plain}-{hashlib.sha256(model.encode()).hexdigest()[:8]}" / kind

    @contextmanager
    def locked(self, request: Mapping[str, Any], pause: Callable[[float], object] = sleep) -> Iterator[None]:
        """Locks a request for one thread of one process, so that it is not paid for twice; see `harness.io.locks`.

        Parameters
        ----------
        pause : function that sleeps for some seconds while another process has the lock; its exceptions end the wait.
        """
        folder = self.folder.parent if self._in_one else self.folder
        with ExitStack() as stack:
            with os_errors(self.folder, "written"):
                stack.enter_context(held(folder / _LOCKS, artefacts.key(request), pause=pause))
            yield


def _read(path: Path) -> tuple[dict[str, Any], Reply] | None:
    with os_errors(path, "read"), suppress(FileNotFoundError):
        return _parsed(path.read_bytes(), str(path))
    return None


def _parsed(data: bytes, where: str) -> tuple[dict[str, Any], Reply]:
    try:
        content = json.loads(data)
        if content.pop("sha256") != artefacts.key(content):
            raise ValueError
        return content["request"], Reply(**content["reply"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise HarnessError(f"{where}: altered since it was written; delete it to ask again, or restore it") from None


def answers_digest(folder: Path) -> str:
    """Returns a checksum of the answers in a folder or a file NAME.jsonl, which may not exist yet."""
    if folder.is_file():
        return sha256_file(folder)
    files = sorted(folder.rglob("*.json")) if folder.is_dir() else []
    return sha256("".join(f"{path.relative_to(folder)} {sha256_file(path)}\n" for path in files).encode())
