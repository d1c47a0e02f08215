"""Encoders of token vectors for late interaction: ColBERT-like models, by sentence-transformers' MultiVectorEncoder.

It reads the models that sentence-transformers, PyLate (up to 1.x) and Stanford's ColBERT save. A model's own files
define its prefixes, lengths, query expansion and the words whose vectors are left out; `TokenSettings` overrides some.
All vectors have length 1.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from harness.errors import HarnessError
from harness.io import checks
from harness.io.modules import installed
from harness.store import code
from harness.systems.dense import documents, encoder, models, word_pieces
from harness.systems.dense.engines import TOKENS, EncodedTexts, Precision, Prefixes, TextEncoder, finite_texts
from harness.systems.dense.models import AvailableModel

PROJECTIONS = ("model", "none")
_Length = Annotated[int, partial(checks.check_whole_number, low=4)]  # a word piece, a prefix and two special tokens


@dataclass(frozen=True)
class TokenSettings(checks.Checked):
    """Overrides of a model's own settings; None keeps the model's setting.

    Attributes
    ----------
    length, query_length : maximum word pieces of a document, and of a query. A model that expands queries pads them to
        the latter.
    prefixes : role (`query`, `document`) -> prefix of its texts.
    precision : number format of weights and arithmetic; vectors are always float32.
    projection : `model`: the model's own projection of token vectors. `none`: no projection; the transformer's token
        vectors as they are, for models that were not trained for late interaction.

    Raises
    ------
    HarnessError
        A value is invalid.

    Examples
    --------
    >>> TokenSettings(projection="random")
    Traceback (most recent call last):
    harness.errors.HarnessError: key 'projection' is 'random'; known: model, none
    """

    length: _Length | None = None
    query_length: _Length | None = None
    prefixes: Prefixes | None = None
    precision: Precision = "float32"
    projection: Annotated[str, partial(checks.choice, known=PROJECTIONS)] = "model"


class TokenModelSource(documents.EncoderSource):
    """A model of token vectors and its settings; see `documents.EncoderSource`."""

    def load(self) -> TextEncoder:
        """Loads the encoder."""
        return load_token_encoder(self.model, self.settings, self.device, self.tokens)  # type: ignore[arg-type]

    def identity(self) -> dict[str, Any]:
        """Returns the inputs of vectors besides code and arithmetic: the model and the settings."""
        return {**models.find_model(self.model).identity, **asdict(self.settings)}

    def code(self) -> str:
        """Returns the fingerprint of the code that computes vectors."""
        return code.of(__name__)

    def single(self) -> bool:
        """Returns False: a text has as many vectors as word pieces."""
        return False


def missing() -> list[str]:
    """Returns the missing packages, one line each; for the key `needs` of a configuration."""
    if lines := encoder.missing():
        return [line.replace("[sentences]", "[late]") for line in lines]
    if installed("sentence_transformers.multi_vector_encoder"):
        return []
    return ["sentence-transformers 6 or later is not installed: pip install 'mathir-harness[late]'"]


def load_token_encoder(
    model: str, settings: TokenSettings | None = None, device: str = "cpu", tokens: int = 0
) -> TextEncoder:
    """Loads a model of token vectors.

    Parameters
    ----------
    model : see `harness.systems.dense.models.find_model`.
    device : `cpu` or `cuda`.
    tokens : maximum word pieces in one forward pass; 0 for the default of the device.

    Raises
    ------
    HarnessError
        A package is missing, there is no such model, it is not one of late interaction, its files are damaged, or it
        does not allow a setting.

    Examples
    --------
    >>> colbert = load_token_encoder("lightonai/GTE-ModernColBERT-v1")  # doctest: +SKIP
    >>> found = colbert.encoded(["Every finite group of prime order is cyclic."], "document")  # doctest: +SKIP
    >>> found.vectors.shape, found.start.tolist()  # doctest: +SKIP
    ((12, 128), [0, 12])
    """
    settings = settings or TokenSettings()
    if lines := missing():
        raise HarnessError(lines[0])
    stored = models.find_model(model)
    if stored.engine != "transformers":
        raise HarnessError(f"model {stored.name}: has no token vectors; expected a ColBERT-like model")
    if settings.projection == "model" and not _projects(stored.folder):
        raise HarnessError(
            f"model {stored.name}: has no projection of token vectors, so it was not trained for late interaction; say "
            "projection=none to compare the token vectors of its transformer"
        )
    encoder.check_weights(stored)
    loaded = _multi_vector_encoder(stored, settings, device)
    lengths = _lengths(loaded, settings, stored.name)
    prefixes = word_pieces.prefixes_of(settings.prefixes, loaded.prompts)
    most = tokens or TOKENS[device]

    def encoded(texts: Sequence[str], role: str) -> EncodedTexts:
        whole = [encoder.utf8(text) for text in texts]
        if not whole:
            return EncodedTexts(np.empty((0, dimensions), np.float32), np.zeros(0, bool), np.zeros(1, np.int64))
        size, length = word_pieces.word_piece_counts(loaded, whole, prefixes[role]), lengths[role]
        read = np.minimum(size, length) if role == "document" else np.full(len(size), length)

        def encode(part: npt.NDArray[np.int64]) -> list[Any]:
            return _encode(loaded, [whole[at] for at in part.tolist()], role, prefixes[role])

        out = word_pieces.in_passes(stored.name, read, most, encode)
        start = np.concatenate(([0], np.cumsum([len(rows) for rows in out])))
        values = np.concatenate(out).astype(np.float32, copy=False)
        if settings.precision != "float32":
            values = values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)
        return EncodedTexts(finite_texts(values, whole, stored.name, start), size > length, start)

    dimensions = int(_encode(loaded, ["a"], "query", "")[0].shape[1])
    return TextEncoder(stored.name, lengths["document"], dimensions, encoded, lengths["query"])


def _encode(loaded: Any, texts: list[str], role: str, prefix: str) -> list[Any]:  # noqa: ANN401
    """Returns the vectors of each text, float32, shape (pieces, dimensions), in one forward pass."""
    encode = loaded.encode_query if role == "query" else loaded.encode_document
    vectors = encode(texts, prompt=prefix, batch_size=len(texts), show_progress_bar=False)
    return [rows.float().cpu().numpy() for rows in vectors]


def _projects(folder: Path) -> bool:
    """Returns whether the files of a model define how its token vectors are projected or masked."""
    if kinds := models.module_kinds(folder):
        return bool(kinds & {"Dense", "MultiVectorMask"}) and "Pooling" not in kinds
    architectures = json.loads((folder / "config.json").read_bytes()).get("architectures") or []
    return any(name == "HF_ColBERT" or str(name).endswith("ForRetrieval") for name in architectures)


def _multi_vector_encoder(stored: AvailableModel, settings: TokenSettings, device: str) -> Any:  # noqa: ANN401
    import torch
    from sentence_transformers import MultiVectorEncoder

    more: dict[str, Any] = {"device": device, "local_files_only": True}
    own = {"dtype": getattr(torch, settings.precision)}

    def make() -> Any:  # noqa: ANN401
        if settings.projection != "none":
            return MultiVectorEncoder(str(stored.folder), model_kwargs=own, **more)
        from sentence_transformers.base.modules import Normalize, Transformer
        from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

        place = str(models.transformer_folder(stored.folder))
        first = Transformer(place, model_kwargs={**own, "local_files_only": True})
        modules = [first, MultiVectorMask(), Normalize(module_input_name="token_embeddings")]
        return MultiVectorEncoder(modules=modules, **more)

    return word_pieces.opened(stored, make, settings.precision)


def _lengths(loaded: Any, settings: TokenSettings, name: str) -> dict[str, int]:  # noqa: ANN401
    """Sets the maximum word pieces of documents and queries, and returns them by role."""
    first = loaded[0]
    positions = getattr(first.auto_model.config, "max_position_embeddings", None)
    for key in ("length", "query_length"):
        if positions is not None and (getattr(settings, key) or 0) > positions:
            raise HarnessError(
                f"key {key!r} is {getattr(settings, key)}, and model {name} reads {positions} word pieces at most"
            )
    most = int(min(first.max_seq_length or 512, positions or 512))
    first.document_length = settings.length or first.document_length or most
    expansion = first.query_expansion
    if settings.query_length is not None and expansion is not None:
        first.query_length = settings.query_length
        first.query_expansion = {**expansion, "length": settings.query_length}
    else:
        first.query_length = settings.query_length or first.query_length or (most if expansion is None else None)
    fixed = first.query_expansion["length"] if first.query_expansion is not None else None
    return {"document": int(first.document_length), "query": int(fixed or first.query_length)}
