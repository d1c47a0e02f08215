"""Scores by category of topics: where a submission is strong and weak against the other ranked runs of its lab."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.data.topics import Topic
from harness.io.names import in_natural_order
from harness.scoring.scores import Scores

_MOST_VALUES = 60  # values of an attribute that make slices; more are no slices but names
SMALL = 10  # topics below which a mean says little
_MOST_SHOWN = 12  # values of an attribute that a receipt shows


@dataclass(frozen=True)
class CategoryScore:
    """Score of a run on the topics with one value of an attribute, beside the other ranked runs.

    Attributes
    ----------
    topics : number of topics that count for the run.
    mean : of the run; NaN if no topic counts.
    median : median of the other runs' means; None without other runs.
    """

    attribute: str
    value: str
    topics: int
    mean: float
    median: float | None

    @property
    def difference(self) -> float:
        """Mean minus median; NaN without either."""
        return math.nan if self.median is None else self.mean - self.median


def topic_slices(topics: Iterable[str], known: Mapping[str, Topic]) -> dict[str, dict[str, list[str]]]:
    """Returns attribute -> value -> topics, for attributes with at least two values; the language is one of them.

    Examples
    --------
    >>> known = {n: Topic(n, "", attributes={"level": level}) for n, level in (("1", "high"), ("2", "low"))}
    >>> topic_slices(known, known)
    {'level': {'low': ['2'], 'high': ['1']}}
    """
    out: dict[str, dict[str, list[str]]] = {}
    for name in topics:
        topic = known.get(name, Topic(name, ""))
        for attribute in topic.attributes:
            for value in topic.values(attribute):
                out.setdefault(attribute, {}).setdefault(value, []).append(name)
        out.setdefault("language", {}).setdefault(topic.language, []).append(name)
    kept = {name: values for name, values in out.items() if 2 <= len(values) <= _MOST_VALUES}
    return {name: {value: values[value] for value in in_natural_order(values)} for name, values in kept.items()}


def scores_by_category(
    scores: Scores, measure: str, others: Sequence[Scores], known: Mapping[str, Topic]
) -> tuple[CategoryScore, ...]:
    """Returns a run's score on each category of topics, for attributes with 2 to 12 values.

    Parameters
    ----------
    others : of the runs that it is compared with.
    known : topic id -> topic.
    """
    rows = []
    for attribute, values in topic_slices(scores.topics, known).items():
        for value, topics in values.items() if len(values) <= _MOST_SHOWN else ():
            mine = scores.select(topics)
            means = [mean for each in others if not math.isnan(mean := each.select(topics).aggregate(measure))]
            median = statistics.median(means) if means else None
            rows.append(CategoryScore(attribute, value, mine.n(measure), mine.aggregate(measure), median))
    return tuple(rows)
