"""A measure: the reciprocal rank that a reader who stops at a good document is expected to reach."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.scoring.measures import register
from harness.scoring.rankings import Judged, Measure, Ranked


def cascade(ranked: Ranked, judged: Judged, k: int | None) -> npt.NDArray[np.float64]:
    """Expected 1 / rank of the document that a reader stops at (Chapelle et al. 2009), shape (topics,).

    Who reads a document of grade g stops there with probability (2^g - 1) / 2^G, G being the best grade of all topics.
    """
    best = 2.0 ** judged.ideal.gain.max(initial=0.0)
    out, reading = np.zeros(ranked.topics), np.ones(ranked.topics)
    head = ranked.head(k)
    for topic, rank, gain in zip(ranked.topic[head], ranked.rank[head], ranked.gain[head], strict=True):
        stops = (2.0**gain - 1.0) / best
        out[topic] += reading[topic] * stops / (rank + 1)
        reading[topic] *= 1.0 - stops
    return out


def register_all() -> None:
    """Make the measure known; `--measures Cascade@10` and `measures:` of a protocol may then name it."""
    register(Measure("Cascade", cascade, graded=True))
