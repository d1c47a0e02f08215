"""Readers of archives: streamed in one pass, with each member checked before it is read."""

from __future__ import annotations

import io
import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from harness.errors import HarnessError, counted, format_error, one_of
from harness.io.compression import DamagedError, Unpacked

_DAMAGE = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError),
)
MAX_ARCHIVE = 1 << 33  # bytes of one unpacked archive
MAX_HEADERS = 1 << 20  # bytes between the contents of two members


@contextmanager
def unpacked(archive: Path) -> Iterator[tuple[Unpacked, tarfile.TarFile]]:
    """Opens an archive for streaming: its decompressed bytes, and the tar archive in them; raises `HarnessError`."""
    try:
        with archive.open("rb") as raw:
            # tarfile's own "r|xz" does not detect truncated archives.
            stream = Unpacked(raw.read)
            with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|") as tar:
                yield stream, tar
    except (OSError, DamagedError, tarfile.TarError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise HarnessError(f"{archive}: cannot be read: {' '.join(reason.split())}") from None


def members(stream: Unpacked, tar: tarfile.TarFile, archive: object) -> Iterator[tarfile.TarInfo]:
    """Yields the members of an archive after checking each; `stream` is from `unpacked`."""
    stream.most = MAX_HEADERS
    for member in tar:
        said = f"{archive}: member {member.name!r}"
        check_inside(member.name, said)
        if member.offset_data + member.size > MAX_ARCHIVE:
            raise HarnessError(f"{said} reaches beyond the {MAX_ARCHIVE} bytes an archive may have")
        # The headers of the next member are read into memory, so their size is limited.
        stream.most = member.offset_data + member.size + MAX_HEADERS
        yield member


def content(tar: tarfile.TarFile, member: tarfile.TarInfo, archive: object) -> IO[bytes]:
    """Returns the content of a member, which must be a regular file."""
    # A sparse member could declare any size.
    if not member.isreg() or member.issparse() or (stream := tar.extractfile(member)) is None:
        raise HarnessError(f"{archive}: member {member.name!r} is not a regular file")
    return stream


def is_archive(data: bytes) -> bool:
    """Returns whether a content is a zip or a tar archive."""
    return data.startswith(b"PK\x03\x04") or data[257:262] == b"ustar"


@contextmanager
def only_member(data: bytes, path: object, names: Sequence[str] = ()) -> Iterator[IO[bytes]]:
    """Opens the only file in an archive, or the only one with one of some names; raises `HarnessError`."""
    try:
        if data.startswith(b"PK"):
            with zipfile.ZipFile(io.BytesIO(data)) as opened:
                name = _only([each.filename for each in opened.infolist() if not each.is_dir()], path, names)
                with opened.open(name) as stream:
                    yield stream
            return
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            name = _only([each.name for each in tar if not each.isdir()], path, names)
            yield content(tar, tar.getmember(name), path)
    except _DAMAGE as error:
        raise format_error(path, 0, f"archive cannot be read: {' '.join(str(error).split())}") from None


def _only(found: list[str], path: object, names: Sequence[str]) -> str:
    found = [name for name in found if "__MACOSX" not in name.split("/")]
    wanted = [name for name in found if name.split("/")[-1] in names] or found
    if len(wanted) != 1:
        named = f", or one of them named {one_of(names)}" if names else ""
        raise format_error(path, 0, f"is an archive of {counted(len(wanted), 'file')}, expected one file{named}")
    return wanted[0]


def check_inside(name: str, said: str) -> None:
    """Raises HarnessError for the name of a member that leads out of the archive's folder; `said` names the member."""
    if name.startswith("/") or ".." in name.split("/"):
        raise HarnessError(f"{said} leads out of the archive's folder")


@contextmanager
def unzipped(archive: Path) -> Iterator[zipfile.ZipFile]:
    """Opens a zip archive; its faults raise `HarnessError`."""
    try:
        with zipfile.ZipFile(archive) as opened:
            yield opened
    except _DAMAGE as error:
        raise HarnessError(f"{archive}: cannot be read: {' '.join(str(error).split())}") from None


def unzip(archive: Path, into: Path) -> None:
    """Unpacks a zip into a folder, checking each member first. Raises `HarnessError` or `OSError`."""
    total = 0
    with unzipped(archive) as opened:
        for member in opened.infolist():
            said = f"{archive}: member {member.filename!r}"
            check_inside(member.filename, said)
            total += member.file_size
            if total > MAX_ARCHIVE:
                raise HarnessError(f"{said} reaches beyond the {MAX_ARCHIVE} bytes an archive may have")
            if member.is_dir():
                continue
            if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
                raise HarnessError(f"{said} is not a regular file")
            target = into / member.filename
            target.parent.mkdir(parents=True, exist_ok=True)
            with opened.open(member) as content, target.open("xb") as stream:
                shutil.copyfileobj(content, stream, 1 << 20)
