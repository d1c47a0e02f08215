"""Limits of connections and requests: rates, sizes, slow clients, allowed hosts; and security headers."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import re
import socket
import struct
import time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from h11 import DONE, IDLE, SEND_BODY
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from harness.labs.server.service import ServerSettings

SMALL = 64 << 10  # bytes of a request's body, other than an upload
OVERHEAD = 4 << 20  # bytes of an upload besides the run: its metadata and the fields
API = "/api/"
UPLOADING = ("/submit", "/api/v1/submissions")
_MOST_KEYS = 100_000
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")

HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # `no-referrer` would hide the origin of forms from ourselves
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class RefusedRequestError(Exception):
    """A request is ended with a status and a line."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status, self.line = status, line

    def response(self, path: str) -> Response:
        """Returns the answer: JSON below the API, else text."""
        headers = {"retry-after": "60"} if self.status == 429 else {}
        if self.status in (400, 408):  # else `close` would cut off a client that still sends, before it has the answer
            headers["connection"] = "close"
        if path.startswith(API):
            return JSONResponse({"errors": [self.line]}, self.status, headers)
        return PlainTextResponse(f"{self.line}\n", self.status, headers)


@dataclass
class Rates:
    """Token buckets: `rate` per minute for each key, and as many at once. Not shared between processes."""

    clock: Callable[[], float] = time.monotonic
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)  # pages are answered in threads
    _pruned: float = 0.0

    def take(self, key: str, rate: int, cost: float = 1.0) -> bool:
        """Takes from the bucket of a key; returns False if it is empty. A cost of 0 only looks."""
        with self._lock:
            now = self.clock()
            left, before = self._buckets.get(key, (float(rate), now))
            left = min(float(rate), left + (now - before) * rate / 60)
            if left < max(cost, 1.0):
                return False
            # A bucket that nobody used for a minute is full. Seldom, since a flood from many addresses leaves none.
            if len(self._buckets) >= _MOST_KEYS and now - self._pruned > 10:
                self._pruned = now
                self._buckets = {key: bucket for key, bucket in self._buckets.items() if now - bucket[1] < 60}
            if cost:
                self._buckets[key] = (left - cost, now)
            return True


class RequestLimits:
    """Middleware: refuses what exceeds the limits, and adds the security headers to every answer."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, rates: Rates, hosts: frozenset[str]) -> None:
        self.app, self.settings, self.rates, self.hosts = app, settings, rates, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                _add_headers(message, scope["scheme"] == "https" or self.settings.secure)
            await send(message)

        try:
            self._check(scope)
            await self.app(scope, self._limited(scope, receive), sending)
        except RefusedRequestError as error:
            if not begun:
                await error.response(scope["path"])(scope, receive, sending)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        # A part such as `user@` or `/path` would become part of the links that are made from it.
        host = _HOST.fullmatch(headers.get("host", ""))
        if host is None or host[1].strip("[]").lower() not in self.hosts:
            raise RefusedRequestError(400, "host: is not the address of this server")
        if not self.rates.take(f"address {client_address(scope)}", self.settings.rate):
            raise RefusedRequestError(429, "too many requests; wait a minute")
        if "content-length" in headers and "transfer-encoding" in headers:  # a proxy may read another request there
            raise RefusedRequestError(400, "the request has two lengths")
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length[:20]) > self._most(scope):
            raise RefusedRequestError(413, f"the request is larger than {self._most(scope):,} bytes")

    def _most(self, scope: Scope) -> int:
        return self.settings.most_upload + OVERHEAD if scope["path"] in UPLOADING else SMALL

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        """Returns a `receive` that ends requests whose body is too large or comes too slowly."""
        most, begun, got, ended = self._most(scope), time.monotonic(), 0, False
        idle, least = self.settings.idle, self.settings.least_speed

        async def limited() -> Message:
            nonlocal got, ended
            if ended:  # the answer is being made; what comes now is that the client left
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), idle)
            except TimeoutError:
                raise RefusedRequestError(408, f"nothing was received for {idle:g} s") from None
            got += len(message.get("body", b""))
            ended = not message.get("more_body", False)
            if got > most:
                raise RefusedRequestError(413, f"the request is larger than {most:,} bytes")
            beyond = time.monotonic() - begun - idle
            if not ended and beyond > 0 and got < beyond * least:
                raise RefusedRequestError(408, f"the request comes at less than {least:,} bytes a second")
            return message

        return limited


def _add_headers(message: MutableMapping[str, Any], secure: bool) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in HEADERS.items():
        headers.setdefault(name, value)
    headers.setdefault("content-security-policy", "default-src 'none'; frame-ancestors 'none'")
    headers.setdefault("cache-control", "no-store")
    if secure:
        headers.setdefault("strict-transport-security", "max-age=31536000")


def client_address(scope: Scope) -> str:
    """Returns the address of the client, or of the proxy's client if uvicorn trusts the proxy; of IPv6 the network.

    Examples
    --------
    >>> [client_address(each) for each in ({"client": ("192.0.2.1", 1)}, {"client": ("2001:db8:1:2:3::4", 1)}, {})]
    ['192.0.2.1', '2001:db8:1:2::/64', 'unknown']
    """
    client = scope.get("client")
    if not client:
        return "unknown"
    try:
        address = ipaddress.ip_address(client[0])
    except ValueError:
        return str(client[0])[:100]
    if address.version == 4 or (address.version == 6 and address.ipv4_mapped):
        return str(address if address.version == 4 else address.ipv4_mapped)
    # Who has one address of IPv6 has all of its network.
    return str(ipaddress.ip_network((address, 64), strict=False))


def same_origin(request: Request) -> bool:
    """Returns whether a browser sent a form from a page of this server; clients that are no browsers tell nothing."""
    if (site := request.headers.get("sec-fetch-site")) is not None:
        return site in ("same-origin", "none")
    if (origin := request.headers.get("origin")) is not None:
        return urlsplit(origin).netloc == request.headers.get("host")
    return True


MOST_OF_ADDRESS = 100  # open connections


def patient(idle: float, most: int = MOST_OF_ADDRESS) -> type[H11Protocol]:
    """Returns uvicorn's protocol with limits on what it waits for, each of which a client could draw out forever.

    A connection is ended when for `idle` seconds its client does not complete the headers of a request, goes on with a
    body that was refused or that nobody reads, or does not take the answer. The body of an upload has limits of its
    own, in `guard`.

    Parameters
    ----------
    most : open connections of one address; proxies that uvicorn trusts (`FORWARDED_ALLOW_IPS`, by default this machine)
        may have any number.
    """

    class Patient(H11Protocol):
        _look_again: asyncio.TimerHandle | None = None
        _owed: tuple[str, int] | None = None  # what the client owes us, and the number of answers or pauses before
        _since = 0.0
        _answers = 0
        _resumed = 0

        def connection_made(self, transport: Any) -> None:  # noqa: ANN401
            super().connection_made(transport)
            if self._crowded():
                transport.abort()
                return
            self._since = self.loop.time()
            self._look()

        def _crowded(self) -> bool:
            if self.client is None or _is_trusted(self.client[0], self.config.forwarded_allow_ips):
                return False
            clients: list[tuple[str, int] | None] = [getattr(each, "client", None) for each in self.connections]
            return len([each for each in clients if each is not None and each[0] == self.client[0]]) > most

        def _owes(self) -> tuple[str, int] | None:
            """Returns what the client must do next; None if it is the server's turn."""
            if self.transport.is_closing() or self.transport.get_write_buffer_size():
                return "take", self._resumed
            if self.conn.their_state is IDLE and (self._answers == 0 or self.conn.trailing_data[0]):
                return "ask", self._answers
            if self.conn.their_state is SEND_BODY and self.conn.our_state is DONE:
                return "end", self._answers
            return None

        def _look(self) -> None:
            now, owed = self.loop.time(), self._owes()
            if owed is None or owed != self._owed:
                self._owed, self._since = owed, now
            elif now - self._since >= idle:
                if owed[0] == "take":
                    self._drop()
                else:
                    self.transport.close()
            self._look_again = self.loop.call_later(idle / 4, self._look)

        def _drop(self) -> None:
            """Ends the connection with all that waits in it; `close` would wait until the client has taken the rest."""
            if (connection := self.transport.get_extra_info("socket")) is not None:
                # So that the system forgets the rest as well.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()

        def on_response_complete(self) -> None:
            self._answers += 1
            super().on_response_complete()

        def resume_writing(self) -> None:
            self._resumed += 1
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._look_again is not None:
                self._look_again.cancel()
            super().connection_lost(exc)

    return Patient


def _is_trusted(address: str, named: str | list[str] | None) -> bool:
    """Returns whether uvicorn trusts a proxy's address."""
    listed = os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1") if named is None else named
    for each in listed.split(",") if isinstance(listed, str) else listed:
        try:
            if each.strip() == "*" or ipaddress.ip_address(address) in ipaddress.ip_network(each.strip()):
                return True
        except ValueError:  # a name, such as that of a socket
            continue
    return False
