"""Parts shared by several kinds of report.

Scores and tests as records for other programs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, fields
from typing import TypeAlias

import numpy as np

from harness.data.topics import Topic
from harness.errors import counted_text
from harness.render.model import Cell, Column, Facts, Prose, Records, Section, Table, cells, columns, number_cell, slug
from harness.reports.pair_tests import shown_p
from harness.scoring.comparison import Comparison, PairDifference
from harness.scoring.intervals import mean_intervals, numbers_of_names
from harness.scoring.measures import parse_measure, shown_decimals
from harness.scoring.protocol import Protocol
from harness.scoring.scores import Scores
from harness.store.provenance import Provenance

MOST_UNDEFINED = 5  # pairs of runs without a defined test that are named
_SAME = 1e-9  # means that differ by no more are equal
_MOST_NAMED = 3  # runs with the same mean that are named

Ranges: TypeAlias = Mapping[str, Mapping[str, tuple[float, float]]]  # run -> measure -> lowest and highest mean


def highest(values: Iterable[float]) -> float:
    """Returns the highest value; NaN for fewer than two, or if all are equal, since then none is the best."""
    known = [value for value in values if not math.isnan(value)]
    return max(known) if len(known) > 1 and not equal(max(known), min(known)) else math.nan


def equal(one: float, other: float) -> bool:
    """Returns whether two means tie: sums in another order may differ in their last bits."""
    return abs(one - other) <= _SAME


def best_mean(runs: Sequence[Scores], measure: str) -> float:
    """Returns the mean of the best run or runs; NaN as for `highest`, and for diagnostics such as Judged@k."""
    return math.nan if parse_measure(measure).diagnostic else highest(scores.aggregate(measure) for scores in runs)


def mean_interval(scores: Scores, measure: str, clusters: Mapping[str, str] | None) -> tuple[float, float]:
    """Returns the 95% t interval of a run's mean; `clusters`: topic -> cluster, if some depend on each other.

    NaN below two topics (clusters) that count.
    """
    of = None if clusters is None else numbers_of_names([clusters[topic] for topic in scores.topics])
    low, high = mean_intervals(np.asarray(scores.column(measure))[None, :], of)
    whole, n = parse_measure(measure), scores.n(measure)
    return whole.of_mean(float(low[0]), n), whole.of_mean(float(high[0]), n)


def best_words(measure: str, label: str, means: Mapping[str, float]) -> str:
    """Says which of the runs has the highest mean, or which share it; `means`: run -> mean, in the order of names.

    Examples
    --------
    >>> best_words("AP", "MAP", {"a": 0.5, "b": 0.75})
    'best MAP 0.750 by b'
    >>> best_words("AP", "MAP", {"a": 0.75, "b": 0.75, "c": 0.5})
    'best MAP 0.750 by a and b, which tie'
    """
    known = {run: mean for run, mean in means.items() if not math.isnan(mean)}
    top = max(known.values(), default=math.nan)
    first = [run for run, mean in known.items() if equal(mean, top)] or list(means)[:1]
    kind = "highest" if parse_measure(measure).diagnostic else "best"
    kind = "" if math.isnan(highest(means.values())) else f"{kind} "
    shown = "undefined" if math.isnan(top) else f"{top:.{shown_decimals(measure, 3)}f}"
    named = f"{', '.join(first[:-1])} and {first[-1]}" if 1 < len(first) <= _MOST_NAMED else first[0]
    named = f"{counted_text(len(first), 'run')}" if len(first) > _MOST_NAMED else named
    return f"{kind}{label} {shown} by {named}" + (", which tie" if len(first) > 1 else "")


def lead_words(
    measure: str, means: Mapping[str, float], tests: Mapping[frozenset[str], PairDifference], family: int
) -> tuple[str, ...]:
    """Returns a sentence on how far the best run is ahead of the next; nothing if none is the best.

    Parameters
    ----------
    means : run -> mean; of runs with the best mean the first is named.
    tests : two runs -> their test, where they were tested.
    """
    known = {run: mean for run, mean in means.items() if not math.isnan(mean)}
    best = math.nan if parse_measure(measure).diagnostic else highest(known.values())
    if math.isnan(best):
        return ()
    first = next(run for run, mean in known.items() if equal(mean, best))
    after = max((run for run, mean in known.items() if not equal(mean, best)), key=known.__getitem__)
    ahead = f"{first} is {best - known[after]:.{shown_decimals(measure, 3)}f} above the next, {after}"
    row = tests.get(frozenset((first, after)))
    if row is None or row.p_bonferroni is None:
        return (f"{ahead} ({'not tested' if row is None else 'test undefined'}).",)
    kind = "significant" if row.significant_bonferroni else "not significant"
    p = shown_p(row.p_bonferroni).text
    p = f"p {p}" if p.startswith("<") else f"p = {p}"
    return (f"{ahead}: {kind} ({p} after Bonferroni's correction for {counted_text(family, 'test')}, n = {row.n:,}).",)


def counted_topics(runs: Sequence[Scores], measure: str) -> Cell:
    """Returns the number of topics in the means of runs, a range where runs differ."""
    counts = sorted({scores.n(measure) for scores in runs})
    return Cell(f"{counts[0]:,}", counts[0]) if len(counts) == 1 else Cell(f"{counts[0]:,} to {counts[-1]:,}")


def slice_cells(runs: Sequence[Scores], measure: str, digits: int) -> list[Cell]:
    """Returns the mean of every run over its topics; a mean over fewer topics than that of another run has a note."""
    most = max(scores.n(measure) for scores in runs)
    return [
        number_cell(s.aggregate(measure), digits, note="" if s.n(measure) == most else f"n = {s.n(measure)}")
        for s in runs
    ]


def undefined_sentence(pairs: Sequence[tuple[str, str]]) -> str:
    """Returns a sentence on pairs of runs without a defined test; empty without any."""
    if not pairs:
        return ""
    named = "; ".join(f"{a} and {b}" for a, b in pairs[:MOST_UNDEFINED])
    more = f"; and {len(pairs) - MOST_UNDEFINED:,} more pairs" if len(pairs) > MOST_UNDEFINED else ""
    return (
        "The t-test is undefined, so that nothing is known about significance, for "
        f"{counted_text(len(pairs), 'pair')} of "
        f"runs whose differences do not vary: {named}{more}."
    )


def ties_table(bounds: Ranges, protocol: Protocol) -> tuple[list[str], list[Table]]:
    """Returns a sentence on tied results, and a table of the means that their order changes in the digits shown."""
    ranges = [(run, measure, *ends) for run, spans in bounds.items() for measure, ends in spans.items()]
    shown = [each for each in ranges if f"{each[2]:.4f}" != f"{each[3]:.4f}"]
    if not ranges:
        return ["The order of tied results changes no mean."], []
    if not shown:
        return [f"The order of tied results changes {counted_text(len(ranges), 'mean')} by less than 0.0001."], []
    hidden = len(ranges) - len(shown)
    more = f", and {counted_text(hidden, 'more mean')} by less than 0.0001" if hidden else ""
    said = f"The order of tied results changes {counted_text(len(shown), 'mean')}{more}."
    heads = columns("run", "measure", numbers=("lowest", "highest"))
    rows = tuple(
        cells(run, protocol.label(measure), number_cell(low, 4), number_cell(high, 4))
        for run, measure, low, high in shown
    )
    return [said], [Table("ties", "Means over the orders of tied results", heads, rows, row_headers=2)]


def protocol_text(protocol: Protocol) -> Prose:
    """Returns a protocol in words."""
    return Prose((f"Protocol {protocol.name}: {protocol.title}.", " ".join(s for s in protocol.in_words() if s)))


def per_topic_table(name: str, runs: Mapping[str, Scores], topics: Mapping[str, Topic]) -> Table:
    """Returns the first measure of every run on every topic; without `topics` there is no column of titles."""
    first = next(iter(runs.values()))
    measure = first.measures[0]
    rows = []
    for index, topic in enumerate(first.topics):
        title = topics[topic].title if topic in topics else ""
        values = [float(scores.column(measure)[index]) for scores in runs.values()]
        top = max((v for v in values if not math.isnan(v)), default=math.nan) if len(values) > 1 else math.nan
        cells = tuple(number_cell(v, 3, ("best",) if v == top and v > 0 else ()) for v in values)
        shown = (Cell(title if len(title) <= 90 else title[:89] + "…"),) if topics else ()
        rows.append((Cell(topic), *shown, *cells))
    columns = (Column("topic"), *((Column("title"),) if topics else ()), *(Column(run, kind="number") for run in runs))
    caption = f"{first.protocol.label(measure)} by topic, {name} (edition {first.edition})"
    return Table(f"topics-{slug(name)}", caption, columns, tuple(rows), row_headers=1, collapsed=True)


def provenance_section(provenance: Provenance) -> Section:
    """Returns versions, machine, command and checksums."""
    entries = (("command", provenance.command), *provenance.versions.items(), ("machine", provenance.machine))
    facts = Facts(tuple((name, value) for name, value in entries if value))
    rows = tuple(cells(*file) for file in provenance.files.items())
    files = Table("checksums", "Input files", columns("file", "SHA-256"), rows, collapsed=True)
    return Section("Provenance", (facts, files) if provenance.files else (facts,))


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
