"""Leaderboards: ranked runs of one task, with significance, rank intervals and the effect of ties.

A leaderboard needs no lab; any scored runs can have one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import numpy as np

from harness.data.columns import Floats, Index
from harness.errors import HarnessError, suggestion
from harness.experiments.task import Task, judged_pool
from harness.labs.board import (
    Detectable,
    Judgments,
    Leaderboard,
    LeaderboardRow,
    Mean,
    Ties,
    family_of,
    ranked_tests,
    verdict,
)
from harness.scoring.compare import common_identity, common_measures
from harness.scoring.comparison import Comparison, Correction, compact_letters
from harness.scoring.intervals import mean_intervals, numbers_of_names
from harness.scoring.measures import parse_measure, without_diagnostics, without_private
from harness.scoring.protocol import Protocol
from harness.scoring.randomization import TOLERANCE
from harness.scoring.resampling import RankIntervals, rank_intervals, ranks_of_means
from harness.scoring.scores import Scores, rounded_to_step
from harness.systems.base import Request
from harness.systems.baselines import Shuffle

MOST_LETTERS = 500
FLOOR_SEEDS = 5


@dataclass(frozen=True, eq=False)
class LeaderboardEntry:
    """A run for a leaderboard.

    Attributes
    ----------
    name : unique name on the leaderboard, such as `team / label`.
    kind : such as `automatic` or `manual`; empty if unknown.
    primary : whether the run is ranked and tested; other runs are listed below.
    bounds : measure -> lowest and highest mean over the orders of tied results, where they differ; None if unknown.
    shown : measure -> mean as a lab with private judgments showed it; None to round the means of `scores`.
    """

    name: str
    scores: Scores
    team: str = ""
    kind: str = ""
    primary: bool = True
    bounds: Mapping[str, tuple[float, float]] | None = None
    shown: Mapping[str, float] | None = None


@dataclass(frozen=True)
class LeaderboardSettings:
    """Settings of a leaderboard.

    Attributes
    ----------
    main : measure that ranks; None for the first.
    baseline : name of an entry.
    family : number of tests to correct for, if it exceeds the pairs of ranked runs (two or more).
    clusters : topic -> its cluster; None if topics are independent; cluster : name of the clustering attribute.
    floor : scores of random orders of the judged documents; see `floor`.
    private : whether the judgments are private; see `Leaderboard`.
    decimals : decimals of means as shown; private means are rounded to them.
    step : step to which private means are rounded that no lab has shown; 0 for decimals.
    untested : why no significance is shown; empty to test the runs.
    privacy : what is shown of private judgments, in words; empty if they are public.
    """

    main: str | None = None
    baseline: str | None = None
    alpha: float = 0.05
    correction: Correction = "holm"
    family: int | None = None
    confidence: float = 0.95
    resamples: int = 1000
    seed: int = 0
    clusters: Mapping[str, str] | None = None
    cluster: str = ""
    floor: Sequence[Scores] = ()
    private: bool = False
    decimals: int = 4
    step: float = 0.0
    untested: str = ""
    privacy: str = ""


def leaderboards(
    entries: Sequence[LeaderboardEntry], settings: LeaderboardSettings | None = None
) -> tuple[Leaderboard, ...]:
    """Makes a leaderboard for each collection, edition, protocol and checksum of judgments among the entries.

    Raises
    ------
    HarnessError
        There are no entries, the baseline is not an entry, or `leaderboard` raises.
    """
    how = settings or LeaderboardSettings()
    if not entries:
        raise HarnessError("leaderboard: there are no runs")
    names = [entry.name for entry in entries]
    if how.baseline is not None and how.baseline not in names:
        raise HarnessError(f"leaderboard: baseline {how.baseline!r} is unknown; {suggestion(how.baseline, names)}")
    alike: dict[tuple[object, ...], list[LeaderboardEntry]] = {}
    for entry in entries:
        alike.setdefault(_identity(entry.scores), []).append(entry)
    boards = []
    for key in sorted(alike, key=repr):
        held = {entry.name for entry in alike[key]}
        of_these = [scores for scores in how.floor if _identity(scores) == key]
        baseline = how.baseline if how.baseline in held else None
        boards.append(leaderboard(alike[key], replace(how, floor=of_these, baseline=baseline)))
    return tuple(boards)


def _identity(scores: Scores) -> tuple[object, ...]:
    """Returns the values that scores on one leaderboard must share; see `common_identity`."""
    names = [each.name for each in fields(Protocol) if each.name not in ("title", "measures")]
    shared = (getattr(scores.protocol, name) for name in names)
    return (scores.collection, scores.edition, scores.protocol.name, scores.qrels_sha256, *shared)


def leaderboard(entries: Sequence[LeaderboardEntry], settings: LeaderboardSettings | None = None) -> Leaderboard:
    """Makes the leaderboard of runs of one task; independent of the order of the entries.

    Raises
    ------
    HarnessError
        The runs differ in collection, edition, protocol or judgments, or two share a name; the main measure is
        diagnostic or missing from a run; or a setting is out of range.

    Examples
    --------
    >>> import harness as h
    >>> found = h.evaluate(h.task("mini-task1", measures=["nDCG"]), "runs/mini/mini-task1/overlap.run",
    ...                    "runs/mini/mini-task1/shuffle.run")
    >>> board = leaderboard([LeaderboardEntry(scores.run, scores) for scores in found.scores])
    >>> [(each.rank, each.name, each.group, each.rank_low, each.rank_high) for each in board.ranked]
    [(1, 'overlap', 'a', 1, 1), (2, 'shuffle', 'b', 2, 2)]
    """
    how = settings or LeaderboardSettings()
    entries = sorted(entries, key=lambda entry: entry.name)
    scores = [replace(entry.scores, run=entry.name) for entry in entries]
    common_identity(scores)
    if not 0 < how.alpha < 1:
        raise HarnessError(f"alpha: {how.alpha:g} is not between 0 and 1")
    if not 0 <= how.decimals <= 12:
        raise HarnessError(f"decimals: {how.decimals} is not between 0 and 12")
    first = scores[0]
    if any(set(each.topics) != set(first.topics) for each in scores):
        raise HarnessError("leaderboard: the runs have scores of different topics")
    shared = [name for name in first.measures if all(name in each.measures for each in scores)]
    measures = tuple(without_diagnostics(shared))
    if how.private:
        measures = tuple(without_private(measures))
        if first.protocol.topics != "all":
            reason = "averages over answered topics only, which reveals private scores of topics"
            raise HarnessError(f"leaderboard: protocol {first.protocol.name} {reason}; score with 'topics: all'")
    if not measures:
        raise HarnessError("leaderboard: the runs have no measure in common to rank by")
    main = how.main or without_diagnostics(first.measures)[0]
    if main not in measures:
        common_measures(scores, [main])  # names the run that lacks it
        raise HarnessError(f"leaderboard: measure {main!r} cannot rank runs; {suggestion(main, measures)}")
    means = _means(scores, measures, how, [entry.shown for entry in entries])
    at = measures.index(main)
    main_means = np.array([each[at].value for each in means], dtype=np.float64)  # NaN for None
    primary = np.array([entry.primary for entry in entries])
    ranks = np.zeros(len(entries), dtype=np.int64)
    ranks[primary] = ranks_of_means(main_means[primary])
    ranks[~primary] = ranks_of_means(main_means[~primary])
    order = sorted(range(len(entries)), key=lambda i: (ranks[i], i))  # equal ranks by name
    ranked = [i for i in order if primary[i]]
    spread = None if how.private or not ranked else _rank_intervals([scores[i] for i in ranked], main, how)
    groups = _groups([scores[i] for i in ranked], main, how)
    ties = [None] * len(ranked) if how.private else _ties([entries[i] for i in ranked], main, main_means[ranked])
    rows = {
        i: LeaderboardRow(
            name=entries[i].name,
            means=means[i],
            team=entries[i].team,
            kind=entries[i].kind,
            primary=bool(primary[i]),
            baseline=entries[i].name == how.baseline,
            missing=None if how.private else len(scores[i].missing),
            judgments=None if how.private else _judgments_of(scores[i]),
        )
        for i in order
    }
    for at, i in enumerate(ranked):
        group = groups.letters.get(rows[i].name, "")
        rows[i] = replace(rows[i], rank=int(ranks[i]), group=group, ties=ties[at])
        if spread is not None:
            low, high = int(spread.low[at]), int(spread.high[at])
            rows[i] = replace(rows[i], rank_low=low, rank_high=high, first=float(spread.first[at]))
    same = ("alpha", "correction", "confidence", "seed", "private", "decimals", "privacy")
    return Leaderboard(
        collection=first.collection,
        edition=first.edition,
        qrels_sha256="" if how.private else first.qrels_sha256,  # would confirm guessed judgments
        protocol=first.protocol,
        measures=measures,
        main=main,
        topics=len(first.topics),
        grouping=groups.kind,
        family=family_of(len(ranked), how.family),
        resamples=0 if how.private else how.resamples,
        ranked=tuple(rows[i] for i in ranked),
        others=tuple(rows[i] for i in order if not primary[i]),
        floor=_floor_means(how, measures),
        floor_seeds=len(how.floor),
        detectable=None if how.private else groups.detectable,
        clusters=how.cluster if how.clusters is not None else "",
        why=groups.why,
        undefined=groups.undefined,
        **{name: getattr(how, name) for name in same},
    )


def _aligned(scores: Scores, measure: str) -> Floats:
    """Returns a measure's values in the order of sorted topic ids, which all runs share."""
    return scores.column(measure)[np.argsort(np.array(scores.topics))]


def _cluster_numbers(scores: Scores, how: LeaderboardSettings) -> Index | None:
    return None if how.clusters is None else numbers_of_names([how.clusters[topic] for topic in sorted(scores.topics)])


def _rank_intervals(scores: Sequence[Scores], main: str, how: LeaderboardSettings) -> RankIntervals:
    """Computes bootstrap intervals of the runs' ranks."""
    values = np.stack([_aligned(each, main) for each in scores])
    clusters = _cluster_numbers(scores[0], how)
    return rank_intervals(values, clusters, resamples=how.resamples, seed=how.seed, confidence=how.confidence)


def _rounded(value: float, how: LeaderboardSettings) -> float | None:
    """Returns a value rounded if the judgments are private; None for NaN."""
    if math.isnan(value):
        return None
    return rounded_to_step(value, how.step or 10.0**-how.decimals) if how.private else value


def _none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


def _means(
    scores: Sequence[Scores],
    measures: Sequence[str],
    how: LeaderboardSettings,
    shown: Sequence[Mapping[str, float] | None],
) -> list[tuple[Mean, ...]]:
    """Computes the means of each run, measure by measure.

    Private scores get no intervals: if all topics but one score 0, the width reveals that topic's score more precisely
    than the rounded mean. Rank intervals of runs that differ in one topic would do the same.
    """
    if how.private:
        return [
            tuple(
                Mean(name, _rounded(each.aggregate(name), how) if told is None else _none_if_nan(told[name]))
                for name in measures
            )
            for each, told in zip(scores, shown, strict=True)
        ]
    clusters = _cluster_numbers(scores[0], how)
    by_measure = []
    for name in measures:
        measure = parse_measure(name)
        ends = mean_intervals(np.stack([_aligned(each, name) for each in scores]), clusters, how.confidence)
        columns = zip(scores, *(end.tolist() for end in ends), strict=True)
        of_runs = []
        for each, *interval in columns:
            low, high = (_rounded(measure.of_mean(end, each.n(name)), how) for end in interval)
            of_runs.append(Mean(name, _rounded(each.aggregate(name), how), low, high, each.n(name)))
        by_measure.append(of_runs)
    return list(zip(*by_measure, strict=True))


@dataclass(frozen=True)
class _Groups:
    kind: str
    letters: Mapping[str, str] = field(default_factory=dict)
    detectable: Detectable | None = None
    why: str = ""
    undefined: tuple[tuple[str, str], ...] = ()


def _groups(scores: Sequence[Scores], main: str, how: LeaderboardSettings) -> _Groups:
    """Groups ranked runs, best first, that do not differ significantly."""
    if how.untested:
        return _Groups("none", why=how.untested)
    made, why = ranked_tests(scores, main, alpha=how.alpha, declared=how.family, clusters=how.clusters)
    if made is None:
        return _Groups("none", why=why)
    names = [each.run for each in scores]
    different = [(row.a, row.b) for row in made.rows if verdict(row, how.correction).significant]
    undefined = tuple((row.a, row.b) for row in made.rows if row.p is None)
    letters = compact_letters(names, different, MOST_LETTERS) if made.baseline is None else {}
    if letters:
        return _Groups("letters", letters, _detectable(made, how), undefined=undefined)
    apart = {run for pair in different if names[0] in pair for run in pair if run != names[0]}
    alike = {name: "a" for name in names if name not in apart}
    return _Groups("best", alike, _detectable(made, how), undefined=undefined)


def _detectable(comparison: Comparison, how: LeaderboardSettings) -> Detectable | None:
    name = "detectable" if how.correction == "none" else "detectable_corrected"
    vary = [row for row in comparison.rows if row.sd]
    differences = [value for row in vary if (value := getattr(row, name)) is not None]
    if not vary:
        return None
    n = [row.n for row in vary]
    low, high = min(differences, default=None), max(differences, default=None)
    median = statistics.median(differences) if differences else None
    return Detectable(low, median, high, min(n), max(n), len(vary), len(vary) - len(differences))


def _judgments_of(scores: Scores) -> Judgments | None:
    cuts = {}
    for name in scores.measures:
        measure = parse_measure(name)
        if measure.name == "Judged" and measure.k is not None and scores.n(name):
            cuts[measure.k] = name
    if not cuts:
        return None
    with_precision = [k for k in cuts if f"P@{k}" in scores.measures]
    k = min(with_precision or cuts)
    judged, depth = scores.mean(cuts[k]), max(cuts)
    covered = scores.mean(cuts[depth]) if depth > k else None
    return Judgments(k, judged, _expected(scores, k, cuts[k]), depth if depth > k else None, covered)


def _expected(scores: Scores, k: int, judged: str) -> float | None:
    """Estimates the bias of P@k: (1 - Judged@k) times the precision of judged results.

    With unjudged results removed (prime measures), that precision is P@k itself. A topic without results adds 0 to the
    mean over the topics that count for P@k and is ignored in the precision. None if no result was judged.
    """
    if f"P@{k}" not in scores.measures or not scores.n(f"P@{k}"):
        return None
    share, precision = scores.column(judged), scores.column(f"P@{k}")
    counted = ~np.isnan(precision)
    known = counted & ~np.isnan(share)
    total = float(np.count_nonzero(known) if scores.protocol.prime else share[known].sum())
    # Prime P@k also covers judged results below rank k; if it is 0 too, possibly nothing is judged.
    if not total or not (share[known].any() or precision[known].any()):
        return None
    unjudged = float((1.0 - share[known]).sum()) / np.count_nonzero(counted)
    return unjudged * min(1.0, float(precision[known].sum()) / total)


def _ties(entries: Sequence[LeaderboardEntry], main: str, means: Floats) -> list[Ties | None]:
    """Computes the effect of tied results for each run."""
    spans: list[tuple[float, float] | None] = []
    for entry, mean in zip(entries, means.tolist(), strict=True):
        tied = entry.scores.counts.get("tied results", 0)
        known = not tied or (entry.bounds is not None and parse_measure(main).tie_bounds)
        spans.append(((entry.bounds or {}).get(main, (mean, mean))) if known else None)
    whole = [span for span in spans if span is not None and not math.isnan(span[0])]
    low, high = np.array([span[0] for span in whole]), np.array([span[1] for span in whole])
    out: list[Ties | None] = []
    for entry, span in zip(entries, spans, strict=True):
        tied = entry.scores.counts.get("tied results", 0)
        if span is None or len(whole) < len(spans):
            out.append(Ties(tied, *(span or (None, None))))
            continue
        above = int(np.count_nonzero(low > span[1] + TOLERANCE))
        perhaps = int(np.count_nonzero(high > span[0] + TOLERANCE)) - (span[1] > span[0] + TOLERANCE)
        out.append(Ties(tied, *span, best=1 + above, worst=1 + perhaps))
    return out


def floor(task: Task, seeds: int = FLOOR_SEEDS) -> tuple[Scores, ...]:
    """Scores random orders of each topic's judged documents: the level that the judged pool alone reaches.

    The orders come from the system `shuffle`; no corpus is needed. One document represents each key (visual id).
    """
    one_of = {key: doc for doc, key in sorted((task.keys or {}).items(), reverse=True)}
    pool = judged_pool(task.scorer.qrels, {doc: key for key, doc in one_of.items()})
    deep = max(1, *(len(docs) for docs in pool.values()))
    request = Request(task.topics, None, Path(), pool=pool)
    shuffled = (Shuffle(seed, deep, f"shuffle-{seed}") for seed in range(seeds))
    return tuple(task.scorer(system(request)) for system in shuffled)


def _floor_means(how: LeaderboardSettings, measures: Sequence[str]) -> tuple[Mean, ...]:
    if not how.floor:
        return ()
    shared = [name for name in measures if all(name in scores.measures for scores in how.floor)]
    means = ((name, statistics.fmean(scores.aggregate(name) for scores in how.floor)) for name in shared)
    return tuple(Mean(name, _rounded(mean, how)) for name, mean in means)
