"""Scores and tests as records for other programs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields

from harness.render.model import Records
from harness.scoring.compare import Comparison, PairDifference
from harness.scoring.scores import Scores

TEST_COLUMNS = (
    "collection",
    "edition",
    "protocol",
    *(field.name for field in fields(PairDifference)),
    "family",
    "alpha",
)


def score_records(scores: Iterable[Scores], also: Iterable[Scores] = ()) -> Records:
    """Returns one record for each run and topic with a column for each measure.

    A field is empty where the protocol excludes the topic or does not have the measure.

    Parameters
    ----------
    also : scores of the same runs by further protocols, in columns `PROTOCOL/MEASURE`.
    """
    scores, also = list(scores), list(also)
    measures = dict.fromkeys(measure for score in scores for measure in score.measures)
    further = dict.fromkeys((score.protocol.name, measure) for score in also for measure in score.measures)
    others = {(score.collection, score.edition, score.run, score.protocol.name): score for score in also}
    rows: list[tuple[str | float | None, ...]] = []
    for score in scores:
        source, same = (score.collection, score.edition), (score.protocol.name, score.run)
        columns = [_column(score, measure, score.topics) for measure in measures]
        for protocol, measure in further:
            columns.append(_column(others.get((*source, score.run, protocol)), measure, score.topics))
        rows += [(*source, *same, *values) for values in zip(score.topics, *columns, strict=True)]
    keys = ("collection", "edition", "protocol", "run", "topic")
    return Records((*keys, *measures, *map("/".join, further)), tuple(rows))


def _column(scores: Scores | None, measure: str, topics: Sequence[str]) -> list[float | None]:
    """Returns the values of a measure for these topics; None where there is no value."""
    if scores is None or measure not in scores.measures:
        return [None] * len(topics)
    values = dict(zip(scores.topics, scores.column(measure).tolist(), strict=True))
    column = (values.get(topic, math.nan) for topic in topics)
    return [None if math.isnan(value) else value for value in column]


def comparison_records(comparison: Comparison) -> Records:
    """Returns one record for each pair of runs and measure: its `PairDifference` and the family of tests."""
    same = (comparison.collection, comparison.edition, comparison.protocol)
    plan = (comparison.family, comparison.alpha)
    return Records(TEST_COLUMNS, tuple((*same, *astuple(row), *plan) for row in comparison.rows))
