"""Records of scores: a row for each run and topic, a column for each measure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.reports.parts import score_records
from harness.scoring.protocol import Protocol
from harness.scoring.scores import Scores

KEYS = ("collection", "edition", "protocol", "run", "topic")


def scored(
    run: str, protocol: Protocol, values: Sequence[Sequence[float]], collection: str = "c", edition: str = "e"
) -> Scores:
    topics = tuple(f"T{n + 1}" for n in range(len(values)))
    return Scores(run, collection, edition, protocol, protocol.measures, topics, np.array(values))


def test_each_measure_has_a_column() -> None:
    two = Protocol("two", ("AP", "P@5"))
    found = score_records([scored("a", two, [[0.25, 0.2], [1.0, np.nan]]), scored("b", two, [[0.5, 0.4], [0.0, 0.0]])])
    assert found.columns == (*KEYS, "AP", "P@5")
    assert found.rows == (
        ("c", "e", "two", "a", "T1", 0.25, 0.2),
        ("c", "e", "two", "a", "T2", 1.0, None),  # the protocol excludes the topic
        ("c", "e", "two", "b", "T1", 0.5, 0.4),
        ("c", "e", "two", "b", "T2", 0.0, 0.0),
    )


def test_a_measure_that_only_one_protocol_has_is_empty_in_rows_of_the_other() -> None:
    found = score_records(
        [scored("a", Protocol("p", ("AP",)), [[0.25]]), scored("a", Protocol("q", ("RR", "AP")), [[0.5, 0.1]], "d")]
    )
    assert found.columns == (*KEYS, "AP", "RR")
    assert found.rows == (("c", "e", "p", "a", "T1", 0.25, None), ("d", "e", "q", "a", "T1", 0.1, 0.5))


def test_further_protocols_have_columns_of_their_own() -> None:
    first, further = Protocol("p", ("AP",)), Protocol("deep", ("AP", "RR"))
    scores = [scored("a", first, [[0.25], [0.5]]), scored("b", first, [[1.0], [0.0]])]
    scores += [scored("a", first, [[0.75]], edition="new")]
    also = [scored("a", further, [[0.3, 1.0], [0.6, np.nan]]), scored("a", further, [[0.8, 0.5]], edition="new")]
    found = score_records(scores, also)
    assert found.columns == (*KEYS, "AP", "deep/AP", "deep/RR")
    assert [row[1:] for row in found.rows] == [
        ("e", "p", "a", "T1", 0.25, 0.3, 1.0),
        ("e", "p", "a", "T2", 0.5, 0.6, None),
        ("e", "p", "b", "T1", 1.0, None, None),  # not scored by it
        ("e", "p", "b", "T2", 0.0, None, None),
        ("new", "p", "a", "T1", 0.75, 0.8, 0.5),
    ]
