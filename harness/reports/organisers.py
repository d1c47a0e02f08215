"""Reports for organisers: variance by system and topic, correlations of measures, pools, agreement of assessors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import combinations

import numpy as np

from harness.data.trec import Qrels
from harness.errors import HarnessError, counted_text
from harness.experiments.evaluate import Evaluation, compare, inputs
from harness.render import figures
from harness.render.model import Block, Cell, Column, Figure, Prose, Section, Table, cells, columns, number_cell
from harness.render.write import Report
from harness.reports.means import comparison_means_table
from harness.reports.pair_tests import difference_interval, mark_of, shown_p
from harness.reports.parts import protocol_text, provenance_section
from harness.scoring.agreement import Kappa, RunRankingCorrelation, Weights, confusion, kappa, rank_correlation
from harness.scoring.anova import Anova, anova
from harness.scoring.difficulty import TopicDifficulty, topic_difficulty
from harness.scoring.measures import without_diagnostics
from harness.scoring.pools import Pool, TeamBias
from harness.scoring.protocol import Protocol
from harness.scoring.scores import Scores, values_of
from harness.store.provenance import Provenance

DRAWN = 12  # hardest and easiest topics in a figure, each
Label = Callable[[str], str]


# Topics


def difficulty_table(topics: Sequence[TopicDifficulty], label: str) -> Table:
    """Returns every topic, the hardest first."""
    rows = tuple(
        cells(
            each.topic,
            each.runs,
            *map(number_cell, (each.mean, each.sd, each.low, each.high)),
            each.zeros,
            number_cell(each.discrimination),
        )
        for each in topics
    )
    heads = (
        *columns("topic", numbers=["runs"]),
        *columns(numbers=("mean", "sd", "lowest", "highest"), group=label),
        *columns(numbers=("runs with 0", "discrimination")),
    )
    note = (
        "Discrimination: correlation of the topic's scores with the runs' means over all other topics; below 0, the "
        "topic reverses the order of the runs."
    )
    return Table("difficulty", f"Topics by {label}, the hardest first", heads, rows, (note,))


def _topics_section(scores: Sequence[Scores], measure: str, label: Label) -> tuple[Section, Sequence[TopicDifficulty]]:
    values = values_of(scores, measure)
    topics = topic_difficulty(values, scores[0].topics)
    at = {topic: row for row, topic in enumerate(scores[0].topics)}
    ends = topics if len(topics) <= 2 * DRAWN else (*topics[:DRAWN], *topics[-DRAWN:])
    drawn = [(each.topic, [float(v) for v in values[at[each.topic]] if not math.isnan(v)]) for each in ends]
    name = label(measure)
    which = "" if len(topics) <= 2 * DRAWN else f", the {DRAWN} hardest and the {DRAWN} easiest topics"
    figure = Figure("difficulty-figure", f"{name} over runs{which}", figures.distribution(drawn, name))
    return Section("Topics", (difficulty_table(topics, name), figure)), topics


# Measures, editions, years


def measure_correlations(
    scores: Sequence[Scores], measures: Sequence[str], label: Label
) -> list[RunRankingCorrelation]:
    """Returns the rank correlations of each pair of measures."""
    means = {measure: {each.run: each.aggregate(measure) for each in scores} for measure in measures}
    return [rank_correlation(label(a), label(b), means[a], means[b]) for a, b in combinations(measures, 2)]


def correlations_table(correlations: Sequence[RunRankingCorrelation], caption: str) -> Table:
    """Returns each pair of rankings, the most similar last."""
    rows = tuple(
        cells(each.a, each.b, each.n, *map(number_cell, (each.tau, each.tau_ap, each.rbo)))
        for each in sorted(correlations, key=lambda each: (each.tau is not None, each.tau or 0.0, each.a, each.b))
    )
    heads = columns("ranking by", "and by", numbers=("runs", "tau-b", "tau-AP", "rank-biased overlap"))
    note = (
        "tau-AP: AP correlation (Yilmaz et al.), symmetric with ties (tau_ap,b), which weights top ranks more; "
        "rank-biased overlap with p = 0.9, extrapolated."
    )
    return Table("correlations", caption, heads, rows, (note,), row_headers=2)


def rankings_report(given: Mapping[str, Sequence[Scores]], measures: Sequence[str], made: Provenance) -> Report:
    """Reports correlations of rankings: by pairs of measures within one file, or by each measure between files.

    Parameters
    ----------
    given : name of a file -> scores of its runs; runs are matched by name between files (editions, years).
    measures : measures to compare; empty for all common ones except diagnostic measures.

    Raises
    ------
    HarnessError
        The files have no measure, or fewer than two runs, in common.
    """
    files = list(given)
    first = given[files[0]][0]
    wanted = list(measures) or list(without_diagnostics(first.measures))
    correlations: list[RunRankingCorrelation] = []
    if len(files) == 1:
        correlations = measure_correlations(given[files[0]], wanted, first.protocol.label)
    shared = [m for m in wanted if measures or all(m in each.measures for scores in given.values() for each in scores)]
    for a, b in combinations(files, 2):
        for measure in shared:
            means = [{each.run: each.aggregate(measure) for each in given[name]} for name in (a, b)]
            label = first.protocol.label(measure)
            correlations.append(rank_correlation(f"{a}: {label}", f"{b}: {label}", *means))
    if not correlations:
        raise HarnessError("fewer than two rankings to correlate: give two files with a measure in common")
    where = ", ".join(
        f"{name}: {scores[0].collection}, edition {scores[0].edition}, protocol {scores[0].protocol.name}"
        for name, scores in given.items()
    )
    table = correlations_table(correlations, "Correlations of rankings of runs")
    least = min((each.tau for each in correlations if each.tau is not None), default=math.nan)
    return Report(
        "Comparison of rankings",
        f"{counted_text(len(correlations), 'pair')} of rankings; lowest tau-b {least:.3f}",
        (Section("Correlations", (table, Prose((where,)))), provenance_section(made)),
        data={"correlations": [asdict(each) for each in correlations]},
    )


# Systems


def sources_table(analyses: Mapping[str, Anova]) -> Table:
    """Returns the variance explained by systems, topics and the rest; `analyses`: label of a measure -> analysis."""
    rows = tuple(
        cells(
            *(name, each.name, number_cell(each.squares, 4), each.freedom, number_cell(each.share)),
            *(number_cell(each.f, 2), "" if each.name == "residual" else shown_p(each.p), number_cell(each.omega)),
        )
        for name, analysis in analyses.items()
        for each in analysis.sources
    )
    heads = columns("measure", "source", numbers=("sum of squares", "df", "share", "F", "p", "partial omega²"))
    note = (
        "Two-way analysis of variance without replication: score = system + topic + error. F tests assume equal "
        "variances and no interaction, which holds for scores of topics only approximately."
    )
    return Table("anova", "Sources of variance", heads, rows, (note,), row_headers=2)


def pairs_table(analysis: Anova, holm: Mapping[frozenset[str], float | None], label: str) -> Table:
    """Returns Tukey's test of every pair of systems beside the corrected paired t-test; `holm`: two runs -> its p."""
    rows = []
    for pair in sorted(analysis.pairs, key=lambda each: -abs(each.difference)):
        p = holm.get(frozenset((pair.a, pair.b)))
        both = None not in (p, pair.p)
        marks = (mark_of(pair.difference),) if pair.significant else ()
        differs = both and pair.significant != (p is not None and p < analysis.alpha)
        apart = Cell(f"{pair.difference:+.4f}", pair.difference, marks)
        said = "differ" if differs else "agree" if both else "n/a"
        interval = difference_interval(pair.low, pair.high)
        rows.append(cells(pair.a, pair.b, apart, interval, shown_p(pair.p), shown_p(p), said))
    heads = (
        *columns("run", "against", numbers=["difference"]),
        Column("Tukey interval", parts=("low", "high")),
        *columns(numbers=("Tukey p", "t-test p (Holm)")),
        Column("agreement"),
    )
    level = f"alpha {analysis.alpha:g}, n = {analysis.topics} topics"
    notes = (
        f"Tukey's honestly significant difference: {analysis.hsd:.4f} ({level}, pooled error of all pairs). The paired "
        "t-tests, with Holm's correction over all these pairs, use the variance of each pair.",
    )
    return Table("pairs", f"Pairs of runs by {label}", heads, tuple(rows), notes, row_headers=2, collapsed=True)


def _systems_section(evaluation: Evaluation, alpha: float, label: Label) -> tuple[Section, dict[str, Anova]]:
    clusters = evaluation.task.collection.clusters()
    scores = [each if clusters is None else each.by_cluster(clusters, weighted=True) for each in evaluation.scores]
    names = [each.run for each in scores]
    measures = without_diagnostics(scores[0].measures)
    analyses = {label(measure): anova(values_of(scores, measure), names, alpha) for measure in measures}
    first = measures[0]
    # permutations=1, since only the t-tests are shown
    tests = compare(evaluation, measures=[first], alpha=alpha, permutations=1)
    holm = {frozenset((row.a, row.b)): row.p_holm for row in tests.rows}
    blocks = (sources_table(analyses), pairs_table(analyses[label(first)], holm, label(first)))
    return Section("Systems: analysis of variance", blocks), analyses


# The pool


def teams_table(biases: Sequence[TeamBias], label: Label) -> Table:
    """Returns the largest loss of each team's runs without its pool, and the change of the ranking of runs."""
    rows = []
    for bias in biases:
        for measure, tau in bias.tau.items():
            losses = [each.difference for each in bias.losses if each.measure == measure]
            worst = max((x for x in losses if not math.isnan(x)), key=abs, default=math.nan)
            named = (bias.team, bias.judgments, bias.relevant, label(measure))
            rows.append(cells(*named, number_cell(worst, 4), number_cell(tau, 4)))
    heads = (
        Column("team"),
        *columns(numbers=("judgments", "relevant"), group="contributed alone"),
        *columns("measure", numbers=("largest change", "tau-b of all runs")),
    )
    note = (
        "Scores without the judgments that only this team's runs contributed to the pool. Changes are before minus "
        "after: the run's gain from these judgments."
    )
    return Table("teams", "Pool bias: leave one team out", heads, tuple(rows), (note,))


def losses_table(biases: Sequence[TeamBias], label: Label) -> Table:
    """Returns means and ranks of every run, before and after."""
    rows = tuple(
        cells(
            *(bias.team, each.run, label(each.measure)),
            *(number_cell(value, 4) for value in (each.before, each.after, each.difference)),
            *(each.rank_before, each.rank_after),
        )
        for bias in biases
        for each in bias.losses
    )
    means = columns("team", "run", "measure", numbers=("before", "after", "loss"), group="mean")
    heads = (*means, *columns(numbers=("before", "after"), group="rank"))
    return Table("losses", "Runs of the teams left out", heads, rows, row_headers=3, collapsed=True)


def pool_tables(pool: Pool) -> tuple[Table, Table]:
    """Returns the contribution of each run to a pool, and the topics of the pool."""
    shares = tuple(cells(each.run, each.depth, each.pooled, each.alone) for each in pool.shares)
    heads = columns("run", numbers=("depth", "in the pool", "contributed alone"))
    topics = tuple(cells(topic, len(docs), pool.candidates[topic]) for topic, docs in pool.topics.items())
    sizes = columns("topic", numbers=("to judge", "candidates"))
    return (
        Table("shares", "Contributions of the runs", heads, shares),
        Table("pool-topics", "Topics of the pool", sizes, topics, collapsed=True),
    )


def pool_rules(protocol: Protocol, depth: int, primary_depth: int | None, cap: int | None, seed: int) -> list[str]:
    """Returns how a pool was made, a sentence each."""
    kind = "keys" if protocol.deduplicate else "documents"
    primaries = "" if primary_depth is None else f" ({primary_depth} of primary runs)"
    most = "." if cap is None else f"; at most {cap} of one topic."
    first = f"The first {depth} {kind} of each topic of each run{primaries}, by protocol {protocol.name}{most}"
    return [first, f"The order is that of hashes, with seed {seed}."]


def pool_report(pool: Pool, title: str, how: Sequence[str], made: Provenance) -> Report:
    """Builds the report of a pool; `how`: its settings, a sentence each (`pool_rules`)."""
    shares, topics = pool_tables(pool)
    headline = f"{counted_text(len(pool), 'document')} to judge in {counted_text(len(pool.topics), 'topic')}, "
    headline += f"from {counted_text(len(pool.shares), 'run')}"
    lines = (*how, f"{pool.judged:,} were judged before and are left out.") if pool.judged else tuple(how)
    warning = "For organisers only: assessors must not know which run contributed what; give them pool.tsv alone."
    sections = (Section("Pool", (Prose((*lines, warning)), shares, topics)), provenance_section(made))
    return Report(title, headline, sections)


# All of them


def analysis_report(
    evaluation: Evaluation, bias: Sequence[TeamBias] | None = None, alpha: float = 0.05, remarks: Sequence[str] = ()
) -> Report:
    """Reports means, analysis of variance, topics, measures, and pool bias if given.

    Raises
    ------
    HarnessError
        There are fewer than two runs, or fewer than two topics that count for all of them.
    """
    scores = evaluation.scores
    protocol = scores[0].protocol
    if len(scores) < 2:
        raise HarnessError("an analysis needs at least two runs")
    systems, analyses = _systems_section(evaluation, alpha, protocol.label)
    measures = without_diagnostics(scores[0].measures)
    topics, difficulty = _topics_section(scores, measures[0], protocol.label)
    sections = [Section("Results", (comparison_means_table(evaluation, None),)), systems, topics]
    rows = measure_correlations(scores, measures, protocol.label)
    if rows:
        sections.append(Section("Measures", (correlations_table(rows, "Rankings of the runs by pairs of measures"),)))
    if bias is not None:
        blocks: tuple[Block, ...] = (teams_table(bias, protocol.label), losses_table(bias, protocol.label))
        sections.append(Section("Pool", blocks))
    collection = evaluation.task.collection
    what = Prose((f"{collection.title}, edition {scores[0].edition}.", *collection.notes, *remarks))
    sections += [Section("Data and protocol", (what, protocol_text(protocol))), provenance_section(inputs(evaluation))]
    name, first = next(iter(analyses.items()))
    share = first.sources[0].share
    headline = f"{len(scores)} runs: systems explain {share:.0%} of the variance of {name}, topics "
    headline += f"{first.sources[1].share:.0%}; honestly significant difference {first.hsd:.3f}"
    data = {
        "anova": {label: asdict(each) for label, each in analyses.items()},
        "difficulty": [asdict(each) for each in difficulty],
        "correlations": [asdict(each) for each in rows],
        "bias": None if bias is None else [asdict(each) for each in bias],
    }
    return Report(f"Analysis of {evaluation.task.collection.name}", headline, tuple(sections), data=data)


# Assessors


def kappa_report(a: Qrels, b: Qrels, relevant_from: float, names: tuple[str, str], made: Provenance) -> Report:
    """Builds the report of the agreement of two assessors on what both judged.

    Parameters
    ----------
    relevant_from : the lowest grade that counts as relevant.
    names : what the two are called.

    Raises
    ------
    HarnessError
        They have no judged pair of topic and document in common.
    """
    first, second = (_grades(qrels) for qrels in (a, b))
    common = [pair for pair in first if pair in second]
    if not common:
        raise HarnessError(f"{names[0]} and {names[1]}: no topic and document was judged by both")
    x, y = (np.array([grades[pair] for pair in common]) for grades in (first, second))
    kinds: tuple[Weights, ...] = ("none", "linear", "quadratic")
    kappas = {("grades" if kind == "none" else f"grades, {kind} weights"): kappa(x, y, kind) for kind in kinds}
    kappas[f"relevant or not (from grade {relevant_from:g})"] = kappa(x >= relevant_from, y >= relevant_from)
    topics: dict[str, list[int]] = {}
    for at, (topic, _) in enumerate(common):
        topics.setdefault(topic, []).append(at)
    of_topics = {topic: kappa(x[rows], y[rows]) for topic, rows in topics.items()}
    counts, grades = confusion(x, y)
    matrix = Table(
        "confusion",
        f"Grades of {names[0]} (rows) and {names[1]} (columns)",
        columns("grade", numbers=(f"{grade:g}" for grade in grades), group=names[1]),
        tuple(cells(f"{grade:g}", *row) for grade, row in zip(grades.tolist(), counts.tolist(), strict=True)),
    )
    only = [len(part) - len(common) for part in (first, second)]
    overlap = f"Judged by both: {len(common):,}; by {names[0]} only: {only[0]:,}; by {names[1]} only: {only[1]:,}."
    note = "Kappa: agreement beyond chance, given each assessor's distribution of grades; not averaged over topics."
    blocks = (Prose((overlap,)), kappas_table("kappa", "Agreement", "of", kappas, note), matrix)
    by_topic = kappas_table("kappa-topics", "Agreement by topic", "topic", of_topics, collapsed=True)
    plain = kappas["grades"]
    shown = "undefined" if plain.kappa is None else f"{plain.kappa:.3f}"
    return Report(
        f"Agreement of {names[0]} and {names[1]}",
        f"Cohen's kappa {shown} on {counted_text(plain.n, 'document')} that both judged",
        (Section("Agreement", blocks), Section("Per-topic results", (by_topic,)), provenance_section(made)),
        data={"kappa": {name: asdict(each) for name, each in kappas.items()}},
    )


def kappas_table(
    id: str, caption: str, first: str, kappas: Mapping[str, Kappa], note: str = "", collapsed: bool = False
) -> Table:
    """Returns kappas with observed and expected agreement."""
    rows = tuple(
        cells(name, each.n, *map(number_cell, (each.observed, each.chance, each.kappa)))
        for name, each in kappas.items()
    )
    heads = columns(first, numbers=("n", "observed", "by chance", "kappa"))
    return Table(id, caption, heads, rows, (note,) if note else (), collapsed=collapsed)


def _grades(qrels: Qrels) -> dict[tuple[str, str], float]:
    rows = zip(qrels.topic.tolist(), qrels.doc.tolist(), qrels.grade.tolist(), strict=True)
    return {(qrels.topics[topic], doc.decode()): grade for topic, doc, grade in rows}
