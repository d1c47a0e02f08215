"""Reproduction measures for a run and its original: rankings, values per topic, effects, a test.

Sources: the measures of reproducibility and replicability of Breuer et al. (SIGIR 2020), as in the library repro_eval;
PRIMAD (Ferro et al., 2016) for the terms. Same topics: a reproduction; other topics: a replication.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import mean
from typing import Any

import numpy as np

from harness.data.columns import Floats
from harness.errors import HarnessError
from harness.scoring.agreement import rbo, rbo_cut, tau_b
from harness.scoring.intervals import mean_errors, numbers_of_names
from harness.scoring.randomization import TOLERANCE
from harness.scoring.scores import Scores, check_alike

SCHEMA = "mathir-harness/reproduction"
VERSION = 1
Rankings = Mapping[str, Sequence[str]]  # topic -> documents, best first


@dataclass(frozen=True)
class TopicOrder:
    """Comparison of the two rankings of one topic.

    Attributes
    ----------
    original, new : number of documents in each ranking.
    common : number of documents in both.
    tau : Kendall's tau-b over the union of documents (`union_tau`); None if undefined.
    ktu : Kendall's tau union as in repro_eval (`index_tau`); None if the lengths differ.
    rbo : rank-biased overlap, extrapolated; None if a ranking is empty.
    rbo_cut : rank-biased overlap as in repro_eval, down to the depth.
    """

    topic: str
    original: int
    new: int
    common: int
    tau: float | None
    ktu: float | None
    rbo: float | None
    rbo_cut: float


@dataclass(frozen=True)
class MeasureReproduction:
    """Comparison of the two runs by one measure.

    Attributes
    ----------
    n, n_new : numbers of topics of the original and the new run; for a reproduction, of common topics.
    original, new : means over these; `difference` is new - original.
    rmse : root mean square of the topics' differences; None for a replication.
    nrmse : `rmse` divided by the largest possible one, given the original values between 0 and 1, as in repro_eval.
    largest : largest absolute difference of a topic, at `topic`; None for a replication.
    p : p-value of the two-sided t-test, paired for a reproduction, else for independent samples with equal variance (as
        in repro_eval), or Welch's if topics are clustered. None if the differences are constant but not 0.
    baseline_original, baseline_new : means of the baselines, over the same topics; None without baselines.
    effect_ratio : mean improvement of the new pair divided by that of the original pair; 1 is a perfect reproduction,
        above 1 a larger effect, below 0 an effect in the opposite direction. None without baselines, or if the original
        improvement is 0.
    delta_ri : relative improvement of the original pair minus that of the new pair; 0 is a perfect reproduction. None
        without baselines, or if a baseline is 0.
    """

    measure: str
    n: int
    n_new: int
    original: float
    new: float
    difference: float
    rmse: float | None
    nrmse: float | None
    largest: float | None
    topic: str | None
    p: float | None
    baseline_original: float | None
    baseline_new: float | None
    effect_ratio: float | None
    delta_ri: float | None


@dataclass(frozen=True)
class RunReproduction:
    """Comparison of a new run with an original one.

    Attributes
    ----------
    paired : whether both runs were scored on the same topics and judgments (a reproduction).
    persistence : the p of rank-biased overlap.
    depth : the depth of `rbo_cut`.
    orders : comparisons of rankings, for topics answered by both runs; empty for a replication.
    unanswered : topics answered by only one of the runs, which are not in `orders`.
    """

    original: str
    new: str
    baseline_original: str | None
    baseline_new: str | None
    collection: str
    edition: str
    protocol: str
    qrels_sha256: str
    collection_new: str
    edition_new: str
    qrels_sha256_new: str
    paired: bool
    persistence: float
    depth: int
    orders: tuple[TopicOrder, ...]
    unanswered: tuple[str, ...]
    effects: tuple[MeasureReproduction, ...]

    def mean(self, name: str) -> tuple[float | None, int]:
        """Returns the mean of an attribute of `orders` over topics where it is defined, and their number."""
        values = [value for each in self.orders if (value := getattr(each, name)) is not None]
        return (mean(values) if values else None), len(values)


def union_tau(a: Sequence[str], b: Sequence[str]) -> float:
    """Returns Kendall's tau-b of two rankings over their union; documents missing from one are tied at its end.

    It does not depend on document ids. NaN if a ranking is constant, for example with a single document.

    >>> round(union_tau(["d1", "d2", "d3"], ["d1", "d2", "d4"]), 4)
    0.6667
    """
    union = list(dict.fromkeys((*a, *b)))
    if len(union) < 2:
        return math.nan
    places = [{doc: rank for rank, doc in enumerate(docs)} for docs in (a, b)]
    first, second = ([-place.get(doc, len(place)) for doc in union] for place in places)
    return tau_b(first, second)


def index_tau(a: Sequence[str], b: Sequence[str]) -> float | None:
    """Returns Kendall's tau union as in repro_eval: tau of the documents' positions in their sorted union.

    It makes results comparable with published ones, but it depends on document ids and is undefined (None) for rankings
    of unequal lengths or with fewer than two documents. `union_tau` has neither problem.

    >>> round(index_tau(["d1", "d2", "d3"], ["d2", "d5", "d3"]), 4)
    0.3333
    """
    if len(a) != len(b) or len(a) < 2:
        return None
    place = {doc: at for at, doc in enumerate(sorted({*a, *b}))}
    return tau_b([place[doc] for doc in a], [place[doc] for doc in b])


def effect_ratio(original: Floats, baseline: Floats, new: Floats, new_baseline: Floats) -> float | None:
    """Returns the mean improvement of the new pair over that of the original pair; None if the latter is 0.

    >>> effect_ratio(np.array([0.5, 1.0]), np.array([0.25, 0.25]), np.array([0.5, 0.5]), np.array([0.25, 0.25]))
    0.5
    """
    before, after = float((original - baseline).mean()), float(new.mean() - new_baseline.mean())
    return None if abs(before) <= TOLERANCE else after / before


def delta_relative_improvement(original: Floats, baseline: Floats, new: Floats, new_baseline: Floats) -> float | None:
    """Returns the original pair's relative improvement of the mean minus the new pair's; None if a baseline is 0."""
    before, after = float(baseline.mean()), float(new_baseline.mean())
    if abs(before) <= TOLERANCE or abs(after) <= TOLERANCE:
        return None
    return (float(original.mean()) - before) / before - (float(new.mean()) - after) / after


def topic_orders(
    original: Rankings, new: Rankings, persistence: float, depth: int
) -> tuple[tuple[TopicOrder, ...], tuple[str, ...]]:
    """Compares the rankings of topics answered by both runs; also returns the topics answered by only one."""
    orders = []
    for topic, a in original.items():
        if topic not in new:
            continue
        b = new[topic]
        overlap, cut = rbo(a, b, persistence), rbo_cut(a, b, persistence, depth)
        order = TopicOrder(
            topic,
            len(a),
            len(b),
            len({*a} & {*b}),
            _none_if_nan(union_tau(a, b)),
            index_tau(a, b),
            _none_if_nan(overlap),
            cut,
        )
        orders.append(order)
    return tuple(orders), tuple(sorted(original.keys() ^ new.keys()))


def reproduction(
    original: Scores,
    new: Scores,
    rankings: tuple[Rankings, Rankings] | None = None,
    baselines: tuple[Scores, Scores] | None = None,
    *,
    measures: Sequence[str] | None = None,
    clusters: tuple[Mapping[str, str] | None, Mapping[str, str] | None] = (None, None),
    persistence: float = 0.9,
    depth: int = 1000,
) -> RunReproduction:
    """Compares a new run with the original one, and their improvements over baselines, if given.

    Scores on the same judgments are a reproduction, others a replication. Each measure is averaged over the topics that
    count for all runs with the same judgments.

    Parameters
    ----------
    rankings : rankings of the original and the new run, for a reproduction; None: rankings are not compared.
    baselines : scores of the original and the new baseline, on the judgments of their runs.
    measures : default: those of the original run.
    clusters : topic -> cluster of dependent topics, for each side; see `harness.scoring.intervals.mean_errors`.
    persistence, depth : parameters of rank-biased overlap.

    Raises
    ------
    HarnessError
        Protocols differ, a measure is missing, or fewer than two topics count.

    Examples
    --------
    >>> from harness.scoring.protocol import Protocol
    >>> old, new = (Scores(run, "c", "e", Protocol("p", ("AP",)), ("AP",), ("1", "2", "3"), np.array([values]).T)
    ...             for run, values in (("old", [0.5, 0.75, 1.0]), ("new", [0.5, 0.5, 1.0])))
    >>> effect = reproduction(old, new, ({"1": ["d1", "d2"]}, {"1": ["d1", "d2"]})).effects[0]
    >>> round(effect.rmse, 4), effect.largest, effect.topic
    (0.1443, 0.25, '2')
    """
    sides = [[each] if baselines is None else [each, baselines[at]] for at, each in enumerate((original, new))]
    paired = _same_judgments(original, new)
    wanted = original.measures if measures is None else tuple(measures)
    _check_alike(sides, wanted, paired)
    orders, unanswered = ((), ()) if rankings is None else topic_orders(*rankings, persistence, depth)
    effects = [_effect(measure, sides, paired, clusters) for measure in wanted]
    return RunReproduction(
        original.run,
        new.run,
        None if baselines is None else baselines[0].run,
        None if baselines is None else baselines[1].run,
        original.collection,
        original.edition,
        original.protocol.name,
        original.qrels_sha256,
        new.collection,
        new.edition,
        new.qrels_sha256,
        paired,
        persistence,
        depth,
        orders,
        unanswered,
        tuple(effects),
    )


def to_json(repro: RunReproduction) -> dict[str, Any]:
    """Returns the reproduction as standard JSON (undefined values are null), with schema name and version."""
    means = {name: dict(zip(("mean", "n"), repro.mean(name), strict=True)) for name in ("tau", "ktu", "rbo", "rbo_cut")}
    return {"schema": SCHEMA, "version": VERSION, **asdict(repro), "rankings": means}


def _same_judgments(a: Scores, b: Scores) -> bool:
    return (a.collection, a.edition, a.qrels_sha256) == (b.collection, b.edition, b.qrels_sha256)


def _check_alike(sides: Sequence[Sequence[Scores]], measures: Sequence[str], paired: bool) -> None:
    first = sides[0][0]
    for each in (score for side in sides for score in side):
        check_alike(first, each)
        for measure in measures:
            each.column(measure)  # names the run that lacks it
    for run, *others in sides if not paired else [[each for side in sides for each in side]]:
        for other in others:
            if not _same_judgments(run, other):
                raise HarnessError(f"run {run.run} and its baseline {other.run} were scored by different judgments")


def _effect(
    measure: str,
    sides: Sequence[Sequence[Scores]],
    paired: bool,
    clusters: tuple[Mapping[str, str] | None, Mapping[str, str] | None],
) -> MeasureReproduction:
    groups = [[*sides[0], *sides[1]]] if paired else sides
    names, columns = [], []
    for group in groups:
        topics, values = _common(group, measure)
        names.append(topics)
        columns += values
    size = len(sides[0])
    (original, *old_base), (new, *new_base) = columns[:size], columns[size:]
    differences = new - original if paired else np.zeros(0)
    at = int(np.abs(differences).argmax()) if paired else -1
    return MeasureReproduction(
        measure,
        original.size,
        new.size,
        float(original.mean()),
        float(new.mean()),
        float(new.mean() - original.mean()),
        math.sqrt(float((differences**2).mean())) if paired else None,
        math.sqrt(float((differences**2).sum() / (np.maximum(original, 1 - original) ** 2).sum())) if paired else None,
        float(abs(differences[at])) if paired else None,
        names[0][at] if paired else None,
        _p((original, new), (names[0], names[-1]), clusters, paired),
        float(old_base[0].mean()) if old_base else None,
        float(new_base[0].mean()) if new_base else None,
        effect_ratio(original, old_base[0], new, new_base[0]) if old_base else None,
        delta_relative_improvement(original, old_base[0], new, new_base[0]) if old_base else None,
    )


def _common(group: Sequence[Scores], measure: str) -> tuple[list[str], list[Floats]]:
    """Returns the topics that count for all runs, and each run's values on these topics."""
    columns = [dict(zip(each.topics, each.column(measure).tolist(), strict=True)) for each in group]
    topics = [t for t in columns[0] if all(not math.isnan(column.get(t, math.nan)) for column in columns)]
    if len(topics) < 2:
        runs = " and ".join(dict.fromkeys(each.run for each in group))
        raise HarnessError(f"{runs}: {len(topics)} topics count for {measure}; a comparison needs 2 or more")
    return topics, [np.array([column[topic] for topic in topics]) for column in columns]


def _p(
    sides: tuple[Floats, Floats],
    topics: tuple[Sequence[str], Sequence[str]],
    clusters: tuple[Mapping[str, str] | None, Mapping[str, str] | None],
    paired: bool,
) -> float | None:
    """Returns the p of a paired t-test, or of Student's test of two samples (Welch's, if topics are clustered)."""
    from scipy import special, stats

    if not paired and clusters == (None, None) and max(np.ptp(side) for side in sides) > TOLERANCE:
        return float(stats.ttest_ind(*sides).pvalue)
    tested = [sides[1] - sides[0]] if paired else list(sides)
    estimates = []
    for values, names, of in zip(tested, topics, clusters, strict=False):
        at = None if of is None else numbers_of_names([of[topic] for topic in names])
        estimates.append(tuple(float(each[0]) for each in mean_errors(values[None, :], at)[:3]))
    apart = estimates[0][0] if paired else estimates[1][0] - estimates[0][0]
    variance = sum(error**2 for _, error, _ in estimates)
    if math.isnan(variance):
        return None
    if math.sqrt(variance) <= TOLERANCE:
        return 1.0 if abs(apart) <= TOLERANCE else None
    freedom = variance**2 / sum(error**4 / freedom for _, error, freedom in estimates)
    return 2 * float(special.stdtr(freedom, -abs(apart) / math.sqrt(variance)))


def _none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else value
