"""Runs as TIRA and TIREx keep them: `run.txt` with `ir-metadata.yml`, in a folder or an archive (zip, tar).

Members of an archive are read in memory; nothing is extracted, so that no name in it can lead anywhere.
"""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from harness.errors import HarnessError, format_error
from harness.io import archives
from harness.io.compression import CHUNK, DamagedError, Unpacked
from harness.io.files import MOST_BYTES, MOST_RATIO, SMALL, read_bytes

RUNS = ("run.txt", "run.txt.gz")
METADATA = "ir-metadata.yml"
_METADATA = (METADATA, "ir_metadata.yml", ".ir-metadata.yml", "ir-metadata.yaml", "ir_metadata.yaml")
_ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.zst")
MOST_MEMBERS = 10_000
_MOST_METADATA = 1 << 26  # bytes


def is_packed(path: Path) -> bool:
    """Returns whether a path is a folder, or an archive by its name.

    Examples
    --------
    >>> is_packed(Path("bm25.zip")), is_packed(Path("bm25.run.gz"))
    (True, False)
    """
    return path.name.lower().endswith(_ENDINGS) or path.is_dir()


def run_content(path: Path) -> bytes:
    """Returns the bytes of the run in a folder or archive, unpacked.

    Raises
    ------
    HarnessError
        It has no run or several, the archive is damaged or unsafe, or the run is too large.
    """
    return _content(path, RUNS, MOST_BYTES) or _lacking(path)


def metadata_content(path: Path) -> bytes | None:
    """Returns the bytes of the metadata file in a folder or archive; None without one. Raises as `run_content`."""
    return _content(path, _METADATA, _MOST_METADATA)


def _lacking(path: Path) -> bytes:
    what = "a folder" if path.is_dir() else "an archive"
    raise format_error(path, 0, f"is {what} without {' or '.join(RUNS)}, expected a file, or {what} of TIRA")


def _content(path: Path, names: tuple[str, ...], most: int) -> bytes | None:
    if path.is_dir():
        found = [each for part in (path, path / "output") for name in names if (each := part / name).is_file()]
        _check_one(path, [str(each.relative_to(path)) for each in found])
        return read_bytes(found[0], most=most) if found else None
    read = _zip_members if path.name.lower().endswith(".zip") else _tar_members
    wanted: list[str] = []
    out = None
    for count, (name, content) in enumerate(read(path), 1):
        if count > MOST_MEMBERS:
            raise format_error(path, 0, f"an archive of more than {MOST_MEMBERS:,} members")
        if PurePosixPath(name).name in names and not _is_mac(name):
            wanted.append(name)
            _check_one(path, wanted)
            out = content(most)
    return out


def _check_one(path: Path, found: list[str]) -> None:
    if len(found) > 1:
        raise format_error(path, 0, f"has {found[0]} and {found[1]}; expected one of them")


def _is_mac(name: str) -> bool:
    """Returns whether a member is one of the copies that macOS puts into archives."""
    return "__MACOSX" in PurePosixPath(name).parts


Member = tuple[str, Callable[[int], bytes]]  # name, and a function that reads at most so many bytes


def _zip_members(path: Path) -> Iterator[Member]:
    try:
        with archives.unzipped(path) as opened:
            for member in opened.infolist():
                said = f"{path}: member {member.filename!r}"
                archives.check_inside(member.filename, said)
                if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
                    raise HarnessError(f"{said} is not a regular file")
                if not member.is_dir():
                    yield member.filename, lambda most, member=member: _read_zip(opened, member, path, most)  # type: ignore[misc]
    except OSError as error:
        raise format_error(path, 0, f"cannot be read: {error.strerror or error}") from None


def _read_zip(opened: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path, most: int) -> bytes:
    with opened.open(member) as raw:
        return _limited(Unpacked(raw.read), path, member.filename, most, member.compress_size)


def _tar_members(path: Path) -> Iterator[Member]:
    with archives.unpacked(path) as (stream, tar):
        for member in archives.members(stream, tar, path):
            if not member.isdir():
                yield member.name, lambda most, member=member: _read_tar(stream, tar, member, path, most)  # type: ignore[misc]


def _read_tar(stream: Unpacked, tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path, most: int) -> bytes:
    begin = stream.taken
    raw = archives.content(tar, member, path)
    return _limited(Unpacked(raw.read), path, member.name, most, lambda: stream.taken - begin)


def _limited(content: Unpacked, path: Path, name: str, most: int, packed: int | Callable[[], int]) -> bytes:
    """Returns the content of a member, unless it is larger than `most` or unpacks to many times its size."""
    out = io.BytesIO()
    try:
        while chunk := content.read(CHUNK):
            size = out.write(chunk) and out.tell()
            taken = packed() if callable(packed) else packed
            if size > most:
                raise format_error(path, 0, f"member {name!r} unpacks to more than {most:,} bytes")
            if size > max(SMALL, MOST_RATIO * taken):
                raise format_error(path, 0, f"member {name!r} unpacks to more than {MOST_RATIO} times its size")
    except DamagedError as error:
        raise format_error(path, 0, f"member {name!r}: {error}") from None
    return out.getvalue()
