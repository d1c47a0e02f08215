"""What a lab with private judgments draws from its secret key: the noise of shown means, and the public topics.

The key is `private/.seed`. Its SHA-256 is the seed of the held-out topics, which is revealed at the end, and the
SHA-256 of the seed is in the first line of the journal. So one line commits to both, and the revealed seed does not
tell the noise.
"""

from __future__ import annotations

import hmac
import math
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping

from harness.io.files import sha256

SHARE = 0.1  # the most by which one judgment moves a mean, as a share of the width of its noise


def new_key() -> str:
    """Returns a random key of 256 bits, as 64 hexadecimal digits."""
    return secrets.token_hex(32)


def seed_from(key: str) -> str:
    """Returns the seed of the held-out topics."""
    return sha256(key.encode())


def noise(key: str, *of: str) -> float:
    """Returns the noise of a mean in widths, uniform from -1/2 to 1/2; HMAC-SHA-256 by the key, equal for equal texts.

    Parameters
    ----------
    of : SHA-256 of the judgments, team, SHA-256 of the run, measure.

    Examples
    --------
    >>> round(noise("0" * 64, "2" * 64, "DPRL", "1" * 64, "nDCG"), 4)
    -0.4046
    """
    digest = hmac.digest(key.encode(), "\0".join(of).encode(), "sha256")
    return int.from_bytes(digest[:8]) / 2**64 - 0.5


def least_width(n: int, sensitivity: float = 1.0) -> float:
    """Returns the least width of the noise of means over `n` topics: 10 / n for scores from 0 to 1.

    Rounded up to two digits, so that it hardly tells how many topics are judged.

    Examples
    --------
    >>> [least_width(n) for n in (6, 39, 42, 77, 1000)]
    [1.7, 0.26, 0.24, 0.13, 0.01]
    """
    exact = sensitivity / (SHARE * n)
    unit = 10.0 ** (math.floor(math.log10(exact) + 1e-9) - 1)
    return float(f"{math.ceil(exact / unit - 1e-9) * unit:.2g}")


def largest(topics: Iterable[str], clusters: Mapping[str, str] | None = None) -> int:
    """Returns the number of topics in the largest cluster, which one judgment may change together; at least 1.

    Examples
    --------
    >>> largest(["T.1", "T.2", "T.3"]), largest(["T.1", "T.2", "T.3"], {"T.1": "a", "T.2": "b", "T.3": "a"})
    (1, 2)
    """
    return max(Counter((clusters or {}).get(topic, topic) for topic in topics).values(), default=1)


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
