"""The report of runs with private judgments that participants may see; see `harness.experiments.redacted_scores`."""

from __future__ import annotations

from dataclasses import replace

from harness.experiments.evaluate import Evaluation, inputs
from harness.experiments.redacted_scores import Redacted, redacted_to_json
from harness.render.model import Cell, Column, Prose, Records, Section, Table, number_cell
from harness.render.write import Report
from harness.reports.parts import protocol_text, provenance_section


def redacted_report(redacted: Redacted, evaluation: Evaluation) -> Report:
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
    first, label = next(iter(redacted.labels.items()))
    best = redacted.means[0]
    shown = number_cell(best.means[first], redacted.decimals).text
    runs = f"{len(redacted.means)} run{'s' if len(redacted.means) > 1 else ''}"
    headline = f"{runs} on {redacted.collection} (edition {redacted.edition}): {label} {shown} by {best.run}"
    title = collection.edition(redacted.edition).title
    what = Prose((f"{collection.title}; judgments: {title}.", *collection.notes))
    full = inputs(evaluation)
    # Checksums of judgments would confirm guesses; the runs are the participants' own.
    kept = {run.source or run.name for run in evaluation.runs}
    files = {name: digest for name, digest in full.files.items() if name in kept}
    sections = (
        Section("Results", (redacted_means_table(redacted),)),
        Section("Data and protocol", (what, protocol_text(evaluation.scores[0].protocol))),
        Section("Redactions", (Prose((redacted.left_out,)),)),
        provenance_section(replace(full, files=files)),
    )
    return Report(
        collection.title, headline, sections, data={"redacted": redacted_to_json(redacted)}, records=_records(redacted)
    )


def redacted_means_table(redacted: Redacted) -> Table:
    """Returns the rounded means of every run."""
    columns = [Column("run"), *(Column(label, kind="number") for label in redacted.labels.values())]
    rows = [
        (Cell(each.run), *(number_cell(mean, redacted.decimals) for mean in each.means.values()))
        for each in redacted.means
    ]
    notes = (f"Protocol {redacted.protocol}; edition {redacted.edition}.",)
    return Table("means", "Means over topics, rounded", tuple(columns), tuple(rows), notes)


def _records(redacted: Redacted) -> dict[str, Records]:
    same = (redacted.collection, redacted.edition, redacted.protocol)
    names = ("collection", "edition", "protocol", "run", "measure", "mean")
    rows = [(*same, each.run, name, mean) for each in redacted.means for name, mean in each.means.items()]
    return {"means": Records(names, tuple(rows))}
