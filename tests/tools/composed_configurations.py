"""The composed configurations, one digest each: `python tests/tools/composed_configurations.py` writes them anew.

They change only on purpose: what a name means is part of every published number that names it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from harness.io import config

FILE = Path(__file__).parents[1] / "data" / "composed.txt"
GROUPS = ("system", "collection", "corpus", "protocol")


def digests() -> dict[str, str]:
    """Returns `group/name` -> a checksum of the composed keys and values."""
    return {f"{group}/{name}": _digest(config.load(group, name)[0]) for group in GROUPS for name in config.names(group)}


def _digest(mapping: object) -> str:
    return hashlib.sha256(json.dumps(_ordered(mapping), default=str).encode()).hexdigest()[:16]


def _ordered(value: object) -> object:
    if isinstance(value, dict):
        return [[repr(key), _ordered(inner)] for key, inner in sorted(value.items(), key=repr)]
    return [_ordered(inner) for inner in value] if isinstance(value, list) else value


if __name__ == "__main__":
    lines = [f"{name} {digest}\n" for name, digest in sorted(digests().items())]
    FILE.write_text("".join(lines), encoding="utf-8")
