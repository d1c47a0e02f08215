"""Draws the public half of a lab's topics from a seed."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping

from harness.io.files import sha256


def new_seed() -> str:
    """Returns a random seed of 256 bits, as 64 hexadecimal digits."""
    return secrets.token_hex(32)


def drawn(seed: str, topics: Iterable[str], clusters: Mapping[str, str] | None = None) -> frozenset[str]:
    """Draws the public topics: the half with the lowest SHA-256 of `SEED:TOPIC`; the other half is held out.

    Parameters
    ----------
    clusters : topic -> its cluster; topics of a cluster, such as translations of one topic, are drawn together.

    Examples
    --------
    >>> sorted(drawn("0" * 64, ["T.1", "T.2", "T.3", "T.4"]))
    ['T.3', 'T.4']
    """
    group = {topic: (clusters or {}).get(topic, topic) for topic in topics}
    order = sorted(set(group.values()), key=lambda name: sha256(f"{seed}:{name}".encode()))
    public = set(order[: (len(order) + 1) // 2])
    return frozenset(topic for topic, name in group.items() if name in public)
