"""Rows of a paper's tables: systems, commands, and what is missing."""

from __future__ import annotations

from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus
from harness.papers.rows import Available, State
from harness.render.model import Cell, Column, Section, Table, Text

_TOO_FEW = "none: fewer than two of its runs can be made"


def available_section(available: Available) -> Section:
    """Returns a line for each row of the paper's tables, then the commands of the available rows."""
    full = load_corpus(available.corpus)
    states = [row.state() for row in available.rows]
    shown: tuple[State, ...] = ("runs", "in part", "needs", "not implemented", "blocked")
    counts = tuple(states.count(state) for state in shown)
    text: tuple[str, ...] = (
        f"Of {len(states)} rows, {counts[0]} can be run here once their documents are here, {counts[1]} in part; "
        f"{counts[2]} need a resource, {counts[3]} are not implemented and {counts[4]} are blocked.",
        f"The full collection: {_corpus(full)}.",
    )
    if available.instead:
        small = load_corpus(available.instead)
        text = (*text, f"Instead of it: {_corpus(small)}. It does not give the paper's numbers.")
    return Section("Available rows", (Text(text), _rows(available), _commands(available)))


def _corpus(corpus: Corpus) -> str:
    notes = "".join(f"; {note}" for note in corpus.notes)
    return f"corpus {corpus.name} ({corpus.title}{notes}): {corpus.state()}"


def _rows(available: Available) -> Table:
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
    columns = tuple(map(Column, ("table", "row", "system", "runs here", "what the full collection lacks")))
    note = (
        "Yes: the system is built here. In part: the rule that fuses runs is, but some of the runs have to come from "
        "elsewhere. Needs: the code is here, a resource is not. Not implemented: it could be built. Blocked: something "
        "that it needs is not available anywhere."
    )
    return Table("available", "Rows of the paper's tables", columns, tuple(rows), (note,), row_headers=2)


def _commands(available: Available) -> Table:
    instead = [f"instead, on {available.instead}"] if available.instead else []
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
        "For the last collection that the paper has numbers on; for the others change collection= and the files. Files "
        "in capitals are runs that have to come from elsewhere.",
        "A model that is fine-tuned leaves out the judgments of the collection that it is run on: the keys "
        "system.training.leave_out and system.training.collections change with collection=.",
        "A rule that learns is trained on the collection before it, from the runs that the same commands make there.",
    )
    return Table("commands", "Commands that make the runs", columns, rows, notes, row_headers=2, collapsed=True)
