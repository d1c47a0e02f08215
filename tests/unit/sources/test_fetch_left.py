"""What killed fetches leave behind, and that nothing is taken from one that lives."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fetch_tools import FOLDER, TEXT, isolate, kept, pack

from harness.store.artefacts import collect

COPY = """
import sys, time
from harness.sources import cache
from harness.sources.resource import Resource
class Slow:
    def __init__(self): self.sent = 0
    def read(self, size):
        self.sent += 1
        if self.sent == 2:
            print("half", flush=True)
            time.sleep(60)
        return b"x" * 10
cache.put(Resource("owner/name", "0123456789abcdef0123456789abcdef01234567", "data/a.txt", "0" * 64), Slow(), "here")
"""
DOWNLOAD = """
from harness.sources.fetch import Resource, fetch_one
commit = "0123456789abcdef0123456789abcdef01234567"
fetch_one(Resource("owner/name", commit, "data/a.txt", "0" * 64))
"""


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


def started(program: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    if process.stdout is not None:
        process.stdout.close()


def files() -> list[str]:
    """All files in the cache but locks."""
    return [name for name in kept() if not name.endswith(".lock")]


def test_what_a_killed_copy_leaves_is_deleted_and_a_living_one_is_let_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_MIRROR", str(tmp_path / "mirror"))
    archive = tmp_path / "mirror" / f"{FOLDER}.tar.xz"
    archive.parent.mkdir(parents=True)
    pack(archive, {"data/a.txt": TEXT})
    process = started(COPY)
    assert process.stdout is not None
    assert process.stdout.readline() == "half\n"
    (left,) = files()
    assert ".staged" in left
    collect(days=0)
    assert files() == [left]
    kill(process)
    collect(days=30)
    assert kept() == []
    assert not [path for path in Path(os.environ["HARNESS_CACHE"]).rglob("*") if ".staged" in path.name]


def test_what_a_killed_download_leaves_is_kept_for_the_next_one_and_then_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("HARNESS_RAW_BASE", f"http://127.0.0.1:{server.getsockname()[1]}")
        process = started(DOWNLOAD)
        connection, _ = server.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 5000)
            until = time.monotonic() + 30
            while not files() and time.monotonic() < until:
                time.sleep(0.01)
            (left,) = files()
            assert left.endswith(f".{'0' * 64}.part")
            collect(days=0)
            assert files() == [left]  # its process lives
            kill(process)
    collect(days=1)
    assert kept() == [left]
    part = Path(os.environ["HARNESS_CACHE"], left)
    os.utime(part, (time.time() - 2 * 86400,) * 2)
    collect(days=1)
    assert kept() == []


def test_files_of_like_names_and_files_of_the_cache_stay() -> None:
    cache = Path(os.environ["HARNESS_CACHE"])
    names = ("a.tmp", ".tmp", ".part", ".0123.tmp", f".{'g' * 16}.tmp", f".{'0' * 16}.tmp.txt", f"{'0' * 64}.part")
    for name in names:
        (cache / "files").mkdir(parents=True, exist_ok=True)
        (cache / "files" / name).write_text("x")
    collect(days=0)
    assert kept() == sorted(f"files/{name}" for name in names)
