"""Vectors of topics, stored like those of documents because fusions, re-rankers and sweeps reuse them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.io.files import sha256
from harness.store import code
from harness.systems import hardware
from harness.systems.dense import engines, vectors
from harness.systems.dense.documents import Encoding, Source
from harness.systems.dense.engines import Encoder


class Queries(NamedTuple):
    """Vectors of texts, float32, shape (texts, dimensions), and the number of truncated texts."""

    values: npt.NDArray[np.float32]
    cut: int


def vectors_of(texts: Sequence[str], source: Source, loaded: Encoder) -> Queries:
    """Returns the vectors of topics' texts, from the store or computed.

    Parameters
    ----------
    texts : non-empty texts.

    Raises
    ------
    HarnessError
        A vector is not finite, or the disk is full.
    """
    spec = {
        "texts": sha256("\0".join(texts).encode("utf-8", "surrogatepass")),
        "model": source.identity(),
        "arithmetic": source.arithmetic(),
        "tokens": source.tokens,
        "versions": [code.of(engines.__name__), hardware.torch_version()],
    }
    made = vectors.made(
        lambda: ((str(number), text) for number, text in enumerate(texts)),
        Encoding(source, "query", lambda: loaded),
        spec,
        kind="query-vectors",
    )
    return Queries(np.asarray(made.vectors.values), made.cut)
