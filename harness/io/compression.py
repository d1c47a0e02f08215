"""Opens plain, gzip, xz or zstd files, detected by their first bytes, and validates them like the reference tools.

A compressed file is accepted if `gzip -t`, `xz -t` or `zstd -t` exits with status 0, and decompresses to the same
bytes. That is: streams (members, frames) may be concatenated, and each must be complete and pass its own checks. A gzip
member may be followed by zero bytes up to the end; other trailing bytes, for which `gzip -t` warns and exits with
status 2, are a fault. An xz stream may be followed by a multiple of four zero bytes. zstd frames may be skippable. For
zstd, details depend on the version of the library: newer ones refuse surplus bits that 1.5.4 ignored.

The path must be a regular file, or a pipe with a writer, such as a shell's `<(command)`: a writer must open it within
`HARNESS_PIPE_SECONDS` (5), and may then take any time. After `keep_pipes`, a pipe may be read again.
"""

from __future__ import annotations

import io
import os
import select
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from harness.errors import HarnessError, format_error

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

CHUNK = 1 << 16  # bytes
XZ_MEMORY = 1 << 29  # bytes that unpacking xz may take: the most that a preset of xz needs is 65 MiB
PATIENCE = "5"  # seconds to wait for a writer of a pipe; default of HARNESS_PIPE_SECONDS
HEAD = 6  # bytes that identify the compression


class DamagedError(Exception):
    """Compressed data is truncated, damaged, or followed by other data."""


class _Decoder(Protocol):
    """Decompressor of one stream, with the interface of Python's `lzma` and `zstd`."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Returns at most `max_length` bytes of what comes next."""


class _Gzip:
    """Decompressor of a gzip member; zlib checks header, checksum and length (Python's `gzip` checks less)."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Returns at most `max_length` bytes of what comes next."""
        out = self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)
        self.needs_input = len(out) < max_length and not self._zlib.unconsumed_tail
        return out


def _zstd() -> _Decoder:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return cast("_Decoder", zstd.ZstdDecompressor())


def _xz() -> _Decoder:
    import lzma

    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY)


def _kind(head: bytes) -> tuple[str, Callable[[], _Decoder]] | None:
    """Returns the compression of a file and its decompressor; None if it is not compressed."""
    if head.startswith(b"\x1f\x8b"):
        return "a gzip member", _Gzip
    if head.startswith(b"\xfd7zXZ\x00"):
        return "an xz stream", _xz
    if head.startswith(b"\x28\xb5\x2f\xfd") or (head[1:4] == b"\x2a\x4d\x18" and 0x50 <= head[0] <= 0x5F):
        return "a zstd frame", _zstd
    return None


class Unpacked(io.RawIOBase):
    """The content of a stream of bytes, unpacked if it is compressed.

    Parameters
    ----------
    read : returns at most the requested number of bytes, and none at the end.

    Attributes
    ----------
    taken, given : number of bytes read from the stream, and of content bytes returned.
    most : limit of `given`; None for no limit.
    packed : whether it is compressed.
    Reading raises `DamagedError` if the data is damaged, or if it exceeds `most`.
    """

    def __init__(self, read: Callable[[int], bytes | None]) -> None:
        self._read = read
        self.taken = self.given = 0
        self.most: int | None = None
        head = b""
        while len(head) < HEAD and (more := self._take(HEAD - len(head))):
            head += more
        kind = _kind(head)
        self.packed = kind is not None
        self._chunks = self._streams(head, *kind) if kind else self._plain(head)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        """Returns True."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """As in `io.RawIOBase`."""
        view = memoryview(buffer).cast("B")
        while not self._left:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._left = memoryview(chunk)
        length = min(len(view), len(self._left))
        view[:length], self._left = self._left[:length], self._left[length:]
        self.given += length
        if self.most is not None and self.given > self.most:
            raise DamagedError(f"more than {self.most} bytes where they cannot be")
        return length

    def _take(self, size: int) -> bytes:
        data = self._read(size) or b""
        self.taken += len(data)
        return data

    def _plain(self, data: bytes) -> Iterator[bytes]:
        while data:
            yield data
            data = self._take(CHUNK)

    def _streams(self, data: bytes, what: str, new: Callable[[], _Decoder]) -> Iterator[bytes]:
        """Yields the contents of concatenated streams; `data` is the beginning of the first."""
        while data:
            decoder = new()
            while not decoder.eof:
                if decoder.needs_input and not data and not (data := self._take(CHUNK)):
                    raise DamagedError(f"it ends inside of {what}")
                try:
                    out = decoder.decompress(data, CHUNK)
                except Exception as error:
                    # Each library has its own class, and zstd's is not imported here.
                    if isinstance(error, MemoryError):
                        raise
                    reason = str(error).rpartition("data: ")[2].strip(". ")
                    raise DamagedError(f"{what}: {reason}") from None
                data = b""
                yield out
            data = self._padding(decoder.unused_data or self._take(CHUNK), what)

    def _padding(self, data: bytes, what: str) -> bytes:
        """Skips zero bytes after a stream; returns the beginning of the next stream, or nothing."""
        zeros = 0
        while data and data[0] == 0 and what != "a zstd frame":
            left = data.lstrip(b"\0")
            zeros += len(data) - len(left)
            data = left or self._take(CHUNK)
        if zeros and data and what == "a gzip member":
            raise DamagedError(f"{what} is followed by something else")
        if zeros % 4 and what == "an xz stream":
            raise DamagedError(f"{what} is followed by {zeros} zero bytes, expected a multiple of 4")
        return data


def _patience() -> float:
    named = os.environ.get("HARNESS_PIPE_SECONDS") or PATIENCE
    try:
        if 0 <= (seconds := float(named)) <= 3600:
            return seconds
    except ValueError:
        pass
    raise HarnessError(f"HARNESS_PIPE_SECONDS={named}: expected a number of seconds, at most 3600")


class _Pipe(io.RawIOBase):
    """Pipe opened without blocking: a writer must start in time, and may then take any time."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._begun = False
        self._poll = select.poll()
        self._poll.register(handle, select.POLLIN)

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            os.close(self._handle)
        super().close()

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        length = self._receive(buffer)
        if not length and not self._begun:
            # There is no writer: not yet, or no longer.
            seconds = _patience()
            came = self._poll.poll(seconds * 1000)
            length = self._receive(buffer)
            if not came and not length:
                raise OSError(f"is a pipe, and nobody wrote to it for {seconds:g} s")
        self._begun = True
        return length

    def _receive(self, buffer: WriteableBuffer) -> int:
        while True:
            try:
                return os.readv(self._handle, [buffer])
            except BlockingIOError:  # there is a writer
                self._poll.poll()


_kept: list[dict[tuple[int, int], tuple[_Pipe, bytearray]]] = []  # one or none: device and number of a pipe -> content


def keep_pipes() -> None:
    """Keeps what this process reads from pipes from now on, so that a pipe can be read several times, as a file can."""
    _kept[:] = [{}]


class _Again(io.RawIOBase):
    """A pipe that is read from its beginning: first what was read of it before, then what comes next."""

    def __init__(self, pipe: _Pipe, before: bytearray) -> None:
        self._pipe, self._before, self._at = pipe, before, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        if self._at == len(self._before):
            self._before += view[: self._pipe.readinto(view)]
        length = min(len(view), len(self._before) - self._at)
        view[:length] = self._before[self._at : self._at + length]
        self._at += length
        return length


def _opened_pipe(path: Path) -> io.RawIOBase:
    state = path.stat()
    key = state.st_dev, state.st_ino
    for kept in _kept:
        if key in kept:
            return _Again(*kept[key])
    pipe = _Pipe(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    for kept in _kept:
        kept[key] = pipe, bytearray()
        return _Again(*kept[key])
    return pipe


NO_FILES: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "folder"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
    (stat.S_ISSOCK, "socket"),
)


@contextmanager
def open_uncompressed(path: Path) -> Iterator[io.BufferedIOBase]:
    """Opens a file or pipe without decompression; errors raised in the block become faults of the file.

    Raises
    ------
    FormatError
        The path is missing, is neither a file nor a pipe with a writer, cannot be read, or its compressed data is
        damaged or truncated.
    """
    try:
        mode = path.stat().st_mode
        for is_kind, what in NO_FILES:
            # Checked before opening, because opening a device may have side effects.
            if is_kind(mode):
                raise format_error(path, 0, f"is a {what}, expected a file")
        if stat.S_ISFIFO(mode):
            with io.BufferedReader(_opened_pipe(path), CHUNK) as pipe:
                yield pipe
        else:
            with io.BufferedReader(io.FileIO(path), CHUNK) as file:
                yield file
    except DamagedError as error:
        raise format_error(path, 0, f"compressed file is cut short or damaged: {error}") from None
    except FileNotFoundError:
        raise format_error(path, 0, "no such file") from None
    except (OSError, ValueError) as error:  # a ValueError: a zero byte in the name
        raise format_error(path, 0, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
