"""Chance that is the same everywhere: a number for each name, whatever else was drawn before it."""

from __future__ import annotations

import xxhash


def draw(*names: object) -> float:
    """A number in [0, 1), uniform over names and the same for the same ones.

    >>> draw(0, "p1") == draw(0, "p1"), draw(0, "p1") == draw(1, "p1")
    (True, False)
    """
    text = "\0".join(map(str, names)).encode("utf-8", "surrogatepass")
    return (xxhash.xxh3_64_intdigest(text) >> 11) / (1 << 53)
