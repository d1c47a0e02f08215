"""Rows of a paper's tables: systems, commands, and what is missing."""

from __future__ import annotations

from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus
from harness.papers.rows import Available, State
from harness.render.model import Cell, Column, Prose, Section, Table

_TOO_FEW = "none: fewer than two of the fused runs can be made"


def available_section(available: Available) -> Section:
    """Returns a line for each row of the paper's tables, then the commands of the available rows."""
    full = load_corpus(available.corpus)
    states = [row.state() for row in available.rows]
    shown: tuple[State, ...] = ("runs", "in part", "needs", "not implemented", "blocked")
    counts = tuple(states.count(state) for state in shown)
    text: tuple[str, ...] = (
        f"Of {len(states)} rows, {counts[0]} can be run once their documents are available, {counts[1]} in part; "
        f"{counts[2]} need a resource, {counts[3]} are not implemented and {counts[4]} are blocked.",
        f"Full collection: {_corpus_text(full)}.",
    )
    if available.here:
        small = load_corpus(available.here.corpus)
        text = (*text, f"Small replacement: {_corpus_text(small)}. It does not give the paper's numbers.")
    return Section("Available rows", (Prose(text), _rows_table(available), _commands_table(available)))


def _corpus_text(corpus: Corpus) -> str:
    notes = "".join(f"; {note}" for note in corpus.notes)
    return f"corpus {corpus.name} ({corpus.title}{notes}): {corpus.state()}"


def _rows_table(available: Available) -> Table:
    rows = []
    for row in available.rows:
        state = row.state()
        rows.append(
            (
                Cell(row.table),
                Cell(row.label, note=row.note),
                Cell(row.system or "none"),
                Cell("yes" if state == "runs" else state),
                Cell(available.why(row) or "nothing"),
            )
        )
    columns = tuple(map(Column, ("table", "row", "system", "runs", "missing for the full collection")))
    note = (
        "Yes: the system is implemented. In part: the fusion is implemented, but some of its runs must come from "
        "elsewhere. Needs: implemented, but a resource is missing. Not implemented: could be implemented. Blocked: a "
        "required resource is not available anywhere."
    )
    return Table("available", "Rows of the paper's tables", columns, tuple(rows), (note,), row_headers=2)


def _commands_table(available: Available) -> Table:
    instead = [f"on {available.here.corpus}"] if available.here else []
    rows = tuple(
        (
            *(Cell(row.table), Cell(row.label), Cell(available.full(row))),
            *(Cell(available.small(row) or _TOO_FEW) for _ in instead),
        )
        for row in available.rows
        if available.full(row)
    )
    columns = tuple(map(Column, ("table", "row", "on the full collection", *instead)))
    notes = (
        "Commands for the last collection with published numbers; for others change collection= and the files. Files "
        "in capitals are runs that must come from elsewhere.",
        "A fine-tuned model leaves out the judgments of the collection that it is run on: change the keys "
        "system.training.leave_out and system.training.collections together with collection=.",
        "A rule that learns is trained on the preceding collection, from the runs that the same commands make on it.",
    )
    return Table("commands", "Commands of the runs", columns, rows, notes, row_headers=2, collapsed=True)
