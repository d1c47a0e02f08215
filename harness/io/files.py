"""Reading and writing files: compression, checksums, atomic writes, and where things live."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from harness.errors import HarnessError, format_error
from harness.io.compression import CHUNK, Unpacked, opened

MOST_BYTES = 1 << 31  # of one file that is read whole; a run of 10 million lines has some 500 MB
MOST_RATIO = 100
SMALL = 1 << 28  # bytes


@cache
def data_root() -> Path:
    """Returns the folder that holds `conf/`, `topics/`, `qrels/` and the embedded `runs/`.

    Inside an installed wheel they travel in `harness/_data`; in a checkout they lie beside the package.
    """
    package = Path(__file__).resolve().parents[1]
    inside = package / "_data"
    return inside if inside.is_dir() else package.parent


def cache_root() -> Path:
    """Returns the folder for downloads: `HARNESS_CACHE`, else the user's cache folder (XDG)."""
    named = os.environ.get("HARNESS_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "mathir-harness"


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """Returns the whole content of a file, unpacked if it is compressed; see `harness.io.compression`.

    Parameters
    ----------
    most : the largest content in bytes; default: what the environment variable `HARNESS_MAX_BYTES` says, else
        `MOST_BYTES`, of which a compressed file may unpack to no more than `MOST_RATIO` times its own size once it is
        beyond `SMALL`. Run files of real systems unpack to 5 to 20 times their size.

    Raises
    ------
    FormatError
        The file is missing, is a folder or device, cannot be read, is too large, or its compressed data is damaged or
        cut short.
    """
    named = os.environ.get("HARNESS_MAX_BYTES", "")
    if named and not (named.isascii() and named.isdigit() and int(named)):
        raise HarnessError(f"HARNESS_MAX_BYTES={named}: expected a number of bytes, 1 or more")
    limit = most or int(named or MOST_BYTES)
    raising = "" if most else "; set HARNESS_MAX_BYTES to raise the limit"
    with opened(path) as raw:
        content = Unpacked(raw.read)
        if raw.seekable() and not content.packed:
            size = os.fstat(raw.fileno()).st_size
            if size > limit:
                raise format_error(path, 0, f"larger than {limit:,} bytes{raising}")
            raw.seek(0)
            return raw.read(size) + raw.read()  # of a known size, since a read to the end makes two copies on the way
        out = io.BytesIO()  # gives its bytes away without copying them
        while chunk := content.read(CHUNK):
            length = out.write(chunk) and out.tell()
            if length > limit:
                raise format_error(path, 0, f"unpacks to more than {limit:,} bytes{raising}")
            if content.packed and not (most or named) and length > max(SMALL, MOST_RATIO * content.taken):
                raise format_error(path, 0, f"unpacks to more than {MOST_RATIO} times its size{raising}")
        return out.getvalue()


def write_atomic(path: Path, data: bytes | str) -> None:
    """Writes `data` so that `path` holds either its old content or all of the new, never a part; see `write_all`."""
    write_all({path: data})


def write_all(files: Mapping[Path, bytes | str]) -> None:
    """Writes several files so that a fault while writing leaves all of them as they were.

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
    """Returns the SHA-256 of bytes, as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """Returns the SHA-256 of a file's bytes as they lie on the disk, as 64 hexadecimal digits.

    Raises `FormatError` if it is missing, is none (such as a device, which might never end), or cannot be read.
    """
    with opened(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
