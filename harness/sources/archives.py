"""Archives of a mirror: streamed through once, each member checked before it is read."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from harness.errors import HarnessError
from harness.io.compression import DamagedError, Unpacked

MAX_ARCHIVE = 1 << 33  # bytes of one unpacked archive
MAX_HEADERS = 1 << 20  # bytes between the contents of two members


@contextmanager
def unpacked(archive: Path) -> Iterator[tuple[Unpacked, tarfile.TarFile]]:
    """An archive to stream through: its unpacked bytes, and the tar archive in them. Faults raise `HarnessError`."""
    try:
        with archive.open("rb") as raw:
            # tarfile's own "r|xz" takes a cut archive for a complete one.
            stream = Unpacked(raw.read)
            with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|") as tar:
                yield stream, tar
    except (OSError, DamagedError, tarfile.TarError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise HarnessError(f"{archive}: cannot be read: {' '.join(reason.split())}") from None


def members(stream: Unpacked, tar: tarfile.TarFile, archive: object) -> Iterator[tarfile.TarInfo]:
    """The members of an archive, each checked before it is given; `stream` is what `unpacked` gave."""
    stream.most = MAX_HEADERS
    for member in tar:
        said = f"{archive}: member {member.name!r}"
        if member.name.startswith("/") or ".." in member.name.split("/"):
            raise HarnessError(f"{said} leads out of the archive's folder")
        if member.offset_data + member.size > MAX_ARCHIVE:
            raise HarnessError(f"{said} reaches beyond the {MAX_ARCHIVE} bytes an archive may have")
        # The headers of the next one are held in memory, whatever size they declare.
        stream.most = member.offset_data + member.size + MAX_HEADERS
        yield member


def content(tar: tarfile.TarFile, member: tarfile.TarInfo, archive: object) -> IO[bytes]:
    """The content of a member, which must be a regular file."""
    # A sparse member could declare any size.
    if not member.isreg() or member.issparse() or (stream := tar.extractfile(member)) is None:
        raise HarnessError(f"{archive}: member {member.name!r} is not a regular file")
    return stream
