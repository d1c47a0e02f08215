"""The report of runs on one collection: means, significance tests, groups of topics, cost and limitations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from types import MappingProxyType

from harness.errors import capitalised, counted_text
from harness.experiments.evaluate import Evaluation, compare, inputs
from harness.io.arguments import checked_arguments
from harness.io.names import in_natural_order
from harness.render import figures
from harness.render.model import Block, Cell, Column, Figure, Prose, Section, Table, cells, columns, number_cell, slug
from harness.render.svg import SERIES
from harness.render.write import Report
from harness.reports.means import comparison_means_table, ranked_by_mean
from harness.reports.pair_tests import correction_name, equivalence_table, methods_text, tests_table
from harness.reports.parts import (
    best_mean,
    best_words,
    comparison_records,
    counted_topics,
    equal,
    lead_words,
    mean_interval,
    per_topic_table,
    protocol_text,
    provenance_section,
    score_records,
    slice_cells,
    ties_table,
    undefined_sentence,
)
from harness.reports.sections import DOMAIN, domain_section, unjudged_section
from harness.reports.topics import explorer, own_corpus, topic_pages
from harness.scoring.comparison import ESTABLISHED, Comparison, PairDifference, comparison_to_json, groups_not_different
from harness.scoring.measures import shown_decimals
from harness.scoring.scores import Scores, scores_to_json, tie_caution
from harness.store.provenance import Provenance

MOST_IN_MATRIX = 24  # most runs for a matrix of all pairs, and of distributions in a figure
MOST_PAIRS = 40  # of more differences without a baseline, a figure has those of the best run
MOST_GROUPS = 40  # most groups of topics in a figure


@checked_arguments
def report(
    evaluation: Evaluation,
    comparison: Comparison | None = None,
    *,
    title: str = "",
    remarks: Sequence[str] = (),
    provenance: Provenance | None = None,
    commands: Mapping[str, str] = MappingProxyType({}),
    unjudged: bool = False,
) -> Report:
    """Builds the report of scored runs; with a comparison, also of their differences.

    Parameters
    ----------
    title : default: the collection's.
    remarks : what a reader of the numbers must know, a sentence each.
    provenance : default: `harness.experiments.evaluate.inputs`.
    commands : run -> the command that makes it or scores it.
    unjudged : add what documents without a judgment leave open (`harness.scoring.unjudged`).

    Examples
    --------
    >>> import harness as h
    >>> runs = [f"runs/mini/mini-task1/{name}.run" for name in ("overlap", "shuffle")]
    >>> found = h.evaluate(h.task("mini-task1"), *runs)
    >>> page = h.report(found, h.compare(found, "shuffle"), title="Overlap against chance")
    >>> page.headline
    '2 runs on mini-task1 (edition official, n = 42): best nDCG′ 0.830 by overlap'
    >>> sorted(page.write("reports/overlap", formats=["html", "csv"]))
    ['csv', 'html']
    """
    pairs = _all_pairs(evaluation, comparison)
    sections = [
        _results_section(evaluation, comparison, pairs),
        _data_and_protocol_section(evaluation, remarks),
        _groups_section(evaluation, comparison, pairs),
        _differences_section(evaluation),
        domain_section(evaluation),
        equivalence_section(comparison, evaluation.scores[0].protocol.label),
        unjudged_section(evaluation, comparison) if unjudged else None,
        _methods_section(comparison),
        _topics_section(evaluation, comparison),
        _cost_section(evaluation),
        _limitations_section(evaluation),
        _commands_section(evaluation, commands),
        provenance_section(provenance or inputs(evaluation)),
    ]
    data: dict[str, object] = {"scores": [scores_to_json(scores) for scores in evaluation.scores]}
    records = {"scores": score_records(evaluation.scores)}
    if comparison is not None:
        data["comparison"] = comparison_to_json(comparison)
        records["comparison"] = comparison_records(comparison)
    heading = title or evaluation.task.collection.title
    whole = tuple(section for section in sections if section is not None)
    return Report(heading, comparison_headline(evaluation), whole, data=data, records=records)


def equivalence_section(comparison: Comparison | None, label: Callable[[str], str]) -> Section | None:
    """Returns the tests within a margin, with intervals against it for each measure; None without a margin."""
    if comparison is None or not comparison.equivalence:
        return None
    blocks: list[Block] = [equivalence_table(comparison, label)]
    for measure in dict.fromkeys(test.measure for test in comparison.equivalence):
        tests = [test for test in comparison.equivalence if test.measure == measure][: figures.MOST_ROWS]
        rows = [
            (f"{test.a} - {test.b}", test.difference, test.ci_low, test.ci_high, test.outcome in ESTABLISHED)
            for test in tests
        ]
        drawing = figures.dot_interval(rows, f"difference in {label(measure)}", margin=tests[0].margin)
        caption = f"Differences in {label(measure)} against the margin of {tests[0].margin:g}; bold: "
        caption += "within it" if tests[0].kind == "equivalence" else "not worse by it"
        blocks.append(Figure(f"equivalence-{slug(measure)}", caption, drawing))
    return Section(capitalised(comparison.equivalence[0].kind), tuple(blocks))


def _methods_section(comparison: Comparison | None) -> Section | None:
    """Returns what a paper says of tests beyond the default ones."""
    if comparison is None or (comparison.marks == "bonferroni" and not comparison.equivalence):
        return None
    return Section("Methods, for a paper", (Prose((methods_text(comparison),)),))


def comparison_headline(evaluation: Evaluation) -> str:
    """Returns the main result in one line."""
    first = evaluation.scores[0]
    measure = first.measures[0]
    ranked = ranked_by_mean(evaluation.scores)
    where = f"{evaluation.task.collection.name} (edition {first.edition}, n = {ranked[0].n(measure)})"
    means = {scores.run: scores.aggregate(measure) for scores in ranked}
    return f"{counted_text(len(ranked), 'run')} on {where}: {best_words(measure, first.protocol.label(measure), means)}"


def _results_section(evaluation: Evaluation, comparison: Comparison | None, pairs: Comparison | None) -> Section:
    """Returns how far the best run is ahead and what of the corpus is missing, a figure, the means, and the tests."""
    said = evaluation.coverage_sentence()
    lines = (*_lead(evaluation, pairs), *([f"{capitalised(said)}."] if said else []))
    drawn, *tests = _figures(evaluation, comparison)
    text: tuple[Block, ...] = (Prose(lines),) if lines else ()
    return Section("Results", (*text, drawn, comparison_means_table(evaluation, comparison), *tests))


def _lead(evaluation: Evaluation, pairs: Comparison | None) -> tuple[str, ...]:
    """Returns a sentence on the difference between the best run and the next; nothing if none is the best."""
    measure = evaluation.scores[0].measures[0]
    rows = () if pairs is None else [row for row in pairs.rows if row.measure == measure]
    tests = {frozenset((row.a, row.b)): row for row in rows}
    means = {scores.run: scores.aggregate(measure) for scores in ranked_by_mean(evaluation.scores)}
    return lead_words(measure, means, tests, 0 if pairs is None else pairs.family)


def _data_and_protocol_section(evaluation: Evaluation, remarks: Sequence[str]) -> Section:
    first = evaluation.scores[0]
    edition = evaluation.task.collection.edition(first.edition)
    judged = evaluation.task.scorer.qrels.judged()
    text = Prose(
        (
            f"{evaluation.task.collection.title}; judgments: {edition.title} "
            f"({len(judged.topics)} topics, {len(judged):,} judgments, SHA-256 {first.qrels_sha256[:12]}…).",
            *evaluation.task.collection.notes,
            *remarks,
        )
    )
    return Section("Data and protocol", (text, protocol_text(first.protocol)))


def _figures(evaluation: Evaluation, comparison: Comparison | None) -> list[Block]:
    first = evaluation.scores[0]
    measure = first.measures[0]
    label = first.protocol.label(measure)
    ranked = ranked_by_mean(evaluation.scores)
    spread = [(s.run, [float(v) for v in s.column(measure) if not math.isnan(v)]) for s in ranked]
    some = _some(min(len(spread), MOST_IN_MATRIX), len(spread), "run", "the best ")
    drawing = figures.distribution(spread[:MOST_IN_MATRIX], label)
    blocks: list[Block] = [Figure("distribution", f"{label} over topics{some}", drawing)]
    return (
        blocks if comparison is None or not comparison.rows else [*blocks, differences_figure(evaluation, comparison)]
    )


def means_figure(evaluation: Evaluation) -> Figure:
    """Draws the mean of each run by the first measure with its t interval, the best run first."""
    first = evaluation.scores[0]
    measure = first.measures[0]
    label = first.protocol.label(measure)
    ranked = ranked_by_mean(evaluation.scores)
    best, clusters = best_mean(ranked, measure), evaluation.task.collection.clusters()
    drawn = [
        (scores.run, mean := scores.aggregate(measure), *mean_interval(scores, measure, clusters), equal(mean, best))
        for scores in ranked[: figures.MOST_ROWS]
    ]
    some = _some(len(drawn), len(evaluation.scores), "run", "the best ")
    where = f"{first.collection}, edition {first.edition}, protocol {first.protocol.name}"
    caption = f"Mean {label} of runs{some}; {where}" + ("" if math.isnan(best) else "; diamond: the best")
    return Figure("means", caption, figures.dot_interval(drawn, f"{label}, 95% interval over topics", zero=False))


def differences_figure(evaluation: Evaluation, comparison: Comparison) -> Figure:
    """Draws the differences of means by the first measure with their intervals; its table has all tests."""
    first = evaluation.scores[0]
    measure = first.measures[0]
    label = first.protocol.label(measure)
    ranked = ranked_by_mean(evaluation.scores)
    place = {scores.run: index for index, scores in enumerate(ranked)}
    tests = sorted(comparison.rows, key=lambda row: (place[row.a], place[row.b]))
    table = tests_table(replace(comparison, rows=tuple(tests)), first.protocol.label)
    table = replace(table, notes=("The table of means describes the tests.", *table.notes[1:]))
    of_first = [row for row in tests if row.measure == measure]
    # Of many pairs, those with the best run matter most; tests against a baseline begin with the best run.
    many = not comparison.baseline and len(of_first) > MOST_PAIRS
    base = ranked[0].run if many else comparison.baseline
    drawn = [row for row in of_first if not many or base in (row.a, row.b)][: figures.MOST_ROWS]
    svg = figures.dot_interval([_drawn(row, base) for row in drawn], f"difference in {label}, 95% interval")
    what = f"Mean differences in {label}" + (f" from {base}" if base else "") + (", the best run" if many else "")
    what += _some(len(drawn), len(of_first), "test" if comparison.baseline else "pair")
    marked = f"; bold: significant after {correction_name(comparison)}" if any(r.marked for r in drawn) else ""
    return Figure("differences", what + marked, svg, table)


def _drawn(row: PairDifference, base: str | None) -> tuple[str, float, float, float, bool]:
    """Returns label, difference and interval of a test in a figure of differences from `base`, or of pairs."""
    if base == row.a:
        return row.b, -row.difference, -row.ci_high, -row.ci_low, bool(row.marked)
    name = row.a if base else f"{row.a} - {row.b}"
    return name, row.difference, row.ci_low, row.ci_high, bool(row.marked)


def _some(drawn: int, of: int, noun: str, which: str = "") -> str:
    """Says that a figure shows only a part; empty if it shows all."""
    return "" if drawn == of else f", {which}{drawn} of {counted_text(of, noun)}; the table has all"


def _all_pairs(evaluation: Evaluation, declared: Comparison | None) -> Comparison | None:
    """Tests every pair of runs by the first measure; the family is the union of these tests and the declared ones.

    None for more pairs than are tested unasked, or if two runs share fewer than two topics with values.

    The family is the declared one; it is made larger only if it is smaller than the declared tests and the pairs that
    are not among them taken together.
    """
    measure = evaluation.scores[0].measures[0]
    of = evaluation.task.collection.clusters() or {topic: topic for topic in evaluation.scores[0].topics}
    columns_of = [zip(s.topics, s.column(measure).tolist(), strict=True) for s in evaluation.scores]
    answered = [{topic for topic, value in column if not math.isnan(value)} for column in columns_of]
    few = any(len({of[topic] for topic in a & b}) < 2 for a, b in combinations(answered, 2))
    if few or len(evaluation.scores) < 2:
        return None
    runs = [scores.run for scores in evaluation.scores]
    wanted = {frozenset(pair) for pair in combinations(runs, 2)}
    if declared is None:
        return compare(evaluation, measures=[measure])
    added = wanted - {frozenset((row.a, row.b)) for row in declared.rows if row.measure == measure}
    if not added:
        return declared
    if len(runs) > MOST_IN_MATRIX:
        return None
    return compare(
        evaluation,
        measures=[measure],
        alpha=declared.alpha,
        family=max(declared.family, len(declared.rows) + len(added)),
        test=declared.test,
        permutations=declared.permutations,
        seed=declared.seed,
    )


def _groups_section(evaluation: Evaluation, comparison: Comparison | None, pairs: Comparison | None) -> Section | None:
    """Returns the groups of runs that do not differ by the first measure: letters and a matrix of all pairs."""
    if pairs is None:
        said = (
            f"Not computed: {len(evaluation.scores)} runs have more pairs than are tested unasked (up to "
            f"{MOST_IN_MATRIX} runs). A comparison of all pairs, without a baseline, gives the groups."
        )
        return Section("Significance groups", (Prose((said,)),)) if len(evaluation.scores) > MOST_IN_MATRIX else None
    first = evaluation.scores[0]
    measure = first.measures[0]
    label = first.protocol.label(measure)
    letters = groups_not_different(pairs, measure, "bonferroni")
    means = {scores.run: scores.aggregate(measure) for scores in evaluation.scores}
    rows = tuple(
        cells(run, number_cell(means[run], shown_decimals(measure, 3)), shown) for run, shown in letters.items()
    )
    heads = (*columns("run", numbers=[label]), Column("group"))
    note = f"Runs that share a letter do not differ significantly: {pairs.correction}; Bonferroni's correction."
    undefined = undefined_sentence([(r.a, r.b) for r in pairs.rows if r.measure == measure and r.p_bonferroni is None])
    note += f" {undefined}" if undefined else ""
    if comparison is not None and pairs.family > comparison.family:
        more = pairs.family - comparison.family
        note += (
            f" The family: the {comparison.family} tests of the means and {counted_text(more, 'more pair')}; "
            "a difference "
            "that is significant in the smaller family of those tests may not be so here."
        )
    table = Table("groups", f"Groups of runs by {label}", heads, rows, (note,))
    order = list(letters)
    p = {frozenset((row.a, row.b)): row.p_bonferroni for row in pairs.rows if row.measure == measure}
    if len(order) > MOST_IN_MATRIX:
        note = f"No figure of all pairs: {len(order)} runs, drawn up to {MOST_IN_MATRIX}."
        return Section("Significance groups", (replace(table, notes=(*table.notes, note)),))
    apart = {pair: math.nan if value is None else value for pair, value in p.items()}
    matrix = [[math.nan if a == b else apart[frozenset((a, b))] for b in order] for a in order]
    svg = figures.p_value_matrix(order, matrix)
    caption = f"p of every pair of runs in {label}, after Bonferroni's correction"
    return Section("Significance groups", (table, Figure("pairs", caption, svg)))


def _differences_section(evaluation: Evaluation) -> Section | None:
    """Returns means by attribute of topics, for every attribute with few values."""
    first = evaluation.scores[0]
    measure = first.measures[0]
    known = evaluation.task.topics.by_id()
    judged = [known[topic] for topic in first.topics if topic in known]
    clusters = evaluation.task.collection.clusters()
    ranked = ranked_by_mean(evaluation.scores)
    named = {name for topic in judged for name in topic.attributes} - {evaluation.task.collection.cluster, DOMAIN}
    blocks: list[Block] = []
    for name in in_natural_order(named):
        values = in_natural_order(value for topic in judged for value in topic.values(name))
        if not 2 <= len(values) <= 12:
            continue
        heads, rows = [Column("run")], [[Cell(scores.run)] for scores in ranked]
        for value in values:
            chosen = [topic.id for topic in judged if value in topic.values(name)]
            parts = [scores.select(chosen) for scores in ranked]
            heads.append(Column(f"{value} (n = {counted_topics(parts, measure).text})", name, "number"))
            for row, cell in zip(rows, slice_cells(parts, measure, shown_decimals(measure, 3)), strict=True):
                row.append(cell)
        caption = f"{first.protocol.label(measure)} by {name}"
        blocks.append(Table(f"slice-{slug(name)}", caption, tuple(heads), tuple(map(tuple, rows)), ("Not tested.",)))
    if clusters is not None and 2 <= len(set(clusters.values())) <= MOST_GROUPS:
        label = first.protocol.label(measure)
        blocks.append(by_group(ranked, clusters, measure, label, evaluation.task.collection.cluster))
    return Section("Groups of topics", tuple(blocks)) if blocks else None


def by_group(runs: Sequence[Scores], clusters: Mapping[str, str], measure: str, label: str, name: str) -> Figure:
    """Returns the means of each group of topics for every run; draws as many runs as a figure can distinguish.

    Parameters
    ----------
    clusters : topic -> its group.
    name : what groups are called.
    """
    members: dict[str, list[str]] = {}
    for topic in runs[0].topics:
        members.setdefault(clusters[topic], []).append(topic)
    groups = in_natural_order(members)
    parts = [[scores.select(members[group]) for scores in runs] for group in groups]
    heads = columns(name, numbers=("topics", *(scores.run for scores in runs)))
    rows = tuple(
        (Cell(group), counted_topics(of, measure), *slice_cells(of, measure, shown_decimals(measure, 3)))
        for group, of in zip(groups, parts, strict=True)
    )
    shown = runs[:SERIES]
    bars = [[scores.aggregate(measure) for scores in of[: len(shown)]] for of in parts]
    svg = figures.grouped_bars(groups, [scores.run for scores in shown], bars, label)
    drawn = "" if len(shown) == len(runs) else f", the first {len(shown)} runs"
    caption = f"{label} by {name}: means over the topics of a group{drawn}"
    return Figure(
        f"group-{slug(name)}", caption, svg, Table(f"by-{slug(name)}", caption, heads, rows, ("Not tested.",))
    )


def _topics_section(evaluation: Evaluation, comparison: Comparison | None) -> Section:
    runs = {scores.run: scores for scores in evaluation.scores}
    collection, scorer, topics = evaluation.task.collection, evaluation.task.scorer, evaluation.task.topics
    table = per_topic_table(collection.name, runs, topics.by_id())
    rankings = [scorer.rankings(run) for run in evaluation.runs]
    name, title, link = collection.name, collection.title, collection.link
    pages = topic_pages(name, title, topics, scorer, evaluation.scores, rankings, link)
    baseline = comparison.baseline if comparison is not None and comparison.baseline else ""
    formulas = scorer.protocol.deduplicate
    texts = own_corpus(collection)
    block = explorer([pages], baseline=baseline, tables=[table], corpus=texts, key=scorer.key, bare=formulas)
    return Section("Per-topic results", (block,))


def _cost_section(evaluation: Evaluation) -> Section | None:
    """Returns effectiveness against CPU time, if that is known."""
    if not evaluation.seconds:
        return None
    first = evaluation.scores[0]
    measure = first.measures[0]
    label = first.protocol.label(measure)
    known = [(s.run, evaluation.seconds[s.run], s.aggregate(measure)) for s in ranked_by_mean(evaluation.scores)]
    rows = tuple(
        cells(run, number_cell(cost * 1000, 2), number_cell(mean, shown_decimals(measure, 3)))
        for run, cost, mean in known
    )
    heads = columns("run", numbers=("CPU ms per topic", label))
    note = "Times of one run on this machine, including indexing; they vary between runs."
    table = Table("cost", f"{label} and CPU time", heads, rows, (note,))
    points = [(run, cost * 1000, mean) for run, cost, mean in known]
    svg = figures.scatter(points, "CPU ms per topic", label)
    return Section("Costs", (Figure("cost-figure", f"{label} against CPU time", svg, table),))


def _commands_section(evaluation: Evaluation, commands: Mapping[str, str]) -> Section | None:
    rows = tuple(cells(s.run, commands[s.run]) for s in ranked_by_mean(evaluation.scores) if s.run in commands)
    brought = any(row[1].text.startswith("harness score ") for row in rows)
    notes = ("Runs of unknown origin have the command that scores them.",) if brought else ()
    table = Table("commands", "Commands of the runs", columns("run", "command"), rows, notes)
    return Section("Commands", (table,)) if rows else None


def _limitations_section(evaluation: Evaluation) -> Section:
    first = evaluation.scores[0]
    names = list(dict.fromkeys(name for scores in evaluation.scores for name in scores.counts))
    rows = tuple(cells(s.run, *(s.counts.get(name, "") for name in names)) for s in ranked_by_mean(evaluation.scores))
    table = Table("counts", "Counts of topics and results", columns("run", numbers=names), rows)
    lines, ties = ties_table(evaluation.bounds, first.protocol)
    if unknown := tie_caution(evaluation.scores):
        lines.append(f"{capitalised(unknown)}.")
    return Section("Limitations", (table, Prose((*lines, *evaluation.warnings)), *ties))
