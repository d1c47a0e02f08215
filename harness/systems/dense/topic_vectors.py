"""Vectors of topics, stored like those of documents because fusions, re-rankers and sweeps reuse them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.io.files import sha256
from harness.systems.dense import vectors
from harness.systems.dense.documents import EncoderSource, Encoding
from harness.systems.dense.engines import TextEncoder


class Queries(NamedTuple):
    """Vectors of texts.

    Attributes
    ----------
    values : float32, shape (vectors, dimensions).
    cut : number of truncated texts.
    start : int64, shape (texts + 1,). Where each text's vectors begin in `values`, and their end.
    """

    values: npt.NDArray[np.float32]
    cut: int
    start: npt.NDArray[np.int64]

    def sizes(self) -> list[int]:
        """Returns the number of vectors of each text."""
        return [int(size) for size in np.diff(self.start)]


def vectors_of(texts: Sequence[str], source: EncoderSource, loaded: TextEncoder) -> Queries:
    """Returns the vectors of topics' texts, from the store or computed.

    Parameters
    ----------
    texts : non-empty texts.

    Raises
    ------
    HarnessError
        A vector is not finite, or the disk is full.
    """
    made = vectors.made(
        lambda: ((str(number), text) for number, text in enumerate(texts)),
        Encoding(source, "query", lambda: loaded),
        {"texts": sha256("\0".join(texts).encode("utf-8", "surrogatepass")), **source.spec()},
        kind="query-vectors",
        single=source.single(),
    )
    return Queries(np.asarray(made.vectors.values), made.cut, made.vectors.start)
