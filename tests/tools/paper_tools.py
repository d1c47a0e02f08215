"""Reports of papers, and messages of their faults."""

from __future__ import annotations

from collections.abc import Callable

from harness.papers.paper import load_paper
from harness.papers.report.paper import paper_report
from harness.papers.reproduce import recompute_paper
from harness.render.model import Table
from harness.render.write import Report
from harness.store.provenance import provenance

Tiny = Callable[..., str]


def report_of(key: str, alpha: float = 0.05) -> Report:
    paper = load_paper(key)
    checksums = {file.name: file.sha256 for file in paper.files()}
    return paper_report(recompute_paper(paper), provenance(checksums, ["harness"]), alpha)


def table_of(report: Report, name: str) -> Table:
    (table,) = (table for table in report.tables() if table.id == name)
    return table


def grid(table: Table) -> list[list[str]]:
    return [[column.full_title for column in table.columns], *([cell.text for cell in row] for row in table.rows)]
