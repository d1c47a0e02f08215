"""The report of runs with private judgments that participants may see; see `harness.experiments.redacted_scores`."""

from __future__ import annotations

import math
from dataclasses import replace

from harness.experiments.evaluate import Evaluation, inputs
from harness.experiments.redacted_scores import Redacted, redacted_to_json
from harness.render.model import Cell, Column, Prose, Records, Section, Table, number_cell
from harness.render.write import Report
from harness.reports.parts import protocol_text, provenance_section


def redacted_report(found: Redacted, evaluation: Evaluation) -> Report:
    """Reports redacted results; uses the evaluation only for the collection, the protocol and the runs' files.

    Examples
    --------
    >>> import harness as h
    >>> from harness.experiments.redacted_scores import redact
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
    title = collection.edition(found.edition).title
    what = Prose((f"{collection.title}; judgments: {title}.", *collection.notes))
    full = inputs(evaluation)
    # Checksums of judgments would confirm guesses; the runs are the participants' own.
    kept = {run.source or run.name for run in evaluation.runs}
    files = {name: digest for name, digest in full.files.items() if name in kept}
    sections = (
        Section("Results", (redacted_means_table(found),)),
        Section("Data and protocol", (what, protocol_text(evaluation.scores[0].protocol))),
        Section("Redactions", (Prose((found.left_out,)),)),
        provenance_section(replace(full, files=files)),
    )
    return Report(
        collection.title, headline, sections, data={"redacted": redacted_to_json(found)}, records=_records(found)
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def redacted_means_table(found: Redacted) -> Table:
    """Returns the rounded means of every run."""
    columns = [Column("run"), *(Column(label, kind="number") for label in found.labels.values())]
    rows = [
        (Cell(each.run), *(number_cell(_number(mean), found.decimals) for mean in each.means.values()))
        for each in found.means
    ]
    notes = (f"Protocol {found.protocol}; edition {found.edition}.",)
    return Table("means", "Means over topics, rounded", tuple(columns), tuple(rows), notes)


def _records(found: Redacted) -> dict[str, Records]:
    same = (found.collection, found.edition, found.protocol)
    names = ("collection", "edition", "protocol", "run", "measure", "mean")
    rows = [(*same, each.run, name, mean) for each in found.means for name, mean in each.means.items()]
    return {"means": Records(names, tuple(rows))}
