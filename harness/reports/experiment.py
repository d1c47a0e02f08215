"""The report of an experiment: means, tests, missing runs, costs, and the command of each run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, fields, replace

from harness.errors import capitalised, counted_text
from harness.experiments.experiment import FULL, Labels, labels_text
from harness.experiments.overrides import override_key
from harness.experiments.results import POOLED, ExperimentResults, Outcome, Tested
from harness.io.names import in_natural_order
from harness.render.model import (
    Block,
    Cell,
    Column,
    Figure,
    Prose,
    Records,
    Section,
    Table,
    cells,
    columns,
    number_cell,
    slug,
)
from harness.render.write import Report
from harness.reports.experiment_parts import (
    CLUSTERED,
    cost_figure,
    cost_records,
    costs_section,
    curves_section,
    differences_figure,
    experiment_means_figure,
    measure_label,
    row_columns,
    seeds_section,
    settings_section,
)
from harness.reports.means import further_columns
from harness.reports.pair_tests import pair_cells, pair_columns, test_marks
from harness.reports.parts import (
    best_mean,
    best_words,
    equal,
    lead_words,
    protocol_text,
    provenance_section,
    score_records,
)
from harness.reports.topics import topic_pages_section
from harness.scoring.comparison import PairDifference, comparison_to_json, corrected_test
from harness.scoring.measures import distributions
from harness.scoring.scores import Scores, scores_to_json
from harness.store.provenance import Provenance, provenance
from harness.systems.base import MARK
from harness.systems.states import run_command

More = Callable[[ExperimentResults], Sequence[Section]]


def experiment_report(results: ExperimentResults, more: Iterable[More] = ()) -> Report:
    """Builds the report of the finished runs of an experiment.

    Parameters
    ----------
    more : give the sections that follow those of every experiment and before the commands.
    """
    sections = [
        _means_section(results),
        seeds_section(results),
        settings_section(results),
        _tests_section(results),
        _missing_cells_section(results),
        _costs_section(results),
        curves_section(results),
        *_breakdown_sections(results),
        *(section for of in more for section in of(results)),
        topic_pages_section(results),
        _data_and_protocol_section(results),
        _commands_section(results),
        provenance_section(_inputs(results)),
    ]
    scores = _scores(results)
    data: dict[str, object] = {"scores": [scores_to_json(each) for each in scores]}
    data |= {} if results.comparison is None else {"comparison": comparison_to_json(results.comparison)}
    records = {"means": _mean_records(results), "tests": _test_records(results), "scores": score_records(scores)}
    if results.experiment.costs:
        records["costs"] = cost_records(results)
    given = "; ".join(filter(None, (_scaled(results), _restriction(results))))
    title = results.experiment.title + (f" ({given})" if given else "")
    scaled = [_section_with_scale(section, _scaled(results)) for section in sections if section is not None]
    return Report(title, _headline(results), tuple(scaled), data=data, records=records)


def _scaled(results: ExperimentResults) -> str:
    """Returns the scale in words, with its changes; empty at full scale."""
    if results.scale == FULL:
        return ""
    scale = results.experiment.scale_of(results.scale)
    changes = [*scale.changes, *([f"seeds {', '.join(scale.seeds)}"] if scale.seeds else [])]
    return f"scale {results.scale}: {scale.says} ({'; '.join(changes)})"


def _section_with_scale(section: Section, said: str) -> Section:
    """Returns the section with the scale noted below each of its tables."""
    if not said:
        return section
    line = f"{capitalised(said)}."

    def noted(block: Block) -> Block:
        if isinstance(block, Table):
            return replace(block, notes=(*block.notes, line))
        if isinstance(block, Figure) and block.table is not None:
            return replace(block, table=replace(block.table, notes=(*block.table.notes, line)))
        return block

    return replace(section, blocks=tuple(map(noted, section.blocks)))


def _restriction(results: ExperimentResults) -> str:
    """Returns the restriction and overrides of the command line in words; empty without any."""
    only = [f"only {name}: {', '.join(labels)}" for name, labels in results.only.items()]
    return "; ".join([*only, *([f"with {' '.join(results.extra)}"] if results.extra else [])])


def _headline(results: ExperimentResults) -> str:
    measure = results.experiment.measures[0]
    part = results.parts[-1]
    there = [(scores.aggregate(measure), row, scores) for row, scores in _of_part(results, part)]
    there = [entry for entry in there if not math.isnan(entry[0])]
    made = sum(outcome.scores is not None for outcome in results.outcomes)
    runs = f"{made} of {len(results.outcomes)} runs" if made < len(results.outcomes) else f"{made} runs"
    scale = "" if results.scale == FULL else f" at scale {results.scale}"
    if not there:
        return f"{runs} of experiment {results.name}{scale}"
    scores = max(there, key=lambda entry: entry[0])[2]
    where = f"{part or scores.collection}, n = {scores.n(measure)}"
    best = best_words(measure, scores.protocol.label(measure), {labels_text(row): mean for mean, row, _ in there})
    return f"{runs} of experiment {results.name}{scale}: {best} ({where})"


def _of_part(results: ExperimentResults, part: str) -> list[tuple[Labels, Scores]]:
    """Returns the rows that have scores on a set of topics."""
    pairs = ((row, results.scores(row, part, partial=True)) for row in results.rows)
    return [(row, scores) for row, scores in pairs if scores is not None]


def _means_section(results: ExperimentResults) -> Section:
    """Returns the table of means by row and set of topics, after coverage and the figure of means."""
    measures, seeded = results.experiment.measures, results.experiment.seeds is not None
    parts = sorted(results.parts, key=lambda part: part != POOLED)  # what is looked for first needs no scrolling
    tests = {(test.row, test.part, test.result.measure): test.result for test in results.tests}
    baselines = {test.against for test in results.tests}
    best = {}
    for part in parts:
        there = _of_part(results, part)
        for measure in measures:
            best[part, measure] = best_mean([scores for _, scores in there], measure)
    rows, further = [], further_columns("experiment")
    for row in results.rows:
        shown = [Cell(row[0], marks=("baseline",) if row in baselines else ()), *cells(*row[1:])]
        if seeded:
            shown += cells(len({outcome.cell.seed for outcome in results.of(row, POOLED)}))
        for part in parts:
            scores = results.scores(row, part, partial=True)
            lost = results.lost_seeds(row, part)
            note = f"without seed {', '.join(lost)}, whose run is missing; not tested" if lost else ""
            shown += cells("" if scores is None else scores.n(measures[0]))
            for measure in measures:
                if scores is None:
                    shown.append(Cell("", marks=("missing",)))
                    continue
                mean = scores.aggregate(measure)
                marks = test_marks(tests.get((row, part, measure)))
                marks += ("best",) if equal(mean, best[part, measure]) else ()
                cell = _mean_cell(mean, results.deviation(row, part, measure) if seeded else None, marks, seeded)
                shown.append(replace(cell, note=note))
            shown += [Cell("") if scores is None else of(scores, measures) for of in further.values()]
        rows.append(tuple(shown))
    heads = [*row_columns(results), *columns(numbers=["seeds"] if seeded else [])]
    for part in parts:
        heads.append(Column("n", part, "number"))
        for measure in measures:
            label = measure_label(results, measure)
            heads.append(Column(label, part, "number", parts=(label, f"{label} sd") if seeded else ()))
        heads += columns(numbers=further, group=part)
    notes = ["n: topics that count for the first measure."]
    if seeded:
        notes.append("With several seeds: mean ± standard deviation of the seeds' means (n - 1).")
    if results.comparison is not None:
        notes.append(f"Tests: {corrected_test(results.comparison)}; marks after Bonferroni's correction.")
    notes.append("Scores of each topic, where reports are written as CSV: scores.csv beside this page.")
    table = Table("means", "Means over topics", tuple(heads), tuple(rows), tuple(notes), len(row_columns(results)))
    said = (*_lead(results), *_coverage(results))
    figure = experiment_means_figure(results)
    first: tuple[Block, ...] = (*([Prose(said)] if said else []), *([figure] if figure is not None else []))
    return Section("Results", (*first, table))


def _lead(results: ExperimentResults) -> tuple[str, ...]:
    """Returns a sentence on the difference between the best row and the next, by the first measure."""
    measure, part = results.experiment.measures[0], results.parts[-1]
    tested = [test for test in results.tests if (test.part, test.result.measure) == (part, measure)]
    tests = {frozenset((labels_text(test.row), labels_text(test.against))): test.result for test in tested}
    means = {labels_text(row): scores.aggregate(measure) for row, scores in _of_part(results, part)}
    return lead_words(measure, means, tests, 0 if results.comparison is None else results.comparison.family)


def _mean_cell(mean: float, sd: float | None, marks: tuple[str, ...], seeded: bool) -> Cell:
    cell = number_cell(mean, 3, marks)
    if not seeded or cell.value is None:
        return cell
    shown = cell.text if sd is None else f"{cell.text} ± {sd:.3f}"
    return Cell(shown, cell.value, marks, values=(mean, math.nan if sd is None else sd))


def _coverage(results: ExperimentResults) -> tuple[str, ...]:
    """Returns sentences on coverage where a corpus holds only part of the judged documents."""
    sets: dict[str, dict[str, None]] = {}
    for outcome in results.outcomes:
        task = outcome.task
        if task is None or task.coverage is None or task.coverage.complete:
            continue
        notes = task.corpus.notes if task.corpus is not None else ()
        said = task.coverage.sentence(task.scorer.protocol, notes)
        where = results.experiment.part(outcome.cell.labels) or f"{task.collection.name}"
        sets.setdefault(said, {})[where] = None
    return tuple(f"{', '.join(where)}: {said}." for said, where in sets.items())


def _tests_section(results: ExperimentResults) -> Section | None:
    if results.comparison is None:
        return Section("Significance tests", (Prose(results.refused),)) if results.refused else None
    rows = []
    for test in results.tests:
        part = [test.part] if results.experiment.pool else []
        names = (*test.row, labels_text(test.against), *part, measure_label(results, test.result.measure))
        rows.append((*cells(*names), *pair_cells("experiment", test.result)))
    pool = [results.experiment.pool] if results.experiment.pool else []
    named = (*row_columns(results), *columns("against", *pool, "measure"))
    heads = (*named, *pair_columns("experiment"))
    notes = [f"{corrected_test(results.comparison)}."]
    if results.comparison.test == "t":
        notes.append("Randomization tests, where reports are written as CSV: tests.csv beside this page.")
    if _restriction(results):
        notes.append("The family is that of the whole experiment, of which this report covers a part.")
    if results.experiment.seeds is not None:
        notes.append(
            CLUSTERED
            if any(results.clusters(test.row, test.part) is not None for test in results.tests)
            else "The t-test of rows with several seeds is over topics and seeds; other tests are over means of seeds."
        )
    table = Table("tests", "Differences from the baseline", heads, tuple(rows), tuple(notes), len(named))
    figure = differences_figure(results)
    refused: tuple[Block, ...] = (Prose(results.refused),) if results.refused else ()
    return Section("Significance tests", (*([figure] if figure is not None else []), table, *refused))


def _costs_section(results: ExperimentResults) -> Section | None:
    """Returns the figure of effectiveness against cost and the table of costs."""
    section, figure = costs_section(results), cost_figure(results)
    return section if section is None or figure is None else replace(section, blocks=(figure, *section.blocks))


def _cell_columns(results: ExperimentResults) -> tuple[Column, ...]:
    """Returns the columns that identify a cell."""
    seed = ["seed"] if results.experiment.seeds is not None else []
    point = ["setting"] if any(outcome.cell.point for outcome in results.outcomes) else []
    return columns(*results.experiment.coordinates, *seed, *point)


def _cell_cells(results: ExperimentResults, outcome: Outcome) -> tuple[Cell, ...]:
    seed = [outcome.cell.seed or ""] if results.experiment.seeds is not None else []
    point = [outcome.cell.point] if any(each.cell.point for each in results.outcomes) else []
    return cells(*outcome.cell.labels, *seed, *point)


def _missing_cells_section(results: ExperimentResults) -> Section | None:
    lost = [outcome for outcome in results.outcomes if outcome.reason]
    if not lost:
        return None
    rows = tuple(
        cells(
            *_cell_cells(results, outcome),
            *("missing resource" if outcome.lacking else "failed", outcome.reason, run_command(_words(outcome))),
        )
        for outcome in lost
    )
    named = _cell_columns(results)
    heads = (*named, *columns("state", "reason", "command"))
    caption = f"{len(lost)} of {len(results.outcomes)} runs are missing"
    return Section("Missing runs", (Table("not-run", caption, heads, rows, row_headers=len(named)),))


def _breakdown_sections(results: ExperimentResults) -> list[Section]:
    """Returns the first measure by attributes of topics, over all sets whose topics have them."""
    blocks: list[Block] = []
    for name in results.experiment.breakdown:
        values = {part: _values(results, part, name) for part in results.sets}
        sets = [part for part in results.sets if values[part]]
        if sets:
            blocks.append(_by_attribute(results, name, sets, {t: v for part in sets for t, v in values[part].items()}))
        else:
            blocks.append(Prose((f"No topic has the attribute {name}.",)))
    return [Section("Groups of topics", tuple(blocks))] if blocks else []


def _values(results: ExperimentResults, part: str, name: str) -> dict[str, str]:
    """Returns topic -> its value of an attribute, for the judged topics of one set."""
    of = [o for o in results.outcomes if o.task is not None and results.experiment.part(o.cell.labels) == part]
    tasks = {id(outcome.task): outcome.task for outcome in of}
    values: dict[str, str] = {}
    for task in tasks.values():
        if task is not None:
            judged = set(task.scorer.qrels.topics) - values.keys()
            values |= {t.id: t.attributes[name] for t in task.topics if name in t.attributes and t.id in judged}
    return values


def _by_attribute(results: ExperimentResults, name: str, sets: Sequence[str], values: dict[str, str]) -> Table:
    measure = results.experiment.measures[0]
    kinds = in_natural_order(values.values())
    rows = []
    used: set[str] = set()
    for row in results.rows:
        of = [results.scores(row, part) for part in sets]
        pairs = [
            (values[topic], value)
            for scores in of
            if scores is not None
            for topic, value in zip(scores.topics, scores.column(measure).tolist(), strict=True)
            if topic in values and not math.isnan(value)
        ]
        shown = [*cells(*row)]
        for kind in kinds:
            of_kind = [value for at, value in pairs if at == kind]
            used |= {kind} if of_kind else set()
            if None in of or not of_kind:
                shown += [Cell(""), Cell("", marks=("missing",) if None in of else ())]
            else:
                shown += cells(len(of_kind), number_cell(sum(of_kind) / len(of_kind), 3))
        rows.append(tuple(shown))
    label = measure_label(results, measure)
    by_kind = (column for kind in kinds for column in columns(numbers=("n", label), group=kind))
    where = f" ({', '.join(sets)})" if sets != [""] else ""
    caption, notes = f"{label} by {name}{where}", ("Not tested.",)
    named = row_columns(results)
    return Table(f"by-{slug(name)}", caption, (*named, *by_kind), tuple(rows), notes, row_headers=len(named))


def _data_and_protocol_section(results: ExperimentResults) -> Section | None:
    """Returns the protocol, and notes of collections, systems and runs."""
    tasks = {id(o.task): o.task for o in results.outcomes if o.task is not None}
    protocols = {repr(task.scorer.protocol): task.scorer.protocol for task in tasks.values()}
    notes: dict[str, dict[str, None]] = {}
    for outcome in results.outcomes:
        for note in outcome.notes:
            notes.setdefault(note, {})[labels_text(results.experiment.row(outcome.cell.labels))] = None
    lines = []
    for note, rows in notes.items():
        of = list(rows)
        more = f" and {len(of) - 3} more rows" if len(of) > 3 else ""
        lines.append(note if len(of) == len(results.rows) else f"{'; '.join(of[:3])}{more}: {note}")
    collections = {task.collection.name: task.collection.notes for task in tasks.values()}
    given: dict[str, list[str]] = {}
    for name, own in collections.items():
        for note in dict.fromkeys(own):
            given.setdefault(note, []).append(name)
    shared = [note if len(of) == len(collections) else f"{', '.join(of)}: {note}" for note, of in given.items()]
    family = results.experiment.tests
    plan = f"This report has {counted_text(len(results.rows), 'row')}"
    plan += f"; the whole experiment makes {counted_text(family, 'test')}." if family else "."
    restricted = _restriction(results)
    part = (f"This is not the whole experiment: {restricted}.",) if restricted else ()
    scaled = (f"All results are at {_scaled(results)}.",) if _scaled(results) else ()
    texts = (*part, *scaled, plan, *shared, *lines, *dict.fromkeys(c for o in results.outcomes for c in o.cautions))
    return Section("Data and protocol", (Prose(texts), *(protocol_text(protocol) for protocol in protocols.values())))


def _commands_section(results: ExperimentResults) -> Section:
    """Returns the command of each run."""
    rows = tuple(cells(*_cell_cells(results, o), run_command(_words(o)), str(o.run or "")) for o in results.outcomes)
    named = _cell_columns(results)
    heads = (*named, *columns("command", "run"))
    note = "Each command makes the same run under the same name, or reuses it, and scores it in the same way."
    return Section(
        "Commands", (Table("commands", "Commands of the runs", heads, rows, (note,), len(named), collapsed=True),)
    )


def _words(outcome: Outcome) -> list[str]:
    """Returns the overrides of a cell's command, which names the run as the cell does: no two cells share a file."""
    name = outcome.name.removesuffix(MARK)
    if name in ("", outcome.system.get("name")):
        return [*outcome.cell.overrides]
    kept = [word for word in outcome.cell.overrides if override_key(word) != "system.name"]
    return [*kept, f'system.name="{name}"']  # in quotes, as it may contain =


def _inputs(results: ExperimentResults) -> Provenance:
    """Returns the provenance: judgments, corpora, runs."""
    files: dict[str, str] = {}
    for outcome in results.outcomes:
        if (task := outcome.task) is None:
            continue
        qrels = task.scorer.qrels
        files[f"{task.collection.name}, edition {qrels.edition}"] = qrels.sha256
        files[str(outcome.run)] = outcome.sha256
    corpora = {o.task.corpus.name: o.task.corpus for o in results.outcomes if o.task is not None and o.task.corpus}
    files |= {f"corpus {name}": corpus.digest() for name, corpus in corpora.items()}
    return provenance(files, libraries=distributions(results.experiment.measures))


def _scores(results: ExperimentResults) -> list[Scores]:
    """Returns the scores of every run, named after its row, seed and tried settings."""
    named_scores = []
    for cell, scores in ((outcome.cell, outcome.scores) for outcome in results.outcomes):
        if scores is not None:
            seed = f"seed {cell.seed}" if cell.seed else ""
            name = ", ".join(filter(None, (labels_text(results.experiment.row(cell.labels)), seed, cell.point)))
            named_scores.append(replace(scores, run=name))
    return named_scores


def _mean_records(results: ExperimentResults) -> Records:
    """Returns one record for each row of the table, set of topics and measure; none for a row without runs."""
    names = [name for name in results.experiment.coordinates if name != results.experiment.pool]
    rows: list[tuple[str | float | bool | None, ...]] = []
    for part in results.parts:
        for row, scores in _of_part(results, part):
            for measure in scores.measures:
                mean, seeds = scores.aggregate(measure), len(results.seeds(row, part, partial=True))
                figures = (scores.n(measure), None if math.isnan(mean) else mean, results.deviation(row, part, measure))
                rows.append((*row, part, seeds, measure, *figures))
    columns = (*(slug(name) for name in names), "topics", "seeds", "measure", "n", "mean", "sd")
    return Records(columns, tuple(rows))


def _test_records(results: ExperimentResults) -> Records:
    """Returns one record for each test."""
    columns = ("topics", *(field.name for field in fields(PairDifference)), "family", "alpha")
    plan = results.comparison
    same = () if plan is None else (plan.family, plan.alpha)
    tests: tuple[Tested, ...] = results.tests
    return Records(columns, tuple((test.part, *astuple(test.result), *same) for test in tests))
