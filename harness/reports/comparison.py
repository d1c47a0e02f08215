"""The report of runs on one collection: means, significance tests, groups of topics, cost and limitations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from harness.errors import counted
from harness.experiments.evaluate import Evaluation, compare, inputs
from harness.io.arguments import checked_arguments
from harness.render import figures
from harness.render.model import Block, Cell, Column, Figure, Section, Table, Text, number_cell, slug
from harness.render.svg import SERIES
from harness.render.write import Report
from harness.reports.domains import DOMAIN, domain_section
from harness.reports.parts import (
    DETECTABLE,
    detectable_cell,
    per_topic_table,
    protocol_text,
    provenance_section,
    shown_drawn_p,
    shown_p,
    undefined_sentence,
)
from harness.reports.records import comparison_records, score_records
from harness.reports.topics import explorer, own_corpus, topic_pages
from harness.scoring.compare import Comparison, Row, groups_not_different, to_json
from harness.scoring.measures import decimals, parse_measure
from harness.scoring.scores import Scores, scores_to_json, tie_caution
from harness.store.provenance import Provenance

_AGGREGATES = {"mean": "mean", "sum": "sum", "geometric": "geometric mean"}
MOST_IN_MATRIX = 24  # most runs for a matrix of all pairs
MOST_GROUPS = 40  # most groups of topics in a figure
_OF_TESTS = (
    Column("run"),
    Column("against"),
    Column("measure"),
    Column("n", kind="number"),
    Column("difference", kind="number"),
    Column("95% interval", parts=("95% low", "95% high")),
    Column("effect size d", kind="number"),
    Column("p", kind="number"),
    Column("Bonferroni", kind="number"),
    Column("Holm", kind="number"),
    Column("randomization", kind="number"),
    Column("wins / ties / losses", parts=("wins", "ties", "losses")),
    DETECTABLE,
)


@checked_arguments
def report(
    evaluation: Evaluation,
    comparison: Comparison | None = None,
    *,
    title: str = "",
    remarks: Sequence[str] = (),
    provenance: Provenance | None = None,
) -> Report:
    """Builds the report of scored runs; with a comparison, also of their differences.

    Parameters
    ----------
    title : default: the collection's.
    remarks : what a reader of the numbers must know, a sentence each.
    provenance : default: `harness.experiments.evaluate.inputs`.

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
    sections = [
        _results(evaluation, comparison),
        _data_and_protocol(evaluation, remarks),
        _groups(evaluation, comparison),
        _where(evaluation),
        domain_section(evaluation),
        _topics(evaluation, comparison),
        _cost(evaluation),
        _trust(evaluation),
        provenance_section(provenance or inputs(evaluation)),
    ]
    data: dict[str, object] = {"scores": [scores_to_json(scores) for scores in evaluation.scores]}
    records = {"scores": score_records(evaluation.scores)}
    if comparison is not None:
        data["comparison"] = to_json(comparison)
        records["comparison"] = comparison_records(comparison)
    heading = title or evaluation.task.collection.title
    whole = tuple(section for section in sections if section is not None)
    return Report(heading, headline(evaluation), whole, data=data, records=records)


def headline(evaluation: Evaluation) -> str:
    """Returns the main result in one line."""
    first = evaluation.scores[0]
    measure = first.measures[0]
    ranked = _ranked(evaluation)
    best = ranked[0]
    runs = f"{len(ranked)} run{'s' if len(ranked) > 1 else ''}"
    where = f"{evaluation.task.collection.name} (edition {first.edition}, n = {best.n(measure)})"
    what = f"{first.protocol.label(measure)} {best.aggregate(measure):.{decimals(measure, 3)}f} by {best.run}"
    return f"{runs} on {where}: {'best ' if len(ranked) > 1 else ''}{what}"


def _ranked(evaluation: Evaluation) -> list[Scores]:
    """Returns the runs in the order of tables and figures: by the mean of the first measure, then by name."""
    return sorted(evaluation.scores, key=lambda s: (-s.aggregate(s.measures[0]), s.run))


def _results(evaluation: Evaluation, comparison: Comparison | None) -> Section:
    """Returns the table of means, after the sentence on coverage if the corpus is incomplete."""
    said = evaluation.coverage_sentence()
    first: tuple[Block, ...] = (Text((f"{said[0].upper()}{said[1:]}.",)),) if said else ()
    return Section("Results", (*first, means_table(evaluation, comparison), *_figures(evaluation, comparison)))


def _data_and_protocol(evaluation: Evaluation, remarks: Sequence[str]) -> Section:
    first = evaluation.scores[0]
    edition = evaluation.task.collection.edition(first.edition)
    judged = evaluation.task.scorer.qrels.judged()
    text = Text(
        (
            f"{evaluation.task.collection.title}; judgments: {edition.title} "
            f"({len(judged.topics)} topics, {len(judged):,} judgments, SHA-256 {first.qrels_sha256[:12]}…).",
            *evaluation.task.collection.notes,
            *remarks,
        )
    )
    return Section("Data and protocol", (text, protocol_text(first.protocol)))


def means_table(evaluation: Evaluation, comparison: Comparison | None) -> Table:
    """Returns the means of every run with n, marked by the tests against the baseline if there is one."""
    first = evaluation.scores[0]
    tests = {(row.a, row.measure): row for row in comparison.rows} if comparison and comparison.baseline else {}
    ranked = _ranked(evaluation)
    means = {m: [s.aggregate(m) for s in ranked if not math.isnan(s.aggregate(m))] for m in first.measures}
    best = {m: max(found) if len(ranked) > 1 and found else math.nan for m, found in means.items()}
    rows = []
    for scores in ranked:
        is_baseline = comparison is not None and scores.run == comparison.baseline
        cells = [Cell(scores.run, marks=("baseline",) if is_baseline else ())]
        for measure in first.measures:
            marks = marks_of(tests.get((scores.run, measure)))
            mean = scores.aggregate(measure)
            marks += ("best",) if mean == best[measure] else ()
            cells.append(number_cell(mean, decimals(measure, 3), marks))
            cells.append(Cell(str(scores.n(measure)), scores.n(measure)))
        cells.append(Cell(str(scores.counts["topics missing"]), scores.counts["topics missing"]))
        rows.append(tuple(cells))
    columns = [Column("run")]
    for measure in first.measures:
        label = first.protocol.label(measure)
        columns += [
            Column(_AGGREGATES[parse_measure(measure).aggregate], label, "number"),
            Column("n", label, "number"),
        ]
    columns.append(Column("topics missing", kind="number"))
    notes = [f"Protocol {first.protocol.name}; edition {first.edition}."]
    if comparison is not None:
        notes.append(f"Tests: {comparison.correction}; marks after Bonferroni's correction.")
    return Table("means", "Means over topics", tuple(columns), tuple(rows), tuple(notes))


def marks_of(row: Row | None) -> tuple[str, ...]:
    """Returns the mark of a test: significant after correction, only without correction, or none."""
    if row is None:
        return ()
    if row.significant_bonferroni:
        return ("significant",)
    return ("nominal",) if row.significant else ()


def _figures(evaluation: Evaluation, comparison: Comparison | None) -> list[Block]:
    first = evaluation.scores[0]
    measure = first.measures[0]
    label = first.protocol.label(measure)
    ranked = _ranked(evaluation)
    spread = [(s.run, [float(v) for v in s.column(measure) if not math.isnan(v)]) for s in ranked]
    blocks: list[Block] = [
        Figure("distribution", f"{label} over topics", figures.distribution(spread[:24], label)),
    ]
    if comparison is None or not comparison.rows:
        return blocks
    place = {scores.run: index for index, scores in enumerate(ranked)}
    tests = sorted(comparison.rows, key=lambda row: (place[row.a], place[row.b]))
    table = tests_table(replace(comparison, rows=tuple(tests)), first.protocol.label)
    table = replace(table, notes=("The table of means describes the tests.", *table.notes[1:]))
    drawn = [row for row in tests if row.measure == measure][:40]
    svg = figures.dot_interval(
        [
            (
                row.a if comparison.baseline else f"{row.a} - {row.b}",
                row.difference,
                row.ci_low,
                row.ci_high,
                bool(row.significant_bonferroni),
            )
            for row in drawn
        ],
        f"difference in {label}, 95% interval",
    )
    what = f"Mean differences in {label}" + (f" from {comparison.baseline}" if comparison.baseline else "")
    marked = "; bold: significant after Bonferroni's correction" if any(r.significant_bonferroni for r in drawn) else ""
    blocks.append(Figure("differences", what + marked, svg, table))
    return blocks


def tests_table(comparison: Comparison, label: Callable[[str], str] = str) -> Table:
    """Returns every test of a comparison, in its order; `label`: measure -> its name in tables."""
    rows = tuple(
        (
            Cell(row.a),
            Cell(row.b),
            Cell(label(row.measure)),
            Cell(str(row.n), row.n),
            number_cell(row.difference, 4, marks_of(row)),
            Cell(f"{row.ci_low:+.4f} to {row.ci_high:+.4f}", values=(row.ci_low, row.ci_high)),
            Cell("undefined") if row.effect_size is None else number_cell(row.effect_size, 2),
            shown_p(row.p),
            shown_p(row.p_bonferroni),
            shown_p(row.p_holm),
            shown_drawn_p(row.p_randomization, row.p_randomization_error),
            Cell(f"{row.wins} / {row.ties} / {row.losses}", values=(row.wins, row.ties, row.losses)),
            detectable_cell(row),
        )
        for row in comparison.rows
    )
    lacking = any(row.sd and row.detectable_corrected is None for row in comparison.rows)
    power = f"Detectable: the least difference found with a power of {comparison.power:g}, without and with Bonferroni"
    power += "; none: not even the largest possible one." if lacking else "."
    notes = (f"{comparison.correction}.", *([power] if any(row.sd for row in comparison.rows) else []))
    return Table("tests", "Tests", _OF_TESTS, rows, notes, row_headers=3)


def _all_pairs(evaluation: Evaluation, measure: str, declared: Comparison | None) -> Comparison:
    """Tests every pair of runs; the family is the union of these tests and the declared ones.

    The family is the declared one; it is made larger only if it is smaller than the declared tests and the pairs that
    are not among them taken together.
    """
    runs = [scores.run for scores in evaluation.scores]
    wanted = {frozenset(pair) for pair in combinations(runs, 2)}
    if declared is None:
        return compare(evaluation, measures=[measure])
    added = wanted - {frozenset((row.a, row.b)) for row in declared.rows if row.measure == measure}
    if not added:
        return declared
    return compare(
        evaluation,
        measures=[measure],
        alpha=declared.alpha,
        family=max(declared.family, len(declared.rows) + len(added)),
        test=declared.test,
        permutations=declared.permutations,
        seed=declared.seed,
    )


def _groups(evaluation: Evaluation, comparison: Comparison | None) -> Section | None:
    """Returns the groups of runs that do not differ by the first measure: letters and a matrix of all pairs."""
    if not 2 <= len(evaluation.scores) <= MOST_IN_MATRIX:
        return None
    first = evaluation.scores[0]
    measure = first.measures[0]
    label = first.protocol.label(measure)
    of = evaluation.task.collection.clusters() or {topic: topic for topic in first.topics}
    columns_of = [zip(s.topics, s.column(measure).tolist(), strict=True) for s in evaluation.scores]
    answered = [{topic for topic, value in column if not math.isnan(value)} for column in columns_of]
    if any(len({of[topic] for topic in a & b}) < 2 for a, b in combinations(answered, 2)):
        return None
    pairs = _all_pairs(evaluation, measure, comparison)
    letters = groups_not_different(pairs, measure, "bonferroni")
    means = {scores.run: scores.aggregate(measure) for scores in evaluation.scores}
    rows = tuple(
        (Cell(run), number_cell(means[run], decimals(measure, 3)), Cell(shown)) for run, shown in letters.items()
    )
    columns = (Column("run"), Column(label, kind="number"), Column("group"))
    note = f"Runs that share a letter do not differ significantly: {pairs.correction}; Bonferroni's correction."
    undefined = undefined_sentence([(r.a, r.b) for r in pairs.rows if r.measure == measure and r.p_bonferroni is None])
    note += f" {undefined}" if undefined else ""
    if comparison is not None and pairs.family > comparison.family:
        more = pairs.family - comparison.family
        note += (
            f" The family: the {comparison.family} tests of the means and {counted(more, 'more pair')}; a difference "
            "that is significant in the smaller family of those tests may not be so here."
        )
    order = list(letters)
    p = {frozenset((row.a, row.b)): row.p_bonferroni for row in pairs.rows if row.measure == measure}
    matrix = [[math.nan if a == b else _number(p[frozenset((a, b))]) for b in order] for a in order]
    svg = figures.p_value_matrix(order, matrix)
    table = Table("groups", f"Groups of runs by {label}", columns, rows, (note,))
    caption = f"p of every pair of runs in {label}, after Bonferroni's correction"
    return Section("Significance groups", (table, Figure("pairs", caption, svg)))


def _number(p: float | None) -> float:
    return math.nan if p is None else p


def _where(evaluation: Evaluation) -> Section | None:
    """Returns means by attribute of topics, for every attribute with few values."""
    first = evaluation.scores[0]
    measure = first.measures[0]
    known = evaluation.task.topics.by_id()
    judged = [known[topic] for topic in first.topics if topic in known]
    clusters = evaluation.task.collection.clusters()
    names = sorted(
        {name for topic in judged for name in topic.attributes} - {evaluation.task.collection.cluster, DOMAIN}
    )
    blocks: list[Block] = []
    for name in names:
        values = sorted({value for topic in judged for value in topic.values(name)})
        if not 2 <= len(values) <= 12:
            continue
        rows = []
        for scores in _ranked(evaluation):
            cells = [Cell(scores.run)]
            for value in values:
                part = scores.select(t.id for t in judged if value in t.values(name))
                cells.append(number_cell(part.aggregate(measure), decimals(measure, 3)))
            rows.append(tuple(cells))
        counted = {value: sum(value in t.values(name) for t in judged) for value in values}
        columns = (Column("run"), *(Column(f"{v} (n = {counted[v]})", name, "number") for v in values))
        caption = f"{first.protocol.label(measure)} by {name}"
        blocks.append(Table(f"slice-{slug(name)}", caption, columns, tuple(rows), ("Not tested.",)))
    if clusters is not None and 2 <= len(set(clusters.values())) <= MOST_GROUPS:
        ranked = [scores.by_cluster(clusters) for scores in _ranked(evaluation)]
        n = Counter(clusters[topic] for topic in first.topics)
        blocks.append(by_group(ranked, n, measure, first.protocol.label(measure), evaluation.task.collection.cluster))
    return Section("Groups of topics", tuple(blocks)) if blocks else None


def by_group(runs: Sequence[Scores], n: Mapping[str, int], measure: str, label: str, name: str) -> Figure:
    """Returns the means of each group of topics for every run; draws as many runs as a figure can distinguish.

    Parameters
    ----------
    runs : whose topics are the groups: see `Scores.by_cluster`.
    n : group -> its topics.
    name : what groups are called.
    """
    groups = runs[0].topics
    whole = parse_measure(measure)
    values = [
        [whole.of_mean(mean, n[group]) for group, mean in zip(groups, scores.column(measure).tolist(), strict=True)]
        for scores in runs
    ]
    columns = (Column(name), Column("topics", kind="number"), *(Column(scores.run, kind="number") for scores in runs))
    rows = tuple(
        (Cell(group), Cell(str(n[group]), n[group]), *(number_cell(of[at], 3) for of in values))
        for at, group in enumerate(groups)
    )
    shown = runs[:SERIES]
    svg = figures.grouped_bars(
        groups, [scores.run for scores in shown], list(zip(*values[: len(shown)], strict=True)), label
    )
    drawn = "" if len(shown) == len(runs) else f", the first {len(shown)} runs"
    caption = f"{label} by {name}: means over the topics of a group{drawn}"
    return Figure(
        f"group-{slug(name)}", caption, svg, Table(f"by-{slug(name)}", caption, columns, rows, ("Not tested.",))
    )


def _topics(evaluation: Evaluation, comparison: Comparison | None) -> Section:
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


def _cost(evaluation: Evaluation) -> Section | None:
    """Returns effectiveness against CPU time, if that is known."""
    if not evaluation.seconds:
        return None
    first = evaluation.scores[0]
    measure = first.measures[0]
    label = first.protocol.label(measure)
    known = [(s.run, evaluation.seconds[s.run], s.aggregate(measure)) for s in _ranked(evaluation)]
    rows = tuple(
        (Cell(run), number_cell(cost * 1000, 2), number_cell(mean, decimals(measure, 3))) for run, cost, mean in known
    )
    columns = (Column("run"), Column("CPU ms per topic", kind="number"), Column(label, kind="number"))
    note = "Times of one run on this machine, including indexing; they vary between runs."
    table = Table("cost", f"{label} and CPU time", columns, rows, (note,))
    points = [(run, cost * 1000, mean) for run, cost, mean in known]
    svg = figures.scatter(points, "CPU ms per topic", label)
    return Section("Costs", (Figure("cost-figure", f"{label} against CPU time", svg, table),))


def _trust(evaluation: Evaluation) -> Section:
    first = evaluation.scores[0]
    names = list(dict.fromkeys(name for scores in evaluation.scores for name in scores.counts))
    rows = tuple(
        (
            Cell(s.run),
            *(Cell(f"{s.counts[name]:,}", s.counts[name]) if name in s.counts else Cell("") for name in names),
        )
        for s in _ranked(evaluation)
    )
    table = Table(
        "counts", "Counts of topics and results", (Column("run"), *(Column(n, kind="number") for n in names)), rows
    )
    lines = [
        f"{run}: {first.protocol.label(measure)} is between {low:.4f} and {high:.4f}, "
        "depending on the order of tied results."
        for run, spans in evaluation.bounds.items()
        for measure, (low, high) in spans.items()
    ]
    if unknown := tie_caution(evaluation.scores):
        lines.append(f"{unknown[0].upper()}{unknown[1:]}.")
    lines = lines or ["The order of tied results changes no mean."]
    return Section("Limitations", (table, Text((*lines, *evaluation.warnings))))
