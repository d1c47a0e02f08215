"""Client of a lab's server: uploads a run and waits until it is scored.

An upload has an idempotency key, so that it can be sent again after a lost connection without being submitted twice.
"""

from __future__ import annotations

import http.client
import json
import re
import secrets
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from harness.data.archives import files_in
from harness.errors import HarnessError, reason_of
from harness.experiments.tira import metadata_file
from harness.io.checks import typed
from harness.io.compression import open_uncompressed
from harness.labs.addresses import is_address, server_of
from harness.labs.board import Leaderboard, leaderboard_from_json
from harness.labs.receipts import Shown
from harness.labs.submit import Offer
from harness.version import __version__

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
        raise HarnessError(
            *(re.sub(rf"^{re.escape(str(answer.get('file')))}(?=:)", str(offer.run), line) for line in lines)
        )
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


class _Form:
    """A multipart form, read from the files as it is sent; each iteration begins again."""

    def __init__(self, offer: Offer) -> None:
        self._mark = f"run-{secrets.token_hex(16)}"
        self.kind = f"multipart/form-data; boundary={self._mark}"
        texts = {
            each.name: getattr(offer, each.name)
            for each in fields(Offer)
            if each.name not in ("run", "team", "primary")
        }
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
    for last in range(TRIES):
        try:
            status, data = _send_request(server, token, method, path, body, headers or {})
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, ssl.SSLError) or last + 1 == TRIES:
                raise HarnessError(f"{server}: cannot be reached: {reason_of(error)}") from None
        else:
            if status not in (429, 502, 503, 504) or last + 1 == TRIES:
                return _parse_answer(server, status, data)
        time.sleep(min(2.0**last, 8.0))
    raise AssertionError


def _send_request(
    server: str, token: str, method: str, path: str, body: _Form | bytes | None, headers: Mapping[str, str]
) -> tuple[int, bytes]:
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
        answer = connection.getresponse()
        return answer.status, answer.read(_MOST_ANSWER)
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
