"""Downloads with resumption, retries and time-outs."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from harness.errors import os_errors, reason_of
from harness.io import console
from harness.io.locks import fetching
from harness.sources import cache
from harness.sources.cache import Progress, is_cached, mismatch, put, unavailable
from harness.sources.resource import RAW_BASE, URL, RepositoryFolder, Resource
from harness.version import __version__

if TYPE_CHECKING:
    from http.client import HTTPResponse

TRIES = 4
PAUSE = 0.5  # seconds before the second try; doubles from then on
MAX_REDIRECTS = 5
_REASONS: list[str] = []  # reasons of the active blocks that forbid downloads


def download_address() -> str:
    """Returns HOST:PORT for downloads from repositories: that of the server, or of its proxy."""
    from urllib.parse import urlsplit
    from urllib.request import getproxies, proxy_bypass

    base = urlsplit(os.environ.get("HARNESS_RAW_BASE") or RAW_BASE)
    proxy = getproxies().get(base.scheme)
    if proxy and not proxy_bypass(base.hostname or ""):
        base = urlsplit(proxy if "//" in proxy else f"http://{proxy}")
    place = base.netloc.rpartition("@")[2]  # without a password
    return place if re.search(r":\w+$", place) else f"{place}:{443 if base.scheme == 'https' else 80}"


def reachable(timeout: float = 5.0) -> bool:
    """Returns whether the network (or the proxy that downloads go through) answers within `timeout` seconds."""
    import socket

    if offline():
        return False
    try:
        host, _, port = download_address().rpartition(":")
        with socket.create_connection((host.strip("[]"), int(port)), timeout):
            return True
    except (OSError, ValueError):
        return False


@contextmanager
def without_downloads(reason: str) -> Iterator[None]:
    """Forbids downloads inside the block; attempts raise an error with the reason."""
    _REASONS.append(reason)
    try:
        yield
    finally:
        _REASONS.pop()


def forbidden() -> str:
    """Returns the reason why downloads are forbidden, or ""."""
    if os.environ.get("HARNESS_OFFLINE", "0") not in ("", "0"):
        return "HARNESS_OFFLINE forbids the network"
    return _REASONS[-1] if _REASONS else ""


def offline() -> bool:
    """Returns whether downloads are forbidden."""
    return bool(forbidden())


def download(resource: Resource, say: Progress, timeout: float) -> None:
    """Downloads to a part file next to the target, resuming an earlier attempt; then verifies and renames it."""
    if resource.by_hand:
        raise unavailable(resource, f"must be downloaded manually: {reason_of(resource.by_hand)}")
    if reason := forbidden():
        raise unavailable(resource, reason)
    part = resource.cached.parent / f".{resource.sha256}.part"
    with os_errors(resource.cached, "written"):
        part.parent.mkdir(parents=True, exist_ok=True)
        with fetching(part.parent):
            # Another process may have finished the file while this one waited.
            if is_cached(resource, say):
                return
            say(f"downloading {resource.address}")
            completed(resource, part, timeout)
            with part.open("rb") as content:
                part.unlink()  # even if verification fails
                put(resource, content, resource.address)


def completed(resource: Resource | RepositoryFolder, part: Path, timeout: float) -> None:
    """Retries until the part file is complete; on failure, it keeps the received data for the next attempt."""
    from http.client import HTTPException
    from urllib.error import URLError

    reason = ""
    for attempt in range(1, TRIES + 1):
        try:
            return _receive(resource, part, timeout)
        except TimeoutError:
            reason = f"nothing came for {timeout:g} s"
        except URLError as error:
            raise unavailable(resource, f"no connection to {resource.address}: {reason_of(error.reason)}") from None
        except (OSError, HTTPException, ValueError) as error:
            reason = reason_of(error)
        if attempt < TRIES:
            time.sleep(PAUSE * 2 ** (attempt - 1))
    raise unavailable(resource, f"{reason} ({TRIES} tries of {resource.address})")


def _receive(resource: Resource | RepositoryFolder, part: Path, timeout: float) -> None:
    """Tries once: appends to the part file, or restarts it if the server cannot resume.

    Raises `OSError` where another try may succeed, `HarnessError` where none will.
    """
    have = part.stat().st_size if part.exists() else 0
    if have and have == resource.size:
        return
    with _open(resource, have, timeout) as response:
        start = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
        if have and (response.status == 416 or (response.status == 206 and (start is None or int(start[1]) != have))):
            part.unlink()
            raise ConnectionError(f"the server does not continue from byte {have}")
        if response.status >= 500 or response.status in (408, 429):
            raise ConnectionError(f"HTTP status {response.status}")
        if response.status not in (200, 206):
            raise unavailable(resource, f"HTTP status {response.status} from {resource.address}")
        have = have if response.status == 206 else 0
        total = resource.size if response.length is None else have + response.length
        left = (total - have) / 1e6 if total else None
        told = console.progress(f"downloading {resource.name}", left, " MB")
        with part.open("ab" if have else "wb") as stream, told as shown:
            # read1 returns received data at once, so that a stall loses none of it.
            while chunk := response.read1(cache.CHUNK):
                have += len(chunk)
                if max(have, total) > (limit := resource.size or cache.MAX_FILE):
                    part.unlink()
                    raise mismatch(resource, f"at most {limit} bytes", f"{max(have, total)}", resource.address)
                stream.write(chunk)
                shown.add(len(chunk) / 1e6)
    if have < total:
        raise ConnectionError(f"cut short after {have} of {total} bytes")


def _open(resource: Resource | RepositoryFolder, offset: int, timeout: float) -> HTTPResponse:
    """Returns the response (of any status) to a GET of the bytes from `offset` on, after redirects."""
    from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

    opener = OpenerDirector()  # with these handlers only: no files, no ftp, no redirects but those followed below
    for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler()):
        opener.add_handler(handler)
    headers = {"User-Agent": f"mathir-harness/{__version__}"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    url, secure = resource.address, False
    for _ in range(MAX_REDIRECTS + 1):
        if not URL.fullmatch(url) or (secure and url.startswith("http:")):
            raise unavailable(resource, f"refused to load {url!r} for {resource.address}")
        secure = url.startswith("https:")
        response: HTTPResponse = opener.open(Request(url, headers=headers), timeout=timeout)  # noqa: S310
        location = response.headers.get("Location")
        if location is None or not 300 < response.status < 400:
            return response
        response.close()
        url = urljoin(url, location)
    raise unavailable(resource, f"more than {MAX_REDIRECTS} redirects from {resource.address}")
