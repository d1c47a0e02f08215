"""Reading and writing files: compression, checksums, atomic writes, and where things live."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from harness.errors import HarnessError, format_error

GZIP_MAGIC = b"\x1f\x8b"
XZ_MAGIC = b"\xfd7zXZ\x00"


def data_root() -> Path:
    """The folder that holds `conf/`, `topics/`, `qrels/` and the embedded `runs/`.

    Inside an installed wheel they travel in `harness/_data`; in a checkout they lie beside the package.
    """
    package = Path(__file__).resolve().parent
    inside = package / "_data"
    return inside if inside.is_dir() else package.parent


def cache_root() -> Path:
    """The folder for downloads: `HARNESS_CACHE`, else the user's cache folder (XDG)."""
    named = os.environ.get("HARNESS_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "mathir-harness"


def read_bytes(path: Path) -> bytes:
    """The whole content of a file, unpacked if it is gzip or xz (told by its first bytes, not its name).

    Raises
    ------
    FormatError
        The file is missing, is a folder, cannot be read, or its compressed data is damaged or cut short.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise format_error(path, 0, "no such file") from None
    except IsADirectoryError:
        raise format_error(path, 0, "is a folder, expected a file") from None
    except OSError as error:
        raise format_error(path, 0, f"cannot be read: {error.strerror or error}") from None
    try:
        if raw.startswith(GZIP_MAGIC):
            return gzip.decompress(raw)
        if raw.startswith(XZ_MAGIC):
            return lzma.decompress(raw)
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise format_error(path, 0, f"compressed file is cut short or damaged: {error}") from None
    return raw


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write `data` so that `path` holds either its old content or all of the new, never a part; see `write_all`."""
    write_all({path: data})


def write_all(files: Mapping[Path, bytes | str]) -> None:
    """Write several files so that a fault while writing leaves all of them as they were.

    Everything is written beside its place first; only then are the files put there, each in one step.

    Raises
    ------
    HarnessError
        A folder cannot be made or written to, or the disk is full.
    """
    staged: dict[Path, Path] = {}
    path = Path()
    try:
        for path, data in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
            staged[path] = Path(temporary)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data.encode("utf-8") if isinstance(data, str) else data)
                stream.flush()
                os.fsync(stream.fileno())
            # mkstemp makes files that only their owner can read; a report is meant to be shared.
            umask = os.umask(0)
            os.umask(umask)
            staged[path].chmod(0o666 & ~umask)
        for path, written in staged.items():
            written.replace(path)
    except OSError as error:
        raise HarnessError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        # Also when the person stops it; those that were put in their places are gone from here.
        for left in staged.values():
            left.unlink(missing_ok=True)


def sha256(data: bytes) -> str:
    """The SHA-256 of bytes, as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """The SHA-256 of a file's bytes as they lie on the disk, as 64 hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
