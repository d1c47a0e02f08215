"""Limits and headers of all requests: rates, sizes, slow clients, allowed hosts, security headers."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
