from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from fetch_tools import COMMIT, FOLDER, error_of, isolate, kept, member, mirrored_archive, pack, sha

from harness.io import archives
from harness.sources import cache, fetch, resource
from harness.sources.fetch import fetch_resources, resource_state
from harness.sources.resource import RepositoryFolder

FILES = {"a.html": b"first", "sub/b.html": b"second" * 5000, "ä.html": b""}
PLACE = f"folders/{FOLDER}/data/in"


def digest(files: dict[str, bytes]) -> str:
    listed = sorted(f"{path}\0".encode() + sha(content).encode() + b"\n" for path, content in files.items())
    return hashlib.sha256(b"".join(listed)).hexdigest()


WANTED = RepositoryFolder("owner/name", COMMIT, "data/in", len(FILES), digest(FILES), "MIT")
MEMBERS = {f"data/in/{path}": content for path, content in FILES.items()} | {
    "data/index.html": b"",
    "data/in.html": b"x",
}
ALL = sorted(f"{PLACE}/{path}" for path in FILES)


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return mirrored_archive(tmp_path, monkeypatch)


def failure(folder: RepositoryFolder = WANTED) -> str:
    return error_of(lambda: fetch_resources([folder]))


def test_a_folder_of_the_mirror(archive: Path) -> None:
    assert resource_state(WANTED) == "fetchable"
    pack(archive, MEMBERS)
    assert resource_state(WANTED) == "here"
    said: list[str] = []
    assert fetch_resources([WANTED, WANTED], progress=said.append) == [WANTED.cached] * 2
    assert said == [f"unpacking {archive}"]
    assert kept() == ALL
    assert {path: (WANTED.cached / path).read_bytes() for path in FILES} == FILES
    archive.unlink()
    assert resource_state(WANTED) == "here"
    cache.VERIFIED.clear()
    assert fetch_resources([WANTED]) == [WANTED.cached]


def test_files_and_folders_together(archive: Path) -> None:
    pack(archive, MEMBERS)
    file = resource.Resource("owner/name", COMMIT, "data/in/a.html", sha(b"first"))
    assert fetch_resources([WANTED, file]) == [WANTED.cached, file.cached]
    assert kept() == [*ALL, f"{FOLDER}/data/in/a.html"]


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"data/in/a.html": b"other"}, None),
        ({"data/in/a.html": None}, None),
        ({"data/in/more": b""}, "more"),
        ({"data/in/a.html": None, "data/in/A.html": b"first"}, None),
    ],
)
def test_another_content_is_refused(archive: Path, changed: dict[str, bytes | None], found: str | None) -> None:
    members = {path: content for path, content in (MEMBERS | changed).items() if content is not None}
    pack(archive, members)
    inside = {path.removeprefix("data/in/"): c for path, c in members.items() if path.startswith("data/in/")}
    expected = f"{len(FILES)} files" + ("" if found else f" with sha256 {WANTED.sha256}")
    found = found or f"{len(inside)} files with sha256 {digest(inside)}"
    name = "owner/name@0123456/data/in/"
    assert failure() == f"{name}: expected {expected}, found {found} in {archive}; nothing was kept"
    assert kept() == []


PREFIX = f"name-{COMMIT}/data/in"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (member(f"{PREFIX}/../../x"), f"member '{PREFIX}/../../x' leads out of the archive's folder"),
        (member(f"{PREFIX}/l", b"", tarfile.SYMTYPE, "/etc/passwd"), f"member '{PREFIX}/l' is not a regular file"),
        (member("bomb", bytes(50_000)), "member 'bomb' reaches beyond the 40000 bytes an archive may have"),
    ],
)
def test_malicious_members(
    archive: Path, monkeypatch: pytest.MonkeyPatch, bad: tuple[tarfile.TarInfo, bytes], reason: str
) -> None:
    monkeypatch.setattr(archives, "MAX_ARCHIVE", 40_000)
    pack(archive, MEMBERS, bad)
    assert failure() == f"{archive}: {reason}"
    assert kept() == []


def test_a_member_that_comes_twice(archive: Path) -> None:
    pack(archive, MEMBERS, member(f"{PREFIX}/a.html", b"first"))
    assert failure(replace(WANTED, files=9)).endswith("a.html: cannot be written: File exists")
    assert kept() == []


@pytest.mark.parametrize("damage", ["change", "remove", "add"])
def test_a_damaged_cache_is_mended(archive: Path, damage: str) -> None:
    pack(archive, MEMBERS)
    fetch_resources([WANTED])
    cache.VERIFIED.clear()
    file = WANTED.cached / ("more.html" if damage == "add" else "a.html")
    if damage == "remove":
        file.unlink()
    else:
        file.write_bytes(b"other")
    said: list[str] = []
    fetch_resources([WANTED], progress=said.append)
    assert said[0].startswith("owner/name@0123456/data/in/: the cached folder was damaged (sha256 ")
    assert kept() == ALL
    assert (WANTED.cached / "a.html").read_bytes() == b"first"


def test_a_folder_is_hashed_once_a_process(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(archive, MEMBERS)
    fetch_resources([WANTED])
    hashed: list[Path] = []

    def counting(path: Path) -> str:
        hashed.append(path)
        return sha(path.read_bytes())

    monkeypatch.setattr(fetch, "sha256_file", counting)
    fetch_resources([WANTED])
    assert hashed == []
    cache.VERIFIED.clear()
    fetch_resources([WANTED])
    fetch_resources([WANTED])
    assert len(hashed) == len(FILES)


def test_a_full_disk(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(archive, MEMBERS)
    real = Path.open

    def full(path: Path, mode: str = "r", **more: object) -> object:
        if mode == "ab":
            raise OSError(28, "No space left on device")
        return real(path, mode, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", full)
    assert failure().endswith("cannot be written: No space left on device")
    monkeypatch.undo()


# --- over the network ---


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """A host of archives on this machine: path -> body."""
    bodies: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = bodies.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None: ...

    host = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=host.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("HARNESS_ARCHIVE_BASE", f"http://127.0.0.1:{host.server_port}/")
    yield bodies
    host.shutdown()
    host.server_close()


ADDRESS = f"/owner/name/tar.gz/{COMMIT}"


def packed(files: dict[str, bytes] = MEMBERS) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for path, content in files.items():
            info, _ = member(f"name-{COMMIT}/{path}", content)
            tar.addfile(info, io.BytesIO(content))
    return gzip.compress(stream.getvalue())


def test_a_folder_is_downloaded_with_its_archive(server: dict[str, bytes]) -> None:
    server[ADDRESS] = packed()
    said: list[str] = []
    assert fetch_resources([WANTED], progress=said.append) == [WANTED.cached]
    assert said == [f"downloading {os.environ['HARNESS_ARCHIVE_BASE'].rstrip('/')}{ADDRESS}"]
    assert kept() == ALL


def test_the_host_of_archives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_ARCHIVE_BASE", raising=False)
    assert WANTED.address == f"https://codeload.github.com/owner/name/tar.gz/{COMMIT}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [packed()[:-30], packed()[:200], b"", b"<html>no archive</html>", gzip.compress(b"no tar")],
    ids=["without its end", "cut short", "empty", "a page", "no tar"],
)
def test_a_download_that_is_no_archive(server: dict[str, bytes], body: bytes) -> None:
    server[ADDRESS] = body
    failure()
    assert kept() == []
    server[ADDRESS] = packed()
    fetch_resources([WANTED])
    assert kept() == ALL


def test_an_archive_that_is_not_there(server: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    base = os.environ["HARNESS_ARCHIVE_BASE"].rstrip("/")
    holder = f"{FOLDER}.tar.xz"
    rest = (
        f"; not in the cache, HARNESS_MIRROR is not set; set HARNESS_MIRROR to a folder with {holder}, "
        f"or put the folder (sha256 {WANTED.sha256}) at {WANTED.cached}"
    )
    name = "owner/name@0123456/data/in/"
    assert failure() == f"{name}: HTTP status 404 from {base}{ADDRESS}{rest}"
    monkeypatch.setenv("HARNESS_OFFLINE", "1")
    assert failure() == f"{name}: HARNESS_OFFLINE forbids the network{rest}"
