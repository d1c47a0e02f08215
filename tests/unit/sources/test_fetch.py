from __future__ import annotations

import logging
import lzma
import os
import random
import subprocess
import sys
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fetch_tools import (
    COMMIT,
    FOLDER,
    NAME,
    ONLY,
    TEXT,
    error_of,
    failure,
    isolate,
    kept,
    member,
    mirrored_archive,
    pack,
    put,
    resource,
    sha,
    unavailable,
    wrong,
)
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import HarnessError, printable_line
from harness.io import archives
from harness.sources import cache
from harness.sources import fetch as module
from harness.sources.fetch import fetch_one, fetch_resources, resource_state
from harness.sources.resource import Resource


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return mirrored_archive(tmp_path, monkeypatch)


# --- resources ---

CONFIG: dict[str, Any] = {
    "repository": "owner/name",
    "commit": COMMIT,
    "path": "a/b",
    "sha256": "0" * 64,
    "size": 7,
    "licence": "MIT",
}
SOURCE = "the source must be a repository, package, url or by_hand; url or by_hand may be of a repository"
FORMS: dict[str, tuple[str, list[object]]] = {
    "repository": ("owner/name", ["name", "../x", "x/..", "a/b/c"]),
    "commit": ("40 lower-case hex digits (empty without a repository)", ["0123456", "main", "", "A" * 40]),
    "sha256": ("64 lower-case hex digits", ["12", "", "A" * 64, "0" * 65]),
    "size": ("0 (unknown) or more", [-1]),
    "url": (
        "an http or https address, percent-encoded",
        ["ftp://e.org/a", "file:///etc/a", "https:///a", "https://e.org/a b", "https://e.org/\n", "a"],
    ),
    "path": (
        "relative, printable, without '.', '..' and empty parts",
        ["", "../x", "a/../../x", "/etc/passwd", "a//b", "a/", "./a", "..", "a\nb", "a\0b"],
    ),
}


def test_a_resource() -> None:
    assert Resource(**CONFIG).name == "owner/name@0123456/a/b"
    assert Resource("", "", "a.gz", "0" * 64, url="https://example.org:80/a.gz").name == "a.gz"
    assert Resource("", "", "a.zip", "", by_hand="ask").sha256 == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"path": None}, "path must be text (in quotes), got None"),
        ({"commit": 1234}, "commit must be text (in quotes), got 1234"),
        ({"size": "7"}, "size must be a whole number, got '7'"),
        ({"size": True}, "size must be a whole number, got True"),
        ({"url": "https://e.org/a", "by_hand": "ask"}, SOURCE),
        ({"repository": "", "commit": ""}, SOURCE),
        ({"repository": "", "url": "https://e.org"}, f"commit must be {FORMS['commit'][0]}, got {COMMIT!r}"),
        *(({k: bad}, f"{k} must be {form}, got {bad!r}") for k, (form, values) in FORMS.items() for bad in values),
    ],
)
def test_what_no_resource_can_be(change: dict[str, object], message: str) -> None:
    assert error_of(lambda: Resource(**{**CONFIG, **change})) == message


@given(st.text(st.sampled_from("./a\\~ \x00\n"), max_size=12))
def test_no_path_leads_out_of_the_cache(path: str) -> None:
    with suppress(HarnessError):
        inside = Path(os.path.normpath(resource(path).cached)).relative_to(Path(os.environ["HARNESS_CACHE"]) / FOLDER)
        assert inside.parts
        assert inside == Path(path)


def test_importing_loads_no_http_client() -> None:
    heavy = ["requests", "pooch", "http.client", "urllib.request", "numpy"]
    code = f"import sys, harness.sources.fetch; sys.exit(','.join(m for m in {heavy} if m in sys.modules) or 0)"
    root = Path(module.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# --- the mirror ---


def test_a_member_of_a_mirrored_archive(archive: Path) -> None:
    links = [(f"name-{COMMIT}/data", "/tmp"), ("x", "/etc/passwd"), ("y", "../../x")]
    unwanted = [member(name, b"", tarfile.SYMTYPE, target) for name, target in links]
    pack(archive, {"b": b"b", "data/a.txt": TEXT}, member("other/data/a.txt", b"no"), *unwanted)
    said: list[str] = []
    path = fetch_one(resource(), progress=said.append)
    assert path == Path(os.environ["HARNESS_CACHE"]) / FOLDER / "data" / "a.txt"
    assert path.read_bytes() == TEXT
    assert kept() == ONLY
    assert said == [f"unpacking {archive}"]
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


def test_many_members_unpack_an_archive_once(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = {f"d/{i}.txt": b"content %d" % i for i in range(60)}
    pack(archive, contents, member(f"./name-{COMMIT}/dotted", b"dotted"))
    again = COMMIT[::-1]
    pack(archive.parent / f"{again}.tar.xz", {"d/0.txt": b"another"}, commit=again)
    wanted = [resource(path, content) for path, content in contents.items()]
    wanted += [Resource("owner/name", again, "d/0.txt", sha(b"another")), wanted[3], resource("dotted", b"dotted")]
    random.Random(1).shuffle(wanted)
    opened: list[str] = []
    plain = archives.unpacked

    def counting(path: Path) -> object:
        opened.append(path.name)
        return plain(path)

    monkeypatch.setattr(archives, "unpacked", counting)
    paths = fetch_resources(wanted)
    assert sorted(opened) == sorted([f"{COMMIT}.tar.xz", f"{again}.tar.xz"])
    assert [sha(p.read_bytes()) for p in paths] == [w.sha256 for w in wanted]
    assert fetch_resources(iter(wanted)) == paths == [w.cached for w in wanted]
    assert len(opened) == 2
    assert fetch_resources([]) == []


def test_plain_files_in_the_mirror(archive: Path) -> None:
    unpacked = put(archive.parent / COMMIT / "data" / "a.txt", TEXT)
    put(archive.parents[3] / "derived" / "x.tsv", b"x")
    derived = Resource("", "", "derived/x.tsv", sha(b"x"), by_hand="run the script")
    assert [resource_state(resource()), resource_state(derived)] == ["here", "here"]
    assert [p.read_bytes() for p in fetch_resources([resource(), derived])] == [TEXT, b"x"]
    assert kept() == ["files/derived/x.tsv", *ONLY]
    resource().cached.unlink()
    unpacked.write_bytes(b"other")
    assert failure(resource()) == wrong(b"other", unpacked)
    assert kept() == ["files/derived/x.tsv"]


def test_a_missing_member(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(archive, {"data/a.txt": TEXT})
    lacking = resource("data/b.txt")
    monkeypatch.setenv("HARNESS_OFFLINE", "1")
    reason = unavailable("HARNESS_OFFLINE forbids the network", lacking, f"not in {archive}")
    assert error_of(lambda: fetch_resources([lacking, resource()])) == reason
    assert kept() == ONLY


def test_a_mirror_that_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_MIRROR", str(tmp_path / "none"))
    message = f"HARNESS_MIRROR: no such folder: {tmp_path / 'none'}"
    assert failure(resource()) == error_of(lambda: resource_state(resource())) == message


WANTED = f"name-{COMMIT}/data/a.txt"
LINKS = [(tarfile.SYMTYPE, "/etc/passwd"), (tarfile.SYMTYPE, "../b"), (tarfile.LNKTYPE, f"name-{COMMIT}/b")]
DEVICES = [(kind, "") for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE)]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        *((member(n), "leads out of the archive's folder") for n in ("/tmp/x", "../x", "a/../../x", "..")),
        *((member(WANTED, b"", kind, target), "is not a regular file") for kind, target in LINKS + DEVICES),
        (member("bomb", bytes(30_000)), "reaches beyond the 20000 bytes an archive may have"),
    ],
)
def test_malicious_members(
    archive: Path, monkeypatch: pytest.MonkeyPatch, bad: tuple[tarfile.TarInfo, bytes], reason: str
) -> None:
    monkeypatch.setattr(archives, "MAX_ARCHIVE", 20_000)
    pack(archive, {"data/a.txt": TEXT}, bad)
    assert failure(resource()) == f"{archive}: member {bad[0].name!r} {reason}"
    assert kept() == []


@pytest.mark.parametrize(("declared", "limit"), [(50, 50), (0, 1000)])
def test_an_oversized_or_wrong_member(
    archive: Path, monkeypatch: pytest.MonkeyPatch, declared: int, limit: int
) -> None:
    monkeypatch.setattr(cache, "MAX_FILE", 1000)
    monkeypatch.setattr(cache, "CHUNK", 100)
    pack(archive, {"data/a.txt": TEXT})
    read = limit // 100 * 100 + 100  # one piece too many, not the whole file
    message = f"{NAME}: expected at most {limit} bytes, found {read} in {archive}; nothing was kept"
    assert failure(resource(size=declared)) == message
    pack(archive, {"data/a.txt": b"other"})
    assert failure(resource()) == wrong(b"other", archive)
    assert kept() == []


def test_a_truncated_archive(archive: Path) -> None:
    noise = random.Random(2).randbytes(300_000)
    pack(archive, {"data/a.txt": TEXT, "noise": noise})
    archive.write_bytes(archive.read_bytes()[:150_000])
    message = f"{archive}: cannot be read: it ends inside of an xz stream"
    assert error_of(lambda: fetch_resources([resource(), resource("noise", noise)])) == message
    assert kept() == ONLY
    # What lies before the cut can be had: reading stops with the last wanted member.
    resource().cached.unlink()
    assert fetch_one(resource()).read_bytes() == TEXT


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"<html>not found</html>", "truncated header"),
        (lzma.compress(b""), "empty file"),
        (lzma.compress(b"no tar at all" * 100), "invalid header"),
    ],
)
def test_a_file_that_is_no_archive(archive: Path, content: bytes, reason: str) -> None:
    archive.write_bytes(content)
    assert failure(resource()) == f"{archive}: cannot be read: {reason}"


def test_damaged_archives_give_the_right_file_or_an_error(archive: Path) -> None:
    pack(archive, {"data/a.txt": TEXT})
    intact = archive.read_bytes()
    rng = random.Random(3)
    failures = 0
    for _ in range(80):
        damaged = bytearray(intact)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        archive.write_bytes(damaged)
        try:
            assert fetch_one(resource()).read_bytes() == TEXT
            resource().cached.unlink()
        except HarnessError:
            failures += 1
        assert kept() == []
    assert failures > 40


# --- the cache, and what cannot be had ---


def test_a_cached_file_is_hashed_once_a_process(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(resource().cached, TEXT)
    hashed: list[Path] = []

    def counting(path: Path) -> str:
        hashed.append(path)
        return sha(path.read_bytes())

    monkeypatch.setattr(cache, "sha256_file", counting)
    assert fetch_resources([resource(), resource()]) == fetch_resources([resource()]) * 2 == [path, path]
    assert hashed == [path]
    os.utime(path, (1, 1))
    fetch_one(resource())
    assert hashed == [path, path]
    pack(archive, {"new": b"new"})
    assert [fetch_one(resource("new", b"new")) for _ in "ab"] == [resource("new").cached] * 2
    assert hashed == [path, path]
    two = "asked for with two checksums"
    assert error_of(lambda: fetch_resources([resource(), resource(content=b"b")])) == f"{NAME}: {two}"


@pytest.mark.parametrize("told", [True, False])
def test_a_damaged_cached_file_is_got_again(archive: Path, caplog: pytest.LogCaptureFixture, told: bool) -> None:
    pack(archive, {"data/a.txt": TEXT})
    fetch_one(resource()).write_bytes(b"other")
    said: list[str] = []
    with caplog.at_level(logging.WARNING):
        assert fetch_one(resource(), progress=said.append if told else None).read_bytes() == TEXT
    note = f"{NAME}: the cached file was damaged (sha256 {sha(b'other')}), getting it again"
    assert (said[:1] if told else caplog.messages) == [note]


def test_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(resource().cached, b"damaged, so it goes")
    refused = f"no connection to {os.environ['HARNESS_RAW_BASE']}/owner/name/{COMMIT}/data/a.txt: Connection refused"
    assert failure(resource()) == unavailable(refused)
    monkeypatch.setenv("HARNESS_MIRROR", str(tmp_path))
    assert failure(resource()) == unavailable(refused, looked=f"not in {tmp_path}")
    assert kept() == []


def test_unusable_cache_folders(archive: Path) -> None:
    pack(archive, {"data/a.txt": TEXT})
    cache = put(Path(os.environ["HARNESS_CACHE"]), b"a file where the folder should be")
    assert failure(resource()) == f"{resource().cached}: cannot be written: Not a directory"
    cache.unlink()
    resource().cached.mkdir(parents=True)
    assert failure(resource()) == f"{resource().cached}: is a folder, expected a file"


@pytest.mark.parametrize("base", ["file:///etc", "ftp://127.0.0.1", "nonsense"])
def test_schemes_other_than_http_are_refused(monkeypatch: pytest.MonkeyPatch, base: str) -> None:
    monkeypatch.setenv("HARNESS_RAW_BASE", base)
    address = f"{base}/owner/name/{COMMIT}/data/a.txt"
    assert failure(resource()) == unavailable(f"refused to load {address!r} for {address}")


def test_by_hand() -> None:
    wanted = Resource("owner/name", COMMIT, "data/a.txt", sha(TEXT), by_hand="sign the form at\n  https://e.org ")
    assert resource_state(wanted) == "manual download: sign the form at https://e.org"
    assert failure(wanted) == unavailable("must be downloaded manually: sign the form at https://e.org")
    path = put(wanted.cached, b"other")
    assert failure(wanted) == wrong(b"other", path, "it was left there")
    path.write_bytes(TEXT)
    assert fetch_one(wanted) == path
    assert resource_state(wanted) == "here"


def test_by_hand_without_a_checksum() -> None:
    wanted = Resource("", "", "ntcir/pages.zip", "", by_hand="ask")
    path = Path(os.environ["HARNESS_CACHE"]) / "files" / "ntcir" / "pages.zip"
    assert failure(wanted).endswith(f"with ntcir/pages.zip, or put the file at {path}")
    put(path, b"anything")
    assert fetch_one(wanted) == path


def test_a_long_message_is_two_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is cut where it is printed, so that the path can be copied."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / ("y" * 200)))
    monkeypatch.setenv("HARNESS_OFFLINE", "1")
    with pytest.raises(HarnessError) as caught:
        fetch_one(resource())
    first, second = caught.value.lines
    assert first.startswith(f"{resource().name}: HARNESS_OFFLINE forbids the network; not in the cache")
    assert second == f"or put the file (sha256 {resource().sha256}) at {resource().cached}"
    assert printable_line(f"harness: {second}") == f"harness: {second}"


def test_states(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resource_state(resource()) == "fetchable"
    archive.write_bytes(b"not even an archive: nothing is opened")
    assert resource_state(resource()) == "here"
    monkeypatch.delenv("HARNESS_MIRROR")
    assert resource_state(resource()) == "fetchable"
    put(resource().cached, TEXT)
    assert resource_state(resource()) == "here"
