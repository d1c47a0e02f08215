"""What the tests of fetching share: a small file, where it belongs, and the messages it gives rise to."""

from __future__ import annotations

import hashlib
import io
import os
import socket
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.sources import cache, network
from harness.sources.fetch import fetch_one
from harness.sources.resource import Resource

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FOLDER = f"github.com/owner/name/{COMMIT}"
TEXT = b"".join(b"line %d of a small file\n" % i for i in range(4000))
SIZE = len(TEXT)
NAME = "owner/name@0123456/data/a.txt"


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def resource(path: str = "data/a.txt", content: bytes = TEXT, size: int = 0, url: str = "") -> Resource:
    return Resource("owner/name", COMMIT, path, sha(content), size, "MIT", url)


def isolate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, no mirror, and a network where nobody answers."""
    for name in os.environ:
        if name.startswith("HARNESS_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HARNESS_RAW_BASE", f"http://127.0.0.1:{unused.getsockname()[1]}")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(network, "PAUSE", 0.001)
    monkeypatch.setattr(cache, "VERIFIED", set())


def mirrored_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the mirror has its archive; there is none yet."""
    monkeypatch.setenv("HARNESS_MIRROR", str(tmp_path / "mirror"))
    path = tmp_path / "mirror" / f"{FOLDER}.tar.xz"
    path.parent.mkdir(parents=True)
    return path


def member(
    name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, target: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(content), kind, target
    return info, content


def pack(archive: Path, files: dict[str, bytes], *odd: tuple[tarfile.TarInfo, bytes], commit: str = COMMIT) -> None:
    """Fill a mirror's archive; `odd` members (links, devices, bad names) come first."""
    with tarfile.open(archive, "w:xz") as tar:
        for info, content in [*odd, *(member(f"name-{commit}/{path}", content) for path, content in files.items())]:
            tar.addfile(info, io.BytesIO(content))


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def kept() -> list[str]:
    """All files in the cache, hidden and temporary ones too."""
    cache = Path(os.environ["HARNESS_CACHE"])
    return sorted(str(p.relative_to(cache)) for p in cache.rglob("*") if p.is_symlink() or not p.is_dir())


ONLY = [f"{FOLDER}/data/a.txt"]


def error_of(call: Callable[[], object]) -> str:
    with pytest.raises(HarnessError) as caught:
        call()
    assert not any("\n" in line for line in caught.value.lines)
    return ", ".join(caught.value.lines)  # two where one would be too long to be shown


def failure(wanted: Resource, timeout: float = 5) -> str:
    return error_of(lambda: fetch_one(wanted, timeout=timeout))


def unavailable(reason: str, wanted: Resource | None = None, looked: str = "HARNESS_MIRROR is not set") -> str:
    wanted = wanted or resource()
    holder = f"{FOLDER}.tar.xz" if wanted.repository else wanted.path
    return (
        f"{wanted.name}: {reason}; not in the cache, {looked}; set HARNESS_MIRROR to a folder with {holder}, "
        f"or put the file (sha256 {wanted.sha256}) at {wanted.cached}"
    )


def wrong(found: bytes, source: object, after: str = "nothing was kept") -> str:
    return f"{NAME}: expected sha256 {sha(TEXT)}, found {sha(found)} in {source}; {after}"
