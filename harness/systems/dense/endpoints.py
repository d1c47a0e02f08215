"""Encoders behind an endpoint of `conf/llm/`, such as OpenAI's, through the client that keeps vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from harness.errors import HarnessError
from harness.store.cost import note
from harness.store.llm import Client, load_endpoint
from harness.systems.dense.engines import Encoded, Encoder, Settings
from harness.systems.dense.models import Model

_OURS = ("prefixes", "normalise")  # all else is the server's


@dataclass(frozen=True)
class Calls:
    """How the vectors of an endpoint are had.

    Attributes
    ----------
    mode : `replay`: those that are kept, and no others; `live`: others are asked for, and paid for; `dry`: they are
        counted.
    budget : the most that may be spent, in the unit of the endpoint's prices.
    cache : folder of what is kept; None for that of the user's cache.
    """

    mode: Literal["live", "replay", "dry"] = "replay"
    budget: float | None = None
    cache: str | None = None

    def client(self, name: str) -> Client:
        """The client of an endpoint; one that is asked for more than is kept, and may not or cannot, says what to do.

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


def encoder_of(found: Model, settings: Settings, calls: Calls) -> Encoder:
    """Returns the encoder of an endpoint.

    Vectors are kept by the client, one for each text, so that nothing is paid for twice and a run repeats without a
    key. The server says neither how much of a text it reads nor, before it is asked, how many dimensions there are.

    Raises
    ------
    HarnessError
        A setting is the server's own; later, vectors are missing and may not or cannot be asked for.
    """
    plain = asdict(Settings())
    given = [key for key, value in asdict(settings).items() if key not in _OURS and value != plain[key]]
    if given:
        raise HarnessError(f"key {given[0]!r}: model {found.name} is an endpoint, which has its own")
    client = calls.client(found.name)

    def encoded(texts: Sequence[str], role: str) -> Encoded:
        prefix = (settings.prefixes or {}).get(role, "")
        vectors = client.embed([prefix + text for text in texts])
        spent = client.spent
        told = {"model": client.endpoint.model, "calls": spent.calls, "tokens": spent.tokens, "cost": spent.cost}
        note(f"vectors of {found.name}", told)
        if settings.normalise:
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        if not np.isfinite(vectors).all():
            raise HarnessError(f"model {found.name}: a vector has numbers that are not finite")
        return Encoded(vectors.astype(np.float32), np.zeros(len(texts), bool))

    return Encoder(found.name, 0, 0, encoded)


def estimate(name: str, settings: Settings, calls: Calls, characters: int, texts: Iterable[tuple[str, str]]) -> str:
    """Returns what the vectors of texts, each with its role, would take that are not kept; asks nobody.

    Parameters
    ----------
    characters : that are read of an input; 0 for all.
    """
    client = Calls("dry", cache=calls.cache).client(name)
    prefixes = settings.prefixes or {}
    client.embed([f"{prefixes.get(role, '')}{text}"[: characters or None] for role, text in texts])
    return str(client.estimates["embedding"])
