"""Reading and writing files: decompression, checksums, atomic writes, and data folders."""

from __future__ import annotations

import hashlib
import io
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from harness.errors import HarnessError, format_error, os_errors
from harness.io import rehearsal, staging_names
from harness.io.archives import is_archive, member
from harness.io.compression import CHUNK, Unpacked, open_uncompressed

MOST_BYTES = 1 << 31  # maximum size of a file read into memory; a run of 10 million lines has about 500 MB
MOST_RATIO = 100
SMALL = 1 << 28  # bytes


@cache
def data_root() -> Path:
    """Returns the folder that holds `conf/`, `topics/`, `qrels/` and the embedded `runs/`.

    In an installed wheel they are in `harness/_data`; in a checkout they are next to the package.
    """
    package = Path(__file__).resolve().parents[1]
    inside = package / "_data"
    return inside if inside.is_dir() else package.parent


def cache_root() -> Path:
    """Returns the folder for downloads: `HARNESS_CACHE`, else the user's cache folder (XDG).

    Raises
    ------
    HarnessError
        It is that of a rehearsal, which holds stand-ins, and this process is not part of the rehearsal.
    """
    named = os.environ.get("HARNESS_CACHE")
    if named:
        rehearsal.refuse_resource(Path(named))
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "mathir-harness"


def read_bytes(path: Path, most: int | None = None, *, members: Sequence[str] = ()) -> bytes:
    """Returns the content of a file, decompressed if necessary; see `harness.io.compression`.

    An archive (zip, tar) stands for the only file in it, whatever its own name is.

    Parameters
    ----------
    members : names of files that are taken from an archive with several.
    most : maximum size of the content in bytes; default: the environment variable `HARNESS_MAX_BYTES`, else
        `MOST_BYTES`. Without this variable, content above `SMALL` must not exceed `MOST_RATIO` times the compressed
        size. Run files of real systems have a ratio of 5 to 20.

    Raises
    ------
    FormatError
        The file is missing, is a folder or device, cannot be read, is too large, or its compressed data is damaged or
        cut short.
    """
    limit = _limit(most)
    with open_uncompressed(path) as raw:
        data = _unpacked(raw, path, limit)
        if not is_archive(data):
            return data
        with member(data, path, members) as inside:
            return b"" if inside is None else _limited(Unpacked(inside.read), path, limit, lambda: len(data))


def read_member(path: Path, names: Sequence[str], most: int) -> bytes | None:
    """Returns the content of the file in an archive that has one of some names, unpacked; None if there is none.

    Raises
    ------
    FormatError
        As `read_bytes`; `most` limits the member alone.
    """
    with open_uncompressed(path) as raw:
        if not is_archive(io.BufferedReader(Unpacked(raw.read)).read(512)):
            return None
        raw.seek(0)
        data = _unpacked(raw, path, _limit(None))
        with member(data, path, names, lone=False) as inside:
            return None if inside is None else _limited(Unpacked(inside.read), path, _limit(most), lambda: len(data))


def _unpacked(raw: io.BufferedIOBase, path: Path, limit: _Limit) -> bytes:
    content = Unpacked(raw.read)
    if content.packed or not raw.seekable():
        return _limited(content, path, limit, (lambda: content.taken) if content.packed else None)
    size = os.fstat(raw.fileno()).st_size
    if size > limit.most:
        raise format_error(path, 0, f"larger than {limit.most:,} bytes{limit.raising}")
    raw.seek(0)
    return raw.read(size) + raw.read()  # reading a known size avoids copies


class _Limit(NamedTuple):
    """Maximum size of a content in bytes, how a user raises it, and whether its ratio to the packed size is limited."""

    most: int
    raising: str
    of_ratio: bool


def _limit(most: int | None) -> _Limit:
    named = os.environ.get("HARNESS_MAX_BYTES", "")
    if named and not (named.isascii() and named.isdigit() and int(named)):
        raise HarnessError(f"HARNESS_MAX_BYTES={named}: expected a number of bytes, 1 or more")
    raising = "" if most else "; set HARNESS_MAX_BYTES to raise the limit"
    return _Limit(most or int(named or MOST_BYTES), raising, not named)


def _limited(content: Unpacked, path: Path, limit: _Limit, taken: Callable[[], int] | None) -> bytes:
    """Returns a content of limited size, and of at most `MOST_RATIO` times the bytes `taken` for it so far."""
    out = io.BytesIO()  # `getvalue` does not copy
    while chunk := content.read(CHUNK):
        length = out.write(chunk) and out.tell()
        if length > limit.most:
            raise format_error(path, 0, f"unpacks to more than {limit.most:,} bytes{limit.raising}")
        if taken is not None and limit.of_ratio and length > max(SMALL, MOST_RATIO * taken()):
            raise format_error(path, 0, f"unpacks to more than {MOST_RATIO} times its size{limit.raising}")
    return out.getvalue()


def write_atomic(path: Path, data: bytes | str) -> None:
    """Writes a file atomically: `path` has either its old or its new content; see `write_all`."""
    write_all({path: data})


def write_all(files: Mapping[Path, bytes | str]) -> None:
    """Writes several files so that an error or an interrupt leaves all of them unchanged.

    All content is first written to temporary files, which then replace the targets atomically, one by one. If one
    cannot be replaced, those that were get their earlier files back. A process that is killed between two replacements
    leaves some files new and some old, each of them whole. Temporary files of killed processes are deleted; see
    `harness.io.staging_names`.

    Raises
    ------
    HarnessError
        A folder cannot be made or written to, a path is that of a folder, device or pipe, or the disk is full. The
        message names files that have their new content because their earlier one could not be put back.
    """
    waiting: dict[Path, Path] = {}
    before: dict[Path, Path] = {}  # a second name of a file that is replaced
    done: list[Path] = []
    path = Path()
    try:
        for path, data in files.items():
            if path.exists() and not (path.is_file() or path.is_dir()):  # the name of a device would become a file's
                raise HarnessError(f"{path}: cannot be written: a device or pipe, expected a file")
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, waiting[path] = staging_names.new_file(path)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data.encode("utf-8") if isinstance(data, str) else data)
                stream.flush()
                os.fsync(stream.fileno())
            # New files can be read by their owner only; a report is meant to be shared.
            staging_names.share(waiting[path])
        for path in waiting if len(waiting) > 1 else ():
            if os.path.lexists(path) and not path.is_dir():
                before[path] = staging_names.second_name(path)
        for path, written in waiting.items():
            done.append(path)  # before, since an interrupt may come right after
            written.replace(path)
        done.clear()
    except OSError as error:
        changed = _put_back(done, before, waiting)
        more = f"; {', '.join(map(str, changed))}: replaced already, and cannot be put back" if changed else ""
        raise HarnessError(f"{path}: cannot be written: {error.strerror or error}{more}") from None
    except BaseException:
        _put_back(done, before, waiting)
        raise
    finally:
        # Also after an interrupt; files that were moved to their targets no longer exist here.
        for left in (*waiting.values(), *before.values()):
            left.unlink(missing_ok=True)


def check_writable(folder: Path) -> None:
    """Raises HarnessError if files cannot be written below a folder, which may not exist: read-only, or a full disk.

    Writes and deletes a temporary file in the folder, or in the one above that exists.
    """
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    left = Path()
    try:
        with os_errors(there, "written"):
            descriptor, left = staging_names.new_file(there / folder.name)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(bytes(CHUNK))
                stream.flush()
                os.fsync(stream.fileno())
    finally:
        if left.name:
            left.unlink(missing_ok=True)


def _put_back(done: list[Path], before: Mapping[Path, Path], waiting: Mapping[Path, Path]) -> list[Path]:
    """Puts the earlier files back in the place of those that replaced them; returns those that stay replaced."""
    left = []
    for path in done:
        if waiting[path].exists():  # it was not replaced
            continue
        try:
            if path in before:
                before[path].replace(path)
            else:
                path.unlink()
        except OSError:
            left.append(path)
    return left


def decoded(data: bytes, path: object, line: int = 1, encoding: str = "utf-8") -> str:
    """Returns the text of a file or of a part of it, which begins at `line`; raises `FormatError` with the bad line."""
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line += error.object.count(b"\n", 0, error.start)
        reason = f"byte 0x{error.object[error.start]:02x} is not UTF-8 text"
        raise format_error(path, line, reason) from None


def sync(*paths: Path) -> None:
    """Waits until files or folders are on the disk."""
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sha256(data: bytes) -> str:
    """Returns the SHA-256 of bytes, as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """Returns the SHA-256 of a file's bytes on disk, without decompression, as 64 hexadecimal digits.

    Raises `FormatError` if it is missing, is not a file (such as an endless device), or cannot be read.
    """
    with open_uncompressed(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


_KNOWN: dict[tuple[Path, bool], tuple[tuple[int, ...], str]] = {}  # size, times and inode of a file, and its SHA-256
_SETTLED = 100_000_000  # nanoseconds after which a further change gets another time from the clock of files


def sha256_known(path: Path, *, unpacked: bool = False) -> str:
    """Returns the SHA-256 of a file, which is read again only if its size, its times or its inode have changed.

    Parameters
    ----------
    unpacked : of the decompressed content (gzip, xz, zstd), which is the same however a file is compressed.

    Raises
    ------
    FormatError
        The file is missing, is not a file, cannot be read, or its compressed data is damaged.
    """
    try:
        state = path.stat()
    except (OSError, ValueError):
        return sha256_file(path)  # which raises
    now = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    if (before := _KNOWN.get((path, unpacked))) and before[0] == now:
        return before[1]
    checksum = _sha256_unpacked(path) if unpacked else sha256_file(path)
    if abs(time.time_ns() - state.st_mtime_ns) > _SETTLED:
        _KNOWN[path, unpacked] = now, checksum
    return checksum


def _sha256_unpacked(path: Path) -> str:
    digest = hashlib.sha256()
    with open_uncompressed(path) as stream:
        content = Unpacked(stream.read)
        if not content.packed:
            return sha256_file(path)
        while chunk := content.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def known_checksums(
    more: Mapping[Path, tuple[tuple[int, ...], str]] | None = None,
) -> dict[Path, tuple[tuple[int, ...], str]]:
    """Returns what `sha256_known` remembers: the state and the SHA-256 of files as they are on disk.

    Parameters
    ----------
    more : is remembered as well.
    """
    _KNOWN.update({(path, False): entry for path, entry in (more or {}).items()})
    return {path: entry for (path, unpacked), entry in _KNOWN.items() if not unpacked}


def forget_checksums() -> None:
    """Clears what `sha256_known` remembers."""
    _KNOWN.clear()
