"""Weights and the state of a training on disk: written in one step, checked against a checksum when they are read."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from harness.errors import HarnessError
from harness.io.files import read_bytes, write_atomic
from harness.systems.mathamr.encoder.model import Encoder
from harness.systems.mathamr.encoder.settings import Settings

_MAGIC = b"MathAMR checkpoint 1\n"
_DIGEST = 32  # bytes of SHA-256 behind the magic, before torch's own format


def save_model(path: Path, model: Encoder, identity: Mapping[str, str]) -> None:
    """Write the weights of a model with its settings and what it belongs to."""
    write(path, {"model": model.state_dict(), "settings": asdict(model.settings), "identity": dict(identity)})


def load_model(path: Path, identity: Mapping[str, str]) -> Encoder:
    """The inverse of `save_model`.

    Raises
    ------
    HarnessError
        The file is damaged or no checkpoint, or belongs to something else, such as another vocabulary.
    """
    content = read(path)
    check_identity(path, content.get("identity", {}), identity)
    try:
        model = Encoder(Settings(**content["settings"]))
        model.load_state_dict(content["model"])
    except (KeyError, TypeError, RuntimeError) as error:
        raise HarnessError(f"{path}: no checkpoint of this model: {str(error).splitlines()[0]}") from None
    return model.eval()


def check_identity(path: Path, found: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raise HarnessError if a checkpoint belongs to something else than is wanted."""
    for key, value in wanted.items():
        if found.get(key) != value:
            raise HarnessError(
                f"{path}: the checkpoint belongs to another {key} ({str(found.get(key))[:60]!r}, here {value[:60]!r}); "
                "take the one it was trained with, or train again in an empty folder"
            )


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Write values and tensors; the file is there whole or as it was before."""
    buffer = io.BytesIO()
    torch.save(dict(content), buffer)
    payload = buffer.getvalue()
    write_atomic(path, _MAGIC + hashlib.sha256(payload).digest() + payload)


def whole(path: Path) -> bool:
    """Whether a file is a checkpoint and has its checksum; so is what is not there, as it will be written."""
    return not path.exists() or _payload(path.read_bytes()) is not None


def _payload(data: bytes) -> bytes | None:
    begin = len(_MAGIC) + _DIGEST
    right = data.startswith(_MAGIC) and hashlib.sha256(data[begin:]).digest() == data[len(_MAGIC) : begin]
    return data[begin:] if right else None


def read(path: Path) -> dict[str, Any]:
    """The inverse of `write`; no code in the file is run.

    Raises
    ------
    HarnessError
        There is no such file, it is something else, or it is damaged.
    """
    if not path.exists():
        raise HarnessError(f"{path}: no such checkpoint")
    data = read_bytes(path)
    if not data.startswith(_MAGIC):
        raise HarnessError(f"{path}: not a checkpoint, or damaged: it begins otherwise")
    payload = _payload(data)
    if payload is None:
        raise HarnessError(f"{path}: not a checkpoint, or damaged: its checksum does not fit")
    content = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    return dict(content)
