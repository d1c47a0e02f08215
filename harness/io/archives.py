"""Readers of archives: streamed in one pass, with each member checked before it is read."""

from __future__ import annotations

import io
import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar, cast

from harness.errors import HarnessError, counted_text, format_error, one_of, os_errors
from harness.io.compression import DamagedError, Unpacked

_DAMAGE = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError),
)
MAX_ARCHIVE = 1 << 33  # bytes of one unpacked archive
MAX_MEMBERS = 10_000  # of an archive that stands for one file
MAX_HEADERS = 1 << 20  # bytes between the contents of two members

Member = TypeVar("Member", zipfile.ZipInfo, tarfile.TarInfo)


@contextmanager
def unpacked(archive: Path) -> Iterator[tuple[Unpacked, tarfile.TarFile]]:
    """Opens an archive for streaming: its decompressed bytes, and the tar archive in them; raises `HarnessError`."""
    with os_errors(archive, "read", (OSError, DamagedError, tarfile.TarError)), archive.open("rb") as raw:
        # tarfile's own "r|xz" does not detect truncated archives.
        stream = Unpacked(raw.read)
        with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|") as tar:
            yield stream, tar


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
    """Returns whether a content, of which 512 bytes suffice, is a zip or a tar archive."""
    return data.startswith((b"PK\x03\x04", b"PK\x05\x06")) or data[257:262] == b"ustar"


@contextmanager
def member(data: bytes, path: object, names: Sequence[str] = (), *, lone: bool = True) -> Iterator[IO[bytes] | None]:
    """Opens the file in an archive that has one of some names, in any folder.

    Parameters
    ----------
    lone : without such a file, open the only one; else None.

    Raises
    ------
    HarnessError
        There are several of these files, or none though `lone` is set; a member leads out of the archive or is no
        regular file; the archive is damaged.
    """
    try:
        if data.startswith(b"PK"):
            with zipfile.ZipFile(io.BytesIO(data)) as opened:
                infos = [each for each in _few(opened.infolist(), path) if not each.is_dir()]
                for each in infos:
                    if stat.S_IFMT(each.external_attr >> 16) not in (0, stat.S_IFREG):
                        raise HarnessError(f"{path}: member {each.filename!r} is not a regular file")
                name = _chosen([each.filename for each in infos], path, names, lone)
                if name is None:
                    yield None
                else:
                    with opened.open(name) as stream:
                        yield stream
            return
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            entries = {each.name: each for each in _few(tar, path) if not each.isdir()}
            name = _chosen([*entries], path, names, lone)
            yield None if name is None else content(tar, entries[name], path)
    except _DAMAGE as error:
        raise format_error(path, 0, f"archive cannot be read: {' '.join(str(error).split())}") from None


def _few(members: Iterable[Member], path: object) -> Iterator[Member]:
    for count, each in enumerate(members):
        if count == MAX_MEMBERS:
            raise format_error(path, 0, f"an archive of more than {MAX_MEMBERS:,} members")
        yield each


def _chosen(entries: list[str], path: object, names: Sequence[str], lone: bool) -> str | None:
    for name in entries:
        check_inside(name, f"{path}: member {name!r}")
    parts = {name: name.split("/") for name in entries}
    entries = [name for name in entries if "__MACOSX" not in parts[name] and not parts[name][-1].startswith("._")]
    wanted = [name for name in entries if parts[name][-1] in names]
    if len(wanted) > 1:
        raise format_error(path, 0, f"has {wanted[0]} and {wanted[1]}; expected one of them")
    if not wanted and lone and len(entries) != 1:
        named = f", or one of them named {one_of(names)}" if names else ""
        raise format_error(path, 0, f"is an archive of {counted_text(len(entries), 'file')}, expected one file{named}")
    return next(iter(wanted or entries if lone else wanted), None)


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
