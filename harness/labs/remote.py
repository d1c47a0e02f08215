"""Client of a lab's server: downloads the lab's files, uploads a run and waits until it is scored.

An upload has an idempotency key, so that it can be sent again after a lost connection without being submitted twice.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import secrets
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from harness.data.layouts import files_in
from harness.errors import HarnessError, os_errors, reason_of
from harness.experiments.tira import metadata_file
from harness.io import staging_names
from harness.io.checks import typed
from harness.io.compression import open_uncompressed
from harness.io.files import sha256_file
from harness.labs.board import Leaderboard, leaderboard_from_json
from harness.labs.downloads import NAMES, Download, Downloads, check_configuration
from harness.labs.names import is_address, server_of
from harness.labs.receipts import Shown
from harness.labs.submit import Offer
from harness.version import __version__

T = TypeVar("T")
POLL = 1.0  # seconds between two looks at an upload that waits; at first an eighth, twice as much each time
TRIES = 8  # of a request whose connection failed, within 40 seconds
TIMEOUT = 60.0  # seconds without an answer
_MOST_ANSWER = 1 << 24  # bytes
_CHUNK = 1 << 16
_LOCAL = ("localhost", "127.0.0.1", "::1")


def submit_to(server: str, token: str, offer: Offer) -> Shown:
    """Submits a run to a server and waits for its score; `offer.team` is not sent, since the token tells it.

    Of a folder of TIRA, its run and metadata are sent; an archive is sent as it is.

    Raises
    ------
    HarnessError
        The run cannot be read, the server cannot be reached, or the submission is refused: one line per fault.
    """
    if not offer.run.exists():
        raise HarnessError(f"{offer.run}: no such file")
    key = secrets.token_urlsafe(18)
    body = _Form(offer)
    headers = {"content-type": body.kind, "content-length": str(len(body)), "idempotency-key": key}
    answer = _answer(server, token, "POST", "/api/v1/submissions", body, headers)
    pause = POLL / 8
    while answer.get("state") in ("queued", "running"):
        time.sleep(pause)
        pause = min(2 * pause, POLL)
        answer = _answer(server, token, "GET", f"/api/v1/submissions/{quote(str(answer.get('id')), safe='')}")
    if answer.get("state") != "done":
        lines = _error_lines(answer, "the server gave no reason")
        # The server knows the file by its name alone.
        name = rf"^{re.escape(str(answer.get('file')))}(?=:)"
        raise HarnessError(*(re.sub(name, str(offer.run), line) for line in lines))
    receipt = answer.get("receipt")
    return typed(Shown, receipt if isinstance(receipt, dict) else {}, f"{server}: receipt")


def act_on(server: str, token: str, action: str, arguments: Mapping[str, Any]) -> str:
    """Performs an action of the token's team on a server, such as `withdraw`; returns what was done.

    Raises
    ------
    HarnessError
        The server cannot be reached, or the action is refused.
    """
    headers = {"content-type": "application/json"}
    given = json.dumps({name: value for name, value in arguments.items() if value not in (None, "")}).encode()
    return str(_answer(server, token, "POST", f"/api/v1/{action}", given, headers).get("done", ""))


def read_leaderboard(server: str) -> Leaderboard:
    """Returns the leaderboard that a server shows to everybody.

    Raises
    ------
    HarnessError
        The server cannot be reached, has no leaderboard yet, or what it sends is none.
    """
    return leaderboard_from_json(_answer(server, "", "GET", "/api/v1/leaderboard"), server)


def fetch_downloads(server: str, folder: Path) -> tuple[Downloads, list[Path]]:
    """Downloads the files that a lab offers into a folder, all or none; returns what the lab offers, and the paths.

    A file that is there with the right checksum is not fetched again.

    Raises
    ------
    HarnessError
        The server cannot be reached or offers nothing; a file is damaged, is no file of a lab, or would replace another
        one; or the folder cannot be written.
    """
    answer = _answer(server, "", "GET", "/api/v1/downloads")
    server = server_of(server)
    offers = typed(Downloads, answer, f"{server}: downloads")
    if not offers.files:
        raise HarnessError(f"{server}: the lab offers no files to download")
    paths: dict[Path, Download] = {}
    for each in offers.files:
        path = folder / each.name
        if not NAMES.fullmatch(each.name) or each.bytes < 0 or path in paths:
            raise HarnessError(f"{server}: downloads: {each.name!r} is no file of a lab, or is listed twice")
        if os.path.lexists(path) and not (path.is_file() and sha256_file(path) == each.sha256):
            raise HarnessError(f"{path}: exists already, and is not the lab's file; move it, or go to another folder")
        paths[path] = each
    wanted = {path: each for path, each in paths.items() if not path.exists()}
    with os_errors(folder, "written"), staging_names.folder("downloads", folder) as staged:
        made = {path: staged / str(n) for n, path in enumerate(wanted)}
        for path, each in wanted.items():
            _download(server, each, made[path])
            check_configuration(each.name, made[path])
        for path in made:
            path.parent.mkdir(parents=True, exist_ok=True)
        for path, file in made.items():
            file.replace(path)
    return offers, list(paths)


def _download(server: str, file: Download, path: Path) -> None:
    """Downloads a file of a lab to a path, and checks it."""

    def send() -> tuple[int, bytes]:
        asked = f"/api/v1/downloads/{quote(file.name)}"
        with _response(server, "", "GET", asked, None, {}) as answer, path.open("wb") as out:
            if answer.status != 200:
                return answer.status, answer.read(_MOST_ANSWER)
            left = file.bytes + 1  # a byte too many is a fault
            while left and (data := answer.read(min(_CHUNK, left))):
                with os_errors(path, "written"):
                    out.write(data)
                left -= len(data)
            return 200, b""

    status, data = _repeated(server, send)
    if status != 200:
        _parse_answer(server, status, data)
        raise HarnessError(f"{server}: {file.name}: status {status}, expected the file")
    size, digest = path.stat().st_size, sha256_file(path)
    if (size, digest) != (file.bytes, file.sha256):
        size_text = f"{size:,} bytes" if size <= file.bytes else f"more than {file.bytes:,} bytes"
        found = f"{size_text} with the SHA-256 {digest[:16]}…"
        raise HarnessError(
            f"{server}: {file.name}: damaged: {found}, expected {file.bytes:,} with {file.sha256[:16]}…; nothing was "
            "written; try again, and tell the organisers if it stays so"
        )


class _Form:
    """A multipart form, read from the files as it is sent; each iteration begins again."""

    def __init__(self, offer: Offer) -> None:
        self._mark = f"run-{secrets.token_hex(16)}"
        self.kind = f"multipart/form-data; boundary={self._mark}"
        names = [each.name for each in fields(Offer) if each.name not in ("run", "team", "primary")]
        texts = {name: getattr(offer, name) for name in names}
        texts["primary"] = "true" if offer.primary else None
        self._parts: list[bytes | Path] = []
        for name, text in texts.items():
            if text is not None:
                self._parts += [self._part_head(name), str(text).encode(), b"\r\n"]
        run, metadata = files_in(offer.run) if offer.run.is_dir() else (offer.run, None)
        for name, path in {"run": run, "metadata": metadata or metadata_file(offer.run)}.items():
            if path is not None:
                content = path if path.is_file() else _piped(path)
                self._parts += [self._part_head(name, path.name), content, b"\r\n"]
        self._parts.append(f"--{self._mark}--\r\n".encode())

    def _part_head(self, name: str, file: str | None = None) -> bytes:
        line = f'--{self._mark}\r\nContent-Disposition: form-data; name="{name}"'
        if file is not None:
            safe = re.sub(r"[^A-Za-z0-9._+=-]", "_", file)
            line += f'; filename="{safe}"\r\nContent-Type: application/octet-stream'
        return f"{line}\r\n\r\n".encode()

    def __len__(self) -> int:
        return sum(part.stat().st_size if isinstance(part, Path) else len(part) for part in self._parts)

    def __iter__(self) -> Iterator[bytes]:
        for part in self._parts:
            if isinstance(part, bytes):
                yield part
                continue
            with part.open("rb") as stream:
                while data := stream.read(_CHUNK):
                    yield data


def _piped(path: Path) -> bytes:
    """Returns the content of a pipe, whose length is not known before."""
    with open_uncompressed(path) as stream:
        return stream.read()


def _answer(
    server: str,
    token: str,
    method: str,
    path: str,
    body: _Form | bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Sends a request, again if its connection fails, and returns the JSON object of the answer."""
    if not is_address(server):
        raise HarnessError(f"--server {server}: expected an address such as https://lab.example.org")
    address = urlsplit(server := server_of(server))
    if token and address.scheme == "http" and address.hostname not in _LOCAL:
        raise HarnessError(f"--server {server}: would send the token unencrypted; use https")

    def send() -> tuple[int, bytes]:
        with _response(server, token, method, path, body, headers or {}) as answer:
            return answer.status, answer.read(_MOST_ANSWER)

    return _parse_answer(server, *_repeated(server, send))


def _repeated(server: str, send: Callable[[], tuple[int, T]]) -> tuple[int, T]:
    """Sends a request, again if its connection fails or the server is busy; returns status and content."""
    for last in range(TRIES):
        try:
            status, content = send()
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, ssl.SSLError) or last + 1 == TRIES:
                raise HarnessError(f"{server}: cannot be reached: {reason_of(error)}") from None
        else:
            if status not in (429, 502, 503, 504) or last + 1 == TRIES:
                return status, content
        time.sleep(min(2.0**last, 8.0))
    raise AssertionError


@contextmanager
def _response(
    server: str, token: str, method: str, path: str, body: _Form | bytes | None, headers: Mapping[str, str]
) -> Iterator[http.client.HTTPResponse]:
    address = urlsplit(server)
    secure = address.scheme == "https"
    made = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = made(address.hostname or "", address.port, timeout=TIMEOUT)
    try:
        given = {"user-agent": f"mathir-harness/{__version__}", **headers}
        given |= {"authorization": f"Bearer {token}"} if token else {}
        given["accept"] = "application/json"
        # A server that refuses before it has read all says why in its answer.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request(method, address.path + path, body, given)
        yield connection.getresponse()
    finally:
        connection.close()


def _parse_answer(server: str, status: int, data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise HarnessError(f"{server}: is not a lab's server, or is out of order (status {status})")
    if status >= 400:
        raise HarnessError(*_error_lines(content, f"{server}: status {status}"))
    return content


def _error_lines(content: Mapping[str, Any], otherwise: str) -> list[str]:
    given = content.get("errors")
    return [str(line) for line in given] if isinstance(given, list) and given else [otherwise]
