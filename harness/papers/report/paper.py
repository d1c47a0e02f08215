"""The report of a reproduction: published and recomputed values with a verdict for each; means by topic class."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from harness.collections.load import load_collection
from harness.errors import capitalised, counted_text
from harness.io import rehearsal
from harness.papers.cells import KINDS, CellVerdict
from harness.papers.claims import Claim, check_claims, row_claims
from harness.papers.effects import mark_verdicts
from harness.papers.estimate import estimates
from harness.papers.paper import Paper
from harness.papers.report import runs_made_here as runs_here
from harness.papers.report.claims import claim_records, claims_section, row_claims_section
from harness.papers.report.estimates import available_section, cost_section
from harness.papers.reproduce import PaperReproduction
from harness.papers.step_runner import StepCost
from harness.render import figures
from harness.render.model import Block, Cell, Column, Facts, Figure, Prose, Records, Section, Table, number_cell, slug
from harness.render.write import Report
from harness.reports.pair_tests import test_marks
from harness.reports.parts import (
    best_mean,
    equal,
    per_topic_table,
    protocol_text,
    provenance_section,
    score_records,
    ties_table,
)
from harness.reports.topics import explorer, topic_pages
from harness.scoring.compare import compare
from harness.scoring.comparison import PairDifference
from harness.scoring.measures import without_diagnostics
from harness.scoring.scores import Scores, scores_to_json, tie_caution
from harness.store.provenance import Provenance

_MEANINGS = {
    "exact": "rounds to the printed digits",
    "close": "within two units of the last printed digit",
    "within": "further away, but within the 95 % interval that the values of several seeds predict",
    "differs": "more than two units away",
    "needs": "needs a missing resource; see the cause",
    "not implemented": "could be recomputed, but its system is not implemented; see the cause",
    "blocked": "cannot be recomputed, because a resource is not available anywhere; see the cause",
}


def paper_report(
    reproduction: PaperReproduction,
    provenance: Provenance,
    alpha: float = 0.05,
    seed: int = 0,
    *,
    titles: bool = True,
    small: PaperReproduction | None = None,
    took: Sequence[StepCost] = (),
) -> Report:
    """Builds the report of one paper.

    Parameters
    ----------
    titles : of topics are others' text, which may not go everywhere.
    small : the same paper at the scale `here`.
    took : what the steps took that made the runs.
    """
    claims = check_claims(reproduction, alpha, seed)
    paper = reproduction.paper
    here = paper.config.here
    labels = {m: s.protocol.label(m) for s in reproduction.scores.values() for m in s.measures}
    sections = [
        _outcome_section(reproduction),
        row_claims_section(row_claims(reproduction, small, alpha), paper.metric),
        _tables_section(reproduction, alpha),
        runs_here.order_section(reproduction.verdicts, paper.metric),
        runs_here.marks_section(mark_verdicts(reproduction, alpha), paper.metric, alpha),
        runs_here.brought_section(reproduction.brought),
        None if small is None or here is None else runs_here.small_scale_section(small.verdicts, here, paper.metric),
        runs_here.durations_section(took),
        _conflicts_section(reproduction),
        None if paper.available is None else available_section(paper.available),
        _costs_section(reproduction),
        claims_section(claims, _own(reproduction, "run_notes") or {}, labels),
        *(_own(reproduction, "sections") or ()),
        breakdown_section(reproduction),
        _own(reproduction, "rerun_section"),
        *_other_protocols_sections(reproduction),
        _per_topic_section(reproduction, titles),
        _limitations_section(reproduction),
        provenance_section(provenance),
    ]
    data: dict[str, object] = {
        "verdicts": [_verdict_data(verdict) for verdict in reproduction.verdicts],
        "scores": [scores_to_json(scores) for scores in reproduction.scores.values()],
        **runs_here.brought_data(reproduction.brought),
    }
    shown, records = tuple(section for section in sections if section is not None), _csv_records(reproduction, claims)
    return Report(paper.title, _headline(reproduction), shown, data=data, records=records)


def _own(reproduction: PaperReproduction, name: str, *more: object) -> Any:  # noqa: ANN401
    """Returns what a function of the paper's module gives; None without one."""
    function = reproduction.paper.own(name)
    return None if function is None else function(reproduction, *more)


def _costs_section(reproduction: PaperReproduction) -> Section | None:
    """Returns what the values that were not recomputed take; None if every published value was recomputed."""
    if all(verdict.value is not None for verdict in reproduction.verdicts):
        return None
    groups = estimates(reproduction.paper)
    return cost_section(groups, reproduction.paper.key) if groups else None


def _csv_records(reproduction: PaperReproduction, claims: Sequence[Claim]) -> dict[str, Records]:
    also = [scores for of_run in reproduction.also.values() for scores in of_run.values()]
    scores = reproduction.scores.values()
    records = {"scores": score_records(scores, also)} if scores else {}
    return records | ({"comparison": claim_records(claims, reproduction.scores)} if claims else {})


def _headline(reproduction: PaperReproduction) -> str:
    n = len(reproduction.verdicts)
    line = reproduction.line if reproduction.scores else f"None of the {n} published values was recomputed"
    return f"Made from stand-ins, values mean nothing. {line}" if rehearsal.folder() is not None else line


def _verdict_data(verdict: CellVerdict) -> dict[str, object]:
    of_cell = ("table", "group", "system", "collection", "slice", "metric")
    of_verdict = ("value", "verdict", "run", "edition", "protocol", "n", "cause")
    place = {name: getattr(verdict.cell, name) for name in of_cell} | {"printed": verdict.cell.value}
    return place | {name: getattr(verdict, name) for name in of_verdict}


def _outcome_section(reproduction: PaperReproduction) -> Section:
    counts = [(verdict, reproduction.count(verdict)) for verdict in KINDS if reproduction.count(verdict)]
    rows = tuple(
        (Cell(name, marks=(_mark(name),)), Cell(str(count), count), Cell(_MEANINGS[name])) for name, count in counts
    )
    columns = (Column("verdict"), Column("cells", kind="number"), Column("meaning"))
    blocks: list[Block] = []
    if reproduction.scores:
        blocks.append(Table("verdicts", "Verdicts on the published numbers", columns, rows))
    lacking = [verdict for verdict in reproduction.verdicts if verdict.value is None]
    blocks += [_missing_resources(reproduction, lacking)] if lacking else []
    paper = reproduction.paper
    remarks = paper.config.remarks
    if remarks:
        what = " and that reproduce its numbers" if reproduction.scores else ""
        blocks.append(Prose((f"Details that the paper omits{what}:", *remarks)))
    blocks += paper_links(paper)
    return Section("Outcome", tuple(blocks))


def paper_links(paper: Paper) -> list[Facts]:
    """Returns the addresses of a paper and of its authors' code; empty without any."""
    doi = f"https://doi.org/{paper.config.doi}" if paper.config.doi else ""
    links = [(what, at) for what, at in (("paper", paper.config.url), ("DOI", doi), ("code", paper.config.code)) if at]
    return [Facts(tuple(links))] if links else []


def _mark(verdict: str) -> str:
    """Returns the mark of a verdict: its name as one word."""
    return verdict.replace(" ", "-")


def _missing_resources(reproduction: PaperReproduction, verdicts: Sequence[CellVerdict]) -> Table:
    """Returns what is missing, with the tables that need it: a line for each cause; remarks on measures are notes."""
    notes = reproduction.paper.config.metric_notes
    tables: dict[tuple[str, str], list[str]] = {}
    for verdict in verdicts:
        note = notes.get(verdict.cell.metric)
        tables.setdefault((verdict.verdict, verdict.cause.removesuffix(f"; {note}")), []).append(verdict.cell.table)
    rows = tuple(
        (Cell(", ".join(dict.fromkeys(names))), Cell(str(len(names)), len(names)), Cell(state), Cell(cause))
        for (state, cause), names in tables.items()
    )
    metrics = dict.fromkeys(verdict.cell.metric for verdict in verdicts)
    below = tuple(f"{reproduction.paper.metric(metric)}: {notes[metric]}." for metric in metrics if metric in notes)
    columns = (Column("tables"), Column("values", kind="number"), Column("state"), Column("cause"))
    return Table("not-recomputed", "Values not recomputed", columns, rows, below)


def _tables_section(reproduction: PaperReproduction, alpha: float) -> Section | None:
    """Returns every table with recomputed values, rows and columns as the paper prints them."""
    by_table: dict[str, list[CellVerdict]] = {}
    for verdict in reproduction.verdicts:
        by_table.setdefault(verdict.cell.table, []).append(verdict)
    tests = _significance(reproduction, alpha)
    recomputed = {name: in_table for name, in_table in by_table.items() if any(v.value is not None for v in in_table)}
    tables = [published_table(reproduction, name, verdicts, tests) for name, verdicts in recomputed.items()]
    return Section("Published tables", (*_marks(reproduction, alpha), *tables)) if tables else None


def _marks(reproduction: PaperReproduction, alpha: float) -> tuple[Prose, ...]:
    """Returns a sentence on the tests that mark values of the paper's tables, if there are any."""
    baselines = reproduction.paper.config.baselines
    if not baselines or not any(v.value is not None and v.n > 1 for v in reproduction.verdicts):
        return ()
    against = ", ".join(f"{run} for runs that end in {ending!r}" for ending, run in baselines.items())
    said = (
        f"Marks of significance: two-sided paired t-test against the baseline ({against}), alpha {alpha:g}, "
        "Bonferroni over all runs with that ending and all measures within a collection."
    )
    return (Prose((said,)),)


def _significance(reproduction: PaperReproduction, alpha: float) -> dict[tuple[str, str, str], PairDifference]:
    """Returns (collection, run, measure) -> test against the baseline in the paper's configuration."""
    out: dict[tuple[str, str, str], PairDifference] = {}
    for ending, baseline in reproduction.paper.config.baselines.items():
        by_collection: dict[str, list[Scores]] = {}
        for (collection, run), scores in reproduction.scores.items():
            if run.endswith(ending):
                by_collection.setdefault(collection, []).append(scores)
        for collection, scores_list in by_collection.items():
            # The marks are those of the t-test: no sign flips are needed.
            for row in compare(scores_list, str(baseline), alpha=alpha, permutations=1).rows:
                out[(collection, row.a, row.measure)] = row
    return out


def _distinct_rows(verdicts: Sequence[CellVerdict], attributes: Sequence[str]) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(tuple(getattr(v.cell, name) for name in attributes) for v in verdicts))


def table_title(name: str) -> str:
    """Returns the heading of a table of a paper."""
    return f"Table {name}" if name[:1].isdigit() else name[:1].upper() + name[1:]


def published_table(
    reproduction: PaperReproduction,
    name: str,
    verdicts: Sequence[CellVerdict],
    tests: Mapping[tuple[str, str, str], PairDifference] = MappingProxyType({}),
) -> Table:
    """Returns one table of the paper, with recomputed values and marks of significance from `tests`."""
    groups = len({v.cell.group for v in verdicts}) > 1
    row_keys = _distinct_rows(verdicts, ("group", "system"))
    column_keys = _distinct_rows(verdicts, ("metric", "aggregate", "collection", "slice"))
    aggregates = len({v.cell.aggregate for v in verdicts}) > 1
    slices = len({v.cell.slice for v in verdicts}) > 1
    by_place: dict[tuple[str, ...], CellVerdict] = {
        (v.cell.group, v.cell.system, v.cell.metric, v.cell.aggregate, v.cell.collection, v.cell.slice): v
        for v in verdicts
    }
    rows = []
    for group, system in row_keys:
        head = map(Cell, (group, system) if groups else (system,))
        cells = (cell for column in column_keys for cell in _cells(by_place.get((group, system, *column)), tests))
        rows.append((*head, *cells))
    columns = [Column("group"), Column("system")] if groups else [Column("system")]
    for metric, aggregate, collection, slice_ in column_keys:
        parts = (collection, slice_ if slices else "", aggregate if aggregates else "")
        words = ", ".join((reproduction.paper.metric(metric), *(part for part in parts if part)))
        columns += [Column("paper", words, "number"), Column("here", words, "number")]
    notes, ident = _table_notes(reproduction, verdicts), f"table-{slug(name)}"
    headers, caption, label = 2 if groups else 1, verdicts[0].cell.caption, f"{table_title(name)} of the paper"
    return Table(ident, caption, tuple(columns), tuple(rows), notes, row_headers=headers, label=label)


def _cells(verdict: CellVerdict | None, tests: Mapping[tuple[str, str, str], PairDifference]) -> tuple[Cell, Cell]:
    """Returns the value as printed, and the recomputed one with two more digits."""
    if verdict is None:
        return Cell(""), Cell("", marks=("missing",))
    cell = verdict.cell
    printed = Cell(cell.value, float(cell.value))
    if verdict.value is None:
        return printed, Cell("", None, (_mark(verdict.verdict),))
    digits = len(cell.value.partition(".")[2])
    row = tests.get((cell.collection, verdict.run, verdict.measure)) if verdict.n > 1 else None
    marks = (verdict.verdict, *test_marks(row), *(["baseline"] if cell.baseline else []))
    return printed, number_cell(verdict.value, digits + 2, marks)


def _table_notes(reproduction: PaperReproduction, verdicts: Sequence[CellVerdict]) -> tuple[str, ...]:
    recomputed = [v for v in verdicts if v.value is not None]
    made = dict.fromkeys((v.collection, v.edition, v.protocol, v.n) for v in recomputed)
    notes = [
        "Paper: as published; here: recomputed, with two more digits. "
        + "; ".join(f"{c}: edition {e}, protocol {p}, n = {n}" for c, e, p, n in made)
        + "."
    ]
    notes += [cause[:1].upper() + cause[1:] + "." for cause in dict.fromkeys(v.cause for v in recomputed if v.cause)]
    groups = {v.cell.group for v in verdicts}
    return (*notes, *(_own(reproduction, "table_notes", groups) or ()))


def _conflicts_section(reproduction: PaperReproduction) -> Section | None:
    """Returns values that differ from those that another paper or table prints for the same run."""
    pairs = reproduction.paper.twice
    if not pairs:
        return None
    rows = []
    for here, there in pairs:
        values = [float(cell.value) for cell in (here, there)]
        if values[0] == values[1]:
            continue
        digits = max(len(cell.value.partition(".")[2]) for cell in (here, there))
        measure = (reproduction.paper.metric(here.metric), here.collection, here.slice)
        named = (*(f"{cell.paper}, {cell.row}" for cell in (here, there)), " ".join(filter(None, measure)))
        printed = (Cell(cell.value, value) for cell, value in zip((here, there), values, strict=True))
        rows.append((*map(Cell, named), *printed, number_cell(values[0] - values[1], digits)))
    numbers = (*(Column(name, "printed", "number") for name in ("here", "there")), Column("difference", kind="number"))
    columns = (*map(Column, ("here", "there", "measure")), *numbers)
    note = f"Values as published; {len(pairs) - len(rows)} further values that are published twice agree."
    table = Table("twice", "Runs with two published values", columns, tuple(rows), (note,), row_headers=3)
    return Section("Contradictory published values", (table,))


def _other_protocols_sections(reproduction: PaperReproduction) -> list[Section]:
    out = []
    for protocol, scores in reproduction.also.items():
        collections = list(dict.fromkeys(collection for collection, _ in scores))
        runs = list(dict.fromkeys(run for _, run in scores))
        first = next(iter(scores.values()))
        measures = without_diagnostics(first.measures)
        numbers = [(c, measure) for c in collections for measure in measures]
        best = {(c, m): best_mean([scores[(c, run)] for run in runs], m) for c, m in numbers}
        rows = []
        for run in runs:
            means = {(c, m): scores[(c, run)].aggregate(m) for c, m in numbers}
            marked = {at: ("best",) if equal(mean, best[at]) else () for at, mean in means.items()}
            rows.append((Cell(run), *(number_cell(mean, 3, marked[at]) for at, mean in means.items())))
        columns = (Column("run"), *(Column(first.protocol.label(m), c, "number") for c, m in numbers))
        of_first = {c: scores[c, runs[0]] for c in collections}
        made = "; ".join(f"{c}: edition {one.edition}, n = {one.n(measures[0])}" for c, one in of_first.items())
        table = Table(f"also-{slug(protocol)}", f"Scores by protocol {protocol}", columns, tuple(rows), (made + ".",))
        out.append(Section(f"The same runs under {protocol}", (protocol_text(first.protocol), table)))
    return out


def _per_topic_section(reproduction: PaperReproduction, titles: bool) -> Section | None:
    pages, tables = [], []
    for name, scorer in reproduction.scorers.items():
        scores_of = {run: scores for (collection, run), scores in reproduction.scores.items() if collection == name}
        topics = reproduction.topics[name]
        rankings = [reproduction.rankings[(name, run)] for run in scores_of]
        collection = load_collection(scorer.collection)
        values = list(scores_of.values())
        pages.append(topic_pages(name, collection.title, topics, scorer, values, rankings, collection.link))
        tables.append(per_topic_table(name, scores_of, topics.by_id() if titles else {}))
    baseline = next(iter(reproduction.paper.config.baselines.values()), "")
    return Section("Per-topic results", (explorer(pages, baseline=baseline, tables=tables),)) if pages else None


def _limitations_section(reproduction: PaperReproduction) -> Section | None:
    if not reproduction.scores:
        return None
    first = next(iter(reproduction.scores.values()))
    missing = [
        f"{run} on {collection} lacks {len(scores.missing)} of {len(scores.topics)} topics: {', '.join(scores.missing)}"
        for (collection, run), scores in reproduction.scores.items()
        if scores.missing
    ]
    ties = {f"{run} on {collection}": spans for (collection, run), spans in reproduction.bounds.items()}
    bounds, tables = ties_table(ties, first.protocol)
    if unknown := tie_caution(list(reproduction.scores.values())):
        bounds.append(capitalised(unknown))
    empty = {c: scores.counts["topics without relevant documents"] for (c, _), scores in reproduction.scores.items()}
    without = [f"{counted_text(n, 'topic')} of {c} without a relevant document" for c, n in empty.items() if n]
    lines = [
        *(missing or ["Every run answers every topic."]),
        *([f"{'; '.join(without)}: binary measures are 0 there for every run."] if without else []),
        *bounds,
        *(reproduction.warnings or ["Reading the run files gave no warnings."]),
    ]
    return Section("Limitations", (protocol_text(first.protocol), Prose(tuple(lines)), *tables))


def breakdown_section(reproduction: PaperReproduction) -> Section | None:
    """Returns the section of the paper's key `breakdown`; None without that key or without scores."""
    entry = reproduction.paper.config.breakdown
    if entry is None or not reproduction.scores:
        return None
    attribute, measure, values, runs = entry.attribute, entry.measure, entry.values, entry.runs
    parts: dict[str, dict[str, list[str]]] = {}
    for collection, topics in reproduction.topics.items():
        judged = set(next(s for (c, _), s in reproduction.scores.items() if c == collection).topics)
        for topic in topics:
            if topic.id in judged and topic.attributes.get(attribute) in values:
                parts.setdefault(collection, {}).setdefault(topic.attributes[attribute], []).append(topic.id)
    rows, means = [], []
    for value in values:
        ids = {collection: set(topic_ids.get(value, ())) for collection, topic_ids in parts.items()}
        of_runs = []
        for run in runs:
            parts_of_run = [reproduction.scores[collection, run].select(of) for collection, of in ids.items()]
            of_runs.append([x for scores in parts_of_run for x in scores.column(measure) if not math.isnan(x)])
        n = max(map(len, of_runs), default=0)  # topics with a value
        means.append([math.fsum(numbers) / len(numbers) if numbers else math.nan for numbers in of_runs])
        rows.append((Cell(value), Cell(str(n), n), *(number_cell(mean, 3) for mean in means[-1])))
    columns = (Column(attribute), Column("n", kind="number"), *(Column(run, kind="number") for run in runs))
    without = [collection for collection in reproduction.topics if collection not in parts]
    judged_in = {c: len(s.topics) for (c, _), s in reproduction.scores.items() if c in parts}
    labelled = {c: sum(len(topic_ids) for topic_ids in values_of.values()) for c, values_of in parts.items()}
    covered = ", ".join(f"{labelled[c]} of the {judged_in[c]} topics of {c}" for c in parts)
    note = f"Labels exist for {covered}" + (f"; {', '.join(without)} has none" if without else "") + "."
    table = Table("breakdown", entry.title, columns, tuple(rows), (note,))
    label = next(iter(reproduction.scores.values())).protocol.label(measure)
    svg = figures.grouped_bars(values, runs, means, label)
    return Section("Distribution of differences", (Figure("breakdown-figure", entry.title, svg, table),))
