"""Scores and tests as records for other programs, one row each."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import astuple, fields

from harness.render.model import Records
from harness.scoring.compare import Comparison, Row
from harness.scoring.scores import Scores

TEST_COLUMNS = ("collection", "edition", "protocol", *(field.name for field in fields(Row)), "family", "alpha")


def score_records(scores: Iterable[Scores]) -> Records:
    """Returns one record for each run, topic and measure; no value where the protocol excludes the topic."""
    rows = []
    for score in scores:
        same = (score.collection, score.edition, score.protocol.name, score.run)
        for topic, values in zip(score.topics, score.values.tolist(), strict=True):
            pairs = zip(score.measures, values, strict=True)
            rows += [(*same, topic, measure, None if math.isnan(value) else value) for measure, value in pairs]
    return Records(("collection", "edition", "protocol", "run", "topic", "measure", "value"), tuple(rows))


def comparison_records(comparison: Comparison) -> Records:
    """Returns one record for each pair of runs and measure: `harness.scoring.compare.Row` and the family of tests."""
    same = (comparison.collection, comparison.edition, comparison.protocol)
    plan = (comparison.family, comparison.alpha)
    return Records(TEST_COLUMNS, tuple((*same, *astuple(row), *plan) for row in comparison.rows))
