"""Scores of a run: a value for each topic and measure, their means, and conversion to JSON.

Rounding of private means in redacted reports to a step; see docs/private-judgments.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.data.columns import Floats
from harness.data.records import frame
from harness.errors import HarnessError, suggestion
from harness.io.files import sha256
from harness.scoring.measures import parse_measure, unbounded
from harness.scoring.protocol import Protocol

if TYPE_CHECKING:
    from pandas import DataFrame


def pooled(scores: Sequence[Scores]) -> Scores:
    """Pools the scores of one run on several collections as if they were one, with the union of their topics.

    Raises
    ------
    HarnessError
        The runs, protocols or measures differ, or a topic occurs twice.
    """
    first = scores[0]
    topics = tuple(topic for score in scores for topic in score.topics)
    alike = all((s.run, s.protocol, s.measures) == (first.run, first.protocol, first.measures) for s in scores)
    if not alike or len(set(topics)) != len(topics):
        raise HarnessError(f"run {first.run}: scores of unlike runs or of shared topics cannot be pooled")
    return replace(
        first,
        collection=" + ".join(s.collection for s in scores),
        edition=" + ".join(s.edition for s in scores),
        topics=topics,
        values=np.concatenate([s.values for s in scores]),
        qrels_sha256=sha256("".join(s.qrels_sha256 for s in scores).encode()),
        run_sha256=sha256("".join(s.run_sha256 for s in scores).encode()),
        counts={},
    )


def values_of(scores: Sequence[Scores], measure: str) -> Floats:
    """Returns one measure of runs on the same topics, shape (topics, runs).

    Raises
    ------
    HarnessError
        Two runs are scored on other topics, or one not by this measure.
    """
    first = scores[0]
    if other := [each.run for each in scores if each.topics != first.topics]:
        raise HarnessError(f"runs {first.run} and {other[0]} are scored on other topics; score them together")
    return np.stack([each.column(measure) for each in scores], axis=1)


def tie_caution(scores: Sequence[Scores]) -> str:
    """Returns a caution if runs have ties and a measure has no known tie bounds; else ""."""
    first = scores[0]
    names = unbounded(first.measures) if any(each.counts.get("tied results") for each in scores) else []
    labels = ", ".join(first.protocol.label(name) for name in names)
    return f"how far the order of tied results changes {labels} is not known" if labels else ""


SCHEMA = "mathir-harness/scores"
VERSION = 2


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of one run for all topics and measures.

    Attributes
    ----------
    run : the run's name.
    collection, edition : source of the judgments; `qrels_sha256` is their checksum.
    topics : the topics of the edition, in its order.
    values : float64, shape (topics, measures)
        NaN where the protocol leaves a topic out of a measure's mean.
    counts : statistics of the run (topics missing, results without judgment, ...), for reports.
    missing : topics of the edition that the run does not answer.

    Examples
    --------
    >>> import harness as h
    >>> scores = h.task("mini-task1", measures=["P@5"]).scorer(h.Run.from_dict("mine", {"M.1": {"a1088": 1.0}}))
    >>> scores.n("P@5"), round(scores.aggregate("P@5"), 5), len(scores.missing)
    (42, 0.00476, 41)
    """

    run: str
    collection: str
    edition: str
    protocol: Protocol
    measures: tuple[str, ...]
    topics: tuple[str, ...]
    values: Floats
    qrels_sha256: str = ""
    run_sha256: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    def column(self, measure: str) -> Floats:
        """Returns the values of one measure, shape (topics,)."""
        if measure not in self.measures:
            raise HarnessError(
                f"run {self.run}: measure {measure!r} was not scored; {suggestion(measure, self.measures)}"
            )
        out: Floats = self.values[:, self.measures.index(measure)]
        return out

    def columns(self) -> dict[str, list[Any]]:
        """Returns `run`, `query_id`, `measure`, `value`: a row for each topic and measure."""
        rows = [(topic, measure) for topic in self.topics for measure in self.measures]
        return {
            "run": [self.run] * len(rows),
            "query_id": [topic for topic, _ in rows],
            "measure": [measure for _, measure in rows],
            "value": self.values.ravel().tolist(),
        }

    def frame(self) -> DataFrame:
        """`run`, `query_id`, `measure`, `value`; NaN where the protocol leaves a topic out of the measure's mean."""
        return frame(self.columns())

    def by_cluster(self, clusters: Mapping[str, str], *, weighted: bool = False) -> Scores:
        """Returns scores by cluster: the mean over each cluster's topics that count; NaN without any.

        Parameters
        ----------
        weighted : multiply by the cluster's size over the mean size: the mean over clusters is then that over topics.
        """
        names = tuple(dict.fromkeys(clusters[topic] for topic in self.topics))
        index = {name: at for at, name in enumerate(names)}
        row = np.array([index[clusters[topic]] for topic in self.topics])
        counts = ~np.isnan(self.values)
        sums, n = (np.zeros((len(names), len(self.measures))) for _ in range(2))
        np.add.at(sums, row, np.where(counts, self.values, 0.0))
        np.add.at(n, row, counts)
        size = n.sum(axis=0) / np.maximum(1, (n > 0).sum(axis=0)) if weighted else n
        with np.errstate(invalid="ignore", divide="ignore"):
            return replace(self, topics=names, values=np.where(n > 0, sums / size, np.nan), missing=())

    def n(self, measure: str) -> int:
        """Returns the number of topics in the mean of this measure."""
        return int(np.count_nonzero(~np.isnan(self.column(measure))))

    def aggregate(self, measure: str) -> float:
        """Returns the mean over the topics that count, or the measure's other aggregate, as a sum; NaN without any."""
        mean, n, parsed = self.mean(measure), self.n(measure), parse_measure(measure)
        if n and parsed.aggregate == "sum":
            return float(np.nansum(self.column(measure)))  # exact, unlike n times the mean
        return parsed.of_mean(mean, n)

    def mean(self, measure: str) -> float:
        """Returns the mean over the topics that count, also of a measure that `aggregate` sums; NaN without any."""
        column = self.column(measure)
        counted = column[~np.isnan(column)]
        return float(counted.mean()) if counted.size else float("nan")

    def select(self, topics: Iterable[str]) -> Scores:
        """Returns the same scores for some of the topics (a slice of the collection), in this object's order."""
        wanted = set(topics)
        rows = [row for row, topic in enumerate(self.topics) if topic in wanted]
        return replace(self, topics=tuple(self.topics[row] for row in rows), values=self.values[rows])


def check_alike(first: Scores, other: Scores, keys: Sequence[str] = ()) -> None:
    """Raises `HarnessError` if two runs differ in one of these attributes or in a setting of the protocol."""
    settings = (f"protocol.{each.name}" for each in fields(Protocol) if each.name not in ("title", "measures"))
    for key in (*keys, *settings):
        one, two = attrgetter(key)(first), attrgetter(key)(other)
        if one != two:
            difference = f"{key} is {one!r} for the first, {two!r} for the second"
            raise HarnessError(f"runs {first.run} and {other.run} cannot be compared: {difference}")


def scores_to_json(scores: Scores) -> dict[str, Any]:
    """Returns scores as plain JSON values; NaN becomes null. Schema: `harness/data/schemas/scores.json`."""
    out = {name: getattr(scores, name) for name in ("run", "collection", "edition", "qrels_sha256", "run_sha256")}
    protocol = asdict(scores.protocol)
    if scores.protocol.precision == "single":
        del protocol["precision"]  # readers before version 0.3 do not know this key
    values = [[None if np.isnan(v) else v for v in row] for row in scores.values.tolist()]
    return {
        "schema": SCHEMA,
        "version": VERSION,
        **out,
        "protocol": protocol,
        "measures": list(scores.measures),
        "topics": list(scores.topics),
        "values": values,
        "counts": dict(scores.counts),
        "missing": list(scores.missing),
    }


def scores_from_json(data: Mapping[str, Any]) -> Scores:
    """Reads the result of `scores_to_json`; also version 1, which had one tie rule, if it can be represented.

    Raises
    ------
    HarnessError
        The schema or version is unknown, the scores are of version 1 and were de-duplicated in the order of document
        ids, or the shape of the table is wrong.
    """
    if not isinstance(data, Mapping):
        raise HarnessError(f"scores: is a {type(data).__name__}, expected an object")
    if data.get("schema") != SCHEMA or data.get("version") not in (1, VERSION):
        stated = f"{data.get('schema')!r} version {data.get('version')!r}"
        raise HarnessError(f"scores: schema is {stated}, expected {SCHEMA!r} version {VERSION}")
    try:
        values = np.array([[np.nan if v is None else v for v in row] for row in data["values"]], dtype=np.float64)
        measures, topics = tuple(data["measures"]), tuple(data["topics"])
        protocol = Protocol.from_config(data["protocol"], "scores: protocol")
        fields = {name: data[name] for name in ("run", "collection", "edition", "qrels_sha256", "run_sha256", "counts")}
        fields["missing"] = tuple(data["missing"])
    except (KeyError, TypeError, ValueError) as error:
        raise HarnessError(f"scores: damaged, {type(error).__name__}: {error}") from None
    if data["version"] == 1 and protocol.deduplicate and protocol.ties == "reference":
        raise HarnessError("scores: version 1 ordered tied keys by document ids, version 2 by keys; score again")
    if not topics and not values.size:
        values = values.reshape(0, len(measures))
    if values.shape != (len(topics), len(measures)):
        raise HarnessError(f"scores: table of shape {values.shape}, expected {(len(topics), len(measures))}")
    return Scores(protocol=protocol, measures=measures, topics=topics, values=values, **fields)


def least_step(n: int) -> float:
    """Returns the smallest of ..., 0.05, 0.1, 0.2, 0.5, 1, 2 that is at least 2 / n, for means over `n` topics.

    Examples
    --------
    >>> [least_step(n) for n in (6, 39, 42, 78, 100, 1000)]
    [0.5, 0.1, 0.05, 0.05, 0.02, 0.002]
    """
    step, power = 2.0, 10
    while n > 0:
        for digit in (10, 5, 2):  # digit / power is 1, 0.5, 0.2, then a tenth of these
            if digit * n < 2 * power:
                return step
            step = digit / power
        power *= 10
    return step


def rounded_to_step(value: float, step: float) -> float:
    """Rounds to a multiple of the step, halves down, so that a mean of half a step shows as 0.

    Examples
    --------
    >>> rounded_to_step(0.025, 0.05), rounded_to_step(0.026, 0.05), rounded_to_step(0.31, 0.2)
    (0.0, 0.05, 0.4)
    """
    return round(math.ceil(value / step - 0.5 - 1e-9) * step, 9)


def decimals_of(step: float) -> int:
    """Returns the number of decimals of a step's multiples: 2 for 0.05, 1 for 0.5, and 1 for 1."""
    return next((decimals for decimals in range(1, 6) if math.isclose(step, round(step, decimals))), 6)
