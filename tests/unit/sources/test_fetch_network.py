from __future__ import annotations

import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from fetch_tools import (
    COMMIT,
    FOLDER,
    NAME,
    ONLY,
    SIZE,
    TEXT,
    failure,
    isolate,
    kept,
    mirrored_archive,
    pack,
    put,
    resource,
    sha,
    unavailable,
    wrong,
)

from harness.sources import cache, network
from harness.sources.fetch import fetch_one, fetch_resources, resource_state
from harness.sources.resource import Resource


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return mirrored_archive(tmp_path, monkeypatch)


# --- the network ---


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Range")))
        with suppress(ConnectionError):
            self.server.steps[min(len(self.server.asked), len(self.server.steps)) - 1](self)

    def log_message(self, *_: object) -> None: ...

    def send(self, status: int, body: bytes = b"", length: int | None = -1, headers: tuple[str, ...] = ()) -> None:
        """An answer whose Content-Length is that of the body (-1), another one, or absent (None)."""
        self.send_response(status)
        for name, _, value in (header.partition(": ") for header in headers):
            self.send_header(name, value)
        if length is not None:
            self.send_header("Content-Length", str(len(body) if length < 0 else length))
        self.end_headers()
        self.wfile.write(body)
        self.server.sent += len(body)


Step = Callable[[Handler], object]


class Server(ThreadingHTTPServer):
    """Answers the n-th request with the n-th step, and all later ones with the last."""

    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.steps: list[Step] = []
        self.asked: list[tuple[str, str | None]] = []  # path and range
        self.sent = 0
        self.over = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.address = f"{self.url}/owner/name/{COMMIT}/data/a.txt"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setenv("HARNESS_RAW_BASE", made.url + "/")
        yield made
        made.over.set()
        made.shutdown()
        thread.join()


def whole(request: Handler) -> None:
    """The whole file, whatever range was asked for."""
    request.send(200, TEXT)


def ranged(stop: int = SIZE, stall: bool = False) -> Step:
    """The range asked for; the connection ends, or hangs, before byte `stop` of the file."""

    def step(request: Handler) -> None:
        asked = request.headers.get("Range")
        start = int(asked[6:-1]) if asked else 0
        headers = (f"Content-Range: bytes {start}-{SIZE - 1}/{SIZE}",) if asked else ()
        request.send(206 if asked else 200, TEXT[start:stop], SIZE - start, headers)
        if stall:
            request.server.over.wait(5)

    return step


def answer(status: int, *headers: str) -> Step:
    return lambda request: request.send(status, b"an error page", headers=headers)


def hang_up(request: Handler) -> None:
    """Close the connection without a word."""


def cut_chunk(request: Handler) -> None:
    request.protocol_version = "HTTP/1.1"
    body = b"%x\r\n%s\r\n7\r\n%s" % (30_000, TEXT[:30_000], TEXT[30_000:30_004])
    request.send(200, body, None, ("Transfer-Encoding: chunked",))
    request.close_connection = True


HALF = ranged(30_000)


@pytest.mark.parametrize(
    ("steps", "ranges"),
    [
        ([whole], [None]),
        ([lambda r: r.send(200, TEXT, None)], [None]),  # no Content-Length
        ([HALF, ranged(50_000), ranged()], [None, 30_000, 50_000]),
        ([cut_chunk, ranged()], [None, 30_004]),
        ([HALF, whole], [None, 30_000]),  # ignores ranges
        ([HALF, answer(416), whole], [None, 30_000, None]),
        ([HALF, answer(206), whole], [None, 30_000, None]),
        ([HALF, answer(206, "Content-Range: bytes 7-19/20"), whole], [None, 30_000, None]),
        ([HALF, answer(302, "Location: /b"), ranged()], [None, 30_000, 30_000]),
        ([hang_up, HALF, answer(500), ranged()], [None, None, 30_000, 30_000]),
        *(([answer(code), answer(code), whole], [None] * 3) for code in (500, 502, 503, 504, 408, 429)),
        *(([answer(code, "Location: /b?x=1"), whole], [None] * 2) for code in (301, 302, 303, 307, 308)),
    ],
)
@pytest.mark.parametrize("size", [0, SIZE])
def test_downloads(server: Server, steps: list[Step], ranges: list[int | None], size: int) -> None:
    server.steps = steps
    assert fetch_one(resource(size=size)).read_bytes() == TEXT
    assert [asked for _, asked in server.asked] == [start and f"bytes={start}-" for start in ranges]
    assert kept() == ONLY
    fetch_one(resource())
    assert len(server.asked) == len(ranges)


@pytest.mark.parametrize(
    ("step", "reason", "asked"),
    [
        *((answer(code), f"HTTP status {code} from {{}}", 1) for code in (400, 401, 403, 404, 410, 416, 204, 304)),
        (answer(500), "HTTP status 500 (4 tries of {})", 4),
        (hang_up, "Remote end closed connection without response (4 tries of {})", 4),
        (lambda r: r.server.over.wait(5), "nothing came for 0.4 s (4 tries of {})", 4),
        (answer(302, "Location: /again"), "more than 5 redirects from {}", 6),
        (answer(302, "Location: http://[x/"), "Invalid IPv6 URL (4 tries of {})", 4),
        *(
            (answer(301, f"Location: {to}"), f"refused to load {to!r} for {{}}", 1)
            for to in ("file:///etc/passwd", "ftp://127.0.0.1/x", "data:,x", "http://127.0.0.1/a b")
        ),
    ],
)
def test_downloads_that_fail(server: Server, step: Step, reason: str, asked: int) -> None:
    server.steps = [step]
    assert failure(resource(), timeout=0.4 if "0.4 s" in reason else 5) == unavailable(reason.format(server.address))
    assert len(server.asked) == asked
    assert kept() == []


@pytest.mark.slow
def test_a_stall_is_resumed(server: Server) -> None:
    server.steps = [ranged(30_000, stall=True), ranged()]
    assert fetch_one(resource(), timeout=2).read_bytes() == TEXT
    assert [asked for _, asked in server.asked] == [None, "bytes=30000-"]


def test_a_declared_size_tells_a_truncated_answer_of_unannounced_length(server: Server) -> None:
    server.steps = [lambda request: request.send(200, TEXT[:30_000], None), ranged()]
    assert fetch_one(resource(size=SIZE)).read_bytes() == TEXT
    assert [asked for _, asked in server.asked] == [None, "bytes=30000-"]


def test_resuming_loads_only_what_is_missing(server: Server) -> None:
    server.steps = [HALF]
    assert failure(resource()) == unavailable(f"cut short after 30000 of {SIZE} bytes (4 tries of {server.address})")
    assert kept() == [f"{FOLDER}/data/.{sha(TEXT)}.part"]
    assert not resource().cached.exists()
    server.steps, server.asked = [ranged()], []
    assert fetch_one(resource()).read_bytes() == TEXT
    assert server.asked == [(f"/owner/name/{COMMIT}/data/a.txt", "bytes=30000-")]
    assert server.sent == SIZE
    assert kept() == ONLY


def test_a_complete_part_needs_no_request(server: Server) -> None:
    put(resource().cached.parent / f".{sha(TEXT)}.part", TEXT)
    assert fetch_one(resource(size=SIZE)).read_bytes() == TEXT
    assert server.asked == []
    assert kept() == ONLY


def test_wrong_bytes_are_not_kept(server: Server) -> None:
    server.steps = [lambda request: request.send(200, b"other")]
    assert failure(resource()) == wrong(b"other", server.address)
    assert (len(server.asked), kept()) == (1, [])
    put(resource().cached.parent / f".{sha(TEXT)}.part", b"<html>")
    server.steps = [ranged()]
    assert failure(resource()) == wrong(b"<html>" + TEXT[6:], server.address)
    assert kept() == []
    assert fetch_one(resource()).read_bytes() == TEXT


@pytest.mark.parametrize(("size", "limit"), [(500, 500), (0, 1000)])
@pytest.mark.parametrize("length", [SIZE * 200, None])
def test_too_many_bytes(
    server: Server, monkeypatch: pytest.MonkeyPatch, size: int, limit: int, length: int | None
) -> None:
    monkeypatch.setattr(cache, "MAX_FILE", 1000)
    monkeypatch.setattr(cache, "CHUNK", 100)
    # More than the buffers of a socket hold, so that sending it all means that all was read.
    server.steps = [lambda request: request.send(200, TEXT * 200, length)]
    before, _, after = failure(resource(size=size)).partition(", found ")
    found, _, source = after.partition(" in ")
    assert before == f"{NAME}: expected at most {limit} bytes"
    assert source == f"{server.address}; nothing was kept"
    # What is announced is refused at once, what is not after one piece too many.
    assert int(found) == length if length else limit < int(found) <= limit + 100
    assert (server.sent, kept()) == (0, [])


def test_the_pause_grows(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    monkeypatch.setattr(network, "PAUSE", 0.5)
    server.steps = [answer(500)]
    failure(resource())
    assert pauses == [0.5, 1.0, 2.0]


def test_addresses(server: Server, archive: Path) -> None:
    pack(archive, {"packed": b"packed"})
    server.steps = [whole]
    said: list[str] = []
    plain = Resource("", "", "sets/a.gz", sha(TEXT), url=f"{server.url}/x?y=1")
    wanted = [resource("a b/č#?.txt"), resource("packed", b"packed"), plain, resource("z", url=f"{server.url}/release")]
    assert [resource_state(w) for w in wanted] == ["here", "here", "fetchable", "here"]
    fetch_resources(wanted, progress=said.append)
    quoted = f"/owner/name/{COMMIT}/a%20b/%C4%8D%23%3F.txt"
    assert [path for path, _ in server.asked] == ["/x?y=1", quoted, "/release"]
    assert said == [f"unpacking {archive}", *(f"downloading {server.url}{path}" for path, _ in server.asked)]
    assert kept() == ["files/sets/a.gz", *(f"{FOLDER}/{path}" for path in ("a b/č#?.txt", "packed", "z"))]


def test_a_block_without_downloads_says_why(server: Server) -> None:
    server.steps = [whole]
    with network.without_downloads("a dry run downloads nothing"):
        assert failure(resource()) == unavailable("a dry run downloads nothing")
    assert (server.asked, kept()) == ([], [])
    assert fetch_one(resource()).read_bytes() == TEXT


def test_offline_forbids_the_network(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.steps = [whole]
    monkeypatch.setenv("HARNESS_OFFLINE", "1")
    assert failure(resource()) == unavailable("HARNESS_OFFLINE forbids the network")
    assert (server.asked, kept()) == ([], [])
    for path, off in (("a", "0"), ("b", "")):
        monkeypatch.setenv("HARNESS_OFFLINE", off)
        assert fetch_one(resource(path)).read_bytes() == TEXT


def test_a_redirect_from_https_to_http_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def moved(_: object, request: urllib.request.Request, timeout: float) -> SimpleNamespace:
        opened.append(request.full_url)
        return SimpleNamespace(status=302, headers={"Location": "http://e.org/y"}, close=lambda: None)

    monkeypatch.setattr("urllib.request.OpenerDirector.open", moved)
    wanted = resource(url="https://e.org/x")
    assert failure(wanted) == unavailable("refused to load 'http://e.org/y' for https://e.org/x")
    assert opened == ["https://e.org/x"]


# --- several at once ---


def slowly(request: Handler) -> None:
    request.send(200, TEXT[:10_000], SIZE)
    for start in range(10_000, SIZE, 10_000):
        request.server.over.wait(0.02)
        request.wfile.write(TEXT[start : start + 10_000])


def test_threads_that_want_the_same_files(server: Server, archive: Path) -> None:
    contents = {f"{i}": b"%d" % i * 1000 for i in range(20)}
    pack(archive, contents)
    server.steps = [slowly]
    wanted = [*(resource(path, content) for path, content in contents.items()), resource()]
    got: list[list[bytes]] = []
    threads = [
        threading.Thread(target=lambda: got.append([p.read_bytes() for p in fetch_resources(wanted)])) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [[*contents.values(), TEXT]] * 4
    assert len(server.asked) == 1
    assert kept() == sorted([f"{FOLDER}/{path}" for path in contents] + ONLY)


@pytest.mark.usefixtures("at_once")
def test_who_waits_is_told(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.steps = [HALF, ranged()]
    fetch_resources([resource(size=SIZE)])
    said = capsys.readouterr()
    whole, rest = f"{SIZE / 1e6:.1f}", f"{(SIZE - 30_000) / 1e6:.1f}"
    assert f"downloading {NAME}: 0.0 of {whole} MB, " in said.err
    assert f"downloading {NAME}: {rest} of {rest} MB in " in said.err
    assert f"checking {NAME}: {whole} of {whole} MB in " in said.err
    assert said.out == ""
