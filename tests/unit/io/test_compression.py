"""Compressed files are judged as gzip, xz and zstd judge them, and what is no file is told, not waited for."""

from __future__ import annotations

import gzip
import lzma
import os
import shutil
import socket
import subprocess
import threading
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from harness.collections.corpus import numbered_lines
from harness.data.topic_files import jsonl
from harness.data.trec import read_qrels, read_run
from harness.errors import FormatError, HarnessError
from harness.io import files
from harness.io.files import read_bytes

RUN = (b"M.1\tQ0\ta1007\t1\t3.5\tmine\nM.1\tQ0\ta1088\t2\t2.5\tmine\n", b"M.2\tQ0\tx\t1\t1.5\tmine\n")
QRELS = (b"M.1\t0\ta1007\t2\nM.1\t0\ta1088\t0\n", b"M.2\t0\tx\t1\n")
TOPICS = (b'{"id": "M.1", "title": "Sums"}\n', b'{"id": "M.2", "title": "$x^2$"}\n')
READERS: dict[str, tuple[tuple[bytes, bytes], Callable[[Path], object]]] = {
    "run": (RUN, read_run),
    "judgments": (QRELS, read_qrels),
    "topics": (TOPICS, lambda path: jsonl(read_bytes(path), str(path))),
}
SKIPPED = b"\x51\x2a\x4d\x18\x04\x00\x00\x00abcd"


def checked(data: bytes) -> bytes:
    """A frame of zstd with a checksum, as its program writes it."""
    return zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1})


def gz(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def named(data: bytes) -> bytes:
    """A gzip member whose header has all that one may have: extra field, name, comment and a checksum of its own."""
    head = b"\x1f\x8b\x08\x1e\x00\x00\x00\x00\x00\x03\x02\x00EXname\x00why\x00"
    return head + (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little") + gz(data)[10:]


# Two streams each, and the lengths at which a cut leaves whole streams only.
PACKED: dict[str, Callable[[bytes, bytes], tuple[bytes, tuple[int, ...]]]] = {
    "gzip": lambda a, b: (named(a) + gz(b), (len(named(a)),)),
    "xz": lambda a, b: (
        lzma.compress(a) + bytes(4) + lzma.compress(b, check=lzma.CHECK_SHA256),
        (len(lzma.compress(a)), len(lzma.compress(a)) + 4),
    ),
    "zstd": lambda a, b: (checked(a) + SKIPPED + checked(b), (len(checked(a)), len(checked(a)) + len(SKIPPED))),
}


def damages(whole: bytes, masks: tuple[int, ...]) -> Iterator[bytes]:
    """Every truncation, then every byte with each mask."""
    yield from (whole[:length] for length in range(len(whole)))
    for mask in masks:
        for at in range(len(whole)):
            yield whole[:at] + bytes([whole[at] ^ mask]) + whole[at + 1 :]


def verdicts(tool: str, folder: Path, cases: list[bytes]) -> list[bool]:
    """Which of the cases the program takes (status 0)."""
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed: apt-get install {tool.replace('xz', 'xz-utils')}")
    for number, case in enumerate(cases):
        (folder / f"{number:05}").write_bytes(case)
    loop = f"for file in *; do {tool} -t < $file > /dev/null 2>&1; echo $?; done"
    done = subprocess.run(["sh", "-c", loop], cwd=folder, capture_output=True, text=True, check=True)
    return [status == "0" for status in done.stdout.split()]


def unpacked_by(tool: str, case: bytes) -> bytes:
    return subprocess.run([tool, "-dc"], input=case, capture_output=True, check=True).stdout


def taken(read: Callable[[Path], object], path: Path) -> bool:
    try:
        read(path)
    except FormatError as error:
        assert "\n" not in str(error)
        assert str(error).startswith(f"{path}:")
        return False
    return True


@pytest.mark.parametrize("tool", PACKED)
@pytest.mark.parametrize("kind", READERS)
def test_without_the_tool_damage_is_a_fault_or_changes_nothing(tmp_path: Path, tool: str, kind: str) -> None:
    parts, read = READERS[kind]
    whole, ends = PACKED[tool](*parts)
    path = tmp_path / "file"
    path.write_bytes(whole)
    read(path)
    assert read_bytes(path) == b"".join(parts)
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert taken(read, path) == (length in ends)
        assert length not in ends or read_bytes(path) == parts[0]
    faults = 0
    for case in list(damages(whole, (0x01, 0x40)))[len(whole) :]:
        path.write_bytes(case)
        if taken(read, path):
            assert read_bytes(path) == b"".join(parts)
        else:
            faults += 1
    assert faults > 2 * len(whole) * 0.7


A, B = RUN
WHOLE = A + B
ODDITIES: dict[str, tuple[str, bytes, bytes | None]] = {
    "gzip: zeros after it": ("gzip", gz(A) + bytes(1000), A),
    "gzip: one zero after it": ("gzip", gz(A) + b"\0", A),
    "gzip: zeros and a member": ("gzip", gz(A) + bytes(4) + gz(B), None),
    "gzip: garbage after it": ("gzip", gz(A) + b"garbage", None),
    "gzip: one byte after it": ("gzip", gz(A) + b"\x1f", None),
    "gzip: text after zeros": ("gzip", gz(A) + bytes(70_000) + b"x", None),
    "gzip: an empty member": ("gzip", gz(A) + gz(b"") + gz(B), WHOLE),
    "gzip: a reserved flag": ("gzip", b"\x1f\x8b\x08\x40" + gz(A)[4:], None),
    "gzip: another method": ("gzip", b"\x1f\x8b\x07" + gz(A)[3:], None),
    "gzip: a stored block": ("gzip", gzip.compress(A, compresslevel=0), A),
    "gzip: hundreds of members": ("gzip", gz(A) * 500, A * 500),
    "gzip: xz after it": ("gzip", gz(A) + lzma.compress(B), None),
    "xz: garbage after it": ("xz", lzma.compress(A) + b"garbage!", None),
    **{f"xz: {n} zeros after it": ("xz", lzma.compress(A) + bytes(n), None if n % 4 else A) for n in range(1, 9)},
    **{
        f"xz: {n} zeros between": ("xz", lzma.compress(A) + bytes(n) + lzma.compress(B), None if n % 4 else WHOLE)
        for n in (1, 2, 3, 4, 8, 70_000)
    },
    "xz: no check": ("xz", lzma.compress(A, check=lzma.CHECK_NONE), A),
    "xz: CRC32": ("xz", lzma.compress(A, check=lzma.CHECK_CRC32), A),
    "xz: an empty stream": ("xz", lzma.compress(A) + lzma.compress(b"") + lzma.compress(B), WHOLE),
    "xz: gzip after it": ("xz", lzma.compress(A) + gz(B), None),
    "zstd: garbage after it": ("zstd", checked(A) + b"garbage", None),
    "zstd: zeros after it": ("zstd", checked(A) + bytes(8), None),
    "zstd: skippable first": ("zstd", SKIPPED + checked(A), A),
    "zstd: skippable last": ("zstd", checked(A) + SKIPPED, A),
    "zstd: skippable cut": ("zstd", checked(A) + SKIPPED[:-1], None),
    "zstd: an empty frame": ("zstd", checked(A) + checked(b"") + zstd.compress(B), WHOLE),
    "zstd: without checksum, cut": ("zstd", zstd.compress(A)[:-1], None),
}


@pytest.mark.parametrize("kind", ODDITIES)
def test_what_follows_a_stream(tmp_path: Path, kind: str) -> None:
    tool, case, content = ODDITIES[kind]
    path = tmp_path / "file"
    path.write_bytes(case)
    assert taken(read_bytes, path) == (content is not None)
    assert content is None or read_bytes(path) == content
    (tmp_path / "cases").mkdir()
    assert verdicts(tool, tmp_path / "cases", [case]) == [content is not None]
    assert content is None or unpacked_by(tool, case) == content


def test_streamed_files_are_judged_alike(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for tool, case, content in ODDITIES.values():
        path.write_bytes(case)
        if content is None:
            assert not taken(lambda path: list(numbered_lines(path)), path), tool
        else:
            assert [line for _, line in numbered_lines(path)] == content.splitlines(), tool


@pytest.mark.parametrize("pack", [bytes, gz, lzma.compress, zstd.compress])
@given(data=st.binary(max_size=300), times=st.integers(1, 3))
def test_whatever_is_packed_comes_back(
    tmp_path_factory: pytest.TempPathFactory, pack: Callable[[bytes], bytes], data: bytes, times: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "packed"
    path.write_bytes(pack(b"x" + data) * times)
    assert read_bytes(path) == (b"x" + data) * times


def test_content_of_many_chunks(tmp_path: Path) -> None:
    content = b"".join(b"%d\n" % (number * number) for number in range(100_000))
    for pack in (gz, partial(lzma.compress, preset=0), zstd.compress):
        (tmp_path / "file").write_bytes(pack(content) + pack(b"end"))
        assert read_bytes(tmp_path / "file") == content + b"end"


# Limits


def refused(path: Path) -> str:
    with pytest.raises(HarnessError) as caught:
        read_bytes(path)
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize("pack", [bytes, gz, lzma.compress, zstd.compress])
def test_the_largest_file_is_what_the_variable_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "run"
    monkeypatch.setenv("HARNESS_MAX_BYTES", "100000")
    path.write_bytes(pack(bytes(100_000)))
    assert read_bytes(path) == bytes(100_000)
    path.write_bytes(pack(bytes(100_001)))
    said = "larger" if pack is bytes else "unpacks to more"
    assert refused(path) == f"{said} than 100,000 bytes; set HARNESS_MAX_BYTES to raise the limit"
    monkeypatch.delenv("HARNESS_MAX_BYTES")
    assert len(read_bytes(path)) == 100_001


@pytest.mark.parametrize("value", ["1 GiB", "-5", "0", "1e9", "١٢"])
def test_a_limit_that_is_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("HARNESS_MAX_BYTES", value)
    assert refused(tmp_path / "x") == f"HARNESS_MAX_BYTES={value}: expected a number of bytes, 1 or more"


def test_a_large_file_may_not_unpack_to_many_times_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SMALL", 1 << 20)
    path = tmp_path / "run"
    path.write_bytes(gz(bytes(1 << 20)))
    assert len(read_bytes(path)) == 1 << 20
    path.write_bytes(gz(bytes(2 << 20)))
    assert refused(path) == "unpacks to more than 100 times its size; set HARNESS_MAX_BYTES to raise the limit"
    with pytest.raises(FormatError, match=r"unpacks to more than 100 times its size$"):
        read_bytes(path, most=1 << 30)  # as a lab does
    monkeypatch.setenv("HARNESS_MAX_BYTES", str(2 << 20))
    assert len(read_bytes(path)) == 2 << 20


def test_a_line_without_end_is_refused_before_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl.zst"
    path.write_bytes(zstd.compress(b"{}\n") + zstd.compress(bytes(1 << 22)) * 64)
    with pytest.raises(FormatError, match=r"corpus\.jsonl\.zst:2: longer than 67108864 bytes"):
        list(numbered_lines(path))


# What is no file


def test_devices_folders_and_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(Path("/dev/zero")) == "is a device, expected a file"
    assert refused(Path("/dev/null")) == "is a device, expected a file"
    (tmp_path / "run").symlink_to("/dev/zero")
    assert refused(tmp_path / "run") == "is a device, expected a file"
    assert refused(tmp_path) == "is a folder, expected a file"
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        assert refused(Path("socket")) == "is a socket, expected a file"
    assert refused(Path("a\0b")) == "a\\x00b: cannot be read: embedded null byte"


def test_checksums_of_what_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_PIPE_SECONDS", "0.05")
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), tmp_path / "pipe", tmp_path):
        with pytest.raises(FormatError):
            files.sha256_file(path)


def test_a_pipe_that_nobody_writes_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_PIPE_SECONDS", "0.05")
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path / "pipe") == "cannot be read: is a pipe, and nobody wrote to it for 0.05 s"
    for value in ("soon", "-1", "nan", "inf"):
        monkeypatch.setenv("HARNESS_PIPE_SECONDS", value)
        assert refused(tmp_path / "pipe") == f"HARNESS_PIPE_SECONDS={value}: expected a number of seconds, at most 3600"


@pytest.mark.parametrize("pack", [bytes, gz, lzma.compress, zstd.compress])
def test_a_pipe_that_somebody_writes_to_slowly(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path, whole = tmp_path / "pipe", pack(A) + pack(B)
    os.mkfifo(path)
    begun = threading.Event()

    def write() -> None:
        with path.open("wb", buffering=0) as stream:
            begun.wait(0.1)
            for at in range(0, len(whole), 3):
                stream.write(whole[at : at + 3])

    writer = threading.Thread(target=write)
    writer.start()
    assert read_bytes(path) == WHOLE
    writer.join()


def test_a_pipe_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_MAX_BYTES", "1000000")
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with subprocess.Popen(["sh", "-c", f"exec yes > {path}"], stderr=subprocess.DEVNULL) as writer:
        assert refused(path).startswith("unpacks to more than 1,000,000 bytes")
        writer.wait(10)
