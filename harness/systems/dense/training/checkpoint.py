"""Training checkpoints: written atomically and verified against a SHA-256 checksum when read.

Files are streamed, because the state of a large model should not be held in memory twice. The checksum stands behind
the content in torch's format, where torch does not look.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import torch

from harness.errors import HarnessError
from harness.io import staging_names

_MAGIC = b"harness checkpoint 2\n"
_END = len(_MAGIC) + 32  # bytes behind the content: the magic number and the SHA-256
_PART = 1 << 20


def check_identity(path: Path, given: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raises HarnessError if a checkpoint's identity differs from the expected one in any of its keys."""
    for key, value in wanted.items():
        if given.get(key) != value:
            raise HarnessError(
                f"{path}: the checkpoint belongs to another {key} ({str(given.get(key))[:60]!r}, here {value[:60]!r}); "
                "take the one it was trained with, or train again in an empty folder"
            )


def write_checkpoint(path: Path, content: Mapping[str, Any]) -> None:
    """Writes values and tensors to a checkpoint file atomically: a failed write leaves any previous file unchanged.

    Raises
    ------
    HarnessError
        The folder cannot be written to, or the disk is full.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = staging_names.new_file(path)
        with os.fdopen(descriptor, "w+b") as stream:
            torch.save(dict(content), stream)
            digest = _digest(stream, stream.seek(0, os.SEEK_END))
            stream.write(_MAGIC + digest)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except (OSError, RuntimeError) as error:  # torch reports a wrong file position if the disk is full
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise HarnessError(f"{path}: cannot be written: {reason}") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def is_intact_checkpoint(path: Path) -> bool:
    """Returns whether a checkpoint file is missing, and thus still to be written, or intact by its checksum."""
    if not path.exists():
        return True
    with path.open("rb") as stream:
        return not _fault(stream)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Reads a checkpoint that `write_checkpoint` made; never runs code that the file contains.

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
            stream.seek(0)
            content = torch.load(stream, map_location="cpu", weights_only=True)
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read: {error.strerror or error}") from None
    return dict(content)


def _fault(stream: IO[bytes]) -> str:
    """Describes the damage of an open checkpoint file; empty if the file is intact."""
    size = stream.seek(0, os.SEEK_END) - _END
    stream.seek(max(size, 0))
    end = stream.read()
    if size < 0 or not end.startswith(_MAGIC):
        return "it ends otherwise"
    return "" if _digest(stream, size) == end[len(_MAGIC) :] else "its checksum does not fit"


def _digest(stream: IO[bytes], size: int) -> bytes:
    """Returns the SHA-256 of the first bytes of a file, and leaves its position behind them."""
    stream.seek(0)
    digest = hashlib.sha256()
    while block := stream.read(min(_PART, size)):
        digest.update(block)
        size -= len(block)
    return digest.digest()
