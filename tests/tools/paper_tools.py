"""Reports of papers, and messages of their faults."""

from __future__ import annotations

from collections.abc import Callable

from refusals import refusal

from harness.papers.paper import load_paper
from harness.papers.report.paper import paper_report
from harness.papers.reproduce import recompute_paper
from harness.render.model import Table
from harness.render.write import Report
from harness.store.provenance import provenance

message = refusal
Tiny = Callable[..., str]


def report_of(key: str) -> Report:
    return paper_report(recompute_paper(load_paper(key)), provenance({}, ["harness"]))


def table_of(report: Report, name: str) -> Table:
    (table,) = (table for table in report.tables() if table.id == name)
    return table


def grid(table: Table) -> list[list[str]]:
    return [[column.title for column in table.columns], *([cell.text for cell in row] for row in table.rows)]
