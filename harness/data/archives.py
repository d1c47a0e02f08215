"""Runs as TIRA and TIREx keep them: `run.txt` with `ir-metadata.yml`, in a folder or an archive (zip, tar).

Members of an archive are read in memory; nothing is extracted, so that no name in it can lead anywhere.
"""

from __future__ import annotations

import io
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NoReturn

from harness.errors import HarnessError, format_error
from harness.io import archives
from harness.io.compression import CHUNK, DamagedError, Unpacked
from harness.io.files import MOST_BYTES, MOST_RATIO, SMALL, read_bytes

RUNS = ("run.txt", "run.txt.gz")
METADATA = "ir-metadata.yml"
_METADATA = (METADATA, "ir_metadata.yml", ".ir-metadata.yml", "ir-metadata.yaml", "ir_metadata.yaml")
_ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.zst")
MOST_MEMBERS = 10_000
MOST_METADATA = 1 << 26  # bytes


def is_packed(path: Path) -> bool:
    """Returns whether a path is a folder, or an archive by its name.

    Examples
    --------
    >>> is_packed(Path("bm25.zip")), is_packed(Path("bm25.run.gz"))
    (True, False)
    """
    return path.is_dir() or (path.name.lower().endswith(_ENDINGS) and not path.is_fifo())


def run_content(path: Path, most: int | None = None) -> bytes:
    """Returns the bytes of the run in a folder or archive, unpacked.

    Parameters
    ----------
    most : maximum size of the run in bytes; default: `MOST_BYTES`.

    Raises
    ------
    HarnessError
        It has no run or several, the archive is damaged or unsafe, or the run is too large.
    """
    content = _content(path, RUNS, most or MOST_BYTES)
    return _lacking(path) if content is None else content


def metadata_content(path: Path, most: int = MOST_METADATA) -> bytes | None:
    """Returns the bytes of the metadata file in a folder or archive; None without one. Raises as `run_content`."""
    return _content(path, _METADATA, most)


def files_in(folder: Path) -> tuple[Path, Path | None]:
    """Returns the run file and the metadata file in a folder, None without one. Raises as `run_content`."""
    run = _file_in(folder, RUNS)
    return (_lacking(folder) if run is None else run), _file_in(folder, _METADATA)


def _lacking(path: Path) -> NoReturn:
    what = "a folder" if path.is_dir() else "an archive"
    raise format_error(path, 0, f"is {what} without {' or '.join(RUNS)}, expected a file, or {what} of TIRA")


def _content(path: Path, names: tuple[str, ...], most: int) -> bytes | None:
    if path.is_dir():
        found = _file_in(path, names)
        return None if found is None else read_bytes(found, most=most)
    read = _from_zip if path.name.lower().endswith(".zip") else _from_tar
    return read(path, _Wanted(path, names), most)


def _file_in(folder: Path, names: tuple[str, ...]) -> Path | None:
    found = [each for part in (folder, folder / "output") for name in names if (each := part / name).is_file()]
    _check_one(folder, [str(each.relative_to(folder)) for each in found])
    return found[0] if found else None


def _check_one(path: Path, found: list[str]) -> None:
    if len(found) > 1:
        raise format_error(path, 0, f"has {found[0]} and {found[1]}; expected one of them")


def _is_mac(name: str) -> bool:
    """Returns whether a member is one of the copies that macOS puts into archives."""
    return "__MACOSX" in PurePosixPath(name).parts


class _Wanted:
    """Chooses the member of an archive that has one of some names; refuses a second one, and too many members."""

    def __init__(self, path: Path, names: tuple[str, ...]) -> None:
        self._path, self._names = path, names
        self._count = 0
        self._found: list[str] = []

    def __call__(self, member: str) -> bool:
        self._count += 1
        if self._count > MOST_MEMBERS:
            raise format_error(self._path, 0, f"an archive of more than {MOST_MEMBERS:,} members")
        if PurePosixPath(member).name not in self._names or _is_mac(member):
            return False
        self._found.append(member)
        _check_one(self._path, self._found)
        return True


def _from_zip(path: Path, wanted: _Wanted, most: int) -> bytes | None:
    out = None
    try:
        with archives.unzipped(path) as opened:
            for member in opened.infolist():
                said = f"{path}: member {member.filename!r}"
                archives.check_inside(member.filename, said)
                if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
                    raise HarnessError(f"{said} is not a regular file")
                if not member.is_dir() and wanted(member.filename):
                    with opened.open(member) as raw:
                        packed = partial(int, member.compress_size)
                        out = _limited(Unpacked(raw.read), path, member.filename, most, packed)
    except OSError as error:
        raise format_error(path, 0, f"cannot be read: {error.strerror or error}") from None
    return out


def _from_tar(path: Path, wanted: _Wanted, most: int) -> bytes | None:
    out = None
    with archives.unpacked(path) as (stream, tar):
        for member in archives.members(stream, tar, path):
            if not member.isdir() and wanted(member.name):
                packed = partial(_taken_since, stream, stream.taken)
                raw = archives.content(tar, member, path)
                out = _limited(Unpacked(raw.read), path, member.name, most, packed)
    return out


def _taken_since(stream: Unpacked, before: int) -> int:
    return stream.taken - before


def _limited(content: Unpacked, path: Path, name: str, most: int, packed: Callable[[], int]) -> bytes:
    """Returns the content of a member, unless it is larger than `most` or than many times its packed size so far."""
    out = io.BytesIO()
    try:
        while chunk := content.read(CHUNK):
            size = out.write(chunk) and out.tell()
            if size > most:
                raise format_error(path, 0, f"member {name!r} unpacks to more than {most:,} bytes")
            if size > max(SMALL, MOST_RATIO * packed()):
                raise format_error(path, 0, f"member {name!r} unpacks to more than {MOST_RATIO} times its size")
    except DamagedError as error:
        raise format_error(path, 0, f"member {name!r}: {error}") from None
    return out.getvalue()
