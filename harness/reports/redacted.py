"""The report of runs with private judgments that participants may see; see `harness.experiments.redacted`."""

from __future__ import annotations

import math
from dataclasses import replace

from harness.experiments.evaluate import Evaluation, inputs
from harness.experiments.redacted import Redacted, redacted_to_json
from harness.render.model import Block, Cell, Column, Records, Section, Table, Text, number_cell
from harness.render.write import Report
from harness.reports.parts import protocol_text, provenance_section


def redacted_report(found: Redacted, evaluation: Evaluation) -> Report:
    """Reports redacted results; uses the evaluation only for the collection, the protocol and the runs' files.

    Examples
    --------
    >>> import harness as h
    >>> from harness.experiments.redacted import redact
    >>> seen = h.evaluate(h.task("mini-task1"), "runs/mini/mini-task1/overlap.run")
    >>> redacted_report(redact(seen), seen).headline
    '1 run on mini-task1 (edition official): nDCG′ 0.85 by overlap'
    """
    collection = evaluation.task.collection
    first, label = next(iter(found.labels.items()))
    best = found.means[0]
    shown = number_cell(_number(best.means[first]), found.decimals).text
    runs = f"{len(found.means)} run{'s' if len(found.means) > 1 else ''}"
    headline = f"{runs} on {found.collection} (edition {found.edition}): {label} {shown} by {best.run}"
    coverage: tuple[Block, ...] = (
        (Text((f"{found.coverage[0].upper()}{found.coverage[1:]}.",)),) if found.coverage else ()
    )
    tests = (_tests(found),) if found.tests else ()
    title = collection.edition(found.edition).title
    what = Text((f"{collection.title}; judgments: {title}.", *collection.notes))
    full = inputs(evaluation)
    # Checksums of judgments would confirm guesses; the runs are the participants' own.
    kept = {run.source or run.name for run in evaluation.runs}
    files = {name: digest for name, digest in full.files.items() if name in kept}
    sections = (
        Section("Results", (*coverage, _means(found), *tests)),
        Section("Data and protocol", (what, protocol_text(evaluation.scores[0].protocol))),
        Section("Redactions", (Text((found.left_out,)),)),
        provenance_section(replace(full, files=files)),
    )
    return Report(
        collection.title, headline, sections, data={"redacted": redacted_to_json(found)}, records=_records(found)
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _means(found: Redacted) -> Table:
    columns = [Column("run"), *(Column(label, kind="number") for label in found.labels.values())]
    columns += [Column("group")] if found.groups else []
    rows = []
    for each in found.means:
        cells = [Cell(each.run), *(number_cell(_number(mean), found.decimals) for mean in each.means.values())]
        rows.append((*cells, *((Cell(found.groups[each.run]),) if found.groups else ())))
    notes = [f"Protocol {found.protocol}; edition {found.edition}."]
    if found.groups:
        label = next(iter(found.labels.values()))
        notes.append(
            f"Runs that share a letter do not differ significantly in {label}, or their rounded means differ by at "
            f"most one step: {found.correction}; Bonferroni's."
        )
    return Table("means", "Means over topics, rounded", tuple(columns), tuple(rows), tuple(notes))


def _tests(found: Redacted) -> Table:
    words = {True: "significant", False: "no"}
    columns = (
        Column("run"),
        Column("against"),
        Column("measure"),
        Column("n", kind="number"),
        Column("difference", kind="number"),
        Column("Bonferroni"),
        Column("Holm"),
    )
    rows = tuple(
        (
            Cell(test.a),
            Cell(test.b),
            Cell(found.labels[test.measure]),
            Cell(str(test.n), test.n),
            number_cell(test.difference, found.decimals),
            Cell(words[test.significant_bonferroni]),
            Cell(words[test.significant_holm]),
        )
        for test in found.tests
    )
    return Table("tests", "Significance tests", columns, rows, (f"{found.correction}.",), row_headers=3)


def _records(found: Redacted) -> dict[str, Records]:
    same = (found.collection, found.edition, found.protocol)
    names = ("collection", "edition", "protocol")
    means = [(*same, each.run, name, mean, each.n[name]) for each in found.means for name, mean in each.means.items()]
    records = {"means": Records((*names, "run", "measure", "mean", "n"), tuple(means))}
    if found.tests:
        columns = ("a", "b", "measure", "n", "difference", "significant_bonferroni", "significant_holm")
        rows = tuple((*same, *(getattr(test, column) for column in columns)) for test in found.tests)
        records["comparison"] = Records((*names, *columns), rows)
    return records
