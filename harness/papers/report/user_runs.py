"""Sources and checksums of runs that are not the archived ones."""

from __future__ import annotations

from harness.papers.user_runs import Brought
from harness.render.model import Block, Cell, Column, Prose, Section, Table


def brought_section(brought: Brought) -> Section | None:
    """Returns a line for each run; None if all runs are the archived ones."""
    if not brought.runs:
        return None
    rows = tuple(
        (
            Cell(run.row.table),
            Cell(run.row.label),
            Cell(run.collection),
            Cell(run.name),
            Cell(run.origin),
            Cell(run.source),
            Cell(run.run.sha256),
        )
        for run in brought.runs
    )
    names = ("table", "row", "collection", "run", "origin", "file", "SHA-256")
    notes = (
        "Brought: a file of the map, which replaces the archived run of its row. Made here: made by the row's command "
        "on the whole corpus, as its metadata file proves. Fused: computed from the named runs.",
    )
    blocks: list[Block] = [Prose(brought.notes)] if brought.notes else []
    table = Table("brought", "Runs besides the archived ones", tuple(map(Column, names)), rows, notes, row_headers=2)
    return Section("Sources of the runs", (*blocks, table))


def brought_data(brought: Brought) -> dict[str, object]:
    """Returns the sources of runs for the JSON document; empty if all are the archived ones."""
    runs = [
        {
            "table": run.row.table,
            "row": run.row.label,
            "collection": run.collection,
            "run": run.name,
            "origin": run.origin,
            "source": run.source,
            "sha256": run.run.sha256,
        }
        for run in brought.runs
    ]
    return {"brought": runs} if runs else {}
