"""What tests of runs and judgments have in common."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.data.trec import Run
from harness.errors import HarnessError


def message(call: Callable[[], object]) -> str:
    with pytest.raises(HarnessError) as caught:
        call()
    return str(caught.value)


def lines(run: Run) -> list[tuple[str, str, float, str | None]]:
    posts = [None] * len(run) if run.context is None else [post.decode() for post in run.context.tolist()]
    docs = [doc.decode() for doc in run.doc.tolist()]
    return [*zip((run.topics[topic] for topic in run.topic), docs, run.score.tolist(), posts, strict=True)]


def same(one: Run, two: Run) -> bool:
    """Equal but for the checksum, to the last bit of the scores."""
    bits = one.score.tobytes() == two.score.tobytes()
    return bits and (one.name, one.topics, lines(one)) == (two.name, two.topics, lines(two))
