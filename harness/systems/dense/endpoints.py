"""Encoders behind an endpoint of `conf/llm/`, such as OpenAI's; the client caches their vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from harness.errors import HarnessError
from harness.store.cost import note
from harness.store.llm import Client, load_endpoint
from harness.systems.dense.engines import EncodedTexts, EncoderSettings, TextEncoder
from harness.systems.dense.models import AvailableModel

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
        remedy = (
            f"{lacking[0]}, and run the same command again" if lacking else "mode live asks for them, for its price"
        )
        cache = None if self.cache is None else Path(self.cache).expanduser()
        return Client(endpoint, "replay" if lacking else self.mode, self.budget, cache, remedy)


def encoder_of(model: AvailableModel, settings: EncoderSettings, calls: EndpointCalls) -> TextEncoder:
    """Returns the encoder of an endpoint.

    The client caches one vector for each text, so that no text is paid for twice and a run can be repeated without an
    API key. The maximum length of a text is unknown, and so is the number of dimensions before the first request.

    Raises
    ------
    HarnessError
        A setting cannot be changed because the server fixes it; or, when encoding, vectors are missing and cannot be
        requested.
    """
    plain = asdict(EncoderSettings())
    given = [key for key, value in asdict(settings).items() if key not in _OURS and value != plain[key]]
    if given:
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
