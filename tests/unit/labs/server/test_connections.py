"""Clients on real connections that are slow, many, or no HTTP at all: none keeps the server from the others."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import uvicorn
from guard_tools import without
from server_tools import FAST, Served, served

from harness.errors import HarnessError
from harness.io.files import data_root
from harness.labs.lab import new_lab
from harness.labs.remote import act_on, submit_to
from harness.labs.server.app import application
from harness.labs.server.guard import patient
from harness.labs.server.lab_snapshot import SITE
from harness.labs.submit import Offer

IDLE = 0.4  # seconds
ESTABLISHED = 1  # state of a connection in TCP_INFO
LONG = 20.0  # seconds that a busy machine may take
GET = b"GET %s HTTP/1.1\r\nhost: localhost\r\n%s\r\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Served:
    return served(new_lab(tmp_path_factory.mktemp("served") / "lab", {"title": "Lab", "collection": "mini-task1"}))


@contextmanager
def listening(site: Served, idle: float = IDLE, most: int = 8, trusted: str = "192.0.2.1") -> Iterator[int]:
    """Serves a lab from a thread; gives the port."""
    app = application(replace(site.service, settings=replace(FAST, idle=idle)))
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, http=patient(idle, most), ws="none", lifespan="off", log_config=None, forwarded_allow_ips=trusted
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.force_exit = server.should_exit = True
        thread.join(LONG)
        listener.close()


def ended(connection: socket.socket, wait: float, data: bytes = b"") -> bool:
    """Returns whether the server ends a connection, on which a byte is sent now and then."""
    until = time.monotonic() + wait
    while time.monotonic() < until:
        try:
            if select.select([connection], [], [], 0.05)[0] and not connection.recv(1 << 16):
                return True
            if data:
                connection.send(data)
        except OSError:
            return True
    return False


def silent(port: int, wait: float) -> bool:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        return ended(connection, wait)


def slow_headers(port: int, wait: float) -> bool:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.send(b"GET / HTTP/1.1\r\nx-long: ")
        return ended(connection, wait, b"a")


def slow_second_headers(port: int, wait: float) -> bool:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.send(GET % (b"/api/v1/lab", b""))
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        connection.send(b"GET / HTTP/1.1\r\nx-long: ")
        return ended(connection, wait, b"a")


def endless_body(port: int, wait: float) -> bool:
    """A body that nobody reads, as its answer is given."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.send(GET % (b"/api/v1/lab", b"content-length: 60000\r\n"))
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        return ended(connection, wait, b"a")


def takes_no_answer(port: int, wait: float) -> bool:
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
        connection.connect(("127.0.0.1", port))
        connection.send(GET % (b"/site/large.txt", b""))
        until = time.monotonic() + wait
        while time.monotonic() < until:  # the end shows in the state of the connection, as nothing is read
            if connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != ESTABLISHED:
                return True
            time.sleep(0.05)
        return False


@pytest.mark.parametrize(
    ("slow", "guard"),
    [
        (silent, 'return "ask", self._answers'),
        (slow_headers, 'return "ask", self._answers'),
        (slow_second_headers, 'return "ask", self._answers'),
        (endless_body, 'return "end", self._answers'),
        (takes_no_answer, 'return "take", self._resumed'),
    ],
)
def test_a_slow_client_is_ended(site: Served, slow: Callable[[int, float], bool], guard: str) -> None:
    large = site.service.state / SITE / "large.txt"
    large.parent.mkdir(exist_ok=True)
    if not large.exists():
        large.write_bytes(b"x" * (16 << 20))
    with listening(site) as port:
        assert slow(port, LONG)
    with without(patient, guard, "return None"), listening(site) as port:
        assert not slow(port, 4 * IDLE)


@pytest.mark.slow
def test_one_address_has_not_all_connections(site: Served) -> None:
    def refused(port: int) -> bool:
        with ExitStack() as stack:
            made = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(12)]
            return any(ended(each, 0.3) for each in made)

    with listening(site, idle=LONG) as port:
        assert refused(port)
    with listening(site, idle=LONG, trusted="127.0.0.1") as port:  # a reverse proxy
        assert not refused(port)


def exchange(port: int, data: bytes) -> bytes:
    """Sends bytes and returns all that comes back until the server ends the connection."""
    out = b""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(data)
        connection.settimeout(LONG)
        try:
            while part := connection.recv(1 << 16):
                out += part
        except ConnectionResetError:
            pass
    return out


def test_requests_that_proxies_read_otherwise_are_refused(site: Served) -> None:
    """Each would let a proxy in front see another number of requests than the server does."""
    second = GET % (b"/api/v1/smuggled", b"connection: close\r\n")
    post = b"POST /ask HTTP/1.1\r\nhost: localhost\r\n"
    bad = [
        post + b"content-length: 4\r\ncontent-length: 5\r\n\r\nabcd" + second,
        post + b"content-length: 4, 5\r\n\r\nabcd" + second,
        post + b"content-length: +4\r\n\r\nabcd" + second,
        post + b"content-length: 0x4\r\n\r\nabcd" + second,
        post + b"content-length : 4\r\n\r\nabcd" + second,
        post + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n" + second,
        post + b"transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n" + second,
        post + b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n" + second,
        post + b"transfer-encoding: chunked\r\n\r\n-1\r\n\r\n" + second,
        post + b"transfer-encoding: chunked\r\n\r\nzz\r\n\r\n" + second,
        b"GET / HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n\r\n" + second,
        b"GET / HTTP/1.1\r\n\r\n" + second,
        b"GET / HTTP/1.1\nhost: localhost\r\nx: a\x00b\r\n\r\n" + second,
        b"GET  / HTTP/1.1\r\nhost: localhost\r\n\r\n" + second,
        b"\x16\x03\x01\x02\x00\x01\x00" + second,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ]
    with listening(site, most=100) as port:
        for request in bad:
            answer = exchange(port, request)
            assert answer == b"" or answer.startswith(b"HTTP/1.1 400"), (request[:90], answer[:90])
            assert b"there is no such page" not in answer, request[:90]
        # Both lengths: that of the chunks counts, and the connection is not used again.
        both = post + b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + second
        assert b"there is no such page" not in exchange(port, both)
        # Targets and methods that mean something to proxies alone.
        odd = [b"CONNECT evil.example:80", b"GET http://evil.example/", b"OPTIONS *", b"TRACE /"]
        for line in (*odd, b"GET //evil.example/.."):
            answer = exchange(port, line + b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            assert answer[9:12] in (b"400", b"404", b"405"), (line, answer[:200])
        assert exchange(port, GET % (b"/api/v1/lab", b"connection: close\r\n")).startswith(b"HTTP/1.1 200")


def test_the_client_says_why_a_large_upload_is_refused(site: Served, tmp_path: Path) -> None:
    """Though the server answers before it has read all."""
    run = tmp_path / "large.run"
    run.write_bytes(b"M.1 Q0 a1 1 1 x\n" * 500_000)
    token = site.team("Large")
    with listening(site, idle=LONG, most=100) as port:
        server = f"http://127.0.0.1:{port}"
        with pytest.raises(HarnessError, match="the token is unknown or was revoked"):
            submit_to(server, "wrong", Offer(run, ""))
        with pytest.raises(HarnessError, match="has submitted nothing"):
            act_on(server, token, "withdraw", {"label": "x"})


def test_the_client_reads_the_receipt_of_a_lab_without_a_cap(
    site: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, run = site.team("Receipt"), tmp_path / "a.run"
    run.write_bytes((data_root() / "runs/mini/mini-task1/overlap.run").read_bytes())
    with listening(site, idle=LONG, most=100) as port:
        monkeypatch.setattr("time.sleep", lambda _: site.score())  # between two looks of the client
        receipt = submit_to(f"http://127.0.0.1:{port}", token, Offer(run, "", label="a"))
    assert (receipt.title, receipt.cap, receipt.rank) == ("Receipt / a", None, 1)
