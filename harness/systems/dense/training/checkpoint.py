"""Training checkpoints: written atomically and verified against a SHA-256 checksum when read.

Files are streamed in blocks, because the state of a large model should not be held in memory twice.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, cast

import torch

from harness.errors import HarnessError
from harness.io import staged

_MAGIC = b"harness checkpoint 1\n"
_DIGEST = 32  # bytes of the SHA-256 between the magic number and the content in torch's format
_BEGIN = len(_MAGIC) + _DIGEST
_PART = 1 << 20


def check_identity(path: Path, found: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raises HarnessError if a checkpoint's identity differs from the expected one in any of its keys."""
    for key, value in wanted.items():
        if found.get(key) != value:
            raise HarnessError(
                f"{path}: the checkpoint belongs to another {key} ({str(found.get(key))[:60]!r}, here {value[:60]!r}); "
                "take the one it was trained with, or train again in an empty folder"
            )


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Writes values and tensors to a checkpoint file atomically: a failed write leaves any previous file unchanged.

    Raises
    ------
    HarnessError
        The folder cannot be written to, or the disk is full.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = staged.new_file(path)
        with os.fdopen(descriptor, "w+b") as stream:
            stream.write(_MAGIC + bytes(_DIGEST))
            part = _Part(stream)
            try:
                torch.save(dict(content), cast(IO[bytes], part))
            except RuntimeError:  # torch reports a wrong file position instead of the cause
                if part.fault is not None:
                    raise part.fault from None
                raise
            digest = part.digest()
            stream.seek(len(_MAGIC))
            stream.write(digest)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        raise HarnessError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def whole(path: Path) -> bool:
    """Returns whether a checkpoint file is missing, and thus still to be written, or intact by its checksum."""
    if not path.exists():
        return True
    with path.open("rb") as stream:
        return not _fault(stream)


def read(path: Path) -> dict[str, Any]:
    """Reads a checkpoint that `write` made; never runs code that the file contains.

    Raises
    ------
    HarnessError
        The file is missing, is not a checkpoint, or is damaged.
    """
    if not path.exists():
        raise HarnessError(f"{path}: no such checkpoint")
    try:
        with path.open("rb") as stream:
            if fault := _fault(stream):
                raise HarnessError(f"{path}: not a checkpoint, or damaged: {fault}")
            content = torch.load(cast(IO[bytes], _Part(stream)), map_location="cpu", weights_only=True)
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read: {error.strerror or error}") from None
    return dict(content)


def _fault(stream: IO[bytes]) -> str:
    """Describes the damage of an open checkpoint file; empty if the file is intact."""
    if stream.read(len(_MAGIC)) != _MAGIC:
        return "it begins otherwise"
    claimed = stream.read(_DIGEST)
    return "" if _Part(stream).digest() == claimed else "its checksum does not fit"


class _Part(io.RawIOBase):
    """File object that exposes only the content after the magic number and the checksum."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.fault: OSError | None = None  # error of the last failed write
        stream.seek(_BEGIN)

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401
        return int(self._stream.readinto(buffer))  # type: ignore[attr-defined]

    def write(self, data: Any) -> int:  # noqa: ANN401
        try:
            return self._stream.write(data)
        except OSError as error:
            self.fault = error
            raise

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._stream.seek(offset + _BEGIN * (whence == os.SEEK_SET), whence) - _BEGIN

    def tell(self) -> int:
        return self._stream.tell() - _BEGIN

    def digest(self) -> bytes:
        """Returns the SHA-256 of the content."""
        self.seek(0)
        found = hashlib.sha256()
        while block := self._stream.read(_PART):
            found.update(block)
        return found.digest()
